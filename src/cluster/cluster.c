// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "cluster/nodes.h"
#include "cluster/waiting.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"

enum { CLUSTER_WATCH_NODES, CLUSTER_WATCH_AGENTS, CLUSTER_WATCH_PODS, N_CLUSTER_WATCHES };

struct cluster_watch {
        struct cluster *cluster;
        struct kube_watch *watch; /* NULL: not wanted */
        bool is_settled;          /* synced, or in trouble, at least once */
        struct error trouble;     /* kind ERROR_NONE: none */
        struct error too_large;   /* objects that were left out; the same */
};

struct cluster {
        struct cluster_options options;
        struct arena arena; /* texts of |options| */
        struct cluster_changes changes;
        struct cluster_watch watches[N_CLUSTER_WATCHES];
        struct cluster_nodes nodes;
        struct waiting_pods waiting;
        struct cluster_view view;
        const struct cluster_pod **pod_views; /* this and the next are for |view| */
        const struct error *too_large[N_CLUSTER_WATCHES];
        struct closing closing;
};

/* ---- watches ---- */

static void on_watch_object(enum kube_change change, json_t *object, void *data)
{
        const struct cluster_watch *watch = data;
        struct cluster *cluster = watch->cluster;

        switch (watch - cluster->watches) {
        case CLUSTER_WATCH_NODES:
                cluster_nodes_on_node(&cluster->nodes, change, object);
                break;
        case CLUSTER_WATCH_AGENTS:
                cluster_nodes_on_agent(&cluster->nodes, change, object);
                break;
        default:
                waiting_on_pod(&cluster->waiting, change, object);
        }
}

static void cluster_on_synced(void *data)
{
        struct cluster_watch *watch = data;

        watch->is_settled = true;
        watch->trouble.kind = watch->too_large.kind = ERROR_NONE;
        cluster_changes_count(&watch->cluster->changes);
}

static void on_left_out(const struct error *error, void *data)
{
        struct cluster_watch *watch = data;

        watch->too_large = error ? *error : (struct error){.kind = ERROR_NONE};
        cluster_changes_count(&watch->cluster->changes);
}

static void cluster_on_trouble(const struct error *error, void *data)
{
        struct cluster_watch *watch = data;

        watch->is_settled = true;
        watch->trouble = *error;
        cluster_changes_count(&watch->cluster->changes);
}

/* The path of the pods in |namespace|, or in all. */
static char *pods_path(const char *namespace)
{
        return namespace ? object_collection("/api/v1", namespace, "pods") : xstrdup("/api/v1/pods");
}

static void start_watch(struct cluster *cluster, size_t which, struct kube_watch_options options)
{
        struct cluster_watch *watch = &cluster->watches[which];

        options.on_object = on_watch_object;
        options.on_synced = cluster_on_synced;
        options.on_left_out = on_left_out;
        options.on_trouble = cluster_on_trouble;
        options.data = watch;
        watch->watch = kube_watch_new(cluster->options.client, &options);
}

static void start_watches(struct cluster *cluster)
{
        const struct cluster_options *options = &cluster->options;
        _free_ char *node = options->node ? xasprintf("metadata.name=%s", options->node) : NULL;
        _free_ char *on_node = options->node ? xasprintf("spec.nodeName=%s", options->node) : NULL;
        _free_ char *agents = pods_path(options->agent_namespace);
        _free_ char *pods = pods_path(options->pod_namespace);

        if (options->has_nodes)
                start_watch(cluster, CLUSTER_WATCH_NODES,
                        (struct kube_watch_options){
                                .path = "/api/v1/nodes", .field_selector = node, .objects = CLUSTER_NODES});
        if (options->has_agents)
                start_watch(cluster, CLUSTER_WATCH_AGENTS,
                        (struct kube_watch_options){.path = agents,
                                .field_selector = on_node,
                                .label_selector = options->agent_selector,
                                .objects = 2 * CLUSTER_NODES});
        if (options->has_pods)
                start_watch(cluster, CLUSTER_WATCH_PODS,
                        (struct kube_watch_options){.path = pods, .field_selector = CLUSTER_POD_SELECTOR});
}

/* ---- the view ---- */

static bool cluster_is_complete(const struct cluster *cluster)
{
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                if (cluster->watches[i].watch && !cluster->watches[i].is_settled)
                        return false;
        for (size_t i = 0; i < cluster->nodes.nodes.count; i++)
                if (((const struct cluster_node *)cluster->nodes.nodes.items[i])->state == CLUSTER_AGENT_ASKED)
                        return false;
        return true;
}

static const struct error *cluster_trouble_of(const struct cluster *cluster, size_t which)
{
        const struct error *trouble = &cluster->watches[which].trouble;

        return trouble->kind == ERROR_NONE ? NULL : trouble;
}

