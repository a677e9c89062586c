// SPDX-License-Identifier: Apache-2.0
/*
 * Owns the objects of which a supervisor consists, and what they share: the record and the status. Their changes are
 * collected here: one write of the record and one call of on_change per turn of the loop.
 */
#include "mps/supervisor/supervisor.h"

#include <assert.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/io/loop.h"
#include "base/io/record_file.h"
#include "mps/supervisor/allocations.h"
#include "mps/supervisor/environment.h"
#include "mps/supervisor/folder.h"
#include "mps/supervisor/memory_limits.h"
#include "mps/supervisor/shm.h"
#include "mps/supervisor/shm_mount.h"
#include "mps/supervisor/usage.h"

#define POLL_MS UINT64_C(2000)
#define POLLS_BETWEEN_LIMITS 15U         /* containers' limits are checked once in so many polls */
#define POLLS_BETWEEN_MODES 5U           /* modes that NVML did not restore are tried again once in so many polls */
#define MODES_PATIENCE_MS UINT64_C(5000) /* for compute modes to be restored, at the end */
#define FILES_MIN ((rlim_t)16384)        /* an MPS server with many clients needs many descriptors (MPS manual) */
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* open ──► closing (daemons end) or leaving (daemons stay) ──► ended (NVML is closed) */
enum supervisor_phase { SUPERVISOR_OPEN, SUPERVISOR_CLOSING, SUPERVISOR_LEAVING, SUPERVISOR_ENDED };

struct mps_supervisor {
        struct mps_supervisor_options options;
        struct arena texts; /* copies of the options */
        struct nvml_pool *nvml;
        struct mps_daemons daemons;
        struct mps_allocations allocations;
        struct compute_modes modes;
        struct mps_usages usages;
        struct mps_memory_limits limits;
        struct mps_shm_watch shm; /* of the node */

        struct arena wanted_arena;
        struct mps_wanted wanted;
        uint64_t generation;
        struct arena holders_arena;
        const struct mps_holder *holders;
        size_t n_holders;

        struct deferred turn;
        bool has_change; /* the status has changed: call on_change */
        bool has_record; /* the record must be written */
        struct record_file record;
        struct mps_status *status; /* of the last turn */
        uv_timer_t poll;           /* asks NVML at intervals */
        unsigned int polls;
        uv_timer_t grace;
        bool is_ending_clients; /* of daemons that are not wanted: |grace| runs, or is over */

        enum supervisor_phase phase;
        unsigned int closing_daemons; /* whose close callback has not come yet */
        struct closing closing;
        mps_supervisor_closed_fn *closed;
        void *closed_data;
};

/* ---- the record ---- */

static int supervisor_write_record(struct error *err, void *data)
{
        struct mps_supervisor *supervisor = data;
        const struct mps_daemons *daemons = &supervisor->daemons;
        struct mps_record record = {
                .generation = supervisor->generation,
                .wanted = supervisor->wanted,
        };
        _free_ char *text = NULL;

        record.daemons = ARENA_ARRAY(&record.arena, struct mps_record_daemon, daemons->n_items);
        for (size_t i = 0; i < daemons->n_items; i++)
                record.n_daemons += mps_daemon_record(daemons->items[i], &record.daemons[record.n_daemons]);
        compute_modes_fill_record(&supervisor->modes, &record);
        mps_allocations_fill_record(&supervisor->allocations, &record);
        mps_memory_limits_fill_record(&supervisor->limits, &record);
        text = mps_record_print(&record);
        arena_done(&record.arena);
        return record_file_write(&supervisor->record, text, err);
}

static void write_record_again(void *data)
{
        struct error err;

        supervisor_write_record(&err, data); /* the record file logs a failure */
}

static void supervisor_note_change(bool is_record, void *data)
{
        struct mps_supervisor *supervisor = data;

        supervisor->has_change = true;
        /* While the supervisor leaves, the record must keep the daemons that run. */
        supervisor->has_record |= is_record && supervisor->phase != SUPERVISOR_LEAVING;
        if (supervisor->phase != SUPERVISOR_ENDED)
                deferred_schedule(&supervisor->turn);
}

/* ---- the status ---- */

static void describe_daemon(const struct mps_supervisor *supervisor, const struct mps_daemon *daemon,
        struct arena *arena, struct mps_daemon_status *ret)
{
        struct mps_client *clients = mps_daemon_describe(daemon, arena, ret);

        mps_allocations_describe(&supervisor->allocations, arena, ret);
        mps_memory_limits_describe(&supervisor->limits, arena, ret);
        for (size_t i = 0; i < ret->n_clients; i++)
                clients[i].memory = mps_usages_memory(&supervisor->usages, clients[i].unit, clients[i].pid);
}

