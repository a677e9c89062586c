// SPDX-License-Identifier: Apache-2.0
#include "node/kubelet/requests.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "node/kubelet/convert.h"
#include "net/rpc/server.h"
#include "plan/allocate.h"
#include "plan/prefer.h"

/* One Allocate. The call refers to the request until the call ends, and the broker until it has answered. */
struct request {
        struct list link;          /* in requests->waiting, if it waits */
        struct requests *requests; /* NULL: it was answered, or its caller is gone */
        struct rpc_call *call;     /* NULL: ended */
        struct arena arena;
        struct container_ids *containers;
        struct allocate_answer *answers;
        size_t count;
        size_t n_done;
        const struct resource
                *resource; /* of the plan from which the last container got its resource; only compared, never
                            * dereferenced */
        struct error failure;
        uint64_t deadline; /* by the loop's clock */
        bool is_asked;     /* the broker has not answered yet */
        bool is_running;
};

void requests_finish_call(struct rpc_call *call, struct rpc_message *answer)
{
        rpc_call_send(call, answer);
        rpc_message_unref(answer);
        rpc_call_finish(call, RPC_OK, NULL);
}

static void requests_refuse(const char *resource, struct rpc_call *call, const char *method, const struct error *err)
{
        log_warn("request refused", LOG_STR("resource", resource), LOG_STR("method", method), LOG_ERR(err));
        rpc_call_finish(call, rpc_status_of_error(err), err->text);
}

int requests_draw_tag(char ret[static REQUESTS_TAG_SIZE], struct error *err)
{
        uint8_t bytes[16];
        int rc = uv_random(NULL, NULL, bytes, sizeof(bytes), 0, NULL);

        if (rc < 0)
                return error_set(
                        err, ERROR_INTERNAL, "no random bytes for the key of an annotation: %s", uv_strerror(rc));
        bytes[6] = (uint8_t)(0x40 | (bytes[6] & 0x0f)); /* the version */
        bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f)); /* that it is a UUID of the RFC */
        for (size_t i = 0; i < sizeof(bytes); i++)
                ret += sprintf(ret, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
        return 0;
}

static int say_withdrawn(const struct requests *requests, struct error *err)
{
        return error_set(err, ERROR_UNAVAILABLE, "resource '%s' is being withdrawn", requests->options.resource_name);
}

/* ---- GetPreferredAllocation ---- */

const bool *requests_unavailable(const struct requests *requests, const struct resource *resource)
{
        const struct broker *broker = requests->options.broker;

        return broker && resource ? broker->unavailable(resource, broker->data) : NULL;
}

static bool is_not_for_now(const struct resource *resource, const struct device *device, const bool *unavailable)
{
        size_t position = (size_t)(device - resource->devices);

        return (unavailable && unavailable[position]) || (resource->unavailable && resource->unavailable[position]);
}

/* In a rollout: an id that the wanted plan does not have, released a moment ago. */
static bool is_of_previous(const struct resource *resource, const struct device *device)
{
        const struct unit *unit = &resource->units[device->unit];

        return unit->is_kept || (size_t)(device - resource->devices) >= unit->first_device + unit->replicas;
}

/*
 * kubelet's list may be older than the present unavailable ids, so these are filtered out. If too few ids are left, the
 * answer is shorter than the request: kubelet completes it, and the broker decides in Allocate.
 */
