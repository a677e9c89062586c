// SPDX-License-Identifier: Apache-2.0
/*
 * From wanted to a running process: create the folders, adopt a process that runs already, ask NVML (does the unit
 * exist, its compute mode, the capabilities of the driver), then start. With an option that the program does not know,
 * it runs as a front end, finds no daemon and exits with status 1; it is then started again without that option.
 */
#include "mps/supervisor/daemon_state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/hangs.h"
#include "mps/control/dialogue.h"
#include "mps/supervisor/compute_mode.h"
#include "mps/supervisor/record.h"
#include "mps/supervisor/process.h"
#include "mps/supervisor/shm_mount.h"

#define PREPARE_MS UINT64_C(10000)
#define MODE_STAYS "the compute mode stays as it is: processes that are no MPS clients can use the GPU, too"
#define PROTOCOL "CUDA_MPS_PROTOCOL_VERSION"
#define ENTER_WORDS ((size_t)5) /* inserted before the program's path, if it gets a /dev/shm of its own */

/* ---- adopting a running process ---- */

/* A poll in progress, and what was seen, point into the arena. */
bool daemon_suits(struct mps_daemon *daemon)
{
        if (!mps_guess_is(&daemon->started.value))
                return mps_daemon_serves(&daemon->started.value, &daemon->wanted.value);
        if (!mps_guess_fits(&daemon->started.value, &daemon->wanted.value))
                return false;
        mps_daemon_wanted_copy(&daemon->started.value, &daemon->started.arena, &daemon->wanted.value);
        return true;
}

static void on_process_exit(int status, int signal, void *data);

/* Whether it uses the v3 interface; no other option can be seen from outside. */
static unsigned int options_of(pid_t pid)
{
        return process_has_variable(pid, PROTOCOL, "3") ? MPS_CAN_NAMESPACE : 0;
}

static bool adopt_process(struct mps_daemon *daemon, const struct mps_record_daemon *process, bool *ret_same)
{
        const pid_t pid = process->pid;
        const bool is_known = process->settings.name != NULL;
        struct error err;

        if (mps_launch_adopt(&daemon->process.launch, daemon->context->options->loop, pid, process->start_time,
                    on_process_exit, daemon, &err) < 0) {
                log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_ERR(&err));
                return false;
        }
        if (is_known)
                daemon_settings_set(&daemon->started, &process->settings);
        else
                daemon_settings_set(&daemon->started,
                        daemon->wanted.value.name ? &daemon->wanted.value : &daemon->recorded.process.settings);
        daemon->process.options = is_known && !mps_guess_is(&process->settings) ? process->options : options_of(pid);
        daemon->process.can = process->can;
        *ret_same = !daemon->wanted.value.name || (is_known && daemon_suits(daemon));
        daemon_shm_find(&daemon->shm, pid);
        mps_peers_follow(&daemon->peers, pid, process->start_time);
        mps_folder_note_doors(&daemon->folder, pid);
        mps_log_follow(&daemon->log);
        log_info("MPS daemon adopted", LOG_STR("name", daemon->name), LOG_INT("pid", pid));
        return true;
}

/* If it was killed together with the supervisor, its servers may still run. */
static void end_orphans(const struct mps_daemon *daemon, const struct mps_record_daemon *recorded)
{
        const unsigned int count = process_end_orphans(recorded->pid, recorded->start_time, daemon->folder.pipe);

        if (count)
                log_warn("an MPS daemon was killed: its servers, which still hold the GPU, are terminated",
                        LOG_STR("name", daemon->name), LOG_INT("pid", recorded->pid), LOG_UINT("servers", count));
}

static void note_stranger(struct mps_daemon *daemon, const struct error *err)
{
        log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_ERR(err));
        daemon_set_drift(daemon, xstrdup(err->text));
}

/*
 * The process that holds the lock, if it is a control daemon of this node. Its settings are guessed; their name is NULL
 * if that is not possible. PID 0: no process holds it, or one whose lock is ignored, since the file is created again
 * before the start. |*ret_blocked|: it is a privileged process, perhaps NVIDIA's daemon; only the admin may end it.
 */
