// SPDX-License-Identifier: Apache-2.0
#include "node/kubelet/convert.h"

#include <string.h>

#include <deviceplugin.pb-c.h>

#include "base/text.h"
#include "base/strbuf.h"
#include "net/rpc/message.h"
#include "plan/allocate.h"

/* protobuf-c's structs have char * for strings that it only reads; packing never writes through them. */
static char *borrow(const char *text)
{
        union {
                const char *in;
                char *out;
        } pun = {.in = text};

        return pun.out;
}

struct rpc_message *convert_empty(void)
{
        V1beta1__Empty empty = V1BETA1__EMPTY__INIT;

        return protobuf_pack(&empty.base);
}

static V1beta1__DevicePluginOptions make_options(bool asks_at_start)
{
        V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

        options.get_preferred_allocation_available = true;
        options.pre_start_required = asks_at_start;
        return options;
}

struct rpc_message *convert_options(bool asks_at_start)
{
        V1beta1__DevicePluginOptions options = make_options(asks_at_start);

        return protobuf_pack(&options.base);
}

struct rpc_message *convert_register_request(const char *endpoint, const char *resource_name, bool asks_at_start)
{
        V1beta1__RegisterRequest request;
        V1beta1__DevicePluginOptions options = make_options(asks_at_start);

        v1beta1__register_request__init(&request);
        request.version = borrow("v1beta1");
        request.endpoint = borrow(endpoint);
        request.resource_name = borrow(resource_name);
        request.options = &options;
        return protobuf_pack(&request.base);
}

/* The NUMA node of a unit, in kubelet's form; all replicas of a unit share it. */
struct numa {
        V1beta1__TopologyInfo topology;
        V1beta1__NUMANode node;
        V1beta1__NUMANode *nodes[1];
};

static void fill_numa(struct numa *numa, int node)
{
        v1beta1__topology_info__init(&numa->topology);
        v1beta1__numanode__init(&numa->node);
        numa->node.id = node;
        numa->nodes[0] = &numa->node;
        numa->topology.n_nodes = 1;
        numa->topology.nodes = numa->nodes;
}

static char *say_health(bool is_usable)
{
        return borrow(is_usable ? "Healthy" : "Unhealthy");
}

struct rpc_message *convert_device_list(
        const struct resource *resource, const bool *usable, const struct convert_retired *retired, size_t n_retired)
{
        V1beta1__ListAndWatchResponse response = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
        size_t count = resource->n_devices + n_retired;
        struct arena scratch = ARENA_INIT;
        V1beta1__Device *devices = ARENA_ARRAY(&scratch, V1beta1__Device, count);
        struct numa *numas = ARENA_ARRAY(&scratch, struct numa, resource->n_units);
        struct rpc_message *message;

        response.devices = ARENA_ARRAY(&scratch, V1beta1__Device *, count);
        response.n_devices = count;
        for (size_t i = 0; i < resource->n_units; i++)
                fill_numa(&numas[i], resource->units[i].gpu->numa_node);
        for (size_t i = 0; i < count; i++) {
                v1beta1__device__init(&devices[i]);
                response.devices[i] = &devices[i];
                if (i < resource->n_devices) {
                        const struct device *device = &resource->devices[i];

                        devices[i].id = borrow(device->id);
                        devices[i].health = say_health(usable[i]);
                        /*
                         * An unknown node must give no topology at all: kubelet interprets a node -1 or an empty list
                         * differently.
                         */
                        if (resource->units[device->unit].gpu->numa_node >= 0)
                                devices[i].topology = &numas[device->unit].topology;
                } else {
                        devices[i].id = retired[i - resource->n_devices].id;
                        devices[i].health = say_health(retired[i - resource->n_devices].usable);
                }
        }
        message = protobuf_pack(&response.base);
        arena_done(&scratch);
        return message;
}

static int convert_check_containers(size_t count, struct error *err)
{
        if (count <= CONVERT_MAX_CONTAINERS)
                return 0;
        return error_set(
                err, ERROR_INVALID, "%zu containers in one request, at most %zu", count, CONVERT_MAX_CONTAINERS);
}

int convert_allocate_request(struct container_ids **ret, size_t *ret_count, struct arena *arena, const uint8_t *bytes,
        size_t size, struct error *err)
{
        const V1beta1__AllocateRequest *request = (const V1beta1__AllocateRequest *)protobuf_unpack(
                &v1beta1__allocate_request__descriptor, arena, CONVERT_MEMORY_LIMIT, bytes, size, err);
        struct container_ids *containers;

        if (!request || convert_check_containers(request->n_container_requests, err) < 0)
                return -1;
        containers = ARENA_ARRAY(arena, struct container_ids, request->n_container_requests);
        for (size_t i = 0; i < request->n_container_requests; i++) {
                containers[i].ids = (const char *const *)request->container_requests[i]->devices_ids;
                containers[i].n_ids = request->container_requests[i]->n_devices_ids;
        }
        *ret = containers;
        *ret_count = request->n_container_requests;
        return 0;
}

