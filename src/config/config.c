// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "config/config_sharing.h"
#include "config/option.h"
#include "config/schema.h"
#include "config/kube_name.h"

#define MAX_ELEMENTS ((size_t)64) /* of one list that is an option */

/* One reading of the configuration. */
struct reading {
        const struct option_set *options;
        struct arena *arena;
        config_warn_fn *warn; /* NULL: warnings are dropped */
        void *warn_data;
        const char *name;      /* of the text that is the configuration: a file, or one and a key in it */
        struct config *config; /* starts with the defaults; gets the keys that are not options */
        const char **values;   /* the options that are in the file, by position in option_table; NULL: not there */
};

/* ---- options in the file ---- */

/* Follows "flags.plugin.deviceIDStrategy" down from |root|. */
static bool find_key(const struct tree *tree, const struct tree_node *root, const char *key, struct tree_node *ret)
{
        char step[64];

        for (*ret = *root; *key; key += *key == '.') {
                size_t length = strcspn(key, ".");
                struct tree_node parent = *ret;

                snprintf(step, sizeof(step), "%.*s", (int)length, key);
                if (!tree_member(tree, &parent, step, ret))
                        return false;
                key += length;
        }
        return true;
}

/* One element of a list. A comma inside is not split: in the file, NVIDIA's plugin does not split it either. */
static int read_element(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char **ret, struct error *err)
{
        char printed[TREE_VALUE_SIZE];
        const char *text;

        if (option->type == OPTION_NUMBERS && !tree_is_whole(node))
                return tree_fail(tree, node, err, "%s, must be a whole number", tree_print(node, printed));
        if (tree_string(tree, node, &text, err) < 0)
                return -1;
        if (strchr(text, ','))
                return tree_fail(
                        tree, node, err, "'%.100s', must be one word, or a list: [%s]", text, option->fallback);
        if (option_check(option, text, tree->arena, ret, err) < 0)
                return tree_prefix(tree, node, err);
        return 0;
}

static int read_option_list(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char **ret, struct error *err)
{
        const char *list = NULL;
        size_t count;

        if (option->type == OPTION_LIST && !json_is_array(node->json))
                return read_element(tree, node, option, ret, err);
        if (tree_array(tree, node, MAX_ELEMENTS, &count, err) < 0)
                return -1;
        for (size_t i = 0; i < count; i++) {
                struct tree_node item;
                const char *element = "";

                tree_item(tree, node, i, &item);
                if (read_element(tree, &item, option, &element, err) < 0)
                        return -1;
                list = list ? arena_printf(tree->arena, "%s,%s", list, element) : element;
        }
        if (!list) { /* for deviceListStrategy, too: GPUs reach no container then, but what stands beside them does */
                *ret = "";
                return 0;
        }
        /* Checks the list as a whole, which drops repetitions. */
        return option_check(option, list, tree->arena, ret, err);
}

static int read_option(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char **ret, struct error *err)
{
        const char *text;
        bool is_true;

        if (option_is_list(option))
                return read_option_list(tree, node, option, ret, err);
        if (option->type == OPTION_BOOL) {
                if (tree_bool(tree, node, &is_true, err) < 0)
                        return -1;
                *ret = is_true ? "true" : "false";
                return 0;
        }
        if (tree_string(tree, node, &text, err) < 0)
                return -1;
        if (option_check(option, text, tree->arena, ret, err) < 0)
                return tree_prefix(tree, node, err);
        return 0;
}

/* Editing the ConfigMap must not give root on the nodes. A value that is the default anyway is allowed. */
static int check_right(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char *value, struct error *err)
{
        if (strcmp(value, option->fallback) == 0)
                return 0;
        return tree_fail(tree, node, err,
                "'%.100s' decides what runs or is mounted as root on the node, and configKeysFromFlagsOnly is on: remove the "
                "key, set --%s or %s, or start with --config-keys-from-flags-only=false",
                value, option->flag, option->environment[0]);
}

