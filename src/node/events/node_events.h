// SPDX-License-Identifier: Apache-2.0
/*
 * The Kubernetes events that the agent sends about its node, and about the pods concerned. The reasons are documented
 * in docs/events.md; log lines have the same words as event=…. It knows no GPU and no plan. The caller logs what
 * happened; this module only logs that events cannot be sent.
 *
 * Only the serving agent sends events (node/kubelet/plugins.h): earlier ones are dropped, since another agent sends
 * them. Events from the time of serving are sent to the end.
 *
 * The newest are also kept here, where nothing can be sent, too: for the agent's page of its node.
 *
 * Every function accepts NULL as the struct node_events and then does nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/alloc.h"
#include "config/config.h"

struct kube_client;
struct node_events;

/* In the order of the table in docs/events.md. */
enum node_event {
        NODE_EVENT_GPU_UNHEALTHY,
        NODE_EVENT_GPU_HEALTHY,
        NODE_EVENT_GPUS_UNAVAILABLE,
        NODE_EVENT_GPUS_AVAILABLE,
        NODE_EVENT_NVML_CALL_HANGS, /* a call that does not return: node/status/log.h */
        NODE_EVENT_NVML_CALL_RETURNED,
        NODE_EVENT_CLIENTS_LEAVE, /* the driver is about to be unloaded: node/status/watch.h */
        NODE_EVENT_CLIENTS_RETURN,
        NODE_EVENT_CONFIG_REFUSED,  /* it cannot be used: the present one stays */
        NODE_EVENT_CONFIG_FALLBACK, /* the label's value does not exist: another configuration is used */
        NODE_EVENT_CONFIG_APPLIED,  /* a different configuration is used now */
        NODE_EVENT_PLAN_REFUSED,    /* a valid configuration that these GPUs do not support: the present plan stays */
        NODE_EVENT_PLAN_ACCEPTED,   /* after PLAN_REFUSED */
        NODE_EVENT_CHANGE_PENDING,  /* a change waits until containers have ended */
        NODE_EVENT_CHANGE_COMPLETED,
        NODE_EVENT_MIG_CHANGE_PENDING, /* the node's MIG configuration waits for pods that hold what has to end */
        NODE_EVENT_MIG_CHANGE_COMPLETED,
        NODE_EVENT_MIG_CHANGE_FAILED,
        NODE_EVENT_MPS_UNAVAILABLE, /* no `warpshare mps` answers */
        NODE_EVENT_MPS_DAEMON_FAULT,
        NODE_EVENT_MPS_DAEMON_RECOVERED,
        NODE_EVENT_MPS_NOTICE,
        NODE_EVENT_MPS_SHARED_MEMORY_FULL,
        NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN, /* a pod has its own volume at /dev/shm: node/ledger/declared_pods.h */
        NODE_EVENT_MPS_ALLOCATION_VIOLATED,
        NODE_EVENT_MPS_ALLOCATION_HOLDS,
        NODE_EVENT_MPS_CLIENT_TERMINATED,
        NODE_EVENT_MPS_CLIENT_UNKNOWN, /* the owner of MPS clients is not known, which violates no limit */
        NODE_EVENT_MPS_CLIENT_SETTLED,
        NODE_EVENT_POD_GETS_LESS,       /* a container with several resources: plan/several.h */
        NODE_EVENT_DECLARATION_IGNORED, /* the share that a pod declares cannot be read: plan/declared.h */
        NODE_EVENT_DECLARED_TOO_MUCH,   /* it declares more memory than the GPU has */
        NODE_EVENT_AGENT_RESTARTED,     /* by its parent process, after a crash: base/io/keeper.h */
};
#define NODE_EVENT_COUNT ((size_t)NODE_EVENT_AGENT_RESTARTED + 1)

const char *node_event_reason(enum node_event event); /* "GPUUnhealthy", … */

struct node_event_pod {
        const char *namespace;
        const char *name;
        const char *uid; /* from kubelet's record, or NULL */
};

/* Nothing is sent if |client| is NULL, |node| is "" or |about| is EVENTS_NONE. The client must outlive the struct. */
struct node_events *node_events_new(
        uv_loop_t *loop, struct kube_client *client, const char *node, enum events_about about);

/* The agent serves; false at first. */
void node_events_serve(struct node_events *events, bool is_serving);

/* About the node. The text is for people, one or two sentences, and is cut at 1,024 bytes. */
void node_events_report(struct node_events *events, enum node_event event, const char *format, ...) PRINTF_LIKE(3, 4);

/* About a pod of this node. */
void node_events_report_pod(struct node_events *events, const struct node_event_pod *pod, enum node_event event,
        const char *format, ...) PRINTF_LIKE(4, 5);

#define NODE_EVENTS_KEPT 64U

struct node_event_record {
        int64_t date_ms; /* since the epoch */
        enum node_event event;
        bool is_warning;
        const char *text;
};

/*
 * The last NODE_EVENTS_KEPT about the node, the newest last, in |arena|. Texts are valid until the caller returns to
 * the loop.
 */
size_t node_events_recent(const struct node_events *events, struct arena *arena, const struct node_event_record **ret);

struct node_events_counts {
        uint64_t sent;
        uint64_t dropped;
};
struct node_events_counts node_events_counts(const struct node_events *events);

/* Freed from the loop. */
void node_events_close(struct node_events *events);