static struct mps_status *make_status(const struct mps_supervisor *supervisor)
{
        const struct mps_daemons *daemons = &supervisor->daemons;
        struct mps_status *status = mps_status_new();
        struct mps_daemon_status *all = ARENA_ARRAY(&status->arena, struct mps_daemon_status, daemons->n_items);
        const struct mps_wanted *wanted = &supervisor->wanted;

        /* In the order of the wanted daemons, then those that are ending. */
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon *daemon = mps_daemons_find(daemons, wanted->daemons[i].name);

                if (daemon)
                        describe_daemon(supervisor, daemon, &status->arena, &all[status->n_daemons++]);
        }
        for (size_t i = 0; i < daemons->n_items; i++)
                if (!mps_wanted_find(wanted, mps_daemon_get_name(daemons->items[i])))
                        describe_daemon(supervisor, daemons->items[i], &status->arena, &all[status->n_daemons++]);
        status->generation = supervisor->generation;
        status->daemons = all;
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

void mps_supervisor_look(struct mps_supervisor *supervisor)
{
        for (size_t i = 0; i < supervisor->daemons.n_items; i++)
                mps_daemon_look(supervisor->daemons.items[i]);
        renew_status(supervisor);
}

/* NVML is not asked about other units any more, so it would never be found out that these answer again. */
bool mps_supervisor_hang(const struct mps_supervisor *supervisor, struct worker_call *ret)
{
        struct worker_call hangs[NVML_POOL_MAX];
        const size_t n_hangs = nvml_pool_hangs(supervisor->nvml, hangs);

        for (size_t i = 0; i < n_hangs; i++)
                if (mps_daemons_need(&supervisor->daemons, hangs[i].name) ||
                        compute_modes_has(&supervisor->modes, hangs[i].name)) {
                        *ret = hangs[i];
                        return true;
                }
        return false;
}

/* ---- once per turn, and at intervals ---- */

/* Clients or allocations have changed: sets missing limits and clears obsolete ones. */
static void follow_limits(struct mps_supervisor *supervisor, bool checks_all)
{
        const struct mps_status *status = supervisor->status;
        struct mps_record granted = {0};
        bool is_longer = false;
        struct error err;

        if (supervisor->phase != SUPERVISOR_OPEN || !status)
                return;
        mps_allocations_fill_record(&supervisor->allocations, &granted);
        for (size_t i = 0; i < status->n_daemons; i++)
                is_longer |= mps_memory_limits_add(&supervisor->limits, &status->daemons[i], &granted);
        /* A limit is on record before it is set, so that a crash does not leave it without an owner. */
        if (is_longer && supervisor_write_record(&err, supervisor) < 0)
                log_debug("limits of containers wait for the record", LOG_ERR(&err));
        if (!record_file_has_failed(&supervisor->record))
                mps_memory_limits_start(&supervisor->limits, &granted, checks_all);
        arena_done(&granted.arena);
}

static void check_end(struct mps_supervisor *supervisor);

static void on_daemon_closed(void *data)
{
        struct mps_supervisor *supervisor = data;

        supervisor->closing_daemons--;
        check_end(supervisor);
}

static void close_daemon(struct mps_supervisor *supervisor, size_t position)
{
        struct mps_daemon *daemon = mps_daemons_remove(&supervisor->daemons, position);

        supervisor->closing_daemons++;
        mps_allocations_fail_daemon(&supervisor->allocations, daemon);
        mps_daemon_close(daemon, on_daemon_closed, supervisor);
}

static void supervisor_on_turn(void *data)
{
        struct mps_supervisor *supervisor = data;
        const struct mps_daemons *daemons = &supervisor->daemons;

        if (supervisor->has_record) {
                supervisor->has_record = false;
                for (size_t i = 0; i < daemons->n_items; i++) /* poking a daemon adds none to the list */
                        mps_daemon_poke(daemons->items[i]);
                for (size_t i = daemons->n_items; i > 0; i--)
                        if (mps_daemon_is_gone(daemons->items[i - 1]))
                                close_daemon(supervisor, i - 1);
                compute_modes_restore(&supervisor->modes);
                write_record_again(supervisor);
        }
        mps_allocations_deliver(&supervisor->allocations);
        mps_allocations_reconcile(&supervisor->allocations);
        renew_status(supervisor);
        follow_limits(supervisor, false);
        if (supervisor->has_change && supervisor->options.on_change)
                supervisor->options.on_change(supervisor->options.data);
        supervisor->has_change = false;
        check_end(supervisor);
}

