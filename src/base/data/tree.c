// SPDX-License-Identifier: Apache-2.0
#include "base/data/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* ---- places ---- */

static int tree_fail_at(const struct tree *tree, const struct tree_node *node, struct error *err, const char *text)
{
        return yaml_fail(tree->yaml, node->line, err, "%.200s%s%s", node->path, *node->path ? ": " : "", text);
}

int tree_fail(const struct tree *tree, const struct tree_node *node, struct error *err, const char *format, ...)
{
        char text[sizeof(err->text)];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        return tree_fail_at(tree, node, err, text);
}

int tree_prefix(const struct tree *tree, const struct tree_node *node, struct error *err)
{
        enum error_kind kind = err->kind;
        struct error inner = *err;

        tree_fail_at(tree, node, err, inner.text);
        err->kind = kind;
        return -1;
}

void tree_warn(const struct tree *tree, const struct tree_node *node, const char *format, ...)
{
        struct error err;
        char text[sizeof(err.text)];
        va_list args;

        if (!tree->warn)
                return;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        tree_fail_at(tree, node, &err, text);
        tree->warn(err.text, tree->warn_data);
}

/* ---- keys ---- */

static bool key_is(const struct tree_node *node, const char *a, const char *b)
{
        return node->fold ? strcasecmp(a, b) == 0 : strcmp(a, b) == 0;
}

/* The spelling in the file: the exact one, else the last that matches in another case, as encoding/json has it. */
static const char *spelling_of(const struct tree_node *node, const char *key)
{
        const char *found = NULL;
        const char *name;
        json_t *value;

        if (json_object_get(node->json, key))
                return key;
        if (!node->fold)
                return NULL;
        /* jansson iterates over const objects only through a non-const pointer; nothing is changed. */
        json_object_foreach((json_t *)(uintptr_t)node->json, name, value) if (strcasecmp(name, key) == 0) found = name;
        return found;
}

static const char *path_below(const struct tree *tree, const struct tree_node *node, const char *key)
{
        return arena_printf(tree->arena, "%s%s%.100s", node->path, *node->path ? "." : "", key);
}

bool tree_member(const struct tree *tree, const struct tree_node *node, const char *key, struct tree_node *ret)
{
        const char *spelling = spelling_of(node, key);
        const json_t *value = spelling ? json_object_get(node->json, spelling) : NULL;

        if (!value || json_is_null(value))
                return false;
        *ret = (struct tree_node){
                .json = value,
                .path = path_below(tree, node, key),
                .line = yaml_line_of(tree->yaml, node->json, spelling),
                .fold = node->fold,
        };
        return true;
}

bool tree_has(const struct tree *tree, const struct tree_node *node, const char *key)
{
        struct tree_node ignored;

        return tree_member(tree, node, key, &ignored);
}

void tree_item(const struct tree *tree, const struct tree_node *array, size_t index, struct tree_node *ret)
{
        *ret = (struct tree_node){
                .json = json_array_get(array->json, index),
                .path = arena_printf(tree->arena, "%s[%zu]", array->path, index),
                .line = yaml_line_at(tree->yaml, array->json, index),
                .fold = array->fold,
        };
}

const char *tree_print(const struct tree_node *node, char text[static TREE_VALUE_SIZE])
{
        size_t room = TREE_VALUE_SIZE - sizeof("...");
        size_t length = json_dumpb(node->json, text, room, JSON_COMPACT | JSON_ENCODE_ANY);

        if (length > room)
                strcpy(text + room, "...");
        else
                text[length] = '\0';
        text_clean(text);
        return text;
}

static bool tree_key_is_known(const struct tree_node *node, const char *name, const char *const *names, size_t n_names)
{
        for (size_t i = 0; i < n_names; i++)
                if (key_is(node, names[i], name))
                        return true;
        return false;
}

/* True if |name| is not among |names|: |member| is where it stands, and |nearest| the name that is like it, or NULL. */
static bool tree_key_is_unknown(const struct tree *tree, const struct tree_node *node, const char *name,
        const char *const *names, size_t n_names, struct tree_node *member, const char **nearest)
{
        if (tree_key_is_known(node, name, names, n_names))
                return false;
        *member = (struct tree_node){
                .path = path_below(tree, node, name), .line = yaml_line_of(tree->yaml, node->json, name)};
        *nearest = text_nearest(name, names, n_names);
        return true;
}

