/*
 * Keeps the list of daemons equal to the wanted ones; each daemon handles itself. Their changes are collected here: one
 * write of the record and one call of on_change per turn of the loop.
 */
#include "mps/supervisor/parts.h"

#include <assert.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "mps/supervisor/folder.h"
#include "mps/supervisor/shm_left.h"

#define POLL_MS UINT64_C(2000)
#define MODES_PATIENCE_MS UINT64_C(5000) /* for compute modes to be restored, at the end */
#define FILES_MIN ((rlim_t)16384)        /* an MPS server with many clients needs many descriptors (MPS manual) */
#define RECORD_RETRY_MS UINT64_C(1000)
#define RECORD_RETRY_MAX_MS UINT64_C(60000)
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct mps_run *supervisor_find(const struct mps_supervisor *supervisor, const char *name)
{
        for (size_t i = 0; i < supervisor->n_runs; i++)
                if (strcmp(mps_run_name(supervisor->runs[i]), name) == 0)
                        return supervisor->runs[i];
        return NULL;
}

/* ---- the record ---- */

static void on_again(uv_timer_t *timer)
{
        supervisor_note(timer->data, true);
}

/* Only the first failure is logged. While closing there is no retry. */
static void note_failure(struct mps_supervisor *supervisor, const struct error *err)
{
        const uint64_t ms = RECORD_RETRY_MS << MIN(supervisor->record_failures, 6U);

        if (supervisor->record_failures++ == 0)
                log_error("the supervisor's record cannot be written, will try again: until then a crash may restart "
                          "daemons",
                        LOG_ERR(err));
        if (!supervisor->is_closing)
                uv_timer_start(&supervisor->again, on_again, MIN(ms, RECORD_RETRY_MAX_MS), 0);
}

static void note_success(struct mps_supervisor *supervisor)
{
        if (supervisor->record_failures)
                log_info("the supervisor's record is written again");
        supervisor->record_failures = 0;
        uv_timer_stop(&supervisor->again);
}

int supervisor_write_record(struct mps_supervisor *supervisor, struct error *err)
{
        struct mps_record record = {
                .generation = supervisor->generation,
                .wanted = supervisor->wanted,
                .modes = supervisor->modes,
                .n_modes = supervisor->n_modes,
        };
        int rc;

        record.daemons = ARENA_ARRAY(&record.arena, struct mps_record_daemon, supervisor->n_runs);
        for (size_t i = 0; i < supervisor->n_runs; i++)
                record.n_daemons += mps_run_record(supervisor->runs[i], &record.daemons[record.n_daemons]);
        supervisor_allocations_fill_record(supervisor, &record);
        supervisor_fill_limits(supervisor, &record);
        rc = mps_record_write(&record, supervisor->record_path, err);
        if (rc < 0)
                note_failure(supervisor, err);
        else
                note_success(supervisor);
        arena_done(&record.arena);
        return rc;
}

/* supervisor_write_record() logs a failure and retries. */
static void write_record(struct mps_supervisor *supervisor)
{
        struct error err;

        supervisor->has_record = false;
        if (supervisor_write_record(supervisor, &err) < 0)
                log_debug("the record of MPS daemons is written later", LOG_ERR(&err));
}

/* ---- the status ---- */

static size_t position_of(const struct mps_supervisor *supervisor, const struct mps_run *run)
{
        for (size_t i = 0; i < supervisor->wanted.n_daemons; i++)
                if (strcmp(supervisor->wanted.daemons[i].name, mps_run_name(run)) == 0)
                        return i;
        return supervisor->wanted.n_daemons;
}

static void add_memory(const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon)
{
        struct mps_client *clients = ARENA_ARRAY(arena, struct mps_client, daemon->n_clients);

        for (size_t i = 0; i < daemon->n_clients; i++) {
                clients[i] = daemon->clients[i];
                clients[i].memory = supervisor_memory_of(supervisor, clients[i].unit, clients[i].pid);
        }
        daemon->clients = clients;
}

static struct mps_status *make_status(const struct mps_supervisor *supervisor)
{
        struct mps_status *status = mps_status_new();
        struct mps_daemon_status *daemons = ARENA_ARRAY(&status->arena, struct mps_daemon_status, supervisor->n_runs);
        size_t *positions = ARENA_ARRAY(&status->arena, size_t, supervisor->n_runs);
        size_t count = 0;

