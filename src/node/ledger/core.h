/*
 * The base of all other parts of the ledger: the options, the plan, the MPS daemons, the resources under MPS and
 * kubelet's holdings. ledger.c owns it, opens it and closes it; the others read it, and call the functions of its three
 * objects.
 */
#pragma once

#include "node/ledger/daemons.h"
#include "node/ledger/holdings.h"
#include "node/ledger/mps_resources.h"

struct ledger_core {
        struct ledger_options options; /* without the config, which may be gone */
        const struct plan *plan;       /* in force; NULL: this agent does not serve */
        uint64_t incarnation;          /* random, and another one each time that this agent serves */
        struct daemons daemons;
        struct mps_resources resources;
        struct holdings holdings;
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

/* The container that holds a device of the allocation, or NULL. */
const struct holder *ledger_holder_of(
        const struct ledger_core *core, const struct mps_resource *shared, const struct allocation *allocation);

/* The unit as DRA claims can have it; NULL: they cannot. */
const struct unit *ledger_claimable_unit(const struct ledger_core *core, const char *uuid);