static void leave_out_unavailable(
        const struct requests *requests, struct prefer_request *request, struct arena *scratch)
{
        const struct resource *resource = requests->resource;
        const bool *unavailable = requests_unavailable(requests, resource);
        const char **available;
        size_t count = 0;
        size_t n_own = 0;

        if (!unavailable && !resource->unavailable)
                return;
        available = ARENA_ARRAY(scratch, const char *, request->n_available);
        for (size_t i = 0; i < request->n_available; i++) {
                const struct device *device = map_find(&resource->by_id, request->available[i]);

                if (!device || is_not_for_now(resource, device, unavailable))
                        continue;
                available[count++] = request->available[i];
                if (is_of_previous(resource, device))
                        continue;
                available[count - 1] = available[n_own];
                available[n_own++] = request->available[i];
        }
        /* Ids of the previous plan come last: the sooner they are free, the sooner the new plan serves their unit. */
        if (n_own + request->n_required >= request->size)
                count = n_own;
        request->available = available;
        request->n_available = count;
        request->size = MIN(request->size, request->n_required + count);
}

static int prefer_container(const struct requests *requests, struct prefer_request *request, struct arena *scratch,
        struct container_ids *ret, struct error *err)
{
        const char **ids;

        if (request->size > request->n_available + request->n_required)
                return error_set(err, ERROR_INVALID, "allocation_size: %zu, but only %zu devices are available",
                        request->size, request->n_available + request->n_required);
        leave_out_unavailable(requests, request, scratch);
        ids = ARENA_ARRAY(scratch, const char *, request->size);
        ret->ids = ids;
        return prefer(requests->resource, request, scratch, ids, &ret->n_ids, err);
}

static int prefer_all(const struct requests *requests, const uint8_t *message, size_t size, struct arena *scratch,
        struct rpc_message **ret, struct error *err)
{
        struct prefer_request *containers;
        struct container_ids *answers;
        size_t count;

        if (!requests->resource)
                return say_withdrawn(requests, err);
        if (convert_prefer_request(&containers, &count, scratch, message, size, err) < 0)
                return -1;
        answers = ARENA_ARRAY(scratch, struct container_ids, count);
        for (size_t i = 0; i < count; i++)
                if (prefer_container(requests, &containers[i], scratch, &answers[i], err) < 0)
                        return -1;
        *ret = convert_prefer_response(answers, count, scratch);
        return 0;
}

void requests_prefer(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct requests *requests = context;
        struct arena scratch = ARENA_INIT;
        struct rpc_message *answer;
        struct error err;

        if (prefer_all(requests, message, size, &scratch, &answer, &err) < 0)
                requests_refuse(requests->options.resource_name, call, "GetPreferredAllocation", &err);
        else
                requests_finish_call(call, answer);
        arena_done(&scratch);
}

/* ---- Allocate: the end of a request ---- */

/* Detaches the request, which was answered or whose call ended. The broker or the call that refers to it frees it. */
static void let_go(struct request *request)
{
        struct requests *requests = TAKE_PTR(request->requests);

        list_remove(&request->link);
        if (list_is_empty(&requests->waiting))
                uv_timer_stop(&requests->timer);
        arena_done(&request->arena);
}

static void requests_free_unless_known(struct request *request)
{
        assert(!request->requests);
        if (!request->call && !request->is_asked)
                free(request);
}

static void on_requests_call_ended(struct rpc_call *call UNUSED, void *data)
{
        struct request *request = data;

        request->call = NULL;
        if (request->requests) {
                log_info("request given up by kubelet", LOG_STR("resource", request->requests->options.resource_name),
                        LOG_STR("method", "Allocate"));
                let_go(request);
        }
        requests_free_unless_known(request);
}

/* The log line for a part of an allocation; it must not refer to the plan, which may be freed before. */
struct reported {
        struct list link;
        char *unit;
        unsigned int replicas, of;
        struct share share;
};

static void write_reported(void *data)
{
        struct requests *requests = data;

        while (!list_is_empty(&requests->reported)) {
                struct reported *reported = container_of(requests->reported.next, struct reported, link);

                log_info("allocated", LOG_STR("resource", requests->options.resource_name),
                        LOG_STR("unit", reported->unit), LOG_UINT("replicas", reported->replicas),
                        LOG_UINT("of", reported->of), LOG_UINT("memory_mib", reported->share.memory_mib),
                        LOG_UINT("threads_permille", reported->share.threads_permille));
                list_remove(&reported->link);
                free(reported->unit);
                free(reported);
        }
}

