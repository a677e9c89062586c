/*
 * The limit of the memory that all processes of one container together have on one GPU: NVML's memory limits of a cgroup, driver 615
 * and newer (nvmlDeviceSetMemoryLimits_v1; NVIDIA's MPS manual, "MPS v3 Memory Partitioning"). Which container is to have which
 * limit is mps/supervisor/memory_limits.h's matter.
 *
 * Nothing tells beforehand whether a driver does it here (cgroup v2, no MIG, accounting not switched off), and one that does not may
 * answer a question for a limit as one that has none set. So it is tried: what was set is read back, and only that counts.
 *
 * The hard limit alone is set. A soft one would keep memory for the container, but every folder above would have to reserve it,
 * too, and keep it reserved after the folder of a container is gone (the same page, "Ancestor reservation"). Without soft limits
 * nothing stays behind: the kernel ends the limit with the folder. And no client is evicted for another, since none of them is
 * within its soft limit.
 */
#pragma once

#include "gpu/nvml.h"
#include "mps/wire/status.h"

enum memory_limit_outcome {
        MEMORY_LIMIT_DONE,
        MEMORY_LIMIT_GONE,   /* the folder is no longer there, and with it the limit */
        MEMORY_LIMIT_CANNOT, /* this driver does not do it here: |err| says why */
        MEMORY_LIMIT_FAILED, /* |err| says why; it may work later */
};

/*
 * Takes the limit of a container away if it is there: another one is not ours, and stays. On whatever thread; |folder| is the cgroup's in the
 * mounts of this process.
 */
enum memory_limit_outcome memory_limit_clear(const struct nvml *nvml, const struct mps_container_limit *limit,
        const char *folder, struct error *err) MUST_USE;