/*
 * Reads the options that are in the file, except those that |reading->options|, or values of the chart, have set
 * already: a wrong value does no harm where it does not count.
 */
static int config_read_options(
        const struct reading *reading, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        const bool is_locked = strcmp(option_set_value(reading->options, "config-keys-from-flags-only"), "true") == 0;

        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char **value = &reading->values[i];
                struct tree_node node;

                if (!option->key || reading->options->values[i] || *value || !find_key(tree, root, option->key, &node))
                        continue;
                if (read_option(tree, &node, option, value, err) < 0)
                        return -1;
                if (is_locked && option->grants_root && check_right(tree, &node, option, *value, err) < 0)
                        return -1;
        }
        return 0;
}

/* ---- options from everywhere ---- */

static const char *value_at(const struct reading *reading, size_t position)
{
        return reading->options->values[position] ? reading->options->values[position] : reading->values[position];
}

/* The value set on command line, in the environment or in the file; NULL: the default counts. */
static const char *set_value(const struct reading *reading, const char *flag)
{
        return value_at(reading, option_find(flag));
}

/* The elements of a list that is joined by commas, NULL-terminated. */
static const char *const *split_words(struct arena *arena, const char *value)
{
        char *list = arena_strdup(arena, value);
        const char **words = ARENA_ARRAY(arena, const char *, strlen(list) / 2 + 2);
        size_t count = 0;

        for (char *save = NULL, *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save))
                words[count++] = word;
        return words;
}

static void store_option(const struct reading *reading, const struct option *option, const char *value)
{
        void *member = (char *)reading->config + option->offset;
        const bool is_on = *value && strcmp(value, "false") != 0;
        unsigned int position;

        switch (option->member) {
        case OPTION_APART:
                break;
        case OPTION_TO_TEXT:
                *(const char **)member = arena_strdup(reading->arena, value);
                break;
        case OPTION_TO_BOOL:
                *(bool *)member = is_on;
                break;
        case OPTION_TO_BIT:
                *(unsigned int *)member |= is_on ? option->bit : 0;
                break;
        case OPTION_TO_NUMBER:
                position = option_position(option, value);
                *(unsigned int *)member = option->values ? option->values[position] : position;
                break;
        case OPTION_TO_SET:
                for (const char *const *word = split_words(reading->arena, value); *word; word++)
                        *(unsigned int *)member |= 1U << option_position(option, *word);
                break;
        case OPTION_TO_WORDS:
                *(const char *const **)member = split_words(reading->arena, value);
                break;
        }
}

static int store_options(const struct reading *reading, struct error *err)
{
        const char *root = option_set_value(reading->options, "kubelet-root"); /* which is not in the file */
        size_t length = strlen(root);

        if (root[0] != '/' || !root[1])
                return error_set(err, ERROR_INVALID,
                        "kubelet-root: '%.200s' is not the absolute path of a folder, such as " CONFIG_KUBELET_ROOT,
                        root);
        while (length > 1 && root[length - 1] == '/')
                length--;
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char *value = value_at(reading, i);

                /* A path of kubelet's that is not set is the default, below the root that kubelet has. */
                if (!value && option->is_below_kubelet)
                        value = arena_printf(reading->arena, "%.*s%s", (int)length, root,
                                option->fallback + strlen(CONFIG_KUBELET_ROOT));
                store_option(reading, option, value ? value : option->fallback);
        }
        return 0;
}

/* ---- the section "dra" ---- */

static int refuse_key(
        const struct tree *tree, const struct tree_node *section, const char *key, const char *text, struct error *err)
{
        struct tree_node node;

        tree_member(tree, section, key, &node);
        return tree_fail(tree, &node, err, "%s", text);
}

/*
 * One file is made for many nodes, so a list may name GPUs that a node does not have; a number would not say which GPUs
 * belong to DRA.
 */
