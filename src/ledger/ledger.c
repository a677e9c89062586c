#include "ledger/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/file.h"
#include "ledger/parts.h"
#include "share/mps_wanted.h"

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

int64_t holdings_clock(const struct holdings *holdings)
{
        return holdings->options.now(holdings->options.data).clock;
}

static int64_t date_of(const struct holdings *holdings)
{
        return holdings->options.now(holdings->options.data).date;
}

int64_t holdings_now(const struct holdings *holdings)
{
        return date_of(holdings) / 1000;
}

/* ---- public ---- */

const struct broker *holdings_broker(struct holdings *holdings)
{
        return &holdings->broker;
}

static void free_books(struct book *books, size_t n_books)
{
        for (size_t i = 0; i < n_books; i++) {
                grants_free(books[i].grants);
                free(books[i].kept_back);
        }
        free(books);
}

static void open_book(struct book *book, const struct resource *resource, bool is_leaving)
{
        *book = (struct book){.resource = resource, .is_leaving = is_leaving};
        book->kept_back = xcalloc(resource->n_devices, sizeof(*book->kept_back));
}

static bool had_name(const struct book *before, size_t n_before, const char *name)
{
        for (size_t i = 0; i < n_before; i++)
                if (strcmp(before[i].resource->name, name) == 0)
                        return true;
        return false;
}

/* The grants of one name: to the book that has their unit. |main| is NULL where the name is not shared by MPS any more. */
static void hand_grants_on(struct holdings *holdings, struct book *main, struct book *leaving, size_t n_leaving,
        struct book *before, size_t n_before)
{
        const char *name = main ? main->resource->name : leaving[0].resource->name;
        struct book *old = holdings_find_book_among(before, n_before, name);

        for (size_t i = 0; i < n_leaving; i++) {
                leaving[i].grants = grants_new(leaving[i].resource, leaving[i].resource->max_per_request);
                for (size_t j = 0; j < n_before; j++)
                        if (strcmp(before[j].resource->name, name) == 0)
                                grants_move(before[j].grants, leaving[i].grants);
        }
        if (main && old) {
                main->grants = TAKE_PTR(old->grants);
                grants_set_resource(main->grants, main->resource, main->resource->max_per_request);
        } else if (main) {
                main->grants = grants_new(main->resource, main->resource->max_per_request);
        }
        for (size_t j = 0; main && j < n_before; j++)
                if (before[j].grants && strcmp(before[j].resource->name, name) == 0)
                        grants_move(before[j].grants, main->grants);
        if (had_name(before, n_before, name))
                return;
        holdings_load_book(holdings, main ? main : leaving);
        for (size_t i = main ? 0 : 1; i < n_leaving; i++)
                grants_move((main ? main : leaving)->grants, leaving[i].grants);
}

/* The books of one name. */
static void open_books(struct holdings *holdings, const struct resource *resource, struct book *before, size_t n_before)
{
        struct book *main = NULL;
        struct book *leaving;

        if (resource->strategy == SHARING_MPS) {
                main = &holdings->books[holdings->n_books++];
                open_book(main, resource, false);
        }
        leaving = &holdings->books[holdings->n_books];
        for (size_t i = 0; i < resource->n_leaving; i++)
                open_book(&holdings->books[holdings->n_books++], &resource->leaving[i], true);
        if (main || resource->n_leaving)
                hand_grants_on(holdings, main, leaving, resource->n_leaving, before, n_before);
}

/* What is not on file yet of a name has to come there still. */
static void keep_changed(struct holdings *holdings, const struct book *before, size_t n_before)
{
        for (size_t i = 0; i < holdings->n_books; i++)
                for (size_t j = 0; j < n_before; j++)
                        if (before[j].changed &&
                                strcmp(holdings->books[i].resource->name, before[j].resource->name) == 0)
                                holdings->books[i].changed = true;
}

static const struct mps_daemon_wanted *find_daemon(const struct mps_wanted *wanted, const char *name)
{
        for (size_t i = 0; i < wanted->n_daemons; i++)
                if (strcmp(wanted->daemons[i].name, name) == 0)
                        return &wanted->daemons[i];
        return NULL;
}

/* It runs with just these settings, so that the supervisor will let it be. */
static bool runs_already(const struct holdings *holdings, const struct mps_daemon_wanted *daemon)
{
        const struct mps_daemon_status *told = holdings_find_daemon(holdings, daemon->units[0].uuid);

        return told && told->settings == mps_daemon_digest(daemon);
}

