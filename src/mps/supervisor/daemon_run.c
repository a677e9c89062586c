/*
 * Everything that happens becomes an event of the state machine, and its action is executed here. An action that fails
 * at once reports this as its last step.
 */
#include "mps/supervisor/daemon_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "mps/control/dialogue_v3.h"

/* ---- reporting ---- */

static int64_t now_s(void)
{
        return (int64_t)time(NULL);
}

void run_notify(struct mps_run *run, bool is_process)
{
        if (!run->is_closing)
                run->context->changed(run, is_process, run->context->data);
}

void run_set_text(char **text, char *value)
{
        free(*text);
        *text = value;
}

static void log_limits(const struct mps_run *run)
{
        for (size_t i = 0; i < run->started.n_units; i++) {
                struct strbuf line = STRBUF_INIT;

                mps_limit_line(&line, &run->started.units[i]);
                if (line.size)
                        log_text(LOG_INFO, "%s", line.data);
                strbuf_done(&line);
        }
}

static void note_state(struct mps_run *run, enum mps_state before)
{
        const enum mps_state state = run->machine.state;

        if (state == before)
                return;
        run->since = now_s();
        if (before == MPS_READY || state == MPS_READY)
                mps_folder_set_started(&run->folder, state == MPS_READY);
        if (state == MPS_READY) {
                run_set_text(&run->reason, NULL);
                log_limits(run);
        }
        if (state == MPS_STARTING && before == MPS_FAULT)
                run->restarts++;
        if (state == MPS_FAULT)
                log_warn("MPS daemon", LOG_STR("name", run->name), LOG_STR("state", mps_state_name(state)),
                        LOG_STR("reason", run->reason));
        else
                log_info("MPS daemon", LOG_STR("name", run->name), LOG_STR("state", mps_state_name(state)),
                        LOG_INT("pid", run->launch ? mps_launch_pid(run->launch) : 0));
}

/* ---- commands ---- */

static void on_control_closed(void *data);

static struct mps_control *open_control(struct mps_run *run, struct error *err)
{
        const struct mps_run_context *context = run->context;
        _free_ char *program = NULL;
        struct mps_control *control;

        if (mps_control_find(&program, context->program, context->path, context->driver_root, err) < 0)
                return NULL;
        const struct mps_control_options options = {
                .loop = context->loop,
                .program = program,
                .pipe_directory = run->folder.pipe,
                .log_directory = run->folder.log,
                .path = context->path,
                .environment = context->environment,
                .timeout_ms = context->command_ms,
                .slow = run_on_slow_answer,
                .refused = run_on_refused_question,
                .data = run,
        };

        if (mps_control_new(&control, &options, err) < 0)
                return NULL;
        run->open++;
        return control;
}

static void close_control(struct mps_run *run, struct mps_control *control)
{
        if (control)
                mps_control_close(control, on_control_closed, run);
}

void run_drop_control(struct mps_run *run)
{
        run_stop_settings(run);
        run->poll = mps_poll_cancel(run->poll);
        close_control(run, TAKE_PTR(run->control));
        uv_timer_stop(&run->turn);
}

int run_renew_control(struct mps_run *run, struct error *err)
{
        run_drop_control(run);
        run->control = open_control(run, err);
        return run->control ? 0 : -1;
}

struct mps_control *mps_run_control(struct mps_run *run)
{
        struct error err;

        if (!run->requests && run->launch)
                run->requests = open_control(run, &err);
        return run->launch ? run->requests : NULL;
}

/* ---- actions ---- */

static void ignore_answer(const struct error *err UNUSED, const char *answer UNUSED, void *data UNUSED)
{
}

/* The v3 interface can delete a server only with all its namespaces, so the server's process is ended instead. */
static void shut_servers(struct mps_run *run)
{
        for (size_t i = 0; run->seen && i < run->seen->n_servers; i++) {
                if (run_is_v3(run)) {
                        mps_observation_kill_server(run->seen, i);
                        continue;
                }
                _free_ char *command = xasprintf("shutdown_server %d -f", (int)run->seen->servers[i].pid);

                mps_control_ask(run->control, command, ignore_answer, NULL);
        }
}

/*
 * Without a process (for example, it waits for its units) the exit is reported too, but from the timer, not from here.
 */
static void kill_process(struct mps_run *run)
{
        run_stop_preparing(run);
        run_drop_control(run);
        run->is_waiting = false;
        if (run->launch)
                mps_launch_kill(run->launch);
        else
                run_report(run, MPS_EVENT_EXITED, NULL);
}

static void quit(struct mps_run *run, const char *command)
{
        struct error err;

        if (run_renew_control(run, &err) < 0) {
                run_report(run, MPS_EVENT_SILENT, "%s", err.text);
                return;
        }
        if (run_is_v3(run))
                mps_control_run(run->control, DIALOGUE_V3_QUIT, ignore_answer, NULL);
        else
                mps_control_ask(run->control, command, ignore_answer, NULL);
}

