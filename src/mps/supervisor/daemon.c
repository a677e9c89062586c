// SPDX-License-Identifier: Apache-2.0
/* A daemon as the supervisor sees it: what is wanted of it, what it reports. */
#include "mps/supervisor/daemon_state.h"

#include <string.h>
#include <time.h>

#include "base/log.h"
#include "mps/supervisor/process.h"

/* ---- what it is ---- */

const char *mps_daemon_get_name(const struct mps_daemon *daemon)
{
        return daemon->name;
}

bool mps_daemon_is_gone(const struct mps_daemon *daemon)
{
        return daemon->machine.state == MPS_OFF && !daemon->machine.wanted;
}

bool mps_daemon_is_ready(const struct mps_daemon *daemon)
{
        return daemon->machine.state == MPS_READY;
}

const struct mps_daemon_wanted *mps_daemon_settings(const struct mps_daemon *daemon)
{
        return daemon->process.launch || !daemon->wanted.value.name ? &daemon->started.value : &daemon->wanted.value;
}

bool mps_daemon_holds(const struct mps_daemon *daemon, const char *uuid)
{
        return daemon->process.launch && mps_daemon_unit(&daemon->started.value, uuid);
}

bool mps_daemon_record(const struct mps_daemon *daemon, struct mps_record_daemon *ret)
{
        if (!daemon->process.launch)
                return false;
        *ret = (struct mps_record_daemon){
                .pid = mps_launch_pid(daemon->process.launch),
                .start_time = mps_launch_start_time(daemon->process.launch),
                .inode = daemon->folder.inode,
                .options = daemon->process.options,
                .can = daemon->process.can,
                .settings = daemon->started.value,
        };
        ret->settings.name = daemon->name;
        return ret->pid != 0;
}

unsigned int mps_daemon_options(const struct mps_daemon *daemon)
{
        return daemon->process.options;
}

enum mps_tier mps_daemon_tier(const struct mps_daemon *daemon)
{
        const struct mps_daemon_wanted *settings = mps_daemon_settings(daemon);

        if (daemon->process.options & MPS_CAN_PARTITION)
                return MPS_TIER_PARTITION;
        if (daemon_is_v3(daemon))
                return MPS_TIER_NAMESPACE;
        return settings->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT
                                                              : MIN(settings->tier_limit, MPS_TIER_VERIFIED);
}

static const char *default_reason(enum mps_state state)
{
        switch (state) {
        case MPS_READY:
                return NULL;
        case MPS_OFF:
                return "it is not wanted";
        case MPS_STARTING:
                return "its control daemon has been started and has not answered yet";
        case MPS_CONFIGURING:
                return "its settings are being set and read back";
        case MPS_DRAINING:
                return "it is ending";
        case MPS_FAULT:
                return "it has failed";
        }
        return NULL;
}

static const struct mps_server *copy_servers(struct arena *arena, const struct mps_observation *seen)
{
        struct mps_server *servers = ARENA_ARRAY(arena, struct mps_server, seen->n_servers);

        for (size_t i = 0; i < seen->n_servers; i++) {
                servers[i] = seen->servers[i];
                servers[i].status = arena_strdup(arena, seen->servers[i].status);
        }
        return servers;
}

static struct mps_client *copy_clients(struct arena *arena, const struct mps_observation *seen)
{
        struct mps_client *clients = ARENA_ARRAY(arena, struct mps_client, seen->n_clients);

        for (size_t i = 0; i < seen->n_clients; i++) {
                clients[i] = seen->clients[i];
                clients[i].unit = arena_strdup(arena, seen->clients[i].unit);
                clients[i].pod_uid = arena_strdup(arena, seen->clients[i].pod_uid);
                clients[i].container_id = arena_strdup(arena, seen->clients[i].container_id);
                clients[i].cgroup = arena_strdup(arena, seen->clients[i].cgroup);
                clients[i].name_space = arena_strdup(arena, seen->clients[i].name_space);
                clients[i].allocation = arena_strdup(arena, seen->clients[i].allocation);
        }
        return clients;
}

/* Finds the units without a limit of memory. If the settings are guessed, none is known. */
static size_t find_unlimited(struct arena *arena, const struct mps_daemon_wanted *settings, const char *const **ret)
{
        const char **unlimited = ARENA_ARRAY(arena, const char *, settings->n_units);
        size_t count = 0;

        for (size_t i = 0; i < settings->n_units && !mps_guess_is(settings); i++)
                if (!settings->units[i].limit_mib)
                        unlimited[count++] = arena_strdup(arena, settings->units[i].uuid);
        *ret = unlimited;
        return count;
}

