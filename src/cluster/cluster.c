#include "cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "cluster/parts.h"
#include "net/kube/object.h"

/* ---- changes ---- */

static void on_tell(uv_timer_t *timer)
{
        struct cluster *cluster = container_of(timer, struct cluster, tell);

        cluster->options.on_change(cluster->options.data);
}

uint64_t cluster_changed(struct cluster *cluster)
{
        if (cluster->options.on_change)
                uv_timer_start(&cluster->tell, on_tell, 0, 0);
        return ++cluster->view.version;
}

/* ---- watches ---- */

static void on_nodes(enum kube_change change, json_t *object, void *data)
{
        cluster_on_node(change, object, ((struct cluster_watch *)data)->cluster);
}

static void on_agents(enum kube_change change, json_t *object, void *data)
{
        cluster_on_agent(change, object, ((struct cluster_watch *)data)->cluster);
}

static void on_pods(enum kube_change change, json_t *object, void *data)
{
        cluster_on_pod(change, object, ((struct cluster_watch *)data)->cluster);
}

static void on_synced(void *data)
{
        struct cluster_watch *watch = data;

        watch->is_settled = true;
        watch->trouble.kind = watch->too_large.kind = ERROR_NONE;
        cluster_changed(watch->cluster);
}

static void on_left_out(const struct error *error, void *data)
{
        struct cluster_watch *watch = data;

        watch->too_large = error ? *error : (struct error){.kind = ERROR_NONE};
        cluster_changed(watch->cluster);
}

static void on_trouble(const struct error *error, void *data)
{
        struct cluster_watch *watch = data;

        watch->is_settled = true;
        watch->trouble = *error;
        cluster_changed(watch->cluster);
}

/* Of pods in |namespace|, or in all. */
static char *pods_path(const char *namespace)
{
        return namespace ? object_collection("/api/v1", namespace, "pods") : xstrdup("/api/v1/pods");
}

static void start_watch(struct cluster *cluster, size_t which, struct kube_watch_options options)
{
        struct cluster_watch *watch = &cluster->watches[which];

        options.on_synced = on_synced;
        options.on_left_out = on_left_out;
        options.on_trouble = on_trouble;
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
                        (struct kube_watch_options){.path = "/api/v1/nodes",
                                .field_selector = node,
                                .on_object = on_nodes,
                                .objects = CLUSTER_NODES});
        if (options->has_agents)
                start_watch(cluster, CLUSTER_WATCH_AGENTS,
                        (struct kube_watch_options){.path = agents,
                                .field_selector = on_node,
                                .label_selector = options->agent_selector,
                                .on_object = on_agents,
                                .objects = 2 * CLUSTER_NODES});
        if (options->has_pods)
                start_watch(cluster, CLUSTER_WATCH_PODS,
                        (struct kube_watch_options){
                                .path = pods, .field_selector = CLUSTER_POD_SELECTOR, .on_object = on_pods});
}

/* ---- the view ---- */

static bool is_complete(const struct cluster *cluster)
{
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                if (cluster->watches[i].watch && !cluster->watches[i].is_settled)
                        return false;
        for (size_t i = 0; i < cluster->nodes.count; i++)
                if (((struct cluster_entry *)cluster->nodes.items[i])->view.state == CLUSTER_AGENT_ASKED)
                        return false;
        return true;
}

static const struct error *trouble_of(const struct cluster *cluster, size_t which)
{
        const struct error *trouble = &cluster->watches[which].trouble;

        return trouble->kind == ERROR_NONE ? NULL : trouble;
}