static void fill_environment(
        V1beta1__ContainerAllocateResponse *container, const struct allocate_answer *answer, struct arena *scratch)
{
        container->n_envs = answer->n_environment;
        container->envs = ARENA_ARRAY(scratch, V1beta1__ContainerAllocateResponse__EnvsEntry *, answer->n_environment);
        for (size_t i = 0; i < answer->n_environment; i++) {
                V1beta1__ContainerAllocateResponse__EnvsEntry *entry =
                        ARENA_NEW(scratch, V1beta1__ContainerAllocateResponse__EnvsEntry);

                v1beta1__container_allocate_response__envs_entry__init(entry);
                entry->key = borrow(answer->environment[i].name);
                entry->value = borrow(answer->environment[i].value);
                container->envs[i] = entry;
        }
}

static void fill_annotations(
        V1beta1__ContainerAllocateResponse *container, const struct allocate_answer *answer, struct arena *scratch)
{
        container->n_annotations = answer->n_annotations;
        container->annotations =
                ARENA_ARRAY(scratch, V1beta1__ContainerAllocateResponse__AnnotationsEntry *, answer->n_annotations);
        for (size_t i = 0; i < answer->n_annotations; i++) {
                V1beta1__ContainerAllocateResponse__AnnotationsEntry *entry =
                        ARENA_NEW(scratch, V1beta1__ContainerAllocateResponse__AnnotationsEntry);

                v1beta1__container_allocate_response__annotations_entry__init(entry);
                entry->key = borrow(answer->annotations[i].name);
                entry->value = borrow(answer->annotations[i].value);
                container->annotations[i] = entry;
        }
}

static void fill_mounts(
        V1beta1__ContainerAllocateResponse *container, const struct allocate_answer *answer, struct arena *scratch)
{
        container->n_mounts = answer->n_mounts;
        container->mounts = ARENA_ARRAY(scratch, V1beta1__Mount *, answer->n_mounts);
        for (size_t i = 0; i < answer->n_mounts; i++) {
                V1beta1__Mount *mount = ARENA_NEW(scratch, V1beta1__Mount);

                v1beta1__mount__init(mount);
                mount->container_path = borrow(answer->mounts[i].container_path);
                mount->host_path = borrow(answer->mounts[i].host_path);
                mount->read_only = answer->mounts[i].read_only;
                container->mounts[i] = mount;
        }
}

static void fill_nodes(
        V1beta1__ContainerAllocateResponse *container, const struct allocate_answer *answer, struct arena *scratch)
{
        container->n_devices = answer->n_nodes;
        container->devices = ARENA_ARRAY(scratch, V1beta1__DeviceSpec *, answer->n_nodes);
        for (size_t i = 0; i < answer->n_nodes; i++) {
                V1beta1__DeviceSpec *node = ARENA_NEW(scratch, V1beta1__DeviceSpec);

                v1beta1__device_spec__init(node);
                node->container_path = borrow(answer->nodes[i].container_path);
                node->host_path = borrow(answer->nodes[i].host_path);
                node->permissions = borrow(answer->nodes[i].permissions);
                container->devices[i] = node;
        }
}

static void fill_cdi_devices(
        V1beta1__ContainerAllocateResponse *container, const struct allocate_answer *answer, struct arena *scratch)
{
        container->n_cdi_devices = answer->n_cdi_devices;
        container->cdi_devices = ARENA_ARRAY(scratch, V1beta1__CDIDevice *, answer->n_cdi_devices);
        for (size_t i = 0; i < answer->n_cdi_devices; i++) {
                V1beta1__CDIDevice *device = ARENA_NEW(scratch, V1beta1__CDIDevice);

                v1beta1__cdidevice__init(device);
                device->name = borrow(answer->cdi_devices[i]);
                container->cdi_devices[i] = device;
        }
}

static void fill_container(
        V1beta1__ContainerAllocateResponse *container, const struct allocate_answer *answer, struct arena *scratch)
{
        v1beta1__container_allocate_response__init(container);
        fill_environment(container, answer, scratch);
        fill_mounts(container, answer, scratch);
        fill_nodes(container, answer, scratch);
        fill_annotations(container, answer, scratch);
        fill_cdi_devices(container, answer, scratch);
}

struct rpc_message *convert_allocate_response(
        const struct allocate_answer *answers, size_t count, struct arena *scratch)
{
        V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
        V1beta1__ContainerAllocateResponse *containers =
                ARENA_ARRAY(scratch, V1beta1__ContainerAllocateResponse, count);

        response.n_container_responses = count;
        response.container_responses = ARENA_ARRAY(scratch, V1beta1__ContainerAllocateResponse *, count);
        for (size_t i = 0; i < count; i++) {
                fill_container(&containers[i], &answers[i], scratch);
                response.container_responses[i] = &containers[i];
        }
        return protobuf_pack(&response.base);
}

/* The CDI device that is named after the allocation, alone or among others: no UUID begins with a lower-case letter. */
static void note_allocation(const char **ret_allocation, struct arena *arena, const char *names)
{
        static const char prefix[] = CDI_KIND_MPS "=g";
        const char *at = strstr(names, prefix);

        if (!at)
                return;
        at += sizeof(prefix) - 2;
        *ret_allocation = arena_strndup(arena, at, strcspn(at, ","));
}

