#include "node/ledger/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/file.h"
#include "node/ledger/parts.h"
#include "plan/mps_wanted.h"

/* ---- time ---- */

static struct ledger_time read_clocks(void *data UNUSED)
{
        struct timespec date;

        clock_gettime(CLOCK_REALTIME, &date);
        return (struct ledger_time){
                .clock = (int64_t)(uv_hrtime() / 1000000),
                .date = (int64_t)date.tv_sec * 1000 + date.tv_nsec / 1000000,
        };
}

int64_t ledger_clock(const struct ledger *ledger)
{
        return ledger->options.now(ledger->options.data).clock;
}

static int64_t date_of(const struct ledger *ledger)
{
        return ledger->options.now(ledger->options.data).date;
}

int64_t ledger_now(const struct ledger *ledger)
{
        return date_of(ledger) / 1000;
}

/* ---- public ---- */

const struct broker *ledger_broker(struct ledger *ledger)
{
        return &ledger->broker;
}

static void free_shared(struct ledger_resource *shared, size_t n_shared)
{
        for (size_t i = 0; i < n_shared; i++) {
                allocations_free(shared[i].allocations);
                free(shared[i].unavailable);
        }
        free(shared);
}

static void open_shared(struct ledger_resource *shared, const struct resource *resource, bool is_draining)
{
        *shared = (struct ledger_resource){.resource = resource, .is_draining = is_draining};
        shared->unavailable = xcalloc(resource->n_devices, sizeof(*shared->unavailable));
}

static bool had_name(const struct ledger_resource *previous, size_t n_previous, const char *name)
{
        for (size_t i = 0; i < n_previous; i++)
                if (strcmp(previous[i].resource->name, name) == 0)
                        return true;
        return false;
}

/*
 * The allocations of one name: to the resource that has their unit; to the first where none has it, as while it is
 * away. |main| is NULL where the name is not shared by MPS any more.
 */
static void hand_allocations_on(struct ledger *ledger, struct ledger_resource *main, struct ledger_resource *draining,
        size_t n_draining, struct ledger_resource *previous, size_t n_previous)
{
        struct ledger_resource *first = main ? main : draining;
        const char *name = first->resource->name;
        struct ledger_resource *old = ledger_find_shared_among(previous, n_previous, name);
        size_t n_others = n_draining - (first == draining);

        for (size_t i = 0; i < n_draining; i++) {
                draining[i].allocations = allocations_new(draining[i].resource, draining[i].resource->max_per_request);
                for (size_t j = 0; j < n_previous; j++)
                        if (strcmp(previous[j].resource->name, name) == 0)
                                allocations_move(previous[j].allocations, draining[i].allocations);
        }
        if (main && old) {
                main->allocations = TAKE_PTR(old->allocations);
                allocations_set_resource(main->allocations, main->resource, main->resource->max_per_request);
        } else if (main) {
                main->allocations = allocations_new(main->resource, main->resource->max_per_request);
        }
        for (size_t j = 0; j < n_previous; j++)
                if (previous[j].allocations && strcmp(previous[j].resource->name, name) == 0)
                        allocations_move_all(previous[j].allocations, first->allocations);
        if (!had_name(previous, n_previous, name))
                ledger_load_allocations(ledger, first);
        for (size_t i = n_draining - n_others; i < n_draining; i++)
                allocations_move(first->allocations, draining[i].allocations);
        for (size_t i = n_draining - n_others; i < n_draining; i++)
                allocations_move_strays(first->allocations, draining[i].allocations);
}

/* The ledger of one name. */
static void open_all_shared(
        struct ledger *ledger, const struct resource *resource, struct ledger_resource *previous, size_t n_previous)
{
        struct ledger_resource *main = NULL;
        struct ledger_resource *draining;

        if (resource->strategy == SHARING_MPS) {
                main = &ledger->shared[ledger->n_shared++];
                open_shared(main, resource, false);
        }
        draining = &ledger->shared[ledger->n_shared];
        for (size_t i = 0; i < resource->n_draining; i++)
                open_shared(&ledger->shared[ledger->n_shared++], &resource->draining[i], true);
        if (main || resource->n_draining)
                hand_allocations_on(ledger, main, draining, resource->n_draining, previous, n_previous);
}