static void note_request_later(struct requests *requests, const struct allocate_answer *answer)
{
        for (size_t i = 0; i < answer->n_parts; i++) {
                const struct mps_part *part = &answer->parts[i];
                struct reported *reported = xcalloc(1, sizeof(*reported));

                reported->unit = xstrdup(part->unit->uuid);
                reported->replicas = part->replicas;
                reported->of = part->unit->replicas;
                reported->share = part->share;
                list_append(&requests->reported, &reported->link);
        }
        deferred_schedule(&requests->after);
}

static void requests_answer(struct request *request)
{
        requests_finish_call(
                request->call, convert_allocate_response(request->answers, request->count, &request->arena));
        for (size_t i = 0; i < request->count; i++)
                note_request_later(request->requests, &request->answers[i]);
}

/* Outside of a handler the answer must be flushed, and that may end the call. */
static void requests_finish(struct request *request)
{
        bool has_waited = !list_is_empty(&request->link);
        struct rpc_call *call = request->call;

        if (request->failure.kind)
                requests_refuse(request->requests->options.resource_name, call, "Allocate", &request->failure);
        else
                requests_answer(request);
        let_go(request);
        if (has_waited) {
                rpc_call_flush(call);
        } else {
                request->call = NULL; /* it did not ask for a notification of its end */
                requests_free_unless_known(request);
        }
}

static void requests_fail(struct request *request, const struct error *err)
{
        request->failure = *err;
        requests_finish(request);
}

/* ---- Allocate: waiting ---- */

static struct request *requests_first_of(const struct requests *requests)
{
        return list_is_empty(&requests->waiting) ? NULL : container_of(requests->waiting.next, struct request, link);
}

static void on_requests_timer(uv_timer_t *timer)
{
        struct requests *requests = container_of(timer, struct requests, timer);
        uint64_t now = uv_now(requests->options.loop);
        struct request *first;

        while ((first = requests_first_of(requests)) && first->deadline <= now) {
                struct error err;

                error_raise(&err, ERROR_TIMEOUT,
                        "resource '%s': the container's allocation was not ready within %g s; the log of warpshare "
                        "on this node says more",
                        requests->options.resource_name, (double)requests->options.bind_timeout_ms / 1000);
                requests_fail(first, &err);
        }
        if (first)
                uv_timer_start(timer, on_requests_timer, first->deadline - now, 0);
}

/* All deadlines are equally long, so the list stays sorted. */
static void wait_for_broker(struct request *request)
{
        struct requests *requests = request->requests;

        if (!list_is_empty(&request->link))
                return; /* the timer runs from the previous container: the deadline is that of the whole request */
        request->deadline = uv_now(requests->options.loop) + requests->options.bind_timeout_ms;
        list_append(&requests->waiting, &request->link);
        rpc_call_on_ended(request->call, on_requests_call_ended, request);
        if (!uv_is_active((uv_handle_t *)&requests->timer))
                uv_timer_start(&requests->timer, on_requests_timer, requests->options.bind_timeout_ms, 0);
}

/* ---- Allocate: container by container ---- */

static bool has_all(const struct resource *resource, const struct container_ids *container)
{
        for (size_t i = 0; i < container->n_ids; i++)
                if (!map_find(&resource->by_id, container->ids[i]))
                        return false;
        return true;
}

/* In a rollout: the draining resource that has the ids, since one of its ids was released a moment ago. */
static const struct resource *draining_of(const struct resource *resource, const struct container_ids *container)
{
        for (size_t i = 0; i < resource->n_draining; i++)
                if (has_all(&resource->draining[i], container))
                        return &resource->draining[i];
        return NULL;
}

