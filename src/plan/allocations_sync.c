// SPDX-License-Identifier: Apache-2.0
/*
 * The ledger takes two things from outside: kubelet's list, with which it is compared, and its own record.
 *
 * An entry of the list is a container. Its ids may be in several allocations: that of an init container, and those that
 * took over its ids.
 *
 * The record is JSON: {"version":1,"grants":[{"id":…,"unit":…,"since":…,"devices":[…]}]}, the oldest allocation first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/data/json_fields.h"
#include "plan/allocation_table.h"

/* An allocation that has an id. */
struct mention {
        struct allocation_entry *entry;
        const struct mention *older;
};

struct mentions {
        const struct mention *newest;
};

struct sync {
        struct allocations *allocations;
        int64_t as_of;
        struct arena arena;
        struct map by_device; /* id → its allocations (struct mentions *) */
        struct map by_id;     /* ids of allocations → struct allocation_entry * */
        bool has_changed;
};

static const struct mention *mentions_of(const struct sync *sync, const char *id)
{
        const struct mentions *mentions = map_find(&sync->by_device, id);

        return mentions ? mentions->newest : NULL;
}

static void sync_index_entry(struct sync *sync, struct allocation_entry *entry)
{
        for (size_t i = 0; i < entry->allocation.n_devices; i++) {
                struct mentions *mentions = map_find(&sync->by_device, entry->devices[i]);
                struct mention *newest = ARENA_NEW(&sync->arena, struct mention);

                if (!mentions) {
                        mentions = ARENA_NEW(&sync->arena, struct mentions);
                        map_add(&sync->by_device, entry->devices[i], mentions);
                }
                *newest = (struct mention){.entry = entry, .older = mentions->newest};
                mentions->newest = newest;
        }
}

static bool has_id(const struct sync *sync, const struct allocation_entry *entry, const char *id)
{
        for (const struct mention *one = mentions_of(sync, id); one; one = one->older)
                if (one->entry == entry)
                        return true;
        return false;
}

/* The newest allocation with exactly these ids that is not matched yet, or NULL. */
static struct allocation_entry *find_by_devices(const struct sync *sync, const struct allocations_held *held)
{
        for (const struct mention *one = mentions_of(sync, held->devices[0]); one; one = one->older) {
                bool is_same = !one->entry->is_matched && one->entry->allocation.n_devices == held->n_devices;

                for (size_t i = 1; is_same && i < held->n_devices; i++)
                        is_same = has_id(sync, one->entry, held->devices[i]);
                if (is_same)
                        return one->entry;
        }
        return NULL;
}

static struct allocation_entry *find_same(const struct sync *sync, const struct allocations_held *held)
{
        struct allocation_entry *entry;

        if (!held->id)
                return held->n_devices ? find_by_devices(sync, held) : NULL;
        entry = map_find(&sync->by_id, held->id);
        if (entry)
                entry->allocation.is_read = false;
        return entry;
}

/* ---- entries that the ledger does not know ---- */

/* UUID of the unit of most of the ids; NULL if each id counts for its own unit. */
static const char *unit_of_most(struct sync *sync, const struct allocations_held *held)
{
        const struct resource *resource = sync->allocations->resource;
        uint32_t *count = ARENA_ARRAY(&sync->arena, uint32_t, resource->n_units);
        const char *most = NULL;
        uint32_t best = 0;

        if (sync->allocations->max_per_request == 0)
                return NULL;
        for (size_t i = 0; i < held->n_devices; i++) {
                const struct device *device = map_find(&resource->by_id, held->devices[i]);

                if (!device || ++count[device->unit] <= best)
                        continue;
                best = count[device->unit];
                most = resource->units[device->unit].uuid;
        }
        return most;
}

/* Gives the same ids the same name after each start of the agent. */
static uint64_t hash_of(const struct allocations_held *held)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < held->n_devices; i++) {
                uint64_t hash = HASH_INIT;

                hash_add(&hash, held->devices[i], strlen(held->devices[i]));
                sum += hash; /* independent of the order */
        }
        return sum;
}

/* UUID of the unit that the answer names; NULL: none, or several. */
static const char *unit_of_answer(const struct sync *sync, const struct allocations_held *held)
{
        const struct resource *resource = sync->allocations->resource;
        const char *found = NULL;

        if (held->away)
                return held->away;
        for (size_t i = 0; held->texts && i < resource->n_units; i++) {
                if (!strstr(held->texts, resource->units[i].uuid))
                        continue;
                if (found)
                        return NULL;
                found = resource->units[i].uuid;
        }
        return found;
}

