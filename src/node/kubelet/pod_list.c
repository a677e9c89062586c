/*
 * kubelet's answer is a tree: pods, containers, and an entry per device and NUMA node. It is flattened and sorted by
 * id, then pod, so that duplicates stand together; the rest is then counted per container and distributed.
 */
#include <string.h>

#include <podresources.pb-c.h>

#include "node/kubelet/pod_resources.h"
#include "node/kubelet/protobuf.h"

/* About 300 bytes for each of 100,000 devices; also bounds a message made to use much memory. */
#define MEMORY_LIMIT ((size_t)64 * 1024 * 1024)

struct entry {
        struct held_device device;
        const V1__PodResources *pod;
        size_t container; /* its position among all containers */
};

struct flat {
        struct pod_container *containers;
        size_t n_containers;
        struct entry *entries;
        size_t n_entries;
};

/* The first pass counts, the second fills in. */
static void add_entries(
        struct flat *flat, const char *prefix, const V1__PodResources *pod, const V1__ContainerResources *container)
{
        for (size_t i = 0; i < container->n_devices; i++) {
                const V1__ContainerDevices *devices = container->devices[i];

                if (strncmp(devices->resource_name, prefix, strlen(prefix)) != 0)
                        continue;
                for (size_t j = 0; flat->entries && j < devices->n_device_ids; j++)
                        flat->entries[flat->n_entries + j] = (struct entry){
                                .device = {.resource = devices->resource_name, .id = devices->device_ids[j]},
                                .pod = pod,
                                .container = flat->n_containers,
                        };
                flat->n_entries += devices->n_device_ids;
        }
}

static void lay_flat(struct flat *flat, const char *prefix, const V1__ListPodResourcesResponse *response)
{
        flat->n_containers = flat->n_entries = 0;
        for (size_t i = 0; i < response->n_pod_resources; i++) {
                const V1__PodResources *pod = response->pod_resources[i];

                for (size_t j = 0; j < pod->n_containers; j++) {
                        add_entries(flat, prefix, pod, pod->containers[j]);
                        if (flat->containers)
                                flat->containers[flat->n_containers] = (struct pod_container){
                                        .pod_namespace = pod->namespace_,
                                        .pod = pod->name,
                                        .container = pod->containers[j]->name,
                                };
                        flat->n_containers++;
                }
        }
}

/* By device, then pod. */
static int compare_holdings(const struct entry *a, const struct entry *b)
{
        int order = strcmp(a->device.resource, b->device.resource);

        if (!order)
                order = strcmp(a->device.id, b->device.id);
        if (!order)
                order = strcmp(a->pod->namespace_, b->pod->namespace_);
        return order ? order : strcmp(a->pod->name, b->pod->name);
}

static int compare_entries(const void *left, const void *right)
{
        const struct entry *a = left;
        const struct entry *b = right;
        int order = compare_holdings(a, b);

        return order ? order : (a->container > b->container) - (a->container < b->container);
}

/*
 * If one pod has an id several times, only its last entry stays: kubelet lists an id once for each NUMA node, and a
 * later container may have the device of an earlier one. If two pods have the id, both entries stay;
 * node/kubelet/holders.h reports the fault.
 */
static void drop_repeated(struct flat *flat)
{
        size_t kept = 0;

        if (flat->n_entries)
                qsort(flat->entries, flat->n_entries, sizeof(*flat->entries), compare_entries);
        for (size_t i = 0; i < flat->n_entries; i++)
                if (i + 1 == flat->n_entries || compare_holdings(&flat->entries[i], &flat->entries[i + 1]) != 0)
                        flat->entries[kept++] = flat->entries[i];
        flat->n_entries = kept;
}

/* Gives each container its part of one array. */
static void count_out(const struct flat *flat, struct arena *arena)
{
        struct held_device *devices = ARENA_ARRAY(arena, struct held_device, flat->n_entries);
        struct held_device **next = ARENA_ARRAY(arena, struct held_device *, flat->n_containers);

        for (size_t i = 0; i < flat->n_entries; i++)
                flat->containers[flat->entries[i].container].n_devices++;
        for (size_t i = 0; i < flat->n_containers; i++) {
                flat->containers[i].devices = next[i] = devices;
                devices += flat->containers[i].n_devices;
        }
        for (size_t i = 0; i < flat->n_entries; i++)
                *next[flat->entries[i].container]++ = flat->entries[i].device;
}

int pod_list_read(struct pod_list *ret, struct arena *arena, const char *prefix, const uint8_t *message, size_t size,
        struct error *err)
{
        const V1__ListPodResourcesResponse *response = (const V1__ListPodResourcesResponse *)protobuf_unpack(
                &v1__list_pod_resources_response__descriptor, arena, MEMORY_LIMIT, message, size, err);
        struct flat flat = {0};
        size_t kept = 0;

        if (!response)
                return -1;
        lay_flat(&flat, prefix, response);
        flat.containers = ARENA_ARRAY(arena, struct pod_container, flat.n_containers);
        flat.entries = ARENA_ARRAY(arena, struct entry, flat.n_entries);
        lay_flat(&flat, prefix, response);
        drop_repeated(&flat);
        count_out(&flat, arena);
        for (size_t i = 0; i < flat.n_containers; i++)
                if (flat.containers[i].n_devices)
                        flat.containers[kept++] = flat.containers[i];
        *ret = (struct pod_list){.containers = flat.containers, .n_containers = kept};
        return 0;
}
