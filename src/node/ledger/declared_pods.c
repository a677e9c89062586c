/*
 * The pods whose containers declare what they need, read from the API server: at the start of a container, and for
 * those that had started before the agent. declared.c has the picture.
 */
#include "node/ledger/declared_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"

/* kubelet's list takes 5 s at most, and kubelet waits for 30 s. */
#define READ_MS INT64_C(4000)
#define TICK_MS UINT64_C(250)
/* So long what was read for one resource of a container counts for the others, whose questions come right after. */
#define FRESH_MS INT64_C(5000)

/* A start that waits for its pod; or, without |started|, a pod that is read for the limit monitor. */
struct declared_ask {
        struct list link;
        struct ledger *ledger;
        struct arena arena;
        const char *resource;
        const char **ids;
        size_t n_ids;
        struct node_event_pod pod; /* all NULL: not known yet */
        struct kube_call *call;    /* NULL: kubelet's list is awaited */
        int64_t deadline;
        broker_started_fn *started;
        void *context;
};

/* ---- pods ---- */

static void free_ask(struct declared_ask *ask)
{
        kube_call_cancel(ask->call);
        list_remove(&ask->link);
        arena_done(&ask->arena);
        free(ask);
}

static void report_ignored(struct ledger *ledger, const struct node_event_pod *pod, const char *name, const char *fault)
{
        log_warn("a container's declaration is ignored",
                LOG_STR("event", node_event_reason(NODE_EVENT_DECLARATION_IGNORED)),
                LOG_STR("pod", pod->name ? pod->name : "-"),
                LOG_STR("namespace", pod->namespace ? pod->namespace : "-"), LOG_STR("container", name),
                LOG_STR("reason", fault));
        if (pod->name)
                node_events_report_pod(ledger->options.events, pod, NODE_EVENT_DECLARATION_IGNORED,
                        "Container %.63s: %s.", name, fault);
}

/* Those of the pod that the question is about: what starts, or all that nobody read since this agent started. */
static bool is_meant(const struct declared_ask *ask, const struct checkpoint_entry *entry)
{
        if (!ledger_is_declared(ask->ledger, entry))
                return false;
        if (ask->pod.uid && strcmp(entry->pod_uid, ask->pod.uid) != 0)
                return false;
        return !ask->started || ledger_has_just(entry, ask->resource, ask->ids, ask->n_ids);
}

/* |pod| NULL: |reason| says why it could not be read. */
static void take_pod(struct declared_ask *ask, const json_t *pod, const char *reason)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger *ledger = ask->ledger;
        struct checkpoint record;

        if (!ledger_read_checkpoint(ledger, &arena, &record))
                return;
        for (size_t i = 0; i < record.n_entries; i++) {
                const struct checkpoint_entry *entry = &record.entries[i];
                struct declared_container *container;

                if (!is_meant(ask, entry))
                        continue;
                container = declared_find(ledger, entry->pod_uid, entry->container);
                if (!ask->started && container && container->said.is_known)
                        continue;
                container = declared_take(ledger, entry, pod, ask->started != NULL);
                if (!declared_asks_at_start(
                            ledger, ledger_find_shared_for(ledger, entry->resource, entry->devices, entry->n_devices)))
                        declared_drop_annotations(&container->said);
                if (reason && ask->started)
                        report_ignored(ledger, &ask->pod, entry->container,
                                arena_printf(&arena, "%s; %s", reason,
                                        container->said.is_known ? "the previous declaration applies"
                                                                 : "it starts with the share of its replicas"));
                else if (container->said.fault)
                        report_ignored(ledger, &ask->pod, entry->container, container->said.fault);
                if (pod)
                        log_info("a container's declaration was read", LOG_STR("pod", ask->pod.name),
                                LOG_STR("namespace", ask->pod.namespace), LOG_STR("container", entry->container),
                                LOG_UINT("threads_permille", container->said.threads_permille),
                                LOG_UINT("memory_mib", container->said.memory_mib),
                                LOG_STR("own_memory", container->said.own_memory ? container->said.own_memory : ""));
        }
        if (pod)
                ledger_judge_own_shm(ledger, &ask->pod, pod);
        if (!ask->started)
                ledger_describe_pod(ledger, &record, ask->pod.uid);
}

