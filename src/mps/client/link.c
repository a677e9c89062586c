// SPDX-License-Identifier: Apache-2.0
#include "mps/client/link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/list.h"
#include "base/log.h"
#include "base/io/loop.h"
#include "base/io/lines.h"
#include "mps/client/external.h"
#include "mps/wire/message.h"

#define RETRY_MS UINT64_C(1000)
#define RETRY_FACTOR_MAX UINT64_C(10)
#define ANSWER_MS UINT64_C(30000)
#define PING_MS UINT64_C(10000)
#define SILENCE_MS UINT64_C(30000)
#define SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)
#define APPLY_ID UINT64_C(1) /* one id for all, so that the stored line can be sent again unchanged */

/*
 * A request that waits for its answer: it is answered once, from the loop, as the supervisor answers, with an error
 * when the connection ends or the deadline passes, or with what is known without asking.
 */
struct request {
        struct list in_link;
        uint64_t id; /* 0: it waits for no answer of the supervisor */
        uint64_t due_ms;
        struct error error;      /* its answer when it is due; of kind ERROR_NONE: a success */
        mps_granted_fn *granted; /* one of the two is set, or none */
        mps_done_fn *done;
        void *data;
};

struct mps_link {
        struct mps_link_options options;
        char *socket;
        struct lines *lines; /* NULL: not connected */
        uint64_t heard_ms;
        uint64_t last_id;
        uv_timer_t retry;
        uint64_t retry_ms;
        uv_timer_t ping;
        struct list requests;
        uv_timer_t due;            /* of the first of them */
        char *apply;               /* the line sent last; NULL: no wanted daemons yet */
        struct mps_request wanted; /* what |apply| says */
        struct arena wanted_arena;
        struct mps_allocation_request *held; /* |wanted.allocations| */
        struct arena held_arena;
        struct arena holders_arena;
        char *reason; /* the last reason reported; NULL: none since the last status */

        struct mps_external *external;
        bool has_own_plan;           /* the supervisor of this connection has a plan of its own */
        bool is_absent;              /* mps_link_is_absent() */
        bool is_external;            /* the last round found control daemons that Warpshare did not start */
        struct mps_status *reported; /* NULL: not connected, or nothing reported yet */

        struct closing closing;
        void (*closed)(void *data);
        void *closed_data;
};

static uint64_t link_now_ms(const struct mps_link *link)
{
        return uv_now(link->options.loop);
}

/* ---- reporting ---- */

/* The receiver borrows the previous status until it gets this one, so the previous one is freed after the call. */
static void replace_status(struct mps_link *link, struct mps_status *status, const char *reason)
{
        struct mps_status *before = link->reported;

        link->reported = status;
        link->options.on_status(status, reason, link->options.data);
        mps_status_free(before);
}

/* Takes |status|. */
static void link_send_status(struct mps_link *link, struct mps_status *status)
{
        free(TAKE_PTR(link->reason));
        if (link->has_own_plan)
                status->generation = link->wanted.generation;
        replace_status(link, status, NULL);
}

static void link_report_unavailable(struct mps_link *link, const char *reason)
{
        if (link->reason && strcmp(link->reason, reason) == 0)
                return;
        free(link->reason);
        link->reason = xstrdup(reason);
        replace_status(link, NULL, reason);
}

/* ---- requests ---- */

static void link_send_text(struct mps_link *link, const char *text)
{
        lines_send(link->lines, text, strlen(text));
}

static void send_message(struct mps_link *link, const struct mps_request *message)
{
        _free_ char *text = mps_request_write(message);

        link_send_text(link, text);
}

static void request_answer(struct request *request, const struct error *err, const struct mps_allocation *allocation)
{
        list_remove(&request->in_link);
        if (request->granted)
                request->granted(err, allocation, request->data);
        else if (request->done)
                request->done(err, request->data);
        free(request);
}

static void request_answer_error(struct request *request)
{
        request_answer(request, request->error.kind != ERROR_NONE ? &request->error : NULL, NULL);
}

static void on_requests_due(uv_timer_t *timer);

