/*
 * The ledger as JSON: {"version":1,"grants":[{"id":…,"unit":…,"since":…,"devices":[…]}]}, the oldest allocation first.
 */
#include <string.h>

#include "base/strbuf.h"
#include "base/data/json_fields.h"
#include "plan/allocation_table.h"

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

/* ---- back ---- */

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
