// SPDX-License-Identifier: Apache-2.0
/*
 * Requests wait for works. A waiter is one claim of one request, and is in the list of the work that will answer it.
 * Works are in the order of the requests; those that can begin are also in |ready|.
 */
#include "node/dra/service.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io/loop.h"
#include "base/list.h"
#include "base/log.h"
#include "node/dra/messages.h"
#include "node/dra/prepare.h"
#include "base/io/lock.h"
#include "net/rpc/server.h"

#define LOCK_RETRY_MS UINT64_C(50)

enum work_kind { WORK_PREPARE, WORK_UNPREPARE };

struct dra_service {
        struct dra_service_options options;
        char *lock_directory; /* NULL: none */
        struct lock lock;
        char lock_reason[sizeof(((struct error *)0)->text)]; /* why the lock is not held; or empty */
        uv_timer_t deadline;
        uv_timer_t lock_retry;
        struct dra_health_stream *health;
        struct list requests; /* not answered yet; the first has the earliest deadline */
        size_t n_requests;
        struct list works;
        size_t n_works;
        struct list ready; /* not begun, and not behind an earlier work of the same UID */
        size_t n_running;
        bool is_advancing;
        bool is_held;
        bool is_closing;
        struct closing closing;
};

/* The preparing or unpreparing of one claim, for one or several requests. */
struct work {
        struct list in_works;
        struct list in_ready;
        struct dra_service *service;
        enum work_kind kind;
        bool is_running;
        struct arena arena; /* of |claim| */
        struct dra_claim claim;
        struct list waiters;
};

struct waiter {
        struct list in_work;
        struct work *work; /* NULL: answered */
        struct request *request;
};

struct request {
        struct list in_service;
        struct dra_service *service;
        struct rpc_call *call;
        enum work_kind kind;
        bool is_v1;
        uint64_t deadline_ms;
        struct arena arena;
        struct waiter *waiters;
        ProtobufCMessage **answers; /* one for each waiter */
        size_t n_waiters;
        size_t n_pending;
};

static const char *kind_name(enum work_kind kind)
{
        return kind == WORK_PREPARE ? "prepare" : "unprepare";
}

/* ---- works ---- */

static struct work *work_of(struct list *in_works)
{
        return container_of(in_works, struct work, in_works);
}

static struct work *newest_work(const struct dra_service *service, const char *uid)
{
        for (struct list *link = service->works.previous; link != &service->works; link = link->previous)
                if (strcmp(work_of(link)->claim.uid, uid) == 0)
                        return work_of(link);
        return NULL;
}

static struct work *oldest_work(const struct dra_service *service, const char *uid)
{
        LIST_FOR_EACH(link, &service->works)
                if (strcmp(work_of(link)->claim.uid, uid) == 0)
                        return work_of(link);
        return NULL;
}

static bool is_same_claim(const struct dra_claim *a, const struct dra_claim *b)
{
        return strcmp(a->uid, b->uid) == 0 && strcmp(a->namespace, b->namespace) == 0 && strcmp(a->name, b->name) == 0;
}

static struct work *find_or_add_work(struct dra_service *service, enum work_kind kind, const struct dra_claim *claim)
{
        struct work *newest = newest_work(service, claim->uid);
        struct work *work;

        if (newest && newest->kind == kind && is_same_claim(&newest->claim, claim))
                return newest;
        work = xcalloc(1, sizeof(*work));
        work->service = service;
        work->kind = kind;
        work->claim = dra_claim_copy_names(&work->arena, claim);
        list_init(&work->waiters);
        list_init(&work->in_ready);
        list_append(&service->works, &work->in_works);
        service->n_works++;
        if (!newest)
                list_append(&service->ready, &work->in_ready);
        return work;
}

/* Removes the work from the service; the next work of the same claim can begin. */
static void remove_work(struct work *work)
{
        struct dra_service *service = work->service;
        struct work *next;

        list_remove(&work->in_works);
        list_remove(&work->in_ready);
        service->n_works--;
        next = oldest_work(service, work->claim.uid);
        if (next && !next->is_running && list_is_empty(&next->in_ready))
                list_append(&service->ready, &next->in_ready);
}