/* Neither: what is known counts. */
static void declared_finish(struct declared_ask *ask, const json_t *pod, const char *reason)
{
        struct ledger *ledger = ask->ledger;
        struct error err;
        bool failed = false;

        if (ledger->plan && (pod || reason))
                take_pod(ask, pod, reason);
        if (ask->started) {
                failed = ledger_start_now(ledger, ask->resource, ask->ids, ask->n_ids, &err) < 0;
                ask->started(failed ? &err : NULL, ask->context);
        }
        free_ask(ask);
        if (ledger->plan)
                declared_judge(ledger);
}

static void on_pod(const struct kube_answer *answer, void *data)
{
        struct declared_ask *ask = data;
        const char *uid = object_text(answer->object, "metadata", "uid", NULL);

        ask->call = NULL;
        if (answer->error)
                declared_finish(ask, NULL, answer->error->text);
        else if (!uid || (ask->pod.uid && strcmp(uid, ask->pod.uid) != 0))
                declared_finish(ask, NULL, "the API server has another pod of its name");
        else
                declared_finish(ask, answer->object, NULL);
}

/* |holder| has its names. */
static void read_pod(struct declared_ask *ask, const struct holder *holder)
{
        _free_ char *collection = object_collection("/api/v1", holder->pod_namespace, "pods");
        _free_ char *path = object_path(collection, holder->pod);
        uv_timer_t *timer = &ask->ledger->declared_timer;

        ask->pod = (struct node_event_pod){.namespace = arena_strdup(&ask->arena, holder->pod_namespace),
                .name = arena_strdup(&ask->arena, holder->pod),
                .uid = arena_strdup(&ask->arena, holder->pod_uid)};
        ask->deadline = ledger_clock(ask->ledger) + READ_MS;
        ask->call = kube_client_send(ask->ledger->options.client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = path, .timeout_ms = READ_MS, .done = on_pod, .data = ask});
        if (!uv_is_active((uv_handle_t *)timer))
                uv_timer_start(timer, ledger_on_declared_timer, TICK_MS, TICK_MS);
}

/* A client without credentials does not count time (net/kube/client.h). */
void ledger_on_declared_timer(uv_timer_t *timer)
{
        struct ledger *ledger = timer->data;
        bool is_any = false;
        struct list *next;

        for (struct list *at = ledger->declared_asks.next; at != &ledger->declared_asks; at = next) {
                struct declared_ask *ask = container_of(at, struct declared_ask, link);

                next = at->next;
                if (ask->call && ask->deadline < ledger_clock(ledger))
                        declared_finish(ask, NULL, "the API server did not answer in time");
                else
                        is_any |= ask->call != NULL;
        }
        if (!is_any)
                uv_timer_stop(timer);
}

static void on_declared_listed(const struct error *err, void *data)
{
        struct declared_ask *ask = data;
        const struct ledger *ledger = ask->ledger;
        const struct holder *holder = NULL;

        /* An init container has a name by those of its ids that a later container has. */
        for (size_t i = 0; i < ask->n_ids && !err && ledger->holders && !(holder && holder->pod); i++)
                holder = holders_find(ledger->holders, ask->resource, ask->ids[i]);
        if (!holder || !holder->pod) {
                declared_finish(ask, NULL, err ? err->text : "kubelet's list of pods does not have this pod");
                return;
        }
        read_pod(ask, holder);
}

static struct declared_ask *new_ask(struct ledger *ledger)
{
        struct declared_ask *ask = xcalloc(1, sizeof(*ask));

