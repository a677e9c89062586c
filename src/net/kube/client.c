#include "net/kube/client.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "base/io/loop.h"
#include "net/kube/body.h"
#include "net/kube/edit.h"
#include "net/kube/object.h"
#include "net/kube/reply.h"
#include "net/kube/transport.h"

struct kube_client {
        uv_loop_t *loop;
        struct kube_credentials credentials;
        struct transport *transport;
        bool is_equipped; /* it has credentials; until then calls wait in the list */
        struct list calls;
        struct closing closing; /* calls and the transport */
        void (*closed)(void *data);
        void *data;
};

/*
 * A call: requests, one after the other.
 *
 *     sending ──answer──► ended
 *      ▲   └──"later"──► waiting ──┐
 *      └───────────────────────────┘
 */
struct kube_call {
        struct list link;
        struct kube_client *client;
        struct transfer *transfer; /* NULL: waiting */
        uv_timer_t timer;          /* for the wait */
        struct closing closing;
        uint64_t timeout_ms;
        uint64_t until;         /* on the loop's clock; not valid while the client has no credentials */
        struct backoff backoff; /* between refusals of a busy server */
        bool is_identity_renewed;
        bool is_text;         /* kube_request's */
        const char *as;       /* the same */
        struct error failure; /* of a request that could not be sent; kind ERROR_NONE: none */

        /* The request, owned. */
        enum kube_method method;
        char *path;
        char *query;
        char *body;

        struct call_edit *edit; /* NULL: no edit */
        kube_done_fn *done;
        void *data;
};

static const struct {
        const char *name;
        const char *content_type;
} methods[] = {
        [KUBE_GET] = {"GET", NULL},
        [KUBE_CREATE] = {"POST", "application/json"},
        [KUBE_REPLACE] = {"PUT", "application/json"},
        [KUBE_MERGE_PATCH] = {"PATCH", "application/merge-patch+json"},
        [KUBE_APPLY] = {"PATCH", "application/apply-patch+yaml"}, /* JSON is a subset of YAML */
        [KUBE_DELETE] = {"DELETE", "application/json"},
};

/* ---- end ---- */

static void on_client_closed(void *data)
{
        struct kube_client *client = data;

        kube_credentials_done(&client->credentials);
        if (client->closed)
                client->closed(client->data);
        free(client);
}

static void on_call_closed(void *data)
{
        struct kube_call *call = data;

        closing_release(&call->client->closing);
        free(call);
}

/* Only the timer of the call is left. */
static void call_end(struct kube_call *call)
{
        list_remove(&call->link);
        call->transfer = transfer_cancel(call->transfer);
        call->edit = edit_free(call->edit);
        free(call->path);
        free(call->query);
        free(call->body);
        closing_hold(&call->client->closing);
        closing_close(&call->closing, &call->timer);
        closing_end(&call->closing, on_call_closed, call);
}

static void client_finish(struct kube_call *call, const struct kube_answer *answer)
{
        kube_done_fn *done = call->done;
        void *data = call->data;

        call_end(call);
        if (done)
                done(answer, data);
}

/* ---- sending ---- */

/* Puts the next request into |call|, and takes its body. */
static void call_set(struct kube_call *call, const struct call_step *step)
{
        char *path = xstrdup(step->path);
        char *query = xstrdup(step->query);

        free(call->path);
        free(call->query);
        free(call->body);
        call->method = step->method;
        call->path = path;
        call->query = query;
        call->body = step->body;
        call->is_identity_renewed = false;
}

static void send_now(struct kube_call *call);

static uint64_t client_time_left(const struct kube_call *call)
{
        uint64_t now = uv_now(call->client->loop);

        return call->until > now ? call->until - now : 0;
}

static void on_wait_over(uv_timer_t *timer)
{
        struct kube_call *call = container_of(timer, struct kube_call, timer);

        if (call->failure.kind == ERROR_NONE)
                send_now(call);
        else
                client_finish(call, &(struct kube_answer){.error = &call->failure, .reason = ""});
}

/* One millisecond more than |ms|: the loop's clock is cut to milliseconds, and a retry must not come too early. */
static void client_wait_for(struct kube_call *call, uint64_t ms)
{
        uv_update_time(call->client->loop);
        uv_timer_start(&call->timer, on_wait_over, ms + 1, 0);
}

/* True if |call| was scheduled or sent again. */
static bool try_again(struct kube_call *call, const struct transfer_end *end)
{
        uint64_t wait;

        if (end->error)
                return false;
        if (end->is_identity_old && !call->is_identity_renewed) {
                call->is_identity_renewed = true;
                send_now(call);
                return true;
        }
        if ((end->status != 429 && end->status != 503) || end->retry_after_ms == 0 ||
                end->retry_after_ms > KUBE_RETRY_AFTER_LIMIT_MS)
                return false;
        wait = backoff_next(&call->backoff, end->retry_after_ms, backoff_random());
        if (wait >= client_time_left(call))
                return false;
        client_wait_for(call, wait);
        return true;
}

static void on_client_end(const struct transfer_end *end, void *data)
{
        struct kube_call *call = data;
        struct kube_answer answer = {.status = end->status,
                .retry_after_ms = end->retry_after_ms,
                .text = end->error ? NULL : end->body,
                .size = end->error ? 0 : end->size};
        struct kube_answer other = {0};
        struct call_step next;
        struct reply reply;

        call->transfer = NULL;
        uv_update_time(call->client->loop);
        if (try_again(call, end))
                return;
        if (call->is_text)
                reply_read_text(&reply, methods[call->method].name, call->path, end);
        else
                reply_read(&reply, methods[call->method].name, call->path, end);
        answer.object = reply.object;
        answer.reason = reply.reason;
        answer.is_too_large = reply.is_too_large;
        answer.error = reply.error.kind == ERROR_NONE ? NULL : &reply.error;
        if (call->edit && edit_step(call->edit, &answer, &next, &other)) {
                call_set(call, &next);
                send_now(call);
        } else {
                client_finish(call, other.status ? &other : &answer);
                json_decref(other.object);
        }
        reply_done(&reply);
}

