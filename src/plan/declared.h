// SPDX-License-Identifier: Apache-2.0
/*
 * For provisioning: declared, reads the share that a container declares in its pod's object. Pure.
 *
 *   threads   the container's CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, else the annotation warpshare.dev/threads.<container>,
 *             else warpshare.dev/threads: percent, "60" or "2.5", with or without a percent sign
 *   memory    the container's CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, else the annotation warpshare.dev/memory.<container>,
 *             else warpshare.dev/memory: of each of its GPUs, "20Gi", "512Mi", "20G"
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

struct declared {
        bool is_known;                 /* the pod was read; false: all fields below are unset */
        unsigned int threads_permille; /* 0: not declared */
        bool has_own_threads;          /* by a variable of the container */
        uint64_t memory_mib;           /* by an annotation; 0: not declared */
        const char *own_memory;        /* the variable's value, or NULL */
        bool has_own_memory;           /* by a variable of the container, with any value */
        bool is_unclear;               /* the values of its variables are not known */
        const char *fault;             /* an invalid value, with its place and what to do; NULL: none */
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
