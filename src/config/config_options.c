/*
 * The options: from the file, and merged from command line, environment, file and default into struct config.
 */
#include <stdio.h>
#include <string.h>

#include "config/config_reading.h"

#define MAX_ELEMENTS ((size_t)64) /* of one list that is an option */

/* ---- from the file ---- */

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

int config_options_read(
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

/* ---- merged ---- */

static const char *value_at(const struct config_reading *reading, size_t position)
{
        return reading->options->values[position] ? reading->options->values[position] : reading->values[position];
}

const char *config_option_set(const struct config_reading *reading, const char *flag)
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

static void store_option(const struct config_reading *reading, const struct option *option, const char *value)
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

int config_options_store(const struct config_reading *reading, struct error *err)
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
