// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/declared_pods.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/ledger/container_start.h"

/* kubelet's list takes 5 s at most, and kubelet waits for 30 s. */
#define READ_MS INT64_C(4000)
#define TICK_MS UINT64_C(250)
/* A pod's further containers and mounts are ignored. */
#define CONTAINERS_MAX ((size_t)128)
#define MOUNTS_MAX ((size_t)512)
/* At most so many pods are remembered; then all are forgotten and read again. */
#define PODS_MAX ((size_t)4096)
/* A pod that was read for one resource of a container counts this long for the others, whose requests follow. */
#define FRESH_MS INT64_C(5000)

/* A start that waits for its pod; or, without |started|, a pod that is read for the limit monitor or its volumes. */
struct pod_read {
        struct list link;
        struct declared_pods *pods;
        struct arena arena;
        const char *resource;
        const char **ids;
        size_t n_ids;
        struct node_event_pod pod; /* all NULL: not known yet */
        struct pod_call *call;     /* NULL: kubelet's list is awaited */
        int64_t deadline;
        bool is_for_shm;
        broker_started_fn *started;
        void *context;
};

/* ---- volumes at /dev/shm ---- */

static bool has_own_shm(const json_t *container)
{
        const json_t *mounts = json_object_get(container, "volumeMounts");

        for (size_t i = 0; i < MIN(json_array_size(mounts), MOUNTS_MAX); i++) {
                const char *path = object_text(json_array_get(mounts, i), "mountPath", NULL);

                if (text_is_same(path, "/dev/shm") || text_is_same(path, "/dev/shm/"))
                        return true;
        }
        return false;
}

static bool is_by_mps(const struct ledger_core *core, const char *pod_uid, const char *container)
{
        const struct holders *holders = holdings_holders(&core->holdings);
        const struct holder *held;
        size_t count = holders ? holders_containers(holders, &held) : 0;

        for (size_t i = 0; i < count; i++)
                if (mps_resources_find(&core->resources, held[i].resource) && text_is_same(held[i].pod_uid, pod_uid) &&
                        text_is_same(held[i].container, container))
                        return true;
        return false;
}

static void report_own_shm(const struct ledger_core *core, const struct node_event_pod *pod, const char *name)
{
        _free_ char *text = NULL;

        log_warn("a container under MPS has a volume of its own at /dev/shm: CUDA fails in it with error 805",
                LOG_STR("event", node_event_reason(NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN)),
                LOG_STR("namespace", pod->namespace), LOG_STR("pod", pod->name), LOG_STR("container", name));
        text = xasprintf(
                "container %.63s of pod %.63s/%.253s has a volume of its own at /dev/shm, where programs under MPS "
                "need that of their daemon: CUDA fails in it with error 805; remove the volume from the pod, or use a "
                "GPU without MPS",
                name, pod->namespace, pod->name);
        node_events_report(core->options.events, NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN, "%s", text);
        node_events_report_pod(core->options.events, pod, NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN, "%s", text);
}

static void check_for_own_shm(const struct ledger_core *core, const struct node_event_pod *pod, const json_t *object)
{
        const json_t *containers = object_find(object, "spec", "containers", NULL);

        for (size_t i = 0; i < MIN(json_array_size(containers), CONTAINERS_MAX); i++) {
                const json_t *container = json_array_get(containers, i);
                const char *name = object_text(container, "name", NULL);

                if (name && has_own_shm(container) && is_by_mps(core, pod->uid, name))
                        report_own_shm(core, pod, name);
        }
}

static void forget_seen(struct declared_pods *pods)
{
        map_done(&pods->seen);
        arena_done(&pods->seen_arena);
}

/* False: it was noted before. */
static bool note_pod_seen(struct declared_pods *pods, const char *uid)
{
        if (map_find(&pods->seen, uid))
                return false;
        if (pods->seen.count >= PODS_MAX)
                forget_seen(pods);
        return map_add(&pods->seen, arena_strdup(&pods->seen_arena, uid), pods);
}

/* ---- pods ---- */

static void free_read(struct pod_read *read)
{
        pod_call_cancel(read->call);
        list_remove(&read->link);
        arena_done(&read->arena);
        free(read);
}