static void find_by_lock(struct mps_daemon *daemon, struct arena *arena, struct mps_record_daemon *ret,
        bool *ret_blocked, struct error *err)
{
        const struct mps_daemon_context *context = daemon->context;
        const pid_t pid = process_of_lock(daemon->folder.pipe);
        _free_ char *program = NULL;
        _free_ char *units = NULL;

        *ret = (struct mps_record_daemon){0};
        if (!pid || mps_daemon_find_program(context, &program, err) < 0)
                return;
        switch (process_check_daemon(pid, program, &ret->start_time, err)) {
        case PROCESS_DAEMON:
                ret->pid = pid;
                units = process_variable(pid, "CUDA_VISIBLE_DEVICES");
                if (!mps_guess(&ret->settings, arena, daemon->name, units))
                        ret->settings.name = NULL;
                return;
        case PROCESS_PRIVILEGED:
                *ret_blocked = true;
                return;
        case PROCESS_STRANGER:
                note_stranger(daemon, err);
                return;
        case PROCESS_GONE:
                return;
        }
}

enum daemon_found daemon_take_over(struct mps_daemon *daemon, bool *ret_same, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mps_record_daemon recorded = daemon->recorded.process;
        struct mps_record_daemon process = recorded;
        bool is_blocked = false;

        daemon->recorded.process.pid = 0;
        if (recorded.pid)
                end_orphans(daemon, &recorded);
        if (!recorded.pid || !process_is_alive(recorded.pid, recorded.start_time) ||
                !process_has_variable(recorded.pid, "CUDA_MPS_PIPE_DIRECTORY", daemon->folder.pipe))
                find_by_lock(daemon, &arena, &process, &is_blocked, err);
        if (is_blocked)
                return DAEMON_BLOCKED;
        if (!process.pid || mps_folder_make(&daemon->folder, daemon->context->options->root, err) < 0 ||
                daemon_renew_control(daemon, err) < 0 || !adopt_process(daemon, &process, ret_same))
                return DAEMON_NONE;
        if (process.inode)
                daemon->folder.inode = process.inode; /* the next poll compares it */
        daemon_notify(daemon, true);
        return DAEMON_TAKEN_OVER;
}

/* ---- NVML ---- */

/* The facts that a process with NVML reads about a unit. */
struct unit_facts {
        char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE]; /* "": unknown */
        int has_mode;                                        /* as compute_mode_read() returns it */
        nvmlComputeMode_t mode;
        int major;        /* of its compute capability; 0: unknown */
        struct error err; /* |has_mode| -1: why */
};

struct prepare_unit {
        struct nvml_request request;
        struct prepare *prepare;
        const char *uuid;
        struct unit_facts facts;
};

/* |daemon| is NULL if the daemon does not wait for it any more. */
struct prepare {
        struct mps_daemon *daemon;
        struct arena arena;
        struct prepare_unit *units;
        size_t n_units;
        size_t n_asked;                                      /* units with a request */
        char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE]; /* "": unknown */
        int major;                                           /* the lowest compute capability; 0: unknown */
        const struct prepare_unit *gone;                     /* one that cannot be used, or NULL */
        struct error err;                                    /* why a unit has no answer; ERROR_NONE: each has one */
};

static void free_prepare(struct prepare *prepare)
{
        struct arena arena = prepare->arena;

        arena_done(&arena);
}

static int daemon_start_read_capability(const struct nvml *nvml, const char *uuid)
{
        nvmlDevice_t device;
        int major;
        int minor;

        if (NVML_CALL(nvml, device_get_by_uuid, uuid, &device) == NVML_SUCCESS &&
                NVML_CALL(nvml, device_get_compute_capability, device, &major, &minor) == NVML_SUCCESS)
                return major;
        return 0;
}

static int serve_read(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct unit_facts facts = {.driver = ""};
        const struct nvml *nvml;
        const char *uuid;

        pack_text(question, &uuid);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        if (NVML_CALL(nvml, system_get_driver_version, facts.driver, sizeof(facts.driver)) != NVML_SUCCESS)
                facts.driver[0] = '\0';
        facts.has_mode = compute_mode_read(nvml, uuid, &facts.mode, &facts.err);
        facts.major = daemon_start_read_capability(nvml, uuid);
        serving->must_close = facts.has_mode < 0;
        PACK(answer, facts);
        return 0;
}

