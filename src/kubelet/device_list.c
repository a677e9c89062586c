#include "kubelet/device_list.h"

#include <string.h>

#include "kubelet/convert.h"

void device_list_done(struct device_list *list)
{
        for (size_t i = 0; i < list->n_retired; i++)
                free(list->retired[i]);
        free(list->retired);
        free(list->healthy);
        *list = (struct device_list)DEVICE_LIST_INIT;
}

static void retire(struct device_list *list, const char *id)
{
        for (size_t i = 0; i < list->n_retired; i++)
                if (strcmp(list->retired[i], id) == 0)
                        return;
        list->retired = xrealloc(list->retired, (list->n_retired + 1) * sizeof(*list->retired));
        list->retired[list->n_retired++] = xstrdup(id);
}

/* An id that came back is no longer retired. */
static void revive(struct device_list *list, const struct resource *resource)
{
        size_t kept = 0;

        for (size_t i = 0; i < list->n_retired; i++) {
                if (map_find(&resource->by_id, list->retired[i]))
                        free(list->retired[i]);
                else
                        list->retired[kept++] = list->retired[i];
        }
        list->n_retired = kept;
}

bool device_list_update(
        struct device_list *list, const struct resource *resource, device_list_health_fn *health, void *data)
{
        const struct resource *before = list->resource;
        bool changed = !before || !resource_is_same(before, resource);

        if (changed) {
                for (size_t i = 0; before && i < before->n_devices; i++)
                        if (!map_find(&resource->by_id, before->devices[i].id))
                                retire(list, before->devices[i].id);
                revive(list, resource);
                free(list->healthy);
                list->healthy = xcalloc(resource->n_units, sizeof(*list->healthy));
        }
        list->resource = resource;
        return device_list_refresh(list, health, data) || changed;
}

bool device_list_refresh(struct device_list *list, device_list_health_fn *health, void *data)
{
        bool changed = false;

        for (size_t i = 0; list->resource && i < list->resource->n_units; i++) {
                bool healthy = health(&list->resource->units[i], data);

                changed = changed || healthy != list->healthy[i];
                list->healthy[i] = healthy;
        }
        return changed;
}

struct device_list_counts device_list_count(const struct device_list *list)
{
        struct device_list_counts counts = {.unhealthy = list->n_retired};

        for (size_t i = 0; list->resource && i < list->resource->n_devices; i++) {
                if (list->healthy[list->resource->devices[i].unit])
                        counts.healthy++;
                else
                        counts.unhealthy++;
        }
        return counts;
}

struct rpc_message *device_list_pack(const struct device_list *list)
{
        return convert_device_list(list->resource, list->healthy, (const char *const *)list->retired, list->n_retired);
}
