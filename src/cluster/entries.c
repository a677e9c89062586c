/*
 * Nodes and agents, as they come and go. A node stays as long as it has a Node object or an agent's pod. Each
 * thing has an arena of its own, which goes when the thing changes.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cluster/parts.h"
#include "net/kube/object.h"

/* ---- nodes ---- */

static void entry_changed(struct cluster_entry *entry)
{
        entry->view.version = cluster_changed(entry->cluster);
}

static struct cluster_entry *get_entry(struct cluster *cluster, const char *name)
{
        size_t at;
        struct cluster_entry *entry = sorted_find(&cluster->nodes, name, &at);

        if (entry)
                return entry;
        entry = xcalloc(1, sizeof(*entry));
        entry->cluster = cluster;
        entry->view.name = entry->name = xstrdup(name);
        list_init(&entry->agents);
        sorted_insert(&cluster->nodes, at, entry);
        return entry;
}

void cluster_entry_free(struct cluster_entry *entry)
{
        poll_remove(&entry->turn);
        arena_done(&entry->object_arena);
        arena_done(&entry->page_arena);
        free(entry->path);
        free(entry->reason);
        free(entry->name);
        free(entry);
}

static void release_entry(struct cluster_entry *entry)
{
        struct cluster *cluster = entry->cluster;

        if (entry->view.object || !list_is_empty(&entry->agents))
                return;
        sorted_remove(&cluster->nodes, entry->name);
        cluster_entry_free(entry);
        cluster_changed(cluster);
}

void cluster_on_node(enum kube_change change, json_t *object, struct cluster *cluster)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        struct cluster_entry *entry;

        if (!name || (change == KUBE_GONE && !sorted_find(&cluster->nodes, name, NULL)))
                return;
        entry = get_entry(cluster, name);
        arena_done(&entry->object_arena);
        entry->view.object = change == KUBE_PRESENT ? cluster_node_read(object, &entry->object_arena) : NULL;
        entry_changed(entry);
        release_entry(entry);
}

/* ---- the agent of a node ---- */

/* |reason| may be of a peer: it is shown in terminals, and put into JSON. */
static void set_state(struct cluster_entry *entry, enum cluster_agent_state state, const char *reason)
{
        char *copy = reason ? xstrdup(reason) : NULL;

        if (copy)
                text_clean(copy);
        if (entry->view.state != state || !entry->view.since)
                entry->view.since = (int64_t)time(NULL);
        entry->view.state = state;
        free(entry->reason);
        entry->view.reason = entry->reason = copy;
        entry_changed(entry);
}

/* While one pod replaces another, both are there: better is the one that can be asked, that is ready, that is newer. */
static bool is_better(const struct cluster_agent *a, const struct cluster_agent *b)
{
        if (!a->trouble != !b->trouble)
                return !a->trouble;
        if (a->is_ready != b->is_ready)
                return a->is_ready;
        return a->created > b->created;
}

static const struct cluster_agent *best_agent(const struct cluster_entry *entry)
{
        const struct cluster_agent *best = NULL;

        LIST_FOR_EACH(link, &entry->agents) {
                const struct cluster_agent *agent = container_of(link, struct cluster_agent_pod, link)->agent;

                if (!best || is_better(agent, best))
                        best = agent;
        }
        return best;
}

static void ask_nobody(struct cluster_entry *entry)
{
        poll_remove(&entry->turn);
        free(entry->path);
        entry->path = NULL;
}

static void forget_page(struct cluster_entry *entry)
{
        entry->view.page = NULL;
        entry->view.page_time = 0;
        arena_done(&entry->page_arena);
}

/* After a change of the node's agents: whom to ask from now on. */
static void choose_agent(struct cluster_entry *entry)
{
        const struct error *strangers = &entry->cluster->strangers;
        const struct cluster_agent *agent = strangers->kind == ERROR_NONE ? best_agent(entry) : NULL;
        char *path;

        entry->view.agent = agent;
        if (!agent) {
                ask_nobody(entry);
                forget_page(entry);
                if (list_is_empty(&entry->agents))
                        set_state(entry, CLUSTER_AGENT_NONE, NULL);
                else
                        set_state(entry, CLUSTER_AGENT_SILENT, strangers->text);
                return;
        }
        if (agent->trouble) {
                ask_nobody(entry);
                set_state(entry, CLUSTER_AGENT_SILENT, agent->trouble);
                return;
        }
        entry_changed(entry);
        path = cluster_agent_path(&entry->view, "/node");
        if (text_is_same(path, entry->path)) {
                free(path);
                return;
        }
        ask_nobody(entry);
        entry->path = path;
        poll_add(&entry->cluster->poll, &entry->turn);
        set_state(entry, CLUSTER_AGENT_ASKED, NULL);
}

void cluster_agent_pod_free(struct cluster_agent_pod *pod)
{
        list_remove(&pod->link);
        arena_done(&pod->arena);
        free(pod->key);
        free(pod);
}

