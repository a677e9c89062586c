/*
 * Which containers are to have a limit of their memory on a unit, and what is to be done for it. Pure: values in, values out; NVML is
 * asked by mps/supervisor/memory_limit.h.
 *
 * A container gets one when the first of its processes is seen as a client in its namespace. The namespace says which allocation it is,
 * and that is safe: a container has the folder of one namespace mounted and cannot come to another's; the cgroup of the process says
 * which container. No word of the tenant is needed. Until then each process of it has the limit of its namespace, which is the
 * same number; what the cgroup adds is that it holds for all processes together.
 *
 * A limit stays while its allocation does, whether or not the container has a client at the moment. It is taken away when the allocation is
 * released, and forgotten when the container's folder is gone.
 */
#pragma once

#include "mps/supervisor/memory_limit.h"
#include "mps/supervisor/record.h"

struct mps_memory_limit {
        struct mps_container_limit told; /* as everybody may know it: in force is what was read back so */
        bool was_tried;                  /* since we started */
        bool was_void;                   /* at that attempt */
        char *room;                      /* for the next problem; NULL: none yet */
};

#define MPS_MEMORY_LIMITS_MAX ((size_t)65536)

struct mps_memory_limits {
        struct arena arena;
        struct mps_memory_limit *items;
        size_t n_items;
};

void mps_memory_limits_done(struct mps_memory_limits *limits);

/* As they are on record. To be called once, and first. */
void mps_memory_limits_restore(
        struct mps_memory_limits *limits, const struct mps_container_limit *recorded, size_t n_recorded);

/*
 * Adds those of containers that are clients in a namespace now. |daemon| has no part in it where its tier is another one, where it
 * has several units, or a MIG device, which drivers know no such limits for. True if there is a new one.
 */
bool mps_memory_limits_add(struct mps_memory_limits *limits, const struct mps_daemon_status *daemon,
        const struct mps_record_allocation *allocations, size_t n_allocations);

/* Something is to be done for it now, and not only looked at now and then. */
static inline bool mps_memory_limit_is_due(const struct mps_memory_limit *limit, bool is_void)
{
        return !limit->was_tried || limit->was_void != is_void;
}

/* Its allocation is there no longer: it is to be taken away. */
bool mps_memory_limit_is_void(
        const struct mps_memory_limit *limit, const struct mps_record_allocation *allocations, size_t n_allocations);

/* What came of an attempt. False: the limit is done with, and to be forgotten. */
bool mps_memory_limit_take(struct mps_memory_limit *limit, struct arena *arena, bool was_void,
        enum memory_limit_outcome outcome, const char *problem);

/* A copy without those for which |keeps| is false. */
void mps_memory_limits_keep(struct mps_memory_limits *limits, const bool *keeps);