/* Until the supervisor says that it has heard of |wanted|, its daemons that are others now are not ready, whatever it says. */
static void note_renewed(struct holdings *holdings, const struct mps_wanted *before, const struct mps_wanted *wanted)
{
        bool is_current = holdings->status && holdings->status->generation == holdings->generation;

        if (is_current) {
                map_done(&holdings->renewed);
                arena_done(&holdings->renewed_arena);
        }
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted->daemons[i];
                const struct mps_daemon_wanted *old = find_daemon(before, daemon->name);

                if ((old && mps_daemon_is_same(old, daemon)) || runs_already(holdings, daemon))
                        continue;
                for (size_t j = 0; j < daemon->n_units; j++)
                        map_add(&holdings->renewed, arena_strdup(&holdings->renewed_arena, daemon->units[j].uuid),
                                holdings);
        }
        holdings->generation++;
}

void holdings_apply(struct holdings *holdings, const struct plan *plan)
{
        struct book *before = holdings->books;
        size_t n_before = holdings->n_books;
        size_t most = plan->n_resources;
        struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;
        struct mps_wanted wanted_before = {0};
        bool is_first = !holdings->plan;

        if (holdings->plan)
                mps_wanted_of(&wanted_before, &scratch, holdings->plan);
        else
                holdings->generation = MAX(holdings->generation, (uint64_t)date_of(holdings));
        mps_wanted_of(&wanted, &scratch, plan);
        note_renewed(holdings, &wanted_before, &wanted);
        for (size_t i = 0; i < plan->n_resources; i++)
                most += plan->resources[i].n_leaving;
        holdings->plan = plan;
        holdings->books = xcalloc(most, sizeof(*holdings->books));
        holdings->n_books = 0;
        for (size_t i = 0; i < plan->n_resources; i++)
                open_books(holdings, &plan->resources[i], before, n_before);
        keep_changed(holdings, before, n_before);
        for (size_t i = 0; i < holdings->n_books; i++)
                holdings_keep_back(holdings, &holdings->books[i]);
        free_books(before, n_before);
        if (is_first)
                holdings_make_all(holdings);
        mps_link_apply(holdings->link, &wanted, holdings->generation);
        holdings_begin_asking(holdings);
        holdings_forget_several(holdings);
        holdings_look_for_several(holdings);
        arena_done(&scratch);
}

void holdings_leave(struct holdings *holdings)
{
        uv_timer_stop(&holdings->save_timer); /* what is not in the files yet, kubelet's list has */
        uv_timer_stop(&holdings->list_timer);
        uv_timer_stop(&holdings->guard_timer);
        holdings->holders = holders_free(holdings->holders);
        holdings->listed_at = NEVER;
        free_books(TAKE_PTR(holdings->books), holdings->n_books);
        holdings->n_books = 0;
        holdings->plan = NULL;
        holdings_forget_requests(holdings);
        holdings_forget_several(holdings);
        holdings_forget_declared(holdings);
        guard_free(holdings->guard);
        holdings->guard = guard_new();
        holdings->found = (struct guard_report){0};
        mps_link_forget(holdings->link);
}

void holdings_health_changed(struct holdings *holdings, const char *uuid)
{
        for (size_t i = 0; i < holdings->n_books; i++) {
                struct book *book = &holdings->books[i];

                if (!resource_find_unit(book->resource, uuid))
                        continue;
                holdings_keep_back(holdings, book);
                holdings->options.on_change(holdings->options.data);
        }
}

/* ---- begin and end ---- */

static void free_holdings(struct holdings *holdings)
{
        free_books(holdings->books, holdings->n_books);
        holders_free(holdings->holders);
        holdings_forget_requests(holdings);
        holdings_forget_declared(holdings);
        map_done(&holdings->renewed);
        arena_done(&holdings->renewed_arena);
        guard_free(holdings->guard);
        mps_report_free(holdings->report);
        mps_faults_done(&holdings->faults);
        free(holdings->directory);
        free(holdings->pod_resources);
        free(holdings->pod_resources_folder);
        free(holdings->checkpoint);
        free(holdings);
}

static void start_timer(struct holdings *holdings, uv_timer_t *timer)
{
        uv_timer_init(holdings->options.loop, timer);
        timer->data = holdings;
        holdings->n_open++;
}

