// SPDX-License-Identifier: Apache-2.0
/*
 * The base of all other parts of the ledger: the options, the plan, the MPS daemons, the resources under MPS and
 * kubelet's holdings. ledger.c owns it, opens it and closes it; the others read it, and call the functions of its three
 * objects.
 */
#pragma once

#include "node/ledger/daemons.h"
#include "node/ledger/holdings.h"
#include "node/ledger/mps_resources.h"
#include "node/ledger/pod_source.h"

struct ledger_core {
        struct ledger_options options; /* without the config, which may be gone */
        const struct plan *plan;       /* in force; NULL: this agent does not serve */
        uint64_t incarnation;          /* random, and another one each time that this agent serves */
        struct daemons daemons;
        struct mps_resources resources;
        struct holdings holdings;
        struct pod_source pods;
        bool is_closing;
};

struct ledger_time ledger_now(const struct ledger_core *core);
int64_t ledger_clock(const struct ledger_core *core); /* ledger_time.clock */

/* The id of an allocation: unique, since it has the incarnation and a number of that incarnation. */
#define LEDGER_ID_SIZE ((size_t)40)
void ledger_write_id(const struct ledger_core *core, char ret[static LEDGER_ID_SIZE], uint64_t number);
/* Whether the allocation was made in this incarnation. */
bool ledger_has_made(const struct ledger_core *core, const struct allocation *allocation);

/* The tier that the plan expects, or a lower one if the unit's daemon cannot do that. */
enum mps_tier ledger_tier(const struct ledger_core *core, const struct resource *resource, const struct unit *unit);

/* An allocation under MPS, with all that the ledger knows of it. */
struct ledger_share {
        const struct mps_resource *shared;
        const struct allocation *allocation;
        const struct unit *unit;     /* that it is bound to; NULL: to none, or to one that the resource lacks */
        const struct holder *holder; /* the container that holds a device of it, or NULL */
};

/*
 * All of them in |arena|, by resource, from the oldest to the newest. Valid until the allocations or the holders
 * change.
 */
size_t ledger_shares(const struct ledger_core *core, struct arena *arena, const struct ledger_share **ret);

/* The unit as DRA claims can have it; NULL: they cannot. */
const struct unit *ledger_claimable_unit(const struct ledger_core *core, const char *uuid);