static void link_arm_requests(struct mps_link *link)
{
        uint64_t due_ms = UINT64_MAX;

        LIST_FOR_EACH(in_link, &link->requests)
                due_ms = MIN(due_ms, container_of(in_link, struct request, in_link)->due_ms);
        if (due_ms == UINT64_MAX)
                uv_timer_stop(&link->due);
        else
                uv_timer_start(&link->due, on_requests_due, due_ms - MIN(due_ms, link_now_ms(link)), 0);
}

/* A callback may send a new request: it is due later than now, or is answered in a later turn of the loop. */
static void on_requests_due(uv_timer_t *timer)
{
        struct mps_link *link = container_of(timer, struct mps_link, due);
        struct list due = LIST_INIT(due);
        struct list *next;

        for (struct list *at = link->requests.next; at != &link->requests; at = next) {
                next = at->next;
                if (container_of(at, struct request, in_link)->due_ms > link_now_ms(link))
                        continue;
                list_remove(at);
                list_append(&due, at);
        }
        while (!list_is_empty(&due))
                request_answer_error(container_of(due.next, struct request, in_link));
        link_arm_requests(link);
}

/* The answer to a request when no supervisor is connected. */
static void explain_alone(const struct mps_link *link, enum mps_request_kind kind, struct error *err)
{
        if (!link->is_external)
                error_raise(err, ERROR_UNAVAILABLE, "the MPS supervisor cannot be reached: %s",
                        link->reason ? link->reason : "not connected yet");
        else if (kind == MPS_REQUEST_ALLOCATION)
                error_raise(err, ERROR_UNSUPPORTED,
                        "the MPS control daemons here are not Warpshare's, and have no partitions or namespaces");
        else if (kind == MPS_REQUEST_TERMINATE)
                error_raise(err, ERROR_UNSUPPORTED,
                        "the MPS control daemons here are not Warpshare's; it ends no clients of theirs");
}

static void link_ask(
        struct mps_link *link, struct mps_request *message, mps_granted_fn *granted, mps_done_fn *done, void *data)
{
        struct request *request = xcalloc(1, sizeof(*request));

        request->granted = granted;
        request->done = done;
        request->data = data;
        list_append(&link->requests, &request->in_link);
        if (link->lines) {
                request->id = message->id = ++link->last_id;
                request->due_ms = link_now_ms(link) + ANSWER_MS;
                error_raise(&request->error, ERROR_TIMEOUT, "the MPS supervisor did not answer within %" PRIu64 " s",
                        ANSWER_MS / 1000);
                send_message(link, message);
        } else {
                explain_alone(link, message->kind, &request->error);
        }
        link_arm_requests(link);
}

/* An answer that no request waits for is ignored. */
static void link_take_answer_to_request(struct mps_link *link, const struct mps_answer *answer)
{
        struct request *request = NULL;

        LIST_FOR_EACH(in_link, &link->requests)
                if (answer->id != 0 && container_of(in_link, struct request, in_link)->id == answer->id)
                        request = container_of(in_link, struct request, in_link);
        if (!request)
                return;
        request->error = answer->error;
        if (answer->ok && request->granted && !answer->has_allocation)
                error_raise(&request->error, ERROR_INTERNAL, "the MPS supervisor answered without an allocation");
        else if (answer->ok)
                request->error.kind = ERROR_NONE;
        if (request->error.kind == ERROR_NONE)
                request_answer(request, NULL, &answer->allocation);
        else
                request_answer_error(request);
        link_arm_requests(link);
}

/* The supervisor will answer none that was sent. */
static void link_fail_requests(struct mps_link *link, const struct error *err)
{
        LIST_FOR_EACH(in_link, &link->requests) {
                struct request *request = container_of(in_link, struct request, in_link);

                if (request->id)
                        request->error = *err;
                request->id = request->due_ms = 0;
        }
        link_arm_requests(link);
}

