// SPDX-License-Identifier: Apache-2.0
/*
 * Carries a daemon out. Everything that happens becomes an event of the state machine, and its action is executed here.
 * An action that fails at once reports this as its last step. Between actions the daemon is polled: whether it answers
 * at all, and, while it serves, its servers and clients.
 */
#include "mps/supervisor/daemon_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "mps/control/dialogue.h"
#include "mps/supervisor/process.h"

#define DRIFT_POLLS 150U /* five minutes with the default interval */
#define FIRST_ASK_MS UINT64_C(5)
#define LAST_ASK_MS UINT64_C(500)
#define POLLS_BETWEEN_VERIFICATIONS 5U
#define MISSES 3U /* of MPS_COMMAND_TIMEOUT_MS each, then the daemon hangs */
/* In a row. A daemon that is being killed can break off an answer shortly before its process is gone. */
#define FAILURES 2U

/* ---- facts ---- */

bool daemon_is_v3(const struct mps_daemon *daemon)
{
        return daemon->process.options & MPS_CAN_NAMESPACE;
}

unsigned int daemon_most_clients(const struct mps_daemon *daemon)
{
        unsigned int clients = 0;

        for (size_t i = 0; i < daemon->started.value.n_units; i++)
                clients = MAX(clients, daemon->started.value.units[i].clients);
        return clients;
}

bool mps_daemon_has_clients(const struct mps_daemon *daemon)
{
        return daemon->polls.seen && (daemon->polls.seen->n_clients || daemon->polls.seen->unread.count);
}

/* It is in a state in which it is polled. */
static bool daemon_is_looking(const struct mps_daemon *daemon)
{
        const struct mps_machine *machine = &daemon->machine;

        return machine->state == MPS_READY || mps_machine_is_server_fault(machine) ||
               (machine->state == MPS_DRAINING && machine->phase == MPS_PHASE_PLAIN);
}

void daemon_settings_set(struct daemon_settings_copy *settings, const struct mps_daemon_wanted *value)
{
        struct daemon_settings_copy copy = {.arena = ARENA_INIT};

        mps_daemon_wanted_copy(&copy.value, &copy.arena, value);
        arena_done(&settings->arena);
        *settings = copy;
}

/* ---- reporting ---- */

void daemon_notify(struct mps_daemon *daemon, bool is_process)
{
        if (!daemon->end.is_closing)
                daemon->context->changed(daemon, is_process, daemon->context->data);
}

void daemon_set_text(char **text, char *value)
{
        free(*text);
        *text = value;
}

void daemon_set_drift(struct mps_daemon *daemon, char *text)
{
        daemon_set_text(&daemon->notes.drift, text);
        daemon->notes.drift_polls = DRIFT_POLLS;
}

static void log_limits(const struct mps_daemon *daemon)
{
        for (size_t i = 0; i < daemon->started.value.n_units; i++) {
                struct strbuf line = STRBUF_INIT;

                mps_limit_line(&line, &daemon->started.value.units[i]);
                if (line.size)
                        log_text(LOG_INFO, "%s", line.data);
                strbuf_done(&line);
        }
}

static void daemon_note_state(struct mps_daemon *daemon, enum mps_state before)
{
        const enum mps_state state = daemon->machine.state;

        if (state == before)
                return;
        daemon->notes.since = (int64_t)time(NULL);
        if (before == MPS_READY || state == MPS_READY)
                mps_folder_set_started(&daemon->folder, state == MPS_READY);
        if (state == MPS_READY) {
                daemon_set_text(&daemon->notes.reason, NULL);
                log_limits(daemon);
        }
        if (state == MPS_STARTING && before == MPS_FAULT)
                daemon->notes.restarts++;
        if (state == MPS_FAULT)
                log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_STR("state", mps_state_name(state)),
                        LOG_STR("reason", daemon->notes.reason));
        else
                log_info("MPS daemon", LOG_STR("name", daemon->name), LOG_STR("state", mps_state_name(state)),
                        LOG_INT("pid", mps_launch_pid(daemon->process.launch)));
}

/* ---- polls ---- */

static void on_poll_turn(uv_timer_t *turn);

/*
 * True if it was reported. Containers have mounted the directory itself, so a new one of the same name does not reach
 * them.
 */
