#include "node/dra/slices_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "gpu/nvml_abi.h"

#define ATTRIBUTE_TEXT_MAX ((size_t)64)

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

static void put_string(json_t *attributes, const char *name, const char *text)
{
        size_t length = 0;
        size_t more;

        while (text && text[length] && (more = text_utf8_length(text + length)) > 0 &&
                length + more <= ATTRIBUTE_TEXT_MAX)
                length += more;
        if (length > 0)
                json_object_set_new(attributes, name, pair("string", json_stringn_nocheck(text, length)));
}

static void slices_device_put_number(json_t *attributes, const char *name, int64_t value)
{
        json_object_set_new(attributes, name, pair("int", json_integer(value)));
}

static void put_version(json_t *attributes, const char *name, const unsigned int parts[static 3])
{
        json_object_set_new(attributes, name, pair("version", json_sprintf("%u.%u.%u", parts[0], parts[1], parts[2])));
}

/* Reads the three numbers of a version: "580.105.08" has a leading zero, which semantic versions do not allow. */
static bool slices_device_read_version(const char *text, unsigned int ret[static 3])
{
        memset(ret, 0, 3 * sizeof(*ret));
        for (size_t i = 0; text && i < 3; i++) {
                char *end;

                if (*text < '0' || *text > '9')
                        return false;
                ret[i] = (unsigned int)MIN(strtoul(text, &end, 10), 1000000000UL);
                if (*end == '\0')
                        return true;
                if (*end != '.')
                        return false;
                text = end + 1;
        }
        return false;
}

static const char *architecture_name(const struct gpu *gpu)
{
        switch (gpu->architecture) {
        case GPU_ARCHITECTURE_UNKNOWN:
                return NULL;
        case GPU_ARCHITECTURE_KEPLER:
                return "Kepler";
        case GPU_ARCHITECTURE_MAXWELL:
                return "Maxwell";
        case GPU_ARCHITECTURE_PASCAL:
                return "Pascal";
        case GPU_ARCHITECTURE_VOLTA:
                return "Volta";
        case GPU_ARCHITECTURE_TURING:
                return "Turing";
        case GPU_ARCHITECTURE_AMPERE:
                return "Ampere";
        case GPU_ARCHITECTURE_ADA:
                return "Ada Lovelace";
        case GPU_ARCHITECTURE_HOPPER:
                return "Hopper";
        case GPU_ARCHITECTURE_BLACKWELL:
                return "Blackwell";
        case GPU_ARCHITECTURE_RUBIN:
                return "Rubin";
        }
        return NULL;
}

static const char *brand_name(int brand)
{
        static const char *const names[] = {
                [NVML_BRAND_QUADRO] = "Quadro",
                [NVML_BRAND_TESLA] = "Tesla",
                [NVML_BRAND_NVS] = "NVS",
                [NVML_BRAND_GRID] = "Grid",
                [NVML_BRAND_GEFORCE] = "GeForce",
                [NVML_BRAND_TITAN] = "Titan",
                [NVML_BRAND_QUADRO_RTX] = "QuadroRTX",
                [NVML_BRAND_NVIDIA_RTX] = "NvidiaRTX",
                [NVML_BRAND_NVIDIA] = "Nvidia",
                [NVML_BRAND_GEFORCE_RTX] = "GeForceRTX",
                [NVML_BRAND_TITAN_RTX] = "TitanRTX",
        };

        return brand >= 0 && (size_t)brand < ARRAY_SIZE(names) ? names[brand] : NULL;
}

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

json_t *dra_slices_attributes(const struct inventory *inventory, const struct gpu *gpu)
{
        json_t *attributes = json_object();
        unsigned int version[3];

        put_string(attributes, "productName", gpu->name);
        put_string(attributes, "brand", brand_name(gpu->brand));
        put_string(attributes, "architecture", architecture_name(gpu));
        if (gpu->compute_major >= 0 && gpu->compute_minor >= 0)
                put_version(attributes, "cudaComputeCapability",
                        (unsigned int[3]){(unsigned int)gpu->compute_major, (unsigned int)gpu->compute_minor, 0});
        if (slices_device_read_version(inventory->driver_version, version))
                put_version(attributes, "driverVersion", version);
        if (inventory->cuda_major > 0)
                put_version(attributes, "cudaDriverVersion",
                        (unsigned int[3]){
                                (unsigned int)inventory->cuda_major, (unsigned int)MAX(0, inventory->cuda_minor), 0});
        put_string(attributes, "resource.kubernetes.io/pciBusID", gpu->bus);
        put_string(attributes, "resource.kubernetes.io/pcieRoot", gpu->pcie_root);
        if (gpu->numa_node >= 0)
                slices_device_put_number(attributes, "resource.kubernetes.io/numaNode", gpu->numa_node);
        return attributes;
}

