// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/daemons.h"

int daemons_init(struct daemons *daemons, const struct mps_link_options *link, struct error *err)
{
        *daemons = (struct daemons){0};
        return mps_link_new(&daemons->link, link, err);
}

static void daemons_forget_wanted(struct daemons *daemons)
{
        arena_done(&daemons->wanted_arena);
        daemons->wanted = (struct mps_wanted){0};
}

static void forget_renewed(struct daemons *daemons)
{
        map_done(&daemons->renewed);
        arena_done(&daemons->renewed_arena);
}

void daemons_done(struct daemons *daemons)
{
        daemons_forget_wanted(daemons);
        forget_renewed(daemons);
}

struct mps_link *daemons_link(const struct daemons *daemons)
{
        return daemons->link;
}

void daemons_raise_generation(struct daemons *daemons, uint64_t least)
{
        daemons->generation = MAX(daemons->generation, least);
}

/* ---- wanted ---- */

bool daemons_are_wanted(const struct daemons *daemons, const struct mps_wanted *wanted)
{
        if (wanted->n_daemons != daemons->wanted.n_daemons || wanted->ends_clients != daemons->wanted.ends_clients)
                return false;
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *old = mps_wanted_find(&daemons->wanted, wanted->daemons[i].name);

                if (!old || !mps_daemon_is_same(old, &wanted->daemons[i]))
                        return false;
        }
        return true;
}

bool daemons_any_wanted(const struct daemons *daemons)
{
        return daemons->wanted.n_daemons > 0;
}

/* The supervisor leaves a daemon alone that runs with exactly these settings. */
static bool runs_already(const struct daemons *daemons, const struct mps_daemon_wanted *daemon)
{
        const struct mps_daemon_status *reported = daemons_find(daemons, daemon->units[0].uuid);

        return reported && reported->settings == mps_daemon_digest(daemon);
}

/* Adds the units of |daemon| that |previous| does not have; NULL: all. */
static void add_renewed(
        struct daemons *daemons, const struct mps_daemon_wanted *daemon, const struct mps_daemon_wanted *previous)
{
        for (size_t i = 0; i < daemon->n_units; i++)
                if (!previous || !mps_daemon_unit(previous, daemon->units[i].uuid))
                        map_add(&daemons->renewed, arena_strdup(&daemons->renewed_arena, daemon->units[i].uuid),
                                daemons);
}

static void note_renewed(struct daemons *daemons, const struct mps_wanted *wanted)
{
        if (daemons_are_current(daemons))
                forget_renewed(daemons);
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted->daemons[i];
                const struct mps_daemon_wanted *old = mps_wanted_find(&daemons->wanted, daemon->name);

                if (!runs_already(daemons, daemon))
                        add_renewed(daemons, daemon, old && mps_daemon_serves(old, daemon) ? old : NULL);
        }
        /* A daemon that is ending is not ready either if it is wanted again at once. */
        for (size_t i = 0; i < daemons->wanted.n_daemons; i++)
                if (!mps_wanted_find(wanted, daemons->wanted.daemons[i].name))
                        add_renewed(daemons, &daemons->wanted.daemons[i], NULL);
}

void daemons_want(struct daemons *daemons, const struct mps_wanted *wanted)
{
        struct mps_daemon_wanted *copies;

        note_renewed(daemons, wanted);
        daemons->generation++;
        daemons_forget_wanted(daemons);
        copies = ARENA_ARRAY(&daemons->wanted_arena, struct mps_daemon_wanted, wanted->n_daemons);
        for (size_t i = 0; i < wanted->n_daemons; i++)
                mps_daemon_wanted_copy(&copies[i], &daemons->wanted_arena, &wanted->daemons[i]);
        daemons->wanted = (struct mps_wanted){copies, wanted->n_daemons, wanted->ends_clients};
}

void daemons_send(const struct daemons *daemons)
{
        mps_link_apply(daemons->link, &daemons->wanted, daemons->generation);
}

void daemons_forget(struct daemons *daemons)
{
        daemons_forget_wanted(daemons);
        mps_link_forget(daemons->link);
}

/* ---- reported ---- */

void daemons_set_status(struct daemons *daemons, const struct mps_status *status)
{
        daemons->status = status;
}

const struct mps_status *daemons_status(const struct daemons *daemons)
{
        return daemons->status;
}

const struct mps_daemon_status *daemons_find(const struct daemons *daemons, const char *unit)
{
        return daemons->status ? mps_status_find_unit(daemons->status, unit) : NULL;
}

const struct mps_daemon_status *daemons_find_by_name(const struct daemons *daemons, const char *name)
{
        return daemons->status ? mps_status_find(daemons->status, name) : NULL;
}

bool daemons_are_current(const struct daemons *daemons)
{
        return daemons->status && daemons->status->generation == daemons->generation;
}

bool daemons_is_current(const struct daemons *daemons, const char *unit)
{
        return daemons_are_current(daemons) || !map_find(&daemons->renewed, unit);
}

bool daemons_is_ready(const struct daemons *daemons, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = daemons_find(daemons, unit->uuid);

        if (!unit->shared)
                return true;
        return daemon && daemon->state == MPS_READY && daemons_is_current(daemons, unit->uuid);
}
