#include "node/ledger/declared_pods.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/ledger/container_start.h"

/* kubelet's list takes 5 s at most, and kubelet waits for 30 s. */
#define READ_MS INT64_C(4000)
#define TICK_MS UINT64_C(250)
/* A pod that was read for one resource of a container counts this long for the others, whose requests follow. */
#define FRESH_MS INT64_C(5000)

/* A start that waits for its pod; or, without |started|, a pod that is read for the limit monitor. */
struct pod_read {
        struct list link;
        struct declared_pods *pods;
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

static void free_read(struct pod_read *read)
{
        kube_call_cancel(read->call);
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

        if (!holdings_read_record(&read->pods->core->holdings, &arena, &record))
                return;
        for (size_t i = 0; i < record.n_entries; i++)
                if (is_meant(read, &record.entries[i]))
                        note_container(read, &record.entries[i], pod, reason);
        if (pod)
                own_shm_check(read->pods->own_shm, &read->pod, pod);
        if (!read->started)
                container_start_note_shares(read->pods->start, &record, read->pod.uid);
}

/* |pod| and |reason| NULL: the present knowledge of the pod counts. */
static void finish_read(struct pod_read *read, const json_t *pod, const char *reason)
{
        struct declared_pods *pods = read->pods;
        struct error err;
        bool failed = false;

        if (pods->core->plan && (pod || reason))
                take_pod(read, pod, reason);
        if (read->started) {
                failed = container_start_now(pods->start, read->resource, read->ids, read->n_ids, &err) < 0;
                read->started(failed ? &err : NULL, read->context);
        }
        free_read(read);
        if (pods->core->plan)
                declared_room_report(pods->room);
}

static void declared_pods_on_pod(const struct kube_answer *answer, void *data)
{
        struct pod_read *read = data;
        const char *uid = object_text(answer->object, "metadata", "uid", NULL);

        read->call = NULL;
        if (answer->error)
                finish_read(read, NULL, answer->error->text);
        else if (!uid || (read->pod.uid && strcmp(uid, read->pod.uid) != 0))
                finish_read(read, NULL, "the API server has another pod of its name");
        else
                finish_read(read, answer->object, NULL);
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
        _free_ char *collection = object_collection("/api/v1", holder->pod_namespace, "pods");
        _free_ char *path = object_path(collection, holder->pod);
        uv_timer_t *timer = &read->pods->timer;

        read->pod = (struct node_event_pod){.namespace = arena_strdup(&read->arena, holder->pod_namespace),
                .name = arena_strdup(&read->arena, holder->pod),
                .uid = arena_strdup(&read->arena, holder->pod_uid)};
        read->deadline = ledger_clock(core) + READ_MS;
        read->call = kube_client_send(core->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                    .path = path,
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
        if (!pods->core->options.client)
                finish_read(read, NULL, "the agent does not use the API server (--node-name, --kubeconfig)");
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

static const struct holder *find_unread(const struct declared_pods *pods)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct mps_resources_allocation *all;
        size_t count = mps_resources_allocations(&pods->core->resources, &scratch, &all);

        for (size_t i = 0; i < count; i++) {
                const struct holder *holder = ledger_holder_of(pods->core, all[i].shared, all[i].allocation);

                if (all[i].shared->resource->provisioning == PROVISIONING_DECLARED && is_unread(pods, holder) &&
                        !declared_containers_is_asked_about(pods->containers, all[i].shared, all[i].allocation))
                        return holder;
        }
        return NULL;
}

/* One pod at a time; the next with kubelet's next list. */
void declared_pods_read_next(struct declared_pods *pods)
{
        const struct holder *holder;

        if (!pods->core->plan || pods->core->is_closing)
                return;
        declared_containers_forget_ended(pods->containers);
        declared_room_report(pods->room);
        if (!pods->core->options.client || is_reading(pods))
                return;
        holder = find_unread(pods);
        if (holder)
                declared_pods_read_named(new_read(pods), holder);
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
        closing_close(closing, &pods->timer);
}