/* What is not on file yet of a name has to come there still. */
static void keep_changed(struct ledger *ledger, const struct ledger_resource *previous, size_t n_previous)
{
        for (size_t i = 0; i < ledger->n_shared; i++)
                for (size_t j = 0; j < n_previous; j++)
                        if (previous[j].changed &&
                                strcmp(ledger->shared[i].resource->name, previous[j].resource->name) == 0)
                                ledger->shared[i].changed = true;
}

/* It runs with just these settings, so that the supervisor will let it be. */
static bool runs_already(const struct ledger *ledger, const struct mps_daemon_wanted *daemon)
{
        const struct mps_daemon_status *reported = ledger_find_daemon(ledger, daemon->units[0].uuid);

        return reported && reported->settings == mps_daemon_digest(daemon);
}

/* |lacked_by|: only what that one did not have; NULL: all. */
static void add_renewed(
        struct ledger *ledger, const struct mps_daemon_wanted *daemon, const struct mps_daemon_wanted *lacked_by)
{
        for (size_t i = 0; i < daemon->n_units; i++)
                if (!lacked_by || !mps_daemon_unit(lacked_by, daemon->units[i].uuid))
                        map_add(&ledger->renewed, arena_strdup(&ledger->renewed_arena, daemon->units[i].uuid), ledger);
}

/*
 * Until the supervisor says that it has heard of |wanted|, its daemons that are others now are not ready, whatever it
 * says.
 */
static void note_renewed(struct ledger *ledger, const struct mps_wanted *wanted)
{
        bool is_current = ledger->status && ledger->status->generation == ledger->generation;

        if (is_current) {
                map_done(&ledger->renewed);
                arena_done(&ledger->renewed_arena);
        }
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted->daemons[i];
                const struct mps_daemon_wanted *old = mps_wanted_find(&ledger->wanted, daemon->name);

                if (!runs_already(ledger, daemon))
                        add_renewed(ledger, daemon, old && mps_daemon_serves(old, daemon) ? old : NULL);
        }
        /* One that ends is not ready, either, should it be wanted again at once. */
        for (size_t i = 0; i < ledger->wanted.n_daemons; i++)
                if (!mps_wanted_find(wanted, ledger->wanted.daemons[i].name))
                        add_renewed(ledger, &ledger->wanted.daemons[i], NULL);
        ledger->generation++;
}

static void forget_wanted(struct ledger *ledger)
{
        arena_done(&ledger->wanted_arena);
        ledger->wanted = (struct mps_wanted){0};
}

static void keep_wanted(struct ledger *ledger, const struct mps_wanted *wanted)
{
        struct mps_daemon_wanted *daemons;

        forget_wanted(ledger);
        daemons = ARENA_ARRAY(&ledger->wanted_arena, struct mps_daemon_wanted, wanted->n_daemons);
        for (size_t i = 0; i < wanted->n_daemons; i++)
                mps_daemon_wanted_copy(&daemons[i], &ledger->wanted_arena, &wanted->daemons[i]);
        ledger->wanted = (struct mps_wanted){daemons, wanted->n_daemons, wanted->ends_clients};
}

static bool wants_same(const struct ledger *ledger, const struct mps_wanted *wanted)
{
        if (wanted->n_daemons != ledger->wanted.n_daemons || wanted->ends_clients != ledger->wanted.ends_clients)
                return false;
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *old = mps_wanted_find(&ledger->wanted, wanted->daemons[i].name);

                if (!old || !mps_daemon_is_same(old, &wanted->daemons[i]))
                        return false;
        }
        return true;
}

static void want(struct ledger *ledger, struct arena *arena, struct mps_wanted *ret)
{
        if (ledger->is_left) {
                *ret = (struct mps_wanted){.ends_clients = true};
                return;
        }
        mps_wanted_of(ret, arena, ledger->plan);
        ledger_claims_want(ledger, arena, ret);
}

void ledger_renew_wanted(struct ledger *ledger)
{
        struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;

        if (!ledger->plan)
                return;
        want(ledger, &scratch, &wanted);
        if (!wants_same(ledger, &wanted)) {
                note_renewed(ledger, &wanted);
                keep_wanted(ledger, &wanted);
                mps_link_apply(ledger->link, &wanted, ledger->generation);
        }
        ledger_name_holders(ledger);
        arena_done(&scratch);
}

void ledger_leave_gpus(struct ledger *ledger, bool is_left)
{
        ledger->is_left = is_left;
        ledger_renew_wanted(ledger);
}

