// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/claim_set.h"

#include <string.h>

#include "plan/mps_wanted.h"

const char *claim_daemon_name(
        const struct ledger_core *core, struct arena *arena, const struct ledger_claim_device *device)
{
        const struct unit *unit = ledger_claimable_unit(core, device->unit);

        if (device->daemon || !unit)
                return device->daemon;
        return mps_claimed_daemon_name(arena, core->plan->claimable, unit);
}

static bool is_of_all(const struct ledger_core *core, const char *daemon)
{
        return daemon && strcmp(daemon, core->plan->claimable->name) == 0;
}

/* The uses of one unit by claims: names of claims, or NULL. */
struct use {
        const struct unit *unit;
        const char *alone; /* without MPS */
        const char *own;   /* was prepared with the unit's own daemon */
        bool asks_own;
};

/* The uses of all units that claims can have, in their order. */
struct uses {
        struct use *units;
        size_t n_units;
        const char *all; /* a claim that was prepared with the daemon of all GPUs */
        bool asks_all;
};

static void add_use(const struct ledger_core *core, struct arena *arena, struct uses *uses,
        const struct ledger_claim *claim, const struct ledger_claim_device *device)
{
        const struct unit *unit = ledger_claimable_unit(core, device->unit);
        bool is_of_all_gpus;
        struct use *use;

        if (!unit)
                return;
        use = &uses->units[unit - core->plan->claimable->units];
        is_of_all_gpus = device->is_shared && is_of_all(core, claim_daemon_name(core, arena, device));
        if (!device->is_shared)
                use->alone = claim->name;
        else if (is_of_all_gpus && device->daemon)
                uses->all = claim->name;
        else if (is_of_all_gpus)
                uses->asks_all = true;
        else if (device->daemon)
                use->own = claim->name;
        else
                use->asks_own = true;
}

static struct uses uses_of(const struct claim_set *set, struct arena *arena)
{
        const struct ledger_core *core = set->core;
        const struct resource *claimable = core->plan->claimable;
        const struct ledger_claim_state *states;
        size_t count = claim_set_all(set, arena, &states);
        struct uses uses = {.units = ARENA_ARRAY(arena, struct use, claimable->n_units), .n_units = claimable->n_units};

        for (size_t i = 0; i < claimable->n_units; i++)
                uses.units[i] = (struct use){.unit = &claimable->units[i]};
        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < states[i].claim->n_devices && !states[i].is_refused; j++)
                        add_use(core, arena, &uses, states[i].claim, &states[i].claim->devices[j]);
        return uses;
}

/* The claim that keeps the daemon of all GPUs from running, and the GPU that it has; NULL: none does. */
static const char *find_obstacle_to_all(const struct uses *uses, const struct unit **ret)
{
        for (size_t i = 0; i < uses->n_units; i++) {
                const struct use *use = &uses->units[i];

                if (!mps_claimed_is_of_all(use->unit) || (!use->alone && !use->own))
                        continue;
                *ret = use->unit;
                return use->alone ? use->alone : use->own;
        }
        return NULL;
}

static const char *find_obstacle_to_own(const struct uses *uses, const struct use *use)
{
        return mps_claimed_is_of_all(use->unit) ? uses->all : NULL;
}

void claim_daemons_want(const struct claim_set *set, struct arena *arena, struct mps_wanted *wanted)
{
        const struct ledger_core *core = set->core;
        const struct resource *claimable = core->plan->claimable;
        const struct unit **own, **all;
        const struct unit *obstacle;
        size_t n_own = 0, n_all = 0;
        struct uses uses;

        if (!claimable)
                return;
        uses = uses_of(set, arena);
        own = ARENA_ARRAY(arena, const struct unit *, claimable->n_units);
        all = ARENA_ARRAY(arena, const struct unit *, claimable->n_units);
        for (size_t i = 0; i < uses.n_units; i++) {
                const struct use *use = &uses.units[i];

                if (use->own || (use->asks_own && !find_obstacle_to_own(&uses, use)))
                        own[n_own++] = use->unit;
                if (mps_claimed_is_of_all(use->unit))
                        all[n_all++] = use->unit;
        }
        mps_wanted_add_claimed(wanted, arena, core->plan, own, n_own, DAEMON_SCOPE_GPU);
        if (uses.all || (uses.asks_all && !find_obstacle_to_all(&uses, &obstacle)))
                mps_wanted_add_claimed(wanted, arena, core->plan, all, n_all, DAEMON_SCOPE_RESOURCE);
}