void daemon_stop_preparing(struct mps_daemon *daemon)
{
        if (daemon->prepare)
                TAKE_PTR(daemon->prepare)->daemon = NULL;
}

/* ---- the start ---- */

/*
 * An option is used if |bit| and |with| are set and |without| is not. If the program does not know it, |bit| is
 * cleared.
 */
static const struct {
        unsigned int bit;
        unsigned int with;
        unsigned int without;
        const char *words[2];
} options[] = {
        {MPS_CAN_MULTI_USER, 0, MPS_CAN_NAMESPACE, {"-multiuser-server"}},
        {MPS_CAN_PARTITION, 0, 0, {"-S"}},
        {MPS_CAN_NAMESPACE, 0, 0, {"-p", "3"}},
        {MPS_CAN_NAMESPACE, MPS_CAN_MULTI_USER, 0, {"-m"}},
};

static bool daemon_start_is_used(size_t position, unsigned int bits)
{
        const unsigned int needed = options[position].bit | options[position].with;

        return (bits & needed) == needed && !(bits & options[position].without);
}

/*
 * A namespace is used for one unit only, since the interface has one memory limit. It needs the multi-user server:
 * otherwise root's server could not serve containers of other users.
 */
static bool is_for_namespaces(const struct mps_daemon *daemon, unsigned int chosen)
{
        return daemon->wanted.value.tier_limit >= MPS_TIER_NAMESPACE &&
               daemon->wanted.value.n_units + daemon->wanted.value.n_away == 1 &&
               (daemon->wanted.value.provisioning == PROVISIONING_HALF ||
                       daemon->wanted.value.provisioning == PROVISIONING_WEIGHTED) &&
               (chosen & MPS_CAN_MULTI_USER || geteuid() != 0);
}

static bool has_mig(const struct mps_daemon_wanted *wanted)
{
        for (size_t i = 0; i < wanted->n_units; i++)
                if (wanted->units[i].is_mig)
                        return true;
        return false;
}

/*
 * Before Volta a multi-user server refuses clients of other users. Partitions need Ampere and a whole GPU
 * (plan/capability.h); once enabled, every client must use one.
 */
static unsigned int choose_options(const struct mps_daemon *daemon, const struct prepare *prepare)
{
        const unsigned int can = *prepare->driver ? dialogue_capabilities(prepare->driver) : 0;
        unsigned int chosen = 0;

        if (geteuid() == 0 && prepare->major >= 7)
                chosen |= MPS_CAN_MULTI_USER;
        if (prepare->major >= 8 && daemon->wanted.value.provisioning == PROVISIONING_SM &&
                !has_mig(&daemon->wanted.value) && daemon->wanted.value.tier_limit >= MPS_TIER_PARTITION)
                chosen |= MPS_CAN_PARTITION;
        if (is_for_namespaces(daemon, chosen))
                chosen |= MPS_CAN_NAMESPACE;
        return chosen & can & ~daemon->context->unknown_options;
}

