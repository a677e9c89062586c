#include "node/ledger/own_shm.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"

#define READ_MS UINT64_C(4000)
/* A pod's further containers and mounts are ignored. */
#define CONTAINERS_MAX ((size_t)128)
#define MOUNTS_MAX ((size_t)512)
/* At most so many pods are remembered; then all are forgotten and read again. */
#define PODS_MAX ((size_t)4096)

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

static bool own_shm_is_by_mps(const struct ledger_core *core, const char *pod_uid, const char *container)
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

static void report_container(const struct ledger_core *core, const struct node_event_pod *pod, const char *name)
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

static void own_shm_check_containers(
        const struct ledger_core *core, const struct node_event_pod *pod, const json_t *object)
{
        const json_t *containers = object_find(object, "spec", "containers", NULL);

        for (size_t i = 0; i < MIN(json_array_size(containers), CONTAINERS_MAX); i++) {
                const json_t *container = json_array_get(containers, i);
                const char *name = object_text(container, "name", NULL);

                if (name && has_own_shm(container) && own_shm_is_by_mps(core, pod->uid, name))
                        report_container(core, pod, name);
        }
}

static void on_pod_with_mps(const struct kube_answer *answer, void *data)
{
        struct own_shm *own_shm = data;
        const struct node_event_pod *pod = &own_shm->pod;

        own_shm->call = NULL;
        if (answer->error)
                log_debug("whether a pod has a volume of its own at /dev/shm is not known", LOG_STR("pod", pod->name),
                        LOG_ERR(answer->error));
        else if (text_is_same(object_text(answer->object, "metadata", "uid", NULL), pod->uid))
                own_shm_check_containers(own_shm->core, pod, answer->object);
        own_shm_read_next(own_shm);
}

/* |uid| is not there yet. Returns the copy of it. */
static const char *note_pod(struct own_shm *own_shm, const char *uid)
{
        const char *copy;

        if (own_shm->pods.count >= PODS_MAX)
                own_shm_forget(own_shm);
        copy = arena_strdup(&own_shm->arena, uid);
        map_add(&own_shm->pods, copy, own_shm);
        return copy;
}

static void own_shm_read(struct own_shm *own_shm, const struct holder *holder)
{
        const char *uid = note_pod(own_shm, holder->pod_uid);
        struct arena *arena = &own_shm->arena;
        _free_ char *collection = object_collection("/api/v1", holder->pod_namespace, "pods");
        _free_ char *path = object_path(collection, holder->pod);

        own_shm->pod = (struct node_event_pod){
                arena_strdup(arena, holder->pod_namespace), arena_strdup(arena, holder->pod), uid};
        own_shm->call = kube_client_send(own_shm->core->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                                .path = path,
                                                                                .timeout_ms = READ_MS,
                                                                                .done = on_pod_with_mps,
                                                                                .data = own_shm});
}

void own_shm_check(struct own_shm *own_shm, const struct node_event_pod *pod, const json_t *object)
{
        if (!pod->uid || map_find(&own_shm->pods, pod->uid))
                return;
        note_pod(own_shm, pod->uid);
        own_shm_check_containers(own_shm->core, pod, object);
}

/* Pods of containers that declare their share are read when they start: declared_pods.c. */
static bool is_to_be_read(const struct own_shm *own_shm, const struct holder *held)
{
        const struct mps_resource *shared = mps_resources_find(&own_shm->core->resources, held->resource);

        return shared && shared->resource->provisioning != PROVISIONING_DECLARED && held->pod && held->pod_uid &&
               !map_find(&own_shm->pods, held->pod_uid);
}

void own_shm_read_next(struct own_shm *own_shm)
{
        const struct holders *holders = holdings_holders(&own_shm->core->holdings);
        const struct holder *held;
        size_t count;

        if (!own_shm->core->options.client || own_shm->call || !holders)
                return;
        count = holders_containers(holders, &held);
        for (size_t i = 0; i < count; i++)
                if (is_to_be_read(own_shm, &held[i])) {
                        own_shm_read(own_shm, &held[i]);
                        return;
                }
}

void own_shm_init(struct own_shm *own_shm, const struct ledger_core *core)
{
        *own_shm = (struct own_shm){.core = core};
}

void own_shm_forget(struct own_shm *own_shm)
{
        kube_call_cancel(TAKE_PTR(own_shm->call));
        map_done(&own_shm->pods);
        arena_done(&own_shm->arena);
        own_shm->pod = (struct node_event_pod){NULL, NULL, NULL};
}