/* The fields that may contain the UUID of a unit: a variable, a CDI device, a mount. */
static void add_texts(struct strbuf *texts, struct arena *arena, const V1beta1__ContainerAllocateResponse *answer,
        const char **ret_allocation)
{
        for (size_t i = 0; i < answer->n_envs; i++) {
                if (strcmp(answer->envs[i]->key, "WARPSHARE_GRANT") == 0)
                        *ret_allocation = answer->envs[i]->value;
                strbuf_printf(texts, "%s\n", answer->envs[i]->value);
        }
        for (size_t i = 0; i < answer->n_cdi_devices; i++) {
                note_allocation(ret_allocation, arena, answer->cdi_devices[i]->name);
                strbuf_printf(texts, "%s\n", answer->cdi_devices[i]->name);
        }
        for (size_t i = 0; i < answer->n_annotations; i++) {
                note_allocation(ret_allocation, arena, answer->annotations[i]->value);
                strbuf_printf(texts, "%s\n", answer->annotations[i]->value);
        }
        for (size_t i = 0; i < answer->n_mounts; i++)
                strbuf_printf(texts, "%s\n", answer->mounts[i]->host_path);
}

void convert_read_answer(const char *base64, struct arena *arena, const char **ret_allocation, const char **ret_texts)
{
        _cleanup_(strbuf_done) struct strbuf texts = STRBUF_INIT;
        size_t length = strlen(base64);
        unsigned char *bytes = ARENA_ARRAY(arena, unsigned char, length);
        const V1beta1__ContainerAllocateResponse *answer;
        struct error err;
        size_t size;

        if (!base64_decode(base64, length, bytes, &size))
                return;
        answer = (const V1beta1__ContainerAllocateResponse *)protobuf_unpack(
                &v1beta1__container_allocate_response__descriptor, arena, CONVERT_MEMORY_LIMIT, bytes, size, &err);
        if (!answer)
                return;
        add_texts(&texts, arena, answer, ret_allocation);
        *ret_texts = arena_strdup(arena, texts.data);
}

int convert_start_request(
        struct container_ids *ret, struct arena *arena, const uint8_t *bytes, size_t size, struct error *err)
{
        const V1beta1__PreStartContainerRequest *request = (const V1beta1__PreStartContainerRequest *)protobuf_unpack(
                &v1beta1__pre_start_container_request__descriptor, arena, CONVERT_MEMORY_LIMIT, bytes, size, err);

        if (!request)
                return -1;
        *ret = (struct container_ids){
                .ids = (const char *const *)request->devices_ids, .n_ids = request->n_devices_ids};
        return 0;
}

int convert_prefer_request(struct prefer_request **ret, size_t *ret_count, struct arena *arena, const uint8_t *bytes,
        size_t size, struct error *err)
{
        const V1beta1__PreferredAllocationRequest *request =
                (const V1beta1__PreferredAllocationRequest *)protobuf_unpack(
                        &v1beta1__preferred_allocation_request__descriptor, arena, CONVERT_MEMORY_LIMIT, bytes, size,
                        err);
        struct prefer_request *containers;

        if (!request || convert_check_containers(request->n_container_requests, err) < 0)
                return -1;
        containers = ARENA_ARRAY(arena, struct prefer_request, request->n_container_requests);
        for (size_t i = 0; i < request->n_container_requests; i++) {
                const V1beta1__ContainerPreferredAllocationRequest *container = request->container_requests[i];

                if (container->allocation_size < 0)
                        return error_set(err, ERROR_INVALID, "allocation_size: %d, must not be negative",
                                container->allocation_size);
                containers[i] = (struct prefer_request){
                        .available = (const char *const *)container->available_deviceids,
                        .n_available = container->n_available_deviceids,
                        .required = (const char *const *)container->must_include_deviceids,
                        .n_required = container->n_must_include_deviceids,
                        .size = (size_t)container->allocation_size,
                };
        }
        *ret = containers;
        *ret_count = request->n_container_requests;
        return 0;
}

struct rpc_message *convert_prefer_response(const struct container_ids *containers, size_t count, struct arena *scratch)
{
        V1beta1__PreferredAllocationResponse response = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
        V1beta1__ContainerPreferredAllocationResponse *answers =
                ARENA_ARRAY(scratch, V1beta1__ContainerPreferredAllocationResponse, count);

        response.n_container_responses = count;
        response.container_responses = ARENA_ARRAY(scratch, V1beta1__ContainerPreferredAllocationResponse *, count);
        for (size_t i = 0; i < count; i++) {
                v1beta1__container_preferred_allocation_response__init(&answers[i]);
                answers[i].n_deviceids = containers[i].n_ids;
                answers[i].deviceids = ARENA_ARRAY(scratch, char *, containers[i].n_ids);
                for (size_t j = 0; j < containers[i].n_ids; j++)
                        answers[i].deviceids[j] = borrow(containers[i].ids[j]);
                response.container_responses[i] = &answers[i];
        }
        return protobuf_pack(&response.base);
}
