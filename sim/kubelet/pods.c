/*
 * v1.PodResourcesLister/List: what each pod holds. A pod has one container, and no NUMA node is told.
 */
#include <string.h>

#include <podresources.pb-c.h>

#include "sim/kubelet/internal.h"

/* protobuf-c's structs have char * where they only read. */
static char *borrow(const char *text)
{
        return (char *)(uintptr_t)text;
}

static V1__PodResources *add_pod(struct arena *scratch, const struct held *held, size_t most)
{
        V1__PodResources *pod = ARENA_NEW(scratch, V1__PodResources);
        V1__ContainerResources *container = ARENA_NEW(scratch, V1__ContainerResources);

        v1__pod_resources__init(pod);
        v1__container_resources__init(container);
        pod->name = held->pod;
        pod->namespace_ = borrow("default");
        pod->n_containers = 1;
        pod->containers = ARENA_NEW(scratch, V1__ContainerResources *);
        pod->containers[0] = container;
        container->name = borrow("main");
        container->devices = ARENA_ARRAY(scratch, V1__ContainerDevices *, most);
        return pod;
}

static void add_device(struct arena *scratch, V1__ContainerResources *container, struct held *held)
{
        V1__ContainerDevices *devices = ARENA_NEW(scratch, V1__ContainerDevices);

        v1__container_devices__init(devices);
        devices->resource_name = held->resource;
        devices->n_device_ids = 1;
        devices->device_ids = &held->id;
        container->devices[container->n_devices++] = devices;
}

/* What one pod holds stands together: it was admitted once. */
static void fill(V1__ListPodResourcesResponse *response, struct arena *scratch, const struct list *all)
{
        size_t most = 0;

        LIST_FOR_EACH(link, all)
                most++;
        response->pod_resources = ARENA_ARRAY(scratch, V1__PodResources *, most);
        LIST_FOR_EACH(link, all) {
                struct held *held = container_of(link, struct held, link);
                V1__PodResources *last =
                        response->n_pod_resources ? response->pod_resources[response->n_pod_resources - 1] : NULL;

                if (!last || strcmp(last->name, held->pod) != 0)
                        last = response->pod_resources[response->n_pod_resources++] = add_pod(scratch, held, most);
                add_device(scratch, last->containers[0], held);
                most--;
        }
}

void pods_handle_list(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        const struct kubelet *kubelet = context;
        V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
        struct arena scratch = ARENA_INIT;
        struct rpc_message *answer;

        fill(&response, &scratch, &kubelet->held);
        answer = rpc_message_new(v1__list_pod_resources_response__get_packed_size(&response));
        v1__list_pod_resources_response__pack(&response, rpc_message_payload(answer));
        rpc_call_send(call, answer);
        rpc_message_unref(answer);
        rpc_call_finish(call, RPC_OK, NULL);
        arena_done(&scratch);
}