        for (size_t i = 0; i < supervisor->n_runs; i++)
                positions[i] = position_of(supervisor, supervisor->runs[i]);
        /* In the order of the wanted daemons, then those that are ending. */
        for (size_t place = 0; place <= supervisor->wanted.n_daemons; place++)
                for (size_t i = 0; i < supervisor->n_runs; i++)
                        if (positions[i] == place) {
                                mps_run_describe(supervisor->runs[i], &status->arena, &daemons[count]);
                                supervisor_allocations_describe(supervisor, &status->arena, &daemons[count]);
                                supervisor_describe_limits(supervisor, &status->arena, &daemons[count]);
                                add_memory(supervisor, &status->arena, &daemons[count++]);
                        }
        status->generation = supervisor->generation;
        status->daemons = daemons;
        status->n_daemons = count;
        status->shm = supervisor->shm.shm;
        status->holders = mps_holders_copy(&status->arena, supervisor->holders, supervisor->n_holders);
        status->n_holders = supervisor->n_holders;
        return status;
}

static void renew_status(struct mps_supervisor *supervisor)
{
        mps_status_free(supervisor->status);
        supervisor->status = make_status(supervisor);
}

const struct mps_status *mps_supervisor_status(const struct mps_supervisor *supervisor)
{
        return supervisor->status;
}

/* ---- changes of daemons ---- */

static void on_run_closed(void *data)
{
        struct mps_supervisor *supervisor = data;

        supervisor->closing_runs--;
        supervisor_check_end(supervisor);
}

static void close_run(struct mps_supervisor *supervisor, size_t position)
{
        struct mps_run *run = supervisor->runs[position];

        memmove(&supervisor->runs[position], &supervisor->runs[position + 1],
                (supervisor->n_runs - position - 1) * sizeof(struct mps_run *));
        supervisor->n_runs--;
        supervisor->closing_runs++;
        requests_fail_run(supervisor, run);
        mps_run_close(run, on_run_closed, supervisor);
}

static void close_what_is_gone(struct mps_supervisor *supervisor)
{
        for (size_t i = supervisor->n_runs; i > 0; i--)
                if (mps_run_is_gone(supervisor->runs[i - 1]))
                        close_run(supervisor, i - 1);
}

void mps_supervisor_look(struct mps_supervisor *supervisor)
{
        for (size_t i = 0; i < supervisor->n_runs; i++)
                mps_run_look(supervisor->runs[i]);
        renew_status(supervisor);
}

static const char *find_blocker(const struct mps_run *run, void *data)
{
        const struct mps_supervisor *supervisor = data;
        const struct mps_daemon_wanted *settings = mps_run_settings(run);

        for (size_t i = 0; i < supervisor->n_runs; i++)
                for (size_t j = 0; supervisor->runs[i] != run && j < settings->n_units; j++)
                        if (mps_run_holds(supervisor->runs[i], settings->units[j].uuid))
                                return mps_run_name(supervisor->runs[i]);
        return NULL;
}

static void on_soon(uv_timer_t *timer)
{
        struct mps_supervisor *supervisor = timer->data;

        if (supervisor->has_record) {
                for (size_t i = 0; i < supervisor->n_runs; i++) /* poking a daemon adds none to the list */
                        mps_run_poke(supervisor->runs[i]);
                close_what_is_gone(supervisor);
                supervisor_restore_modes(supervisor);
                write_record(supervisor);
        }
        requests_deliver(supervisor);
        supervisor_allocations_reconcile(supervisor);
        renew_status(supervisor);
        supervisor_follow_limits(supervisor);
        if (supervisor->has_change && supervisor->options.on_change)
                supervisor->options.on_change(supervisor->options.data);
        supervisor->has_change = false;
        supervisor_check_end(supervisor);
}

void supervisor_note(struct mps_supervisor *supervisor, bool is_record)
{
        supervisor->has_change = true;
        supervisor->has_record |= is_record && !supervisor->is_leaving; /* else what goes on would be missing there */
        if (supervisor->open)
                uv_timer_start(&supervisor->soon, on_soon, 0, 0);
}

