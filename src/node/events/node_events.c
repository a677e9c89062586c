// SPDX-License-Identifier: Apache-2.0
#include "node/events/node_events.h"

#include <stdarg.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/kube/client.h"
#include "net/kube/events.h"

#define COMPONENT "warpshare"
#define GIVEN_UP_QUIET_MS UINT64_C(60000)
#define TEXT_MAX 1024 /* bytes of one that is kept */

struct node_events {
        struct kube_events *events;                        /* NULL: nothing is sent */
        struct node_event_record recent[NODE_EVENTS_KEPT]; /* a ring; texts are its own */
        size_t n_reported;
        char *node;
        bool are_pods_reported;
        bool is_serving;
        struct complaint bad_answer;
        uv_loop_t *loop;
        uv_timer_t end;          /* closed with it, where there is no |events| */
        uint64_t given_up_ms;    /* when a given-up event was last logged */
        unsigned int n_given_up; /* given up since then, not logged */
};

static const struct {
        const char *reason;
        bool is_warning;
} vocabulary[NODE_EVENT_COUNT] = {
        [NODE_EVENT_GPU_UNHEALTHY] = {"GPUUnhealthy", true},
        [NODE_EVENT_GPU_HEALTHY] = {"GPUHealthy", false},
        [NODE_EVENT_GPUS_UNAVAILABLE] = {"GPUsUnavailable", true},
        [NODE_EVENT_GPUS_AVAILABLE] = {"GPUsAvailable", false},
        [NODE_EVENT_NVML_CALL_HANGS] = {"NVMLCallHangs", true},
        [NODE_EVENT_NVML_CALL_RETURNED] = {"NVMLCallReturned", false},
        [NODE_EVENT_CLIENTS_LEAVE] = {"GPUClientsLeave", true},
        [NODE_EVENT_CLIENTS_RETURN] = {"GPUClientsReturn", false},
        [NODE_EVENT_CONFIG_REFUSED] = {"ConfigRefused", true},
        [NODE_EVENT_CONFIG_FALLBACK] = {"ConfigFallback", true},
        [NODE_EVENT_CONFIG_APPLIED] = {"ConfigApplied", false},
        [NODE_EVENT_PLAN_REFUSED] = {"PlanRefused", true},
        [NODE_EVENT_PLAN_ACCEPTED] = {"PlanAccepted", false},
        [NODE_EVENT_CHANGE_PENDING] = {"ChangePending", false},
        [NODE_EVENT_CHANGE_COMPLETED] = {"ChangeCompleted", false},
        [NODE_EVENT_MIG_CHANGE_PENDING] = {"MIGChangePending", false},
        [NODE_EVENT_MIG_CHANGE_COMPLETED] = {"MIGChangeCompleted", false},
        [NODE_EVENT_MIG_CHANGE_FAILED] = {"MIGChangeFailed", true},
        [NODE_EVENT_MPS_UNAVAILABLE] = {"MPSUnavailable", true},
        [NODE_EVENT_MPS_DAEMON_FAULT] = {"MPSDaemonFault", true},
        [NODE_EVENT_MPS_DAEMON_RECOVERED] = {"MPSDaemonRecovered", false},
        [NODE_EVENT_MPS_NOTICE] = {"MPSNotice", true},
        [NODE_EVENT_MPS_SHARED_MEMORY_FULL] = {"MPSSharedMemoryFull", true},
        [NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN] = {"MPSSharedMemoryHidden", true},
        [NODE_EVENT_MPS_ALLOCATION_VIOLATED] = {"MPSLimitViolated", true},
        [NODE_EVENT_MPS_ALLOCATION_HOLDS] = {"MPSLimitHolds", false},
        [NODE_EVENT_MPS_CLIENT_TERMINATED] = {"MPSClientTerminated", true},
        [NODE_EVENT_MPS_CLIENT_UNKNOWN] = {"MPSClientUnknown", false},
        [NODE_EVENT_MPS_CLIENT_SETTLED] = {"MPSClientSettled", false},
        [NODE_EVENT_POD_GETS_LESS] = {"PodGetsLess", true},
        [NODE_EVENT_DECLARATION_IGNORED] = {"DeclarationIgnored", true},
        [NODE_EVENT_DECLARED_TOO_MUCH] = {"DeclaredMemoryExceedsGPU", true},
        [NODE_EVENT_AGENT_RESTARTED] = {"AgentRestarted", true},
};

const char *node_event_reason(enum node_event event)
{
        return vocabulary[event].reason;
}

/* A missing event does no harm, so a failure is logged only once. */
static void on_node_events_answer(const struct error *err, void *data)
{
        struct node_events *events = data;

        if (err)
                complain(&events->bad_answer, "an event cannot be sent to the API server", err);
        else
                complaint_settle(&events->bad_answer);
}