static int launch_process(struct mps_daemon *daemon, const char *program, struct error *err)
{
        const struct mps_daemon_context *context = daemon->context;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *path = mps_control_search_path(program, context->options->path, context->options->driver_root);
        _close_ int log = mps_log_open(&daemon->log, err);
        const char *argv[ARRAY_SIZE(options) * 2 + ENTER_WORDS + 3] = {context->options->enter_shm, "mps",
                MPS_EXEC_IN_SHM, daemon->folder.shm, daemon->folder.pipe, program, "-f"};
        const size_t skipped = daemon->shm.is_own ? 0 : ENTER_WORDS;
        struct strbuf units = STRBUF_INIT;
        const char **environment;
        size_t count = 0;
        size_t words = ENTER_WORDS + 2;

        if (log < 0)
                return -1;
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                for (size_t j = 0; daemon_start_is_used(i, daemon->process.options) && j < 2 && options[i].words[j];
                        j++)
                        argv[words++] = options[i].words[j];
        while (context->options->environment && context->options->environment[count])
                count++;
        environment = ARENA_ARRAY(&arena, const char *, count + 6);
        for (size_t i = 0; i < daemon->wanted.value.n_units; i++)
                strbuf_printf(&units, "%s%s", i ? "," : "", daemon->wanted.value.units[i].uuid);
        environment[0] = arena_printf(&arena, "PATH=%s", path);
        environment[1] = arena_printf(&arena, "CUDA_VISIBLE_DEVICES=%s", units.data);
        environment[2] = arena_printf(&arena, "CUDA_MPS_PIPE_DIRECTORY=%s", daemon->folder.pipe);
        environment[3] = arena_printf(&arena, "CUDA_MPS_LOG_DIRECTORY=%s", daemon->folder.log);
        for (size_t i = 0; i < count; i++)
                environment[4 + i] = context->options->environment[i];
        if (daemon_is_v3(daemon)) /* shows others that it uses v3; NVIDIA's program only looks at the option */
                environment[4 + count] = PROTOCOL "=3";
        strbuf_done(&units);
        mps_journal_skip(daemon->polls.journal);
        mps_log_follow(&daemon->log);
        return mps_launch_start(&daemon->process.launch,
                &(struct mps_launch_options){
                        context->options->loop, argv + skipped, environment, log, on_process_exit, daemon},
                err);
}

static void spawn_process(struct mps_daemon *daemon)
{
        const struct mps_daemon_context *context = daemon->context;
        _free_ char *program = NULL;
        struct error err;

        if (mps_daemon_find_program(context, &program, &err) < 0 || mps_folder_clear(&daemon->folder, &err) < 0 ||
                launch_process(daemon, program, &err) < 0 || daemon_renew_control(daemon, &err) < 0) {
                daemon_report(daemon, MPS_EVENT_EXITED, "%s", err.text);
                return;
        }
        mps_peers_follow(
                &daemon->peers, mps_launch_pid(daemon->process.launch), mps_launch_start_time(daemon->process.launch));
        daemon_settings_set(&daemon->started, &daemon->wanted.value);
        daemon_ask_until_it_answers(daemon);
        daemon_notify(daemon, true);
}

/* The newest of its options, if it ended because of one; 0: it did not. */
static unsigned int unknown_option(const struct mps_daemon *daemon, int status, const char *words)
{
        if (daemon->machine.state != MPS_STARTING || !dialogue_is_unknown_option(status, words))
                return 0;
        for (size_t i = ARRAY_SIZE(options); i > 0; i--)
                if (daemon_start_is_used(i - 1, daemon->process.options))
                        return options[i - 1].bit;
        return 0;
}

/*
 * Servers survive a daemon that was killed, and would block the GPU for the next daemon's servers; so they are ended
 * even if no poll has seen them.
 */
static void kill_servers(const struct mps_daemon *daemon)
{
        process_end_orphans(mps_launch_pid(daemon->process.launch), mps_launch_start_time(daemon->process.launch),
                daemon->folder.pipe);
        for (size_t i = 0; daemon->polls.seen && i < daemon->polls.seen->n_servers; i++)
                mps_observation_kill_server(daemon->polls.seen, i);
}

static void on_process_exit(int status, int signal, void *data)
{
        struct mps_daemon *daemon = data;
        _free_ char *words = mps_log_last_words(&daemon->log);
        const unsigned int unknown = unknown_option(daemon, status, words);

        kill_servers(daemon);
        mps_peers_follow(&daemon->peers, 0, 0);
        daemon->process.launch = mps_launch_forget(daemon->process.launch);
        daemon_drop_control(daemon);
        daemon->polls.seen = mps_observation_free(daemon->polls.seen);
        daemon->process.can = 0;
        daemon->polls.misses = 0;
        if (unknown) {
                log_info("the MPS control program does not know an option: it is started without it",
                        LOG_STR("name", daemon->name), LOG_UINT("option", unknown));
                daemon->context->unknown_options |= unknown;
                daemon->process.options &= ~unknown;
                spawn_process(daemon);
        } else if (daemon->machine.phase == MPS_PHASE_KILLING) {
                daemon_report(daemon, MPS_EVENT_EXITED, NULL);
        } else if (signal) {
                daemon_report(daemon, MPS_EVENT_EXITED, "its control daemon was ended by signal %d (%s)", signal,
                        strsignal(signal));
        } else if (status < 0) {
                daemon_report(daemon, MPS_EVENT_EXITED, "its control daemon has ended: %s", words);
        } else {
                daemon_report(daemon, MPS_EVENT_EXITED, "its control daemon ended with status %d: %s", status, words);
        }
}

