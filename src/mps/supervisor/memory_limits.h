// SPDX-License-Identifier: Apache-2.0
/*
 * The limit of the memory that all processes of one container together have on one GPU: NVML's memory limits of a
 * cgroup, driver 615 and newer (nvmlDeviceSetMemoryLimits_v1; NVIDIA's MPS manual, "MPS v3 Memory Partitioning"). This
 * object decides which containers get one, has it set by a process with NVML, and has all read back now and then.
 *
 * A container gets a limit when the first of its processes is seen as a client in its namespace. The namespace
 * identifies the allocation; this is safe, because a container has the folder of only one namespace mounted and cannot
 * reach another's. The cgroup of the process identifies the container. Nothing that the tenant says is used. Before
 * that, each process has the limit of its namespace, which is the same number; with the cgroup the limit holds for all
 * processes together.
 *
 * A limit stays as long as its allocation, even while the container has no client. It is removed when the allocation is
 * released, and forgotten when the container's folder is gone.
 *
 * A driver cannot be asked whether it supports this here (cgroup v2, no MIG, accounting not switched off). Asked for a
 * limit, a driver without support may answer like one with no limit set. So the limit is set and read back, and only
 * that counts.
 *
 * Only the hard limit is set. A soft limit would reserve memory for the container, but every parent folder would have
 * to reserve it, too, and would keep it after the container's folder is gone (the same page, "Ancestor reservation").
 * Without soft limits nothing is left behind: the limit ends with the folder. And no client is evicted in favour of
 * another, since none is within a soft limit.
 */
#pragma once

#include "base/list.h"
#include "gpu/nvml_pool.h"
#include "mps/supervisor/record.h"

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

#define MPS_MEMORY_LIMITS_MAX ((size_t)65536)

/* The limit of one container. */
struct mps_memory_limit {
        struct list link; /* limits->items */
        struct mps_memory_limits *limits;
        struct arena arena;                /* for the texts of |status| */
        struct mps_container_limit status; /* its limit is in force if it was read back so */
        struct error problem;              /* the last one */
        bool is_void;                      /* its allocation is gone, so it must be removed */
        bool is_due;                       /* to be set, cleared or read back */
        bool is_asked;
        bool was_tried; /* since we started */
        bool was_void;  /* at that attempt */
        struct nvml_request request;
};

struct mps_memory_limits {
        struct list items;
        size_t n_items;
        bool is_shorter;         /* since the last report to |owner| */
        struct nvml_pool *nvml;  /* NULL: closed */
        const char *system_root; /* mps/supervisor/process.h */
        struct mps_record_owner owner;
};

void mps_memory_limits_init(struct mps_memory_limits *limits, struct nvml_pool *nvml, const char *system_root,
        const struct mps_record_owner *owner);
/* |nvml| has been closed. */
void mps_memory_limits_done(struct mps_memory_limits *limits);

/* Takes over the limits on record. Call it once, and first. */
void mps_memory_limits_restore(
        struct mps_memory_limits *limits, const struct mps_container_limit *recorded, size_t n_recorded);

/*
 * Adds the containers that are clients in a namespace now. A daemon of another tier adds none, nor does one with
 * several units or a MIG device, for which drivers have no such limit. True if there is a new one.
 */
bool mps_memory_limits_add(
        struct mps_memory_limits *limits, const struct mps_daemon_status *daemon, const struct mps_record *granted);

/*
 * Has NVML set the limits that are due and clear those whose allocation is not in |granted|; with |checks_all| it reads
 * back the others, too. They must be on record, so that a limit survives its supervisor.
 */
void mps_memory_limits_start(struct mps_memory_limits *limits, const struct mps_record *granted, bool checks_all);
void mps_memory_limits_fill_record(const struct mps_memory_limits *limits, struct mps_record *record);
/* Adds the limits on its units to the status of |daemon|. */
void mps_memory_limits_describe(
        const struct mps_memory_limits *limits, struct arena *arena, struct mps_daemon_status *daemon);