static bool daemon_poll_is_lost(struct mps_daemon *daemon)
{
        if (mps_folder_is_same(&daemon->folder))
                return false;
        daemon_report(daemon, MPS_EVENT_LOST,
                "its pipe directory '%s' was removed or replaced, and is created again; containers that were started "
                "before have the old one mounted and must be restarted",
                daemon->folder.pipe);
        return true;
}

/*
 * Reports a socket or lock file that the daemon has not created, since clients and the supervisor would connect to
 * another process; true if there is one.
 */
static bool is_changed(struct mps_daemon *daemon)
{
        const char *door = mps_folder_changed_door(&daemon->folder);

        if (door)
                daemon_report(daemon, MPS_EVENT_LOST, "'%s/%s' is not what its control daemon created: it was replaced",
                        daemon->folder.pipe, door);
        return door != NULL;
}

bool daemon_is_silent(struct mps_daemon *daemon, const struct error *err)
{
        if (err->kind == ERROR_EXHAUSTED) { /* the daemon was not asked: this process lacked a resource */
                log_warn("MPS daemon cannot be asked, will try again", LOG_STR("name", daemon->name), LOG_ERR(err));
                return true;
        }
        if (mps_peers_are_blocking(&daemon->peers)) /* the daemon works: connections blocked it, one after the other */
                return true;
        if (daemon->process.launch && process_has_ended(mps_launch_pid(daemon->process.launch),
                                              mps_launch_start_time(daemon->process.launch)))
                return false;
        if (daemon_poll_is_lost(daemon))
                return false;
        if (++daemon->polls.misses < (err->kind == ERROR_TIMEOUT ? MISSES : FAILURES)) {
                log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_UINT("missed", daemon->polls.misses),
                        LOG_ERR(err));
                return true;
        }
        daemon_report(daemon, MPS_EVENT_SILENT, "%s", err->text);
        return false;
}

void daemon_poll_again(struct mps_daemon *daemon, uint64_t ms)
{
        if (!daemon->end.is_closing)
                uv_timer_start(&daemon->turn, on_poll_turn, ms, 0);
}

/* A unit that it was started without, and that is wanted now. */
static const char *find_lacking(const struct mps_daemon *daemon)
{
        return daemon->machine.wanted ? mps_daemon_lacks(&daemon->started.value, &daemon->wanted.value) : NULL;
}

/* Logs lines of the lists that could not be read; once for a daemon. */
static void daemon_note_unread(struct mps_daemon *daemon, const struct dialogue_unread *unread)
{
        if (!unread->count || daemon->polls.has_noted_unread)
                return;
        daemon->polls.has_noted_unread = true;
        log_warn("lines of an MPS daemon's lists cannot be read: what they say counts as unknown, known clients as "
                 "there",
                LOG_STR("name", daemon->name), LOG_INT("lines", (int64_t)unread->count),
                LOG_STR("first", unread->first));
}

static char *scarcity_of(const struct mps_unit *unit, unsigned int chunks)
{
        if (!chunks || !unit->chunks_needed)
                return NULL;
        if (chunks < unit->chunks_needed)
                return xasprintf(
                        "%s has %u chunks of SMs, and its partitions need %u together, so the last are refused: "
                        "lower replicas or sms",
                        unit->uuid, chunks, unit->chunks_needed);
        if (unit->chunk_sms && chunks > unit->sms / unit->chunk_sms)
                return xasprintf(
                        "%s has %u chunks of its %u SMs, which are smaller than the %u SMs that were expected: "
                        "partitions have fewer SMs than their shares",
                        unit->uuid, chunks, unit->sms, unit->chunk_sms);
        return NULL;
}

/* Describes what a unit lacks for the partitions that are wanted now; NULL: nothing is lacking. */
static char *find_scarcity(const struct mps_daemon *daemon)
{
        char *found = NULL;

        for (size_t i = 0; !found && i < MIN(daemon->checks.n_chunks, daemon->started.value.n_units); i++) {
                const struct mps_unit *started = &daemon->started.value.units[i];
                const struct mps_unit *wanted =
                        daemon->machine.wanted ? mps_daemon_unit(&daemon->wanted.value, started->uuid) : NULL;

                found = scarcity_of(wanted ? wanted : started, daemon->checks.chunks[i]);
        }
        return found;
}

