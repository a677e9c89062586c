/*
 * Everything that happens becomes an event; what the machine answers is done here. An action that fails at once reports so as the last
 * thing that it does.
 */
#include "mps/daemon_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "mps/identity.h"

#define FIRST_ASK_MS UINT64_C(20)
#define LAST_ASK_MS UINT64_C(500)
#define LOOKS_BETWEEN_TRIMS 64U

/* ---- telling ---- */

static int64_t now_s(void)
{
        return (int64_t)time(NULL);
}

void run_tell(struct mps_run *run, bool is_process)
{
        if (!run->is_closing)
                run->context->changed(run, is_process, run->context->data);
}

static void set_text(char **text, char *value)
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
                set_text(&run->reason, NULL);
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
        run_stop_configuring(run);
        run->look = mps_look_cancel(run->look);
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

void run_is_silent(struct mps_run *run, const struct error *err)
{
        if (!run->launch || identity_is_alive(mps_launch_pid(run->launch), mps_launch_start_time(run->launch)))
                run_report(run, MPS_EVENT_SILENT, "%s", err->text);
}

/* ---- looking ---- */

static void on_turn(uv_timer_t *turn);

static void look_again(struct mps_run *run, uint64_t ms)
{
        if (!run->is_closing)
                uv_timer_start(&run->turn, on_turn, ms, 0);
}

static bool is_looking_state(const struct mps_run *run)
{
        const struct mps_machine *machine = &run->machine;

        return machine->state == MPS_READY || mps_machine_is_server_fault(machine) ||
               (machine->state == MPS_DRAINING && machine->phase == MPS_PHASE_PLAIN);
}

static unsigned int most_clients(const struct mps_run *run)
{
        unsigned int clients = 0;

        for (size_t i = 0; i < run->started.n_units; i++)
                clients = MAX(clients, run->started.units[i].clients);
        return clients;
}

/* What is worth telling though the daemon serves. */
static void note_observation(struct mps_run *run)
{
        const unsigned int most = most_clients(run);
        char *notice = NULL;

        if (most && run->started.n_units == 1 && run->seen->n_clients >= most)
                notice = xasprintf("it has %zu clients, the most that its GPU takes: further ones are refused with "
                                   "CUDA error 808 until one leaves",
                        run->seen->n_clients);
        else if (run->seen->waiting)
                notice = xstrdup(run->seen->waiting);
        if (notice && (!run->notice || strcmp(notice, run->notice) != 0))
                log_warn("MPS daemon", LOG_STR("name", run->name), LOG_STR("notice", notice));
        set_text(&run->notice, notice);
}

static void judge_observation(struct mps_run *run)
{
        const struct mps_observation *seen = run->seen;

        if (run->machine.state == MPS_DRAINING)
                set_text(&run->reason, xasprintf("it waits for its %zu clients to leave, then it %s", seen->n_clients,
                                               run->machine.wanted ? "starts anew with other settings" : "ends"));
        if (seen->n_clients == 0)
                run_report(run, MPS_EVENT_EMPTY, NULL);
        if (!is_looking_state(run))
                return;
        if (seen->has_fault)
                run_report(run, MPS_EVENT_SERVER_FAULT,
                        "its server is in FAULT: a client made a fatal GPU error, so every client of this GPU has to end; "
                        "it recovers when the last of %zu has left",
                        seen->n_clients);
        else
                run_report(run, MPS_EVENT_SERVER_ACTIVE, NULL);
}

static void on_looked(struct mps_observation *observation, const struct error *err, void *data)
{
        struct mps_run *run = data;
        bool is_new;

        run->look = NULL;
        if (!observation) {
                run_is_silent(run, err);
                return;
        }
        mps_journal_explain(run->journal, observation, run->started.units, run->started.n_units);
        is_new = !mps_observation_is_same(observation, run->seen);
        mps_observation_free(run->seen);
        run->seen = observation;
        note_observation(run);
        if (run->looks++ % LOOKS_BETWEEN_TRIMS == 0)
                mps_folder_trim_log(&run->folder);
        judge_observation(run);
        if (is_new)
                run_tell(run, false);
        if (is_looking_state(run) && !run->look)
                look_again(run, run->context->look_ms);
}