/* Adds a request to the list of held allocations, so that the next connection sends that list with it. */
static void link_remember(struct mps_link *link, const struct mps_allocation_request *request)
{
        struct mps_allocation_request *held;

        if (!link->wanted.has_allocations || link->wanted.n_allocations == MPS_HOLD_MAX) {
                link->wanted.has_allocations = false;
                return;
        }
        held = ARENA_ARRAY(&link->held_arena, struct mps_allocation_request, link->wanted.n_allocations + 1);
        memcpy(held, link->held, link->wanted.n_allocations * sizeof(*held));
        mps_allocation_request_copy(&held[link->wanted.n_allocations++], &link->held_arena, request);
        link->wanted.allocations = link->held = held;
}

static void link_forget(struct mps_link *link, const char *id)
{
        for (size_t i = link->wanted.n_allocations; i > 0; i--)
                if (strcmp(link->held[i - 1].id, id) == 0)
                        link->held[i - 1] = link->held[--link->wanted.n_allocations];
}

void mps_link_allocation(
        struct mps_link *link, const struct mps_allocation_request *request, mps_granted_fn *done, void *data)
{
        struct mps_request message = {.kind = MPS_REQUEST_ALLOCATION, .allocation = *request};

        link_forget(link, request->id);
        link_remember(link, request);
        link_ask(link, &message, done, NULL, data);
}

void mps_link_release(struct mps_link *link, const char *id, mps_done_fn *done, void *data)
{
        struct mps_request message = {.kind = MPS_REQUEST_RELEASE, .allocation = {.id = id}};

        link_forget(link, id);
        link_ask(link, &message, NULL, done, data);
}

void mps_link_terminate(struct mps_link *link, const char *daemon, pid_t client, const char *container_id,
        mps_done_fn *done, void *data)
{
        struct mps_request message = {
                .kind = MPS_REQUEST_TERMINATE, .daemon = daemon, .client = client, .container_id = container_id};

        link_ask(link, &message, NULL, done, data);
}

void mps_link_look(struct mps_link *link, mps_done_fn *done, void *data)
{
        struct mps_request message = {.kind = MPS_REQUEST_PING, .is_look = true};

        link_ask(link, &message, NULL, done, data);
}

/* ---- other control daemons ---- */

static void on_round(struct mps_status *status, const char *reason, void *data)
{
        struct mps_link *link = data;
        _free_ char *text = NULL;

        link->is_external = status != NULL;
        if (status) {
                link_send_status(link, status);
                return;
        }
        text = xasprintf("nothing listens at '%s', and no other MPS control daemon answers: %s", link->socket, reason);
        link_report_unavailable(link, text);
}

/* Our socket exists but no process accepts on it, or no daemon is wanted that could be asked directly. */
static void lose(struct mps_link *link, const char *reason)
{
        mps_external_stop(link->external);
        link->is_external = false;
        link_report_unavailable(link, reason);
}

/* ---- the connection ---- */

static void on_link_retry(uv_timer_t *timer);

static void link_retry_later(struct mps_link *link)
{
        uint64_t first = link->options.retry_ms ? link->options.retry_ms : RETRY_MS;

        link->retry_ms = link->retry_ms ? MIN(link->retry_ms * 2, first * RETRY_FACTOR_MAX) : first;
        uv_timer_start(&link->retry, on_link_retry, link->retry_ms, 0);
}

static void disconnect(struct mps_link *link, const struct error *err)
{
        link->lines = lines_close(link->lines);
        uv_timer_stop(&link->ping);
        link_fail_requests(link, err);
        link->retry_ms = 0;
        link_report_unavailable(link, err->text);
        link_retry_later(link);
}

static void on_link_end(const struct error *reason, void *data)
{
        struct error err = *reason;

        error_raise_prefix(&err, "the connection to the MPS supervisor ended");
        disconnect(data, &err);
}

static void on_ping(uv_timer_t *timer)
{
        struct mps_link *link = container_of(timer, struct mps_link, ping);
        struct mps_request ping = {.kind = MPS_REQUEST_PING, .id = ++link->last_id};
        struct error err;

        if (link_now_ms(link) - link->heard_ms < SILENCE_MS) {
                send_message(link, &ping);
                return;
        }
        error_raise(&err, ERROR_TIMEOUT, "the MPS supervisor was silent for %" PRIu64 " s", SILENCE_MS / 1000);
        disconnect(link, &err);
}

