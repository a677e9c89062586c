// SPDX-License-Identifier: Apache-2.0
/*
 * The resources under MPS and their allocations, the files in which the allocations survive the agent, and which device
 * ids are unavailable.
 *
 * A resource name may stand here several times: once under the sharing policy of the plan, and once for each previous
 * policy under which containers still hold something (plan/rollout.h). The latter drain: they take no new request,
 * except one for their own ids, which the plan's resource does not have. Example: nvidia.com/gpu was changed from 4 to
 * 10 replicas while pod "train" held GPU-0::1. Until it ends, there are two entries of that name, and "train" counts in
 * the draining one.
 *
 * All allocations of a name are written to <MPS directory>/allocations-<resource>.json a moment after each change, so
 * that no answer to kubelet waits for the disk. After a crash, kubelet's list has what the file lacks.
 */
#pragma once

#include "base/clock.h"
#include "base/log.h"
#include "base/io/loop.h"
#include "node/ledger/daemons.h"
#include "node/ledger/ledger.h"

struct mps_resource {
        const struct resource *resource; /* of the plan in force */
        struct allocations *allocations;
        bool *unavailable; /* by position in resource->devices */
        bool is_changed;   /* since it was written */
        bool is_draining;  /* |resource| has a previous sharing policy */
};

struct mps_resources {
        const struct ledger_options *options;
        const struct daemons *daemons;
        char *directory; /* the MPS root as mounted here */
        struct mps_resource *all;
        size_t count;
        uv_timer_t save_timer;
        struct backoff save_backoff;
        struct complaint bad_file;
};

void mps_resources_init(struct mps_resources *resources, const struct ledger_options *options,
        const struct daemons *daemons, const char *directory);
/* Writes what is not written yet. */
void mps_resources_close(struct mps_resources *resources, struct closing *closing);
void mps_resources_done(struct mps_resources *resources); /* when all of |closing| has closed */

/*
 * Takes the resources of |plan|; their allocations stay, or are read from the files. The previous plan must be valid
 * during the call.
 */
void mps_resources_apply(struct mps_resources *resources, const struct plan *plan);
/* Another agent serves. Nothing is written any more. */
void mps_resources_forget(struct mps_resources *resources);

/* All of them, also those that drain. Valid until the next plan. */
struct mps_resource *mps_resources_all(const struct mps_resources *resources, size_t *ret_count);
size_t mps_resources_count(const struct mps_resources *resources);
/* The one that does not drain. By name, because a caller may still have the resource of the previous plan; or NULL. */
struct mps_resource *mps_resources_find(const struct mps_resources *resources, const char *name);
/* Like mps_resources_find(), but returns the draining resource if only that one has the first of the ids. */
struct mps_resource *mps_resources_find_for(
        const struct mps_resources *resources, const char *name, const char *const *ids, size_t n_ids);

size_t mps_resources_count_allocations(const struct mps_resources *resources);

/* How many replicas of |unit| the allocation has. */
unsigned int mps_resource_replicas(
        const struct mps_resource *shared, const struct allocation *allocation, const struct unit *unit);

/* The allocations have changed: they will be written, and on_change() is called. */
void mps_resources_note_change(struct mps_resources *resources, struct mps_resource *shared);
/* Daemons have changed: decides again which ids are unavailable. */
void mps_resources_update(struct mps_resources *resources);
/* The health of the unit has changed: updates the resources that have the unit, and calls on_change() for each. */
void mps_resources_update_unit(struct mps_resources *resources, const char *uuid);

/*
 * Names the unit in each of |held| whose allocation is bound to another unit than its id names, since ids are tokens.
 * The allocations are those of the plan, or, before the first plan, those in the files: the first rollout needs the
 * units (rule 4 of plan/rollout.h).
 */
void mps_resources_name_units(
        const struct mps_resources *resources, struct arena *arena, struct rollout_held *held, size_t n_held);
void mps_resources_name_recorded_units(
        const struct mps_resources *resources, struct arena *arena, struct rollout_held *held, size_t n_held);

/*
 * Allocations that |holders| do not have and that are older than |as_of| (ledger_time.clock) have ended; what |holders|
 * have besides is entered. |inventory|: the GPUs that the node has now.
 */
void mps_resources_sync(struct mps_resources *resources, struct mps_resource *shared, const struct holders *holders,
        const struct inventory *inventory, int64_t as_of);