static void look(struct mps_run *run)
{
        const struct mps_look_options options = {
                .control = run->control,
                .can = run->can,
                .unit = run->started.n_units == 1 ? run->started.units[0].uuid : NULL,
                .system_root = run->context->system_root,
                .done = on_looked,
                .data = run,
        };

        if (!mps_folder_is_same(&run->folder)) {
                run_report(run, MPS_EVENT_LOST,
                        "its pipe directory '%s' is gone or is another one: it is made again; containers that were started "
                        "before have the old one mounted and must be restarted",
                        run->folder.pipe);
                return;
        }
        if (!run->look)
                run->look = mps_look_start(&options);
}

/* ---- the first answer ---- */

static void on_first_answer(const struct error *err, const char *answer UNUSED, void *data)
{
        struct mps_run *run = data;

        if (!err) {
                run_report(run, MPS_EVENT_ANSWERED, NULL);
                return;
        }
        look_again(run, run->ask_ms);
        run->ask_ms = MIN(run->ask_ms * 2, LAST_ASK_MS);
}

void run_ask_until_it_answers(struct mps_run *run)
{
        run->ask_ms = FIRST_ASK_MS;
        look_again(run, FIRST_ASK_MS);
}

void run_wait(struct mps_run *run, uint64_t ms)
{
        look_again(run, ms);
}

void run_wait_for_units(struct mps_run *run, const char *blocker)
{
        uv_timer_stop(&run->deadline);
        set_text(&run->reason,
                xasprintf("it waits for the daemon '%s' to end, which still serves one of its units", blocker));
        run_tell(run, false);
}

static void on_turn(uv_timer_t *turn)
{
        struct mps_run *run = turn->data;

        if (run->prepare)
                run_prepare_is_late(run);
        else if (run->machine.state == MPS_STARTING && run->control)
                mps_control_ask(run->control, "get_default_active_thread_percentage", on_first_answer, run);
        else if (is_looking_state(run) && run->control)
                look(run);
}

/* ---- actions ---- */

static void ignore_answer(const struct error *err UNUSED, const char *answer UNUSED, void *data UNUSED)
{
}

static void shut_servers(struct mps_run *run)
{
        for (size_t i = 0; run->seen && i < run->seen->n_servers; i++) {
                _free_ char *command = xasprintf("shutdown_server %d -f", (int)run->seen->servers[i].pid);

                mps_control_ask(run->control, command, ignore_answer, NULL);
        }
}

/* Without a process, as while it waits for its units, its end is reported all the same: from the timer, not from in here. */
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
        mps_control_ask(run->control, command, ignore_answer, NULL);
}

static void drain(struct mps_run *run)
{
        struct error err;

        if (run_renew_control(run, &err) < 0)
                run_report(run, MPS_EVENT_SILENT, "%s", err.text);
        else
                look_again(run, 0);
}

