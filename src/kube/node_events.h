/*
 * What the agent tells the cluster about its node: Kubernetes events on the node, and on the pods concerned. One vocabulary of
 * reasons, which is documented in docs/events.md; the same words stand in the log as event=…. It knows no GPU and no plan, and
 * says nothing of it in the log: who tells an event has logged it. What it logs is that events cannot be told.
 *
 * Only the agent that serves speaks for the node (kubelet/plugins.h): what is told before is dropped, since another one tells it. What
 * happened while it served is told to the end.
 *
 * Works with NULL: every function that takes a struct node_events accepts it and does nothing then. That is an agent without a
 * name for its node, or without credentials.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/macro.h"
#include "config/config.h"

struct kube_client;
struct node_events;

/* In the order of the table in docs/events.md. */
enum node_event {
        NODE_EVENT_GPU_UNHEALTHY,
        NODE_EVENT_GPU_HEALTHY,
        NODE_EVENT_GPUS_UNAVAILABLE,
        NODE_EVENT_GPUS_AVAILABLE,
        NODE_EVENT_NVML_CALL_HANGS, /* one that does not return: agent/hangs.h */
        NODE_EVENT_NVML_CALL_RETURNED,
        NODE_EVENT_CONFIG_REFUSED,  /* it cannot be used: the one in force stays */
        NODE_EVENT_CONFIG_FALLBACK, /* the label names none that is there: another one is used */
        NODE_EVENT_CONFIG_APPLIED,  /* another one than before is in force */
        NODE_EVENT_PLAN_REFUSED,    /* a valid configuration that these GPUs cannot have: the plan in force stays */
        NODE_EVENT_PLAN_ACCEPTED,   /* after a refusal */
        NODE_EVENT_CHANGE_PENDING,  /* a change waits until containers end */
        NODE_EVENT_CHANGE_COMPLETED,
        NODE_EVENT_MPS_UNAVAILABLE, /* no `warpshare mps` answers */
        NODE_EVENT_MPS_DAEMON_FAULT,
        NODE_EVENT_MPS_DAEMON_RECOVERED,
        NODE_EVENT_MPS_NOTICE,
        NODE_EVENT_MPS_SHARED_MEMORY_FULL,
        NODE_EVENT_MPS_ALLOCATION_VIOLATED,
        NODE_EVENT_MPS_ALLOCATION_HOLDS,
        NODE_EVENT_MPS_CLIENT_TERMINATED,
        NODE_EVENT_POD_GETS_LESS,       /* a container of several resources: share/several.h */
        NODE_EVENT_DECLARATION_IGNORED, /* what a pod says of its share cannot be read: share/declared.h */
        NODE_EVENT_DECLARED_TOO_MUCH,   /* more memory than the GPU has */
        NODE_EVENT_AGENT_RESTARTED,     /* after a crash, by its parent: cli/keeper.h */
};
#define NODE_EVENT_COUNT ((size_t)NODE_EVENT_AGENT_RESTARTED + 1)

const char *node_event_reason(enum node_event event); /* "GPUUnhealthy", … */

struct node_event_pod {
        const char *namespace;
        const char *name;
        const char *uid; /* as kubelet's record has it, or NULL */
};

/* |client| NULL, |node| "" or |about| EVENTS_NONE: NULL. The client must outlive the events. */
struct node_events *node_events_new(
        uv_loop_t *loop, struct kube_client *client, const char *node, enum events_about about);

/* False at first. */
void node_events_serve(struct node_events *events, bool is_serving);

/* On the node. The text is for people, one sentence or two, and is cut at 1,024 bytes. */
void node_events_report(struct node_events *events, enum node_event event, const char *format, ...) PRINTF_LIKE(3, 4);

/* On a pod of this node. */
void node_events_report_pod(struct node_events *events, const struct node_event_pod *pod, enum node_event event,
        const char *format, ...) PRINTF_LIKE(4, 5);

struct node_events_counts {
        uint64_t sent;
        uint64_t dropped;
};
struct node_events_counts node_events_counts(const struct node_events *events);

/* |closed| (may be NULL) is called from the loop. Accepts NULL: then it never comes. */
void node_events_close(struct node_events *events, void (*closed)(void *data), void *data);
