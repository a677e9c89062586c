// SPDX-License-Identifier: Apache-2.0
#include "net/kube/events.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "net/kube/client.h"
#include "net/kube/object.h"

struct kube_events {
        struct kube_events_options options;
        struct arena arena; /* texts of |options| */
        struct event_queue *queue;
        const struct event_entry *sending;
        struct kube_call *call;
        uv_timer_t retry; /* until the next one may be sent */
        uint64_t sent;
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- the request ---- */

/* Events about cluster-wide objects are in the namespace "default", as the API server requires. */
static const char *namespace_of(const struct event_entry *entry)
{
        return *entry->event.about.namespace ? entry->event.about.namespace : "default";
}

static const char *events_or_null(const char *text)
{
        return *text ? text : NULL;
}

static json_t *events_write_event(const struct kube_events *events, const struct event_entry *entry)
{
        const struct event_object *about = &entry->event.about;
        const char *component = events_or_null(events->options.component);
        const char *host = events_or_null(events->options.host);
        _free_ char *first = object_time(entry->first_ms * 1000);
        _free_ char *last = object_time(entry->last_ms * 1000);

        return json_pack("{s:s, s:s, s:s, s:i, s:{s:s, s:s}, s:{s:s*, s:s*, s:s*, s:s*, s:s*}, s:{s:s*, s:s*}, s:s*, "
                         "s:s*, s:s*, s:s*, s:s, s:s}",
                "apiVersion", "v1", "kind", "Event", "type", entry->event.is_warning ? "Warning" : "Normal", "count",
                (int)entry->count, "metadata", "name", entry->name, "namespace", namespace_of(entry), "involvedObject",
                "apiVersion", events_or_null(about->api_version), "kind", events_or_null(about->kind), "namespace",
                events_or_null(about->namespace), "name", events_or_null(about->name), "uid",
                events_or_null(about->uid), "source", "component", component, "host", host, "reportingComponent",
                component, "reportingInstance", host, "reason", events_or_null(entry->event.reason), "message",
                events_or_null(entry->event.message), "firstTimestamp", first, "lastTimestamp", last);
}

static json_t *write_patch(const struct event_entry *entry)
{
        _free_ char *last = object_time(entry->last_ms * 1000);

        return json_pack("{s:i, s:s}", "count", (int)entry->count, "lastTimestamp", last);
}

static char *events_path_of(const struct event_entry *entry)
{
        _free_ char *events = object_collection("/api/v1", namespace_of(entry), "events");

        return entry->is_new ? TAKE_PTR(events) : object_path(events, entry->name);
}

/* ---- the answer ---- */

static enum event_outcome outcome_of(const struct event_entry *entry, const struct kube_answer *answer)
{
        if (!answer->error)
                return EVENT_SENT;
        if (entry->is_new && strcmp(answer->reason, "AlreadyExists") == 0)
                return EVENT_SENT; /* it was created, but the answer was lost */
        if (!entry->is_new && answer->status == 404)
                return EVENT_LOST;
        switch (answer->status) {
        case 400:
        case 403:
        case 404:
        case 422:
                return EVENT_REFUSED;
        default:
                return EVENT_FAILED;
        }
}

static void send_next(struct kube_events *events);

static void on_events_retry(uv_timer_t *timer)
{
        send_next(timer->data);
}

static void on_events_done(const struct kube_answer *answer, void *data)
{
        struct kube_events *events = data;
        const struct event_failure failure = {
                .now_ms = uv_now(events->retry.loop),
                .retry_after_ms = answer->retry_after_ms,
                .random = backoff_random(),
        };
        enum event_outcome outcome = outcome_of(events->sending, answer);

        if (outcome == EVENT_FAILED && event_queue_is_last_try(events->queue)) {
                outcome = EVENT_GIVEN_UP;
                if (events->options.on_given_up)
                        events->options.on_given_up(&events->sending->event, answer->error, events->options.data);
        }
        events->call = NULL;
        events->sending = NULL;
        event_queue_settle(events->queue, outcome, &failure);
        events->sent += outcome == EVENT_SENT;
        if (events->options.on_answer &&
                (outcome == EVENT_SENT ? event_queue_is_well(events->queue) : outcome != EVENT_LOST))
                events->options.on_answer(outcome == EVENT_SENT ? NULL : answer->error, events->options.data);
        send_next(events);
}

static void send_next(struct kube_events *events)
{
        uint64_t wait_ms = UINT64_MAX;
        const struct event_entry *entry = event_queue_next(events->queue, uv_now(events->retry.loop), &wait_ms);
        struct kube_request request = {.done = on_events_done, .data = events};
        _free_ char *path = NULL;
        json_t *body;

        if (!entry) {
                if (wait_ms != UINT64_MAX)
                        uv_timer_start(&events->retry, on_events_retry, wait_ms, 0);
                return;
        }
        events->sending = entry;
        body = entry->is_new ? events_write_event(events, entry) : write_patch(entry);
        path = events_path_of(entry);
        request.method = entry->is_new ? KUBE_CREATE : KUBE_MERGE_PATCH;
        request.path = path;
        request.body = body;
        events->call = kube_client_send(events->options.client, &request);
        json_decref(body);
}

/* ---- public ---- */

struct kube_events *kube_events_new(const struct kube_events_options *options)
{
        struct kube_events *events = xcalloc(1, sizeof(*events));

        events->options = *options;
        events->options.component = arena_strdup(&events->arena, options->component);
        events->options.host = arena_strdup(&events->arena, options->host);
        events->queue = event_queue_new(options->retry_ms);
        uv_timer_init(options->loop, &events->retry);
        events->retry.data = events;
        return events;
}

void kube_events_report(struct kube_events *events, const struct event *event)
{
        if (!events->options.client)
                return;
        event_queue_add(events->queue, event, clock_unix_us() / 1000);
        send_next(events);
}

uint64_t kube_events_sent(const struct kube_events *events)
{
        return events->sent;
}

uint64_t kube_events_dropped(const struct kube_events *events)
{
        return event_queue_dropped(events->queue);
}

static void on_events_closed(uv_handle_t *handle)
{
        struct kube_events *events = container_of(handle, struct kube_events, retry);
        void (*closed)(void *) = events->closed;
        void *data = events->closed_data;

        event_queue_free(events->queue);
        arena_done(&events->arena);
        free(events);
        if (closed)
                closed(data);
}

void kube_events_close(struct kube_events *events, void (*closed)(void *data), void *data)
{
        events->closed = closed;
        events->closed_data = data;
        events->call = kube_call_cancel(events->call);
        uv_close((uv_handle_t *)&events->retry, on_events_closed);
}
