// SPDX-License-Identifier: Apache-2.0
/*
 * The MPS daemons as the ledger sees them: which are wanted, what the supervisor reports of them, and whether that
 * report is about the daemons that are wanted now.
 *
 * Each set of wanted daemons has a generation, a number that grows. The supervisor reports the generation that it has
 * received. Example: generation 7 changes the settings of GPU-0's daemon and leaves GPU-1's as it is. Until the
 * supervisor reports generation 7, GPU-0's daemon does not count as ready, because the report may be about the previous
 * daemon, which is about to end. GPU-1's daemon counts as reported all the time.
 */
#pragma once

#include "mps/client/link.h"
#include "plan/plan.h"

struct daemons {
        struct mps_link *link;
        const struct mps_status *status; /* borrowed from the link; NULL: no supervisor is connected */
        struct mps_wanted wanted;
        struct arena wanted_arena;
        uint64_t generation; /* of |wanted| */
        struct map renewed;  /* UUIDs of units whose daemon is wanted otherwise than in the reported generation */
        struct arena renewed_arena;
};

int daemons_init(struct daemons *daemons, const struct mps_link_options *link, struct error *err) MUST_USE;
/* Frees all but the link, which the caller closes before. */
void daemons_done(struct daemons *daemons);

/* For requests to the supervisor. */
struct mps_link *daemons_link(const struct daemons *daemons);

/* Generations are at least |least| from now on. The date makes them larger than those of any earlier agent. */
void daemons_raise_generation(struct daemons *daemons, uint64_t least);

/* Whether exactly these daemons are wanted already, and whether any is. */
bool daemons_are_wanted(const struct daemons *daemons, const struct mps_wanted *wanted);
bool daemons_any_wanted(const struct daemons *daemons);

/* Makes |wanted| the next generation; daemons_send() sends it to the supervisor. */
void daemons_want(struct daemons *daemons, const struct mps_wanted *wanted);
void daemons_send(const struct daemons *daemons);

/* Another agent wants daemons now. */
void daemons_forget(struct daemons *daemons);

/* From mps_link_options.on_status. */
void daemons_set_status(struct daemons *daemons, const struct mps_status *status);
const struct mps_status *daemons_status(const struct daemons *daemons); /* NULL: no supervisor is connected */

/* The reported daemon of the unit, or of that name; NULL: none. */
const struct mps_daemon_status *daemons_find(const struct daemons *daemons, const char *unit);
const struct mps_daemon_status *daemons_find_by_name(const struct daemons *daemons, const char *name);

/* Whether the status is about all wanted daemons, or at least about that of |unit|. The latter requires a status. */
bool daemons_are_current(const struct daemons *daemons);
bool daemons_is_current(const struct daemons *daemons, const char *unit);

/* Whether the unit needs no daemon, or its daemon is ready as it is wanted now. */
bool daemons_is_ready(const struct daemons *daemons, const struct unit *unit);
