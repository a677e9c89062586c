// SPDX-License-Identifier: Apache-2.0
/*
 * How much memory each MPS process has on a unit, and whether the unit is lost: figures of NVML, all of one moment. If
 * NVML does not answer, the last figures stay until they are older than MPS_USAGE_FRESH_MS.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "gpu/nvml_pool.h"
#include "mps/supervisor/daemon.h"

#define MPS_USAGE_FRESH_MS INT64_C(10000)

/* The figures of the units that daemons have. Each unit has requests of its own, so one that hangs delays no other. */
struct mps_usages {
        struct nvml_pool *nvml; /* NULL: closed */
        const struct mps_daemons *daemons;
        struct mps_record_owner owner;
        struct list units;
        unsigned int polls;
        bool has_clients; /* at the last poll */
};

void mps_usages_init(struct mps_usages *usages, struct nvml_pool *nvml, const struct mps_daemons *daemons,
        const struct mps_record_owner *owner);
/* |nvml| has been closed. */
void mps_usages_done(struct mps_usages *usages);
/* Asks NVML for the units of daemons that run, and reports to a daemon that its unit is lost, if that is certain. */
void mps_usages_poll(struct mps_usages *usages);
/* UINT64_MAX: unknown, or too old. |uuid| NULL: on any unit. */
uint64_t mps_usages_memory(const struct mps_usages *usages, const char *uuid, pid_t pid);
