// SPDX-License-Identifier: Apache-2.0
/*
 * The effective configuration, for the log, by the tables of options and keys: NVIDIA's order, then our own keys.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "config/config.h"
#include "config/option.h"
#include "config/schema.h"
#include "config/word.h"

static json_t *text(const char *value)
{
        json_t *json = json_string(value);

        /* Command line and environment may hold any bytes. */
        return json ? json : json_string("(not UTF-8)");
}

/* ---- values ---- */

static json_t *print_selector(const struct device_selector *devices)
{
        json_t *list;

        if (devices->kind == SELECT_ALL)
                return text("all");
        if (devices->kind == SELECT_COUNT)
                return json_integer(devices->count);
        list = json_array();
        for (size_t i = 0; i < devices->n_refs; i++) {
                const struct device_ref *ref = &devices->refs[i];

                json_array_append_new(list, ref->uuid      ? text(ref->uuid)
                                            : ref->mig < 0 ? json_sprintf("%u", ref->gpu)
                                                           : json_sprintf("%u:%d", ref->gpu, ref->mig));
        }
        return list;
}

static json_t *print_xids(const struct config *config)
{
        json_t *xids = json_object();
        char number[16];

        for (size_t i = 0; i < config->health.n_xid_rules; i++) {
                snprintf(number, sizeof(number), "%u", config->health.xid_rules[i].xid);
                json_object_set_new(xids, number, text(xid_action_words[config->health.xid_rules[i].unhealthy]));
        }
        return xids;
}

/* The word of a value that SCHEMA_CHOICE has stored. */
static json_t *print_choice(const struct schema_key *key, const void *member)
{
        const unsigned int value = key->size == sizeof(bool) ? *(const bool *)member : *(const unsigned int *)member;
        unsigned int position = 0;

        while (key->values && key->values[position] != value)
                position++;
        return text(key->choices[key->values ? position : value]);
}

static json_t *print_mapping(const struct config *config, const struct schema_object *object, const void *target);

static json_t *print_key_list(const struct config *config, const struct schema_key *key, const char *target)
{
        const char *items = *(const char *const *)(target + key->offset);
        json_t *list = json_array();

        for (size_t i = 0; i < *(const size_t *)(target + key->count); i++)
                json_array_append_new(list, print_mapping(config, key->object, items + i * key->object->size));
        return list;
}

static bool key_is_left_out(const struct schema_key *key, const char *target)
{
        const char *member = target + key->offset;

        if (!key->is_quiet)
                return false;
        if (key->has)
                return !*(const bool *)(target + key->has);
        if (key->count)
                return *(const size_t *)(target + key->count) == 0;
        for (size_t i = 0; i < key->size; i++)
                if (member[i])
                        return false;
        return true;
}

/* |target| is the struct of the mapping. */
static json_t *print_key(const struct config *config, const struct schema_key *key, const char *target)
{
        const void *member = key->is_pointer ? *(const void *const *)(target + key->offset) : target + key->offset;
        uint64_t mib;

        if (!member)
                return json_null();
        switch (key->type) {
        case SCHEMA_GROUP:
                return print_mapping(config, key->object, member);
        case SCHEMA_OBJECT:
                member = *(const void *const *)member;
                return member ? print_mapping(config, key->object, member) : json_object();
        case SCHEMA_LIST:
                return print_key_list(config, key, target);
        case SCHEMA_BOOL:
                return json_boolean(*(const bool *)member != (key->values && key->values[0]));
        case SCHEMA_UINT:
                return json_integer(*(const unsigned int *)member);
        case SCHEMA_CHOICE:
                return print_choice(key, member);
        case SCHEMA_TEXT:
        case SCHEMA_NAME:
                return text(*(const char *const *)member);
        case SCHEMA_VERSION:
                return text(key->choices[0]);
        case SCHEMA_DURATION: /* none of them is printed */
                break;
        case SCHEMA_DEVICES:
                return print_selector(member);
        case SCHEMA_MEMORY:
                mib = *(const uint64_t *)member;
                return (key->has ? *(const bool *)(target + key->has) : mib > 0)
                               ? json_sprintf("%lluMi", (unsigned long long)mib)
                               : text("auto");
        case SCHEMA_XIDS:
                return print_xids(config);
        }
        return json_null();
}

static json_t *print_words(const char *const *words)
{
        json_t *list = json_array();

        for (; *words; words++)
                json_array_append_new(list, text(*words));
        return list;
}

static json_t *print_set(const struct option *option, unsigned int set)
{
        json_t *list = json_array();

        for (unsigned int i = 0; option->choices[i]; i++)
                if (set & (1U << i))
                        json_array_append_new(list, text(option->choices[i]));
        return list;
}

