/*
 * The limit of the memory that all processes of one container together have on one GPU: NVML's memory limits of a
 * cgroup, driver 615 and newer (nvmlDeviceSetMemoryLimits_v1; NVIDIA's MPS manual, "MPS v3 Memory Partitioning"). These
 * are NVML calls, for any thread; mps/supervisor/memory_limits.h decides which container gets which limit.
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

#include <stdint.h>

#include "gpu/nvml.h"

enum memory_limit_outcome {
        MEMORY_LIMIT_DONE,
        MEMORY_LIMIT_GONE,   /* the folder does not exist any more, and so does not the limit */
        MEMORY_LIMIT_CANNOT, /* this driver does not support it here: |err| says why */
        MEMORY_LIMIT_FAILED, /* |err| says why; it may work later */
};

/* |folder| is the cgroup's folder as mounted in this process. *ret_changed: the limit was not set before. */
enum memory_limit_outcome memory_limit_set(const struct nvml *nvml, const char *uuid, const char *folder, uint64_t mib,
        bool *ret_changed, struct error *err) MUST_USE;

/* Removes the limit if it is |mib|; a different limit is not ours and stays. */
enum memory_limit_outcome memory_limit_clear(
        const struct nvml *nvml, const char *uuid, const char *folder, uint64_t mib, struct error *err) MUST_USE;