static void on_run_changed(struct mps_run *run, bool is_process, void *data)
{
        struct mps_supervisor *supervisor = data;

        supervisor_allocations_reconcile(supervisor);
        supervisor_note(supervisor, is_process || mps_run_is_gone(run));
}

/* ---- the wanted daemons ---- */

int supervisor_add_run(struct mps_supervisor *supervisor, const char *name, const struct mps_record_daemon *recorded,
        struct mps_run **ret, struct error *err)
{
        struct mps_run *run;

        if (mps_run_new(&run, &supervisor->context, name, recorded, err) < 0)
                return -1;
        supervisor->runs = xrealloc(supervisor->runs, (supervisor->n_runs + 1) * sizeof(struct mps_run *));
        supervisor->runs[supervisor->n_runs++] = run;
        *ret = run;
        return 0;
}

static int check_wanted(const struct mps_supervisor *supervisor, const struct mps_wanted *wanted, struct error *err)
{
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted->daemons[i];

                if (mps_wanted_find(wanted, daemon->name) != daemon)
                        return error_set(err, ERROR_INVALID, "MPS daemon '%s' is wanted twice", daemon->name);
                if (daemon->n_units == 0)
                        return error_set(err, ERROR_INVALID, "MPS daemon '%s' has no unit", daemon->name);
                if (mps_run_check_name(&supervisor->context, daemon->name, err) < 0)
                        return -1;
        }
        return 0;
}

void supervisor_keep_wanted(struct mps_supervisor *supervisor, const struct mps_wanted *wanted)
{
        struct arena arena = ARENA_INIT;
        struct mps_daemon_wanted *daemons = ARENA_ARRAY(&arena, struct mps_daemon_wanted, wanted->n_daemons);

        for (size_t i = 0; i < wanted->n_daemons; i++)
                mps_daemon_wanted_copy(&daemons[i], &arena, &wanted->daemons[i]);
        arena_done(&supervisor->wanted_arena);
        supervisor->wanted_arena = arena;
        supervisor->wanted = (struct mps_wanted){daemons, wanted->n_daemons, wanted->ends_clients};
}

/* The time of clients whose daemon is not wanted any more is over. */
static void on_grace(uv_timer_t *timer)
{
        struct mps_supervisor *supervisor = timer->data;

        for (size_t i = 0; i < supervisor->n_runs; i++)
                if (supervisor->is_closing || !mps_wanted_find(&supervisor->wanted, mps_run_name(supervisor->runs[i])))
                        mps_run_hurry(supervisor->runs[i]);
}

static void limit_grace(struct mps_supervisor *supervisor, bool ends_clients)
{
        if (!ends_clients)
                uv_timer_stop(&supervisor->grace);
        else if (!supervisor->is_ending_clients)
                uv_timer_start(&supervisor->grace, on_grace, supervisor->options.grace_ms, 0);
        supervisor->is_ending_clients = ends_clients;
}

int mps_supervisor_apply(
        struct mps_supervisor *supervisor, const struct mps_wanted *wanted, uint64_t generation, struct error *err)
{
        if (supervisor->is_closing)
                return error_set(err, ERROR_UNAVAILABLE, "the MPS supervisor is ending");
        if (check_wanted(supervisor, wanted, err) < 0)
                return -1;
        supervisor_keep_wanted(supervisor, wanted);
        supervisor->generation = generation;
        wanted = &supervisor->wanted;
        for (size_t i = 0; i < supervisor->n_runs; i++) /* end the others first, so that their units become free */
                if (!mps_wanted_find(wanted, mps_run_name(supervisor->runs[i])))
                        mps_run_drop(supervisor->runs[i]);
        supervisor_adopt_left(supervisor, wanted);
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                struct mps_run *run = supervisor_find(supervisor, wanted->daemons[i].name);

                if (!run && supervisor_add_run(supervisor, wanted->daemons[i].name, NULL, &run, err) < 0)
                        return -1; /* cannot happen: its name was checked */
                mps_run_want(run, &wanted->daemons[i]);
        }
        limit_grace(supervisor, wanted->ends_clients);
        supervisor_note(supervisor, true);
        return 0;
}