static void drain(struct mps_run *run)
{
        struct error err;

        if (run_renew_control(run, &err) < 0)
                run_report(run, MPS_EVENT_SILENT, "%s", err.text);
        else
                run_poll_again(run, 0);
}

static void forget_process(struct mps_run *run)
{
        run->started = (struct mps_daemon_wanted){0};
        arena_done(&run->started_arena);
        run->seen = mps_observation_free(run->seen);
        run_set_text(&run->notice, NULL);
        run_set_text(&run->drift, NULL);
        free(TAKE_PTR(run->chunks));
        run->n_chunks = 0;
}

static void carry_out(struct mps_run *run, enum mps_command command)
{
        switch (command) {
        case MPS_DO_NOTHING:
                break;
        case MPS_DO_START:
                run_start(run);
                break;
        case MPS_DO_CONFIGURE:
                run_configure(run);
                break;
        case MPS_DO_DRAIN:
                drain(run);
                break;
        case MPS_DO_QUIT:
                quit(run, "quit");
                break;
        case MPS_DO_END:
                quit(run, "quit -t 1");
                break;
        case MPS_DO_KILL:
                kill_process(run);
                break;
        case MPS_DO_SHUT_SERVER:
                shut_servers(run);
                break;
        case MPS_DO_GONE:
                forget_process(run);
                break;
        }
}

static void on_daemon_run_deadline(uv_timer_t *timer)
{
        run_report(timer->data, MPS_EVENT_TIMEOUT, NULL);
}

/* A retry is delayed by up to a tenth, so that daemons that failed together do not start together. */
static uint64_t with_jitter(const struct mps_run *run, uint64_t ms)
{
        if (run->machine.state != MPS_FAULT || run->machine.phase != MPS_PHASE_PLAIN)
                return ms;
        return ms + (uv_hrtime() / 1000) % (ms / 10 + 1);
}

static void daemon_run_arm(struct mps_run *run, uint64_t timeout_ms)
{
        if (timeout_ms == 0)
                uv_timer_stop(&run->deadline);
        else if (timeout_ms != MPS_TIMER_KEEP)
                uv_timer_start(&run->deadline, on_daemon_run_deadline, with_jitter(run, timeout_ms), 0);
}

static const char *reason_for_timeout(const struct mps_run *run)
{
        switch (run->machine.state) {
        case MPS_STARTING:
                return "its control daemon was started, and has not answered within 30 seconds";
        case MPS_CONFIGURING:
                return "its control daemon has not taken its settings within 60 seconds";
        default:
                return NULL;
        }
}

/* A lower tier is better than no service: daemons that start from now on do not use v3. */
static void give_up_v3(const struct mps_run *run)
{
        if (!(run->context->unknown_options & MPS_CAN_NAMESPACE))
                log_warn("an MPS daemon did not become ready with the v3 interface: no namespaces until a restart",
                        LOG_STR("name", run->name));
        run->context->unknown_options |= MPS_CAN_NAMESPACE;
}

void run_report(struct mps_run *run, enum mps_event event, const char *format, ...)
{
        const enum mps_state before = run->machine.state;
        const bool was_alive = mps_machine_is_alive(&run->machine);
        const char *late = event == MPS_EVENT_TIMEOUT ? reason_for_timeout(run) : NULL;
        struct mps_machine next = run->machine;
        struct mps_action action;

        if (run->is_closing)
                return;
        action = mps_step(&next, event, (int64_t)uv_now(run->context->loop));
        /* An event that changes nothing leaves the reason unchanged, too. */
        if (action.command == MPS_DO_NOTHING && action.timeout_ms == MPS_TIMER_KEEP && next.state == before) {
                run->machine = next;
                return;
        }
        run->machine = next;
        if (next.state == MPS_FAULT && (before == MPS_STARTING || before == MPS_CONFIGURING) && run_is_v3(run))
                give_up_v3(run);
        if (format) {
                va_list args;
                char text[sizeof(((struct error *)NULL)->text)];

                va_start(args, format);
                vsnprintf(text, sizeof(text), format, args);
                va_end(args);
                run_set_text(&run->reason, xstrdup(text));
        } else if (late) {
                run_set_text(&run->reason, xstrdup(late));
        }
        daemon_run_arm(run, action.timeout_ms);
        note_state(run, before);
        if (run_is_looking(run) && action.command == MPS_DO_NOTHING)
                run_poll_again(run, before == MPS_CONFIGURING ? 0 : mps_run_pause(run->context));
        run_notify(run, was_alive != mps_machine_is_alive(&run->machine));
        carry_out(run, action.command);
}

/* ---- requests from outside ---- */

static void keep_wanted(struct mps_run *run, const struct mps_daemon_wanted *wanted)
{
        struct arena old = run->wanted_arena;

        run->wanted_arena = (struct arena)ARENA_INIT;
        mps_daemon_wanted_copy(&run->wanted, &run->wanted_arena, wanted);
        run->has_wanted = true;
        arena_done(&old);
}

