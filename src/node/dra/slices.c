// SPDX-License-Identifier: Apache-2.0
#include "node/dra/slices.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/hash.h"
#include "base/text.h"
#include "gpu/nvml_abi.h"
#include "net/kube/object.h"
#include "node/cdi/metadata.h"

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

static const char *const effects[] = {
        [DRA_EFFECT_NONE] = "None", [DRA_EFFECT_NO_SCHEDULE] = "NoSchedule", [DRA_EFFECT_NO_EXECUTE] = "NoExecute"};

/* ---- quantities ---- */

/* A quantity in the form in which the API server writes it. */
static json_t *quantity(uint64_t value, bool is_binary)
{
        static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
        static const char *const decimal[] = {"", "k", "M", "G", "T", "P"};
        uint64_t step = is_binary ? 1024 : 1000;
        size_t power = 0;
        char text[32];

        while (value > 0 && value % step == 0 && power + 1 < ARRAY_SIZE(binary)) {
                value /= step;
                power++;
        }
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)value, is_binary ? binary[power] : decimal[power]);
        return json_string_nocheck(text);
}

/* {key: value}. There are tens of thousands of these, and json_pack() is slow because it parses a format each time. */
static json_t *pair(const char *key, json_t *value)
{
        json_t *object = json_object();

        json_object_set_new_nocheck(object, key, value);
        return object;
}

/* ---- attributes ---- */

/*
 * The attribute |type|. For whole GPUs and MIG devices it is NVIDIA's word, so that NVIDIA's classes select these and
 * no other device.
 */
static const char *type_of(const struct dra_device *device)
{
        switch (device->kind) {
        case DRA_DEVICE_WHOLE:
                return "gpu";
        case DRA_DEVICE_SHARED:
        case DRA_DEVICE_SHARE:
                return device->mig ? "shared-mig" : "shared-gpu";
        case DRA_DEVICE_TIMESLICE:
                return device->mig ? "timeslice-mig" : "timeslice-gpu";
        case DRA_DEVICE_MIG:
        case DRA_DEVICE_MIG_CANDIDATE:
                return "mig";
        }
        return NULL;
}

/* The attributes of |device|, which include those of |of_gpu|. */
static json_t *make_attributes(const struct dra_device *device, json_t *of_gpu)
{
        json_t *attributes = json_object();

        metadata_put_string(attributes, "type", type_of(device));
        if (!device->profile)
                metadata_put_string(attributes, "uuid", device->uuid);
        if (device->mig || device->profile)
                metadata_put_part(
                        attributes, device->gpu, device->profile ? device->profile->name : device->mig->profile);
        json_object_update(attributes, of_gpu);
        return attributes;
}

/* ---- devices ---- */

static json_t *policy_of(const struct dra_capacity *capacity)
{
        json_t *preset = quantity(capacity->preset, capacity->is_binary);

        if (capacity->step == 0)
                return json_pack("{s: o, s: [O]}", "default", preset, "validValues", preset);
        return json_pack("{s: o, s: {s: o, s: o, s: o}}", "default", preset, "validRange", "min",
                quantity(capacity->min, capacity->is_binary), "max", quantity(capacity->max, capacity->is_binary),
                "step", quantity(capacity->step, capacity->is_binary));
}

static json_t *make_capacity(const struct dra_device *device)
{
        json_t *capacities = json_object();

        for (size_t i = 0; i < device->n_capacities; i++) {
                const struct dra_capacity *capacity = &device->capacities[i];
                json_t *object = pair("value", quantity(capacity->value, capacity->is_binary));

                if (capacity->has_policy)
                        json_object_set_new(object, "requestPolicy", policy_of(capacity));
                json_object_set_new_nocheck(capacities, capacity->name, object);
        }
        return capacities;
}

static json_t *counters_of(const struct dra_counter *counters, size_t n_counters)
{
        json_t *object = json_object();

        for (size_t i = 0; i < n_counters; i++)
                json_object_set_new_nocheck(object, counters[i].name,
                        pair("value", quantity(counters[i].value, strcmp(counters[i].name, DRA_COUNTER_MEMORY) == 0)));
        return object;
}

/* |value| is in MiB (|is_memory|), or in thousandths of a CPU. */
static json_t *host_quantity(uint64_t value, bool is_memory)
{
        if (is_memory)
                return quantity(value << 20, true);
        return value % 1000 == 0 ? quantity(value / 1000, false) : json_sprintf("%llum", (unsigned long long)value);
}