void mps_supervisor_name_holders(struct mps_supervisor *supervisor, const struct mps_holder *holders, size_t n_holders)
{
        arena_done(&supervisor->holders_arena);
        supervisor->holders = mps_holders_copy(&supervisor->holders_arena, holders, n_holders);
        supervisor->n_holders = n_holders;
        supervisor_note(supervisor, false);
}

/* ---- start ---- */

static void raise_file_limit(void)
{
        struct rlimit limit;
        rlim_t hard;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_MIN)
                return;
        hard = limit.rlim_max;
        limit.rlim_cur = FILES_MIN;
        limit.rlim_max = MAX(hard, FILES_MIN);
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
                return;
        limit.rlim_cur = limit.rlim_max = hard;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || hard < FILES_MIN)
                log_warn("MPS servers may run out of file descriptors", LOG_UINT("limit", hard),
                        LOG_UINT("needed", FILES_MIN));
}

static char **copy_environment(const char *const *environment)
{
        size_t count = 0;
        char **copy;

        while (environment && environment[count])
                count++;
        copy = xcalloc(count + 1, sizeof(*copy));
        for (size_t i = 0; i < count; i++)
                copy[i] = xstrdup(environment[i]);
        return copy;
}

struct mps_supervisor *mps_supervisor_new(const struct mps_supervisor_options *options)
{
        struct mps_supervisor *supervisor = xcalloc(1, sizeof(*supervisor));
        const char *path = options->path ? options->path : getenv("PATH");
        _free_ char *shm = NULL;

        supervisor->options = *options;
        supervisor->nvml = nvml_pool_new(&(struct nvml_pool_options){.loop = options->loop,
                .name = "mps-nvml",
                .library = options->nvml_library,
                .driver_root = options->driver_root});
        supervisor->root = xstrdup(options->root);
        supervisor->program = xstrdup(options->control);
        supervisor->path = xstrdup(path && *path ? path : DEFAULT_PATH);
        supervisor->driver_root = xstrdup(options->driver_root ? options->driver_root : "");
        supervisor->system_root = xstrdup(options->system_root ? options->system_root : "");
        supervisor->environment = copy_environment(options->environment);
        supervisor->environments = environments_new(options->loop, supervisor->system_root);
        supervisor->cleaner = worker_new(options->loop, "mps-cleaner", mps_shm_left_serve, NULL);
        supervisor->record_path = xasprintf("%s/" MPS_RECORD_FILE, options->root);
        supervisor->context = (struct mps_run_context){
                .loop = options->loop,
                .root = supervisor->root,
                .program = supervisor->program,
                .path = supervisor->path,
                .driver_root = supervisor->driver_root,
                .system_root = supervisor->system_root,
                .environment = (const char *const *)supervisor->environment,
                .enter_shm = supervisor_find_enter_shm(options),
                .sets_compute_mode = options->sets_compute_mode,
                .poll_ms = options->poll_ms ? options->poll_ms : POLL_MS,
                .command_ms = options->command_ms,
                .nvml = supervisor->nvml,
                .environments = supervisor->environments,
                .cleaner = supervisor->cleaner,
                .blocker = find_blocker,
                .mode_before = supervisor_mode_before,
                .shm_kib = supervisor_shm_kib,
                .namespaces = supervisor_allocations_list_namespaces,
                .changed = on_run_changed,
                .data = supervisor,
        };
        shm = xasprintf("%s/shm", options->root);
        mps_folder_label(shm);
        list_init(&supervisor->allocations);
        list_init(&supervisor->requests);
        list_init(&supervisor->usages);
        list_init(&supervisor->limits_jobs);
        uv_timer_init(options->loop, &supervisor->reconcile);
        uv_timer_init(options->loop, &supervisor->soon);
        uv_timer_init(options->loop, &supervisor->again);
        uv_timer_init(options->loop, &supervisor->poll);
        uv_timer_init(options->loop, &supervisor->grace);
        supervisor->soon.data = supervisor->again.data = supervisor->poll.data = supervisor->grace.data = supervisor;
        supervisor->reconcile.data = supervisor;
        supervisor->open = 5;
        uv_timer_start(&supervisor->poll, supervisor_on_poll, 0, 0);
        raise_file_limit();
        supervisor_restore(supervisor);
        renew_status(supervisor);
        return supervisor;
}