/* The attributes of |device|, which include those of |of_gpu|. */
static json_t *make_attributes(const struct dra_device *device, json_t *of_gpu)
{
        json_t *attributes = json_object();

        put_string(attributes, "type", type_of(device));
        if (!device->profile)
                put_string(attributes, "uuid", device->uuid);
        if (device->mig || device->profile) {
                put_string(attributes, "parentUUID", device->gpu->uuid);
                put_string(attributes, "profile", device->profile ? device->profile->name : device->mig->profile);
        }
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
                json_object_set_new_nocheck(
                        object, counters[i].name, pair("value", quantity(counters[i].value, false)));
        return object;
}

void dra_slices_memory_done(struct dra_slices_memory *memory)
{
        for (size_t i = 0; i < memory->n_capacities; i++)
                json_decref(memory->capacities[i].json);
        for (size_t i = 0; i < memory->n_counters; i++)
                json_decref(memory->counters[i].json);
        free(memory->capacities);
        free(memory->counters);
        json_decref(memory->attributes.json);
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

static json_t *slices_device_remember(
        struct dra_slices_alike **list, size_t *count, const struct dra_device *device, json_t *json)
{
        *list = xrealloc(*list, (*count + 1) * sizeof(**list));
        (*list)[(*count)++] = (struct dra_slices_alike){device, json};
        return json_incref(json);
}

static json_t *capacity_of(struct dra_slices_memory *memory, const struct dra_device *device)
{
        for (size_t i = 0; i < memory->n_capacities; i++)
                if (has_same_capacity(memory->capacities[i].device, device))
                        return json_incref(memory->capacities[i].json);
        return slices_device_remember(&memory->capacities, &memory->n_capacities, device, make_capacity(device));
}

static json_t *consumed_of(struct dra_slices_memory *memory, const struct dra_device *device)
{
        for (size_t i = 0; i < memory->n_counters; i++)
                if (consumes_same(memory->counters[i].device, device))
                        return json_incref(memory->counters[i].json);
        return slices_device_remember(
                &memory->counters, &memory->n_counters, device, counters_of(device->consumes, device->n_consumes));
}

/* Candidates of a profile come one after the other, and have no UUID. */
static json_t *attributes_of(struct dra_slices_memory *memory, const struct dra_device *device, json_t *of_gpu)
{
        const struct dra_device *newest = memory->attributes.device;

        if (!newest || !device->profile || newest->profile != device->profile || newest->kind != device->kind) {
                json_decref(memory->attributes.json);
                memory->attributes = (struct dra_slices_alike){device, make_attributes(device, of_gpu)};
        }
        return json_incref(memory->attributes.json);
}

static bool slices_device_is_about(const struct dra_taint *taint, const struct dra_device *device)
{
        return strcmp(taint->uuid, device->uuid) == 0 || strcmp(taint->uuid, device->gpu->uuid) == 0 ||
               (device->made && strcmp(taint->uuid, device->made) == 0);
}

static json_t *slices_device_taints_of(const struct dra_slices_options *options, const struct dra_device *device)
{
        json_t *taints = json_array();

        for (size_t i = 0; i < options->n_taints; i++) {
                const struct dra_taint *taint = &options->taints[i];
                json_t *object;

                if (!slices_device_is_about(taint, device))
                        continue;
                object = json_pack("{s: s, s: s}", "key", taint->key, "effect", effects[taint->effect]);
                if (*taint->value)
                        json_object_set_new(object, "value", json_string(taint->value));
                json_array_append_new(taints, object);
        }
        return taints;
}

json_t *dra_slices_device(const struct dra_slices_options *options, struct dra_slices_memory *memory,
        const struct dra_device *device, json_t *of_gpu)
{
        bool is_apart = options->api == DRA_API_V1BETA1; /* from the name */
        json_t *object = pair("name", json_string(device->name));
        json_t *basic = is_apart ? json_object() : object;
        json_t *taints = slices_device_taints_of(options, device);

        json_object_set_new_nocheck(basic, "attributes", attributes_of(memory, device, of_gpu));
        json_object_set_new_nocheck(basic, "capacity", capacity_of(memory, device));
        if (device->counter_set) {
                json_t *consumes = pair("counterSet", json_string(device->counter_set->name));
                json_t *list = json_array();

                json_object_set_new_nocheck(consumes, "counters", consumed_of(memory, device));
                json_array_append_new(list, consumes);
                json_object_set_new_nocheck(basic, "consumesCounters", list);
        }
        if (device->allows_multiple)
                json_object_set_new_nocheck(basic, "allowMultipleAllocations", json_true());
        if (options->has_taints && json_array_size(taints) > 0)
                json_object_set_nocheck(basic, "taints", taints);
        json_decref(taints);
        if (is_apart)
                json_object_set_new_nocheck(object, "basic", basic);
        return object;
}

json_t *dra_slices_set(const struct dra_counter_set *set)
{
        return json_pack("{s: s, s: o}", "name", set->name, "counters", counters_of(set->counters, set->n_counters));
}

bool dra_slices_leaves_out(const struct dra_slices_options *options, const struct dra_device *device)
{
        for (size_t i = 0; !options->has_taints && i < options->n_taints; i++)
                if (options->taints[i].effect != DRA_EFFECT_NONE && slices_device_is_about(&options->taints[i], device))
                        return true;
        return false;
}
