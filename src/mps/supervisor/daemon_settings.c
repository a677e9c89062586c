// SPDX-License-Identifier: Apache-2.0
/*
 * Gives a daemon its settings, and checks later whether it still has them. This is one loop over
 * mps/supervisor/setting.h, which is entered at "set" for a daemon that is being configured, and at "get" for one that
 * serves:
 *
 *     set ──► get ──as it should be──► the next setting ──► set or get
 *      ▲       └──otherwise──► refused, if it was just set
 *      └─────────────────────┘
 *
 * Every setting is read back, since the program exits 0 and may print nothing when it refuses. The settings of a
 * serving daemon change because others may change them: with 535 every user may change its defaults, and the user of a
 * server that server's; with v3 every process that may send commands as the daemon's user. A setting that differs is
 * set again while the daemon serves. Clients that connected meanwhile keep what they got; the limit monitor handles
 * those.
 *
 * What follows from a refusal differs. A default that is not what it should be ends the daemon's serving, since every
 * client gets it. A server that does not take its settings is left alone. A namespace that does not take them is
 * reported and left as it is, since the daemon serves others.
 *
 * The limit of a cgroup's memory (memory_limits.c) and a new namespace (requests.c) are set and read back,
 * too, but apart: the one in a process with NVML, which may hang, the other for a request, which gets the error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "mps/control/dialogue.h"
#include "mps/supervisor/daemon_state.h"
#include "mps/supervisor/setting.h"

/* A daemon with the v3 interface supports all of these. */
#define V3_CAN (MPS_CAN_SERVER_STATUS | MPS_CAN_TERMINATE)

struct settings {
        struct arena arena;
        struct mps_daemon *daemon;
        bool is_first; /* the daemon is being configured */
        struct mps_setting *items;
        size_t count;
        size_t at;
        char difference[256]; /* of items[at], which is being restored; "": none is */
        struct dialogue_probe probe;
};

void daemon_stop_settings(struct mps_daemon *daemon)
{
        struct settings *settings = TAKE_PTR(daemon->checks.current);

        if (settings) {
                struct arena arena = settings->arena;

                arena_done(&arena);
        }
}

/* ---- commands ---- */

static void on_settings_set(const struct error *err, const char *answer, void *data);
static void on_settings_get(const struct error *err, const char *answer, void *data);

static bool is_same_command(const char *a, const char *b)
{
        return a && b && strcmp(a, b) == 0;
}

/* A limit is set and read back by one front end; the percentage is what an answer may not look like. */
static void on_limit(const struct error *err, const char *const *answers, void *data)
{
        if (err)
                on_settings_set(err, NULL, data);
        else
                on_settings_get(NULL, answers[1], data);
}

static bool is_read_back(const struct settings *settings)
{
        return settings->items[settings->at].get && (settings->is_first || settings->difference[0]);
}

static void settings_send(const struct settings *settings, bool sets)
{
        const struct mps_setting *item = &settings->items[settings->at];
        const char *command = sets ? item->set : item->get;
        mps_answer_fn *done = sets ? on_settings_set : on_settings_get;

        if (sets && item->kind == MPS_SETTING_LIMIT && !item->is_v3 && is_read_back(settings) &&
                !settings->daemon->polls.misses) /* a slow daemon has a front end for each */
                mps_control_ask_all(settings->daemon->fronts.control, (const char *const[]){item->set, item->get}, 2,
                        on_limit, settings->daemon);
        else if (item->is_v3)
                mps_control_run(settings->daemon->fronts.control, command, done, settings->daemon);
        else
                mps_control_ask(settings->daemon->fronts.control, command, done, settings->daemon);
}

/* Begins with items[at]. */
static void settings_go_on(struct settings *settings)
{
        struct mps_daemon *daemon = settings->daemon;
        const struct mps_setting *item = &settings->items[settings->at];
        bool is_first;

        if (settings->at < settings->count) {
                settings_send(settings,
                        settings->is_first && !(settings->at > 0 && is_same_command(item[-1].set, item->set)));
                return;
        }
        is_first = settings->is_first;
        daemon_stop_settings(daemon);
        if (is_first)
                daemon_report(daemon, MPS_EVENT_CONFIGURED, NULL);
}

