/*
 * provisioning declared: a container's share is what its pod says (share/declared.h), and the pod is read from the API server when
 * the container starts. kubelet's list tells which pod that is, and a moment later its start is answered:
 *
 *     asked ──► kubelet's list ──► GET of the pod ──► the container's devices are made
 *         └───────────┴─────────────────┴──► without what it declares, after READ_MS at the latest: the default, and that is said
 *
 * What was read is kept as long as kubelet's record has the pod, since the limit monitor holds the container to it. Of containers that another
 * agent started it is read when kubelet lists them; whether they started with it is not known, so against them it proves nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "kube/object.h"
#include "ledger/parts.h"
#include "share/budget.h"

/* kubelet's list takes 5 s at most, and kubelet waits for 30 s. */
#define READ_MS INT64_C(4000)
#define TICK_MS UINT64_C(250)
/* So long what was read for one resource of a container counts for the others, whose questions come right after. */
#define FRESH_MS INT64_C(5000)
/* Until a pod is read again that could not be. */
#define AGAIN_MS INT64_C(60000)

struct declared_unit {
        const char *uuid;
        struct share share;
};

/* A container that has a share whose size it may declare. */
struct declared_container {
        struct list link;
        struct arena arena;
        const char *pod_uid;
        const char *name;
        const char *resource; /* for whose start it was read; "": for none */
        int64_t read_at;      /* or tried */
        bool is_ours;         /* it started since this agent did */
        bool is_refused;      /* it did not start, for want of memory */
        struct declared said;
        struct declared_unit *units;
        size_t n_units;
};

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

/* ---- containers ---- */

static void free_container(struct declared_container *container)
{
        list_remove(&container->link);
        arena_done(&container->arena);
        free(container);
}

/* |pod_uid| NULL: not known, as |name|. */
static struct declared_container *declared_find(const struct ledger *ledger, const char *pod_uid, const char *name)
{
        for (struct list *at = ledger->declared.next; pod_uid && at != &ledger->declared; at = at->next) {
                struct declared_container *container = container_of(at, struct declared_container, link);

                if (strcmp(container->pod_uid, pod_uid) == 0 && strcmp(container->name, name) == 0)
                        return container;
        }
        return NULL;
}

/* Those whose pods kubelet's record has no more. One that it does not have yet is young. */
static void forget_ended(struct ledger *ledger)
{
        const struct map *pods = ledger->holders ? holders_pods(ledger->holders) : NULL;
        struct list *next;

        for (struct list *at = ledger->declared.next; pods && at != &ledger->declared; at = next) {
                struct declared_container *container = container_of(at, struct declared_container, link);

                next = at->next;
                if (!map_find(pods, container->pod_uid) && ledger_clock(ledger) - container->read_at > AGAIN_MS)
                        free_container(container);
        }
}

/* What did not become variables when the container started is not its share. */
static void drop_annotations(struct declared *said)
{
        if (!said->has_own_threads)
                said->threads_permille = 0;
        said->memory_mib = 0;
}

/* |pod| NULL: it could not be read, and what is known stays. */
static struct declared_container *declared_take(
        struct ledger *ledger, const struct checkpoint_entry *entry, const json_t *pod, bool is_start)
{
        struct declared_container *previous = declared_find(ledger, entry->pod_uid, entry->container);
        struct declared_container *now;

        if (previous && !pod) {
                previous->read_at = ledger_clock(ledger);
                previous->is_ours |= is_start;
                return previous;
        }
        now = xcalloc(1, sizeof(*now));
        now->pod_uid = arena_strdup(&now->arena, entry->pod_uid);
        now->name = arena_strdup(&now->arena, entry->container);
        now->resource = is_start ? arena_strdup(&now->arena, entry->resource) : "";
        now->read_at = ledger_clock(ledger);
        now->is_ours = is_start || (previous && previous->is_ours);
        if (pod)
                now->said = declared_read(&now->arena, pod, entry->container);
        if (previous && previous->is_ours && !previous->said.is_known && !is_start)
                drop_annotations(&now->said);
        if (previous)
                free_container(previous);
        list_append(&ledger->declared, &now->link);
        return now;
}

/* ---- what they have ---- */

static struct declared_unit *find_unit(const struct declared_container *container, const char *uuid)
{
        for (size_t i = 0; i < container->n_units; i++)
                if (strcmp(container->units[i].uuid, uuid) == 0)
                        return &container->units[i];
        return NULL;
}

static void note_unit(struct declared_container *container, const char *uuid, struct share share)
{
        struct declared_unit *known = find_unit(container, uuid);
        struct declared_unit *units;

        if (known) {
                known->share = share;
                return;
        }
        units = ARENA_ARRAY(&container->arena, struct declared_unit, container->n_units + 1);
        if (container->n_units)
                memcpy(units, container->units, container->n_units * sizeof(*units));
        units[container->n_units++] = (struct declared_unit){arena_strdup(&container->arena, uuid), share};
        container->units = units;
}