static int dra_check_devices(
        const struct config_dra *dra, const struct tree *tree, const struct tree_node *section, struct error *err)
{
        if (dra->devices.kind == SELECT_COUNT)
                return refuse_key(
                        tree, section, "devices", "a number, must be all, or a list of indices and UUIDs of GPUs", err);
        for (size_t i = 0; i < dra->devices.n_refs; i++) {
                const struct device_ref *ref = &dra->devices.refs[i];

                if (ref->uuid ? text_starts_with(ref->uuid, "MIG-") : ref->mig >= 0)
                        return refuse_key(tree, section, "devices",
                                "has a MIG device, must be all, or a list of indices and UUIDs of GPUs, to which their MIG "
                                "devices belong",
                                err);
        }
        return 0;
}

static int check_dra(
        const struct config_dra *dra, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        struct tree_node section;

        if (!tree_member(tree, root, "dra", &section))
                return 0;
        if (dra_check_devices(dra, tree, &section, err) < 0)
                return -1;
        if (!dra->whole && !dra->mps && !dra->time_slicing)
                return tree_fail(
                        tree, &section, err, "whole, mps and timeSlicing are all false: at least one must be true");
        if (dra->daemon_scope == DAEMON_SCOPE_RESOURCE && (dra->whole || dra->time_slicing))
                return refuse_key(tree, &section, "daemonScope",
                        "resource, but then the MPS daemon has all GPUs as long as any is shared, and none can be given as a "
                        "whole or by time-slicing: set whole: false and timeSlicing: false",
                        err);
        return 0;
}

bool config_dra_selects(const struct config_dra *dra, unsigned int index, const char *uuid)
{
        const struct device_selector *devices = &dra->devices;

        if (devices->kind == SELECT_ALL)
                return true;
        for (size_t i = 0; i < devices->n_refs; i++)
                if (devices->refs[i].uuid ? strcmp(devices->refs[i].uuid, uuid) == 0 : devices->refs[i].gpu == index)
                        return true;
        return false;
}

/* The defaults of the keys; those of options are in their table. */
static const struct config config_initial = {
        .health.recover = true,
        .dra = {.whole = true,
                .mps = true,
                .slots = 4,
                .default_thread_percentage = 10,
                .default_clients = 1,
                .shares = 4},
};

/* ---- a ConfigMap or the values of a chart in the place of a configuration: people have these files ---- */

static const struct holder {
        const char *name;
        const char *map;      /* the mapping of which each member is a configuration */
        const char *fallback; /* which of them nodes without a label have */
} holders[] = {
        {"ConfigMap has", "data", ""},
        {"values of the chart have", "config.map", "config.default"},
        {"values of the GPU Operator have", "devicePlugin.config.data", "devicePlugin.config.default"},
};
enum { HOLDER_CONFIG_MAP, HOLDER_CHART, HOLDER_OPERATOR };

static const char *holder_keys(struct arena *arena, const json_t *data)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)data, key, value)
                strbuf_printf(&text, "%s%.60s", text.size ? ", " : "", key);
        return arena_strndup(arena, text.data, text.size < 200 ? text.size : 200);
}

/* Values of both charts have the name of a ConfigMap beside the configurations, even where both are empty. */
static bool has_values(const struct tree *tree, const struct tree_node *root, const char *key)
{
        struct tree_node node;

        return !tree_has(tree, root, "version") && !tree_has(tree, root, "sharing") &&
               find_key(tree, root, key, &node) &&
               (json_object_get(node.json, "map") || json_object_get(node.json, "name"));
}

