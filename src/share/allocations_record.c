/*
 * The ledger as JSON: {"version":1,"grants":[{"id":…,"unit":…,"since":…,"devices":[…]}]}, the oldest allocation first.
 */
#include <jansson.h>
#include <string.h>

#include "share/allocations_parts.h"

#define ID_MAX ((size_t)64)
#define DEVICE_MAX ((size_t)255)

static json_t *write_allocation(const struct allocation *allocation)
{
        json_t *devices = json_array();

        for (size_t i = 0; i < allocation->n_devices; i++)
                json_array_append_new(devices, json_string(allocation->devices[i]));
        return json_pack("{s:s, s:s*, s:I, s:o, s:o*}", "id", allocation->id, "unit", allocation->unit, "since",
                (json_int_t)allocation->since, "devices", devices, "guess", allocation->is_guess ? json_true() : NULL);
}

char *allocations_write(const struct allocations *allocations)
{
        return allocations_write_all(&allocations, 1);
}

char *allocations_write_all(const struct allocations *const *allocations, size_t count)
{
        json_t *list = json_array();
        json_t *root;
        char *text;

        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < allocations[i]->n_all; j++)
                        json_array_append_new(list, write_allocation(&allocations[i]->all[j]->allocation));
        root = json_pack("{s:i, s:o}", "version", 1, "grants", list);
        text = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        return text;
}

/* ---- reading ---- */

bool allocations_is_id(const char *id)
{
        size_t length = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_");

        return length > 0 && length <= ID_MAX && id[length] == '\0';
}

static bool is_name(const char *text)
{
        return text && *text && strlen(text) <= DEVICE_MAX;
}

/* NULL if an id is invalid, or occurs twice. */
static const char **read_devices(struct arena *arena, const json_t *list)
{
        _cleanup_(map_done) struct map seen = MAP_INIT;
        size_t count = json_array_size(list);
        const char **devices = ARENA_ARRAY(arena, const char *, count);

        for (size_t i = 0; i < count; i++) {
                devices[i] = json_string_value(json_array_get(list, i));
                if (!is_name(devices[i]) || !map_add(&seen, devices[i], (void *)devices))
                        return NULL;
        }
        return devices;
}

static void read_allocation(
        struct allocations *allocations, struct arena *arena, struct map *ids, const json_t *json, int64_t clock)
{
        const char *id = json_string_value(json_object_get(json, "id"));
        const json_t *unit = json_object_get(json, "unit");
        json_int_t since = json_integer_value(json_object_get(json, "since"));
        const json_t *list = json_object_get(json, "devices");
        const char **devices;
        struct allocation_entry *entry;

        if (!id || !allocations_is_id(id) || map_find(ids, id) || since < 0 || since == INT64_MAX ||
                json_array_size(list) == 0)
                return;
        if (unit && !is_name(json_string_value(unit)))
                return;
        devices = read_devices(arena, list);
        if (!devices)
                return;
        entry = allocation_entry_new(id, json_string_value(unit), devices, json_array_size(list),
                (struct allocations_moment){.clock = clock, .date = since});
        entry->allocation.is_guess = json_is_true(json_object_get(json, "guess"));
        entry->allocation.is_read = true;
        map_add(ids, entry->id, entry);
        allocations_enter(allocations, entry);
}

int allocations_read(struct allocations *allocations, const char *text, size_t length, int64_t clock, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(map_done) struct map ids = MAP_INIT;
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
        for (size_t i = 0; i < allocations->n_all; i++)
                map_add(&ids, allocations->all[i]->id, allocations->all[i]);
        for (size_t i = 0; i < json_array_size(list); i++)
                read_allocation(allocations, &arena, &ids, json_array_get(list, i), clock);
        allocations_recount(allocations);
        json_decref(root);
        return 0;
}
