// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's answer to List. What is read from it must hold what the header promises: each container has a device, each
 * device is there once in a pod, and begins as was asked for.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/map.h"
#include "node/kubelet/pod_resources.h"

#define PREFIX "nvidia.com/"

static void check(const struct pod_list *list, struct arena *arena)
{
        struct map seen = MAP_INIT;

        for (size_t i = 0; i < list->n_containers; i++) {
                const struct pod_container *container = &list->containers[i];

                assert(container->pod_namespace && container->pod && container->container);
                assert(container->n_devices > 0);
                for (size_t j = 0; j < container->n_devices; j++) {
                        const struct held_device *device = &container->devices[j];
                        /* None can have a byte 0; whatever else they have, the lengths tell one from the other. */
                        char *key = arena_printf(arena, "%zu %zu %zu %s %s %s %s", strlen(container->pod_namespace),
                                strlen(container->pod), strlen(device->resource), container->pod_namespace,
                                container->pod, device->resource, device->id);

                        assert(strncmp(device->resource, PREFIX, strlen(PREFIX)) == 0);
                        assert(map_add(&seen, key, key));
                }
        }
        map_done(&seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct pod_list list;
        struct error err;

        if (pod_list_read(&list, &arena, PREFIX, data, size, &err) == 0)
                check(&list, &arena);
        else
                assert(err.kind == ERROR_INVALID);
        arena_done(&arena);
        return 0;
}
