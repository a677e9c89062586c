// SPDX-License-Identifier: Apache-2.0
/*
 * Pods, and v1.PodResourcesLister/List: which devices each pod holds. A pod has one container, and no NUMA node is
 * listed.
 */
#include <string.h>

#include <podresources.pb-c.h>

#include "sim/kubelet/internal.h"

/* ---- who holds what ---- */

struct pod *pod_new(struct kubelet *kubelet, const char *name)
{
        struct pod *pod = xcalloc(1, sizeof(*pod));

        pod->name = arena_strdup(&pod->arena, name);
        pod->uid = arena_printf(&pod->arena, "00000000-0000-4000-8000-%012u", ++kubelet->n_pods);
        list_init(&pod->held);
        list_append(&kubelet->pods, &pod->link);
        return pod;
}

void pod_free(struct pod *pod)
{
        list_remove(&pod->link);
        LIST_FOR_EACH(link, &pod->held)
                v1beta1__allocate_response__free_unpacked(container_of(link, struct held, link)->response, NULL);
        arena_done(&pod->arena);
        free(pod);
}

static bool holds(const struct pod *pod, const char *id)
{
        LIST_FOR_EACH(link, &pod->held) {
                const struct held *held = container_of(link, struct held, link);

                for (size_t i = 0; i < held->n_ids; i++)
                        if (strcmp(held->ids[i], id) == 0)
                                return true;
        }
        return false;
}

const struct pod *pod_of_device(const struct kubelet *kubelet, const char *id)
{
        LIST_FOR_EACH(link, &kubelet->pods) {
                const struct pod *pod = container_of(link, struct pod, link);

                if (holds(pod, id))
                        return pod;
        }
        return NULL;
}

const char *kubelet_pod_uid(const struct kubelet *kubelet, const char *pod)
{
        const char *uid = NULL;

        LIST_FOR_EACH(link, &kubelet->pods) {
                const struct pod *one = container_of(link, struct pod, link);

                if (strcmp(one->name, pod) == 0)
                        uid = one->uid;
        }
        return uid;
}

/* ---- List ---- */

/* protobuf-c's structs have char * for texts that it only reads. */
static char *as_mutable(const char *text)
{
        return (char *)(uintptr_t)text;
}

/* One entry for each device, as in kubelet's answer. */
static void add_devices(struct arena *scratch, V1__ContainerResources *container, const struct held *held)
{
        for (size_t i = 0; i < held->n_ids; i++) {
                V1__ContainerDevices *devices = ARENA_NEW(scratch, V1__ContainerDevices);

                v1__container_devices__init(devices);
                devices->resource_name = as_mutable(held->resource);
                devices->n_device_ids = 1;
                devices->device_ids = &held->ids[i];
                container->devices[container->n_devices++] = devices;
        }
}

static V1__PodResources *make_pod(struct arena *scratch, const struct pod *source)
{
        V1__PodResources *pod = ARENA_NEW(scratch, V1__PodResources);
        V1__ContainerResources *container = ARENA_NEW(scratch, V1__ContainerResources);
        size_t n_ids = 0;

        v1__pod_resources__init(pod);
        v1__container_resources__init(container);
        pod->name = source->name;
        pod->namespace_ = as_mutable("default");
        pod->n_containers = 1;
        pod->containers = ARENA_NEW(scratch, V1__ContainerResources *);
        pod->containers[0] = container;
        container->name = as_mutable(CONTAINER);
        LIST_FOR_EACH(link, &source->held)
                n_ids += container_of(link, struct held, link)->n_ids;
        container->devices = ARENA_ARRAY(scratch, V1__ContainerDevices *, n_ids);
        LIST_FOR_EACH(link, &source->held)
                add_devices(scratch, container, container_of(link, struct held, link));
        return pod;
}

static void fill(V1__ListPodResourcesResponse *response, struct arena *scratch, const struct list *pods)
{
        size_t count = 0;

        LIST_FOR_EACH(link, pods)
                count++;
        response->pod_resources = ARENA_ARRAY(scratch, V1__PodResources *, count);
        LIST_FOR_EACH(link, pods)
                response->pod_resources[response->n_pod_resources++] =
                        make_pod(scratch, container_of(link, struct pod, link));
}

void pods_handle_list(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        const struct kubelet *kubelet = context;
        V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
        struct arena scratch = ARENA_INIT;
        struct rpc_message *answer;

        fill(&response, &scratch, &kubelet->pods);
        answer = message_pack(&response.base);
        rpc_call_send(call, answer);
        rpc_message_unref(answer);
        rpc_call_finish(call, RPC_OK, NULL);
        arena_done(&scratch);
}