static void note_own_plan(struct mps_link *link, const struct error *err)
{
        if (!link->has_own_plan)
                log_info("the MPS supervisor takes its daemons from its own configuration", LOG_ERR(err));
        link->has_own_plan = true;
        if (!link->reported)
                return;
        link->reported->generation = link->wanted.generation;
        link->options.on_status(link->reported, NULL, link->options.data);
}

static void link_take_answer(struct mps_link *link, const struct mps_answer *message)
{
        enum error_kind kind = message->error.kind;

        if (message->id != APPLY_ID)
                link_take_answer_to_request(link, message);
        else if (!message->ok && kind == ERROR_UNSUPPORTED)
                note_own_plan(link, &message->error);
        else if (!message->ok)
                LOG_AT(kind == ERROR_UNAVAILABLE ? LOG_WARN : LOG_ERROR, /* one that ends says UNAVAILABLE */
                        "the MPS supervisor refuses the wanted daemons", LOG_ERR(&message->error));
}

static void on_link_line(const char *line, size_t length, void *data)
{
        struct mps_link *link = data;
        struct arena arena = ARENA_INIT;
        struct mps_answer message;
        struct error err;

        link->heard_ms = link_now_ms(link);
        if (mps_answer_read(&message, &arena, line, length, &err) < 0) {
                error_raise_prefix(&err, "the MPS supervisor");
                disconnect(link, &err);
        } else if (message.is_status) {
                link_send_status(link, message.status);
        } else {
                link_take_answer(link, &message);
        }
        arena_done(&arena);
}

/* |always|: send the line even if it is the same as the last one. */
static void send_apply(struct mps_link *link, bool always)
{
        char *line = mps_request_write(&link->wanted);
        const bool is_new = always || !link->apply || strcmp(line, link->apply) != 0;

        free(link->apply);
        link->apply = line;
        if (is_new && link->lines)
                link_send_text(link, line);
}

static void connected(struct mps_link *link)
{
        const struct mps_request watch = {.kind = MPS_REQUEST_WATCH};

        mps_external_stop(link->external);
        link->is_external = false;
        link->is_absent = false;
        link->has_own_plan = false;
        link->retry_ms = 0;
        link->heard_ms = link_now_ms(link);
        if (link->apply)
                send_apply(link, true); /* first, so that the status that follows is for it */
        send_message(link, &watch);
        uv_timer_start(&link->ping, on_ping, PING_MS, PING_MS);
}

static void on_link_retry(uv_timer_t *timer)
{
        struct mps_link *link = container_of(timer, struct mps_link, retry);
        const struct lines_options options = {
                .line_limit = MPS_MESSAGE_MAX,
                .unsent_limit = 2 * MPS_MESSAGE_MAX,
                .on_line = on_link_line,
                .on_end = on_link_end,
                .data = link,
        };
        struct error err;

        if (lines_connect(&link->lines, link->options.loop, link->socket, &options, &err) == 0) {
                connected(link);
                return;
        }
        link->is_absent = err.kind == ERROR_NOT_FOUND;
        if (link->is_absent && mps_external_wants_any(link->external))
                mps_external_poll(link->external);
        else
                lose(link, err.text);
        link_retry_later(link);
}

bool mps_link_is_absent(const struct mps_link *link)
{
        return link->is_absent && !link->is_external;
}

/* ---- the wanted daemons ---- */

void mps_link_apply(struct mps_link *link, const struct mps_wanted *wanted, uint64_t generation)
{
        struct arena arena = ARENA_INIT;
        struct mps_daemon_wanted *daemons = ARENA_ARRAY(&arena, struct mps_daemon_wanted, wanted->n_daemons);

        for (size_t i = 0; i < wanted->n_daemons; i++)
                mps_daemon_wanted_copy(&daemons[i], &arena, &wanted->daemons[i]);
        mps_external_stop(link->external);
        arena_done(&link->wanted_arena);
        link->wanted_arena = arena;
        link->wanted.wanted = (struct mps_wanted){daemons, wanted->n_daemons, wanted->ends_clients};
        link->wanted.generation = generation;
        mps_external_want(link->external, &link->wanted.wanted, generation);
        send_apply(link, true);
        if (!link->lines)
                uv_timer_start(&link->retry, on_link_retry, 0, 0);
}