static void fail_soon(struct kube_call *call)
{
        error_prefix(&call->failure, "%s %.200s", methods[call->method].name, call->path);
        uv_timer_start(&call->timer, on_wait_over, 0, 0);
}

static void send_now(struct kube_call *call)
{
        const struct transfer_request request = {
                .method = methods[call->method].name,
                .path = call->path,
                .query = call->query,
                .body = call->body,
                .content_type = methods[call->method].content_type,
                .as = call->as,
                .timeout_ms = client_time_left(call),
                .limit = KUBE_ANSWER_LIMIT,
                .on_end = on_client_end,
                .data = call,
        };

        if (call->client->is_equipped &&
                transfer_start(&call->transfer, call->client->transport, &request, &call->failure) < 0)
                fail_soon(call);
}

/* ---- calls ---- */

static struct kube_call *call_new(struct kube_client *client, uint64_t timeout_ms, kube_done_fn *done, void *data)
{
        struct kube_call *call = xcalloc(1, sizeof(*call));

        uv_update_time(client->loop);
        call->client = client;
        call->timeout_ms = timeout_ms ? timeout_ms : KUBE_TIMEOUT_MS;
        call->backoff = (struct backoff){KUBE_RETRY_MS, KUBE_RETRY_LIMIT_MS, 0};
        call->until = uv_now(client->loop) + call->timeout_ms;
        call->done = done;
        call->data = data;
        uv_timer_init(client->loop, &call->timer);
        list_append(&client->calls, &call->link);
        return call;
}

/* The query of a change; NULL if it is empty. */
static char *call_query(const char *query, enum kube_method method, const char *field_manager, bool force)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (query)
                strbuf_puts(&text, query);
        if (field_manager && method != KUBE_GET && method != KUBE_DELETE) {
                strbuf_puts(&text, text.size ? "&fieldManager=" : "fieldManager=");
                object_escape(&text, field_manager);
        }
        if (force && method == KUBE_APPLY)
                strbuf_puts(&text, text.size ? "&force=true" : "force=true");
        return text.size ? strbuf_take(&text) : NULL;
}

struct kube_call *kube_client_send(struct kube_client *client, const struct kube_request *request)
{
        struct kube_call *call = call_new(client, request->timeout_ms, request->done, request->data);
        _free_ char *query = call_query(request->query, request->method, request->field_manager, request->force);

        call->is_text = request->is_text;
        call->as = request->as;
        call_set(call, &(struct call_step){.method = request->method,
                               .path = request->path,
                               .query = query,
                               .body = request->body ? body_print(request->body) : NULL});
        send_now(call);
        return call;
}

struct kube_call *kube_client_edit(struct kube_client *client, const struct kube_edit *edit)
{
        struct kube_call *call = call_new(client, edit->timeout_ms, edit->done, edit->data);
        struct call_step first;

        call->edit = edit_new(edit, call_query(NULL, KUBE_MERGE_PATCH, edit->field_manager, false), &first);
        call_set(call, &first);
        send_now(call);
        return call;
}

struct kube_call *kube_call_cancel(struct kube_call *call)
{
        if (call)
                call_end(call);
        return NULL;
}

/* ---- the client ---- */

struct kube_client *kube_client_new(uv_loop_t *loop)
{
        struct kube_client *client = xcalloc(1, sizeof(*client));

        client->loop = loop;
        list_init(&client->calls);
        client->transport = transport_new(loop);
        return client;
}

int kube_client_equip(struct kube_client *client, struct kube_credentials *credentials, struct error *err)
{
        assert(!client->is_equipped);
        client->credentials = *credentials;
        if (transport_equip(client->transport, &client->credentials, err) < 0) {
                client->credentials = (struct kube_credentials){0};
                return -1;
        }
        *credentials = (struct kube_credentials){0};
        client->is_equipped = true;
        uv_update_time(client->loop);
        LIST_FOR_EACH(link, &client->calls) {
                struct kube_call *call = container_of(link, struct kube_call, link);

                call->until = uv_now(client->loop) + call->timeout_ms;
                send_now(call);
        }
        return 0;
}

int kube_client_open(struct kube_client **ret, uv_loop_t *loop, const char *kubeconfig, struct error *err)
{
        struct kube_credentials credentials;
        struct kube_client *client;
        int rc = kube_credentials_find(&credentials, kubeconfig, err);

        if (rc != 0)
                return rc;
        client = kube_client_new(loop);
        if (kube_client_equip(client, &credentials, err) < 0) {
                kube_credentials_done(&credentials);
                kube_client_close(client, NULL, NULL);
                return -1;
        }
        *ret = client;
        return 0;
}

const char *kube_client_scope(const struct kube_client *client)
{
        return client->credentials.scope;
}

uv_loop_t *kube_client_loop(const struct kube_client *client)
{
        return client->loop;
}

struct transport *kube_client_transport(struct kube_client *client)
{
        return client->transport;
}

struct kube_client *kube_client_close(struct kube_client *client, void (*closed)(void *data), void *data)
{
        if (!client)
                return NULL;
        client->closed = closed;
        client->data = data;
        while (!list_is_empty(&client->calls))
                call_end(container_of(client->calls.next, struct kube_call, link));
        transport_close(client->transport, closing_release, closing_hold(&client->closing));
        closing_end(&client->closing, on_client_closed, client);
        return NULL;
}
