/*
 * How much memory each MPS process has on a unit, and whether the unit is lost: figures of NVML, all of one moment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/pack.h"
#include "base/list.h"
#include "gpu/nvml_pool.h"
#include "mps/supervisor/daemons.h"

struct mps_usage_process {
        pid_t pid;
        uint64_t memory; /* UINT64_MAX: not known */
};
/* If NVML does not answer, the last figures stay; older than this they are dropped. */
#define MPS_USAGE_FRESH_MS INT64_C(10000)
/* The figures of one unit. */
struct mps_usage {
        struct arena arena;
        int64_t asked_at; /* when NVML was asked, in milliseconds of the monotonic clock */
        const char *lost; /* why the unit does not exist any more, or NULL */
        const struct mps_usage_process *processes;
        size_t n_processes;
};
/* Asks NVML: fills |lost| and |processes|. A unit is "lost" only if that is certain. */
void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, const char *uuid);
/* Writes or reads what mps_usage_read() has filled. */
void mps_usage_pack(struct pack *pack, struct mps_usage *usage);
struct mps_usage *mps_usage_free(struct mps_usage *usage); /* accepts NULL, returns NULL */
static inline bool mps_usage_is_fresh(const struct mps_usage *usage, int64_t now)
{
        return usage && now - usage->asked_at <= MPS_USAGE_FRESH_MS;
}
/* True if both have the same figures, whenever these were read. */
bool mps_usage_is_same(const struct mps_usage *a, const struct mps_usage *b);
/* UINT64_MAX: unknown, or too old. */
uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, pid_t pid);

/* The figures of the units that daemons have. Each unit has requests of its own, so one that hangs delays no other. */
struct mps_usages {
        struct nvml_pool *nvml; /* NULL: closed */
        const struct mps_daemons *daemons;
        struct mps_record_owner owner;
        struct list units;
        unsigned int polls;
        bool has_clients; /* at the last poll */
};
void mps_usages_done(struct mps_usages *usages);
/* Asks NVML for the units of daemons that run, and reports to a daemon that its unit is lost. */
void mps_usages_poll(struct mps_usages *usages);
/* UINT64_MAX: unknown, or too old. |uuid| NULL: on any unit. */
uint64_t mps_usages_memory(const struct mps_usages *usages, const char *uuid, pid_t pid);