/* Problems to report although the daemon serves. True: it is another one than before, or none any more. */
static bool note_observation(struct mps_daemon *daemon)
{
        const unsigned int most = daemon_most_clients(daemon);
        const char *lacking = find_lacking(daemon);
        char *notice = NULL;
        bool is_new;

        if (most && daemon->started.value.n_units == 1 && daemon->polls.seen->n_clients >= most)
                notice = xasprintf("it has %zu clients, the most that its GPU takes: further ones are refused with "
                                   "CUDA error 808 until one ends",
                        daemon->polls.seen->n_clients);
        else if (daemon->polls.seen->waiting)
                notice = xstrdup(daemon->polls.seen->waiting);
        else if (daemon->notes.drift)
                notice = xstrdup(daemon->notes.drift);
        else if (lacking && daemon->machine.state == MPS_READY && daemon->polls.seen->n_clients)
                notice = xasprintf(
                        "it was started while %s could not be used, and takes it in when it has no clients", lacking);
        else
                notice = find_scarcity(daemon);
        if (daemon->notes.drift && daemon->notes.drift_polls-- == 0)
                daemon_set_text(&daemon->notes.drift, NULL);
        is_new = !text_is_same(notice, daemon->notes.notice);
        if (notice && is_new)
                log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_STR("notice", notice));
        daemon_set_text(&daemon->notes.notice, notice);
        return is_new;
}

/* Renews the reason of a daemon that waits for its clients. True: it has changed. */
static bool note_draining(struct mps_daemon *daemon)
{
        char *reason = xasprintf("it waits for its %zu clients to end, then it %s", daemon->polls.seen->n_clients,
                daemon->machine.wanted ? "restarts with other settings" : "ends");
        const bool is_new = !text_is_same(reason, daemon->notes.reason);

        daemon_set_text(&daemon->notes.reason, reason);
        return is_new;
}

static void act_on_observation(struct mps_daemon *daemon)
{
        const struct mps_observation *seen = daemon->polls.seen;
        const bool is_empty = !mps_daemon_has_clients(daemon);

        if (is_empty && daemon->machine.state == MPS_READY && find_lacking(daemon))
                daemon_report(daemon, MPS_EVENT_CHANGED, "it takes in %s", find_lacking(daemon));
        if (is_empty)
                daemon_report(daemon, MPS_EVENT_EMPTY, NULL);
        if (!daemon_is_looking(daemon))
                return;
        if (seen->has_fault)
                daemon_report(daemon, MPS_EVENT_SERVER_FAULT,
                        "its server is in FAULT: a client made a fatal GPU error, so every client of this GPU has to "
                        "end; it recovers when the last of %zu has ended",
                        seen->n_clients);
        else
                daemon_report(daemon, MPS_EVENT_SERVER_ACTIVE, NULL);
}

static void daemon_poll_on_polled(struct mps_observation *observation, const struct error *err, void *data)
{
        struct mps_daemon *daemon = data;
        bool is_new;

        daemon->polls.current = NULL;
        if (!observation) {
                if (daemon_is_silent(daemon, err))
                        daemon_poll_again(daemon, 0);
                return;
        }
        daemon->polls.misses = 0;
        daemon_note_unread(daemon, &observation->unread);
        mps_journal_explain(
                daemon->polls.journal, observation, daemon->started.value.units, daemon->started.value.n_units);
        is_new = !mps_observation_is_same(observation, daemon->polls.seen);
        mps_observation_free(daemon->polls.seen);
        daemon->polls.seen = observation;
        is_new |= note_observation(daemon);
        if (daemon->machine.state == MPS_DRAINING)
                is_new |= note_draining(daemon);
        daemon->polls.count++;
        act_on_observation(daemon);
        if (daemon->polls.count % POLLS_BETWEEN_VERIFICATIONS == 0)
                daemon_verify(daemon);
        if (is_new)
                daemon_notify(daemon, false);
        if (daemon_is_looking(daemon) && !daemon->polls.current)
                daemon_poll_again(daemon, mps_daemon_pause(daemon->context));
}