static void report_ignored(
        const struct ledger_core *core, const struct node_event_pod *pod, const char *name, const char *fault)
{
        log_warn("a container's declaration is ignored",
                LOG_STR("event", node_event_reason(NODE_EVENT_DECLARATION_IGNORED)),
                LOG_STR("pod", pod->name ? pod->name : "-"),
                LOG_STR("namespace", pod->namespace ? pod->namespace : "-"), LOG_STR("container", name),
                LOG_STR("reason", fault));
        if (pod->name)
                node_events_report_pod(
                        core->options.events, pod, NODE_EVENT_DECLARATION_IGNORED, "Container %.63s: %s.", name, fault);
}

/* The read is about this container: it starts, or all containers of the pod are to be read. */
static bool is_meant(const struct pod_read *read, const struct checkpoint_entry *entry)
{
        if (!container_start_is_declared(read->pods->core, entry))
                return false;
        if (read->pod.uid && strcmp(entry->pod_uid, read->pod.uid) != 0)
                return false;
        return !read->started || container_start_has_just(entry, read->resource, read->ids, read->n_ids);
}

/* |pod| NULL: |reason| says why it could not be read. */
static void note_container(
        struct pod_read *read, const struct checkpoint_entry *entry, const json_t *pod, const char *reason)
{
        const struct ledger_core *core = read->pods->core;
        const struct mps_resource *shared =
                mps_resources_find_for(&core->resources, entry->resource, entry->devices, entry->n_devices);
        const struct declared_container *container =
                declared_containers_find(read->pods->containers, entry->pod_uid, entry->container);
        _free_ char *text = NULL;

        if (!read->started && container && container->said.is_known)
                return;
        container = declared_containers_note(read->pods->containers, entry, pod, read->started != NULL,
                mps_limits_at_start(core->plan, shared->resource));
        if (reason && read->started) {
                text = xasprintf("%s; %s", reason,
                        container->said.is_known ? "the previous declaration applies"
                                                 : "it starts with the share of its replicas");
                report_ignored(core, &read->pod, entry->container, text);
        } else if (container->said.fault) {
                report_ignored(core, &read->pod, entry->container, container->said.fault);
        }
        if (pod)
                log_info("a container's declaration was read", LOG_STR("pod", read->pod.name),
                        LOG_STR("namespace", read->pod.namespace), LOG_STR("container", entry->container),
                        LOG_UINT("threads_permille", container->said.threads_permille),
                        LOG_UINT("memory_mib", container->said.memory_mib),
                        LOG_STR("own_memory", container->said.own_memory ? container->said.own_memory : ""));
}

static void take_pod(struct pod_read *read, const json_t *pod, const char *reason)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;

        if (pod && read->pod.uid && (read->is_for_shm || note_pod_seen(read->pods, read->pod.uid)))
                check_for_own_shm(read->pods->core, &read->pod, pod);
        if (!holdings_read_record(&read->pods->core->holdings, &arena, &record))
                return;
        for (size_t i = 0; i < record.n_entries; i++)
                if (is_meant(read, &record.entries[i]))
                        note_container(read, &record.entries[i], pod, reason);
        if (!read->started)
                container_start_note_shares(read->pods->start, &record, read->pod.uid);
}

/* |pod| and |reason| NULL: the present knowledge of the pod counts. */
static void finish_read(struct pod_read *read, const json_t *pod, const char *reason)
{
        struct declared_pods *pods = read->pods;
        const bool is_for_shm = read->is_for_shm;
        struct error err;
        bool failed = false;

        if (pods->core->plan && (pod || reason))
                take_pod(read, pod, reason);
        if (read->started) {
                failed = container_start_now(pods->start, read->resource, read->ids, read->n_ids, &err) < 0;
                read->started(failed ? &err : NULL, read->context);
        }
        free_read(read);
        if (pods->core->plan && !is_for_shm)
                declared_containers_report_room(pods->containers);
}

static void declared_pods_on_pod(const struct kube_answer *answer, void *data)
{
        struct pod_read *read = data;
        struct declared_pods *pods = read->pods;
        const bool is_for_shm = read->is_for_shm;
        const char *uid = object_text(answer->object, "metadata", "uid", NULL);

        read->call = NULL;
        if (is_for_shm && answer->error)
                log_debug("whether a pod has a volume of its own at /dev/shm is not known",
                        LOG_STR("pod", read->pod.name), LOG_ERR(answer->error));
        if (answer->error)
                finish_read(read, NULL, answer->error->text);
        else if (!uid || (read->pod.uid && strcmp(uid, read->pod.uid) != 0))
                finish_read(read, NULL, "the API server has another pod of its name");
        else
                finish_read(read, answer->object, NULL);
        if (is_for_shm)
                declared_pods_read_next(pods);
}