void ledger_declare(struct ledger *ledger, const struct checkpoint_entry *of, struct mps_part *parts, size_t n_parts,
        unsigned int *ret_omits)
{
        static const struct declared nothing;
        struct declared_container *container = of ? declared_find(ledger, of->pod_uid, of->container) : NULL;
        const struct declared *said = container ? &container->said : &nothing;

        for (size_t i = 0; i < n_parts; i++)
                parts[i].share = declared_share(said, &parts[i], i);
        *ret_omits = declared_omits(said, n_parts);
        for (size_t i = 0; container && i < n_parts; i++)
                note_unit(container, parts[i].unit->uuid, parts[i].share);
}

static const struct declared_container *find_of(const struct ledger *ledger, const struct holder *holder)
{
        return holder && holder->container ? declared_find(ledger, holder->pod_uid, holder->container) : NULL;
}

/* |container| NULL: nothing is known of it, and |replicas| say what it has. */
static struct share share_in(const struct declared_container *container, const struct resource *resource,
        const struct unit *unit, unsigned int replicas)
{
        const struct declared_unit *known = container ? find_unit(container, unit->uuid) : NULL;

        return known ? known->share : share_of(resource, unit, replicas);
}

/* An annotation counts only for who is known to have started with it. */
static bool is_certain(const struct declared_container *container)
{
        const struct declared *said = &container->said;
        bool is_annotated = said->memory_mib || (said->threads_permille && !said->has_own_threads);

        return said->is_known && !said->is_unclear && (container->is_ours || !is_annotated);
}

struct share ledger_share(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct unit *unit, unsigned int replicas, bool *ret_is_guess)
{
        const struct declared_container *container = NULL;

        *ret_is_guess = allocation->is_guess;
        if (shared->resource->provisioning == PROVISIONING_DECLARED) {
                container = find_of(ledger, ledger_holder_of(ledger, shared, allocation));
                *ret_is_guess |= !container || !is_certain(container);
        }
        return share_in(container, shared->resource, unit, replicas);
}

/* Else what a pod writes into its annotations cannot be told to its containers. */
static bool asks_at_start(const struct ledger *ledger, const struct ledger_resource *shared)
{
        return mps_limits_at_start(ledger->plan, shared->resource);
}

/* Its start was asked about, or will be. */
static bool is_asked_about(
        const struct ledger *ledger, const struct ledger_resource *shared, const struct allocation *allocation)
{
        char prefix[ALLOCATION_ID_SIZE];

        snprintf(prefix, sizeof(prefix), ALLOCATION_ID_PREFIX, ledger->incarnation);
        return shared->resource->provisioning == PROVISIONING_DECLARED && asks_at_start(ledger, shared) &&
               text_starts_with(allocation->id, prefix);
}

/* ---- more than there is ---- */

/* A container without a name is one that only kubelet's record has, so that its start could not be noted. */
static bool has_not_started(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct holder *holder)
{
        return !(holder && !holder->container) && !find_of(ledger, holder) &&
               is_asked_about(ledger, shared, allocation);
}

/* A newer allocation has some of its ids: its container has ended, or is an init container, which ends before the other starts. */
static bool is_superseded(const struct ledger_resource *shared, const struct allocation *allocation)
{
        for (size_t i = 0; i < allocation->n_devices; i++)
                if (allocations_of_device(shared->allocations, allocation->devices[i]) != allocation)
                        return true;
        return false;
}

static bool has_any_of(
        const struct ledger_resource *shared, const struct allocation *allocation, const struct checkpoint_entry *entry)
{
        for (size_t i = 0; i < entry->n_devices; i++)
                for (size_t j = 0; j < allocation->n_devices; j++)
                        if (strcmp(entry->devices[i], allocation->devices[j]) == 0 &&
                                strcmp(entry->resource, shared->resource->name) == 0)
                                return true;
        return false;
}

/* It is the container's own, or of one of its pod that runs before or after it. */
static bool is_of(const struct checkpoint *container, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct holder *holder)
{
        for (size_t i = 0; i < container->n_entries; i++)
                if (has_any_of(shared, allocation, &container->entries[i]))
                        return true;
        return holder && !holder->container && text_is_same(holder->pod_uid, container->entries[0].pod_uid);
}

/* The memory of |unit| that all its containers but |except| have. |except|, as kubelet's record has it, and |pods|, who they are, may be NULL. */
static uint64_t sum_of(
        const struct ledger *ledger, const struct unit *unit, const struct checkpoint *except, struct strbuf *pods)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];
                const struct unit *own = resource_find_unit(shared->resource, unit->uuid);

                for (size_t j = 0; own && j < allocations_count(shared->allocations); j++) {
                        const struct allocation *allocation = allocations_get(shared->allocations, j);
                        unsigned int replicas = ledger_replicas_of(shared, allocation, own);
                        const struct declared_container *container;
                        const struct holder *holder;
                        uint64_t mib;

                        if (replicas == 0 || is_superseded(shared, allocation))
                                continue;
                        holder = ledger_holder_of(ledger, shared, allocation);
                        container = find_of(ledger, holder);
                        if ((container && container->is_refused) || has_not_started(ledger, shared, allocation, holder))
                                continue;
                        if (except && is_of(except, shared, allocation, holder))
                                continue;
                        mib = share_in(container, shared->resource, own, replicas).memory_mib;
                        sum += mib;
                        if (pods && holder && holder->pod)
                                strbuf_printf(pods, "%s%s/%s %llu MiB", pods->size ? ", " : "", holder->pod_namespace,
                                        holder->pod, (unsigned long long)mib);
                }
        }
        return sum;
}