static void on_daemon_changed(struct mps_daemon *daemon, bool is_process, void *data)
{
        struct mps_supervisor *supervisor = data;

        mps_allocations_reconcile(&supervisor->allocations);
        supervisor_note_change(is_process || mps_daemon_is_gone(daemon), supervisor);
}

static void poll_shm(struct mps_supervisor *supervisor)
{
        _free_ char *path = xasprintf("%s/" MPS_SHM_NAME, supervisor->options.root);
        bool has_news = mps_shm_watch_poll(&supervisor->shm, path, NULL);

        for (size_t i = 0; i < supervisor->daemons.n_items; i++)
                has_news |= mps_daemon_poll_shm(supervisor->daemons.items[i]);
        if (has_news)
                supervisor_note_change(false, supervisor);
}

static void on_poll(uv_timer_t *timer)
{
        struct mps_supervisor *supervisor = container_of(timer, struct mps_supervisor, poll);

        uv_timer_start(timer, on_poll, mps_daemon_pause(&supervisor->daemons.context), 0);
        if (supervisor->polls % POLLS_BETWEEN_LIMITS == 0)
                follow_limits(supervisor, true);
        if (supervisor->polls % POLLS_BETWEEN_MODES == 0)
                compute_modes_restore(&supervisor->modes);
        supervisor->polls++;
        poll_shm(supervisor);
        mps_usages_poll(&supervisor->usages);
}

/* ---- the wanted daemons ---- */

static int check_wanted(const struct mps_supervisor *supervisor, const struct mps_wanted *wanted, struct error *err)
{
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted->daemons[i];

                if (mps_wanted_find(wanted, daemon->name) != daemon)
                        return error_set(err, ERROR_INVALID, "MPS daemon '%s' is wanted twice", daemon->name);
                if (daemon->n_units == 0)
                        return error_set(err, ERROR_INVALID, "MPS daemon '%s' has no unit", daemon->name);
                if (mps_daemon_check_name(&supervisor->daemons.context, daemon->name, err) < 0)
                        return -1;
        }
        return 0;
}

static void supervisor_keep_wanted(
        struct mps_supervisor *supervisor, const struct mps_wanted *wanted, uint64_t generation)
{
        struct arena arena = ARENA_INIT;
        struct mps_daemon_wanted *daemons = ARENA_ARRAY(&arena, struct mps_daemon_wanted, wanted->n_daemons);

        for (size_t i = 0; i < wanted->n_daemons; i++)
                mps_daemon_wanted_copy(&daemons[i], &arena, &wanted->daemons[i]);
        arena_done(&supervisor->wanted_arena);
        supervisor->wanted_arena = arena;
        supervisor->wanted = (struct mps_wanted){daemons, wanted->n_daemons, wanted->ends_clients};
        supervisor->generation = generation;
}

/* The time of clients whose daemon is not wanted any more is over. */
static void on_grace(uv_timer_t *timer)
{
        const struct mps_supervisor *supervisor = container_of(timer, struct mps_supervisor, grace);
        const struct mps_daemons *daemons = &supervisor->daemons;

        for (size_t i = 0; i < daemons->n_items; i++)
                if (supervisor->phase != SUPERVISOR_OPEN ||
                        !mps_wanted_find(&supervisor->wanted, mps_daemon_get_name(daemons->items[i])))
                        mps_daemon_end_draining(daemons->items[i]);
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
        if (supervisor->phase != SUPERVISOR_OPEN)
                return error_set(err, ERROR_UNAVAILABLE, "the MPS supervisor is ending");
        if (check_wanted(supervisor, wanted, err) < 0)
                return -1;
        supervisor_keep_wanted(supervisor, wanted, generation);
        mps_daemons_apply(&supervisor->daemons, &supervisor->wanted);
        limit_grace(supervisor, wanted->ends_clients);
        supervisor_note_change(true, supervisor);
        return 0;
}

void mps_supervisor_name_holders(struct mps_supervisor *supervisor, const struct mps_holder *holders, size_t n_holders)
{
        arena_done(&supervisor->holders_arena);
        supervisor->holders = mps_holders_copy(&supervisor->holders_arena, holders, n_holders);
        supervisor->n_holders = n_holders;
        supervisor_note_change(false, supervisor);
}

struct mps_allocations *mps_supervisor_allocations(struct mps_supervisor *supervisor)
{
        return &supervisor->allocations;
}

/* ---- callbacks of objects ---- */

static bool is_unit_needed(const char *uuid, void *data)
{
        const struct mps_supervisor *supervisor = data;

        return mps_daemons_need(&supervisor->daemons, uuid);
}