static void forget_process(struct mps_run *run)
{
        run->started = (struct mps_daemon_wanted){0};
        arena_done(&run->started_arena);
        run->seen = mps_observation_free(run->seen);
        set_text(&run->notice, NULL);
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

static void on_deadline(uv_timer_t *timer)
{
        run_report(timer->data, MPS_EVENT_TIMEOUT, NULL);
}

/* A retry comes up to a tenth later than said, so that daemons that failed together do not start together. */
static uint64_t with_jitter(const struct mps_run *run, uint64_t ms)
{
        if (run->machine.state != MPS_FAULT || run->machine.phase != MPS_PHASE_PLAIN)
                return ms;
        return ms + (uv_hrtime() / 1000) % (ms / 10 + 1);
}

static void arm(struct mps_run *run, uint64_t timeout_ms)
{
        if (timeout_ms == 0)
                uv_timer_stop(&run->deadline);
        else if (timeout_ms != MPS_TIMER_KEEP)
                uv_timer_start(&run->deadline, on_deadline, with_jitter(run, timeout_ms), 0);
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
        /* An event that means nothing now leaves no trace, its reason included. */
        if (action.command == MPS_DO_NOTHING && action.timeout_ms == MPS_TIMER_KEEP && next.state == before) {
                run->machine = next;
                return;
        }
        run->machine = next;
        if (format) {
                va_list args;
                char text[sizeof(((struct error *)NULL)->text)];

                va_start(args, format);
                vsnprintf(text, sizeof(text), format, args);
                va_end(args);
                set_text(&run->reason, xstrdup(text));
        } else if (late) {
                set_text(&run->reason, xstrdup(late));
        }
        arm(run, action.timeout_ms);
        note_state(run, before);
        if (is_looking_state(run) && action.command == MPS_DO_NOTHING)
                look_again(run, before == MPS_CONFIGURING ? 0 : run->context->look_ms);
        run_tell(run, was_alive != mps_machine_is_alive(&run->machine));
        carry_out(run, action.command);
}

/* ---- what others want ---- */

void mps_run_want(struct mps_run *run, const struct mps_daemon_wanted *wanted)
{
        struct arena old = run->wanted_arena;

        run->wanted_arena = (struct arena)ARENA_INIT;
        mps_daemon_wanted_copy(&run->wanted, &run->wanted_arena, wanted);
        run->has_wanted = true;
        arena_done(&old);
        if (run->launch && !mps_daemon_is_same(&run->started, &run->wanted))
                run_report(run, MPS_EVENT_CHANGED, "it has new settings");
        else
                run_report(run, MPS_EVENT_WANTED, NULL);
}

void mps_run_drop(struct mps_run *run)
{
        run_report(run, MPS_EVENT_UNWANTED, "it is no longer wanted");
}

void mps_run_adopt(struct mps_run *run)
{
        bool is_same;

        if (run_take_over(run, &is_same))
                run_report(run, MPS_EVENT_ADOPTED, NULL);
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
        arm(run, MPS_START_TIMEOUT_MS);
        run_start(run);
}

/* ---- what others may know ---- */

const char *mps_run_name(const struct mps_run *run)
{
        return run->name;
}

bool mps_run_is_wanted(const struct mps_run *run)
{
        return run->machine.wanted;
}

bool mps_run_is_gone(const struct mps_run *run)
{
        return run->machine.state == MPS_OFF && !run->machine.wanted;
}

bool mps_run_is_ready(const struct mps_run *run)
{
        return run->machine.state == MPS_READY;
}

const struct mps_daemon_wanted *mps_run_settings(const struct mps_run *run)
{
        return run->launch || !run->has_wanted ? &run->started : &run->wanted;
}

bool mps_run_holds(const struct mps_run *run, const char *uuid)
{
        for (size_t i = 0; run->launch && i < run->started.n_units; i++)
                if (strcmp(run->started.units[i].uuid, uuid) == 0)
                        return true;
        return false;
}

bool mps_run_record(const struct mps_run *run, struct mps_record_daemon *ret)
{
        if (!run->launch)
                return false;
        *ret = (struct mps_record_daemon){
                .pid = mps_launch_pid(run->launch),
                .start_time = mps_launch_start_time(run->launch),
                .inode = run->folder.inode,
                .options = run->options,
                .can = run->can,
                .settings = run->started,
        };
        ret->settings.name = run->name;
        return ret->pid != 0;
}

unsigned int mps_run_options(const struct mps_run *run)
{
        return run->options;
}

enum mps_tier mps_run_tier(const struct mps_run *run)
{
        const struct mps_daemon_wanted *settings = mps_run_settings(run);

        if (run->options & MPS_CAN_PARTITION)
                return MPS_TIER_PARTITION;
        return settings->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT
                                                              : MIN(settings->tier_limit, MPS_TIER_VERIFIED);
}

bool mps_run_has_clients(const struct mps_run *run)
{
        return run->seen && run->seen->n_clients;
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
                return "its settings are being made and read back";
        case MPS_DRAINING:
                return "it is ending";
        case MPS_FAULT:
                return "it has failed";
        }
        return NULL;
}

