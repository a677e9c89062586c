/*
 * The limit of the memory that all processes of one container together have on one GPU: NVML's memory limits of a
 * cgroup, driver 615 and newer (nvmlDeviceSetMemoryLimits_v1; NVIDIA's MPS manual, "MPS v3 Memory Partitioning"). Which
 * container is to have which limit is mps/supervisor/memory_limits.h's matter.
 *
 * There is no way to ask whether a driver supports this here (cgroup v2, no MIG, accounting not switched off). Asked
 * for a limit, a driver without support may answer like one with no limit set. So the limit is set and read back, and
 * only that counts.
 *
 * Only the hard limit is set. A soft limit would reserve memory for the container, but every parent folder would have
 * to reserve it, too, and would keep it after the container's folder is gone (the same page, "Ancestor reservation").
 * Without soft limits nothing is left behind: the limit ends with the folder. And no client is evicted in favour of
 * another, since none is within a soft limit.
 */
#pragma once

#include "gpu/nvml.h"
#include "mps/wire/status.h"

enum memory_limit_outcome {
        MEMORY_LIMIT_DONE,
        MEMORY_LIMIT_GONE,   /* the folder does not exist any more, and so does not the limit */
        MEMORY_LIMIT_CANNOT, /* this driver does not support it here: |err| says why */
        MEMORY_LIMIT_FAILED, /* |err| says why; it may work later */
};

/*
 * Takes the limit of a container away if it is there: another one is not ours, and stays. It may block; |folder|
 * is the cgroup's in the mounts of this process.
 */
enum memory_limit_outcome memory_limit_clear(const struct nvml *nvml, const struct mps_container_limit *limit,
        const char *folder, struct error *err) MUST_USE;