static void free_work(struct work *work)
{
        arena_done(&work->arena);
        free(work);
}

/* ---- requests ---- */

static void service_arm_deadline(struct dra_service *service);

static void leave_work(struct waiter *waiter)
{
        struct work *work = TAKE_PTR(waiter->work);

        list_remove(&waiter->in_work);
        if (!list_is_empty(&work->waiters))
                return;
        if (!work->is_running) {
                remove_work(work);
                free_work(work);
        } else if (work->kind == WORK_PREPARE) {
                dra_prepare_abandon(work->service->options.prepare, &work->claim); /* which may end the work */
        }
}

static void leave_service(struct request *request)
{
        list_remove(&request->in_service);
        request->service->n_requests--;
        service_arm_deadline(request->service);
}

static void on_call_ended(struct rpc_call *call UNUSED, void *data)
{
        struct request *request = data;

        if (request->n_pending > 0) {
                for (size_t i = 0; i < request->n_waiters; i++)
                        if (request->waiters[i].work)
                                leave_work(&request->waiters[i]);
                leave_service(request);
        }
        arena_done(&request->arena);
        free(request);
}

/* The request may be freed when this returns. */
static void send_answers(struct request *request)
{
        struct rpc_call *call = request->call;
        struct rpc_message *message = request->kind == WORK_PREPARE
                                              ? dra_messages_join_prepared(request->answers, request->n_waiters)
                                              : dra_messages_join_unprepared(request->answers, request->n_waiters);

        rpc_call_send(call, message);
        rpc_message_unref(message);
        rpc_call_finish(call, RPC_OK, NULL);
        rpc_call_flush(call);
}

/* |claim| may be only named. */
static void set_answer(struct waiter *waiter, const struct dra_claim *claim, const char *error)
{
        struct request *request = waiter->request;

        request->answers[waiter - request->waiters] =
                request->kind == WORK_PREPARE ? dra_messages_prepared(&request->arena, claim, error, request->is_v1)
                                              : dra_messages_unprepared(&request->arena, claim->uid, error);
}

/* ---- works begin and end ---- */

static void on_lock_retry(uv_timer_t *timer);

static bool has_lock(struct dra_service *service)
{
        struct error err;
        int rc;

        if (!service->lock_directory || service->lock.fd >= 0)
                return true;
        rc = lock_take(&service->lock, service->lock_directory, &err);
        if (rc == 0) {
                service->lock_reason[0] = '\0';
                return true;
        }
        if (rc == LOCK_BUSY)
                error_raise(&err, ERROR_UNAVAILABLE, "another instance of this driver holds the lock on '%s'",
                        service->lock_directory);
        snprintf(service->lock_reason, sizeof(service->lock_reason), "%s", err.text);
        uv_timer_start(&service->lock_retry, on_lock_retry, LOCK_RETRY_MS, 0);
        return false;
}

static void on_work_done(const struct dra_claim *claim, const struct error *err, void *data);

/*
 * Begins all works that can begin. A work may end at once, which calls this function again: the nested call returns,
 * and the loop below continues.
 */
static void advance(struct dra_service *service)
{
        struct dra_prepare *prepare = service->options.prepare;

        if (service->is_advancing)
                return;
        service->is_advancing = true;
        while (!service->is_held && !list_is_empty(&service->ready) && has_lock(service)) {
                struct work *work = container_of(service->ready.next, struct work, in_ready);

                list_remove(&work->in_ready);
                work->is_running = true;
                service->n_running++;
                if (work->kind == WORK_PREPARE)
                        dra_prepare_claim(prepare, &work->claim, on_work_done, work);
                else
                        dra_unprepare_claim(prepare, &work->claim, on_work_done, work);
        }
        service->is_advancing = false;
        if (service->n_running > 0)
                return;
        if (!service->lock_directory || service->lock.fd >= 0)
                dra_prepare_settle(prepare);
        lock_release(&service->lock);
}

static void on_lock_retry(uv_timer_t *timer)
{
        advance(container_of(timer, struct dra_service, lock_retry));
}