const struct cluster_view *cluster_view(struct cluster *cluster)
{
        struct cluster_view *view = &cluster->view;
        const struct error *several_namespaces = &cluster->nodes.several_namespaces;

        view->version = cluster->changes.version;
        view->nodes = (const struct cluster_node *const *)cluster->nodes.nodes.items;
        view->n_nodes = cluster->nodes.nodes.count;
        view->n_pods = cluster->waiting.pods.count;
        cluster->pod_views = xrealloc(cluster->pod_views, (view->n_pods + 1) * sizeof(*cluster->pod_views));
        for (size_t i = 0; i < view->n_pods; i++)
                cluster->pod_views[i] = waiting_at(&cluster->waiting, i);
        view->pods = cluster->pod_views;
        view->more = waiting_count_more(&cluster->waiting, &view->n_more);
        view->n_too_large = 0;
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                if (cluster->watches[i].too_large.kind != ERROR_NONE)
                        cluster->too_large[view->n_too_large++] = &cluster->watches[i].too_large;
        view->too_large = cluster->too_large;
        view->is_complete = cluster_is_complete(cluster);
        view->nodes_trouble = cluster_trouble_of(cluster, CLUSTER_WATCH_NODES);
        view->agents_trouble = several_namespaces->kind == ERROR_NONE
                                       ? cluster_trouble_of(cluster, CLUSTER_WATCH_AGENTS)
                                       : several_namespaces;
        view->pods_trouble = cluster_trouble_of(cluster, CLUSTER_WATCH_PODS);
        return view;
}

const struct cluster_node *cluster_find_node(const struct cluster_view *view, const char *name)
{
        for (size_t i = 0; i < view->n_nodes; i++)
                if (strcmp(view->nodes[i]->name, name) == 0)
                        return view->nodes[i];
        return NULL;
}

const struct cluster_pod *cluster_find_pod(const struct cluster_view *view, const char *namespace, const char *name)
{
        for (size_t i = 0; i < view->n_pods; i++)
                if (strcmp(view->pods[i]->namespace, namespace) == 0 && strcmp(view->pods[i]->name, name) == 0)
                        return view->pods[i];
        return NULL;
}

char *cluster_agent_path(const struct cluster_node *node, const char *page)
{
        const struct cluster_agent *agent = node->agent;
        _cleanup_(strbuf_done) struct strbuf path = STRBUF_INIT;

        if (!agent || agent->trouble)
                return NULL;
        strbuf_puts(&path, "/api/v1/namespaces/");
        object_escape(&path, agent->namespace);
        strbuf_puts(&path, agent->is_tls ? "/pods/https:" : "/pods/");
        object_escape(&path, agent->pod);
        strbuf_printf(&path, ":%u/proxy%s", agent->port, page);
        return strbuf_take(&path);
}

/* ---- start and end ---- */

struct cluster *cluster_start(const struct cluster_options *options)
{
        struct cluster *cluster = xcalloc(1, sizeof(*cluster));

        cluster->options = *options;
        cluster->options.agent_namespace = arena_strdup(&cluster->arena, options->agent_namespace);
        cluster->options.agent_selector = arena_strdup(
                &cluster->arena, options->agent_selector ? options->agent_selector : CLUSTER_AGENT_SELECTOR);
        cluster->options.pod_namespace = arena_strdup(&cluster->arena, options->pod_namespace);
        cluster->options.node = arena_strdup(&cluster->arena, options->node);
        cluster->options.query = arena_strdup(&cluster->arena, options->query);
        if (!options->deadline_ms)
                cluster->options.deadline_ms = CLUSTER_DEADLINE_MS;
        deferred_init(&cluster->changes.report, kube_client_loop(options->client), options->on_change, options->data);
        cluster_nodes_init(&cluster->nodes, &cluster->changes, &cluster->options);
        cluster->waiting = (struct waiting_pods){
                .client = options->client, .changes = &cluster->changes, .is_one_namespace = options->pod_namespace};
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                cluster->watches[i].cluster = cluster;
        start_watches(cluster);
        return cluster;
}

static void on_cluster_closed(void *data)
{
        struct cluster *cluster = data;

        arena_done(&cluster->arena);
        free(cluster->pod_views);
        free(cluster);
}

struct cluster *cluster_close(struct cluster *cluster)
{
        if (!cluster)
                return NULL;
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                cluster->watches[i].watch = kube_watch_close(cluster->watches[i].watch);
        waiting_done(&cluster->waiting);
        cluster_nodes_close(&cluster->nodes, &cluster->closing);
        deferred_close(&cluster->changes.report, &cluster->closing);
        closing_end(&cluster->closing, on_cluster_closed, cluster);
        return NULL;
}
