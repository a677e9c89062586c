/*
 * Containers under MPS whose pod has a volume of its own at /dev/shm. kubelet puts a pod's volumes behind the mounts of
 * device plugins, so the pod's counts there, and CUDA ends with error 805: client and server share memory by that
 * folder. Only the pod's specification says so; each pod that holds something by MPS is read once, if the agent may
 * read pods, after kubelet has listed it.
 */
#include "node/ledger/parts.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"

#define OWN_SHM_READ_MS UINT64_C(4000)
/* Of a pod; more are ignored. */
#define OWN_SHM_CONTAINERS ((size_t)128)
#define OWN_SHM_MOUNTS ((size_t)512)
/* How many pods are remembered; then they are read once more. */
#define OWN_SHM_PODS ((size_t)4096)

static bool has_own_shm(const json_t *container)
{
        const json_t *mounts = json_object_get(container, "volumeMounts");

        for (size_t i = 0; i < MIN(json_array_size(mounts), OWN_SHM_MOUNTS); i++) {
                const char *path = object_text(json_array_get(mounts, i), "mountPath", NULL);

                if (text_is_same(path, "/dev/shm") || text_is_same(path, "/dev/shm/"))
                        return true;
        }
        return false;
}

static bool is_by_mps(const struct ledger *ledger, const char *pod_uid, const char *container)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct holder_devices *held;
        size_t count = ledger->holders ? holders_containers(ledger->holders, &arena, &held) : 0;

        for (size_t i = 0; i < count; i++)
                if (ledger_find_shared(ledger, held[i].resource) && text_is_same(held[i].holder->pod_uid, pod_uid) &&
                        text_is_same(held[i].holder->container, container))
                        return true;
        return false;
}

static void report_container(struct ledger *ledger, const struct node_event_pod *pod, const char *name)
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
        node_events_report(ledger->options.events, NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN, "%s", text);
        node_events_report_pod(ledger->options.events, pod, NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN, "%s", text);
}

static void judge(struct ledger *ledger, const struct node_event_pod *pod, const json_t *object)
{
        const json_t *containers = object_find(object, "spec", "containers", NULL);

        for (size_t i = 0; i < MIN(json_array_size(containers), OWN_SHM_CONTAINERS); i++) {
                const json_t *container = json_array_get(containers, i);
                const char *name = object_text(container, "name", NULL);

                if (name && has_own_shm(container) && is_by_mps(ledger, pod->uid, name))
                        report_container(ledger, pod, name);
        }
}

static void on_pod_with_mps(const struct kube_answer *answer, void *data)
{
        struct ledger *ledger = data;
        const struct node_event_pod *pod = &ledger->shm_pod;

        ledger->shm_call = NULL;
        if (answer->error)
                log_debug("whether a pod has a volume of its own at /dev/shm is not known", LOG_STR("pod", pod->name),
                        LOG_ERR(answer->error));
        else if (text_is_same(object_text(answer->object, "metadata", "uid", NULL), pod->uid))
                judge(ledger, pod, answer->object);
        ledger_look_for_own_shm(ledger);
}

/* |uid| is not there yet. Returns the copy of it. */
static const char *note_pod(struct ledger *ledger, const char *uid)
{
        const char *copy;

        if (ledger->shm_pods.count >= OWN_SHM_PODS)
                ledger_forget_own_shm(ledger);
        copy = arena_strdup(&ledger->shm_arena, uid);
        map_add(&ledger->shm_pods, copy, ledger);
        return copy;
}

static void read_pod(struct ledger *ledger, const struct holder *holder)
{
        const char *uid = note_pod(ledger, holder->pod_uid);
        struct arena *arena = &ledger->shm_arena;
        _free_ char *collection = object_collection("/api/v1", holder->pod_namespace, "pods");
        _free_ char *path = object_path(collection, holder->pod);

        ledger->shm_pod = (struct node_event_pod){
                arena_strdup(arena, holder->pod_namespace), arena_strdup(arena, holder->pod), uid};
        ledger->shm_call = kube_client_send(ledger->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                            .path = path,
                                                                            .timeout_ms = OWN_SHM_READ_MS,
                                                                            .done = on_pod_with_mps,
                                                                            .data = ledger});
}

void ledger_judge_own_shm(struct ledger *ledger, const struct node_event_pod *pod, const json_t *object)
{
        if (!pod->uid || map_find(&ledger->shm_pods, pod->uid))
                return;
        note_pod(ledger, pod->uid);
        judge(ledger, pod, object);
}

/* Pods of containers that declare their share are read when they start: declared_pods.c. */
static bool is_to_be_read(const struct ledger *ledger, const struct holder_devices *held)
{
        const struct ledger_resource *shared = ledger_find_shared(ledger, held->resource);

        return shared && shared->resource->provisioning != PROVISIONING_DECLARED && held->holder->pod &&
               held->holder->pod_uid && !map_find(&ledger->shm_pods, held->holder->pod_uid);
}

void ledger_look_for_own_shm(struct ledger *ledger)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct holder_devices *held;
        size_t count;

        if (!ledger->options.client || ledger->shm_call || !ledger->holders)
                return;
        count = holders_containers(ledger->holders, &arena, &held);
        for (size_t i = 0; i < count; i++)
                if (is_to_be_read(ledger, &held[i])) {
                        read_pod(ledger, held[i].holder);
                        return;
                }
}

void ledger_forget_own_shm(struct ledger *ledger)
{
        kube_call_cancel(TAKE_PTR(ledger->shm_call));
        map_done(&ledger->shm_pods);
        arena_done(&ledger->shm_arena);
        ledger->shm_pod = (struct node_event_pod){NULL, NULL, NULL};
}