        ask->ledger = ledger;
        list_append(&ledger->declared_asks, &ask->link);
        return ask;
}

/* kubelet asks once for each resource of a container. */
static bool is_fresh(struct declared_ask *ask)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;
        size_t count = 0;

        if (!ledger_read_checkpoint(ask->ledger, &arena, &record))
                return false;
        for (size_t i = 0; i < record.n_entries; i++) {
                const struct declared_container *container;

                if (!is_meant(ask, &record.entries[i]))
                        continue;
                container = declared_find(ask->ledger, record.entries[i].pod_uid, record.entries[i].container);
                if (!container || !container->is_ours || !container->said.is_known ||
                        strcmp(container->resource, ask->resource) == 0 ||
                        ledger_clock(ask->ledger) - container->read_at > FRESH_MS)
                        return false;
                count++;
        }
        return count > 0;
}

void ledger_start_declared(struct ledger *ledger, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context)
{
        struct declared_ask *ask = new_ask(ledger);

        ask->started = started;
        ask->context = context;
        ask->resource = arena_strdup(&ask->arena, resource);
        ask->ids = ARENA_ARRAY(&ask->arena, const char *, n_ids);
        for (size_t i = 0; i < n_ids; i++)
                ask->ids[ask->n_ids++] = arena_strdup(&ask->arena, ids[i]);
        if (!ledger->options.client)
                declared_finish(ask, NULL, "the agent does not use the API server (--node-name, --kubeconfig)");
        else if (!ledger->pods)
                declared_finish(ask, NULL,
                        "kubelet's pod-resources socket is not used, so the pod is unknown (--pod-resources-socket)");
        else if (is_fresh(ask))
                declared_finish(ask, NULL, NULL);
        else
                ledger_list(ledger, on_declared_listed, ask);
}

/* ---- containers that had started already ---- */

static bool is_asked(const struct ledger *ledger)
{
        for (struct list *at = ledger->declared_asks.next; at != &ledger->declared_asks; at = at->next)
                if (!container_of(at, struct declared_ask, link)->started)
                        return true;
        return false;
}

static bool is_unread(const struct ledger *ledger, const struct holder *holder)
{
        const struct declared_container *container;

        if (!holder || !holder->pod || !holder->pod_uid || !holder->container)
                return false;
        container = declared_find(ledger, holder->pod_uid, holder->container);
        return !container ||
               (!container->said.is_known && ledger_clock(ledger) - container->read_at > DECLARED_AGAIN_MS);
}

static const struct holder *find_unread(const struct ledger *ledger)
{
        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];

                if (shared->resource->provisioning != PROVISIONING_DECLARED)
                        continue;
                for (size_t j = 0; j < allocations_count(shared->allocations); j++) {
                        const struct allocation *allocation = allocations_get(shared->allocations, j);
                        const struct holder *holder = ledger_holder_of(ledger, shared, allocation);

                        if (is_unread(ledger, holder) && !declared_is_asked_about(ledger, shared, allocation))
                                return holder;
                }
        }
        return NULL;
}

/* One pod at a time; the next with kubelet's next list. */
void ledger_read_declared(struct ledger *ledger)
{
        const struct holder *holder;

        if (!ledger->plan || ledger->closing)
                return;
        declared_forget_ended(ledger);
        declared_judge(ledger);
        if (!ledger->options.client || is_asked(ledger))
                return;
        holder = find_unread(ledger);
        if (!holder)
                return;
        read_pod(new_ask(ledger), holder);
}

/* ---- the end ---- */

void ledger_refuse_declared(struct ledger *ledger)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping; kubelet will ask again");
        while (!list_is_empty(&ledger->declared_asks)) {
                struct declared_ask *ask = container_of(ledger->declared_asks.next, struct declared_ask, link);

                if (ask->started)
                        ask->started(&err, ask->context);
                free_ask(ask);
        }
        uv_timer_stop(&ledger->declared_timer);
}