/* ---- end ---- */

static void free_supervisor(struct mps_supervisor *supervisor)
{
        mps_supervisor_closed_fn *closed = supervisor->closed;
        void *data = supervisor->closed_data;
        const bool leaves_modes = supervisor_leaves_modes(supervisor);

        requests_done(supervisor);
        supervisor_allocations_done(supervisor);
        supervisor_usages_done(supervisor);
        mps_memory_limits_done(&supervisor->limits);
        mps_status_free(supervisor->status);
        arena_done(&supervisor->wanted_arena);
        arena_done(&supervisor->holders_arena);
        arena_done(&supervisor->modes_arena);
        for (char **text = supervisor->environment; *text; text++)
                free(*text);
        free(supervisor->environment);
        free(supervisor->modes);
        free(supervisor->runs);
        free(supervisor->root);
        free(supervisor->program);
        free(supervisor->path);
        free(supervisor->driver_root);
        free(supervisor->system_root);
        free(supervisor->record_path);
        free(supervisor);
        if (closed)
                closed(leaves_modes, data);
}

static void on_supervisor_handle_closed(uv_handle_t *handle)
{
        struct mps_supervisor *supervisor = handle->data;

        if (--supervisor->open == 0)
                free_supervisor(supervisor);
}

static void end(struct mps_supervisor *supervisor)
{
        supervisor->is_ended = true;
        supervisor->nvml = nvml_pool_close(supervisor->nvml);
        supervisor->environments = environments_close(supervisor->environments);
        supervisor->cleaner = worker_close(supervisor->cleaner);
        uv_close((uv_handle_t *)&supervisor->soon, on_supervisor_handle_closed);
        uv_close((uv_handle_t *)&supervisor->again, on_supervisor_handle_closed);
        uv_close((uv_handle_t *)&supervisor->reconcile, on_supervisor_handle_closed);
        uv_close((uv_handle_t *)&supervisor->poll, on_supervisor_handle_closed);
        uv_close((uv_handle_t *)&supervisor->grace, on_supervisor_handle_closed);
}

static void on_modes_late(uv_timer_t *timer)
{
        end(timer->data);
}

/* The supervisor has ended when all daemons are closed and every mode is restored, or NVML was given its time. */
void supervisor_check_end(struct mps_supervisor *supervisor)
{
        if (!supervisor->is_closing || supervisor->is_ended || supervisor->n_runs || supervisor->closing_runs ||
                supervisor->has_record)
                return;
        if (supervisor->mode_jobs && !supervisor->is_leaving)
                uv_timer_start(&supervisor->grace, on_modes_late, MODES_PATIENCE_MS, 0);
        else
                end(supervisor);
}

static void begin_end(struct mps_supervisor *supervisor, mps_supervisor_closed_fn *closed, void *data)
{
        assert(!supervisor->is_closing);
        supervisor->is_closing = true;
        supervisor->closed = closed;
        supervisor->closed_data = data;
        uv_timer_stop(&supervisor->poll);
        uv_timer_stop(&supervisor->again);
        uv_timer_stop(&supervisor->reconcile);
}

void mps_supervisor_leave(struct mps_supervisor *supervisor, mps_supervisor_closed_fn *closed, void *data)
{
        begin_end(supervisor, closed, data);
        supervisor->is_leaving = true;
        write_record(supervisor);
        while (supervisor->n_runs)
                close_run(supervisor, supervisor->n_runs - 1);
        supervisor_note(supervisor, false); /* it ends where there is no daemon, too */
}

void mps_supervisor_close(
        struct mps_supervisor *supervisor, uint64_t grace_ms, mps_supervisor_closed_fn *closed, void *data)
{
        begin_end(supervisor, closed, data);
        supervisor_adopt_left(supervisor, &(struct mps_wanted){NULL, 0});
        for (size_t i = 0; i < supervisor->n_runs; i++)
                mps_run_drop(supervisor->runs[i]);
        uv_timer_start(&supervisor->grace, on_grace, grace_ms, 0);
        supervisor_note(supervisor, true);
}
