/*
 * How much memory each MPS process has on each unit, and which units are lost: figures of NVML, all of one moment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "gpu/nvml_queue.h"

struct mps_usage_process {
        pid_t pid;
        uint64_t memory; /* UINT64_MAX: not known */
};
struct mps_usage_unit {
        const char *uuid;
        const char *lost; /* why the unit does not exist any more, or NULL */
        struct mps_usage_process *processes;
        size_t n_processes;
};
/* If an NVML call hangs, the last figures stay; older than this they are dropped. */
#define MPS_USAGE_FRESH_MS INT64_C(10000)
/* Figures of one moment. */
struct mps_usage {
        struct arena arena;
        int64_t asked_at; /* when NVML was asked, in milliseconds of the monotonic clock */
        struct mps_usage_unit *units;
        size_t n_units;
};
/* Asks NVML about |units| on its thread; fills |lost| and |processes|. A unit is "lost" only if that is certain. */
void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, bool *ret_reopen);
struct mps_usage *mps_usage_free(struct mps_usage *usage); /* accepts NULL, returns NULL */
static inline bool mps_usage_is_fresh(const struct mps_usage *usage, int64_t now)
{
        return usage && now - usage->asked_at <= MPS_USAGE_FRESH_MS;
}
/* The same figures, whenever they were read. */
bool mps_usage_is_same(const struct mps_usage *a, const struct mps_usage *b);
/* UINT64_MAX: unknown, or too old. |uuid| NULL: on any unit. */
uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, const char *uuid, pid_t pid);