/* ---- before the start ---- */

/* False: other answers are still to come, or the daemon does not wait for them any more. */
static bool has_all_answers(struct prepare *prepare)
{
        if (--prepare->n_asked)
                return false;
        if (prepare->daemon)
                return true;
        free_prepare(prepare);
        return false;
}

static void end_prepare(struct prepare *prepare)
{
        prepare->daemon->prepare = NULL;
        uv_timer_stop(&prepare->daemon->turn);
        free_prepare(prepare);
}

static void on_daemon_start_set(struct nvml_request *request, const struct error *err, struct pack *answer UNUSED)
{
        const struct prepare_unit *unit = container_of(request, struct prepare_unit, request);
        struct prepare *prepare = unit->prepare;
        struct mps_daemon *daemon = prepare->daemon;

        if (err)
                log_warn(MODE_STAYS, LOG_STR("unit", unit->uuid), LOG_ERR(err));
        if (!has_all_answers(prepare))
                return;
        end_prepare(prepare);
        spawn_process(daemon);
}

/* Only a mode whose previous one is recorded. */
static bool must_set_mode(const struct mps_daemon_context *context, const struct prepare_unit *unit)
{
        const bool is_other = unit->facts.mode != NVML_COMPUTEMODE_EXCLUSIVE_PROCESS;
        struct error err;

        if (!context->options->sets_compute_mode || unit->facts.has_mode <= 0)
                return false;
        if (compute_modes_record(context->modes, unit->uuid, unit->facts.mode, &err) == 0)
                return is_other;
        if (is_other)
                log_warn(MODE_STAYS, LOG_STR("unit", unit->uuid), LOG_ERR(&err));
        return false;
}

/* False: there is none to be set. */
static bool set_modes(struct prepare *prepare)
{
        const struct mps_daemon_context *context = prepare->daemon->context;

        for (size_t i = 0; i < prepare->n_units; i++) {
                struct prepare_unit *unit = &prepare->units[i];

                if (!must_set_mode(context, unit))
                        continue;
                prepare->n_asked++;
                compute_mode_ask_to_set(context->nvml, &unit->request, unit->uuid, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
                        on_daemon_start_set);
        }
        return prepare->n_asked > 0;
}

static void prepare_go_on(struct prepare *prepare)
{
        const struct prepare_unit *gone = prepare->gone;
        struct mps_daemon *daemon = prepare->daemon;
        struct error err;

        daemon->process.options = choose_options(daemon, prepare);
        if (!gone && set_modes(prepare))
                return;
        if (prepare->err.kind != ERROR_NONE)
                log_warn("no NVML: the compute mode stays as it is, and what the driver can do is not known",
                        LOG_STR("name", daemon->name), LOG_ERR(&prepare->err));
        if (gone) {
                err = gone->facts.err;
                error_raise_prefix(&err, "its unit %s cannot be used", gone->uuid);
        }
        end_prepare(prepare);
        if (gone)
                daemon_report(daemon, MPS_EVENT_EXITED, "%s", err.text);
        else
                spawn_process(daemon);
}

