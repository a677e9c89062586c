#include "node/dra/slices.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/hash.h"
#include "node/dra/slices_device.h"
#include "net/kube/object.h"

#define HASH_DIGITS 8
#define NODE_TEXT_MAX 160 /* of the node's name in the name of a slice, which has at most 253 characters */

static const char *const api_names[] = {
        [DRA_API_V1] = "v1", [DRA_API_V1BETA2] = "v1beta2", [DRA_API_V1BETA1] = "v1beta1"};

const char *dra_api_name(enum dra_api api)
{
        assert(api < ARRAY_SIZE(api_names));
        return api_names[api];
}

static bool serves(const json_t *group, const char *version)
{
        size_t i;
        json_t *item;

        json_array_foreach(json_object_get(group, "versions"), i, item)
        {
                const char *name = object_text(item, "version", NULL);

                if (name && strcmp(name, version) == 0)
                        return true;
        }
        return false;
}

bool dra_api_of(enum dra_api *ret, const json_t *group)
{
        for (enum dra_api api = DRA_API_V1; api <= DRA_API_V1BETA1; api++)
                if (serves(group, dra_api_name(api))) {
                        *ret = api;
                        return true;
                }
        return false;
}

char *dra_api_slices(enum dra_api api)
{
        return xasprintf(DRA_API_GROUP "/%s/resourceslices", dra_api_name(api));
}

char *dra_pool_name(const char *driver, const char *node)
{
        return strlen(node) + 1 + strlen(driver) <= DRA_POOL_MAX ? xasprintf("%s/%s", node, driver) : xstrdup(node);
}

/* ---- slices ---- */

struct pool {
        const struct dra_layout *layout;
        const struct dra_slices_options *options;
        json_t *slices;
        json_t **of_gpus; /* attributes of each GPU of the inventory; NULL: not needed so far */
        size_t n_gpus;
        struct dra_slices_memory memory;
        char hash[SHA256_HEX + 1]; /* of driver and node: "a" on "b-c" is not "a-b" on "c" */
        json_t *sets;              /* of the slice that is being filled; NULL: none yet */
        json_t *devices;
        size_t n_counters;
};

static json_t *slices_name_of(const struct pool *pool)
{
        size_t length = MIN(strlen(pool->options->node), (size_t)NODE_TEXT_MAX);

        while (length > 0 && strchr(".-", pool->options->node[length - 1]))
                length--;
        return json_sprintf("%05zu-%s-%.*s-%.*s", json_array_size(pool->slices), pool->options->driver, (int)length,
                pool->options->node, HASH_DIGITS, pool->hash);
}

/* Ends the slice that is being filled, if it has anything. */
static void pool_cut(struct pool *pool)
{
        json_t *spec;

        if (!pool->sets && !pool->devices)
                return;
        spec = json_pack("{s: s, s: s, s: {s: s, s: i, s: i}}", "driver", pool->options->driver, "nodeName",
                pool->options->node, "pool", "name", pool->options->pool, "generation", 0, "resourceSliceCount", 0);
        if (pool->sets)
                json_object_set_new(spec, "sharedCounters", pool->sets);
        if (pool->devices)
                json_object_set_new(spec, "devices", pool->devices);
        json_array_append_new(pool->slices, json_pack("{s: o, s: o}", "name", slices_name_of(pool), "spec", spec));
        pool->sets = pool->devices = NULL;
        pool->n_counters = 0;
}

static void pool_add_set(struct pool *pool, const struct dra_counter_set *set)
{
        if (!pool->sets)
                pool->sets = json_array();
        json_array_append_new(pool->sets, dra_slices_set(set));
        pool->n_counters += set->n_counters;
}

static void pool_add_device(struct pool *pool, const struct dra_device *device)
{
        json_t **of_gpu = &pool->of_gpus[device->position];

        if (dra_slices_leaves_out(pool->options, device))
                return;
        if (!pool->devices)
                pool->devices = json_array();
        if (!*of_gpu)
                *of_gpu = dra_slices_attributes(pool->layout->inventory, device->gpu);
        json_array_append_new(pool->devices, dra_slices_device(pool->options, &pool->memory, device, *of_gpu));
}

static void fill_apart(struct pool *pool)
{
        const struct dra_layout *layout = pool->layout;
        size_t most =
                layout->n_counter_sets > 0 || pool->options->has_taints ? DRA_SLICE_RICH_DEVICES : DRA_SLICE_DEVICES;

        for (size_t i = 0; i < layout->n_counter_sets; i++) {
                if (json_array_size(pool->sets) == DRA_SLICE_SETS)
                        pool_cut(pool);
                pool_add_set(pool, &layout->counter_sets[i]);
        }
        pool_cut(pool);
        for (size_t i = 0; i < layout->n_devices; i++) {
                if (json_array_size(pool->devices) == most)
                        pool_cut(pool);
                pool_add_device(pool, &layout->devices[i]);
        }
        pool_cut(pool);
}

static const struct dra_counter_set *set_of_gpu(const struct dra_layout *layout, size_t position)
{
        for (size_t i = 0; i < layout->n_devices; i++)
                if (layout->devices[i].position == position && layout->devices[i].counter_set)
                        return layout->devices[i].counter_set;
        return NULL;
}