char *cluster_pod_key(const json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        const char *namespace = object_text(object, "metadata", "namespace", NULL);

        return name && namespace ? xasprintf("%s/%s", namespace, name) : NULL;
}

static void remove_agent(struct cluster *cluster, const char *key)
{
        struct cluster_agent_pod *pod = sorted_remove(&cluster->agents, key);
        struct cluster_entry *entry;

        if (!pod)
                return;
        entry = pod->entry;
        list_remove(&pod->link);
        choose_agent(entry);
        cluster_agent_pod_free(pod);
        release_entry(entry);
}

static void add_agent(struct cluster *cluster, struct cluster_agent_pod *pod)
{
        struct cluster_agent_pod *old;
        size_t at;

        old = sorted_find(&cluster->agents, pod->key, NULL);
        if (old && strcmp(old->entry->name, pod->agent->node) != 0) { /* another pod of the same name */
                remove_agent(cluster, pod->key);
                old = NULL;
        }
        pod->entry = get_entry(cluster, pod->agent->node);
        list_append(&pod->entry->agents, &pod->link);
        sorted_find(&cluster->agents, pod->key, &at);
        if (old) {
                list_remove(&old->link);
                cluster->agents.items[at] = pod;
        } else {
                sorted_insert(&cluster->agents, at, pod);
        }
        choose_agent(pod->entry);
        if (old)
                cluster_agent_pod_free(old);
}

static int namespace_length(const struct cluster_agent_pod *pod)
{
        return (int)strcspn(pod->key, "/");
}

/*
 * Whoever may make a pod anywhere can give it the labels of an agent. So pods of several namespaces are not believed,
 * and none is asked. The keys are sorted and begin with the namespace.
 */
static void look_for_strangers(struct cluster *cluster)
{
        const enum error_kind before = cluster->strangers.kind;
        const struct cluster_agent_pod *first, *last;

        cluster->strangers.kind = ERROR_NONE;
        if (cluster->agents.count > 0) {
                first = cluster->agents.items[0];
                last = cluster->agents.items[cluster->agents.count - 1];
                if (namespace_length(first) != namespace_length(last) ||
                        strncmp(first->key, last->key, (size_t)namespace_length(first)) != 0)
                        error_raise(&cluster->strangers, ERROR_DENIED,
                                "pods in the namespaces '%.*s' and '%.*s' have the labels of agents: name the agents' "
                                "namespace (--agent-namespace)",
                                namespace_length(first), first->key, namespace_length(last), last->key);
        }
        for (size_t i = 0; cluster->strangers.kind != before && i < cluster->nodes.count; i++)
                choose_agent(cluster->nodes.items[i]);
}

void cluster_on_agent(enum kube_change change, json_t *object, struct cluster *cluster)
{
        struct cluster_agent_pod *pod;
        char *key = cluster_pod_key(object);

        if (!key)
                return;
        pod = xcalloc(1, sizeof(*pod));
        pod->key = key;
        list_init(&pod->link);
        if (change == KUBE_PRESENT)
                pod->agent = cluster_agent_read(object, &pod->arena);
        if (pod->agent) {
                add_agent(cluster, pod);
        } else {
                remove_agent(cluster, key);
                cluster_agent_pod_free(pod);
        }
        look_for_strangers(cluster);
}

/* ---- what agents answer ---- */

char *cluster_question(struct poll_turn *turn, void *data UNUSED)
{
        return xstrdup(container_of(turn, struct cluster_entry, turn)->path);
}

/* The API server's own refusals are Status objects, what an agent answers is not. */
static bool is_of_agent(const struct kube_answer *answer)
{
        return answer->status != 0 && !text_is_same(object_text(answer->object, "kind", NULL), "Status");
}

static bool note_failure(struct cluster_entry *entry, const struct kube_answer *answer)
{
        _free_ char *reason = NULL;

        if (is_of_agent(answer) && answer->status == 404) {
                set_state(entry, CLUSTER_AGENT_TOO_OLD, "it serves no page /node (404): its version is too old");
                return false;
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
        set_state(entry, CLUSTER_AGENT_SILENT, reason);
        return false;
}

bool cluster_on_answer(struct poll_turn *turn, const struct kube_answer *answer, void *data UNUSED)
{
        struct cluster_entry *entry = container_of(turn, struct cluster_entry, turn);
        struct arena arena = ARENA_INIT;
        struct node_page page;
        struct error err;

        if (answer->error)
                return note_failure(entry, answer);
        if (node_page_read(&page, &arena, answer->text, answer->size, &err) < 0) {
                arena_done(&arena);
                set_state(entry, CLUSTER_AGENT_SILENT, err.text);
                return false;
        }
        arena_done(&entry->page_arena);
        entry->page_arena = arena;
        entry->page = page;
        entry->view.page = &entry->page;
        entry->view.page_time = (int64_t)time(NULL);
        set_state(entry, CLUSTER_AGENT_ANSWERS, NULL);
        return true;
}