static const struct resource *resource_in_force(const struct requests *requests, const struct container_ids *container)
{
        const struct resource *draining =
                has_all(requests->resource, container) ? NULL : draining_of(requests->resource, container);

        return draining ? draining : requests->resource;
}

/* The resource of the list that kubelet last received; if our newest list is still in flight, the previous one. */
static const struct resource *resource_of(const struct requests *requests, const struct container_ids *container)
{
        const struct resource *previous = requests->previous_resource;
        const struct resource *now = resource_in_force(requests, container);

        return previous && !has_all(now, container) && has_all(previous, container) ? previous : now;
}

/* From the plan of |resource|, if that still exists; otherwise from the present plan. */
static int allocate_next(struct request *request, const struct resource *resource,
        const struct allocate_binding *binding, struct error *err)
{
        struct requests *requests = request->requests;
        const struct container_ids *container = &request->containers[request->n_done];
        bool is_previous = resource == requests->previous_resource;
        const struct plan *plan = is_previous ? requests->previous_plan : requests->plan;
        char tag[REQUESTS_TAG_SIZE] = "";
        const struct allocate_request wanted = {
                .binding = binding, .ids = container->ids, .n_ids = container->n_ids, .tag = tag};

        if (plan_device_lists(plan) & DEVICE_LIST_CDI_ANNOTATIONS && requests_draw_tag(tag, err) < 0)
                return -1;
        memset(&request->answers[request->n_done], 0, sizeof(*request->answers));
        return allocate(&request->answers[request->n_done], &request->arena, plan,
                is_previous ? resource : resource_in_force(requests, container), &wanted, err);
}

static void do_containers(struct request *request);

static void on_bound(const struct error *err, const struct allocate_binding *binding, void *context)
{
        struct request *request = context;
        struct error failure;

        assert(request->is_asked && (!err || err->kind));
        request->is_asked = false;
        if (!request->requests) {
                requests_free_unless_known(request);
                return;
        }
        if (err)
                request->failure = *err;
        else if (allocate_next(request, request->resource, binding, &failure) < 0)
                request->failure = failure;
        else
                request->n_done++;
        if (!request->is_running)
                do_containers(request);
}

/*
 * False for a request that is refused because of its ids alone. True if the ids are of several units, because the
 * broker may bind them all to one unit.
 */
static bool is_for_broker(const struct resource *resource, const struct container_ids *container)
{
        return has_all(resource, container) && (container->n_ids <= 1 || !resource->fail_requests_greater_than_one);
}

static void do_next_container(struct request *request)
{
        const struct broker *broker = request->requests->options.broker;
        const struct container_ids *container = &request->containers[request->n_done];
        struct error failure;

        request->resource = resource_of(request->requests, container);
        if (broker && is_for_broker(request->resource, container)) {
                request->is_asked = true;
                broker->bind(request->resource, container->ids, container->n_ids, on_bound, request, broker->data);
        } else if (allocate_next(request, request->resource, NULL, &failure) < 0) {
                request->failure = failure;
        } else {
                request->n_done++;
        }
}

/*
 * Continues until all containers are done, or the broker answers later. If the broker answers within bind(), on_bound()
 * leaves the remaining containers to this loop.
 */
static void do_containers(struct request *request)
{
        request->is_running = true;
        while (request->n_done < request->count && !request->failure.kind && !request->is_asked)
                do_next_container(request);
        request->is_running = false;
        if (request->is_asked)
                wait_for_broker(request);
        else
                requests_finish(request);
}

void requests_allocate(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct requests *requests = context;
        struct request *request = xcalloc(1, sizeof(*request));
        struct error err;

        list_init(&request->link);
        request->requests = requests;
        request->call = call;
        if (!requests->resource) {
                say_withdrawn(requests, &err);
                requests_fail(request, &err);
                return;
        }
        if (convert_allocate_request(&request->containers, &request->count, &request->arena, message, size, &err) < 0) {
                requests_fail(request, &err);
                return;
        }
        request->answers = ARENA_ARRAY(&request->arena, struct allocate_answer, request->count);
        do_containers(request);
}

