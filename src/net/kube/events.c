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
        struct kube_client *client;
        char *component;
        char *host;
        void (*on_answer)(const struct error *err, void *data);
        void (*on_given_up)(const struct event *event, const struct error *err, void *data);
        void *data;
        struct event_queue *queue;
        const struct event_entry *sending;
        struct kube_call *call;
        uv_timer_t retry; /* until the next one may be sent */
        uint64_t sent;
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- the request ---- */

static void events_set_text(json_t *object, const char *key, const char *text)
{
        if (*text)
                json_object_set_new(object, key, json_string(text));
}

static void set_time(json_t *object, const char *key, int64_t at_ms)
{
        _free_ char *text = object_time(at_ms * 1000);

        json_object_set_new(object, key, json_string(text));
}

/* Events about cluster-wide objects are in the namespace "default", as the API server requires. */
static const char *namespace_of(const struct event_entry *entry)
{
        return *entry->event.about.namespace ? entry->event.about.namespace : "default";
}

static json_t *write_object(const struct event_object *about)
{
        json_t *object = json_object();

        events_set_text(object, "apiVersion", about->api_version);
        events_set_text(object, "kind", about->kind);
        events_set_text(object, "namespace", about->namespace);
        events_set_text(object, "name", about->name);
        events_set_text(object, "uid", about->uid);
        return object;
}

/* jansson leaves out text that is not UTF-8; the API server then reports the missing field. */
static json_t *events_write_event(const struct kube_events *events, const struct event_entry *entry)
{
        json_t *object = json_pack("{s:s, s:s, s:s, s:i}", "apiVersion", "v1", "kind", "Event", "type",
                entry->event.is_warning ? "Warning" : "Normal", "count", (int)entry->count);
        json_t *metadata = json_object();
        json_t *source = json_object();

        events_set_text(metadata, "name", entry->name);
        events_set_text(metadata, "namespace", namespace_of(entry));
        json_object_set_new(object, "metadata", metadata);
        json_object_set_new(object, "involvedObject", write_object(&entry->event.about));
        events_set_text(source, "component", events->component);
        events_set_text(source, "host", events->host);
        json_object_set_new(object, "source", source);
        events_set_text(object, "reportingComponent", events->component);
        events_set_text(object, "reportingInstance", events->host);
        events_set_text(object, "reason", entry->event.reason);
        events_set_text(object, "message", entry->event.message);
        set_time(object, "firstTimestamp", entry->first_ms);
        set_time(object, "lastTimestamp", entry->last_ms);
        return object;
}

static json_t *write_patch(const struct event_entry *entry)
{
        json_t *object = json_pack("{s:i}", "count", (int)entry->count);

        set_time(object, "lastTimestamp", entry->last_ms);
        return object;
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
                if (events->on_given_up)
                        events->on_given_up(&events->sending->event, answer->error, events->data);
        }
        events->call = NULL;
        events->sending = NULL;
        event_queue_settle(events->queue, outcome, &failure);
        events->sent += outcome == EVENT_SENT;
        if (events->on_answer && (outcome == EVENT_SENT ? event_queue_is_well(events->queue) : outcome != EVENT_LOST))
                events->on_answer(outcome == EVENT_SENT ? NULL : answer->error, events->data);
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
        events->call = kube_client_send(events->client, &request);
        json_decref(body);
}

/* ---- public ---- */

struct kube_events *kube_events_new(const struct kube_events_options *options)
{
        struct kube_events *events = xcalloc(1, sizeof(*events));

        events->client = options->client;
        events->component = xstrdup(options->component);
        events->host = xstrdup(options->host);
        events->on_answer = options->on_answer;
        events->on_given_up = options->on_given_up;
        events->data = options->data;
        events->queue = event_queue_new(options->retry_ms);
        uv_timer_init(options->loop, &events->retry);
        events->retry.data = events;
        return events;
}

void kube_events_report(struct kube_events *events, const struct event *event)
{
        if (!events->client)
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
        free(events->component);
        free(events->host);
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
