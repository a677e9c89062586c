/*
 * provisioning declared: what a container says of its own share, by its pod's object. Pure.
 *
 *   threads   the container's CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, else the annotation warpshare.dev/threads.<container>, else
 *             warpshare.dev/threads: percent, "60" or "2.5", with or without a percent sign
 *   memory    the container's CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, else the annotation warpshare.dev/memory.<container>, else
 *             warpshare.dev/memory: of each of its GPUs, "20Gi", "512Mi", "20G"
 *
 * Whoever says nothing of threads or of memory has what k of N replicas are worth, and nobody has more than the ceilings maxThreads and
 * maxMemory. A variable of the container is there without us; an annotation becomes one when the container starts. A pod's variables are
 * fixed, its annotations are not: those count that the pod has at that moment.
 *
 * A variable whose value is not in the pod's object (valueFrom, envFrom, $(…)) is its own affair: it counts at the driver, and what it says is not
 * known here.
 */
#pragma once

#include <jansson.h>

#include "share/mps_limits.h"

#define DECLARED_THREADS "warpshare.dev/threads"
#define DECLARED_MEMORY "warpshare.dev/memory"

struct declared {
        bool is_known;                 /* the pod was read; else all of the below is nothing */
        unsigned int threads_permille; /* 0: nothing is said */
        bool has_own_threads;          /* by a variable of the container */
        uint64_t memory_mib;           /* by an annotation; 0: nothing is said */
        const char *own_memory;        /* the variable's value, or NULL */
        bool has_own_memory;           /* by a variable of the container, whatever it says */
        bool is_unclear;               /* what its variables say is not known */
        const char *fault;             /* a value that cannot be used, with its place and the way out; NULL: none */
};

/* What |container| of |pod|, a Pod of the API, says. In |arena|. Where there is no such container, it says nothing. */
struct declared declared_read(struct arena *arena, const json_t *pod, const char *container);

/*
 * What |part| is worth to a container that says |said|; |ordinal|: of its GPU among those of the container.
 */
struct share declared_share(const struct declared *said, const struct mps_part *part, size_t ordinal);

/* MPS_LIMITS_NO_*: what need not be told to a container that has |n_parts| parts, since it has that anyway. */
unsigned int declared_omits(const struct declared *said, size_t n_parts);