struct mps_client *mps_daemon_describe(
        const struct mps_daemon *daemon, struct arena *arena, struct mps_daemon_status *ret)
{
        struct mps_client *clients = daemon->polls.seen ? copy_clients(arena, daemon->polls.seen) : NULL;
        const struct mps_daemon_wanted *settings = mps_daemon_settings(daemon);
        const char **units = ARENA_ARRAY(arena, const char *, settings->n_units);
        const char *reason = daemon->notes.reason ? daemon->notes.reason : default_reason(daemon->machine.state);

        for (size_t i = 0; i < settings->n_units; i++)
                units[i] = arena_strdup(arena, settings->units[i].uuid);
        *ret = (struct mps_daemon_status){
                .name = arena_strdup(arena, daemon->name),
                .resource = arena_strdup(arena, settings->resource ? settings->resource : ""),
                .units = units,
                .n_units = settings->n_units,
                .state = daemon->machine.state,
                .reason = reason && daemon->machine.state != MPS_READY ? arena_strdup(arena, reason) : NULL,
                .notice = arena_strdup(arena, daemon->notes.notice),
                .since = daemon->notes.since,
                .pid = mps_launch_pid(daemon->process.launch),
                .adopted = mps_launch_is_adopted(daemon->process.launch),
                .restarts = daemon->notes.restarts,
                .repairs = daemon->checks.repairs,
                .settings = daemon->process.launch && daemon->started.value.name
                                    ? mps_daemon_digest(&daemon->started.value)
                                    : 0,
                .can = daemon->process.can,
                .tier = mps_daemon_tier(daemon),
                .threads_permille = daemon->checks.threads_permille,
                .limit_mib = daemon->checks.limit_mib,
                .servers = daemon->polls.seen ? copy_servers(arena, daemon->polls.seen) : NULL,
                .n_servers = daemon->polls.seen ? daemon->polls.seen->n_servers : 0,
                .clients = clients,
                .n_clients = daemon->polls.seen ? daemon->polls.seen->n_clients : 0,
                .max_clients = daemon_most_clients(daemon),
                .has_own_shm = daemon->shm.is_own,
                .shm = daemon->shm.is_own ? daemon->shm.watch.shm : (struct mps_shm){0},
        };
        ret->n_unlimited = find_unlimited(arena, settings, &ret->unlimited);
        return clients;
}

bool mps_daemon_poll_shm(struct mps_daemon *daemon)
{
        return daemon_shm_poll(&daemon->shm, mps_launch_pid(daemon->process.launch), mps_daemon_has_clients(daemon));
}

void mps_daemon_look(struct mps_daemon *daemon)
{
        if (daemon->polls.seen && mps_observation_drop_ended(daemon->polls.seen, daemon->context->options->system_root))
                daemon_notify(daemon, false);
}

/* ---- requests from outside ---- */

/* Copies the settings that it is to have. */
static void mps_daemon_want(struct mps_daemon *daemon, const struct mps_daemon_wanted *wanted)
{
        const bool is_new = daemon->wanted.value.name && !mps_daemon_is_same(&daemon->wanted.value, wanted);

        daemon_settings_set(&daemon->wanted, wanted);
        if (daemon->process.launch ? !daemon_suits(daemon) : is_new)
                daemon_report(daemon, MPS_EVENT_CHANGED, "it has new settings");
        else
                daemon_report(daemon, MPS_EVENT_WANTED, NULL);
}

static void mps_daemon_drop(struct mps_daemon *daemon)
{
        daemon_report(daemon, MPS_EVENT_UNWANTED, "it is no longer wanted");
}

/*
 * Adopts the process on record, if it runs, and starts none. |wanted|: the settings that it is to have; NULL: it is not
 * wanted, and drains.
 */
static void mps_daemon_adopt(struct mps_daemon *daemon, const struct mps_daemon_wanted *wanted)
{
        struct error err;
        bool is_same;

        if (wanted)
                daemon_settings_set(&daemon->wanted, wanted);
        if (daemon_take_over(daemon, &is_same, &err) == DAEMON_TAKEN_OVER)
                daemon_report(daemon, wanted && is_same ? MPS_EVENT_ADOPTED : MPS_EVENT_LEFT, NULL);
}

void mps_daemon_end_draining(struct mps_daemon *daemon)
{
        daemon_report(daemon, MPS_EVENT_DRAIN_DEADLINE, NULL);
}

