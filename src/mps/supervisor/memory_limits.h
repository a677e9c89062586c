/*
 * Decides which containers get a memory limit on a unit, and what must be done for it. Pure: values in, values out;
 * mps/supervisor/memory_limit.h calls NVML.
 *
 * A container gets a limit when the first of its processes is seen as a client in its namespace. The namespace
 * identifies the allocation; this is safe, because a container has the folder of only one namespace mounted and cannot
 * reach another's. The cgroup of the process identifies the container. Nothing that the tenant says is used. Before
 * that, each process has the limit of its namespace, which is the same number; with the cgroup the limit holds for all
 * processes together.
 *
 * A limit stays as long as its allocation, even while the container has no client. It is removed when the allocation is
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
 * Adds the containers that are clients in a namespace now. A daemon of another tier adds none, nor does one with
 * several units or a MIG device, for which drivers have no such limit. True if there is a new one.
 */
bool mps_memory_limits_add(struct mps_memory_limits *limits, const struct mps_daemon_status *daemon,
        const struct mps_record_allocation *allocations, size_t n_allocations);

/* The limit must be set or removed now, not only checked at intervals. */
static inline bool mps_memory_limit_is_due(const struct mps_memory_limit *limit, bool is_void)
{
        return !limit->was_tried || limit->was_void != is_void;
}

/* Its allocation no longer exists, so the limit must be removed. */
bool mps_memory_limit_is_void(
        const struct mps_memory_limit *limit, const struct mps_record_allocation *allocations, size_t n_allocations);

/* Stores the outcome of an attempt. False: the limit is finished and must be forgotten. */
bool mps_memory_limit_take(struct mps_memory_limit *limit, struct arena *arena, bool was_void,
        enum memory_limit_outcome outcome, const char *problem);

/* A copy of the limits for which |keeps| is true. */
void mps_memory_limits_keep(struct mps_memory_limits *limits, const bool *keeps);