static const char *copy_text(struct arena *arena, const char *text)
{
        return text ? arena_strdup(arena, text) : NULL;
}

static const struct mps_server *copy_servers(struct arena *arena, const struct mps_observation *seen)
{
        struct mps_server *servers = ARENA_ARRAY(arena, struct mps_server, seen->n_servers);

        for (size_t i = 0; i < seen->n_servers; i++) {
                servers[i] = seen->servers[i];
                servers[i].status = copy_text(arena, seen->servers[i].status);
        }
        return servers;
}

static const struct mps_client *copy_clients(struct arena *arena, const struct mps_observation *seen)
{
        struct mps_client *clients = ARENA_ARRAY(arena, struct mps_client, seen->n_clients);

        for (size_t i = 0; i < seen->n_clients; i++) {
                clients[i] = seen->clients[i];
                clients[i].unit = copy_text(arena, seen->clients[i].unit);
                clients[i].pod_uid = copy_text(arena, seen->clients[i].pod_uid);
                clients[i].container_id = copy_text(arena, seen->clients[i].container_id);
                clients[i].grant = copy_text(arena, seen->clients[i].grant);
        }
        return clients;
}

void mps_run_describe(const struct mps_run *run, struct arena *arena, struct mps_daemon_status *ret)
{
        const struct mps_daemon_wanted *settings = mps_run_settings(run);
        const char **units = ARENA_ARRAY(arena, const char *, settings->n_units);
        const char *reason = run->reason ? run->reason : default_reason(run->machine.state);

        for (size_t i = 0; i < settings->n_units; i++)
                units[i] = arena_strdup(arena, settings->units[i].uuid);
        *ret = (struct mps_daemon_status){
                .name = arena_strdup(arena, run->name),
                .resource = arena_strdup(arena, settings->resource ? settings->resource : ""),
                .units = units,
                .n_units = settings->n_units,
                .state = run->machine.state,
                .reason = reason && run->machine.state != MPS_READY ? arena_strdup(arena, reason) : NULL,
                .notice = run->notice ? arena_strdup(arena, run->notice) : NULL,
                .since = run->since,
                .pid = run->launch ? mps_launch_pid(run->launch) : 0,
                .adopted = run->launch && mps_launch_is_adopted(run->launch),
                .restarts = run->restarts,
                .can = run->can,
                .tier = mps_run_tier(run),
                .threads_permille = run->threads_permille,
                .limit_mib = run->limit_mib,
                .servers = run->seen ? copy_servers(arena, run->seen) : NULL,
                .n_servers = run->seen ? run->seen->n_servers : 0,
                .clients = run->seen ? copy_clients(arena, run->seen) : NULL,
                .n_clients = run->seen ? run->seen->n_clients : 0,
                .max_clients = most_clients(run),
        };
}

/* ---- life ---- */

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
        run->deadline.data = run->turn.data = run;
        run->open = 2;
        if (recorded) {
                run->recorded = *recorded;
                mps_daemon_wanted_copy(&run->recorded.settings, &run->recorded_arena, &recorded->settings);
        }
        *ret = run;
        return 0;
}

static void release(struct mps_run *run)
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
        free(run->name);
        free(run);
        if (closed)
                closed(data);
}

static void on_control_closed(void *data)
{
        release(data);
}

static void on_timer_closed(uv_handle_t *handle)
{
        release(handle->data);
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
        uv_close((uv_handle_t *)&run->deadline, on_timer_closed);
        uv_close((uv_handle_t *)&run->turn, on_timer_closed);
}
