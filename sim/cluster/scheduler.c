// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "sim/cluster/cluster.h"

/* Device classes, each for devices of one type. */
static const struct {
        const char *name;
        const char *type;
} classes[] = {
        {"gpu.warpshare.dev", "gpu"},
        {"shared.gpu.warpshare.dev", "shared-gpu"},
};

struct search {
        json_t *slices; /* {name: object} */
        json_t *claims;
        const char *node;
};

static uint64_t number(const json_t *quantity)
{
        uint64_t value = 0;

        if (!json_is_string(quantity) || !quantity_value(json_string_value(quantity), &value))
                return 0;
        return value;
}

static const json_t *find(const json_t *object, const char *first, const char *second)
{
        return json_object_get(json_object_get(object, first), second);
}

/* ---- what is taken ---- */

static json_t *results_of(const json_t *claim)
{
        return json_object_get(json_object_get(find(claim, "status", "allocation"), "devices"), "results");
}

/* How many claims have the device; |ret_taken|: how much of |capacity| (which may be NULL) they take together. */
static size_t count_shares(const struct search *search, const char *device, const char *capacity, uint64_t *ret_taken)
{
        const char *name;
        json_t *claim;
        size_t count = 0;

        *ret_taken = 0;
        json_object_foreach(search->claims, name, claim)
        {
                const json_t *result;
                size_t i;

                json_array_foreach(results_of(claim), i, result)
                {
                        if (strcmp(json_string_value(json_object_get(result, "device")), device) != 0)
                                continue;
                        count++;
                        *ret_taken += capacity ? number(find(result, "consumedCapacity", capacity)) : 0;
                }
        }
        return count;
}

static uint64_t consumption(const json_t *device, const char *set, const char *counter)
{
        const json_t *consumed;
        uint64_t sum = 0;
        size_t i;

        json_array_foreach(json_object_get(device, "consumesCounters"), i, consumed)
        {
                if (strcmp(json_string_value(json_object_get(consumed, "counterSet")), set) == 0)
                        sum += number(json_object_get(find(consumed, "counters", counter), "value"));
        }
        return sum;
}

/* A device consumes its counters once, however many claims share it. */
static uint64_t counter_in_use(const struct search *search, const char *set, const char *counter)
{
        const char *name;
        json_t *slice;
        uint64_t sum = 0;

        json_object_foreach(search->slices, name, slice)
        {
                const json_t *device;
                size_t i;

                json_array_foreach(json_object_get(json_object_get(slice, "spec"), "devices"), i, device)
                {
                        uint64_t unused;

                        if (count_shares(search, json_string_value(json_object_get(device, "name")), NULL, &unused) > 0)
                                sum += consumption(device, set, counter);
                }
        }
        return sum;
}

static uint64_t counter_value(const struct search *search, const char *set, const char *counter)
{
        const char *name;
        json_t *slice;

        json_object_foreach(search->slices, name, slice)
        {
                const json_t *sets = find(slice, "spec", "sharedCounters");
                const json_t *entry;
                size_t i;

                json_array_foreach(sets, i, entry)
                {
                        if (strcmp(json_string_value(json_object_get(entry, "name")), set) == 0)
                                return number(json_object_get(find(entry, "counters", counter), "value"));
                }
        }
        return 0;
}

static bool has_counters(const struct search *search, const json_t *device)
{
        const json_t *consumed;
        size_t i;

        json_array_foreach(json_object_get(device, "consumesCounters"), i, consumed)
        {
                const char *set = json_string_value(json_object_get(consumed, "counterSet"));
                const char *counter;
                json_t *wanted;

                json_object_foreach(json_object_get(consumed, "counters"), counter, wanted)
                {
                        if (counter_in_use(search, set, counter) + number(json_object_get(wanted, "value")) >
                                counter_value(search, set, counter))
                                return false;
                }
        }
        return true;
}

/* ---- what is wanted ---- */

