// SPDX-License-Identifier: Apache-2.0
/*
 * The cluster as commands and the dashboard show it: its nodes, the agent of each node and what that agent says of its
 * GPUs (the node page, node/report/node_page.h), and the pods that wait for a GPU or were refused one. It writes
 * nothing to the cluster.
 *
 * It watches nodes, the agents' pods, and pods that neither run nor have succeeded. Each agent is asked for its node
 * page through the API server, at GET …/pods/<pod>:<port>/proxy/node: once, or again and again (|interval_ms|). So its
 * user needs the rights "list" and "watch" of nodes and pods, and "get" of pods/proxy in the agents' namespace, and no
 * way to the nodes. What is denied is missing in the view and named there (|nodes_trouble|, |agents_trouble|,
 * |pods_trouble|, or the node's |reason|).
 *
 * Labels are free: who may make pods anywhere could let one speak for a node. Where pods of several namespaces have the
 * labels of agents, none is asked until |agent_namespace| says which is right; |agents_trouble| says so.
 *
 * One namespace hides no other: of each, CLUSTER_PODS_OF_NAMESPACE pods are kept, with what is shown of them and no
 * more, and the others are counted. When one of those goes, the next one is asked for. An object that is too large is
 * named, and the others are there.
 *
 * At most CLUSTER_PARALLEL questions are on their way; each has a deadline and a cap on its answer. An agent that does
 * not answer keeps its last page, with its age, and is asked again after a wait that grows to CLUSTER_WAIT_LIMIT_MS.
 *
 *         struct cluster_options options = CLUSTER_OPTIONS_INIT;
 *
 *         options.client = client;
 *         options.interval_ms = 15000;
 *         options.on_change = on_change;
 *         cluster = cluster_start(&options);
 *         …
 *         static void on_change(void *data)
 *         {
 *                 const struct cluster_view *view = cluster_view(cluster);
 *
 *                 for (size_t i = 0; i < view->n_nodes; i++)
 *                         show(view->nodes[i]);
 *         }
 *
 * For one look, leave |interval_ms| 0 and wait until |is_complete| of the view.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cluster/node.h"
#include "cluster/pod.h"
#include "net/kube/client.h"

#define CLUSTER_AGENT_SELECTOR "app.kubernetes.io/name=warpshare,app.kubernetes.io/component=agent"
#define CLUSTER_PARALLEL 32U
#define CLUSTER_DEADLINE_MS UINT64_C(10000) /* of one question to an agent */
#define CLUSTER_WAIT_MS UINT64_C(2000)      /* after the first failure of an agent */
#define CLUSTER_WAIT_LIMIT_MS UINT64_C(60000)
#define CLUSTER_NODES ((size_t)5000)            /* with more there are none, and |nodes_trouble| says so */
#define CLUSTER_PODS ((size_t)5000)             /* that wait or were refused; more are left out, and counted */
#define CLUSTER_PODS_OF_NAMESPACE ((size_t)200) /* the same of each, where those of all namespaces are wanted */

struct cluster;

/* Pods of a namespace that wait or were refused and are not in the view, since it has too many. */
struct cluster_more {
        const char *namespace;
        size_t count;
};

struct cluster_view {
        uint64_t version;                        /* grows with each change */
        const struct cluster_node *const *nodes; /* by name; those with a Node object, and those with an agent only */
        size_t n_nodes;
        const struct cluster_pod *const *pods; /* by namespace and name: those that wait or were refused (pod.h) */
        size_t n_pods;
        const struct cluster_more *more; /* by namespace: whose other pods are left out (CLUSTER_PODS…) */
        size_t n_more;
        bool is_complete; /* all lists have come (or failed), and each agent has answered or failed once */
        const struct error *nodes_trouble; /* NULL: the list is whole. Otherwise why it is missing or not up to date */
        const struct error *agents_trouble;
        const struct error *pods_trouble;
        const struct error *const *too_large; /* which objects are too large to be read (net/kube/list.h); they are left
                                               * out, or stand as they were before they grew */
        size_t n_too_large;
};

struct cluster_options {
        struct kube_client *client;  /* borrowed; must outlive the cluster */
        const char *agent_namespace; /* NULL: the agents' pods are in any namespace, but all in the same */
        const char *agent_selector;  /* NULL: CLUSTER_AGENT_SELECTOR */
        const char *pod_namespace;   /* of pods that wait or were refused; NULL: any */
        const char *node;            /* only this node and its agent; NULL: all */
        bool has_nodes;              /* what is to be known; CLUSTER_OPTIONS_INIT: all */
        bool has_agents;
        bool has_pods;
        uint64_t
                /* between two questions to the same agent; 0: each is asked until it has answered or failed once */
                interval_ms;
        uint64_t deadline_ms; /* 0: CLUSTER_DEADLINE_MS */
        const char *query;    /* of the question, as "processes=1"; may be NULL */
        /* Something in the view has changed. From the loop, at most once a turn; may close the cluster. May be NULL. */
        void (*on_change)(void *data);
        void *data;
};

#define CLUSTER_OPTIONS_INIT                                                                                           \
        {                                                                                                              \
                .has_nodes = true, .has_agents = true, .has_pods = true                                                \
        }

/* Texts of |options| are copied. Starts at once; callbacks come from the loop only. */
struct cluster *cluster_start(const struct cluster_options *options);

/* The present state. The view and all that it leads to are valid until the loop runs again. Never NULL. */
const struct cluster_view *cluster_view(struct cluster *cluster);

const struct cluster_node *cluster_find_node(const struct cluster_view *view, const char *name); /* NULL: none */
const struct cluster_pod *cluster_find_pod(const struct cluster_view *view, const char *namespace, const char *name);

/*
 * The path of |page| ("/node", "/metrics", "/healthz") of the node's agent through the API server, for
 * kube_client_send(), for the caller to free. NULL: the node has no agent that can be asked.
 */
char *cluster_agent_path(const struct cluster_node *node, const char *page);

/* No callback after this; the memory is freed when the loop has closed the handles. Accepts NULL, returns NULL. */
struct cluster *cluster_close(struct cluster *cluster);