const struct cluster_view *cluster_view(struct cluster *cluster)
{
        struct cluster_view *view = &cluster->view;

        cluster->node_views = xrealloc(cluster->node_views, (cluster->nodes.count + 1) * sizeof(*cluster->node_views));
        cluster->pod_views = xrealloc(cluster->pod_views, (cluster->pods.count + 1) * sizeof(*cluster->pod_views));
        for (size_t i = 0; i < cluster->nodes.count; i++)
                cluster->node_views[i] = &((struct cluster_entry *)cluster->nodes.items[i])->view;
        for (size_t i = 0; i < cluster->pods.count; i++)
                cluster->pod_views[i] = ((struct cluster_pod_entry *)cluster->pods.items[i])->pod;
        view->nodes = cluster->node_views;
        view->n_nodes = cluster->nodes.count;
        view->pods = cluster->pod_views;
        view->n_pods = cluster->pods.count;
        view->more = cluster_count_more(cluster, &view->n_more);
        view->n_too_large = 0;
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                if (cluster->watches[i].too_large.kind != ERROR_NONE)
                        cluster->too_large[view->n_too_large++] = &cluster->watches[i].too_large;
        view->too_large = cluster->too_large;
        view->is_complete = is_complete(cluster);
        view->nodes_trouble = trouble_of(cluster, CLUSTER_WATCH_NODES);
        view->agents_trouble =
                cluster->strangers.kind == ERROR_NONE ? trouble_of(cluster, CLUSTER_WATCH_AGENTS) : &cluster->strangers;
        view->pods_trouble = trouble_of(cluster, CLUSTER_WATCH_PODS);
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

void cluster_ask_soon(struct cluster *cluster, const char *node)
{
        struct cluster_entry *entry = sorted_find(&cluster->nodes, node, NULL);

        if (entry)
                poll_soon(&entry->turn);
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

static const char *cluster_copy(const char *text)
{
        return text ? xstrdup(text) : NULL;
}

struct cluster *cluster_start(const struct cluster_options *options)
{
        struct cluster *cluster = xcalloc(1, sizeof(*cluster));

        cluster->options = *options;
        cluster->options.agent_namespace = cluster_copy(options->agent_namespace);
        cluster->options.agent_selector =
                cluster_copy(options->agent_selector ? options->agent_selector : CLUSTER_AGENT_SELECTOR);
        cluster->options.pod_namespace = cluster_copy(options->pod_namespace);
        cluster->options.node = cluster_copy(options->node);
        cluster->options.query = cluster_copy(options->query);
        uv_timer_init(kube_client_loop(options->client), &cluster->tell);
        poll_init(&cluster->poll,
                &(struct poll_options){
                        .client = options->client,
                        .parallel = CLUSTER_PARALLEL,
                        .interval_ms = options->interval_ms,
                        .deadline_ms = options->deadline_ms ? options->deadline_ms : CLUSTER_DEADLINE_MS,
                        .wait_ms = CLUSTER_WAIT_MS,
                        .wait_limit_ms = CLUSTER_WAIT_LIMIT_MS,
                        .query = cluster->options.query,
                        .path = cluster_question,
                        .on_answer = cluster_on_answer,
                        .data = cluster,
                });
        cluster->n_open = 2;
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                cluster->watches[i].cluster = cluster;
        start_watches(cluster);
        return cluster;
}

static void cluster_free(struct cluster *cluster)
{
        if (--cluster->n_open > 0)
                return;
        free(cluster->node_views);
        free(cluster->pod_views);
        arena_done(&cluster->more_arena);
        free((void *)(uintptr_t)cluster->options.agent_namespace);
        free((void *)(uintptr_t)cluster->options.agent_selector);
        free((void *)(uintptr_t)cluster->options.pod_namespace);
        free((void *)(uintptr_t)cluster->options.node);
        free((void *)(uintptr_t)cluster->options.query);
        free(cluster);
}

static void on_tell_closed(uv_handle_t *handle)
{
        cluster_free(container_of(handle, struct cluster, tell));
}

static void on_poll_closed(uv_handle_t *handle)
{
        cluster_free(container_of(handle, struct cluster, poll.timer));
}

struct cluster *cluster_close(struct cluster *cluster)
{
        if (!cluster)
                return NULL;
        for (size_t i = 0; i < N_CLUSTER_WATCHES; i++)
                cluster->watches[i].watch = kube_watch_close(cluster->watches[i].watch);
        cluster_stop_refill(cluster);
        poll_close(&cluster->poll, on_poll_closed);
        for (size_t i = 0; i < cluster->agents.count; i++)
                cluster_agent_pod_free(cluster->agents.items[i]);
        for (size_t i = 0; i < cluster->pods.count; i++)
                cluster_pod_entry_free(cluster->pods.items[i]);
        for (size_t i = 0; i < cluster->more.count; i++)
                cluster_pod_entry_free(cluster->more.items[i]);
        for (size_t i = 0; i < cluster->nodes.count; i++)
                cluster_entry_free(cluster->nodes.items[i]);
        sorted_done(&cluster->agents);
        sorted_done(&cluster->pods);
        sorted_done(&cluster->more);
        sorted_done(&cluster->nodes);
        uv_close((uv_handle_t *)&cluster->tell, on_tell_closed);
        return NULL;
}
