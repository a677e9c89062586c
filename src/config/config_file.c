#include "config/config_file.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "config/config_manifest.h"

#define MAX_ELEMENTS ((size_t)64) /* of one list that is an option */

/* ---- options ---- */

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

static int read_list(const struct tree *tree, const struct tree_node *node, const struct option *option,
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
        /* Once more as a whole, which drops repetitions. */
        return option_check(option, list, tree->arena, ret, err);
}

static int read_option(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char **ret, struct error *err)
{
        const char *text;
        bool is_true;

        if (option_is_list(option))
                return read_list(tree, node, option, ret, err);
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

static int read_options(
        const struct config_reading *reading, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        const bool is_locked = strcmp(option_set_value(reading->options, "config-keys-from-flags-only"), "true") == 0;

        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char **value = &reading->values[i];
                struct tree_node node;

                if (!option->key || reading->options->values[i] || !find_key(tree, root, option->key, &node))
                        continue;
                if (read_option(tree, &node, option, value, err) < 0)
                        return -1;
                if (is_locked && option->grants_root && check_right(tree, &node, option, *value, err) < 0)
                        return -1;
        }
        return 0;
}

/* ---- the file ---- */

static int read_text(struct config_reading *reading, const struct config_text *text, struct error *err);

/* 1: it was a ConfigMap, and the configuration in it was read. Lines are counted within that. */
static int read_manifest(
        struct config_reading *reading, const struct yaml *yaml, const struct config_text *text, struct error *err)
{
        const char *found;
        const char *name;
        const int rc = config_manifest_open(
                yaml, option_set_value(reading->options, "config-default"), reading->arena, &found, &name, err);

        if (rc <= 0)
                return rc;
        const struct config_text inner = {.name = arena_printf(reading->arena, "%.100s: %.40s", text->name, name),
                .text = found,
                .size = strlen(found)};

        return read_text(reading, &inner, err) < 0 ? -1 : 1;
}

static void ignore_warning(const char *text UNUSED, void *data UNUSED)
{
}

static int read_text(struct config_reading *reading, const struct config_text *text, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const char *name = arena_printf(reading->arena, "config '%.150s'", text->name);
        struct tree tree = {.arena = reading->arena,
                .warn = reading->warn ? reading->warn : ignore_warning,
                .warn_data = reading->warn_data};
        struct tree_node root = {.path = "", .fold = true};
        struct sharing_defaults defaults = {.drop_in = reading->options->drop_in};
        const size_t policy = option_find("shared-devices-allocation-policy");
        int rc;

        if (yaml_load(&yaml, name, text->text, text->size, tree.warn, tree.warn_data, err) < 0)
                return -1;
        if (json_is_null(yaml->root))
                return 0;
        rc = read_manifest(reading, yaml, text, err);
        if (rc)
                return MIN(rc, 0);
        tree.yaml = yaml;
        root.json = yaml->root;
        root.line = yaml_line(yaml, yaml->root);
        if (schema_read(&tree, &root, &schema_file, reading->config, err) < 0 ||
                read_options(reading, &tree, &root, err) < 0 ||
                config_dra_check(&reading->config->dra, &tree, &root, err) < 0)
                return -1;
        defaults.policy = reading->options->values[policy] ? reading->options->values[policy] : reading->values[policy];
        return config_sharing_build(&reading->config->sharing, &tree, &root, &defaults, err);
}

int config_file_parse(struct config_reading *reading, const struct config_text *text, struct error *err)
{
        if (text->size > CONFIG_FILE_LIMIT)
                return error_set(err, ERROR_INVALID, "config '%.150s': %zu bytes are more than the limit of %zu",
                        text->name, text->size, CONFIG_FILE_LIMIT);
        return read_text(reading, text, err);
}

int config_file_read(struct config_reading *reading, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct config_text text = {.name = path};

        if (*path && file_read(path, CONFIG_FILE_LIMIT, &content, err) < 0)
                return error_prefix(err, "config");
        text.text = content.data;
        text.size = content.size;
        return config_file_parse(reading, &text, err);
}