static void allocations_sync_enter(struct sync *sync, const struct allocations_held *held)
{
        bool is_bound = sync->allocations->max_per_request > 0;
        const char *unit = is_bound ? unit_of_answer(sync, held) : NULL;
        char id[18];
        const char *own =
                held->id && allocations_is_id(held->id) && !map_find(&sync->by_id, held->id) ? held->id : NULL;
        uint64_t hash = hash_of(held);
        struct allocation_entry *entry;

        do
                snprintf(id, sizeof(id), "g%016" PRIx64, hash++);
        while (map_find(&sync->by_id, id));
        entry = allocation_entry_new(own ? own : id, unit ? unit : unit_of_most(sync, held), held->devices,
                held->n_devices, (struct allocations_moment){.clock = INT64_MIN});
        entry->allocation.is_guess = is_bound && !(own && unit);
        entry->is_alive = entry->is_matched = true;
        sync->has_changed = true;
        allocations_enter(sync->allocations, entry);
        map_add(&sync->by_id, entry->id, entry);
        sync_index_entry(sync, entry);
}

/* ---- entries that the record has otherwise than they were answered ---- */

static bool allocations_sync_has_devices(const struct allocation_entry *entry, const struct allocations_held *held)
{
        if (entry->allocation.n_devices != held->n_devices)
                return false;
        for (size_t i = 0; i < held->n_devices; i++)
                if (strcmp(entry->devices[i], held->devices[i]) != 0)
                        return false;
        return true;
}

/* A damaged record may be read all the same. Comes before the entry is mentioned. */
static void sync_correct_entry(struct sync *sync, const struct allocations_held *held)
{
        struct allocation_entry *entry = held->id ? map_find(&sync->by_id, held->id) : NULL;
        const char *unit = unit_of_answer(sync, held);
        struct allocation_entry *right;
        struct allocation_entry wrong;

        if (!entry || !entry->allocation.is_read || !unit || held->n_devices == 0 ||
                (text_is_same(entry->unit, unit) && allocations_sync_has_devices(entry, held)))
                return;
        right = allocation_entry_new(entry->id, unit, held->devices, held->n_devices,
                (struct allocations_moment){.clock = entry->entered, .date = entry->allocation.since});
        wrong = *entry;
        *entry = *right;
        *right = wrong;
        right->id = entry->id; /* by which it is known */
        entry->id = wrong.id;
        entry->allocation.id = wrong.id;
        allocation_entry_free(right);
        sync->has_changed = true;
}

/* ---- the list ---- */

/* The list is not newer than an allocation of one of these ids, so the entry may be an old holder. */
static bool is_out_of_date(const struct sync *sync, const struct allocations_held *held)
{
        for (size_t i = 0; i < held->n_devices; i++) {
                const struct mention *newest = mentions_of(sync, held->devices[i]);

                if (newest && newest->entry->entered >= sync->as_of && !(held->id && newest->entry->allocation.is_read))
                        return true;
        }
        return false;
}

/*
 * Matches an entry with its allocation. If an id was allocated after the list, the entry is ignored. If no allocation
 * has exactly its ids, it is entered.
 */
static void match_entry(struct sync *sync, const struct allocations_held *held)
{
        struct allocation_entry *same = find_same(sync, held);

        if (same)
                same->is_alive = same->is_matched = true;
        else if (held->n_devices && !is_out_of_date(sync, held))
                allocations_sync_enter(sync, held);
}

bool allocations_sync(struct allocations *allocations, const struct allocations_held *held, size_t n_held,
        int64_t as_of, void (*released)(const char *id, void *data), void *data)
{
        struct sync sync = {.allocations = allocations, .as_of = as_of};
        size_t left = 0;

        for (size_t i = 0; i < allocations->n_all; i++)
                map_add(&sync.by_id, allocations->all[i]->id, allocations->all[i]);
        for (size_t i = 0; i < n_held && allocations->max_per_request > 0; i++)
                sync_correct_entry(&sync, &held[i]);
        for (size_t i = 0; i < allocations->n_all; i++) {
                allocations->all[i]->is_matched = false;
                allocations->all[i]->is_alive = allocations->all[i]->entered >= as_of;
                sync_index_entry(&sync, allocations->all[i]);
        }
        for (size_t i = 0; i < n_held; i++)
                match_entry(&sync, &held[i]);
        for (size_t i = 0; i < allocations->n_all; i++) {
                struct allocation_entry *entry = allocations->all[i];

                if (entry->is_alive) {
                        allocations->all[left++] = entry;
                        continue;
                }
                sync.has_changed = true;
                released(entry->id, data);
                allocation_entry_free(entry);
        }
        allocations->n_all = left;
        allocations_recount(allocations);
        map_done(&sync.by_device);
        map_done(&sync.by_id);
        arena_done(&sync.arena);
        return sync.has_changed;
}

