#include "cmd/holdings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/file.h"
#include "cmd/holdings_parts.h"
#include "share/mps_wanted.h"

/* ---- public ---- */

const struct broker *holdings_broker(struct holdings *holdings)
{
        return &holdings->broker;
}

static void free_books(struct book *books, size_t n_books)
{
        for (size_t i = 0; i < n_books; i++) {
                grants_free(books[i].grants);
                free(books[i].ill);
                free(books[i].kept_back);
        }
        free(books);
}

/* The book of the resource before, with what it holds, or a new one with what is on record. */
static void open_book(struct holdings *holdings, struct book *book, const struct resource *resource,
        struct book *before, size_t n_before)
{
        struct book *old = holdings_find_book_among(before, n_before, resource->name);

        book->resource = resource;
        book->ill = xcalloc(resource->n_units, sizeof(*book->ill));
        book->kept_back = xcalloc(resource->n_devices, sizeof(*book->kept_back));
        if (old) {
                book->grants = TAKE_PTR(old->grants);
                grants_set_resource(book->grants, resource, resource->max_per_request);
        } else {
                book->grants = grants_new(resource, resource->max_per_request);
                holdings_load_book(holdings, book);
        }
        holdings_keep_back(holdings, book);
}

void holdings_apply(struct holdings *holdings, const struct plan *plan)
{
        struct book *before = holdings->books;
        size_t n_before = holdings->n_books;
        struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;

        holdings->plan = plan;
        holdings->books = xcalloc(plan->n_resources, sizeof(*holdings->books));
        holdings->n_books = 0;
        for (size_t i = 0; i < plan->n_resources; i++)
                if (plan->resources[i].strategy == SHARING_MPS)
                        open_book(
                                holdings, &holdings->books[holdings->n_books++], &plan->resources[i], before, n_before);
        free_books(before, n_before);
        mps_wanted_of(&wanted, &scratch, plan);
        mps_link_apply(holdings->link, &wanted, ++holdings->generation);
        arena_done(&scratch);
}

void holdings_set_health(struct holdings *holdings, const char *uuid, bool healthy)
{
        for (size_t i = 0; i < holdings->n_books; i++) {
                struct book *book = &holdings->books[i];
                const struct unit *unit = holdings_find_unit(book->resource, uuid);

                if (!unit)
                        continue;
                book->ill[unit - book->resource->units] = !healthy;
                holdings_keep_back(holdings, book);
                holdings->options.on_change(holdings->options.data);
        }
}

/* ---- begin and end ---- */

static void free_holdings(struct holdings *holdings)
{
        free_books(holdings->books, holdings->n_books);
        holders_free(holdings->holders);
        guard_free(holdings->guard);
        mps_report_free(holdings->report);
        mps_faults_done(&holdings->faults);
        free(holdings->directory);
        free(holdings->pod_resources);
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
        holdings->directory = xstrdup(config->mps_directory);
        holdings->pod_resources = xstrdup(config->pod_resources);
        holdings->checkpoint = xasprintf("%s/" CHECKPOINT_NAME, folder);
        holdings->broker = (struct broker){.hidden = holdings_hidden, .bind = holdings_bind, .data = holdings};
        list_init(&holdings->binds);
        list_init(&holdings->tellings);
        if (getrandom(&holdings->incarnation, sizeof(holdings->incarnation), 0) != sizeof(holdings->incarnation)) {
                error_raise_errno(err, errno, "random bytes for the ids of grants");
                goto failed;
        }
        if (*config->pod_resources && pod_resources_new(&holdings->pods, options->loop, config->pod_resources, err) < 0)
                goto failed;
        if (mps_link_new(&holdings->link, &link, err) < 0)
                goto failed;
        holdings->n_open = 1;
        start_timer(holdings, &holdings->list_timer);
        start_timer(holdings, &holdings->save_timer);
        start_timer(holdings, &holdings->guard_timer);
        holdings->guard = guard_new();
        holdings->report = mps_report_new(&report);
        uv_timer_start(&holdings->list_timer, holdings_on_list_timer, LIST_INTERVAL_MS, LIST_INTERVAL_MS);
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
        holdings_forget_tellings(holdings);
        refuse_binds(holdings);
        holdings_on_save(&holdings->save_timer);
        uv_close((uv_handle_t *)&holdings->list_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->save_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->guard_timer, on_timer_closed);
        mps_link_close(holdings->link, on_link_closed, holdings);
}