void ledger_apply(struct ledger *ledger, const struct plan *plan)
{
        struct ledger_resource *previous = ledger->shared;
        size_t n_previous = ledger->n_shared;
        size_t most = plan->n_resources;
        struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;
        bool is_first = !ledger->plan;

        if (is_first)
                ledger->generation = MAX(ledger->generation, (uint64_t)date_of(ledger));
        ledger->plan = plan;
        want(ledger, &scratch, &wanted);
        note_renewed(ledger, &wanted);
        keep_wanted(ledger, &wanted);
        for (size_t i = 0; i < plan->n_resources; i++)
                most += plan->resources[i].n_draining;
        ledger->shared = xcalloc(most, sizeof(*ledger->shared));
        ledger->n_shared = 0;
        for (size_t i = 0; i < plan->n_resources; i++)
                open_all_shared(ledger, &plan->resources[i], previous, n_previous);
        keep_changed(ledger, previous, n_previous);
        for (size_t i = 0; i < ledger->n_shared; i++)
                ledger_update_unavailable(ledger, &ledger->shared[i]);
        free_shared(previous, n_previous);
        if (is_first)
                ledger_make_all(ledger);
        mps_link_apply(ledger->link, &wanted, ledger->generation);
        ledger_begin_asking(ledger);
        ledger_check_socket(ledger);
        ledger_forget_several(ledger);
        ledger_check_several_soon(ledger);
        if (ledger->n_shared == 0)
                ledger_report_all(ledger); /* else once kubelet has said what is held */
        ledger_claims_advance(ledger);
        ledger_name_holders(ledger);
        arena_done(&scratch);
}

void ledger_leave(struct ledger *ledger)
{
        uv_timer_stop(&ledger->save_timer); /* what is not in the files yet, kubelet's list has */
        uv_timer_stop(&ledger->list_timer);
        uv_timer_stop(&ledger->limit_monitor_timer);
        ledger->holders = holders_free(ledger->holders);
        ledger->listed_at = NEVER;
        free_shared(TAKE_PTR(ledger->shared), ledger->n_shared);
        ledger->n_shared = 0;
        ledger->plan = NULL;
        ledger_forget_requests(ledger);
        ledger_forget_several(ledger);
        ledger_forget_declared(ledger);
        ledger_forget_own_shm(ledger);
        ledger->incarnation++; /* from here on another agent sees which containers start */
        limit_monitor_free(ledger->limit_monitor);
        ledger->limit_monitor = limit_monitor_new();
        ledger->found = (struct limit_monitor_report){0};
        ledger_claims_forget(ledger);
        forget_wanted(ledger);
        mps_link_forget(ledger->link);
}

void ledger_health_changed(struct ledger *ledger, const char *uuid)
{
        for (size_t i = 0; i < ledger->n_shared; i++) {
                struct ledger_resource *shared = &ledger->shared[i];

                if (!resource_find_unit(shared->resource, uuid))
                        continue;
                ledger_update_unavailable(ledger, shared);
                ledger->options.on_change(ledger->options.data);
        }
}

/* ---- begin and end ---- */

static void free_holdings(struct ledger *ledger)
{
        free_shared(ledger->shared, ledger->n_shared);
        holders_free(ledger->holders);
        ledger_forget_requests(ledger);
        ledger_forget_declared(ledger);
        map_done(&ledger->renewed);
        arena_done(&ledger->renewed_arena);
        forget_wanted(ledger);
        limit_monitor_free(ledger->limit_monitor);
        mps_report_free(ledger->report);
        mps_faults_done(&ledger->faults);
        free(ledger->directory);
        free(ledger->kubelet_socket);
        free(ledger->pod_resources);
        free(ledger->pod_resources_folder);
        free(ledger->checkpoint);
        free(ledger);
}

static void start_timer(struct ledger *ledger, uv_timer_t *timer)
{
        uv_timer_init(ledger->options.loop, timer);
        timer->data = ledger;
        ledger->n_open++;
}

static void report_pods(const char *unit, enum node_event event, const char *text, void *data)
{
        ledger_report_pods(data, unit, event, text);
}