static void daemon_poll(struct mps_daemon *daemon)
{
        const struct mps_poll_options options = {
                .control = daemon->fronts.control,
                .daemon = mps_launch_pid(daemon->process.launch),
                .daemon_start = mps_launch_start_time(daemon->process.launch),
                .can = daemon->process.can,
                .is_v3 = daemon_is_v3(daemon),
                .asks_singly = daemon->polls.misses > 0,
                .reads_again = daemon->polls.count % POLLS_BETWEEN_VERIFICATIONS == 0,
                .known = daemon->polls.seen,
                .unit = daemon->started.value.n_units == 1 ? daemon->started.value.units[0].uuid : NULL,
                .system_root = daemon->context->options->system_root,
                .environments = daemon->context->environments,
                .done = daemon_poll_on_polled,
                .data = daemon,
        };

        if (daemon_poll_is_lost(daemon) || is_changed(daemon))
                return;
        if (!daemon->polls.current)
                daemon->polls.current = mps_poll_start(&options);
}

/* ---- the first answer ---- */

/* A daemon that was started with the v3 interface but answers without it does not count as answering. */
static bool is_answer(const struct mps_daemon *daemon, const char *answer)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_unread unread = {0};
        struct dialogue_v3_server *servers;
        size_t count;

        if (!daemon_is_v3(daemon))
                return true;
        dialogue_v3_read_servers(answer, &arena, &servers, &count, &unread);
        return count || !unread.count;
}

static void on_first_answer(const struct error *err, const char *answer, void *data)
{
        struct mps_daemon *daemon = data;

        if (!err && is_answer(daemon, answer)) {
                mps_folder_note_doors(&daemon->folder, mps_launch_pid(daemon->process.launch));
                daemon_report(daemon, MPS_EVENT_ANSWERED, NULL);
                return;
        }
        daemon_poll_again(daemon, daemon->polls.ask_ms);
        daemon->polls.ask_ms = MIN(daemon->polls.ask_ms * 2, LAST_ASK_MS);
}

static void ask_for_first_answer(struct mps_daemon *daemon)
{
        if (daemon_is_v3(daemon))
                mps_control_run(daemon->fronts.control, DIALOGUE_V3_SERVER_LIST, on_first_answer, daemon);
        else
                mps_control_ask(
                        daemon->fronts.control, "get_default_active_thread_percentage", on_first_answer, daemon);
}

void daemon_ask_until_it_answers(struct mps_daemon *daemon)
{
        daemon->polls.ask_ms = FIRST_ASK_MS;
        daemon_poll_again(daemon, FIRST_ASK_MS);
}

static void on_poll_turn(uv_timer_t *turn)
{
        struct mps_daemon *daemon = turn->data;

        if (daemon->prepare)
                daemon_prepare_is_late(daemon);
        else if (daemon->machine.state == MPS_STARTING && daemon->fronts.control)
                ask_for_first_answer(daemon);
        else if (daemon_is_looking(daemon) && daemon->fronts.control)
                daemon_poll(daemon);
}

/* ---- commands ---- */

static void on_slow_answer(void *data)
{
        struct mps_daemon *daemon = data;

        mps_peers_on_slow(&daemon->peers);
}

static void on_refused_question(void *data)
{
        struct mps_daemon *daemon = data;

        mps_journal_read(daemon->polls.journal); /* for rank_peer() */
        mps_peers_on_refused(&daemon->peers);
}

int mps_daemon_find_program(const struct mps_daemon_context *context, char **ret, struct error *err)
{
        const struct mps_supervisor_options *options = context->options;

        return mps_control_find(ret, options->control, options->path, options->driver_root, err);
}

static struct mps_control *open_control(struct mps_daemon *daemon, struct error *err)
{
        const struct mps_daemon_context *context = daemon->context;
        _free_ char *program = NULL;
        struct mps_control *control;

        if (mps_daemon_find_program(context, &program, err) < 0)
                return NULL;
        const struct mps_control_options options = {
                .loop = context->options->loop,
                .program = program,
                .pipe_directory = daemon->folder.pipe,
                .log_directory = daemon->folder.log,
                .path = context->options->path,
                .environment = context->options->environment,
                .timeout_ms = context->options->command_ms,
                .slow = on_slow_answer,
                .refused = on_refused_question,
                .data = daemon,
        };