static void on_daemon_start_read(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct prepare_unit *unit = container_of(request, struct prepare_unit, request);
        const struct unit_facts *facts = &unit->facts;
        struct prepare *prepare = unit->prepare;

        if (err) {
                prepare->err = *err;
        } else {
                PACK(answer, unit->facts);
                if (!prepare->driver[0])
                        memcpy(prepare->driver, facts->driver, sizeof(prepare->driver));
                if (facts->major && (!prepare->major || facts->major < prepare->major))
                        prepare->major = facts->major;
                if (facts->has_mode < 0 && !prepare->gone)
                        prepare->gone = unit;
        }
        if (has_all_answers(prepare))
                prepare_go_on(prepare);
}

void daemon_prepare_is_late(struct mps_daemon *daemon)
{
        log_warn("NVML does not answer: an MPS daemon is started without it", LOG_STR("name", daemon->name));
        daemon_stop_preparing(daemon);
        daemon->process.options = 0;
        spawn_process(daemon);
}

static void ask_unit(struct prepare *prepare, struct prepare_unit *unit, const char *uuid)
{
        struct pack question;

        unit->prepare = prepare;
        unit->uuid = arena_strdup(&prepare->arena, uuid);
        nvml_request_init(&unit->request, serve_read, uuid, on_daemon_start_read);
        question = pack_writer(&unit->request.question);
        pack_text(&question, &uuid);
        prepare->n_asked++;
        nvml_pool_ask(prepare->daemon->context->nvml, &unit->request);
}

static void prepare_begin(struct mps_daemon *daemon)
{
        struct arena arena = ARENA_INIT;
        struct prepare *prepare = ARENA_NEW(&arena, struct prepare);

        prepare->units = ARENA_ARRAY(&arena, struct prepare_unit, daemon->wanted.value.n_units);
        prepare->n_units = daemon->wanted.value.n_units;
        prepare->arena = arena;
        prepare->daemon = daemon;
        for (size_t i = 0; i < prepare->n_units; i++)
                ask_unit(prepare, &prepare->units[i], daemon->wanted.value.units[i].uuid);
        daemon->prepare = prepare;
        daemon_poll_again(daemon, PREPARE_MS); /* then it is too late for NVML */
}

/* Waits until mps_daemon_poke(). */
static void wait_for_units(struct mps_daemon *daemon, const char *blocker)
{
        uv_timer_stop(&daemon->deadline);
        daemon_set_text(&daemon->notes.reason,
                xasprintf("it waits for the daemon '%s' to end, which still serves one of its units", blocker));
        daemon_notify(daemon, false);
}

static void begin_with_other(struct mps_daemon *daemon, bool is_same)
{
        if (!mps_folder_is_same(&daemon->folder)) {
                daemon_report(daemon, MPS_EVENT_LOST, "its pipe directory '%s' was created again while it ran",
                        daemon->folder.pipe);
                return;
        }
        if (is_same)
                daemon_report(daemon, MPS_EVENT_ADOPTED, NULL);
        else
                daemon_report(daemon, MPS_EVENT_LEFT, "it was started with other settings");
}

void daemon_start(struct mps_daemon *daemon)
{
        const struct mps_daemon_context *context = daemon->context;
        _free_ char *program = NULL;
        const bool is_new = access(daemon->folder.pipe, F_OK) < 0;
        const char *blocker;
        bool is_same;
        struct error err;

        switch (daemon_take_over(daemon, &is_same, &err)) {
        case DAEMON_TAKEN_OVER:
                begin_with_other(daemon, is_same);
                return;
        case DAEMON_BLOCKED:
                daemon_report(daemon, MPS_EVENT_EXITED, "%s: end that before, or give Warpshare a mpsRoot of its own",
                        err.text);
                return;
        case DAEMON_NONE:
                break;
        }
        blocker = context->blocker(daemon, context->daemons);
        daemon->is_waiting = blocker != NULL;
        if (blocker) {
                wait_for_units(daemon, blocker);
                return;
        }
        if (mps_daemon_find_program(context, &program, &err) < 0 ||
                mps_folder_make(&daemon->folder, context->options->root, &err) < 0 ||
                daemon_shm_prepare(&daemon->shm, context->shm_kib(daemon, context->data), is_new, &err) < 0)
                daemon_report(daemon, MPS_EVENT_EXITED, "%s", err.text);
        else
                prepare_begin(daemon);
}