/* NULL: it is left out. */
static json_t *print_option(const struct config *config, const struct option *option)
{
        const void *member = (const char *)config + option->offset;
        const char *value;

        switch (option->member) {
        case OPTION_APART:
                break;
        case OPTION_TO_TEXT:
                value = *(const char *const *)member;
                return text(value ? value : "");
        case OPTION_TO_BOOL:
                if (!*(const bool *)member && option->is_quiet)
                        return NULL;
                return option_is_list(option) ? json_pack("[i]", 0) : json_boolean(*(const bool *)member);
        case OPTION_TO_BIT:
                return json_boolean(*(const unsigned int *)member & option->bit);
        case OPTION_TO_NUMBER:
                return option->values ? json_integer(*(const unsigned int *)member)
                                      : text(option->choices[*(const unsigned int *)member]);
        case OPTION_TO_SET:
                return print_set(option, *(const unsigned int *)member);
        case OPTION_TO_WORDS:
                return print_words(*(const char *const *const *)member);
        }
        return NULL;
}

/* ---- mappings ---- */

/* The option or key that is called |name|; NULL: all of them. */
static void put_members(json_t *json, const struct config *config, const struct schema_object *object,
        const void *target, const char *name)
{
        for (size_t i = 0; i < option_count; i++) {
                const char *key = schema_option_key(object, &option_table[i]);

                if (key && (!name || strcmp(key, name) == 0))
                        json_object_set_new(json, key, print_option(config, &option_table[i]));
        }
        for (size_t i = 0; i < object->n_keys; i++) {
                const struct schema_key *key = &object->keys[i];

                if ((!name || strcmp(key->name, name) == 0) && !key_is_left_out(key, target))
                        json_object_set_new(json, key->name, print_key(config, key, target));
        }
}

/* The tables nest a few levels deep and do not contain themselves. */
static json_t *print_mapping(const struct config *config, const struct schema_object *object, const void *target)
{
        json_t *json = json_object();

        if (!object->printed)
                put_members(json, config, object, target, NULL);
        for (const char *const *name = object->printed; name && *name; name++)
                put_members(json, config, object, target, *name);
        return json;
}

/* ---- what the tables do not say ---- */

/* NVIDIA's plugin also prints the rule for what no other rule names. */
static void put_last_pattern(json_t *resources, const char *kind, const struct resource_pattern *patterns, size_t count)
{
        json_t *list = json_object_get(resources, kind);

        for (size_t i = 0; i < count; i++)
                if (strcmp(patterns[i].pattern, "*") == 0)
                        return;
        if (!list) {
                list = json_array();
                json_object_set_new(resources, kind, list);
        }
        json_array_append_new(list, json_pack("{s:s, s:s}", "pattern", "*", "name", "nvidia.com/gpu"));
}

/*
 * The options that are not in the file, since they must be known before the file can be read or cannot change while the
 * process lives: "kubelet-socket" is printed as "kubeletSocket".
 */
static const char *const process_options[] = {"config-file", "kubelet-socket", "kubelet-plugins-registry",
        "kubelet-plugins", "dra-instance", "mig-state-directory", "mig-program", "nvml-library", "system-root",
        "cdi-root", "cdi-feature-flags", "cdi-disable-hooks", "metrics-address", "metrics-dcgm", "metrics-tls",
        "metrics-tls-certificate", "metrics-tls-key", "metrics-authorization", "metrics-node-page",
        "metrics-pod-labels", "usage-interval", "node-name", "kubeconfig", "node-condition", "node-taint", "pod-name",
        "config-annotations", "events", "labels-output", "labels-file", "log-level", "log-format"};

static json_t *print_process(const struct config *config)
{
        json_t *process = json_object();
        char name[64];

        for (size_t i = 0; i < ARRAY_SIZE(process_options); i++) {
                const char *flag = process_options[i];
                size_t length = 0;

                for (; *flag && length + 1 < sizeof(name); flag++)
                        name[length++] = (char)(*flag == '-' ? *++flag - 'a' + 'A' : *flag);
                name[length] = '\0';
                json_object_set_new(process, strcmp(name, "usageInterval") == 0 ? "usageSeconds" : name,
                        print_option(config, &option_table[option_find(process_options[i])]));
        }
        return process;
}

/* Go's encoder escapes what HTML gives a meaning; outside of strings, JSON has none of it. */
static char *escape_html(const char *json)
{
        struct strbuf escaped = STRBUF_INIT;

        for (; *json; json++)
                if (strchr("<>&", *json))
                        strbuf_printf(&escaped, "\\u%04x", (unsigned int)*json);
                else
                        strbuf_putc(&escaped, *json);
        return strbuf_take(&escaped);
}

char *config_print(const struct config *config)
{
        json_t *json = print_mapping(config, &schema_file, config);
        json_t *resources = json_object_get(json, "resources");
        const struct sharing_section *mps = config->sharing.mps;
        _free_ char *printed = NULL;

        put_last_pattern(resources, "gpus", config->patterns.gpu, config->patterns.n_gpu);
        if (config->mig_strategy == MIG_STRATEGY_SINGLE)
                put_last_pattern(resources, "mig", config->patterns.mig, config->patterns.n_mig);
        if (mps && mps->provisioning != PROVISIONING_DECLARED)
                json_object_del(json_object_get(json_object_get(json, "sharing"), "mps"), "declaredOvercommit");
        json_object_set_new(json, "process", print_process(config));
        printed = json_dumps(json, JSON_INDENT(2));
        json_decref(json);
        /* Everything was checked while it was added, so only memory can be short. */
        return printed ? escape_html(printed) : xstrdup("{}");
}