/* If the daemon serves, its next poll finds out what is wrong. */
static void settings_miss(struct settings *settings, const struct error *err, bool sets)
{
        if (!settings->is_first)
                daemon_stop_settings(settings->daemon);
        else if (daemon_is_silent(settings->daemon, err))
                settings_send(settings, sets);
}

/* ---- outcome ---- */

static void settings_refuse(struct settings *settings, const struct error *why)
{
        struct mps_daemon *daemon = settings->daemon;

        daemon_stop_settings(daemon);
        daemon_report(daemon, MPS_EVENT_REFUSED, "%s", why->text);
}

static void note_drift(struct mps_daemon *daemon, const char *difference, bool is_repaired)
{
        daemon->checks.repairs += is_repaired;
        daemon_set_drift(
                daemon, xasprintf("its settings were changed from outside (configuration drift): %s; %s", difference,
                                is_repaired ? "they were restored, except for clients that connected meanwhile"
                                            : "they cannot be restored"));
        daemon_notify(daemon, false);
}

static void note_read_back(struct mps_daemon *daemon, const struct mps_setting *item)
{
        if (item->kind == MPS_SETTING_THREADS)
                daemon->checks.threads_permille = item->permille;
        else if (strcmp(item->unit, daemon->started.value.units[0].uuid) == 0)
                daemon->checks.limit_mib = item->limit_mib;
}

/* These return false if another answer is awaited, or if all of it has ended. */

static bool settings_end_first(
        struct settings *settings, const struct mps_setting *item, enum mps_setting_outcome outcome, struct error *err)
{
        if (outcome == MPS_SETTING_SAME) {
                note_read_back(settings->daemon, item);
                return true;
        }
        if (outcome == MPS_SETTING_UNCLEAR)
                error_raise_prefix(err, "%s", item->what);
        settings_refuse(settings, err);
        return false;
}

static bool settings_end_refused(struct settings *settings, const struct mps_setting *item, const struct error *err)
{
        struct mps_daemon *daemon = settings->daemon;

        if (item->kind == MPS_SETTING_NAMESPACE) {
                note_drift(daemon, err->text, false);
                return true;
        }
        if (!item->server) {
                settings_refuse(settings, err);
                return false;
        }
        log_info("an MPS server does not take its settings, and is left as it is", LOG_STR("name", daemon->name),
                LOG_INT("server", item->server), LOG_ERR(err));
        daemon->checks.unresponsive_server = item->server;
        return true;
}

/* A setting that cannot be read is neither right nor wrong. */
static void note_unchecked(struct mps_daemon *daemon, const struct error *err)
{
        if (daemon->checks.has_noted_unchecked) {
                log_debug("a setting is not checked", LOG_STR("name", daemon->name), LOG_ERR(err));
                return;
        }
        daemon->checks.has_noted_unchecked = true;
        log_warn("a setting of an MPS daemon cannot be read, and is left as it is", LOG_STR("name", daemon->name),
                LOG_ERR(err));
}

/* A limit that its answer hides is set again without a report. */
static bool settings_end_check(struct settings *settings, const struct mps_setting *item,
        enum mps_setting_outcome outcome, const struct error *err)
{
        const bool was_set = settings->difference[0] != '\0';

        if (outcome == MPS_SETTING_OTHER && was_set)
                return settings_end_refused(settings, item, err);
        if (outcome == MPS_SETTING_OTHER)
                snprintf(settings->difference, sizeof(settings->difference), "%.250s", err->text);
        else if (outcome == MPS_SETTING_SAME && was_set)
                note_drift(settings->daemon, settings->difference, true);
        else if (outcome == MPS_SETTING_UNCLEAR && err->kind != ERROR_NONE)
                note_unchecked(settings->daemon, err);
        if (outcome == MPS_SETTING_OTHER || (outcome == MPS_SETTING_SAME && !was_set && mps_setting_is_blurred(item))) {
                settings_send(settings, true);
                return false;
        }
        return true;
}

/* ---- answers ---- */