        if (mps_control_new(&control, &options, err) < 0)
                return NULL;
        return control;
}

static void close_control(struct mps_daemon *daemon, struct mps_control *control)
{
        if (control)
                mps_control_close(control, closing_release, closing_hold(&daemon->end.closing));
}

void daemon_drop_control(struct mps_daemon *daemon)
{
        daemon_stop_settings(daemon);
        daemon->polls.current = mps_poll_cancel(daemon->polls.current);
        close_control(daemon, TAKE_PTR(daemon->fronts.control));
        uv_timer_stop(&daemon->turn);
}

void daemon_close_controls(struct mps_daemon *daemon)
{
        daemon_drop_control(daemon);
        close_control(daemon, TAKE_PTR(daemon->fronts.requests));
}

int daemon_renew_control(struct mps_daemon *daemon, struct error *err)
{
        daemon_drop_control(daemon);
        daemon->fronts.control = open_control(daemon, err);
        return daemon->fronts.control ? 0 : -1;
}

struct mps_control *mps_daemon_control(struct mps_daemon *daemon)
{
        struct error err;

        if (!daemon->fronts.requests && daemon->process.launch)
                daemon->fronts.requests = open_control(daemon, &err);
        return daemon->process.launch ? daemon->fronts.requests : NULL;
}

/* ---- actions ---- */

static void ignore_answer(const struct error *err UNUSED, const char *answer UNUSED, void *data UNUSED)
{
}

/* The v3 interface can delete a server only with all its namespaces, so the server's process is ended instead. */
static void shut_servers(struct mps_daemon *daemon)
{
        for (size_t i = 0; daemon->polls.seen && i < daemon->polls.seen->n_servers; i++) {
                if (daemon_is_v3(daemon)) {
                        mps_observation_kill_server(daemon->polls.seen, i);
                        continue;
                }
                _free_ char *command = xasprintf("shutdown_server %d -f", (int)daemon->polls.seen->servers[i].pid);

                mps_control_ask(daemon->fronts.control, command, ignore_answer, NULL);
        }
}

/*
 * Without a process (for example, it waits for its units) the exit is reported too, but from the timer, not from here.
 */
static void kill_process(struct mps_daemon *daemon)
{
        daemon_stop_preparing(daemon);
        daemon_drop_control(daemon);
        daemon->is_waiting = false;
        if (daemon->process.launch)
                mps_launch_kill(daemon->process.launch);
        else
                daemon_report(daemon, MPS_EVENT_EXITED, NULL);
}

bool daemon_can_be_asked(struct mps_daemon *daemon)
{
        struct error err;
        const int rc = daemon_renew_control(daemon, &err);

        if (rc < 0)
                daemon_report(daemon, MPS_EVENT_SILENT, "%s", err.text);
        return rc == 0;
}

static void daemon_quit(struct mps_daemon *daemon, const char *command)
{
        if (!daemon_can_be_asked(daemon))
                return;
        if (daemon_is_v3(daemon))
                mps_control_run(daemon->fronts.control, DIALOGUE_V3_QUIT, ignore_answer, NULL);
        else
                mps_control_ask(daemon->fronts.control, command, ignore_answer, NULL);
}

static void forget_process(struct mps_daemon *daemon)
{
        daemon->started.value = (struct mps_daemon_wanted){0};
        arena_done(&daemon->started.arena);
        daemon->polls.seen = mps_observation_free(daemon->polls.seen);
        daemon_set_text(&daemon->notes.notice, NULL);
        daemon_set_text(&daemon->notes.drift, NULL);
        free(TAKE_PTR(daemon->checks.chunks));
        daemon->checks.n_chunks = 0;
}

static void daemon_carry_out(struct mps_daemon *daemon, enum mps_command command)
{
        switch (command) {
        case MPS_DO_NOTHING:
                break;
        case MPS_DO_START:
                daemon_start(daemon);
                break;
        case MPS_DO_CONFIGURE:
                daemon_configure(daemon);
                break;
        case MPS_DO_DRAIN:
                if (daemon_can_be_asked(daemon))
                        daemon_poll_again(daemon, 0);
                break;
        case MPS_DO_QUIT:
                daemon_quit(daemon, "quit");
                break;
        case MPS_DO_END:
                daemon_quit(daemon, "quit -t 1");
                break;
        case MPS_DO_KILL:
                kill_process(daemon);
                break;
        case MPS_DO_SHUT_SERVER:
                shut_servers(daemon);
                break;
        case MPS_DO_GONE:
                forget_process(daemon);
                break;
        }
}