/* NULL: |root| is a configuration itself. The error: it is a manifest of something else. */
static int holder_find(
        const struct holder **ret, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        const char *kind = json_string_value(json_object_get(root->json, "kind"));

        if (kind && json_object_get(root->json, "apiVersion")) {
                if (strcmp(kind, "ConfigMap") != 0)
                        return yaml_fail(tree->yaml, yaml_line_of(tree->yaml, root->json, "kind"), err,
                                "kind: a manifest of a '%.60s'; a configuration is the file itself, or the ConfigMap that has it",
                                kind);
                *ret = &holders[HOLDER_CONFIG_MAP];
        } else if (has_values(tree, root, "config")) {
                *ret = &holders[HOLDER_CHART];
        } else if (has_values(tree, root, "devicePlugin.config")) {
                *ret = &holders[HOLDER_OPERATOR];
        } else {
                *ret = NULL;
        }
        return 0;
}

/*
 * The configuration that --config-default names, else that of nodes without a label: the one that the values name, the
 * only one, or the one called "default".
 */
static int holder_open(struct tree_node *ret, const struct reading *reading, const struct tree *tree,
        const struct holder *holder, const struct tree_node *root, struct error *err)
{
        const char *chosen = option_set_value(reading->options, "config-default");
        struct tree_node map = *root;
        struct tree_node node;

        if (!find_key(tree, root, holder->map, &map) || !json_object_size(map.json))
                return yaml_fail(tree->yaml, map.line, err, "%s: the %s no configuration", holder->map, holder->name);
        if (!*chosen && *holder->fallback && find_key(tree, root, holder->fallback, &node) &&
                tree_string(tree, &node, &chosen, err) < 0)
                return -1;
        if (!*chosen && json_object_size(map.json) == 1)
                chosen = json_object_iter_key(json_object_iter((json_t *)(uintptr_t)map.json));
        if (!*chosen && !json_object_get(map.json, "default"))
                return tree_fail(tree, &map, err, "several configurations: %s; name one by --config-default",
                        holder_keys(tree->arena, map.json));
        if (!*chosen)
                chosen = "default";
        if (!tree_member(tree, &map, chosen, ret) || (!json_is_string(ret->json) && !json_is_object(ret->json)))
                return tree_fail(tree, &map, err, "no configuration '%.60s' among: %s", chosen,
                        holder_keys(tree->arena, map.json));
        return 0;
}

/* Values of the chart that become flags of the agent, which count more than its configuration. */
static int config_read_values(
        const struct reading *reading, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        for (size_t i = 0; i < option_count; i++) {
                const char *key = option_table[i].key;
                struct tree_node node;
                const char *text;

                if (!key || reading->options->values[i])
                        continue;
                key += text_starts_with(key, "flags.") ? strlen("flags.") : 0;
                key += text_starts_with(key, "plugin.") ? strlen("plugin.") : 0;
                if (!find_key(tree, root, key, &node))
                        continue;
                if (tree_string(tree, &node, &text, err) < 0)
                        return -1;
                if (option_check(&option_table[i], text, tree->arena, &reading->values[i], err) < 0)
                        return tree_prefix(tree, &node, err);
        }
        return 0;
}

/*
 * A file of another program: none of its keys is one of ours, or it is one for mig-parted, which begins with our
 * "version", too. NVIDIA's plugin starts with it, so a drop-in does.
 */