int ledger_check_declared(struct ledger *ledger, const struct checkpoint *of, const struct mps_part *parts,
        size_t n_parts, struct error *err)
{
        const char *name = of->entries[0].container;
        struct declared_container *container = declared_find(ledger, of->entries[0].pod_uid, name);

        if (container)
                container->is_refused = false;
        for (size_t i = 0; i < n_parts; i++) {
                const struct unit *unit = parts[i].unit;
                uint64_t usable = budget_usable_mib(unit);
                uint64_t own = parts[i].share.memory_mib;
                uint64_t others;

                if (!unit->shared->section->refuses_overcommit || usable == 0)
                        continue;
                others = sum_of(ledger, unit, of, NULL);
                if (others + own <= usable)
                        continue;
                if (container)
                        container->is_refused = true;
                return error_set(err, ERROR_EXHAUSTED,
                        "the container %.63s declares %llu MiB of %s (GPU %s), but other containers declare %llu of "
                        "its %llu MiB: declare at most %llu MiB (annotation " DECLARED_MEMORY
                        "), end other containers, or set sharing.mps.declaredOvercommit: true",
                        name, (unsigned long long)own, unit->uuid, unit->index, (unsigned long long)others,
                        (unsigned long long)usable, (unsigned long long)(usable > others ? usable - others : 0));
        }
        return 0;
}

static void report_excess(struct ledger *ledger, const struct unit *unit, uint64_t sum, const char *pods)
{
        const char *reason = node_event_reason(NODE_EVENT_DECLARED_TOO_MUCH);
        _free_ char *text = xasprintf(
                "GPU %s (%s): its containers declare %llu MiB of %llu MiB of memory: %.700s. A container that "
                "allocates late may find too little memory left.",
                unit->index, unit->uuid, (unsigned long long)sum, (unsigned long long)budget_usable_mib(unit), pods);

        log_warn("containers declare more memory than their GPU has", LOG_STR("event", reason),
                LOG_STR("unit", unit->uuid), LOG_UINT("declared_mib", sum),
                LOG_UINT("usable_mib", budget_usable_mib(unit)), LOG_STR("pods", pods));
        node_events_report(ledger->options.events, NODE_EVENT_DECLARED_TOO_MUCH, "%s", text);
        ledger_report_pods(ledger, unit->uuid, NODE_EVENT_DECLARED_TOO_MUCH, text);
}

/* Each once, until it is over. */
static void declared_judge(struct ledger *ledger)
{
        struct arena arena = ARENA_INIT;
        struct map now = MAP_INIT;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct resource *resource = ledger->shared[i].resource;

                if (resource->provisioning != PROVISIONING_DECLARED)
                        continue;
                for (size_t j = 0; j < resource->n_units; j++) {
                        const struct unit *unit = &resource->units[j];
                        _cleanup_(strbuf_done) struct strbuf pods = STRBUF_INIT;
                        uint64_t usable = unit->shared ? budget_usable_mib(unit) : 0;
                        uint64_t sum = usable ? sum_of(ledger, unit, NULL, &pods) : 0;
                        bool was = map_find(&ledger->overdeclared, unit->uuid);

                        if (usable && sum > usable) {
                                map_add(&now, arena_strdup(&arena, unit->uuid), ledger);
                                if (!was)
                                        report_excess(ledger, unit, sum, pods.size ? pods.data : "");
                        } else if (was) {
                                log_info("containers declare no more memory than their GPU has any more",
                                        LOG_STR("unit", unit->uuid), LOG_UINT("declared_mib", sum));
                        }
                }
        }
        map_done(&ledger->overdeclared);
        arena_done(&ledger->overdeclared_arena);
        ledger->overdeclared = now;
        ledger->overdeclared_arena = arena;
}

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
                if (!asks_at_start(
                            ledger, ledger_find_shared_for(ledger, entry->resource, entry->devices, entry->n_devices)))
                        drop_annotations(&container->said);
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

/* A client without credentials does not count time (kube/client.h). */
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
        return !container || (!container->said.is_known && ledger_clock(ledger) - container->read_at > AGAIN_MS);
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

                        if (is_unread(ledger, holder) && !is_asked_about(ledger, shared, allocation))
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
        forget_ended(ledger);
        declared_judge(ledger);
        if (!ledger->options.client || is_asked(ledger))
                return;
        holder = find_unread(ledger);
        if (!holder)
                return;
        read_pod(new_ask(ledger), holder);
}

/* ---- the end ---- */

void ledger_forget_declared(struct ledger *ledger)
{
        while (!list_is_empty(&ledger->declared))
                free_container(container_of(ledger->declared.next, struct declared_container, link));
        map_done(&ledger->overdeclared);
        arena_done(&ledger->overdeclared_arena);
        ledger->overdeclared = (struct map)MAP_INIT;
}

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
