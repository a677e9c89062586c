/*
 * Everything that happens becomes an event of the state machine, and its action is executed here. An action that fails
 * at once reports this as its last step.
 */
#include "mps/supervisor/daemon_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "mps/control/dialogue_v3.h"

#define DRIFT_POLLS 150U /* five minutes with the default interval */

/* ---- reporting ---- */

static int64_t now_s(void)
{
        return (int64_t)time(NULL);
}

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
        daemon->notes.since = now_s();
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
                        LOG_INT("pid", daemon->process.launch ? mps_launch_pid(daemon->process.launch) : 0));
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

static void daemon_quit(struct mps_daemon *daemon, const char *command)
{
        struct error err;

        if (daemon_renew_control(daemon, &err) < 0) {
                daemon_report(daemon, MPS_EVENT_SILENT, "%s", err.text);
                return;
        }
        if (daemon_is_v3(daemon))
                mps_control_run(daemon->fronts.control, DIALOGUE_V3_QUIT, ignore_answer, NULL);
        else
                mps_control_ask(daemon->fronts.control, command, ignore_answer, NULL);
}

static void daemon_drain(struct mps_daemon *daemon)
{
        struct error err;

        if (daemon_renew_control(daemon, &err) < 0)
                daemon_report(daemon, MPS_EVENT_SILENT, "%s", err.text);
        else
                daemon_poll_again(daemon, 0);
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
                daemon_drain(daemon);
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

/* ---- requests from outside ---- */

static void daemon_keep_wanted(struct mps_daemon *daemon, const struct mps_daemon_wanted *wanted)
{
        struct arena old = daemon->wanted.arena;

        daemon->wanted.arena = (struct arena)ARENA_INIT;
        mps_daemon_wanted_copy(&daemon->wanted.value, &daemon->wanted.arena, wanted);
        arena_done(&old);
}

void mps_daemon_want(struct mps_daemon *daemon, const struct mps_daemon_wanted *wanted)
{
        const bool is_new = daemon->wanted.value.name && !mps_daemon_is_same(&daemon->wanted.value, wanted);

        daemon_keep_wanted(daemon, wanted);
        if (daemon->process.launch ? !daemon_suits(daemon) : is_new)
                daemon_report(daemon, MPS_EVENT_CHANGED, "it has new settings");
        else
                daemon_report(daemon, MPS_EVENT_WANTED, NULL);
}

void mps_daemon_drop(struct mps_daemon *daemon)
{
        daemon_report(daemon, MPS_EVENT_UNWANTED, "it is no longer wanted");
}

void mps_daemon_adopt(struct mps_daemon *daemon, const struct mps_daemon_wanted *wanted)
{
        struct error err;
        bool is_same;

        if (wanted)
                daemon_keep_wanted(daemon, wanted);
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

void mps_daemon_poke(struct mps_daemon *daemon)
{
        if (!daemon->is_waiting || daemon->context->blocker(daemon, daemon->context->daemons))
                return;
        daemon->is_waiting = false;
        daemon_arm(daemon, MPS_START_TIMEOUT_MS);
        daemon_start(daemon);
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

int mps_daemon_new(struct mps_daemon **ret, struct mps_daemon_context *context, const char *name,
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
        daemon->notes.since = now_s();
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
        daemon_drop_control(daemon);
        close_control(daemon, TAKE_PTR(daemon->fronts.requests));
        daemon->process.launch = mps_launch_forget(daemon->process.launch);
        daemon_shm_stop(&daemon->shm);
        mps_log_close(&daemon->log, closing);
        mps_peers_close(&daemon->peers, closing);
        closing_close(closing, &daemon->deadline);
        closing_close(closing, &daemon->turn);
        closing_end(closing, free_daemon, daemon);
}