/* Together they may have as much as the node's shared memory would: each daemon gets a share by its units. */
static uint64_t shm_kib_of(const struct mps_daemon *daemon, void *data)
{
        const struct mps_supervisor *supervisor = data;
        size_t n_units = 0;

        if (!supervisor->options.enter_shm)
                return 0;
        if (supervisor->options.shm_kib)
                return supervisor->options.shm_kib;
        for (size_t i = 0; i < supervisor->wanted.n_daemons; i++)
                n_units += supervisor->wanted.daemons[i].n_units;
        return mps_shm_machine_kib() * mps_daemon_settings(daemon)->n_units / MAX(n_units, (size_t)1);
}

static size_t supervisor_list_namespaces(
        const struct mps_daemon *daemon, struct arena *arena, struct mps_allocation_request **ret, void *data)
{
        const struct mps_supervisor *supervisor = data;

        return mps_allocations_list_namespaces(&supervisor->allocations, daemon, arena, ret);
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

static void supervisor_copy_options(struct mps_supervisor *supervisor, const struct mps_supervisor_options *options)
{
        struct mps_supervisor_options *copy = &supervisor->options;
        struct arena *texts = &supervisor->texts;
        const char *path = options->path ? options->path : getenv("PATH");

        *copy = *options;
        copy->root = arena_strdup(texts, options->root);
        copy->control = arena_strdup(texts, options->control);
        copy->path = arena_strdup(texts, path && *path ? path : DEFAULT_PATH);
        copy->driver_root = arena_strdup(texts, options->driver_root ? options->driver_root : "");
        copy->system_root = arena_strdup(texts, options->system_root ? options->system_root : "");
        copy->poll_ms = options->poll_ms ? options->poll_ms : POLL_MS;
        copy->enter_shm = options->enter_shm && mps_shm_mounts_are_seen(options->root) ? options->enter_shm : NULL;
}

static void supervisor_init_objects(struct mps_supervisor *supervisor)
{
        const struct mps_supervisor_options *options = &supervisor->options;
        const struct mps_record_owner owner = {supervisor_write_record, supervisor_note_change, supervisor};

        mps_daemons_init(&supervisor->daemons,
                &(struct mps_daemon_context){
                        .options = options,
                        .nvml = supervisor->nvml,
                        .environments = environments_new(options->loop, options->system_root),
                        .cleaner = worker_new(options->loop, "mps-cleaner", mps_shm_left_serve, NULL),
                        .modes = &supervisor->modes,
                        .shm_kib = shm_kib_of,
                        .namespaces = supervisor_list_namespaces,
                        .changed = on_daemon_changed,
                        .data = supervisor,
                });
        mps_allocations_init(&supervisor->allocations, &supervisor->daemons, &owner);
        compute_modes_init(&supervisor->modes, supervisor->nvml, &owner, is_unit_needed);
        mps_usages_init(&supervisor->usages, supervisor->nvml, &supervisor->daemons, &owner);
        mps_memory_limits_init(&supervisor->limits, supervisor->nvml, options->system_root, &owner);
        record_file_init(&supervisor->record, options->loop,
                &(struct record_file_options){arena_printf(&supervisor->texts, "%s/" MPS_RECORD_FILE, options->root),
                        "the supervisor's record cannot be written, will try again: until then a crash may restart "
                        "daemons",
                        write_record_again, supervisor});
}

/* Goes on with what is on record. */
static void supervisor_restore(struct mps_supervisor *supervisor)
{
        struct mps_record record;
        struct error err;

        if (mps_record_read(&record, supervisor->record.options.path, &err) < 0) {
                log_warn("the record of MPS daemons cannot be read: those that run are found when it is known what is "
                         "wanted",
                        LOG_ERR(&err));
                return;
        }
        for (size_t i = 0; i < record.n_modes; i++)
                compute_modes_add(&supervisor->modes, record.modes[i].uuid, record.modes[i].before);
        mps_allocations_restore(&supervisor->allocations, &record);
        mps_memory_limits_restore(&supervisor->limits, record.limits, record.n_limits);
        supervisor_keep_wanted(supervisor, &record.wanted, record.generation);
        mps_daemons_restore(&supervisor->daemons, &record);
        mps_record_done(&record);
        supervisor_note_change(true, supervisor);
}

struct mps_supervisor *mps_supervisor_new(const struct mps_supervisor_options *options)
{
        struct mps_supervisor *supervisor = xcalloc(1, sizeof(*supervisor));
        _free_ char *shm = xasprintf("%s/" MPS_SHM_NAME, options->root);

        supervisor_copy_options(supervisor, options);
        mps_folder_label(shm);
        supervisor->nvml = nvml_pool_new(&(struct nvml_pool_options){.loop = options->loop,
                .name = "mps-nvml",
                .library = options->nvml_library,
                .driver_root = options->driver_root});
        deferred_init(&supervisor->turn, options->loop, supervisor_on_turn, supervisor);
        uv_timer_init(options->loop, &supervisor->poll);
        uv_timer_init(options->loop, &supervisor->grace);
        uv_timer_start(&supervisor->poll, on_poll, 0, 0);
        supervisor_init_objects(supervisor);
        raise_file_limit();
        supervisor_restore(supervisor);
        mps_allocations_pause(&supervisor->allocations, false);
        renew_status(supervisor);
        return supervisor;
}

/* ---- end ---- */

static void free_supervisor(void *data)
{
        struct mps_supervisor *supervisor = data;
        mps_supervisor_closed_fn *closed = supervisor->closed;
        void *closed_data = supervisor->closed_data;
        const bool leaves_modes = compute_modes_are_left(&supervisor->modes);

        mps_allocations_done(&supervisor->allocations);
        mps_usages_done(&supervisor->usages);
        mps_memory_limits_done(&supervisor->limits);
        compute_modes_done(&supervisor->modes);
        mps_daemons_done(&supervisor->daemons);
        mps_status_free(supervisor->status);
        arena_done(&supervisor->wanted_arena);
        arena_done(&supervisor->holders_arena);
        arena_done(&supervisor->texts);
        free(supervisor);
        if (closed)
                closed(leaves_modes, closed_data);
}

static void supervisor_end(struct mps_supervisor *supervisor)
{
        supervisor->phase = SUPERVISOR_ENDED;
        supervisor->modes.nvml = supervisor->usages.nvml = supervisor->limits.nvml = NULL;
        supervisor->nvml = nvml_pool_close(supervisor->nvml);
        environments_close(supervisor->daemons.context.environments);
        worker_close(supervisor->daemons.context.cleaner);
        mps_allocations_close(&supervisor->allocations, &supervisor->closing);
        deferred_close(&supervisor->turn, &supervisor->closing);
        closing_close(&supervisor->closing, &supervisor->poll);
        closing_close(&supervisor->closing, &supervisor->grace);
        closing_end(&supervisor->closing, free_supervisor, supervisor);
}

static void on_modes_late(uv_timer_t *timer)
{
        supervisor_end(container_of(timer, struct mps_supervisor, grace));
}

/* The supervisor has ended when all daemons are closed and every mode is restored, or NVML was given its time. */
static void check_end(struct mps_supervisor *supervisor)
{
        const bool is_closing = supervisor->phase == SUPERVISOR_CLOSING || supervisor->phase == SUPERVISOR_LEAVING;

        if (!is_closing || supervisor->daemons.n_items || supervisor->closing_daemons || supervisor->has_record)
                return;
        if (supervisor->modes.n_jobs && supervisor->phase == SUPERVISOR_CLOSING)
                uv_timer_start(&supervisor->grace, on_modes_late, MODES_PATIENCE_MS, 0);
        else
                supervisor_end(supervisor);
}

static void begin_end(
        struct mps_supervisor *supervisor, enum supervisor_phase phase, mps_supervisor_closed_fn *closed, void *data)
{
        assert(supervisor->phase == SUPERVISOR_OPEN);
        supervisor->phase = phase;
        supervisor->closed = closed;
        supervisor->closed_data = data;
        supervisor->modes.is_closing = true;
        uv_timer_stop(&supervisor->poll);
        record_file_close(&supervisor->record, &supervisor->closing);
        mps_allocations_pause(&supervisor->allocations, true);
}

void mps_supervisor_leave(struct mps_supervisor *supervisor, mps_supervisor_closed_fn *closed, void *data)
{
        begin_end(supervisor, SUPERVISOR_LEAVING, closed, data);
        supervisor->has_record = false;
        write_record_again(supervisor);
        while (supervisor->daemons.n_items)
                close_daemon(supervisor, supervisor->daemons.n_items - 1);
        supervisor_note_change(false, supervisor); /* so that it ends also without a daemon */
}

void mps_supervisor_close(
        struct mps_supervisor *supervisor, uint64_t grace_ms, mps_supervisor_closed_fn *closed, void *data)
{
        begin_end(supervisor, SUPERVISOR_CLOSING, closed, data);
        mps_daemons_apply(&supervisor->daemons, &(const struct mps_wanted){NULL, 0, false});
        uv_timer_start(&supervisor->grace, on_grace, grace_ms, 0);
        supervisor_note_change(true, supervisor);
}
