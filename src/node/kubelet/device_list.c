// SPDX-License-Identifier: Apache-2.0
#include "node/kubelet/device_list.h"

#include <string.h>

void device_list_done(struct device_list *list)
{
        for (size_t i = 0; i < list->n_retired; i++)
                free(list->retired[i].id);
        free(list->retired);
        free(list->healthy);
        free(list->fell);
        free(list->usable);
        *list = (struct device_list)DEVICE_LIST_INIT;
}

/*
 * Retires the ids of |previous| that |resource| does not have. None of them is retired yet, since an id that |previous|
 * brought back was removed from the retired ones then. So no search is needed, and removing 50,000 ids costs no more
 * than keeping them.
 */
static void retire(struct device_list *list, const struct resource *previous, const struct resource *resource)
{
        size_t count = 0;

        for (size_t i = 0; i < previous->n_devices; i++)
                count += !map_find(&resource->by_id, previous->devices[i].id);
        if (count == 0)
                return;
        list->retired = xrealloc(list->retired, (list->n_retired + count) * sizeof(*list->retired));
        for (size_t i = 0; i < previous->n_devices; i++)
                if (!map_find(&resource->by_id, previous->devices[i].id))
                        list->retired[list->n_retired++] =
                                (struct convert_retired){xstrdup(previous->devices[i].id), false};
}

/* An id that is in use again is not retired any more. */
static void remove_from_retired(struct device_list *list, const struct resource *resource)
{
        size_t kept = 0;

        for (size_t i = 0; i < list->n_retired; i++) {
                if (map_find(&resource->by_id, list->retired[i].id))
                        free(list->retired[i].id);
                else
                        list->retired[kept++] = list->retired[i];
        }
        list->n_retired = kept;
}

/*
 * Adds the ids that are held under the previous sharing policy: they are listed, but no new container gets one. After a
 * restart of the agent they are not listed yet.
 */
static void device_list_add_draining(struct device_list *list, const struct resource *resource)
{
        _cleanup_(map_done) struct map known = MAP_INIT;

        if (resource->n_draining == 0)
                return;
        for (size_t i = 0; i < list->n_retired; i++)
                map_add(&known, list->retired[i].id, list);
        for (size_t i = 0; i < resource->n_draining; i++) {
                const struct resource *draining = &resource->draining[i];

                list->retired =
                        xrealloc(list->retired, (list->n_retired + draining->n_devices) * sizeof(*list->retired));
                for (size_t j = 0; j < draining->n_devices; j++) {
                        const char *id = draining->devices[j].id;

                        if (!map_find(&resource->by_id, id) && map_add(&known, id, list))
                                list->retired[list->n_retired++] = (struct convert_retired){xstrdup(id), false};
                }
        }
}

/* If there are more ids than one message can carry, drops the oldest retired ones, which are most likely free. */
static void device_list_forget_oldest(struct device_list *list, size_t n_devices)
{
        size_t room = PLAN_MAX_DEVICES - n_devices;
        size_t excess = list->n_retired > room ? list->n_retired - room : 0;

        for (size_t i = 0; i < excess; i++)
                free(list->retired[i].id);
        list->n_retired -= excess;
        if (excess)
                memmove(list->retired, list->retired + excess, list->n_retired * sizeof(*list->retired));
}

bool device_list_update(struct device_list *list, const struct resource *resource, const struct unit_health *health,
        const bool *unavailable)
{
        const struct resource *previous = list->resource;
        bool changed = !previous || !resource_is_same(previous, resource);

        if (changed) {
                if (previous)
                        retire(list, previous, resource);
                remove_from_retired(list, resource);
                device_list_add_draining(list, resource);
                device_list_forget_oldest(list, resource->n_devices);
                free(list->healthy);
                free(list->fell);
                free(list->usable);
                list->healthy = xcalloc(resource->n_units, sizeof(*list->healthy));
                list->fell = xcalloc(resource->n_units, sizeof(*list->fell));
                list->usable = xcalloc(resource->n_devices, sizeof(*list->usable));
        }
        list->resource = resource;
        return device_list_refresh(list, health, unavailable) || changed;
}

static bool is_in_use(const struct resource *resource, const char *id, const struct unit_health *health)
{
        for (size_t i = 0; i < resource->n_draining; i++) {
                const struct resource *draining = &resource->draining[i];
                const struct device *device = map_find(&draining->by_id, id);

                if (device)
                        return draining->unavailable && !draining->unavailable[device - draining->devices] &&
                               !unit_health_find(health, draining->units[device->unit].uuid);
        }
        return false;
}

bool device_list_refresh(struct device_list *list, const struct unit_health *health, const bool *unavailable)
{
        const struct resource *resource = list->resource;
        bool changed = false;

        for (size_t i = 0; resource && i < resource->n_units; i++) {
                bool healthy = !unit_health_find(health, resource->units[i].uuid);

                list->fell[i] = list->healthy[i] && !healthy;
                list->healthy[i] = healthy;
        }
        for (size_t i = 0; resource && i < resource->n_devices; i++) {
                bool usable = list->healthy[resource->devices[i].unit] && !(unavailable && unavailable[i]) &&
                              !(resource->unavailable && resource->unavailable[i]);

                changed = changed || usable != list->usable[i];
                list->usable[i] = usable;
        }
        for (size_t i = 0; resource && i < list->n_retired; i++) {
                bool usable = is_in_use(resource, list->retired[i].id, health);

                changed = changed || usable != list->retired[i].usable;
                list->retired[i].usable = usable;
        }
        return changed;
}

struct device_list_counts device_list_count(const struct device_list *list)
{
        struct device_list_counts counts = {0};

        for (size_t i = 0; i < list->n_retired; i++)
                if (list->retired[i].usable)
                        counts.healthy++;
                else
                        counts.unhealthy++;
        for (size_t i = 0; list->resource && i < list->resource->n_devices; i++) {
                if (list->usable[i])
                        counts.healthy++;
                else if (list->healthy[list->resource->devices[i].unit])
                        counts.reserved++;
                else
                        counts.unhealthy++;
        }
        return counts;
}

struct rpc_message *device_list_pack(const struct device_list *list)
{
        return convert_device_list(list->resource, list->usable, list->retired, list->n_retired);
}