static int refuse_foreign(
        const struct reading *reading, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf known = STRBUF_INIT;
        const char *first = NULL;
        const char **names = ARENA_ARRAY(tree->arena, const char *, schema_file.n_keys);
        const char *nearest;
        const char *name;
        json_t *value;

        for (size_t i = 0; i < schema_file.n_keys; i++) {
                names[i] = schema_file.keys[i].name;
                strbuf_printf(&known, "%s%s", i ? ", " : "", names[i]);
        }
        if (reading->options->drop_in)
                return 0;
        if (json_object_get(root->json, "mig-configs"))
                return tree_fail(tree, root, err,
                        "mig-configs: this is a configuration of MIG, as for mig-parted: 'warpshare mig plan' reads it");
        json_object_foreach((json_t *)(uintptr_t)root->json, name, value)
        {
                for (size_t i = 0; i < schema_file.n_keys; i++)
                        if (strcasecmp(name, names[i]) == 0)
                                return 0;
                if (!first)
                        first = name;
        }
        if (!first)
                return 0;
        nearest = text_nearest(first, names, schema_file.n_keys);
        return tree_fail(tree, root, err,
                "'%.60s' is an unknown key, and none is known: a configuration has some of %s%s%s%s", first, known.data,
                nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static int config_read_tree(
        struct reading *reading, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        struct sharing_defaults defaults = {.drop_in = reading->options->drop_in};

        if (refuse_foreign(reading, tree, root, err) < 0 ||
                schema_read(tree, root, &schema_file, reading->config, err) < 0 ||
                config_read_options(reading, tree, root, err) < 0 ||
                check_dra(&reading->config->dra, tree, root, err) < 0)
                return -1;
        defaults.policy = set_value(reading, "shared-devices-allocation-policy");
        return config_sharing_build(&reading->config->sharing, tree, root, &defaults, err);
}

static int config_read_text(struct reading *reading, const struct config_text *text, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const char *name = arena_printf(reading->arena, "config '%.150s'", text->name);
        struct tree tree = {.arena = reading->arena, .warn = reading->warn, .warn_data = reading->warn_data};
        struct tree_node root = {.path = ""};
        struct tree_node found;
        struct config_text inner;
        const struct holder *holder = NULL;

        reading->name = arena_strdup(reading->arena, text->name);
        if (yaml_load(&yaml, name, text->text, text->size, tree.warn, tree.warn_data, err) < 0)
                return -1;
        if (json_is_null(yaml->root))
                return 0;
        tree.yaml = yaml;
        root.json = yaml->root;
        root.line = yaml_line(yaml, yaml->root);
        if (holder_find(&holder, &tree, &root, err) < 0)
                return -1;
        if (holder) {
                if (holder_open(&found, reading, &tree, holder, &root, err) < 0 ||
                        (holder == &holders[HOLDER_CHART] && config_read_values(reading, &tree, &root, err) < 0))
                        return -1;
                root = found;
        }
        root.fold = true;
        if (!holder || !json_is_string(root.json))
                return config_read_tree(reading, &tree, &root, err);
        inner.text = arena_strndup(reading->arena, json_string_value(root.json), json_string_length(root.json));
        inner.size = strlen(inner.text);
        inner.name = arena_printf(reading->arena, "%.100s: %.40s", text->name, root.path + strlen(holder->map) + 1);
        return config_read_text(reading, &inner, err); /* lines are counted within that text */
}

/* Reads |text|, or the file at |path| where it is NULL; "" is an empty file. */
static int config_read_file(
        struct reading *reading, const struct config_text *text, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct config_text file = {.name = path};

        if (!text) {
                if (*path && file_read(path, CONFIG_FILE_LIMIT, &content, err) < 0)
                        return error_prefix(err, "config");
                file.text = content.data;
                file.size = content.size;
                text = &file;
        }
        if (text->size > CONFIG_FILE_LIMIT)
                return error_set(err, ERROR_INVALID, "config '%.150s': %zu bytes are more than the limit of %zu",
                        text->name, text->size, CONFIG_FILE_LIMIT);
        return config_read_text(reading, text, err);
}

/* ---- options and keys together ---- */

static int check_driver_name(const char *name, struct error *err)
{
        if (strlen(name) <= CONFIG_MAX_DRIVER && text_is_subdomain(name))
                return 0;
        return error_set(err, ERROR_INVALID,
                "dra-driver-name: '%.100s' is not the name of a DRA driver: a DNS subdomain in lower case of at most "
                "%zu characters, such as gpu.example.com",
                name, CONFIG_MAX_DRIVER);
}

/* MPS cannot be described to a container without the place where it is on the host. */
static int check_mps_root(const struct reading *reading, struct error *err)
{
        struct config *config = reading->config;
        const struct sharing_section *section = config->sharing.mps;

        if (*config->mps.root || (!section && !(config->dra.enabled && config->dra.mps)))
                return 0;
        if (reading->options->is_read_only) {
                config->mps.root = "/run/nvidia/mps";
                if (reading->warn)
                        reading->warn(arena_printf(reading->arena,
                                              "%s: no mpsRoot is set, so /run/nvidia/mps is assumed; an agent needs "
                                              "--mps-root, MPS_ROOT or flags.mpsRoot, which the Helm chart sets",
                                              section ? "sharing.mps" : "dra.mps"),
                                reading->warn_data);
                return 0;
        }
        return error_set(err, ERROR_INVALID,
                "%s: needs the directory of MPS on the host, and none is set: use --mps-root, MPS_ROOT or flags.mpsRoot, "
                "for example /run/nvidia/mps%s",
                section ? arena_printf(
                                  reading->arena, "config '%.150s' line %d: sharing.mps", config->path, section->line)
                        : "dra.mps",
                section ? "" : "; or dra.mps: false offers no shares");
}

/* Also gives the labels of pods their names. */
static int check_kube_names(struct config *config, struct arena *arena, struct error *err)
{
        struct node_taint taint;

        if (*config->node.condition && node_condition_check(config->node.condition, err) < 0)
                return error_prefix(err, "--node-condition");
        if (*config->node.taint && node_taint_parse(&taint, arena, config->node.taint, err) < 0)
                return error_prefix(err, "--node-taint");
        if (pod_labels_name(&config->metrics.pod_label_names, arena, config->metrics.pod_labels, err) < 0)
                return error_prefix(err, "--metrics-pod-labels");
        return 0;
}

static int check_tls(const struct config *config, struct error *err)
{
        if (!*config->metrics.tls_certificate != !*config->metrics.tls_key)
                return error_set(err, ERROR_INVALID,
                        "--metrics-tls-certificate and --metrics-tls-key belong together: give both, or neither and one is made");
        if (*config->metrics.tls_certificate && !config->metrics.tls)
                return error_set(err, ERROR_INVALID, "--metrics-tls-certificate is for --metrics-tls");
        return 0;
}

int config_build_text(const struct option_set *options, const struct config_text *text, struct arena *arena,
        const struct config **ret, config_warn_fn *warn, void *warn_data, struct error *err)
{
        struct config *config = ARENA_NEW(arena, struct config);
        const char *path = option_set_value(options, "config-file");
        struct reading reading = {.options = options,
                .arena = arena,
                .warn = warn,
                .warn_data = warn_data,
                .config = config,
                .values = ARENA_ARRAY(arena, const char *, option_count)};

        *config = config_initial;
        if (config_read_file(&reading, text, path, err) < 0 || store_options(&reading, err) < 0)
                return -1;
        config->path = reading.name;
        config->devices.lists_are_default = !set_value(&reading, "device-list-strategy") && !options->drop_in;
        if (options->drop_in && !set_value(&reading, "device-metadata"))
                config->devices.metadata = false;
        if (!*config->driver.dev_root)
                config->driver.dev_root = config->driver.root;
        if (!*config->dra.instance)
                config->dra.instance = NULL;
        if (check_driver_name(config->dra.driver_name, err) < 0 || check_mps_root(&reading, err) < 0 ||
                check_kube_names(config, arena, err) < 0 || check_tls(config, err) < 0)
                return -1;
        *ret = config;
        return 0;
}

int config_build(const struct option_set *options, struct arena *arena, const struct config **ret, config_warn_fn *warn,
        void *warn_data, struct error *err)
{
        return config_build_text(options, NULL, arena, ret, warn, warn_data, err);
}

bool config_adds_cdi(const struct config *config)
{
        const struct sharing_section *sections[] = {config->sharing.mps, config->sharing.time_slicing};

        for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
                if (config->devices.lists_are_default && sections[i] &&
                        (sections[i]->scope == SCOPE_INDIVIDUAL || sections[i]->provisioning == PROVISIONING_DECLARED))
                        return true;
        return false;
}
