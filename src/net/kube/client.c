// SPDX-License-Identifier: Apache-2.0
#include "net/kube/client.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "net/kube/body.h"
#include "net/kube/object.h"
#include "net/kube/transport.h"

struct kube_client {
        uv_loop_t *loop;
        struct kube_credentials credentials;
        struct transport transport;
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
        uint64_t until;            /* on the loop's clock; not valid while the client has no credentials */
        struct backoff backoff;    /* between refusals of a busy server */
        bool is_identity_renewed;
        struct error failure; /* of a request that could not be sent; kind ERROR_NONE: none */

        /*
         * As it was given, but for |method|, that of the request that is sent; its texts, but |as|, are not valid any
         * more.
         */
        struct kube_request request;
        char *path; /* of the request that is sent; owned, like the next two */
        char *query;
        char *body;

        struct kube_edit edit; /* |edit.edit| NULL: no edit */
        struct arena arena;    /* its texts */
        unsigned int n_tries;  /* of the edit, begun */
        bool is_sent_back;     /* the change is being sent; false: the object is being read */
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

static void on_call_closed(uv_handle_t *handle)
{
        struct kube_call *call = container_of(handle, struct kube_call, timer);

        closing_release(&call->client->closing);
        free(call);
}

/* Only the timer of the call is left. */
static void call_end(struct kube_call *call)
{
        list_remove(&call->link);
        call->transfer = transfer_cancel(call->transfer);
        arena_done(&call->arena);
        free(call->path);
        free(call->query);
        free(call->body);
        closing_hold(&call->client->closing);
        uv_close((uv_handle_t *)&call->timer, on_call_closed);
}

static void call_finish(struct kube_call *call, const struct kube_answer *answer)
{
        kube_done_fn *done = call->request.done;
        void *data = call->request.data;

        call_end(call);
        if (done)
                done(answer, data);
}

/* ---- the requests of a call ---- */

/* The query of a change; NULL if it is empty. */
static char *call_query(const struct kube_request *request, enum kube_method method, const char *field_manager)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (request->query)
                strbuf_puts(&text, request->query);
        if (field_manager && method != KUBE_GET && method != KUBE_DELETE) {
                strbuf_puts(&text, text.size ? "&fieldManager=" : "fieldManager=");
                object_escape(&text, field_manager);
        }
        if (request->force && method == KUBE_APPLY)
                strbuf_puts(&text, text.size ? "&force=true" : "force=true");
        return text.size ? strbuf_take(&text) : NULL;
}

/* Makes this the request that is sent next; takes |body|. */
static void call_set(
        struct kube_call *call, enum kube_method method, const char *path, const char *field_manager, char *body)
{
        free(call->path);
        free(call->query);
        free(call->body);
        call->request.method = method;
        call->path = xstrdup(path);
        call->query = call_query(&call->request, method, field_manager);
        call->body = body;
        call->is_identity_renewed = false;
}

static void edit_read(struct kube_call *call)
{
        call->is_sent_back = false;
        call->n_tries++;
        call_set(call, KUBE_GET, call->edit.path, NULL, NULL);
}

/* The body that changes |before| into |after|; NULL if they are equal. */
static char *edit_make_body(const struct kube_edit *edit, json_t *before, json_t *after)
{
        const char *version = object_text(before, "metadata", "resourceVersion", NULL);
        json_t *body = edit->replace ? json_incref(after) : object_difference(before, after);
        char *text = NULL;

        if (edit->replace ? !json_equal(before, after) : json_object_size(body) > 0) {
                if (version)
                        json_object_set_new(
                                object_make(body, "metadata", NULL), "resourceVersion", json_string(version));
                text = body_print(body);
        }
        json_decref(body);
        return text;
}

/*
 * The object was read. The callback may change it in place, so the original is kept. False: nothing is to be changed.
 */
static bool edit_send_back(struct kube_call *call, json_t *object)
{
        const struct kube_edit *edit = &call->edit;
        json_t *after = json_deep_copy(object);
        char *body = edit->edit(after, edit->data) ? edit_make_body(edit, object, after) : NULL;

        json_decref(after);
        if (!body)
                return false;
        call->is_sent_back = true;
        call_set(call, edit->replace ? KUBE_REPLACE : KUBE_MERGE_PATCH,
                edit->status_path ? edit->status_path : edit->path, edit->field_manager, body);
        return true;
}

/* True: |call| has its next request. False: |answer| is its last. */
static bool edit_continue(struct kube_call *call, const struct kube_answer *answer)
{
        if (!call->edit.edit)
                return false;
        if (!call->is_sent_back)
                return !answer->error && edit_send_back(call, answer->object);
        if (answer->status != 409 || call->n_tries >= KUBE_EDIT_TRIES)
                return false;
        edit_read(call);
        return true;
}

/* ---- sending ---- */

static void call_send(struct kube_call *call);

/* How messages call the request. */
static const char *call_name(const struct kube_call *call)
{
        return call->request.on_body ? "watch" : methods[call->request.method].name;
}

static uint64_t call_time_left(const struct kube_call *call)
{
        uint64_t now = uv_now(call->client->loop);

        return call->until > now ? call->until - now : 0;
}