void tree_check_keys(const struct tree *tree, const struct tree_node *node, const char *const *names, size_t n_names)
{
        struct tree_node member;
        const char *nearest;
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)node->json, name, value)
        {
                if (!tree_key_is_unknown(tree, node, name, names, n_names, &member, &nearest))
                        continue;
                if (nearest)
                        tree_warn(tree, &member, "unknown key, ignored; did you mean '%s'?", nearest);
                else
                        tree_warn(tree, &member, "unknown key, ignored");
        }
}

int tree_refuse_keys(const struct tree *tree, const struct tree_node *node, const char *const *names, size_t n_names,
        struct error *err)
{
        struct tree_node member;
        const char *nearest;
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)node->json, name, value)
        {
                if (!tree_key_is_unknown(tree, node, name, names, n_names, &member, &nearest))
                        continue;
                return nearest ? tree_fail(tree, &member, err, "unknown key; did you mean '%s'?", nearest)
                               : tree_fail(tree, &member, err, "unknown key, remove it");
        }
        return 0;
}

/* ---- values ---- */

static int fail_type(const struct tree *tree, const struct tree_node *node, struct error *err, const char *wanted)
{
        char text[TREE_VALUE_SIZE];

        return tree_fail(tree, node, err, "%s, must be %s", tree_print(node, text), wanted);
}

int tree_object(const struct tree *tree, const struct tree_node *node, struct error *err)
{
        return json_is_object(node->json) ? 0 : fail_type(tree, node, err, "a mapping");
}

int tree_array(const struct tree *tree, const struct tree_node *node, size_t most, size_t *ret_count, struct error *err)
{
        if (!json_is_array(node->json))
                return fail_type(tree, node, err, "a list");
        *ret_count = json_array_size(node->json);
        if (*ret_count > most)
                return tree_fail(tree, node, err, "%zu entries, at most %zu", *ret_count, most);
        return 0;
}

/* "0.1", not "0.10000000000000001": the fewest digits that mean the same number, as Go prints it. */
static const char *shortest_real(struct arena *arena, double value)
{
        char text[32];

        for (int digits = 6; digits <= 17; digits++) {
                snprintf(text, sizeof(text), "%.*g", digits, value);
                if (strtod(text, NULL) == value)
                        break;
        }
        return arena_strdup(arena, text);
}

int tree_string(const struct tree *tree, const struct tree_node *node, const char **ret, struct error *err)
{
        const json_t *value = node->json;

        if (json_is_string(value))
                *ret = arena_strdup(tree->arena, json_string_value(value));
        else if (json_is_boolean(value))
                *ret = json_is_true(value) ? "true" : "false";
        else if (json_is_integer(value))
                *ret = arena_printf(tree->arena, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
                *ret = shortest_real(tree->arena, json_real_value(value));
        else
                return fail_type(tree, node, err, "text");
        return 0;
}

int tree_bool(const struct tree *tree, const struct tree_node *node, bool *ret, struct error *err)
{
        if (!json_is_boolean(node->json))
                return fail_type(tree, node, err, "true or false");
        *ret = json_is_true(node->json);
        return 0;
}

bool tree_is_whole(const struct tree_node *node)
{
        double value = json_real_value(node->json);

        return json_is_integer(node->json) ||
               (json_is_real(node->json) && value >= -0x1p63 && value < 0x1p63 && value == (double)(json_int_t)value);
}

int tree_uint(const struct tree *tree, const struct tree_node *node, unsigned int least, unsigned int most,
        unsigned int *ret, struct error *err)
{
        json_int_t value;

        if (!tree_is_whole(node))
                return fail_type(tree, node, err, "a whole number");
        value = json_is_integer(node->json) ? json_integer_value(node->json) : (json_int_t)json_real_value(node->json);
        if (value < (json_int_t)least || value > (json_int_t)most)
                return tree_fail(tree, node, err, "%lld, must be from %u to %u", (long long)value, least, most);
        *ret = (unsigned int)value;
        return 0;
}
