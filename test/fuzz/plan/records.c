// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the record of the grants, of the terms, or as kubelet's checkpoint; the first byte says
 * which. What was read of the former is written, read again and must be the same; then the books go through a request
 * and a list.
 *
 *         tools/fuzz 60 fuzz-plan-records
 */
#include <stdlib.h>
#include <string.h>

#include "plan/checkpoint.h"
#include "plan/allocations.h"
#include "plan/sharing_policy.h"

#define REPLICAS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct unit units[] = {
        {.uuid = "A", .replicas = REPLICAS}, {.uuid = "B", .replicas = REPLICAS, .first_device = REPLICAS}};
static const struct device devices[] = {{"A::0", 0, 0}, {"A::1", 0, 1}, {"A::2", 0, 2}, {"A::3", 0, 3}, {"B::0", 1, 0},
        {"B::1", 1, 1}, {"B::2", 1, 2}, {"B::3", 1, 3}};

static void make_resource(struct resource *resource)
{
        *resource = (struct resource){.name = "nvidia.com/gpu",
                .units = units,
                .n_units = ARRAY_SIZE(units),
                .devices = devices,
                .n_devices = ARRAY_SIZE(devices)};
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
                map_add(&resource->by_id, devices[i].id, (void *)(uintptr_t)&devices[i]);
}

static void on_released(const char *id, void *data)
{
        (void)id;
        (void)data;
}

static void use(struct allocations *allocations)
{
        static const char *const ids[] = {"A::3", "B::0"};
        const struct allocations_held held = {.devices = ids, .n_devices = ARRAY_SIZE(ids)};
        const struct allocation *allocation;
        struct error err;

        allocations_set_unit_health(allocations, "B", false);
        if (allocations_make(allocations, ids, ARRAY_SIZE(ids), (struct allocations_moment){1, 1}, "g",
                    ALLOCATIONS_BEFORE_KUBELET, &allocation, &err) == 0 &&
                strcmp(allocation->unit, "A") != 0)
                abort();
        allocations_sync(allocations, &held, 1, INT64_MAX, on_released, NULL);
        if (allocations_count(allocations) != 1 || !allocations_of_device(allocations, "B::0"))
                abort();
}

static void read_allocations(const char *text, size_t size)
{
        struct resource resource;
        struct allocations *allocations;
        struct error err;

        make_resource(&resource);
        allocations = allocations_new(&resource, 2);
        if (allocations_read(allocations, text, size, 0, &err) == 0) {
                struct allocations *again = allocations_new(&resource, 2);
                char *first = allocations_write_all(&(const struct allocations *){allocations}, 1);
                char *second;

                if (allocations_read(again, first, strlen(first), 0, &err) < 0)
                        abort();
                second = allocations_write_all(&(const struct allocations *){again}, 1);
                if (strcmp(first, second) != 0)
                        abort();
                free(first);
                free(second);
                allocations_free(again);
                use(allocations);
        }
        allocations_free(allocations);
        map_done(&resource.by_id);
}

static void read_checkpoint(const char *text, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct checkpoint checkpoint;
        struct error err;

        if (checkpoint_read(&checkpoint, &arena, "n", text, size, &err) == 0)
                for (size_t i = 0; i < checkpoint.n_entries; i++)
                        if (checkpoint.entries[i].n_devices == 0 || checkpoint.entries[i].resource[0] != 'n')
                                abort();
        arena_done(&arena);
}

static void read_policy(const char *text, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct sharing_policy_list list;
        struct sharing_policy_list again;
        const char *const *names;
        size_t n_names;
        struct error err;

        if (sharing_policy_read(&list, &names, &n_names, &arena, text, size, &err) == 0) {
                char *first = sharing_policy_write(&list, names, n_names);

                if (sharing_policy_read(&again, &names, &n_names, &arena, first, strlen(first), &err) < 0 ||
                        again.count != list.count)
                        abort();
                free(first);
        }
        arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        if (data[0] == 'g')
                read_allocations((const char *)data + 1, size - 1);
        else if (data[0] == 't')
                read_policy((const char *)data + 1, size - 1);
        else
                read_checkpoint((const char *)data + 1, size - 1);
        return 0;
}
