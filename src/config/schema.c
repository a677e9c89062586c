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

static int read_object(const struct tree *tree, const struct tree_node *node, const struct schema_object *object,
        void **ret, struct error *err)
{
        *ret = arena_alloc(tree->arena, 1, object->size);
        return schema_read(tree, node, object, *ret, err);
}

static int read_list(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        struct schema_list *ret, struct error *err)
{
        size_t count;

        if (tree_array(tree, node, key->most, &count, err) < 0)
                return -1;
        if (count < key->least)
                return tree_fail(tree, node, err, "empty%s", key->needed);
        ret->items = arena_alloc(tree->arena, count, key->object->size);
        ret->count = count;
        for (size_t i = 0; i < count; i++) {
                struct tree_node item;

                tree_item(tree, node, i, &item);
                if (schema_read(tree, &item, key->object, (char *)ret->items + i * key->object->size, err) < 0)
                        return -1;
        }
        return 0;
}

static int read_choice(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        unsigned int *ret, struct error *err)
{
        const char *text = json_is_true(node->json) ? "on" : "off"; /* what YAML 1.1 makes booleans of */
        size_t position;

        if (!json_is_boolean(node->json) && tree_string(tree, node, &text, err) < 0)
                return -1;
        if (word_check(text, strlen(text), key->choices, key->unsupported, &position, err) < 0)
                return tree_prefix(tree, node, err);
        *ret = (unsigned int)position;
        return 0;
}

static int read_name(const struct tree *tree, const struct tree_node *node, const char **ret, struct error *err)
{
        const char *text;

        if (tree_string(tree, node, &text, err) < 0)
                return -1;
        if (resource_name_check(text, tree->arena, ret, err) < 0)
                return tree_prefix(tree, node, err);
        return 0;
}

static int read_duration(const struct tree *tree, const struct tree_node *node, int64_t *ret, struct error *err)
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

static int read_value(const struct tree *tree, const struct tree_node *node, const struct schema_key *key, void *member,
        struct error *err)
{
        switch (key->type) {
        case SCHEMA_OBJECT:
                return read_object(tree, node, key->object, member, err);
        case SCHEMA_LIST:
                return read_list(tree, node, key, member, err);
        case SCHEMA_BOOL:
                return tree_bool(tree, node, member, err);
        case SCHEMA_UINT:
                return tree_uint(tree, node, key->least, key->most, member, err);
        case SCHEMA_CHOICE:
                return read_choice(tree, node, key, member, err);
        case SCHEMA_TEXT:
                return tree_string(tree, node, member, err);
        case SCHEMA_NAME:
                return read_name(tree, node, member, err);
        case SCHEMA_DURATION:
                return read_duration(tree, node, member, err);
        case SCHEMA_DEVICES:
                return schema_read_devices(tree, node, member, err);
        case SCHEMA_MEMORY:
                return schema_read_memory(tree, node, key->most, member, err);
        case SCHEMA_XIDS:
                return schema_read_xids(tree, node, member, err);
        }
        return error_set(err, ERROR_INTERNAL, "a key without a type");
}

int schema_read(const struct tree *tree, const struct tree_node *node, const struct schema_object *object, void *target,
        struct error *err)
{
        struct tree_node *self = target;

        if (tree_object(tree, node, err) < 0)
                return -1;
        *self = *node;
        self->fold = node->fold && !object->exact;
        check_keys(tree, self, object);
        for (size_t i = 0; i < object->n_keys; i++) {
                const struct schema_key *key = &object->keys[i];
                struct tree_node member;

                if (!tree_member(tree, self, key->name, &member)) {
                        if (key->needed)
                                return tree_fail(tree, self, err, "%s is missing%s", key->name, key->needed);
                        continue;
                }
                if (read_value(tree, &member, key, (char *)target + key->offset, err) < 0)
                        return -1;
        }
        return 0;
}