int ledger_new(struct ledger **ret, const struct ledger_options *options, struct error *err)
{
        struct ledger *ledger = xcalloc(1, sizeof(*ledger));
        const struct config *config = options->config;
        _free_ char *folder = file_folder(config->kubelet_socket);
        const struct mps_link_options link = {
                .loop = options->loop,
                .directory = config->mps_directory,
                .control = config->mps_control,
                .on_status = ledger_on_status,
                .data = ledger,
        };

        const struct mps_report_options report = {
                .pods = ledger_pods_of, .report_pods = report_pods, .data = ledger, .events = options->events};

        ledger->options = *options;
        ledger->options.config = NULL;
        if (!ledger->options.now)
                ledger->options.now = read_clocks;
        ledger->directory = xstrdup(config->mps_directory);
        ledger->kubelet_socket = xstrdup(config->kubelet_socket);
        ledger->pod_resources = xstrdup(config->pod_resources);
        ledger->pod_resources_folder = file_folder(config->pod_resources);
        ledger->checkpoint = xasprintf("%s/" CHECKPOINT_NAME, folder);
        ledger->broker = (struct broker){
                .unavailable = ledger_unavailable, .bind = ledger_bind, .start = ledger_start, .data = ledger};
        list_init(&ledger->claims);
        list_init(&ledger->binds);
        list_init(&ledger->reports);
        list_init(&ledger->askings);
        list_init(&ledger->declared);
        list_init(&ledger->declared_asks);
        ledger->listed_at = ledger->looked_at = ledger->allocated_at = NEVER;
        ledger->generation = (uint64_t)date_of(ledger);
        if (getrandom(&ledger->incarnation, sizeof(ledger->incarnation), 0) != sizeof(ledger->incarnation)) {
                error_raise_errno(err, errno, "random bytes for the ids of allocations");
                goto failed;
        }
        if (*config->pod_resources && pod_resources_new(&ledger->pods, options->loop, config->pod_resources, err) < 0)
                goto failed;
        if (mps_link_new(&ledger->link, &link, err) < 0)
                goto failed;
        ledger->n_open = 1;
        start_timer(ledger, &ledger->list_timer);
        start_timer(ledger, &ledger->save_timer);
        start_timer(ledger, &ledger->wait_timer);
        start_timer(ledger, &ledger->limit_monitor_timer);
        start_timer(ledger, &ledger->several_timer);
        start_timer(ledger, &ledger->declared_timer);
        start_timer(ledger, &ledger->claims_timer);
        ledger->limit_monitor = limit_monitor_new();
        ledger->report = mps_report_new(&report);
        *ret = ledger;
        return 0;

failed:
        pod_resources_close(ledger->pods);
        free_holdings(ledger);
        return -1;
}

static void on_ledger_part_closed(struct ledger *ledger)
{
        void (*closed)(void *) = ledger->closed;
        void *data = ledger->closed_data;

        if (--ledger->n_open > 0)
                return;
        free_holdings(ledger);
        closed(data);
}

static void on_ledger_timer_closed(uv_handle_t *handle)
{
        on_ledger_part_closed(handle->data);
}

static void on_link_closed(void *data)
{
        on_ledger_part_closed(data);
}

/* Those that wait for kubelet's list. The link answers the others when it closes. */
static void refuse_binds(struct ledger *ledger)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping");
        while (!list_is_empty(&ledger->binds)) {
                struct bind *bind = container_of(ledger->binds.next, struct bind, link);

                list_remove(&bind->link);
                if (!bind->asks_daemon)
                        ledger_refuse(bind, &err);
        }
}

void ledger_close(struct ledger *ledger, void (*closed)(void *data), void *data)
{
        ledger->closing = true;
        ledger->closed = closed;
        ledger->closed_data = data;
        pod_resources_close(TAKE_PTR(ledger->pods));
        ledger_forget_askings(ledger);
        ledger_forget_reports(ledger);
        refuse_binds(ledger);
        ledger_on_save(&ledger->save_timer);
        uv_close((uv_handle_t *)&ledger->list_timer, on_ledger_timer_closed);
        uv_close((uv_handle_t *)&ledger->save_timer, on_ledger_timer_closed);
        uv_close((uv_handle_t *)&ledger->wait_timer, on_ledger_timer_closed);
        uv_close((uv_handle_t *)&ledger->limit_monitor_timer, on_ledger_timer_closed);
        ledger_forget_several(ledger);
        uv_close((uv_handle_t *)&ledger->several_timer, on_ledger_timer_closed);
        ledger_refuse_declared(ledger);
        ledger_forget_own_shm(ledger);
        uv_close((uv_handle_t *)&ledger->declared_timer, on_ledger_timer_closed);
        ledger_claims_forget(ledger);
        uv_close((uv_handle_t *)&ledger->claims_timer, on_ledger_timer_closed);
        mps_link_close(ledger->link, on_link_closed, ledger);
}