static void on_work_done(const struct dra_claim *claim, const struct error *err, void *data)
{
        struct work *work = data;
        struct dra_service *service = work->service;
        const char *error = NULL;

        assert(work->is_running);
        if (err) /* kubelet takes an empty text for success */
                error = err->text[0] ? err->text : error_kind_name(err->kind);
        remove_work(work);
        service->n_running--;
        /*
         * Writing an answer may end other requests, and remove their waiters from this list: so always take the first.
         */
        while (!list_is_empty(&work->waiters)) {
                struct waiter *waiter = container_of(work->waiters.next, struct waiter, in_work);
                struct request *request = waiter->request;

                list_remove(&waiter->in_work);
                waiter->work = NULL;
                if (service->is_held)
                        continue;
                set_answer(waiter, claim ? claim : &work->claim, error);
                if (--request->n_pending > 0)
                        continue;
                leave_service(request);
                send_answers(request);
        }
        free_work(work);
        if (!service->is_closing)
                advance(service);
        else if (service->n_running == 0)
                closing_release(&service->closing);
}

/* ---- deadlines ---- */

static void service_expire(struct request *request)
{
        const struct dra_service *service = request->service;

        for (size_t i = 0; i < request->n_waiters; i++) {
                struct waiter *waiter = &request->waiters[i];
                const struct work *work = waiter->work;
                const char *what = kind_name(request->kind);
                const char *error;

                if (!work)
                        continue;
                error = work->is_running
                                ? arena_printf(&request->arena,
                                          "%s of claim %s/%s takes longer than %" PRIu64
                                          " ms; it goes on, and is asked for again",
                                          what, work->claim.namespace, work->claim.name, service->options.timeout_ms)
                                : arena_printf(&request->arena,
                                          "%s of claim %s/%s could not begin within %" PRIu64 " ms: %s", what,
                                          work->claim.namespace, work->claim.name, service->options.timeout_ms,
                                          service->lock_reason[0] ? service->lock_reason
                                                                  : "what was asked before takes longer");
                log_warn("claim is late", LOG_STR("uid", work->claim.uid), LOG_STR("error", error));
                set_answer(waiter, &work->claim, error);
                leave_work(waiter);
        }
        request->n_pending = 0;
        leave_service(request);
        send_answers(request);
}

static void service_on_deadline(uv_timer_t *timer)
{
        struct dra_service *service = container_of(timer, struct dra_service, deadline);

        while (!list_is_empty(&service->requests)) {
                struct request *request = container_of(service->requests.next, struct request, in_service);

                if (request->deadline_ms > uv_now(service->options.loop))
                        break;
                service_expire(request);
        }
        service_arm_deadline(service);
}

static void service_arm_deadline(struct dra_service *service)
{
        uint64_t now_ms = uv_now(service->options.loop);
        uint64_t deadline_ms;

        if (list_is_empty(&service->requests) || service->is_held) {
                uv_timer_stop(&service->deadline);
                return;
        }
        deadline_ms = container_of(service->requests.next, struct request, in_service)->deadline_ms;
        uv_timer_start(&service->deadline, service_on_deadline, deadline_ms > now_ms ? deadline_ms - now_ms : 0, 0);
}

/* ---- methods ---- */

static int service_read_request(struct request *request, const uint8_t *message, size_t size, struct error *err)
{
        struct dra_service *service = request->service;
        struct dra_claim *claims;

        if (service->n_requests >= DRA_SERVICE_REQUESTS_MAX)
                return error_set(err, ERROR_EXHAUSTED, "%zu requests are not answered yet", service->n_requests);
        if (dra_messages_claims(&claims, &request->n_waiters, &request->arena, message, size, err) < 0)
                return -1;
        if (service->n_works + request->n_waiters > DRA_SERVICE_WORKS_MAX)
                return error_set(err, ERROR_EXHAUSTED, "%zu claims are not done yet", service->n_works);
        request->waiters = ARENA_ARRAY(&request->arena, struct waiter, request->n_waiters);
        request->answers = ARENA_ARRAY(&request->arena, ProtobufCMessage *, request->n_waiters);
        for (size_t i = 0; i < request->n_waiters; i++) {
                struct waiter *waiter = &request->waiters[i];

                waiter->request = request;
                waiter->work = find_or_add_work(service, request->kind, &claims[i]);
                list_append(&waiter->work->waiters, &waiter->in_work);
        }
        return 0;
}

