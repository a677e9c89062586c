// SPDX-License-Identifier: Apache-2.0
/*
 * Nodes and agents, as they come and go. A node stays as long as it has a Node object or an agent's pod. Each
 * thing has an arena of its own, which goes when the thing changes.
 */
#include "cluster/nodes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "net/kube/object.h"

#define DUE_NEVER UINT64_MAX

/* ---- what is sorted by a key ---- */

void *sorted_find(const struct sorted *sorted, const char *key, size_t *ret_at)
{
        size_t low = 0;
        size_t high = sorted->count;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;
                const int order = strcmp(*(char **)sorted->items[middle], key);

                if (order == 0) {
                        if (ret_at)
                                *ret_at = middle;
                        return sorted->items[middle];
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (ret_at)
                *ret_at = low;
        return NULL;
}

void sorted_insert(struct sorted *sorted, size_t at, void *item)
{
        if (sorted->count == sorted->capacity) {
                sorted->capacity = MAX(2 * sorted->capacity, (size_t)16);
                sorted->items = xrealloc(sorted->items, sorted->capacity * sizeof(*sorted->items));
        }
        memmove(sorted->items + at + 1, sorted->items + at, (sorted->count - at) * sizeof(*sorted->items));
        sorted->items[at] = item;
        sorted->count++;
}

void *sorted_remove(struct sorted *sorted, const char *key)
{
        size_t at;
        void *item = sorted_find(sorted, key, &at);

        if (!item)
                return NULL;
        sorted->count--;
        memmove(sorted->items + at, sorted->items + at + 1, (sorted->count - at) * sizeof(*sorted->items));
        return item;
}

void sorted_done(struct sorted *sorted)
{
        free(sorted->items);
        *sorted = (struct sorted){0};
}

/* ---- nodes and agents ---- */

/* An item of a sorted array begins with its key. */
struct node_entry {
        struct cluster_node view; /* its name is owned */
        struct cluster_nodes *nodes;
        struct arena object_arena;
        struct arena page_arena;
        struct node_page page;
        struct list agents; /* struct agent_pod; usually one */
        char *path;         /* what is asked; NULL: nothing is */
        char *reason;
        struct kube_call *call; /* NULL: it is not asked now */
        uint64_t due_ms;        /* on the loop's clock; DUE_NEVER */
        struct backoff backoff;
};

struct agent_pod {
        char *key; /* "namespace/name" */
        struct list link;
        struct arena arena;
        const struct cluster_agent *agent;
        struct node_entry *entry;
};

/* ---- what agents answer ---- */

static void node_entry_changed(struct node_entry *entry)
{
        entry->view.version = cluster_changes_count(entry->nodes->changes);
}

/* |reason| may be of a peer: it is shown in terminals, and put into JSON. */
static void node_entry_set_state(struct node_entry *entry, enum cluster_agent_state state, const char *reason)
{
        char *copy = xstrdup(reason);

        if (copy)
                text_clean(copy);
        if (entry->view.state != state || !entry->view.since)
                entry->view.since = (int64_t)time(NULL);
        entry->view.state = state;
        free(entry->reason);
        entry->view.reason = entry->reason = copy;
        node_entry_changed(entry);
}

/* The API server's own refusals are Status objects, what an agent answers is not. */
static bool is_of_agent(const struct kube_answer *answer)
{
        return answer->status != 0 && !text_is_same(object_text(answer->object, "kind", NULL), "Status");
}

static void node_entry_note_failure(struct node_entry *entry, const struct kube_answer *answer)
{
        _free_ char *reason = NULL;

        if (is_of_agent(answer) && answer->status == 404) {
                node_entry_set_state(
                        entry, CLUSTER_AGENT_TOO_OLD, "it serves no page /node (404): its version is too old");
                return;
        }
        if (is_of_agent(answer) && answer->status == 401)
                reason = xstrdup(
                        "it asks for a token (401), and the API server passes none on: --metrics-authorization");
        else if (is_of_agent(answer) && answer->status == 403)
                reason = xstrdup("its page is for clients on the node itself (403): metrics.nodePage: open in the "
                                 "chart, or --metrics-node-page=open, opens it");
        else if (is_of_agent(answer))
                reason = xasprintf(
                        "it answers with status %u: %.200s", answer->status, answer->text ? answer->text : "");
        else
                reason = xstrdup(answer->error->text);
        node_entry_set_state(entry, CLUSTER_AGENT_SILENT, reason);
}

/* True: it was answered well. */
static bool node_entry_take_answer(struct node_entry *entry, const struct kube_answer *answer)
{
        struct arena arena = ARENA_INIT;
        struct node_page page;
        struct error err;

        if (answer->error) {
                node_entry_note_failure(entry, answer);
                return false;
        }
        if (node_page_read(&page, &arena, answer->text, answer->size, &err) < 0) {
                arena_done(&arena);
                node_entry_set_state(entry, CLUSTER_AGENT_SILENT, err.text);
                return false;
        }
        arena_done(&entry->page_arena);
        entry->page_arena = arena;
        entry->page = page;
        entry->view.page = &entry->page;
        entry->view.page_time = (int64_t)time(NULL);
        node_entry_set_state(entry, CLUSTER_AGENT_ANSWERS, NULL);
        return true;
}

/* ---- when agents are asked ---- */

static void nodes_ask_due(struct cluster_nodes *nodes);

static void on_nodes_timer(uv_timer_t *timer)
{
        nodes_ask_due(container_of(timer, struct cluster_nodes, timer));
}

/*
 * By the timer, so that who adds many in one turn of the loop is not called back, and the first are not asked before
 * the others.
 */
static void nodes_wake(struct cluster_nodes *nodes)
{
        uv_timer_start(&nodes->timer, on_nodes_timer, 0, 0);
}

/* Up to a tenth of the interval earlier, so that agents whose turns came together do not stay together. */
static void node_entry_rest(struct node_entry *entry, bool is_good)
{
        const uint64_t interval_ms = entry->nodes->options->interval_ms;
        const uint64_t now = uv_now(entry->nodes->timer.loop);

        if (interval_ms == 0) {
                entry->due_ms = DUE_NEVER;
        } else if (is_good) {
                entry->backoff.failures = 0;
                entry->due_ms = now + interval_ms - backoff_random() % (interval_ms / 10 + 1);
        } else {
                entry->due_ms = now + MAX(backoff_next(&entry->backoff, 0, backoff_random()), interval_ms / 2);
        }
}

static void nodes_on_answer(const struct kube_answer *answer, void *data)
{
        struct node_entry *entry = data;

        entry->call = NULL;
        entry->nodes->n_asked--;
        node_entry_rest(entry, node_entry_take_answer(entry, answer));
        nodes_ask_due(entry->nodes);
}

static void node_entry_ask(struct node_entry *entry)
{
        const struct cluster_options *options = entry->nodes->options;

        entry->nodes->n_asked++;
        entry->call = kube_client_send(options->client, &(struct kube_request){.method = KUBE_GET,
                                                                .path = entry->path,
                                                                .query = options->query,
                                                                .is_text = true,
                                                                .timeout_ms = options->deadline_ms,
                                                                .done = nodes_on_answer,
                                                                .data = entry});
}

/* The node whose agent is due first, among those that are not asked now; NULL: none ever is. */
static struct node_entry *nodes_find_next(const struct cluster_nodes *nodes)
{
        struct node_entry *next = NULL;

        for (size_t i = 0; i < nodes->nodes.count; i++) {
                struct node_entry *entry = nodes->nodes.items[i];

                if (entry->path && !entry->call && entry->due_ms != DUE_NEVER &&
                        (!next || entry->due_ms < next->due_ms))
                        next = entry;
        }
        return next;
}

static void nodes_ask_due(struct cluster_nodes *nodes)
{
        const uint64_t now = uv_now(nodes->timer.loop);
        struct node_entry *entry;

        uv_timer_stop(&nodes->timer);
        while (nodes->n_asked < CLUSTER_PARALLEL && (entry = nodes_find_next(nodes))) {
                if (entry->due_ms > now) {
                        uv_timer_start(&nodes->timer, on_nodes_timer, entry->due_ms - now + 1, 0);
                        break;
                }
                node_entry_ask(entry);
        }
}

static void node_entry_stop_asking(struct node_entry *entry)
{
        if (entry->call) {
                entry->call = kube_call_cancel(entry->call);
                entry->nodes->n_asked--;
        }
        if (entry->path)
                nodes_wake(entry->nodes);
        free(entry->path);
        entry->path = NULL;
}

/* Takes |path|, which is asked at once. */
static void node_entry_start_asking(struct node_entry *entry, char *path)
{
        node_entry_stop_asking(entry);
        entry->path = path;
        entry->due_ms = uv_now(entry->nodes->timer.loop);
        entry->backoff = (struct backoff){.least_ms = CLUSTER_WAIT_MS, .most_ms = CLUSTER_WAIT_LIMIT_MS};
        nodes_wake(entry->nodes);
        node_entry_set_state(entry, CLUSTER_AGENT_ASKED, NULL);
}

/* ---- nodes ---- */

static struct node_entry *node_entry_get(struct cluster_nodes *nodes, const char *name)
{
        size_t at;
        struct node_entry *entry = sorted_find(&nodes->nodes, name, &at);

        if (entry)
                return entry;
        entry = xcalloc(1, sizeof(*entry));
        entry->nodes = nodes;
        entry->view.name = xstrdup(name);
        list_init(&entry->agents);
        sorted_insert(&nodes->nodes, at, entry);
        return entry;
}

static void node_entry_free(struct node_entry *entry)
{
        node_entry_stop_asking(entry);
        arena_done(&entry->object_arena);
        arena_done(&entry->page_arena);
        free(entry->reason);
        free((void *)(uintptr_t)entry->view.name);
        free(entry);
}

static void node_entry_release(struct node_entry *entry)
{
        struct cluster_nodes *nodes = entry->nodes;

        if (entry->view.object || !list_is_empty(&entry->agents))
                return;
        sorted_remove(&nodes->nodes, entry->view.name);
        node_entry_free(entry);
        cluster_changes_count(nodes->changes);
}

void cluster_nodes_on_node(struct cluster_nodes *nodes, enum kube_change change, const json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        struct node_entry *entry;

        if (!name || (change == KUBE_GONE && !sorted_find(&nodes->nodes, name, NULL)))
                return;
        entry = node_entry_get(nodes, name);
        arena_done(&entry->object_arena);
        entry->view.object = change == KUBE_PRESENT ? cluster_node_read(object, &entry->object_arena) : NULL;
        node_entry_changed(entry);
        node_entry_release(entry);
}

/* ---- the agent of a node ---- */

/* While one pod replaces another, both are there: better is the one that can be asked, that is ready, that is newer. */
static bool nodes_is_better(const struct cluster_agent *a, const struct cluster_agent *b)
{
        if (!a->trouble != !b->trouble)
                return !a->trouble;
        if (a->is_ready != b->is_ready)
                return a->is_ready;
        return a->created > b->created;
}

static const struct cluster_agent *best_agent(const struct node_entry *entry)
{
        const struct cluster_agent *best = NULL;

        LIST_FOR_EACH(link, &entry->agents) {
                const struct cluster_agent *agent = container_of(link, struct agent_pod, link)->agent;

                if (!best || nodes_is_better(agent, best))
                        best = agent;
        }
        return best;
}

static void node_entry_forget_page(struct node_entry *entry)
{
        entry->view.page = NULL;
        entry->view.page_time = 0;
        arena_done(&entry->page_arena);
}

/* Chooses which agent of the node is asked from now on, after its agents have changed. */
static void node_entry_choose_agent(struct node_entry *entry)
{
        const struct error *several_namespaces = &entry->nodes->several_namespaces;
        const struct cluster_agent *agent = several_namespaces->kind == ERROR_NONE ? best_agent(entry) : NULL;
        char *path;

        entry->view.agent = agent;
        if (!agent) {
                node_entry_stop_asking(entry);
                node_entry_forget_page(entry);
                if (list_is_empty(&entry->agents))
                        node_entry_set_state(entry, CLUSTER_AGENT_NONE, NULL);
                else
                        node_entry_set_state(entry, CLUSTER_AGENT_SILENT, several_namespaces->text);
                return;
        }
        if (agent->trouble) {
                node_entry_stop_asking(entry);
                node_entry_set_state(entry, CLUSTER_AGENT_SILENT, agent->trouble);
                return;
        }
        node_entry_changed(entry);
        path = cluster_agent_path(&entry->view, "/node");
        if (text_is_same(path, entry->path)) {
                free(path);
                return;
        }
        node_entry_start_asking(entry, path);
}

static void agent_pod_free(struct agent_pod *pod)
{
        list_remove(&pod->link);
        arena_done(&pod->arena);
        free(pod->key);
        free(pod);
}

static void remove_agent(struct cluster_nodes *nodes, const char *key)
{
        struct agent_pod *pod = sorted_remove(&nodes->agents, key);
        struct node_entry *entry;

        if (!pod)
                return;
        entry = pod->entry;
        list_remove(&pod->link);
        node_entry_choose_agent(entry);
        agent_pod_free(pod);
        node_entry_release(entry);
}

static void add_agent(struct cluster_nodes *nodes, struct agent_pod *pod)
{
        struct agent_pod *old;
        size_t at;

        old = sorted_find(&nodes->agents, pod->key, NULL);
        if (old && strcmp(old->entry->view.name, pod->agent->node) != 0) { /* another pod of the same name */
                remove_agent(nodes, pod->key);
                old = NULL;
        }
        pod->entry = node_entry_get(nodes, pod->agent->node);
        list_append(&pod->entry->agents, &pod->link);
        sorted_find(&nodes->agents, pod->key, &at);
        if (old) {
                list_remove(&old->link);
                nodes->agents.items[at] = pod;
        } else {
                sorted_insert(&nodes->agents, at, pod);
        }
        node_entry_choose_agent(pod->entry);
        if (old)
                agent_pod_free(old);
}

static int namespace_length(const struct agent_pod *pod)
{
        return (int)strcspn(pod->key, "/");
}

/*
 * A user who may make a pod in any namespace can give it the labels of an agent. So if pods of several namespaces have
 * them, none of these pods is asked. The keys are sorted and begin with the namespace.
 */
static void check_namespaces(struct cluster_nodes *nodes)
{
        const enum error_kind before = nodes->several_namespaces.kind;
        const struct agent_pod *first, *last;

        nodes->several_namespaces.kind = ERROR_NONE;
        if (nodes->agents.count > 0) {
                first = nodes->agents.items[0];
                last = nodes->agents.items[nodes->agents.count - 1];
                if (namespace_length(first) != namespace_length(last) ||
                        strncmp(first->key, last->key, (size_t)namespace_length(first)) != 0)
                        error_raise(&nodes->several_namespaces, ERROR_DENIED,
                                "pods in the namespaces '%.*s' and '%.*s' have the labels of agents: name the agents' "
                                "namespace (--agent-namespace)",
                                namespace_length(first), first->key, namespace_length(last), last->key);
        }
        for (size_t i = 0; nodes->several_namespaces.kind != before && i < nodes->nodes.count; i++)
                node_entry_choose_agent(nodes->nodes.items[i]);
}

void cluster_nodes_on_agent(struct cluster_nodes *nodes, enum kube_change change, const json_t *object)
{
        struct agent_pod *pod;
        char *key = read_key(object);

        if (!key)
                return;
        pod = xcalloc(1, sizeof(*pod));
        pod->key = key;
        list_init(&pod->link);
        if (change == KUBE_PRESENT)
                pod->agent = cluster_agent_read(object, &pod->arena);
        if (pod->agent) {
                add_agent(nodes, pod);
        } else {
                remove_agent(nodes, key);
                agent_pod_free(pod);
        }
        check_namespaces(nodes);
}

/* ---- start and end ---- */

void cluster_nodes_init(
        struct cluster_nodes *nodes, struct cluster_changes *changes, const struct cluster_options *options)
{
        *nodes = (struct cluster_nodes){.changes = changes, .options = options};
        uv_timer_init(kube_client_loop(options->client), &nodes->timer);
}

void cluster_nodes_close(struct cluster_nodes *nodes, struct closing *closing)
{
        for (size_t i = 0; i < nodes->agents.count; i++)
                agent_pod_free(nodes->agents.items[i]);
        for (size_t i = 0; i < nodes->nodes.count; i++)
                node_entry_free(nodes->nodes.items[i]);
        sorted_done(&nodes->agents);
        sorted_done(&nodes->nodes);
        closing_close(closing, &nodes->timer);
}
