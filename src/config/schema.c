#include "config/schema.h"

#include <stdint.h>
#include <string.h>

#include "config/go_value.h"
#include "config/option.h"
#include "config/resource_name.h"
#include "config/word.h"

const char *schema_option_key(const struct schema_object *object, const struct option *option)
{
        size_t length = object->options ? strlen(object->options) : 0;

        if (!object->options || !option->key || strncmp(option->key, object->options, length) != 0)
                return NULL;
        return strchr(option->key + length, '.') ? NULL : option->key + length;
}

/* ---- keys ---- */

static void check_keys(const struct tree *tree, const struct tree_node *node, const struct schema_object *object)
{
        _free_ const char **names = xcalloc(object->n_keys + option_count, sizeof(*names));
        size_t count = 0;

        for (size_t i = 0; i < object->n_keys; i++)
                names[count++] = object->keys[i].name;
        for (size_t i = 0; i < option_count; i++) {
                const char *name = schema_option_key(object, &option_table[i]);

                if (name)
                        names[count++] = name;
        }
        tree_check_keys(tree, node, names, count);
}

/* ---- values ---- */

static int schema_read_object(const struct tree *tree, const struct tree_node *node, const struct schema_object *object,
        void **ret, struct error *err)
{
        *ret = arena_alloc(tree->arena, 1, object->size);
        if (object->initial)
                memcpy(*ret, object->initial, object->size);
        return schema_read(tree, node, object, *ret, err);
}

static int schema_read_list(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        void **ret, size_t *ret_count, struct error *err)
{
        size_t count;
        char *items;

        if (tree_array(tree, node, key->most, &count, err) < 0)
                return -1;
        if (count < key->least)
                return tree_fail(tree, node, err, "empty%s", key->needed);
        items = arena_alloc(tree->arena, count, key->object->size);
        for (size_t i = 0; i < count; i++) {
                struct tree_node item;

                tree_item(tree, node, i, &item);
                if (schema_read(tree, &item, key->object, items + i * key->object->size, err) < 0)
                        return -1;
        }
        *ret = items;
        *ret_count = count;
        return 0;
}

static void store_position(const struct schema_key *key, size_t position, void *member)
{
        const unsigned int value = key->values ? key->values[position] : (unsigned int)position;

        if (key->size == sizeof(bool))
                *(bool *)member = value;
        else
                *(unsigned int *)member = value;
}

static int schema_read_bool(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        void *member, struct error *err)
{
        bool is_true;

        if (tree_bool(tree, node, &is_true, err) < 0)
                return -1;
        store_position(key, is_true, member);
        return 0;
}

static int schema_read_choice(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        void *member, struct error *err)
{
        const char *text = json_is_true(node->json) ? "on" : "off"; /* what YAML 1.1 makes booleans of */
        size_t position;

        if (!json_is_boolean(node->json) && tree_string(tree, node, &text, err) < 0)
                return -1;
        if (word_check(text, strlen(text), key->choices, &position, err) < 0)
                return tree_prefix(tree, node, err);
        store_position(key, position, member);
        return 0;
}

static int check_version(
        const struct tree *tree, const struct tree_node *node, const struct schema_key *key, struct error *err)
{
        const char *version;

        if (tree_string(tree, node, &version, err) < 0)
                return -1;
        if (!*version || strcmp(version, key->choices[0]) == 0)
                return 0;
        return tree_fail(tree, node, err, "'%.100s' is not a known version, use %s", version, key->choices[0]);
}

static int schema_read_name(const struct tree *tree, const struct tree_node *node, const char **ret, struct error *err)
{
        const char *text;

        if (tree_string(tree, node, &text, err) < 0)
                return -1;
        if (resource_name_check(text, tree->arena, ret, err) < 0)
                return tree_prefix(tree, node, err);
        return 0;
}

static int schema_read_duration(const struct tree *tree, const struct tree_node *node, int64_t *ret, struct error *err)
{
        char text[TREE_VALUE_SIZE];
        double number = json_number_value(node->json);

        if (json_is_number(node->json)) {
                *ret = number >= (double)INT64_MAX   ? INT64_MAX
                       : number <= (double)INT64_MIN ? INT64_MIN
                                                     : (int64_t)number;
                return 0;
        }
        if (json_is_string(node->json) && go_duration_parse(json_string_value(node->json), ret))
                return 0;
        return tree_fail(tree, node, err,
                "%s is not a duration, use numbers with units (60s, 1m30s, 500ms), infinite, or a number of nanoseconds",
                tree_print(node, text));
}

/* |target| is the struct of the mapping. */
static int schema_read_value(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        char *target, struct error *err)
{
        void *member = target + key->offset;
        size_t *count = (size_t *)(target + key->count);
        bool is_given = true;
        int rc = 0;

        if (key->is_pointer)
                member = *(void **)member = arena_alloc(tree->arena, 1, sizeof(int64_t));
        switch (key->type) {
        case SCHEMA_GROUP:
                rc = schema_read(tree, node, key->object, member, err);
                break;
        case SCHEMA_OBJECT:
                rc = schema_read_object(tree, node, key->object, member, err);
                break;
        case SCHEMA_LIST:
                rc = schema_read_list(tree, node, key, member, count, err);
                break;
        case SCHEMA_BOOL:
                rc = schema_read_bool(tree, node, key, member, err);
                break;
        case SCHEMA_UINT:
                rc = tree_uint(tree, node, key->least, key->most, member, err);
                break;
        case SCHEMA_CHOICE:
                rc = schema_read_choice(tree, node, key, member, err);
                break;
        case SCHEMA_TEXT:
                rc = tree_string(tree, node, member, err);
                break;
        case SCHEMA_NAME:
                rc = schema_read_name(tree, node, member, err);
                break;
        case SCHEMA_VERSION:
                rc = check_version(tree, node, key, err);
                break;
        case SCHEMA_DURATION:
                rc = schema_read_duration(tree, node, member, err);
                break;
        case SCHEMA_DEVICES:
                rc = schema_read_devices(tree, node, member, err);
                break;
        case SCHEMA_MEMORY:
                rc = schema_read_memory(tree, node, key, member, &is_given, err);
                break;
        case SCHEMA_XIDS:
                rc = schema_read_xids(tree, node, member, count, err);
                break;
        }
        if (key->has)
                *(bool *)(target + key->has) = is_given;
        return rc;
}

int schema_read(const struct tree *tree, const struct tree_node *node, const struct schema_object *object, void *target,
        struct error *err)
{
        struct tree_node self = *node;

        if (tree_object(tree, node, err) < 0)
                return -1;
        self.fold = node->fold && !object->exact;
        check_keys(tree, &self, object);
        if (object->line)
                *(int *)((char *)target + object->line) = node->line;
        for (size_t i = 0; i < object->n_keys; i++) {
                const struct schema_key *key = &object->keys[i];
                struct tree_node member;

                if (!tree_member(tree, &self, key->name, &member)) {
                        if (key->needed)
                                return tree_fail(tree, &self, err, "%s is missing%s", key->name, key->needed);
                        continue;
                }
                if (schema_read_value(tree, &member, key, target, err) < 0)
                        return -1;
        }
        return 0;
}
