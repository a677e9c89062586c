// SPDX-License-Identifier: Apache-2.0
/*
 * For provisioning: declared, reads the share that a container declares in its pod's object. Pure.
 *
 *   threads   the container's CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, else the annotation warpshare.dev/threads.<container>,
 *             else warpshare.dev/threads: percent, "60" or "2.5", with or without a percent sign
 *   memory    the container's CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, else the annotation warpshare.dev/memory.<container>,
 *             else warpshare.dev/memory: of each of its GPUs, "20Gi", "512Mi", "20G"
 *   priority  the container's CUDA_MPS_CLIENT_PRIORITY, else the annotation warpshare.dev/priority.<container>, else
 *             warpshare.dev/priority: 0 is normal, 1 below normal; a program may raise its own again
 *
 * Where none of these says how much memory, NVIDIA's own dialect does, as kai-scheduler/kai-gpu-fractioning and
 * NVIDIA's container toolkit 1.20.1 have it:
 *
 *   nvidia.com/container.<container>.gpu-memory.limit, .request   annotations: quantities, rounded up to MiB
 *   NVIDIA_GPU_MEMORY_LIMIT, NVIDIA_GPU_MEMORY_REQUEST            variables of the container: numbers of MiB; an
 *                                                                 annotation counts more
 *
 * One of the two alone is both. The limit is what the container gets and what it is accounted with: a request below it
 * has no effect, since memory that others may take is never promised twice (docs/decisions/0008-request-and-limit.md).
 * What else the dialect has (gpu-compute.mode time-slicing, gpu-compute.portion, gpus.devices) is named as a fault.
 *
 * Without a declaration of threads or memory, a container gets the value for k of N replicas. No container gets more
 * than the ceilings maxThreads and maxMemory. A variable of the container is set by its pod; an annotation becomes a
 * variable when the container starts. A pod's variables cannot change, but its annotations can: the ones at that moment
 * count.
 *
 * A variable whose value is not in the pod's object (valueFrom, envFrom, $(…)) has effect at the driver, but its value
 * is not known here.
 */
#pragma once

#include <jansson.h>

#include "plan/mps_limits.h"

#define DECLARED_THREADS "warpshare.dev/threads"
#define DECLARED_MEMORY "warpshare.dev/memory"
#define DECLARED_PRIORITY "warpshare.dev/priority"

struct declared {
        bool is_known;                 /* the pod was read; false: all fields below are unset */
        unsigned int threads_permille; /* 0: not declared */
        bool has_own_threads;          /* by a variable of the container */
        uint64_t memory_mib;           /* by an annotation; 0: not declared */
        const char *own_memory;        /* the variable's value, or NULL */
        bool has_own_memory;           /* by a variable of the container, with any value */
        const char *priority;          /* "CUDA_MPS_CLIENT_PRIORITY=1" by an annotation, or NULL */
        bool is_unclear;               /* the values of its variables are not known */
        const char *fault;             /* the first value that has no effect, with its place and why; NULL: none */
};

/*
 * Reads what |container| of |pod|, a Pod of the API, declares, into |arena|. The result is empty if the pod lacks the
 * container.
 */
struct declared declared_read(struct arena *arena, const json_t *pod, const char *container);

/* The value of |part| for a container that declares |said|; |ordinal|: of its GPU among those of the container. */
struct share declared_share(const struct declared *said, const struct mps_part *part, size_t ordinal);

/* MPS_LIMITS_NO_*: variables that need not be set for a container with |n_parts| parts, since it has them anyway. */
unsigned int declared_omits(const struct declared *said, size_t n_parts);