void mps_link_hold(struct mps_link *link, const struct mps_allocation_request *allocations, size_t n_allocations)
{
        struct arena arena = ARENA_INIT;

        link->wanted.has_allocations = allocations && n_allocations <= MPS_HOLD_MAX;
        link->wanted.n_allocations = link->wanted.has_allocations ? n_allocations : 0;
        link->wanted.allocations = link->held =
                ARENA_ARRAY(&arena, struct mps_allocation_request, link->wanted.n_allocations);
        for (size_t i = 0; i < link->wanted.n_allocations; i++)
                mps_allocation_request_copy(&link->held[i], &arena, &allocations[i]);
        arena_done(&link->held_arena);
        link->held_arena = arena;
        if (link->apply)
                send_apply(link, false);
}

void mps_link_name_holders(struct mps_link *link, const struct mps_holder *holders, size_t n_holders)
{
        struct arena arena = ARENA_INIT;

        link->wanted.n_holders = MIN(n_holders, MPS_HOLD_MAX);
        link->wanted.holders = mps_holders_copy(&arena, holders, link->wanted.n_holders);
        arena_done(&link->holders_arena);
        link->holders_arena = arena;
        if (link->apply)
                send_apply(link, false);
}

void mps_link_forget(struct mps_link *link)
{
        mps_external_want(link->external, &(const struct mps_wanted){0}, 0);
        free(TAKE_PTR(link->apply));
        mps_link_hold(link, NULL, 0);
        mps_link_name_holders(link, NULL, 0);
}

/* ---- start and end ---- */

static void on_link_closed(void *data)
{
        struct mps_link *link = data;
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the link to the MPS supervisor is closing");
        link_fail_requests(link, &err);
        while (!list_is_empty(&link->requests))
                request_answer_error(container_of(link->requests.next, struct request, in_link));
        if (link->closed)
                link->closed(link->closed_data);
        mps_status_free(link->reported);
        arena_done(&link->wanted_arena);
        arena_done(&link->held_arena);
        arena_done(&link->holders_arena);
        free(link->apply);
        free(link->reason);
        free(link->socket);
        free(link);
}

int mps_link_new(struct mps_link **ret, const struct mps_link_options *options, struct error *err)
{
        struct mps_external_options external = {
                .loop = options->loop,
                .directory = options->directory,
                .control = options->control,
                .on_round = on_round,
        };
        struct mps_link *link;

        if (strlen(options->directory) + sizeof("/" MPS_SOCKET) > SOCKET_PATH_MAX)
                return error_set(err, ERROR_INVALID,
                        "the MPS directory '%s' is too long: a socket's path has at most %zu bytes", options->directory,
                        SOCKET_PATH_MAX - 1);
        external.data = link = xcalloc(1, sizeof(*link));
        link->options = *options;
        link->socket = xasprintf("%s/" MPS_SOCKET, options->directory);
        link->external = mps_external_new(&external);
        link->last_id = APPLY_ID;
        link->wanted = (struct mps_request){.kind = MPS_REQUEST_APPLY, .id = APPLY_ID};
        uv_timer_init(link->options.loop, &link->retry);
        uv_timer_init(link->options.loop, &link->ping);
        uv_timer_init(link->options.loop, &link->due);
        list_init(&link->requests);
        uv_timer_start(&link->retry, on_link_retry, 0, 0);
        *ret = link;
        return 0;
}

void mps_link_close(struct mps_link *link, void (*closed)(void *data), void *data)
{
        link->closed = closed;
        link->closed_data = data;
        link->external = mps_external_free(link->external);
        link->lines = lines_close(link->lines);
        closing_close(&link->closing, &link->retry);
        closing_close(&link->closing, &link->ping);
        closing_close(&link->closing, &link->due);
        closing_end(&link->closing, on_link_closed, link);
}