static void tell_pods(const char *unit, enum node_event event, const char *text, void *data)
{
        holdings_tell_pods(data, unit, event, text);
}

int holdings_new(struct holdings **ret, const struct holdings_options *options, struct error *err)
{
        struct holdings *holdings = xcalloc(1, sizeof(*holdings));
        const struct config *config = options->config;
        _free_ char *folder = file_folder(config->kubelet_socket);
        const struct mps_link_options link = {
                .loop = options->loop,
                .directory = config->mps_directory,
                .control = config->mps_control,
                .on_status = holdings_on_status,
                .data = holdings,
        };

        const struct mps_report_options report = {
                .pods = holdings_pods_of, .tell_pods = tell_pods, .data = holdings, .events = options->events};

        holdings->options = *options;
        holdings->options.config = NULL;
        if (!holdings->options.now)
                holdings->options.now = read_clocks;
        holdings->directory = xstrdup(config->mps_directory);
        holdings->pod_resources = xstrdup(config->pod_resources);
        holdings->pod_resources_folder = file_folder(config->pod_resources);
        holdings->checkpoint = xasprintf("%s/" CHECKPOINT_NAME, folder);
        holdings->broker = (struct broker){
                .hidden = holdings_hidden, .bind = holdings_bind, .start = holdings_start, .data = holdings};
        list_init(&holdings->binds);
        list_init(&holdings->tellings);
        list_init(&holdings->askings);
        list_init(&holdings->declared);
        list_init(&holdings->declared_asks);
        holdings->listed_at = holdings->allocated_at = NEVER;
        holdings->generation = (uint64_t)date_of(holdings);
        if (getrandom(&holdings->incarnation, sizeof(holdings->incarnation), 0) != sizeof(holdings->incarnation)) {
                error_raise_errno(err, errno, "random bytes for the ids of allocations");
                goto failed;
        }
        if (*config->pod_resources && pod_resources_new(&holdings->pods, options->loop, config->pod_resources, err) < 0)
                goto failed;
        if (mps_link_new(&holdings->link, &link, err) < 0)
                goto failed;
        holdings->n_open = 1;
        start_timer(holdings, &holdings->list_timer);
        start_timer(holdings, &holdings->save_timer);
        start_timer(holdings, &holdings->wait_timer);
        start_timer(holdings, &holdings->guard_timer);
        start_timer(holdings, &holdings->several_timer);
        start_timer(holdings, &holdings->declared_timer);
        holdings->guard = guard_new();
        holdings->report = mps_report_new(&report);
        *ret = holdings;
        return 0;

failed:
        pod_resources_close(holdings->pods);
        free_holdings(holdings);
        return -1;
}

static void on_part_closed(struct holdings *holdings)
{
        void (*closed)(void *) = holdings->closed;
        void *data = holdings->closed_data;

        if (--holdings->n_open > 0)
                return;
        free_holdings(holdings);
        closed(data);
}

static void on_timer_closed(uv_handle_t *handle)
{
        on_part_closed(handle->data);
}

static void on_link_closed(void *data)
{
        on_part_closed(data);
}

/* Those that wait for kubelet's list. The link answers the others when it closes. */
static void refuse_binds(struct holdings *holdings)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping");
        while (!list_is_empty(&holdings->binds)) {
                struct bind *bind = container_of(holdings->binds.next, struct bind, link);

                list_remove(&bind->link);
                if (!bind->asks_daemon)
                        holdings_refuse(bind, &err);
        }
}

void holdings_close(struct holdings *holdings, void (*closed)(void *data), void *data)
{
        holdings->closing = true;
        holdings->closed = closed;
        holdings->closed_data = data;
        pod_resources_close(TAKE_PTR(holdings->pods));
        holdings_forget_askings(holdings);
        holdings_forget_tellings(holdings);
        refuse_binds(holdings);
        holdings_on_save(&holdings->save_timer);
        uv_close((uv_handle_t *)&holdings->list_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->save_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->wait_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->guard_timer, on_timer_closed);
        holdings_forget_several(holdings);
        uv_close((uv_handle_t *)&holdings->several_timer, on_timer_closed);
        holdings_refuse_declared(holdings);
        uv_close((uv_handle_t *)&holdings->declared_timer, on_timer_closed);
        mps_link_close(holdings->link, on_link_closed, holdings);
}
