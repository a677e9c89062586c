/* Compares a slice that the server returned with the one that it was sent. */
#include <string.h>

#include "base/quantity.h"
#include "node/dra/slices.h"

static const json_t *basic_of(const json_t *device)
{
        const json_t *basic = json_object_get(device, "basic");

        return basic ? basic : device;
}

static bool has_lost(const json_t *sent, const json_t *kept, const char *key)
{
        return json_object_get(sent, key) && !json_object_get(kept, key);
}

static void device_dropped(struct dra_features *features, const json_t *sent, const json_t *kept)
{
        const json_t *kept_capacity = json_object_get(kept, "capacity");
        const char *name;
        json_t *capacity;

        if (has_lost(sent, kept, "allowMultipleAllocations"))
                features->consumable_capacity = false;
        if (has_lost(sent, kept, "consumesCounters"))
                features->partitionable_devices = false;
        if (has_lost(sent, kept, "taints"))
                features->device_taints = false;
        json_object_foreach(json_object_get(sent, "capacity"), name,
                capacity) if (has_lost(capacity, json_object_get(kept_capacity, name), "requestPolicy"))
                features->consumable_capacity = false;
}

void dra_slices_dropped(struct dra_features *features, const json_t *spec, const json_t *answered)
{
        const json_t *kept = json_object_get(answered, "devices");
        size_t i;
        json_t *device;

        if (has_lost(spec, answered, "sharedCounters"))
                features->partitionable_devices = false;
        json_array_foreach(json_object_get(spec, "devices"), i, device)
                device_dropped(features, basic_of(device), basic_of(json_array_get(kept, i)));
}

static bool is_same_value(const char *key, const json_t *wanted, const json_t *there);

static bool is_same_object(const json_t *wanted, const json_t *there)
{
        size_t n_there = json_object_size(there);
        const char *key;
        json_t *value;

        if (!json_object_get(wanted, "timeAdded") && json_object_get(there, "timeAdded"))
                n_there--;
        if (n_there != json_object_size(wanted))
                return false;
        json_object_foreach((json_t *)(uintptr_t)wanted, key,
                value) if (!is_same_value(key, value, json_object_get(there, key))) return false;
        return true;
}

static bool is_same_value(const char *key, const json_t *wanted, const json_t *there)
{
        uint64_t a;
        uint64_t b;

        if (strcmp(key, "generation") == 0)
                return json_is_integer(there);
        if (json_is_object(wanted) && json_is_object(there))
                return is_same_object(wanted, there);
        if (json_is_array(wanted) && json_is_array(there)) {
                for (size_t i = 0; i < json_array_size(wanted); i++)
                        if (!is_same_value("", json_array_get(wanted, i), json_array_get(there, i)))
                                return false;
                return json_array_size(wanted) == json_array_size(there);
        }
        if (json_is_string(wanted) && json_is_string(there) && quantity_value(json_string_value(wanted), &a) &&
                quantity_value(json_string_value(there), &b))
                return a == b;
        return json_equal(wanted, there);
}

bool dra_slices_are_same(const json_t *wanted, const json_t *there)
{
        return is_same_value("spec", wanted, there);
}
