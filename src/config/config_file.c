#include "config/config_file.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"

/* ---- keys that are known ---- */

/*
 * Beside what the option table reads: keys of NVIDIA's schema that this version does not act on. Those with "*" mean nothing
 * here whatever their value (they speak to other programs, or only matter together with one that is warned about).
 */
static void check_flags(const struct tree *tree, const struct tree_node *flags)
{
        static const struct tree_key flag_keys[] = {{"migStrategy"}, {"failOnInitError"}, {"mpsRoot"},
                {"nvidiaDriverRoot"}, {"plugin"}, {"nvidiaDevRoot", "*"}, {"gdrcopyEnabled", "false"},
                {"gdsEnabled", "false"}, {"mofedEnabled", "false"}, {"useNodeFeatureAPI", "*"},
                {"deviceDiscoveryStrategy", "\"auto\"|\"nvml\""}, {"gfd", "*"}};
        static const struct tree_key plugin_keys[] = {{"deviceListStrategy"}, {"deviceIDStrategy"},
                {"containerDriverRoot"}, {"sharedDevicesAllocationPolicy"}, {"passDeviceSpecs", "false"},
                {"cdiAnnotationPrefix", "*"}, {"nvidiaCTKPath", "*"}};
        struct tree_node plugin;

        tree_check_keys(tree, flags, flag_keys, ARRAY_SIZE(flag_keys));
        if (tree_member(tree, flags, "plugin", &plugin))
                tree_check_keys(tree, &plugin, plugin_keys, ARRAY_SIZE(plugin_keys));
}

static int check_keys(const struct tree *tree, const struct tree_node *root, struct error *err)
{
        static const struct tree_key root_keys[] = {{"version"}, {"flags"}, {"resources"}, {"sharing"}, {"imex"}};
        static const struct tree_key resource_keys[] = {{"gpus", "[]"}, {"mig", "[]"}};
        static const struct tree_key imex_keys[] = {{"channelIDs", "[]"}, {"required", "false"}};
        struct tree_node node;

        tree_check_keys(tree, root, root_keys, ARRAY_SIZE(root_keys));
        if (tree_member(tree, root, "flags", &node)) {
                struct tree_node plugin;

                if (tree_object(tree, &node, err) < 0)
                        return -1;
                if (tree_member(tree, &node, "plugin", &plugin) && tree_object(tree, &plugin, err) < 0)
                        return -1;
                check_flags(tree, &node);
        }
        if (tree_member(tree, root, "resources", &node)) {
                if (tree_object(tree, &node, err) < 0)
                        return -1;
                tree_check_keys(tree, &node, resource_keys, ARRAY_SIZE(resource_keys));
        }
        if (tree_member(tree, root, "imex", &node)) {
                if (tree_object(tree, &node, err) < 0)
                        return -1;
                tree_check_keys(tree, &node, imex_keys, ARRAY_SIZE(imex_keys));
        }
        return 0;
}

static int check_version(const struct tree *tree, const struct tree_node *root, struct error *err)
{
        struct tree_node node;
        const char *version;

        if (!tree_member(tree, root, "version", &node))
                return 0;
        if (tree_string(tree, &node, &version, err) < 0)
                return -1;
        if (*version && strcmp(version, "v1") != 0)
                return tree_fail(tree, &node, err, "'%.100s' is not a known version, use v1", version);
        return 0;
}

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

/* One word of a list. A comma inside is not split: in the file, NVIDIA's plugin does not split it either. */
static int read_word(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char **ret, struct error *err)
{
        const char *text;

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
        size_t count = json_array_size(node->json);
        const char *words = NULL;

        if (!json_is_array(node->json))
                return read_word(tree, node, option, ret, err);
        if (count == 0)
                return tree_fail(
                        tree, node, err, "[], must have at least one word, for example [%s]", option->fallback);
        for (size_t i = 0; i < count; i++) {
                struct tree_node item;
                const char *word;

                tree_item(tree, node, i, &item);
                if (read_word(tree, &item, option, &word, err) < 0)
                        return -1;
                words = words ? arena_printf(tree->arena, "%s,%s", words, word) : word;
        }
        /* Once more as a whole, which drops repetitions. */
        return option_check(option, words, tree->arena, ret, err);
}

static int read_option(const struct tree *tree, const struct tree_node *node, const struct option *option,
        const char **ret, struct error *err)
{
        const char *text;
        bool is_true;

        switch (option->type) {
        case OPTION_BOOL:
                if (tree_bool(tree, node, &is_true, err) < 0)
                        return -1;
                *ret = is_true ? "true" : "false";
                return 0;
        case OPTION_LIST:
                return read_list(tree, node, option, ret, err);
        case OPTION_STRING:
        case OPTION_CHOICE:
                break;
        }
        if (tree_string(tree, node, &text, err) < 0)
                return -1;
        if (option_check(option, text, tree->arena, ret, err) < 0)
                return tree_prefix(tree, node, err);
        return 0;
}

static int read_options(struct config_file *file, const struct tree *tree, const struct tree_node *root,
        const struct option_set *options, struct error *err)
{
        for (size_t i = 0; i < option_count; i++) {
                struct tree_node node;

                if (!option_table[i].key || options->values[i] || !find_key(tree, root, option_table[i].key, &node))
                        continue;
                if (read_option(tree, &node, &option_table[i], &file->values[i], err) < 0)
                        return -1;
        }
        return 0;
}

static void warn_nobody(const char *text UNUSED, void *data UNUSED)
{
}

static int read_text(struct config_file *file, const char *path, const struct strbuf *text,
        const struct option_set *options, struct arena *arena, config_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const char *name = arena_printf(arena, "config '%.150s'", path);
        struct tree tree = {.arena = arena, .warn = warn ? warn : warn_nobody, .warn_data = warn_data};
        struct tree_node root = {.path = "", .fold = true};

        if (yaml_load(&yaml, name, text->data, text->size, tree.warn, warn_data, err) < 0)
                return -1;
        if (json_is_null(yaml->root))
                return 0;
        tree.yaml = yaml;
        root.json = yaml->root;
        root.line = yaml_line(yaml, yaml->root);
        if (tree_object(&tree, &root, err) < 0 || check_version(&tree, &root, err) < 0 ||
                check_keys(&tree, &root, err) < 0 || read_options(file, &tree, &root, options, err) < 0)
                return -1;
        return config_sharing_read(file, &tree, &root, err);
}

int config_file_read(struct config_file *ret, const char *path, const struct option_set *options, struct arena *arena,
        config_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct config_file file = {.values = ARENA_ARRAY(arena, const char *, option_count)};

        if (*path && file_read(path, CONFIG_FILE_LIMIT, &text, err) < 0)
                return error_prefix(err, "config");
        if (read_text(&file, path, &text, options, arena, warn, warn_data, err) < 0)
                return -1;
        *ret = file;
        return 0;
}