static void on_wait_over(uv_timer_t *timer)
{
        struct kube_call *call = container_of(timer, struct kube_call, timer);

        if (call->failure.kind == ERROR_NONE)
                call_send(call);
        else
                call_finish(call, &(struct kube_answer){.error = &call->failure, .reason = ""});
}

/* True if |call| was scheduled or sent again. */
static bool call_try_again(struct kube_call *call, const struct kube_answer *answer)
{
        uint64_t wait;

        if (answer->error)
                return false;
        if (answer->is_identity_old && !call->is_identity_renewed) {
                call->is_identity_renewed = true;
                call_send(call);
                return true;
        }
        if (call->request.on_body || (answer->status != 429 && answer->status != 503) || answer->retry_after_ms == 0 ||
                answer->retry_after_ms > KUBE_RETRY_AFTER_LIMIT_MS)
                return false;
        wait = backoff_next(&call->backoff, answer->retry_after_ms, backoff_random());
        if (wait >= call_time_left(call))
                return false;
        /* One millisecond more: the loop's clock is cut to milliseconds, and a retry must not come too early. */
        uv_timer_start(&call->timer, on_wait_over, wait + 1, 0);
        return true;
}

static void client_on_answer(struct kube_answer *answer, void *data)
{
        struct kube_call *call = data;
        const bool is_text = call->request.is_text || call->request.on_body;
        struct error err;

        call->transfer = NULL;
        uv_update_time(call->client->loop);
        if (call_try_again(call, answer))
                return;
        body_read(answer, call_name(call), call->path, is_text, &err);
        if (edit_continue(call, answer))
                call_send(call);
        else
                call_finish(call, answer);
        json_decref(answer->object);
}

static void call_send(struct kube_call *call)
{
        const struct transfer_request request = {
                .method = methods[call->request.method].name,
                .path = call->path,
                .query = call->query,
                .body = call->body,
                .content_type = methods[call->request.method].content_type,
                .as = call->request.as,
                .timeout_ms = call_time_left(call),
                .on_head = call->request.on_head,
                .on_body = call->request.on_body,
                .stream = call->request.data,
                .on_end = client_on_answer,
                .data = call,
        };

        if (!call->client->is_equipped ||
                transfer_start(&call->transfer, &call->client->transport, &request, &call->failure) == 0)
                return;
        error_prefix(&call->failure, "%s %.200s", call_name(call), call->path);
        uv_timer_start(&call->timer, on_wait_over, 0, 0);
}

/* ---- calls ---- */

/* Its timeout begins. */
static void call_begin(struct kube_call *call)
{
        const uint64_t timeout_ms = call->request.timeout_ms;

        uv_update_time(call->client->loop);
        call->until = uv_now(call->client->loop) + (timeout_ms ? timeout_ms : KUBE_TIMEOUT_MS);
        call_send(call);
}

static struct kube_call *call_new(struct kube_client *client, const struct kube_request *request)
{
        struct kube_call *call = xcalloc(1, sizeof(*call));

        call->client = client;
        call->request = *request;
        call->backoff = (struct backoff){KUBE_RETRY_MS, KUBE_RETRY_LIMIT_MS, 0};
        uv_timer_init(client->loop, &call->timer);
        list_append(&client->calls, &call->link);
        return call;
}

struct kube_call *kube_client_send(struct kube_client *client, const struct kube_request *request)
{
        struct kube_call *call = call_new(client, request);

        call_set(call, request->method, request->path, request->field_manager,
                request->body ? body_print(request->body) : NULL);
        call_begin(call);
        return call;
}

struct kube_call *kube_client_edit(struct kube_client *client, const struct kube_edit *edit)
{
        struct kube_call *call = call_new(
                client, &(struct kube_request){.timeout_ms = edit->timeout_ms, .done = edit->done, .data = edit->data});

        call->edit = *edit;
        call->edit.path = arena_strdup(&call->arena, edit->path);
        call->edit.status_path = arena_strdup(&call->arena, edit->status_path);
        call->edit.field_manager = arena_strdup(&call->arena, edit->field_manager);
        edit_read(call);
        call_begin(call);
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
        transport_init(&client->transport, loop, &client->closing);
        return client;
}

int kube_client_equip(struct kube_client *client, struct kube_credentials *credentials, struct error *err)
{
        assert(!client->is_equipped);
        client->credentials = *credentials;
        if (transport_equip(&client->transport, &client->credentials, err) < 0) {
                client->credentials = (struct kube_credentials){0};
                return -1;
        }
        *credentials = (struct kube_credentials){0};
        client->is_equipped = true;
        LIST_FOR_EACH(link, &client->calls)
                call_begin(container_of(link, struct kube_call, link));
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

struct kube_client *kube_client_close(struct kube_client *client, void (*closed)(void *data), void *data)
{
        if (!client)
                return NULL;
        client->closed = closed;
        client->data = data;
        while (!list_is_empty(&client->calls))
                call_end(container_of(client->calls.next, struct kube_call, link));
        transport_close(&client->transport);
        closing_end(&client->closing, on_client_closed, client);
        return NULL;
}