void mps_run_want(struct mps_run *run, const struct mps_daemon_wanted *wanted)
{
        const bool is_new = run->has_wanted && !mps_daemon_is_same(&run->wanted, wanted);

        keep_wanted(run, wanted);
        if (run->launch ? !run_suits(run) : is_new)
                run_report(run, MPS_EVENT_CHANGED, "it has new settings");
        else
                run_report(run, MPS_EVENT_WANTED, NULL);
}

void mps_run_drop(struct mps_run *run)
{
        run_report(run, MPS_EVENT_UNWANTED, "it is no longer wanted");
}

void mps_run_adopt(struct mps_run *run, const struct mps_daemon_wanted *wanted)
{
        struct error err;
        bool is_same;

        if (wanted)
                keep_wanted(run, wanted);
        if (run_take_over(run, &is_same, &err) == RUN_TAKEN_OVER)
                run_report(run, wanted && is_same ? MPS_EVENT_ADOPTED : MPS_EVENT_LEFT, NULL);
}

void mps_run_hurry(struct mps_run *run)
{
        run_report(run, MPS_EVENT_HURRY, NULL);
}

void mps_run_lose(struct mps_run *run, const char *reason)
{
        run_report(run, MPS_EVENT_LOST, "%s", reason);
}

void mps_run_poke(struct mps_run *run)
{
        if (!run->is_waiting || run->context->blocker(run, run->context->data))
                return;
        run->is_waiting = false;
        daemon_run_arm(run, MPS_START_TIMEOUT_MS);
        run_start(run);
}

/* ---- start and end ---- */

int mps_run_check_name(const struct mps_run_context *context, const char *name, struct error *err)
{
        const size_t length = strlen(context->root) + strlen("/") + strlen(name) + strlen("/pipe");

        if (length <= MPS_PIPE_PATH_MAX)
                return 0;
        return error_set(err, ERROR_INVALID,
                "MPS daemon '%s': its pipe directory '%s/%s/pipe' has %zu bytes, at most %zu are possible: choose a shorter "
                "MPS root",
                name, context->root, name, length, MPS_PIPE_PATH_MAX);
}

int mps_run_new(struct mps_run **ret, struct mps_run_context *context, const char *name,
        const struct mps_record_daemon *recorded, struct error *err)
{
        struct mps_run *run;

        if (mps_run_check_name(context, name, err) < 0)
                return -1;
        run = xcalloc(1, sizeof(*run));
        run->context = context;
        run->name = xstrdup(name);
        mps_folder_init(&run->folder, context->root, name);
        run->journal = mps_journal_new(run->folder.log);
        run->since = now_s();
        uv_timer_init(context->loop, &run->deadline);
        uv_timer_init(context->loop, &run->turn);
        uv_timer_init(context->loop, &run->peers);
        run->deadline.data = run->turn.data = run->peers.data = run;
        run->log_watch = mps_log_watch_new(context->loop, run_on_log, run);
        run->open = 4;
        if (recorded) {
                run->recorded = *recorded;
                mps_daemon_wanted_copy(&run->recorded.settings, &run->recorded_arena, &recorded->settings);
        }
        *ret = run;
        return 0;
}

static void daemon_run_release(struct mps_run *run)
{
        void (*closed)(void *data) = run->closed;
        void *data = run->closed_data;

        if (--run->open || !run->is_closing)
                return;
        mps_observation_free(run->seen);
        mps_journal_free(run->journal);
        arena_done(&run->wanted_arena);
        arena_done(&run->started_arena);
        arena_done(&run->recorded_arena);
        mps_folder_done(&run->folder);
        free(run->reason);
        free(run->notice);
        free(run->drift);
        free(run->chunks);
        peer_wait_done(&run->peer);
        free(run->name);
        free(run);
        if (closed)
                closed(data);
}

static void on_control_closed(void *data)
{
        daemon_run_release(data);
}

static void on_daemon_run_timer_closed(uv_handle_t *handle)
{
        daemon_run_release(handle->data);
}

void mps_run_close(struct mps_run *run, void (*closed)(void *data), void *data)
{
        run->is_closing = true;
        run->closed = closed;
        run->closed_data = data;
        run_stop_preparing(run);
        run_drop_control(run);
        close_control(run, TAKE_PTR(run->requests));
        run->launch = mps_launch_forget(run->launch);
        mps_log_watch_close(run->log_watch, on_control_closed, run);
        run_stop_removing(run);
        uv_close((uv_handle_t *)&run->deadline, on_daemon_run_timer_closed);
        uv_close((uv_handle_t *)&run->turn, on_daemon_run_timer_closed);
        uv_close((uv_handle_t *)&run->peers, on_daemon_run_timer_closed);
}