/* The daemon does not run: why it is not even wanted, or that it has not been started yet. */
static int fail_for_no_daemon(
        const struct claim_set *set, const struct ledger_claim_device *device, const char *daemon, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct ledger_core *core = set->core;
        struct uses uses = uses_of(set, &arena);
        const struct unit *unit = ledger_claimable_unit(core, device->unit);
        const char *claim;

        if (is_of_all(core, daemon)) {
                claim = find_obstacle_to_all(&uses, &unit);
                if (claim)
                        return error_set(err, ERROR_UNAVAILABLE,
                                "%s: claim %s has %s apart from the MPS daemon of all GPUs (dra.daemonScope: resource), which "
                                "starts when that claim has ended",
                                device->unit, claim, unit->uuid);
        } else {
                claim = find_obstacle_to_own(&uses, &uses.units[unit - core->plan->claimable->units]);
                if (claim)
                        return error_set(err, ERROR_UNAVAILABLE,
                                "%s: claim %s uses the MPS daemon of all GPUs; since dra.daemonScope is 'gpu' each gets its own "
                                "when no claim uses that one any more",
                                device->unit, claim);
        }
        return error_set(err, ERROR_UNAVAILABLE, "%s: its MPS daemon has not been started yet", device->unit);
}

const struct mps_daemon_status *claim_daemon_find(
        const struct ledger_core *core, const struct ledger_claim_device *device)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *name = claim_daemon_name(core, &arena, device);

        return name ? daemons_find_by_name(&core->daemons, name) : NULL;
}

/* An error says what is missing. */
static int check_daemon_ready(const struct claim_set *set, const struct ledger_claim_device *device, struct error *err)
{
        const struct ledger_core *core = set->core;
        const struct mps_daemon_status *daemon = claim_daemon_find(core, device);
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        if (!ledger_claimable_unit(core, device->unit))
                return error_set(
                        err, ERROR_UNAVAILABLE, "%s is not on this node now, or is not shared by DRA", device->unit);
        if (!daemons_status(&core->daemons))
                return error_set(err, ERROR_UNAVAILABLE,
                        "%s: the MPS supervisor (warpshare mps) does not answer on this node", device->unit);
        if (!daemon)
                return fail_for_no_daemon(set, device, claim_daemon_name(core, &arena, device), err);
        if (daemon->state != MPS_READY)
                return error_set(err, ERROR_UNAVAILABLE, "%s: its MPS daemon is in state %s%s%s", device->unit,
                        mps_state_name(daemon->state), daemon->reason ? ": " : "",
                        daemon->reason ? daemon->reason : "");
        if (daemons_find(&core->daemons, device->unit) != daemon)
                return error_set(err, ERROR_UNAVAILABLE,
                        "%s: its MPS daemon was started while it could not be used, and takes it in when it has no clients",
                        device->unit);
        if (!daemons_is_current(&core->daemons, device->unit))
                return error_set(err, ERROR_UNAVAILABLE, "%s: its MPS daemon is being replaced", device->unit);
        return 0;
}

/* Without MPS on this node nothing has to be waited for. */
static int check_daemon_gone(
        const struct ledger_core *core, const struct ledger_claim_device *device, struct error *err)
{
        const struct mps_daemon_status *daemon = daemons_find(&core->daemons, device->unit);

        if (!ledger_claimable_unit(core, device->unit) || mps_link_is_absent(daemons_link(&core->daemons)))
                return 0;
        if (!daemons_are_current(&core->daemons))
                return error_set(err, ERROR_UNAVAILABLE,
                        "%s: whether an MPS daemon serves it is not known: the MPS supervisor (warpshare mps) does not answer "
                        "on this node",
                        device->unit);
        if (daemon && daemon->state != MPS_OFF)
                return error_set(err, ERROR_UNAVAILABLE, "%s: its MPS daemon has not ended yet; it has %zu clients",
                        device->unit, daemon->n_clients);
        return 0;
}

int claim_daemons_check(const struct claim_set *set, const struct ledger_claim *claim, struct error *err)
{
        for (size_t i = 0; i < claim->n_devices; i++) {
                const struct ledger_claim_device *device = &claim->devices[i];

                if ((device->is_shared ? check_daemon_ready(set, device, err)
                                       : check_daemon_gone(set->core, device, err)) < 0)
                        return -1;
        }
        return 0;
}