/* True if the error may be ignored: the setting exists already, or the next answer shows the present value. */
static bool is_bearable(const struct settings *settings, const struct error *err)
{
        const struct mps_setting *item = &settings->items[settings->at];

        return settings->is_first ? item->may_fail && err->kind == ERROR_UNAVAILABLE
                                  : item->kind == MPS_SETTING_NAMESPACE && err->kind != ERROR_TIMEOUT;
}

static void on_settings_set(const struct error *err, const char *answer UNUSED, void *data)
{
        struct mps_daemon *daemon = data;
        struct settings *settings = daemon->checks.current;

        if (err && !is_bearable(settings, err)) {
                settings_miss(settings, err, true);
                return;
        }
        daemon->polls.misses = 0;
        if (is_read_back(settings)) {
                settings_send(settings, false);
        } else {
                settings->at++;
                settings_go_on(settings);
        }
}

/* One answer may show several settings. */
static void on_settings_get(const struct error *err, const char *answer, void *data)
{
        struct mps_daemon *daemon = data;
        struct settings *settings = daemon->checks.current;
        const struct mps_setting *item;

        if (err) {
                settings_miss(settings, err, false);
                return;
        }
        if (!settings->is_first && daemon->machine.state != MPS_READY) {
                daemon_stop_settings(daemon);
                return;
        }
        daemon->polls.misses = 0;
        do {
                struct error problem;
                enum mps_setting_outcome outcome;

                item = &settings->items[settings->at];
                outcome = mps_setting_check(item, answer, settings->is_first, &problem);
                if (settings->is_first ? !settings_end_first(settings, item, outcome, &problem)
                                       : !settings_end_check(settings, item, outcome, &problem))
                        return;
                settings->difference[0] = '\0';
                settings->at++;
        } while (settings->at < settings->count && is_same_command(item->get, item[1].get));
        settings_go_on(settings);
}

/* ---- the list ---- */

static struct settings *settings_new(struct mps_daemon *daemon, bool is_first, size_t room)
{
        struct arena arena = ARENA_INIT;
        struct settings *settings = ARENA_NEW(&arena, struct settings);

        settings->items = ARENA_ARRAY(&arena, struct mps_setting, room);
        settings->arena = arena;
        settings->daemon = daemon;
        settings->is_first = is_first;
        daemon->checks.current = settings;
        return settings;
}

static void settings_add(struct settings *settings, struct mps_setting item)
{
        settings->items[settings->count++] = item;
}

/*
 * With v3 these are the limits of the server for clients that name no server. A container without a namespace gets the
 * limits of the largest share there, as with a daemon of the older interface.
 */
static void add_defaults(struct settings *settings, const char *server)
{
        const struct mps_daemon_wanted *wanted = &settings->daemon->started.value;

        if (daemon_is_v3(settings->daemon)) {
                mps_setting_v3_default(&settings->items[settings->count], &settings->arena, server,
                        wanted->threads_permille, &wanted->units[0]);
                settings->count += wanted->units[0].limit_mib ? 2 : 1;
                return;
        }
        for (size_t i = 0; i < wanted->n_units; i++)
                settings_add(settings, mps_setting_limit(&settings->arena, 0, i, &wanted->units[i]));
        settings_add(settings, mps_setting_threads(&settings->arena, 0, wanted->threads_permille));
}

/* Partitions do not use the percentage, and it is not known what their servers report. */
static void add_servers(struct settings *settings)
{
        const struct mps_daemon *daemon = settings->daemon;

        for (size_t i = 0; daemon->polls.seen && !(daemon->process.options & MPS_CAN_PARTITION) &&
                           i < daemon->polls.seen->n_servers;
                i++) {
                const struct mps_server *server = &daemon->polls.seen->servers[i];

                if (server->pid == daemon->checks.unresponsive_server ||
                        (server->status && strcmp(server->status, "ACTIVE") != 0))
                        continue;
                settings_add(settings,
                        mps_setting_threads(&settings->arena, server->pid, daemon->started.value.threads_permille));
                for (size_t j = 0; j < daemon->started.value.n_units; j++)
                        settings_add(settings,
                                mps_setting_limit(&settings->arena, server->pid, j, &daemon->started.value.units[j]));
        }
}

/* ---- partitions ---- */