static size_t count_of_gpu(const struct dra_layout *layout, size_t position)
{
        size_t count = 0;

        for (size_t i = 0; i < layout->n_devices; i++)
                count += layout->devices[i].position == position;
        return count;
}

/* Fills slices GPU by GPU; devices of a GPU beyond the 64 of a slice are left out. */
static void fill_together(struct pool *pool)
{
        const struct dra_layout *layout = pool->layout;

        for (size_t position = 0; position < layout->inventory->n_gpus; position++) {
                const struct dra_counter_set *set = set_of_gpu(layout, position);
                size_t n_counters = set ? set->n_counters : 0;

                if (json_array_size(pool->devices) + count_of_gpu(layout, position) > DRA_SLICE_RICH_DEVICES ||
                        json_array_size(pool->sets) == DRA_SLICE_SETS ||
                        pool->n_counters + n_counters > DRA_SLICE_COUNTERS)
                        pool_cut(pool);
                if (set)
                        pool_add_set(pool, set);
                for (size_t i = 0; i < layout->n_devices; i++)
                        if (layout->devices[i].position == position &&
                                json_array_size(pool->devices) < DRA_SLICE_RICH_DEVICES)
                                pool_add_device(pool, &layout->devices[i]);
        }
        pool_cut(pool);
}

static void pool_init(struct pool *pool, const struct dra_layout *layout, const struct dra_slices_options *options)
{
        _free_ char *both = xasprintf("%s/%s", options->driver, options->node);

        *pool = (struct pool){.layout = layout,
                .options = options,
                .slices = json_array(),
                .of_gpus = xcalloc(layout->inventory->n_gpus, sizeof(*pool->of_gpus)),
                .n_gpus = layout->inventory->n_gpus};
        sha256_hex(both, strlen(both), pool->hash);
}

static json_t *pool_finish(struct pool *pool)
{
        size_t count = json_array_size(pool->slices);
        size_t i;
        json_t *slice;

        json_array_foreach(pool->slices, i, slice) json_object_set_new(
                object_find(slice, "spec", "pool", NULL), "resourceSliceCount", json_integer((json_int_t)count));
        for (i = 0; i < pool->n_gpus; i++)
                json_decref(pool->of_gpus[i]);
        free(pool->of_gpus);
        dra_slices_memory_done(&pool->memory);
        return pool->slices;
}

json_t *dra_slices_build(const struct dra_layout *layout, const struct dra_slices_options *options)
{
        struct pool pool;

        pool_init(&pool, layout, options);
        if (options->counters_apart || layout->n_counter_sets == 0)
                fill_apart(&pool);
        else
                fill_together(&pool);
        return pool_finish(&pool);
}

json_t *dra_slices_probe(const struct dra_slices_options *options)
{
        static const struct dra_counter counter = {.name = "unit", .value = 1};
        static const struct dra_counter_set set = {.name = "probe-counters", .counters = &counter, .n_counters = 1};
        static const struct dra_capacity slots = {
                .name = DRA_CAPACITY_SLOTS, .value = 1, .has_policy = true, .preset = 1, .min = 1, .max = 1};
        static const struct dra_taint taint = {
                .uuid = "probe", .key = DRA_DRIVER "/probe", .value = "", .effect = DRA_EFFECT_NO_SCHEDULE};
        struct gpu gpu = inventory_unknown_gpu("probe");
        const struct inventory inventory = {.gpus = &gpu, .n_gpus = 1};
        const struct dra_device device = {.name = "probe",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "probe",
                .gpu = &gpu,
                .allows_multiple = true,
                .capacities = &slots,
                .n_capacities = 1,
                .counter_set = &set,
                .consumes = &counter,
                .n_consumes = 1};
        const struct dra_layout layout = {.inventory = &inventory};
        struct dra_slices_options with_taint = *options;
        struct pool pool;
        json_t *slices;
        json_t *probe;

        with_taint.has_taints = true;
        with_taint.taints = &taint;
        with_taint.n_taints = 1;
        pool_init(&pool, &layout, &with_taint);
        if (!options->counters_apart)
                pool_add_set(&pool, &set);
        pool_add_device(&pool, &device);
        pool_cut(&pool);
        slices = pool_finish(&pool);
        probe = json_incref(json_array_get(slices, 0));
        json_decref(slices);
        return probe;
}

void dra_slices_set_object(
        json_t *object, const struct dra_slices_options *options, const char *name, const char *owner_uid, json_t *spec)
{
        json_t *metadata;

        json_object_set_new(object, "apiVersion", json_sprintf("resource.k8s.io/%s", dra_api_name(options->api)));
        json_object_set_new(object, "kind", json_string("ResourceSlice"));
        metadata = object_make(object, "metadata", NULL);
        json_object_set_new(metadata, "name", json_string(name));
        json_object_set_new(metadata, "ownerReferences",
                json_pack("[{s: s, s: s, s: s, s: s, s: b}]", "apiVersion", "v1", "kind", "Node", "name", options->node,
                        "uid", owner_uid, "controller", 1));
        json_object_del(metadata, "managedFields");
        json_object_set(object, "spec", spec);
}