static void handle_claims(struct rpc_call *call, const uint8_t *message, size_t size, struct dra_service *service,
        enum work_kind kind, bool is_v1)
{
        struct request *request = xcalloc(1, sizeof(*request));
        struct error err;

        request->service = service;
        request->call = call;
        request->kind = kind;
        request->is_v1 = is_v1;
        if (service_read_request(request, message, size, &err) < 0) {
                log_warn("request refused", LOG_STR("method", kind_name(kind)), LOG_ERR(&err));
                rpc_call_finish(call, rpc_status_of_error(&err), err.text);
                arena_done(&request->arena);
                free(request);
                return;
        }
        rpc_call_on_ended(call, on_call_ended, request);
        if (request->n_waiters == 0) {
                send_answers(request);
                return;
        }
        request->n_pending = request->n_waiters;
        request->deadline_ms = uv_now(service->options.loop) + service->options.timeout_ms;
        list_append(&service->requests, &request->in_service);
        service->n_requests++;
        service_arm_deadline(service);
        advance(service);
}

static void handle_prepare_v1(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        handle_claims(call, message, size, context, WORK_PREPARE, true);
}

static void handle_prepare_v1beta1(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        handle_claims(call, message, size, context, WORK_PREPARE, false);
}

static void handle_unprepare(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        handle_claims(call, message, size, context, WORK_UNPREPARE, true);
}

static void handle_watch(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        dra_health_stream_add(((struct dra_service *)context)->health, call);
}

static const struct rpc_method methods[] = {
        {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", handle_prepare_v1},
        {"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", handle_unprepare},
        {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources", handle_prepare_v1beta1},
        {"/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources", handle_unprepare},
        {"/v1.DRAResourceHealth/NodeWatchResources", handle_watch},
        {"/v1alpha1.DRAResourceHealth/NodeWatchResources", handle_watch},
};

struct rpc_service dra_service_rpc(struct dra_service *service)
{
        return (struct rpc_service){.methods = methods, .n_methods = ARRAY_SIZE(methods), .context = service};
}

/* ---- start and end ---- */

struct dra_service *dra_service_new(const struct dra_service_options *options)
{
        struct dra_service *service = xcalloc(1, sizeof(*service));

        service->options = *options;
        if (!service->options.timeout_ms)
                service->options.timeout_ms = DRA_SERVICE_TIMEOUT_MS;
        service->lock_directory = options->lock_directory ? xstrdup(options->lock_directory) : NULL;
        service->lock = (struct lock)LOCK_INIT;
        list_init(&service->requests);
        list_init(&service->works);
        list_init(&service->ready);
        uv_timer_init(options->loop, &service->deadline);
        uv_timer_init(options->loop, &service->lock_retry);
        service->health = dra_health_stream_new(options->loop, options->resend_ms);
        return service;
}

struct dra_health_stream *dra_service_health(struct dra_service *service)
{
        return service->health;
}

void dra_service_hold(struct dra_service *service)
{
        service->is_held = true;
        service_arm_deadline(service);
}

size_t dra_service_requests(const struct dra_service *service)
{
        return service->n_requests;
}

size_t dra_service_works(const struct dra_service *service)
{
        return service->n_works;
}

static void service_on_closed(void *data)
{
        struct dra_service *service = data;

        lock_release(&service->lock);
        free(service->lock_directory);
        free(service);
}

struct dra_service *dra_service_close(struct dra_service *service)
{
        if (!service)
                return NULL;
        assert(list_is_empty(&service->requests));
        service->is_closing = true;
        service->health = dra_health_stream_close(service->health);
        closing_close(&service->closing, &service->deadline);
        closing_close(&service->closing, &service->lock_retry);
        if (service->n_running > 0)
                closing_hold(&service->closing);
        closing_end(&service->closing, service_on_closed, service);
        return NULL;
}