/* A client without credentials does not count time (net/kube/client.h), so each read has a deadline of its own. */
static void declared_pods_on_timer(uv_timer_t *timer)
{
        struct declared_pods *pods = container_of(timer, struct declared_pods, timer);
        bool is_any = false;
        struct list *next;

        for (struct list *at = pods->reads.next; at != &pods->reads; at = next) {
                struct pod_read *read = container_of(at, struct pod_read, link);

                next = at->next;
                if (read->call && read->deadline < ledger_clock(pods->core))
                        finish_read(read, NULL, "the API server did not answer in time");
                else
                        is_any |= read->call != NULL;
        }
        if (!is_any)
                uv_timer_stop(timer);
}

/* |holder| has its names. */
static void declared_pods_read_named(struct pod_read *read, const struct holder *holder)
{
        const struct ledger_core *core = read->pods->core;
        uv_timer_t *timer = &read->pods->timer;

        read->pod = (struct node_event_pod){.namespace = arena_strdup(&read->arena, holder->pod_namespace),
                .name = arena_strdup(&read->arena, holder->pod),
                .uid = arena_strdup(&read->arena, holder->pod_uid)};
        read->deadline = ledger_clock(core) + READ_MS;
        read->call = pod_source_get(&core->pods, &(struct pod_question){.namespace = read->pod.namespace,
                                                         .name = read->pod.name,
                                                         .uid = read->pod.uid,
                                                         .timeout_ms = READ_MS,
                                                         .done = declared_pods_on_pod,
                                                         .data = read});
        if (!uv_is_active((uv_handle_t *)timer))
                uv_timer_start(timer, declared_pods_on_timer, TICK_MS, TICK_MS);
}

static void on_declared_listed(const struct error *err, void *data)
{
        struct pod_read *read = data;
        const struct holder *holder = NULL;

        /* An init container has a name by those of its ids that a later container has. */
        for (size_t i = 0; i < read->n_ids && !err && !(holder && holder->pod); i++)
                holder = holdings_find(&read->pods->core->holdings, read->resource, read->ids[i]);
        if (!holder || !holder->pod) {
                finish_read(read, NULL, err ? err->text : "kubelet's list of pods does not have this pod");
                return;
        }
        if (!pod_source_can_ask(&read->pods->core->pods, holder->pod_uid)) {
                finish_read(read, NULL,
                        "kubelet's checkpoint does not have this pod, and the agent does not use the API server");
                return;
        }
        declared_pods_read_named(read, holder);
}

static struct pod_read *new_read(struct declared_pods *pods)
{
        struct pod_read *read = xcalloc(1, sizeof(*read));

        read->pods = pods;
        list_append(&pods->reads, &read->link);
        return read;
}

/* kubelet asks once for each resource of a container. */
static bool is_fresh(struct pod_read *read)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;
        size_t count = 0;

        if (!holdings_read_record(&read->pods->core->holdings, &arena, &record))
                return false;
        for (size_t i = 0; i < record.n_entries; i++) {
                const struct declared_container *container;

                if (!is_meant(read, &record.entries[i]))
                        continue;
                container = declared_containers_find(
                        read->pods->containers, record.entries[i].pod_uid, record.entries[i].container);
                if (!container || !container->is_ours || !container->said.is_known ||
                        strcmp(container->resource, read->resource) == 0 ||
                        ledger_clock(read->pods->core) - container->read_at > FRESH_MS)
                        return false;
                count++;
        }
        return count > 0;
}

