#include "config/config_file.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "config/config_manifest.h"

#define MAX_ELEMENTS ((size_t)64) /* of one list that is an option */

static int check_version(const struct tree *tree, const struct file_root *root, struct error *err)
{
        struct tree_node node;

        if (!root->version || !*root->version || strcmp(root->version, "v1") == 0)
                return 0;
        tree_member(tree, &root->node, "version", &node);
        return tree_fail(tree, &node, err, "'%.100s' is not a known version, use v1", root->version);
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

/* Whoever edits the ConfigMap is not to become root on the nodes by it. What would count anyway may stand there. */
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

static int read_options(struct config_file *file, const struct tree *tree, const struct tree_node *root,
        const struct option_set *options, struct error *err)
{
        const char *only = option_set_get(options, "config-keys-from-flags-only");
        const bool is_locked = only && strcmp(only, "true") == 0;

        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char **value = &file->values[i];
                struct tree_node node;

                if (!option->key || options->values[i] || !find_key(tree, root, option->key, &node))
                        continue;
                if (read_option(tree, &node, option, value, err) < 0)
                        return -1;
                if (is_locked && option->is_roots && *value && check_right(tree, &node, option, *value, err) < 0)
                        return -1;
        }
        return 0;
}

/* ---- sections ---- */

static const struct resource_pattern *copy_patterns(struct arena *arena, const struct schema_list *list)
{
        struct resource_pattern *patterns = ARENA_ARRAY(arena, struct resource_pattern, list->count);
        const struct file_pattern *items = list->items;

        for (size_t i = 0; i < list->count; i++)
                patterns[i] = (struct resource_pattern){
                        .pattern = items[i].pattern, .name = items[i].name, .line = items[i].node.line};
        return patterns;
}

static void read_resources(struct config_file *file, const struct tree *tree, const struct file_resources *resources)
{
        if (!resources)
                return;
        file->gpu_patterns = copy_patterns(tree->arena, &resources->gpus);
        file->n_gpu_patterns = resources->gpus.count;
        file->mig_patterns = copy_patterns(tree->arena, &resources->mig);
        file->n_mig_patterns = resources->mig.count;
}

static void read_health(struct config_file *file, const struct tree *tree, const struct file_health *health)
{
        if (!health)
                return;
        file->xids = health->xids;
        if (tree_has(tree, &health->node, "recover"))
                file->recover = health->recover;
        file->counts_remaps = health->pending_row_remap && strcmp(health->pending_row_remap, "unhealthy") == 0;
}

static void read_discovery(struct config_discovery *ret, const struct tree *tree, const struct file_flags *flags)
{
        const struct file_gfd *gfd = flags ? flags->gfd : NULL;

        if (flags && tree_has(tree, &flags->node, "useNodeFeatureAPI"))
                ret->use_node_feature_api = &flags->use_node_feature_api;
        if (!gfd)
                return;
        if (tree_has(tree, &gfd->node, "oneshot"))
                ret->oneshot = &gfd->oneshot;
        if (tree_has(tree, &gfd->node, "noTimestamp"))
                ret->no_timestamp = &gfd->no_timestamp;
        if (tree_has(tree, &gfd->node, "sleepInterval"))
                ret->sleep_ns = &gfd->sleep_ns;
        ret->output_file = gfd->output_file;
        ret->machine_type_file = gfd->machine_type_file;
}

static void warn_nobody(const char *text UNUSED, void *data UNUSED)
{
}

static int read_text(struct config_file *file, const struct config_text *text, const struct option_set *options,
        struct arena *arena, config_warn_fn *warn, void *warn_data, struct error *err);

/* 1: it was a ConfigMap, and the configuration in it was read. Lines are counted within that. */
static int read_manifest(struct config_file *file, const struct yaml *yaml, const struct config_text *text,
        const struct option_set *options, struct arena *arena, config_warn_fn *warn, void *warn_data, struct error *err)
{
        const char *chosen = option_set_get(options, "config-default");
        const char *name;
        const char *found;
        const int rc = config_manifest_open(yaml, chosen ? chosen : "", arena, &found, &name, err);

        if (rc <= 0)
                return rc;
        const struct config_text inner = {
                .name = arena_printf(arena, "%.100s: %.40s", text->name, name), .text = found, .size = strlen(found)};

        return read_text(file, &inner, options, arena, warn, warn_data, err) < 0 ? -1 : 1;
}

static int read_text(struct config_file *file, const struct config_text *text, const struct option_set *options,
        struct arena *arena, config_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const char *name = arena_printf(arena, "config '%.150s'", text->name);
        struct tree tree = {.arena = arena, .warn = warn ? warn : warn_nobody, .warn_data = warn_data};
        struct tree_node node = {.path = "", .fold = true};
        struct file_root *root = ARENA_NEW(arena, struct file_root);
        struct sharing_defaults defaults = {.drop_in = options->drop_in};
        size_t policy = option_find("shared-devices-allocation-policy");
        int rc;

        if (yaml_load(&yaml, name, text->text, text->size, tree.warn, warn_data, err) < 0)
                return -1;
        if (json_is_null(yaml->root))
                return 0;
        rc = read_manifest(file, yaml, text, options, arena, warn, warn_data, err);
        if (rc)
                return MIN(rc, 0);
        tree.yaml = yaml;
        node.json = yaml->root;
        node.line = yaml_line(yaml, yaml->root);
        if (schema_read(&tree, &node, &schema_file, root, err) < 0 || check_version(&tree, root, err) < 0 ||
                read_options(file, &tree, &root->node, options, err) < 0)
                return -1;
        read_resources(file, &tree, root->resources);
        read_health(file, &tree, root->health);
        defaults.policy = options->values[policy] ? options->values[policy] : file->values[policy];
        read_discovery(&file->discovery, &tree, root->flags);
        if (root->dra && config_dra_build(&file->dra, &tree, root->dra, err) < 0)
                return -1;
        return config_sharing_build(&file->sharing, &tree, root->sharing, &defaults, err);
}

int config_file_parse(struct config_file *ret, const struct config_text *text, const struct option_set *options,
        struct arena *arena, config_warn_fn *warn, void *warn_data, struct error *err)
{
        struct config_file file = {.values = ARENA_ARRAY(arena, const char *, option_count), .recover = true};

        if (config_dra_build(&file.dra, NULL, NULL, err) < 0)
                return -1;
        if (text->size > CONFIG_FILE_LIMIT)
                return error_set(err, ERROR_INVALID, "config '%.150s': %zu bytes are more than the limit of %zu",
                        text->name, text->size, CONFIG_FILE_LIMIT);
        if (read_text(&file, text, options, arena, warn, warn_data, err) < 0)
                return -1;
        *ret = file;
        return 0;
}

int config_file_read(struct config_file *ret, const char *path, const struct option_set *options, struct arena *arena,
        config_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct config_text text = {.name = path};

        if (*path && file_read(path, CONFIG_FILE_LIMIT, &content, err) < 0)
                return error_prefix(err, "config");
        text.text = content.data;
        text.size = content.size;
        return config_file_parse(ret, &text, options, arena, warn, warn_data, err);
}