static uint64_t round_up(uint64_t asked, const json_t *range)
{
        uint64_t least = number(json_object_get(range, "min"));
        uint64_t step = number(json_object_get(range, "step"));

        if (asked <= least)
                return least;
        return step ? least + (asked - least + step - 1) / step * step : asked;
}

/* How much a share takes of each capacity; NULL if not that much is left. */
static json_t *consume(const struct search *search, const json_t *device, json_t *asked)
{
        const char *name = json_string_value(json_object_get(device, "name"));
        json_t *consumed = json_object();
        const char *key;
        json_t *capacity;

        json_object_foreach(json_object_get(device, "capacity"), key, capacity)
        {
                json_t *policy = json_object_get(capacity, "requestPolicy");
                const json_t *range = json_object_get(policy, "validRange");
                json_t *text =
                        json_object_get(asked, key) ? json_object_get(asked, key) : json_object_get(policy, "default");
                uint64_t wanted = round_up(number(text), range);
                uint64_t taken;

                count_shares(search, name, key, &taken);
                if (taken + wanted > number(json_object_get(capacity, "value"))) {
                        json_decref(consumed);
                        return NULL;
                }
                json_object_set_new(
                        consumed, key, wanted == number(text) ? json_incref(text) : json_sprintf("%" PRIu64, wanted));
        }
        return consumed;
}

static json_t *make_result(
        const struct search *search, const json_t *claim, const json_t *request, const char *pool, const json_t *device)
{
        const bool is_shared = json_is_true(json_object_get(device, "allowMultipleAllocations"));
        const char *name = json_string_value(json_object_get(device, "name"));
        const char *uid = json_string_value(find(claim, "metadata", "uid"));
        uint64_t unused;
        json_t *consumed = NULL;
        json_t *result;

        if (count_shares(search, name, NULL, &unused) > 0 ? !is_shared : !has_counters(search, device))
                return NULL;
        if (is_shared)
                consumed = consume(search, device, json_object_get(find(request, "exactly", "capacity"), "requests"));
        if (is_shared && !consumed)
                return NULL;
        result = json_pack("{s:s, s:s, s:s, s:s}", "request", json_string_value(json_object_get(request, "name")),
                "driver", "gpu.warpshare.dev", "pool", pool, "device", name);
        if (is_shared) {
                json_object_set_new(result, "shareID",
                        json_sprintf("00000000-0000-4000-a000-%s", uid + strlen(uid) - MIN(strlen(uid), (size_t)12)));
                json_object_set_new(result, "consumedCapacity", consumed);
        }
        return result;
}

static bool is_of_class(const json_t *device, const char *class_name)
{
        const char *type = json_string_value(json_object_get(find(device, "attributes", "type"), "string"));

        for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
                if (strcmp(classes[i].name, class_name) == 0)
                        return type && strcmp(classes[i].type, type) == 0;
        return false;
}

static json_t *find_result(const struct search *search, const json_t *claim, const json_t *request)
{
        const char *class_name = json_string_value(find(request, "exactly", "deviceClassName"));
        const char *name;
        json_t *slice;

        json_object_foreach(search->slices, name, slice)
        {
                const char *pool = json_string_value(json_object_get(find(slice, "spec", "pool"), "name"));
                const json_t *device;
                json_t *result;
                size_t i;

                json_array_foreach(json_object_get(json_object_get(slice, "spec"), "devices"), i, device)
                {
                        if (is_of_class(device, class_name) &&
                                (result = make_result(search, claim, request, pool, device)))
                                return result;
                }
        }
        return NULL;
}

json_t *cluster_allocate(const json_t *claim, json_t *slices, json_t *claims, const char *node)
{
        const struct search search = {slices, claims, node};
        const json_t *request = json_array_get(json_object_get(find(claim, "spec", "devices"), "requests"), 0);
        json_t *result = find_result(&search, claim, request);

        if (!result)
                return NULL;
        return json_pack("{s:{s:[o]}, s:{s:[{s:[{s:s, s:s, s:[s]}]}]}}", "devices", "results", result, "nodeSelector",
                "nodeSelectorTerms", "matchFields", "key", "metadata.name", "operator", "In", "values", node);
}