/* The number of chunks that cannot be read stays unknown. */
static void on_chunks(const struct error *err, const char *answer, void *data)
{
        struct mps_daemon *daemon = data;

        if (err && !daemon_is_silent(daemon, err))
                return;
        daemon->polls.misses = err ? daemon->polls.misses : 0;
        free(daemon->checks.chunks);
        daemon->checks.n_chunks = daemon->started.value.n_units;
        daemon->checks.chunks = xcalloc(daemon->checks.n_chunks, sizeof(*daemon->checks.chunks));
        for (size_t i = 0; !err && i < daemon->checks.n_chunks; i++)
                dialogue_read_chunks(answer, daemon->started.value.units[i].gpu_uuid, &daemon->checks.chunks[i]);
        settings_go_on(daemon->checks.current);
}

/*
 * Asks first which partitions the daemon can make, and then for its settings: daemon_run.c compares the answer with
 * what is needed.
 */
static void settings_begin(struct settings *settings)
{
        if (settings->daemon->process.options & MPS_CAN_PARTITION)
                mps_control_ask(settings->daemon->fronts.control, "lspart", on_chunks, settings->daemon);
        else
                settings_go_on(settings);
}

/* ---- public ---- */

static void on_probe(const struct error *err, const char *answer, void *data);

/* A new process is probed for its capabilities first. */
static void settings_probe(struct settings *settings)
{
        struct mps_daemon *daemon = settings->daemon;
        const char *command = dialogue_probe_next(&settings->probe);

        if (command) {
                mps_control_ask(daemon->fronts.control, command, on_probe, daemon);
                return;
        }
        daemon->process.can = settings->probe.can | daemon->process.options;
        daemon_notify(daemon, true); /* for the record, so that the next supervisor does not probe again */
        settings_begin(settings);
}

static void on_probe(const struct error *err, const char *answer, void *data)
{
        struct mps_daemon *daemon = data;

        if (err && !daemon_is_silent(daemon, err))
                return;
        if (!err) {
                daemon->polls.misses = 0;
                dialogue_probe_answer(&daemon->checks.current->probe, answer);
        }
        settings_probe(daemon->checks.current);
}

void daemon_configure(struct mps_daemon *daemon)
{
        struct settings *settings;

        if (!daemon_can_be_asked(daemon))
                return;
        settings = settings_new(daemon, true, daemon->started.value.n_units + 3);
        if (daemon_is_v3(daemon)) {
                const char *server = dialogue_v3_own_server(&settings->arena, geteuid());

                daemon->process.can = V3_CAN | daemon->process.options;
                settings_add(
                        settings, mps_setting_v3_create(&settings->arena, server, daemon->started.value.units[0].uuid));
                add_defaults(settings, server);
                /* It is polled later. */
                settings_add(settings, (struct mps_setting){.is_v3 = true, .set = DIALOGUE_V3_CLIENT_LIST});
        } else {
                add_defaults(settings, NULL);
        }
        if (daemon->process.can) /* a process that was probed before keeps its capabilities */
                settings_begin(settings);
        else
                settings_probe(settings);
}

static void verify_v3(struct mps_daemon *daemon)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct mps_allocation_request *wanted;
        size_t count = daemon->context->namespaces(daemon, &scratch, &wanted, daemon->context->data);
        struct settings *settings = settings_new(daemon, false, count + 2);
        const char *server = dialogue_v3_own_server(&settings->arena, geteuid());
        const char *list = dialogue_v3_namespace_list(&settings->arena, server);

        add_defaults(settings, server);
        for (size_t i = 0; i < count; i++)
                settings_add(settings, mps_setting_v3_namespace(&settings->arena, server, &wanted[i], list));
}

void daemon_verify(struct mps_daemon *daemon)
{
        if (daemon->checks.current || daemon->machine.state != MPS_READY || !daemon->fronts.control)
                return;
        if (daemon_is_v3(daemon)) {
                verify_v3(daemon);
        } else {
                add_defaults(settings_new(daemon, false,
                                     (daemon->started.value.n_units + 1) *
                                             ((daemon->polls.seen ? daemon->polls.seen->n_servers : 0) + 1)),
                        NULL);
                add_servers(daemon->checks.current);
        }
        settings_go_on(daemon->checks.current);
}