/* ---- the record ---- */

#define ID_MAX ((size_t)64)

bool allocations_is_id(const char *id)
{
        size_t length = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_");

        return length > 0 && length <= ID_MAX && id[length] == '\0';
}

static bool is_name(const char *text)
{
        return *text;
}

static const struct json_text id_text = {allocations_is_id, ID_MAX, "letters, digits and '_', 1 to ", false};
static const struct json_text name_text = {is_name, 255, "a name of 1 to ", false};

static const struct json_field allocation_fields[] = {
        JSON_TEXT("id", struct allocation, id, id_text, .is_needed = true),
        JSON_TEXT("unit", struct allocation, unit, name_text),
        JSON_INT("since", struct allocation, since, 0, INT64_MAX - 1),
        JSON_TEXTS("devices", struct allocation, devices, n_devices, name_text, 1, ALLOCATIONS_TEXT_MAX),
        JSON_BOOL("guess", struct allocation, is_guess, .has = offsetof(struct allocation, is_guess)),
};
static const struct json_shape allocation_shape = JSON_SHAPE(struct allocation, allocation_fields);

static int allocations_record_append(const char *bytes, size_t size, void *data)
{
        strbuf_append(data, bytes, size);
        return 0;
}

/* One object exists at a time: those of all allocations would be ten times as large as the text. */
char *allocations_write_all(const struct allocations *const *allocations, size_t count)
{
        struct strbuf text = STRBUF_INIT;
        const char *separator = "";

        strbuf_puts(&text, "{\"version\":1,\"grants\":[");
        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < allocations[i]->n_all; j++) {
                        json_t *json = json_object();

                        json_fields_put(json, &allocation_shape, &allocations[i]->all[j]->allocation);
                        strbuf_puts(&text, separator);
                        (void)json_dump_callback(json, allocations_record_append, &text, JSON_COMPACT);
                        json_decref(json);
                        separator = ",";
                }
        strbuf_puts(&text, "]}");
        return strbuf_take(&text);
}

static bool has_twice(const struct allocation *allocation)
{
        _cleanup_(map_done) struct map seen = MAP_INIT;

        for (size_t i = 0; i < allocation->n_devices; i++)
                if (!map_add(&seen, allocation->devices[i], &seen))
                        return true;
        return false;
}

static bool read_allocation(struct allocation *ret, struct arena *arena, const json_t *json)
{
        struct error err;
        struct json_in in = {.arena = arena, .err = &err};

        *ret = (struct allocation){0};
        json_fields_take(&in, json, &allocation_shape, ret);
        ret->is_read = true;
        return !in.is_bad && !has_twice(ret);
}

int allocations_each(const char *text, size_t length, void (*each)(const struct allocation *allocation, void *data),
        void *data, struct error *err)
{
        json_error_t fault;
        json_t *root;
        const json_t *list;

        if (length > ALLOCATIONS_TEXT_MAX)
                return error_set(err, ERROR_INVALID, "%zu bytes are more than the limit of %zu of an allocation record",
                        length, ALLOCATIONS_TEXT_MAX);
        root = json_loadb(text, length, 0, &fault);
        list = json_object_get(root, "grants");
        if (!json_is_array(list)) {
                json_decref(root);
                return error_set(
                        err, ERROR_INVALID, "no allocation record: %s", root ? "it has no list 'grants'" : fault.text);
        }
        for (size_t i = 0; i < json_array_size(list); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct allocation read;

                if (read_allocation(&read, &arena, json_array_get(list, i)))
                        each(&read, data);
        }
        json_decref(root);
        return 0;
}

struct reading {
        struct allocations *allocations;
        struct map ids;
        int64_t clock;
};

static void enter_read(const struct allocation *read, void *data)
{
        struct reading *reading = data;
        struct allocation_entry *entry;

        if (map_find(&reading->ids, read->id))
                return;
        entry = allocation_entry_new(read->id, read->unit, read->devices, read->n_devices,
                (struct allocations_moment){.clock = reading->clock, .date = read->since});
        entry->allocation.is_guess = read->is_guess;
        entry->allocation.is_read = true;
        map_add(&reading->ids, entry->id, entry);
        allocations_enter(reading->allocations, entry);
}

int allocations_read(struct allocations *allocations, const char *text, size_t length, int64_t clock, struct error *err)
{
        struct reading reading = {.allocations = allocations, .ids = MAP_INIT, .clock = clock};
        int r;

        for (size_t i = 0; i < allocations->n_all; i++)
                map_add(&reading.ids, allocations->all[i]->id, allocations->all[i]);
        r = allocations_each(text, length, enter_read, &reading, err);
        allocations_recount(allocations);
        map_done(&reading.ids);
        return r;
}
