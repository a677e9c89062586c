// SPDX-License-Identifier: Apache-2.0
#include "node/dra/reconcile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "node/dra/slices.h"
#include "net/kube/object.h"

/* ---- comparing ---- */

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
        if (has_lost(sent, kept, "nodeAllocatableResources"))
                features->node_allocatable = false;
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

/* "100m": quantity_value() rounds it up to 1. */
static bool is_in_thousandths(const json_t *text)
{
        size_t length = json_string_length(text);

        return length > 0 && json_string_value(text)[length - 1] == 'm';
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
        if (json_is_string(wanted) && json_is_string(there) && !is_in_thousandths(wanted) &&
                !is_in_thousandths(there) && quantity_value(json_string_value(wanted), &a) &&
                quantity_value(json_string_value(there), &b))
                return a == b;
        return json_equal(wanted, there);
}

bool dra_slices_are_same(const json_t *wanted, const json_t *there)
{
        return is_same_value("spec", wanted, there);
}

/* ---- the next step ---- */

static const json_t *spec_of(const json_t *object)
{
        return json_object_get(object, "spec");
}

static json_int_t generation_of(const json_t *object)
{
        return json_integer_value(object_find(object, "spec", "pool", "generation", NULL));
}

static const char *reconcile_name_of(const json_t *wanted)
{
        return json_string_value(json_object_get(wanted, "name"));
}

static bool has_owner(const struct dra_pool *pool, const json_t *object)
{
        size_t i;
        json_t *owner;

        json_array_foreach(object_find(object, "metadata", "ownerReferences", NULL), i,
                owner) if (text_is_same(object_text(owner, "uid", NULL), pool->owner_uid)) return true;
        return false;
}

static bool reconcile_is_right(const struct dra_pool *pool, const json_t *wanted)
{
        const json_t *there = json_object_get(pool->there, reconcile_name_of(wanted));
        const json_t *accepted = json_object_get(pool->accepted, reconcile_name_of(wanted));

        if (!has_owner(pool, there))
                return false;
        if (dra_slices_are_same(spec_of(wanted), spec_of(there)))
                return true;
        return accepted && dra_slices_are_same(spec_of(wanted), json_object_get(accepted, "sent")) &&
               dra_slices_are_same(json_object_get(accepted, "kept"), spec_of(there));
}

/* The slice that can be changed into |wanted|; NULL: there is none. The name of its pool cannot be changed. */
static const json_t *find_there(const struct dra_pool *pool, const json_t *wanted)
{
        const json_t *there = json_object_get(pool->there, reconcile_name_of(wanted));

        return text_is_same(object_text(wanted, "spec", "pool", "name", NULL),
                       object_text(there, "spec", "pool", "name", NULL))
                       ? there
                       : NULL;
}

/* The name of one that is to be deleted; there has to be one. */
static const char *find_obsolete(const struct dra_pool *pool)
{
        const char *name;
        json_t *there;

        json_object_foreach(pool->there, name, there)
        {
                bool is_wanted = false;
                size_t i;
                json_t *wanted;

                json_array_foreach(pool->wanted, i, wanted) is_wanted |= find_there(pool, wanted) == there;
                if (!is_wanted)
                        return name;
        }
        return NULL;
}

/* The generation of the wanted slices, once all others are gone, and how many of them have to be written for it. */
static json_int_t choose_generation(const struct dra_pool *pool, json_int_t newest, size_t *ret_writes)
{
        size_t count = json_array_size(pool->wanted);
        size_t n_newest = 0;
        size_t n_changed = 0;
        size_t n_writes = 0;
        size_t i;
        json_t *wanted;

        *ret_writes = count;
        if (newest == 0)
                return 1;
        json_array_foreach(pool->wanted, i, wanted)
        {
                const json_t *there = find_there(pool, wanted);
                bool is_changed = !reconcile_is_right(pool, wanted);

                n_changed += is_changed;
                n_writes += is_changed || generation_of(there) != newest;
                if (generation_of(there) != newest)
                        continue;
                if (json_integer_value(object_find(there, "spec", "pool", "resourceSliceCount", NULL)) !=
                        (json_int_t)count)
                        return newest + 1;
                n_newest++;
        }
        if (n_newest == count && n_changed > 1)
                return newest + 1;
        *ret_writes = n_writes;
        return newest;
}

