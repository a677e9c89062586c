/*
 * Prints what the node offers by DRA: a row a device, or the ResourceSlices.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/cli/columns.h"
#include "cmd/plan/view.h"
#include "node/dra/slices.h"

#define MIB (UINT64_C(1) << 20)
#define UNKNOWN_NODE "node" /* where the node has no name yet */

static uint64_t dra_consumed(const struct dra_device *device, const char *counter)
{
        for (size_t i = 0; i < device->n_consumes; i++)
                if (strcmp(device->consumes[i].name, counter) == 0)
                        return device->consumes[i].value;
        return 0;
}

bool plan_dra_excludes(const struct dra_device *a, const struct dra_device *b)
{
        const struct dra_counter_set *set = a->counter_set;

        if (!set || set != b->counter_set || strcmp(a->name, b->name) == 0)
                return false;
        for (size_t i = 0; i < set->n_counters; i++)
                if (dra_consumed(a, set->counters[i].name) + dra_consumed(b, set->counters[i].name) >
                        set->counters[i].value)
                        return true;
        return false;
}

/* "79296 MiB (9912)", "100 % (10)", "4 (1)"; "-" for what the device does not have. */
static void add_capacity(
        struct columns *columns, const struct dra_device *device, const char *name, uint64_t one, const char *what)
{
        const struct dra_capacity *capacity = dra_device_capacity(device, name);

        if (!capacity)
                columns_add(columns, "-");
        else if (capacity->has_policy)
                columns_add(
                        columns, "%" PRIu64 "%s (%" PRIu64 ")", capacity->value / one, what, capacity->preset / one);
        else
                columns_add(columns, "%" PRIu64 "%s", capacity->value / one, what);
}

static void add_excluded(struct columns *columns, const struct dra_layout *layout, const struct dra_device *device)
{
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;

        for (size_t i = 0; i < layout->n_devices; i++)
                if (plan_dra_excludes(device, &layout->devices[i]))
                        strbuf_printf(&list, "%s%s", list.size ? ", " : "", layout->devices[i].name);
        columns_add(columns, "%s", list.size ? list.data : "-");
}

void plan_dra_print(struct strbuf *text, const struct dra_layout *layout, bool has_colours)
{
        static const struct column list[] = {{"DEVICE", false}, {"KIND", false}, {"MEMORY", true}, {"THREADS", true},
                {"CLIENTS", true}, {"SLOTS", true}, {"EXCLUDES", false}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < layout->n_devices; i++) {
                const struct dra_device *device = &layout->devices[i];

                columns_add(&columns, "%s", device->name);
                columns_add(&columns, "%s", dra_device_kind_name(device->kind));
                add_capacity(&columns, device, DRA_CAPACITY_MEMORY, MIB, " MiB");
                add_capacity(&columns, device, DRA_CAPACITY_THREADS, 1, " %");
                add_capacity(&columns, device, DRA_CAPACITY_CLIENTS, 1, "");
                add_capacity(&columns, device, DRA_CAPACITY_SLOTS, 1, "");
                add_excluded(&columns, layout, device);
        }
        columns_print(text, &columns, "  ", has_colours);
        columns_done(&columns);
}

json_t *plan_dra_slices(const struct plan_view *view)
{
        const struct config *config = view->plan->config;
        const char *node = *config->node.name ? config->node.name : UNKNOWN_NODE;
        _free_ char *pool = dra_pool_name(config->dra.driver_name, node);
        const struct dra_slices_options options = {.driver = config->dra.driver_name,
                .node = node,
                .pool = pool,
                .api = DRA_API_V1,
                .counters_apart = true,
                .has_taints = true};
        json_t *slices = dra_slices_build(view->dra, &options);
        json_t *objects = json_array();
        json_t *slice;
        size_t i;

        json_array_foreach(slices, i, slice)
        {
                json_array_append_new(
                        objects, json_pack("{s: s, s: s, s: {s: O}, s: O}", "apiVersion", "resource.k8s.io/v1", "kind",
                                         "ResourceSlice", "metadata", "name", json_object_get(slice, "name"), "spec",
                                         json_object_get(slice, "spec")));
        }
        json_decref(slices);
        return objects;
}