/* ---- PreStartContainer ---- */

/* A start that the broker prepares. The call refers to it until the call ends, and the broker until it has answered. */
struct start {
        struct rpc_call *call; /* NULL: ended */
        char *resource;
        bool is_asked;   /* the broker has not answered yet */
        bool is_handled; /* the handler has returned: an answer must be flushed from then on */
};

static void start_free_unless_known(struct start *start)
{
        if (start->call || start->is_asked)
                return;
        free(start->resource);
        free(start);
}

static void on_start_call_ended(struct rpc_call *call UNUSED, void *data)
{
        struct start *start = data;

        start->call = NULL;
        if (start->is_asked)
                log_info("request given up by kubelet", LOG_STR("resource", start->resource),
                        LOG_STR("method", "PreStartContainer"));
        start_free_unless_known(start);
}

static void answer_start(struct rpc_call *call, const char *resource, const struct error *err)
{
        if (err)
                requests_refuse(resource, call, "PreStartContainer", err);
        else
                requests_finish_call(call, convert_empty());
}

static void on_started(const struct error *err, void *context)
{
        struct start *start = context;
        struct rpc_call *call = start->call;

        start->is_asked = false;
        if (!call) {
                start_free_unless_known(start);
                return;
        }
        answer_start(call, start->resource, err);
        if (start->is_handled)
                rpc_call_flush(call); /* this ends the call and frees |start| */
}

void requests_start(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        const struct requests *requests = context;
        const struct broker *broker = requests->options.broker;
        const char *resource = requests->options.resource_name;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct container_ids container;
        struct start *start;
        struct error err;

        if (convert_start_request(&container, &arena, message, size, &err) < 0) {
                answer_start(call, resource, &err);
                return;
        }
        /* A kubelet with the earlier options may still call this; then nothing needs to be created. */
        if (!broker || !broker->start || !requests->asks_at_start) {
                answer_start(call, resource, NULL);
                return;
        }
        start = xcalloc(1, sizeof(*start));
        *start = (struct start){.call = call, .resource = xstrdup(resource), .is_asked = true};
        rpc_call_on_ended(call, on_start_call_ended, start);
        broker->start(resource, container.ids, container.n_ids, on_started, start, broker->data);
        start->is_handled = true;
}

/* ---- begin and end ---- */

void requests_init(struct requests *requests, const struct requests_options *options)
{
        int rc = uv_timer_init(options->loop, &requests->timer);

        assert(rc == 0); /* uv_timer_init cannot fail in libuv 1.x */
        requests->options = *options;
        if (!requests->options.bind_timeout_ms)
                requests->options.bind_timeout_ms = BROKER_TIMEOUT_MS;
        list_init(&requests->waiting);
        list_init(&requests->reported);
        deferred_init(&requests->after, options->loop, write_reported, requests);
}

void requests_set_resource(struct requests *requests, const struct plan *plan, const struct resource *resource)
{
        requests->asks_at_start = mps_limits_at_start(plan, resource);
        if (requests->resource == resource)
                return;
        requests->previous_plan = requests->plan;
        requests->previous_resource = requests->resource;
        requests->plan = plan;
        requests->resource = resource;
}

bool requests_ask_at_start(const struct requests *requests)
{
        return requests->asks_at_start;
}

void requests_forget_previous(struct requests *requests)
{
        requests->previous_resource = NULL;
}

void requests_close(struct requests *requests, struct closing *closing)
{
        struct request *first;
        struct error err;

        requests->resource = requests->previous_resource = NULL;
        say_withdrawn(requests, &err);
        while ((first = requests_first_of(requests)))
                requests_fail(first, &err);
        write_reported(requests);
        closing_close(closing, &requests->timer);
        deferred_close(&requests->after, closing);
}
