// SPDX-License-Identifier: Apache-2.0
/* Writing configurations: as a tree, then as JSON or YAML. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mig/parted.h"
#include "mig/profile_text.h"

const char *mig_parted_profile(const struct mig_gpu_profile *profile)
{
        return profile->driver_name ? profile->driver_name : profile->name;
}

/* ---- the tree ---- */

static json_t *filter_json(const struct mig_parted_filter *filter)
{
        return filter->has_subsystem ? json_sprintf("0x%08X:0x%08X", filter->device, filter->subsystem)
                                     : json_sprintf("0x%08X", filter->device);
}

static json_t *entry_json(const struct mig_parted_entry *entry)
{
        json_t *json = json_object();
        json_t *filters = json_array();
        json_t *devices = json_array();
        json_t *counts = json_object();
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < entry->n_filters; i++)
                json_array_append_new(filters, filter_json(&entry->filters[i]));
        for (size_t i = 0; i < entry->n_devices; i++)
                json_array_append_new(devices, json_integer(entry->devices[i]));
        for (size_t i = 0; i < entry->n_counts; i++)
                json_object_set_new(counts,
                        mig_profile_text_device(&arena, entry->counts[i].profile, entry->counts[i].compute),
                        json_integer(entry->counts[i].count));
        if (entry->n_filters)
                json_object_set(json, "device-filter", filters);
        json_decref(filters);
        json_object_set_new(json, "devices", entry->is_for_all ? json_string("all") : json_incref(devices));
        json_decref(devices);
        json_object_set_new(json, "mig-enabled", json_boolean(entry->is_enabled));
        json_object_set_new(json, "mig-devices", counts);
        return json;
}

static json_t *parted_json(const struct mig_parted *parted)
{
        json_t *configs = json_object();

        for (size_t i = 0; i < parted->n_configs; i++) {
                json_t *entries = json_array();

                for (size_t k = 0; k < parted->configs[i].n_entries; k++)
                        json_array_append_new(entries, entry_json(&parted->configs[i].entries[k]));
                json_object_set_new(configs, parted->configs[i].name, entries);
        }
        return json_pack("{s:s, s:o}", "version", "v1", "mig-configs", configs);
}

/* ---- YAML ---- */

static void parted_print_put_json(struct strbuf *text, const json_t *json)
{
        _free_ char *printed = json_dumps(json, JSON_ENCODE_ANY);

        strbuf_puts(text, printed);
}

/* Omits quotes where no YAML reader takes the key for something else, as for our names and those of profiles. */
static void put_key(struct strbuf *text, const char *key)
{
        static const char *const words[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
        bool is_plain = key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")] == '\0';
        json_t *json;

        is_plain =
                is_plain && (strstr(key, "gb") || strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"));
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                is_plain = is_plain && strcasecmp(key, words[i]) != 0;
        if (is_plain) {
                strbuf_puts(text, key);
                return;
        }
        json = json_string(key);
        parted_print_put_json(text, json);
        json_decref(json);
}

static void parted_print_put_entry(struct strbuf *text, const json_t *entry)
{
        json_t *filter = json_object_get(entry, "device-filter");
        json_t *devices = json_object_get(entry, "devices");
        json_t *counts = json_object_get(entry, "mig-devices");
        const char *profile;
        json_t *count;

        strbuf_puts(text, "  - ");
        if (filter) {
                strbuf_puts(text, "device-filter: ");
                parted_print_put_json(text, filter);
                strbuf_puts(text, "\n    ");
        }
        strbuf_puts(text, "devices: ");
        if (json_is_string(devices))
                strbuf_puts(text, json_string_value(devices));
        else
                parted_print_put_json(text, devices);
        strbuf_printf(text, "\n    mig-enabled: %s\n",
                json_is_true(json_object_get(entry, "mig-enabled")) ? "true" : "false");
        strbuf_puts(text, json_object_size(counts) ? "    mig-devices:\n" : "    mig-devices: {}\n");
        json_object_foreach(counts, profile, count)
        {
                strbuf_puts(text, "      ");
                put_key(text, profile);
                strbuf_printf(text, ": %u\n", (unsigned int)json_integer_value(count));
        }
}

static void print_yaml(struct strbuf *text, const json_t *json)
{
        json_t *configs = json_object_get(json, "mig-configs");
        const char *name;
        json_t *entries;

        strbuf_puts(text, "version: v1\nmig-configs:\n");
        json_object_foreach(configs, name, entries)
        {
                json_t *entry;
                size_t i;

                strbuf_puts(text, "  ");
                put_key(text, name);
                strbuf_puts(text, ":\n");
                json_array_foreach(entries, i, entry) parted_print_put_entry(text, entry);
        }
}

void mig_parted_print(struct strbuf *text, const struct mig_parted *parted, bool is_json)
{
        json_t *json = parted_json(parted);

        if (is_json) {
                _free_ char *printed = json_dumps(json, JSON_INDENT(2));

                strbuf_printf(text, "%s\n", printed);
        } else {
                print_yaml(text, json);
        }
        json_decref(json);
}