/* If a namespace accepts no events, there are many: each log line names one and counts those that were not logged. */
static void on_given_up(const struct event *event, const struct error *err, void *data)
{
        struct node_events *events = data;
        uint64_t now = uv_now(events->loop);

        if (events->given_up_ms && now - events->given_up_ms < GIVEN_UP_QUIET_MS) {
                events->n_given_up++;
                return;
        }
        log_warn("an event is given up after many tries", LOG_STR("reason", event->reason),
                LOG_STR("kind", event->about.kind), LOG_STR("namespace", event->about.namespace),
                LOG_STR("name", event->about.name), LOG_UINT("others_before", events->n_given_up), LOG_ERR(err));
        events->given_up_ms = now;
        events->n_given_up = 0;
}

struct node_events *node_events_new(
        uv_loop_t *loop, struct kube_client *client, const char *node, enum events_about about)
{
        struct node_events *events;
        struct kube_events_options options = {
                .loop = loop,
                .client = client,
                .component = COMPONENT,
                .host = node,
                .on_answer = on_node_events_answer,
                .on_given_up = on_given_up,
        };

        events = xcalloc(1, sizeof(*events));
        events->loop = loop;
        events->node = xstrdup(node);
        events->are_pods_reported = about == EVENTS_PODS;
        options.data = events;
        if (client && *node && about != EVENTS_NONE)
                events->events = kube_events_new(&options);
        else
                uv_timer_init(loop, &events->end);
        return events;
}

void node_events_serve(struct node_events *events, bool is_serving)
{
        if (events)
                events->is_serving = is_serving;
}

static void node_events_send(
        struct node_events *events, const struct event_object *about, enum node_event event, const char *text)
{
        if (events->events)
                kube_events_report(events->events, &(struct event){
                                                           .about = *about,
                                                           .is_warning = vocabulary[event].is_warning,
                                                           .reason = vocabulary[event].reason,
                                                           .message = text,
                                                   });
}

static void node_events_keep(struct node_events *events, enum node_event event, const char *text)
{
        struct node_event_record *record = &events->recent[events->n_reported++ % NODE_EVENTS_KEPT];

        free((void *)(uintptr_t)record->text);
        *record = (struct node_event_record){.date_ms = clock_unix_us() / 1000,
                .event = event,
                .is_warning = vocabulary[event].is_warning,
                .text = xasprintf("%.*s", TEXT_MAX, text)};
}

size_t node_events_recent(const struct node_events *events, struct arena *arena, const struct node_event_record **ret)
{
        const size_t count = events ? MIN(events->n_reported, NODE_EVENTS_KEPT) : 0;
        struct node_event_record *records = ARENA_ARRAY(arena, struct node_event_record, count);

        for (size_t i = 0; i < count; i++)
                records[i] = events->recent[(events->n_reported - count + i) % NODE_EVENTS_KEPT];
        *ret = records;
        return count;
}

void node_events_report(struct node_events *events, enum node_event event, const char *format, ...)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct event_object about;
        const char *text;
        va_list args;

        if (!events || !events->is_serving)
                return;
        /* kubelet also uses the node's name as its UID in events, and kubectl describe searches for that. */
        about = (struct event_object){.api_version = "v1", .kind = "Node", .name = events->node, .uid = events->node};
        va_start(args, format);
        text = arena_vprintf(&scratch, format, args);
        va_end(args);
        node_events_send(events, &about, event, text);
        node_events_keep(events, event, text);
}

void node_events_report_pod(
        struct node_events *events, const struct node_event_pod *pod, enum node_event event, const char *format, ...)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct event_object about;
        const char *text;
        va_list args;

        if (!events || !events->is_serving || !events->are_pods_reported)
                return;
        about = (struct event_object){
                .api_version = "v1", .kind = "Pod", .namespace = pod->namespace, .name = pod->name, .uid = pod->uid};
        va_start(args, format);
        text = arena_vprintf(&scratch, format, args);
        va_end(args);
        node_events_send(events, &about, event, text);
}

struct node_events_counts node_events_counts(const struct node_events *events)
{
        if (!events || !events->events)
                return (struct node_events_counts){0};
        return (struct node_events_counts){
                .sent = kube_events_sent(events->events),
                .dropped = kube_events_dropped(events->events),
        };
}

static void free_node_events(void *data)
{
        struct node_events *events = data;

        for (size_t i = 0; i < NODE_EVENTS_KEPT; i++)
                free((void *)(uintptr_t)events->recent[i].text);
        free(events->node);
        free(events);
}

static void on_node_events_closed(uv_handle_t *handle)
{
        free_node_events(container_of((uv_timer_t *)handle, struct node_events, end));
}

void node_events_close(struct node_events *events)
{
        if (!events)
                return;
        if (events->events)
                kube_events_close(events->events, free_node_events, events);
        else
                uv_close((uv_handle_t *)&events->end, on_node_events_closed);
}
