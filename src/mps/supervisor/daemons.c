#include "mps/supervisor/daemons.h"

#include <string.h>

#include "base/log.h"
#include "mps/supervisor/process.h"

struct mps_daemon *mps_daemons_find(const struct mps_daemons *daemons, const char *name)
{
        for (size_t i = 0; i < daemons->n_items; i++)
                if (strcmp(mps_daemon_get_name(daemons->items[i]), name) == 0)
                        return daemons->items[i];
        return NULL;
}

bool mps_daemons_need(const struct mps_daemons *daemons, const char *uuid)
{
        for (size_t i = 0; i < daemons->n_items; i++)
                if (!mps_daemon_is_gone(daemons->items[i]) &&
                        mps_daemon_unit(mps_daemon_settings(daemons->items[i]), uuid))
                        return true;
        return false;
}

static const char *find_blocker(const struct mps_daemon *daemon, const struct mps_daemons *daemons)
{
        const struct mps_daemon_wanted *settings = mps_daemon_settings(daemon);

        for (size_t i = 0; i < daemons->n_items; i++)
                for (size_t j = 0; daemons->items[i] != daemon && j < settings->n_units; j++)
                        if (mps_daemon_holds(daemons->items[i], settings->units[j].uuid))
                                return mps_daemon_get_name(daemons->items[i]);
        return NULL;
}

/* NULL: it cannot be adopted or started, which is logged. */
static struct mps_daemon *daemons_add_daemon(
        struct mps_daemons *daemons, const char *name, const struct mps_record_daemon *recorded)
{
        struct mps_daemon *daemon;
        struct error err;

        if (mps_daemon_new(&daemon, &daemons->context, name, recorded, &err) < 0) {
                log_warn("an MPS daemon on record is not taken over", LOG_ERR(&err));
                return NULL;
        }
        daemons->items = xrealloc(daemons->items, (daemons->n_items + 1) * sizeof(*daemons->items));
        daemons->items[daemons->n_items++] = daemon;
        return daemon;
}

struct mps_daemon *mps_daemons_remove(struct mps_daemons *daemons, size_t position)
{
        struct mps_daemon *daemon = daemons->items[position];

        daemons->n_items--;
        memmove(&daemons->items[position], &daemons->items[position + 1],
                (daemons->n_items - position) * sizeof(*daemons->items));
        return daemon;
}

/* ---- daemons that run ---- */

static void adopt_one_left(struct mps_daemons *daemons, const struct mps_wanted *wanted, bool is_restoring,
        const struct process_found *found)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_record_daemon process = {.pid = found->pid, .start_time = found->start_time};
        struct mps_daemon *daemon = mps_daemons_find(daemons, found->name);
        struct mps_record_daemon known;

        if (!mps_guess(&process.settings, &arena, found->name, found->units))
                return;
        if (daemon && (mps_daemon_record(daemon, &known) || !is_restoring)) /* else it looks itself */
                return;
        if (!daemon)
                daemon = daemons_add_daemon(daemons, found->name, &process);
        if (daemon)
                mps_daemon_adopt(daemon, mps_wanted_find(wanted, found->name));
}

/*
 * Adopts daemons that run and are not in the list, since the record was lost or could not be written. They keep their
 * units until they have ended, so this comes before anything starts. Those that are not wanted drain. |is_restoring|:
 * daemons on record have not been started or adopted yet.
 */
static void adopt_left(struct mps_daemons *daemons, const struct mps_wanted *wanted, bool is_restoring)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct process_found *found;
        _free_ char *program = NULL;
        struct error err;
        size_t n_found;

        if (mps_daemon_find_program(&daemons->context, &program, &err) < 0)
                return;
        n_found = process_find_daemons(daemons->context.options->root, program, &arena, &found);
        for (size_t i = 0; i < n_found; i++)
                adopt_one_left(daemons, wanted, is_restoring, &found[i]);
}

/* ---- what is wanted ---- */

static void drop_unwanted(struct mps_daemons *daemons, const struct mps_wanted *wanted)
{
        for (size_t i = 0; i < daemons->n_items; i++)
                if (!mps_wanted_find(wanted, mps_daemon_get_name(daemons->items[i])))
                        mps_daemon_drop(daemons->items[i]);
}

static void want_all(struct mps_daemons *daemons, const struct mps_wanted *wanted)
{
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                struct mps_daemon *daemon = mps_daemons_find(daemons, wanted->daemons[i].name);

                if (!daemon)
                        daemon = daemons_add_daemon(daemons, wanted->daemons[i].name, NULL);
                if (daemon)
                        mps_daemon_want(daemon, &wanted->daemons[i]);
        }
}

void mps_daemons_apply(struct mps_daemons *daemons, const struct mps_wanted *wanted)
{
        drop_unwanted(daemons, wanted); /* first, so that their units become free */
        adopt_left(daemons, wanted, false);
        want_all(daemons, wanted);
}

void mps_daemons_restore(struct mps_daemons *daemons, const struct mps_record *record)
{
        for (size_t i = 0; i < record->n_daemons; i++)
                daemons_add_daemon(daemons, record->daemons[i].settings.name, &record->daemons[i]);
        for (size_t i = 0; i < record->n_daemons; i++) {
                const struct mps_daemon_wanted *settings = &record->daemons[i].settings;
                const struct mps_daemon_wanted *wanted = mps_wanted_find(&record->wanted, settings->name);
                struct mps_daemon *daemon = mps_daemons_find(daemons, settings->name);

                if (daemon && !(wanted && mps_daemon_serves(settings, wanted)))
                        mps_daemon_adopt(daemon, wanted);
        }
        if (record->wanted.n_daemons)
                adopt_left(daemons, &record->wanted, true);
        want_all(daemons, &record->wanted);
        drop_unwanted(daemons, &record->wanted);
}

/* ---- start and end ---- */

void mps_daemons_init(struct mps_daemons *daemons, const struct mps_daemon_context *context)
{
        *daemons = (struct mps_daemons){.context = *context};
        daemons->context.blocker = find_blocker;
        daemons->context.daemons = daemons;
}

void mps_daemons_done(struct mps_daemons *daemons)
{
        free(daemons->items);
}