static void on_daemon_deadline(uv_timer_t *timer)
{
        daemon_report(timer->data, MPS_EVENT_TIMEOUT, NULL);
}

/* A retry is delayed by up to a tenth, so that daemons that failed together do not start together. */
static uint64_t with_jitter(const struct mps_daemon *daemon, uint64_t ms)
{
        if (daemon->machine.state != MPS_FAULT || daemon->machine.phase != MPS_PHASE_PLAIN)
                return ms;
        return ms + (uv_hrtime() / 1000) % (ms / 10 + 1);
}

static void daemon_arm(struct mps_daemon *daemon, uint64_t timeout_ms)
{
        if (timeout_ms == 0)
                uv_timer_stop(&daemon->deadline);
        else if (timeout_ms != MPS_TIMER_KEEP)
                uv_timer_start(&daemon->deadline, on_daemon_deadline, with_jitter(daemon, timeout_ms), 0);
}

static const char *reason_for_timeout(const struct mps_daemon *daemon)
{
        switch (daemon->machine.state) {
        case MPS_STARTING:
                return "its control daemon was started, and has not answered within 30 seconds";
        case MPS_CONFIGURING:
                return "its control daemon has not taken its settings within 60 seconds";
        default:
                return NULL;
        }
}

/* A lower tier is better than no service: daemons that start from now on do not use v3. */
static void give_up_v3(const struct mps_daemon *daemon)
{
        if (!(daemon->context->unknown_options & MPS_CAN_NAMESPACE))
                log_warn("an MPS daemon did not become ready with the v3 interface: no namespaces until a restart",
                        LOG_STR("name", daemon->name));
        daemon->context->unknown_options |= MPS_CAN_NAMESPACE;
}

void daemon_report(struct mps_daemon *daemon, enum mps_event event, const char *format, ...)
{
        const enum mps_state before = daemon->machine.state;
        const bool was_alive = mps_machine_is_alive(&daemon->machine);
        const char *late = event == MPS_EVENT_TIMEOUT ? reason_for_timeout(daemon) : NULL;
        struct mps_machine next = daemon->machine;
        struct mps_action action;

        if (daemon->end.is_closing)
                return;
        action = mps_step(&next, event, (int64_t)uv_now(daemon->context->options->loop));
        /* An event that changes nothing leaves the reason unchanged, too. */
        if (action.command == MPS_DO_NOTHING && action.timeout_ms == MPS_TIMER_KEEP && next.state == before) {
                daemon->machine = next;
                return;
        }
        daemon->machine = next;
        if (next.state == MPS_FAULT && (before == MPS_STARTING || before == MPS_CONFIGURING) && daemon_is_v3(daemon))
                give_up_v3(daemon);
        if (format) {
                va_list args;
                char text[sizeof(((struct error *)NULL)->text)];

                va_start(args, format);
                vsnprintf(text, sizeof(text), format, args);
                va_end(args);
                daemon_set_text(&daemon->notes.reason, xstrdup(text));
        } else if (late) {
                daemon_set_text(&daemon->notes.reason, xstrdup(late));
        }
        daemon_arm(daemon, action.timeout_ms);
        daemon_note_state(daemon, before);
        if (daemon_is_looking(daemon) && action.command == MPS_DO_NOTHING)
                daemon_poll_again(daemon, before == MPS_CONFIGURING ? 0 : mps_daemon_pause(daemon->context));
        daemon_notify(daemon, was_alive != mps_machine_is_alive(&daemon->machine));
        daemon_carry_out(daemon, action.command);
}

void mps_daemon_poke(struct mps_daemon *daemon)
{
        if (!daemon->is_waiting || daemon->context->blocker(daemon, daemon->context->daemons))
                return;
        daemon->is_waiting = false;
        daemon_arm(daemon, MPS_START_TIMEOUT_MS);
        daemon_start(daemon);
}