static void put_overhead(json_t *resources, const char *name, uint64_t pod, uint64_t container, bool is_memory)
{
        json_t *overhead = json_object();

        if (pod > 0)
                json_object_set_new(overhead, "perPod", host_quantity(pod, is_memory));
        if (container > 0)
                json_object_set_new(overhead, "perContainer", host_quantity(container, is_memory));
        if (json_object_size(overhead) > 0)
                json_object_set_new(resources, name, json_pack("{s: O}", "overhead", overhead));
        json_decref(overhead);
}

static json_t *node_resources_of(const struct dra_overhead *overhead)
{
        json_t *resources = json_object();

        put_overhead(resources, "memory", overhead->pod_mib, overhead->container_mib, true);
        put_overhead(resources, "cpu", overhead->pod_milli, overhead->container_milli, false);
        return resources;
}

static json_t *make_consumed(const struct dra_device *device)
{
        return counters_of(device->consumes, device->n_consumes);
}

/*
 * JSON that is the same for many devices is made once, and stands in the tree several times: the parts of a GPU that
 * MIG can make are the same on each GPU of a model, and its attributes on each of its places. It must not be changed
 * after that.
 */
struct alike {
        const struct dra_device *device; /* the first that has it */
        json_t *json;
};

struct alikes {
        struct alike *all;
        size_t count;
};

static void alikes_done(struct alikes *alikes)
{
        for (size_t i = 0; i < alikes->count; i++)
                json_decref(alikes->all[i].json);
        free(alikes->all);
}

static json_t *alikes_find(struct alikes *alikes, const struct dra_device *device,
        bool (*is_same)(const struct dra_device *a, const struct dra_device *b),
        json_t *(*make)(const struct dra_device *device))
{
        for (size_t i = 0; i < alikes->count; i++)
                if (is_same(alikes->all[i].device, device))
                        return json_incref(alikes->all[i].json);
        alikes->all = xrealloc(alikes->all, (alikes->count + 1) * sizeof(*alikes->all));
        alikes->all[alikes->count] = (struct alike){device, make(device)};
        return json_incref(alikes->all[alikes->count++].json);
}

static bool has_same_capacity(const struct dra_device *a, const struct dra_device *b)
{
        if (a->n_capacities != b->n_capacities)
                return false;
        for (size_t i = 0; i < a->n_capacities; i++) {
                const struct dra_capacity *one = &a->capacities[i], *other = &b->capacities[i];

                if (one->value != other->value || one->is_binary != other->is_binary ||
                        one->has_policy != other->has_policy || one->preset != other->preset ||
                        one->min != other->min || one->max != other->max || one->step != other->step ||
                        strcmp(one->name, other->name) != 0)
                        return false;
        }
        return true;
}

static bool consumes_same(const struct dra_device *a, const struct dra_device *b)
{
        if (a->n_consumes != b->n_consumes)
                return false;
        for (size_t i = a->n_consumes; i > 0; i--) /* the last ones are the places, which differ most often */
                if (a->consumes[i - 1].value != b->consumes[i - 1].value ||
                        strcmp(a->consumes[i - 1].name, b->consumes[i - 1].name) != 0)
                        return false;
        return true;
}

static bool taint_is_about(const struct dra_taint *taint, const struct dra_device *device)
{
        return strcmp(taint->uuid, device->uuid) == 0 || strcmp(taint->uuid, device->gpu->uuid) == 0 ||
               (device->made && strcmp(taint->uuid, device->made) == 0);
}

static json_t *taints_of(const struct dra_slices_options *options, const struct dra_device *device)
{
        json_t *taints = json_array();

        for (size_t i = 0; i < options->n_taints; i++) {
                const struct dra_taint *taint = &options->taints[i];
                json_t *object;

                if (!taint_is_about(taint, device))
                        continue;
                object = json_pack("{s: s, s: s}", "key", taint->key, "effect", effects[taint->effect]);
                if (*taint->value)
                        json_object_set_new(object, "value", json_string(taint->value));
                json_array_append_new(taints, object);
        }
        return taints;
}

/* Whether a device is left out because it needs a taint and the API server has none: it must not be allocated. */
static bool leaves_out(const struct dra_slices_options *options, const struct dra_device *device)
{
        for (size_t i = 0; !options->has_taints && i < options->n_taints; i++)
                if (options->taints[i].effect != DRA_EFFECT_NONE && taint_is_about(&options->taints[i], device))
                        return true;
        return false;
}

/* ---- slices ---- */