struct dra_action dra_reconcile(const struct dra_pool *pool)
{
        struct dra_action create = {.step = DRA_STEP_NONE};
        size_t n_obsolete = json_object_size(pool->there);
        json_int_t newest = 0;
        json_int_t generation;
        size_t n_writes;
        size_t i;
        json_t *slice;

        json_array_foreach(pool->wanted, i, slice)
        {
                const json_t *there = find_there(pool, slice);

                n_obsolete -= there != NULL;
                newest = MAX(newest, generation_of(there));
        }
        generation = choose_generation(pool, newest, &n_writes);
        if (n_obsolete > 0)
                return (struct dra_action){
                        .step = DRA_STEP_DELETE, .name = find_obsolete(pool), .n_writes = n_obsolete + n_writes};
        json_array_foreach(pool->wanted, i, slice)
        {
                const json_t *there = find_there(pool, slice);
                struct dra_action action = {.step = there ? DRA_STEP_REPLACE : DRA_STEP_CREATE,
                        .name = reconcile_name_of(slice),
                        .spec = json_object_get(slice, "spec"),
                        .generation = generation,
                        .n_writes = n_writes};

                if (there && generation_of(there) == generation && reconcile_is_right(pool, slice))
                        continue;
                if (there)
                        return action;
                if (create.step == DRA_STEP_NONE)
                        create = action;
        }
        return create;
}

/* ---- the copy ---- */

json_t *slice_cache_slices(struct slice_cache *cache)
{
        if (!cache->slices) {
                cache->slices = cache->text ? json_loads(cache->text, JSON_ALLOW_NUL, NULL) : json_object();
                assert(cache->slices); /* our own text, of what was read from one */
                free(TAKE_PTR(cache->text));
        }
        return cache->slices;
}

static uint64_t version_of(const json_t *object)
{
        const char *text = object_text(object, "metadata", "resourceVersion", NULL);

        return text ? strtoull(text, NULL, 10) : 0;
}

static bool slice_cache_is_same(const json_t *known, const json_t *object)
{
        return json_equal(object_find(known, "spec", NULL), object_find(object, "spec", NULL)) &&
               json_equal(object_find(known, "metadata", "ownerReferences", NULL),
                       object_find(object, "metadata", "ownerReferences", NULL));
}

enum slice_cache_news slice_cache_follow(struct slice_cache *cache, enum kube_change what, json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        const json_t *known = name ? json_object_get(slice_cache_slices(cache), name) : NULL;
        uint64_t version = version_of(object);
        enum slice_cache_news news;

        if (!name || (known && version > 0 && version < version_of(known)) || (what == KUBE_GONE && !known))
                return SLICE_CACHE_SAME;
        if (what == KUBE_GONE) {
                json_object_del(cache->slices, name);
                return SLICE_CACHE_GONE;
        }
        news = slice_cache_is_same(known, object) ? SLICE_CACHE_SAME : SLICE_CACHE_CHANGED;
        json_object_set(cache->slices, name, object);
        return news;
}

void slice_cache_compact(struct slice_cache *cache)
{
        char *text = cache->slices ? json_dumps(cache->slices, JSON_COMPACT) : NULL;

        if (!text)
                return;
        slice_cache_clear(cache);
        cache->text = text;
}

void slice_cache_clear(struct slice_cache *cache)
{
        json_decref(cache->slices);
        cache->slices = NULL;
        free(TAKE_PTR(cache->text));
}

/* ---- pace ---- */

void dra_repair_allow(struct dra_repair_pace *pace, size_t n_writes)
{
        pace->n_writes = n_writes;
}

uint64_t dra_repair_next(struct dra_repair_pace *pace, size_t n_writes, uint64_t now_ms, uint32_t random)
{
        if (pace->n_writes > 0)
                return 0;
        if (now_ms < pace->next_ms)
                return pace->next_ms - now_ms;
        if (now_ms >= pace->next_ms + DRA_REPAIR_QUIET_MS)
                pace->pauses.failures = 0;
        pace->next_ms = now_ms + backoff_next(&pace->pauses, 0, random);
        pace->n_writes = n_writes;
        return 0;
}

void dra_repair_written(struct dra_repair_pace *pace)
{
        if (pace->n_writes > 0)
                pace->n_writes--;
}

void dra_repair_rest(struct dra_repair_pace *pace)
{
        pace->n_writes = 0;
}