void declared_pods_start(struct declared_pods *pods, const char *resource, const char *const *ids, size_t n_ids,
        broker_started_fn *started, void *context)
{
        struct pod_read *read = new_read(pods);

        read->started = started;
        read->context = context;
        read->resource = arena_strdup(&read->arena, resource);
        read->ids = ARENA_ARRAY(&read->arena, const char *, n_ids);
        for (size_t i = 0; i < n_ids; i++)
                read->ids[read->n_ids++] = arena_strdup(&read->arena, ids[i]);
        if (!pod_source_can_ask(&pods->core->pods, ""))
                finish_read(read, NULL,
                        "the agent uses neither the API server (--node-name, --kubeconfig) nor kubelet's socket of pods "
                        "(--pods-api-socket)");
        else if (!holdings_folder(&pods->core->holdings))
                finish_read(read, NULL,
                        "kubelet's pod-resources socket is not used, so the pod is unknown (--pod-resources-socket)");
        else if (is_fresh(read))
                finish_read(read, NULL, NULL);
        else
                holdings_list(&pods->core->holdings, on_declared_listed, read);
}

/* ---- containers that had started already ---- */

static bool is_reading(const struct declared_pods *pods)
{
        LIST_FOR_EACH(link, &pods->reads)
                if (!container_of(link, struct pod_read, link)->started)
                        return true;
        return false;
}

static bool is_unread(const struct declared_pods *pods, const struct holder *holder)
{
        const struct declared_container *container;

        if (!holder || !holder->pod || !holder->pod_uid || !holder->container)
                return false;
        container = declared_containers_find_holder(pods->containers, holder);
        return !container ||
               (!container->said.is_known && ledger_clock(pods->core) - container->read_at > DECLARED_AGAIN_MS);
}

/* Its container may declare its share. */
static const struct holder *find_unread(const struct declared_pods *pods)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct ledger_share *all;
        size_t count = ledger_shares(pods->core, &scratch, &all);

        for (size_t i = 0; i < count; i++)
                if (all[i].shared->resource->provisioning == PROVISIONING_DECLARED && is_unread(pods, all[i].holder) &&
                        !declared_containers_is_asked_about(pods->containers, &all[i]))
                        return all[i].holder;
        return NULL;
}

/* Its pod may have a volume at /dev/shm. Pods of containers that declare their share are read for that. */
static const struct holder *find_unseen(const struct declared_pods *pods)
{
        const struct holders *holders = holdings_holders(&pods->core->holdings);
        const struct holder *held;
        size_t count = holders ? holders_containers(holders, &held) : 0;

        for (size_t i = 0; i < count; i++) {
                const struct mps_resource *shared = mps_resources_find(&pods->core->resources, held[i].resource);

                if (shared && shared->resource->provisioning != PROVISIONING_DECLARED && held[i].pod &&
                        held[i].pod_uid && !map_find(&pods->seen, held[i].pod_uid))
                        return &held[i];
        }
        return NULL;
}

/* One pod at a time; the next one with kubelet's next list, or at once after one that was read for its volumes. */
void declared_pods_read_next(struct declared_pods *pods)
{
        const struct holder *holder;
        struct pod_read *read;

        if (!pods->core->plan || pods->core->is_closing)
                return;
        declared_containers_forget_ended(pods->containers);
        declared_containers_report_room(pods->containers);
        if (!pod_source_can_ask(&pods->core->pods, "") || is_reading(pods))
                return;
        holder = find_unread(pods);
        if (holder) {
                declared_pods_read_named(new_read(pods), holder);
                return;
        }
        holder = find_unseen(pods);
        if (!holder)
                return;
        note_pod_seen(pods, holder->pod_uid);
        read = new_read(pods);
        read->is_for_shm = true;
        declared_pods_read_named(read, holder);
}

/* Starts that wait are answered yet. All other pods are read again when this agent serves again. */
void declared_pods_forget(struct declared_pods *pods)
{
        struct list *next;

        for (struct list *at = pods->reads.next; at != &pods->reads; at = next) {
                struct pod_read *read = container_of(at, struct pod_read, link);

                next = at->next;
                if (!read->started)
                        free_read(read);
        }
        forget_seen(pods);
}

/* ---- begin and end ---- */

void declared_pods_init(struct declared_pods *pods)
{
        list_init(&pods->reads);
        uv_timer_init(pods->core->options.loop, &pods->timer);
}

void declared_pods_close(struct declared_pods *pods, struct closing *closing)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping; kubelet will ask again");
        while (!list_is_empty(&pods->reads)) {
                struct pod_read *read = container_of(pods->reads.next, struct pod_read, link);

                if (read->started)
                        read->started(&err, read->context);
                free_read(read);
        }
        forget_seen(pods);
        closing_close(closing, &pods->timer);
}