struct pool {
        const struct dra_layout *layout;
        const struct dra_slices_options *options;
        json_t *slices;
        json_t **of_gpus; /* attributes of each GPU of the inventory; NULL: not needed so far */
        size_t n_gpus;
        struct alikes capacities;
        struct alikes consumed;
        struct alike attributes;   /* of the newest device */
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
        json_array_append_new(pool->sets,
                json_pack("{s: s, s: o}", "name", set->name, "counters", counters_of(set->counters, set->n_counters)));
        pool->n_counters += set->n_counters;
}

/* Candidates of a profile come one after the other, and have no UUID. */
static json_t *pool_attributes_of(struct pool *pool, const struct dra_device *device)
{
        const struct dra_device *newest = pool->attributes.device;
        json_t **of_gpu = &pool->of_gpus[device->gpu - pool->layout->inventory->gpus];

        if (!*of_gpu)
                *of_gpu = metadata_gpu_attributes(pool->layout->inventory, device->gpu);
        if (!newest || !device->profile || newest->profile != device->profile || newest->kind != device->kind) {
                json_decref(pool->attributes.json);
                pool->attributes = (struct alike){device, make_attributes(device, *of_gpu)};
        }
        return json_incref(pool->attributes.json);
}

static void pool_add_device(struct pool *pool, const struct dra_device *device)
{
        const struct dra_slices_options *options = pool->options;
        bool is_apart = options->api == DRA_API_V1BETA1; /* from the name */
        json_t *object, *basic, *taints, *resources;

        if (leaves_out(options, device))
                return;
        object = pair("name", json_string(device->name));
        basic = is_apart ? json_object() : object;
        taints = taints_of(options, device);
        json_object_set_new_nocheck(basic, "attributes", pool_attributes_of(pool, device));
        json_object_set_new_nocheck(
                basic, "capacity", alikes_find(&pool->capacities, device, has_same_capacity, make_capacity));
        if (device->counter_set) {
                json_t *consumes = pair("counterSet", json_string(device->counter_set->name));
                json_t *list = json_array();

                json_object_set_new_nocheck(
                        consumes, "counters", alikes_find(&pool->consumed, device, consumes_same, make_consumed));
                json_array_append_new(list, consumes);
                json_object_set_new_nocheck(basic, "consumesCounters", list);
        }
        if (device->allows_multiple)
                json_object_set_new_nocheck(basic, "allowMultipleAllocations", json_true());
        resources = node_resources_of(&device->overhead);
        if (json_object_size(resources) > 0)
                json_object_set_nocheck(basic, "nodeAllocatableResources", resources);
        json_decref(resources);
        if (options->has_taints && json_array_size(taints) > 0)
                json_object_set_nocheck(basic, "taints", taints);
        json_decref(taints);
        if (is_apart)
                json_object_set_new_nocheck(object, "basic", basic);
        if (!pool->devices)
                pool->devices = json_array();
        json_array_append_new(pool->devices, object);
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

static const struct dra_counter_set *set_of_gpu(const struct dra_layout *layout, const struct gpu *gpu)
{
        for (size_t i = 0; i < layout->n_devices; i++)
                if (layout->devices[i].gpu == gpu && layout->devices[i].counter_set)
                        return layout->devices[i].counter_set;
        return NULL;
}

static size_t count_of_gpu(const struct dra_layout *layout, const struct gpu *gpu)
{
        size_t count = 0;

        for (size_t i = 0; i < layout->n_devices; i++)
                count += layout->devices[i].gpu == gpu;
        return count;
}

/* Fills slices GPU by GPU; devices of a GPU beyond the 64 of a slice are left out. */
static void fill_together(struct pool *pool)
{
        const struct dra_layout *layout = pool->layout;

        for (size_t position = 0; position < layout->inventory->n_gpus; position++) {
                const struct gpu *gpu = &layout->inventory->gpus[position];
                const struct dra_counter_set *set = set_of_gpu(layout, gpu);
                size_t n_counters = set ? set->n_counters : 0;

                if (json_array_size(pool->devices) + count_of_gpu(layout, gpu) > DRA_SLICE_RICH_DEVICES ||
                        json_array_size(pool->sets) == DRA_SLICE_SETS ||
                        pool->n_counters + n_counters > DRA_SLICE_COUNTERS)
                        pool_cut(pool);
                if (set)
                        pool_add_set(pool, set);
                for (size_t i = 0; i < layout->n_devices; i++)
                        if (layout->devices[i].gpu == gpu && json_array_size(pool->devices) < DRA_SLICE_RICH_DEVICES)
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
        alikes_done(&pool->capacities);
        alikes_done(&pool->consumed);
        json_decref(pool->attributes.json);
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