void mps_daemon_lose(struct mps_daemon *daemon, const char *reason)
{
        daemon_report(daemon, MPS_EVENT_LOST, "%s", reason);
}

/* ---- start and end ---- */

int mps_daemon_check_name(const struct mps_daemon_context *context, const char *name, struct error *err)
{
        const size_t length = strlen(context->options->root) + strlen("/") + strlen(name) + strlen("/pipe");

        if (length <= MPS_PIPE_PATH_MAX)
                return 0;
        return error_set(err, ERROR_INVALID,
                "MPS daemon '%s': its pipe directory '%s/%s/pipe' has %zu bytes, at most %zu are possible: choose a "
                "shorter MPS root",
                name, context->options->root, name, length, MPS_PIPE_PATH_MAX);
}

static unsigned int rank_peer(pid_t pid, void *data)
{
        const struct mps_daemon *daemon = data;
        const struct mps_observation *seen = daemon->polls.seen;

        for (size_t i = 0; seen && i < seen->n_clients; i++)
                if (seen->clients[i].pid == pid)
                        return 2;
        return mps_journal_names(daemon->polls.journal, pid) ? 1 : 0;
}

static void on_peer_closed(char *who, void *data)
{
        struct mps_daemon *daemon = data;

        log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_STR("notice", who));
        daemon_set_text(&daemon->notes.notice, xstrdup(who));
        daemon_set_drift(daemon, who);
        daemon_notify(daemon, false);
}

static void on_log_flooded(void *data)
{
        daemon_set_drift(data,
                xstrdup("its log is flooded and is truncated again and again: some process queries its control socket "
                        "without pause"));
}

/*
 * |recorded|: the process that it had, or that was found (mps/supervisor/record.h); or NULL. Nothing starts before
 * mps_daemon_want().
 */
static int mps_daemon_new(struct mps_daemon **ret, struct mps_daemon_context *context, const char *name,
        const struct mps_record_daemon *recorded, struct error *err)
{
        struct mps_daemon *daemon;

        if (mps_daemon_check_name(context, name, err) < 0)
                return -1;
        daemon = xcalloc(1, sizeof(*daemon));
        daemon->context = context;
        daemon->name = xstrdup(name);
        mps_folder_init(&daemon->folder, context->options->root, name);
        daemon->polls.journal = mps_journal_new(daemon->folder.log);
        daemon->notes.since = (int64_t)time(NULL);
        uv_timer_init(context->options->loop, &daemon->deadline);
        uv_timer_init(context->options->loop, &daemon->turn);
        daemon->deadline.data = daemon->turn.data = daemon;
        mps_peers_init(&daemon->peers, context->options->loop, rank_peer, on_peer_closed, daemon);
        mps_log_init(&daemon->log, context->options->loop, &daemon->folder, on_log_flooded, daemon);
        daemon->shm.name = daemon->name;
        daemon->shm.folder = &daemon->folder;
        daemon->shm.cleaner = context->cleaner;
        if (recorded) {
                daemon->recorded.process = *recorded;
                mps_daemon_wanted_copy(
                        &daemon->recorded.process.settings, &daemon->recorded.arena, &recorded->settings);
        }
        *ret = daemon;
        return 0;
}

static void free_daemon(void *data)
{
        struct mps_daemon *daemon = data;
        const struct daemon_end end = daemon->end;

        mps_observation_free(daemon->polls.seen);
        mps_journal_free(daemon->polls.journal);
        arena_done(&daemon->wanted.arena);
        arena_done(&daemon->started.arena);
        arena_done(&daemon->recorded.arena);
        mps_folder_done(&daemon->folder);
        free(daemon->notes.reason);
        free(daemon->notes.notice);
        free(daemon->notes.drift);
        free(daemon->checks.chunks);
        free(daemon->name);
        free(daemon);
        if (end.closed)
                end.closed(end.data);
}

void mps_daemon_close(struct mps_daemon *daemon, void (*closed)(void *data), void *data)
{
        struct closing *closing = &daemon->end.closing;

        daemon->end.is_closing = true;
        daemon->end.closed = closed;
        daemon->end.data = data;
        daemon_stop_preparing(daemon);
        daemon_close_controls(daemon);
        daemon->process.launch = mps_launch_forget(daemon->process.launch);
        daemon_shm_stop(&daemon->shm);
        mps_log_close(&daemon->log, closing);
        mps_peers_close(&daemon->peers, closing);
        closing_close(closing, &daemon->deadline);
        closing_close(closing, &daemon->turn);
        closing_end(closing, free_daemon, daemon);
}

/* ---- all daemons of a supervisor ---- */

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
