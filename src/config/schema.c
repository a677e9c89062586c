// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"
#include "config/config.h"
#include "config/go_value.h"
#include "config/option.h"
#include "config/kube_name.h"
#include "config/word.h"

/* ---- devices ---- */

#define UUID_LENGTH ((size_t)36)

/* In the driver's spelling: lower case, 8-4-4-4-12 digits. Returns what follows |text|'s 32 digits, or NULL. */
static const char *uuid_take_digits(const char *text, bool has_dashes, char *ret)
{
        static const size_t groups[] = {8, 4, 4, 4, 12};

        for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
                if (i > 0)
                        *ret++ = '-';
                if (i > 0 && has_dashes && *text++ != '-')
                        return NULL;
                if (strspn(text, "0123456789abcdefABCDEF") < groups[i])
                        return NULL;
                for (size_t k = 0; k < groups[i]; k++, text++)
                        *ret++ = (char)(*text >= 'A' && *text <= 'F' ? *text - 'A' + 'a' : *text);
        }
        *ret = '\0';
        return text;
}

/* The forms that NVIDIA's plugin reads: with and without dashes, in braces, after "urn:uuid:". NULL: none of them. */
static const char *take_uuid(const char *text, char *ret)
{
        const bool has_braces = *text == '{';
        const char *rest;

        if (strncasecmp(text, "urn:uuid:", strlen("urn:uuid:")) == 0)
                return uuid_take_digits(text + strlen("urn:uuid:"), true, ret);
        rest = uuid_take_digits(text + has_braces, true, ret);
        if (has_braces)
                return rest && *rest == '}' ? rest + 1 : NULL;
        return rest ? rest : uuid_take_digits(text, false, ret);
}

static bool take_index(const char *text, size_t length, unsigned int *ret)
{
        char digits[8];
        uint64_t value;

        if (length >= sizeof(digits))
                return false;
        memcpy(digits, text, length);
        digits[length] = '\0';
        if (!text_to_uint(digits, CONFIG_MAX_DEVICES - 1, &value))
                return false;
        *ret = (unsigned int)value;
        return true;
}

/* "<gpu instance>/<compute instance>" */
static bool is_instance_pair(const char *text)
{
        size_t length = strcspn(text, "/");
        unsigned int id;

        return text[length] && take_index(text, length, &id) &&
               take_index(text + length + 1, strlen(text + length + 1), &id);
}

/*
 * "GPU-<uuid>", "MIG-<uuid>", or "MIG-GPU-<uuid>/<gi>/<ci>", as drivers before 470 name MIG devices; with the UUID in
 * the driver's spelling. NULL: none of them.
 */
static const char *spell_uuid(const struct tree *tree, const char *text)
{
        static const char *const prefixes[] = {"MIG-GPU-", "GPU-", "MIG-"};
        char uuid[UUID_LENGTH + 1];
        size_t i = 0;

        while (i < ARRAY_SIZE(prefixes) && !text_starts_with(text, prefixes[i]))
                i++;
        if (i == ARRAY_SIZE(prefixes))
                return NULL;
        text = take_uuid(text + strlen(prefixes[i]), uuid);
        if (!text || (i == 0 ? *text != '/' || !is_instance_pair(text + 1) : *text))
                return NULL;
        return arena_printf(tree->arena, "%s%s%s", prefixes[i], uuid, text);
}

static bool parse_ref(const struct tree *tree, const char *text, struct device_ref *ret)
{
        size_t length = strcspn(text, ":");
        unsigned int mig;

        ret->uuid = spell_uuid(tree, text);
        if (ret->uuid)
                return true;
        if (!take_index(text, length, &ret->gpu))
                return false;
        if (!text[length])
                return true;
        if (!take_index(text + length + 1, strlen(text + length + 1), &mig))
                return false;
        ret->mig = (int)mig;
        return true;
}

static int read_ref(const struct tree *tree, const struct tree_node *node, struct device_ref *ret, struct error *err)
{
        char text[TREE_VALUE_SIZE];

        *ret = (struct device_ref){.mig = -1, .line = node->line};
        if (tree_is_whole(node))
                return tree_uint(tree, node, 0, CONFIG_MAX_DEVICES - 1, &ret->gpu, err);
        if (json_is_string(node->json) && parse_ref(tree, json_string_value(node->json), ret))
                return 0;
        return tree_fail(tree, node, err,
                "%s is not a device, use the index of a GPU (0), of a MIG device (\"0:1\"), or a UUID as nvidia-smi -L "
                "shows it",
                tree_print(node, text));
}

static bool ref_is_among(const struct device_ref *ref, const struct device_ref *refs, size_t n_refs)
{
        for (size_t i = 0; i < n_refs; i++) {
                if (!ref->uuid != !refs[i].uuid)
                        continue;
                if (ref->uuid ? strcmp(ref->uuid, refs[i].uuid) == 0
                              : ref->gpu == refs[i].gpu && ref->mig == refs[i].mig)
                        return true;
        }
        return false;
}

const char *device_ref_text(struct arena *arena, const struct device_ref *ref)
{
        if (ref->uuid)
                return ref->uuid;
        return ref->mig < 0 ? arena_printf(arena, "%u", ref->gpu) : arena_printf(arena, "%u:%d", ref->gpu, ref->mig);
}

static int read_refs(const struct tree *tree, const struct tree_node *node, size_t count, struct device_selector *ret,
        struct error *err)
{
        struct device_ref *refs = ARENA_ARRAY(tree->arena, struct device_ref, count);
        size_t n_refs = 0;

        for (size_t i = 0; i < count; i++) {
                struct tree_node item;

                tree_item(tree, node, i, &item);
                if (read_ref(tree, &item, &refs[n_refs], err) < 0)
                        return -1;
                if (ref_is_among(&refs[n_refs], refs, n_refs))
                        tree_warn(tree, &item, "listed already, counts once");
                else
                        n_refs++;
        }
        *ret = (struct device_selector){.kind = SELECT_LIST, .refs = refs, .n_refs = n_refs};
        return 0;
}

static int schema_read_devices(
        const struct tree *tree, const struct tree_node *node, struct device_selector *ret, struct error *err)
{
        char text[TREE_VALUE_SIZE];
        size_t count;

        if (json_is_string(node->json) && strcmp(json_string_value(node->json), "all") == 0) {
                ret->kind = SELECT_ALL;
                return 0;
        }
        if (tree_is_whole(node)) {
                ret->kind = SELECT_COUNT;
                return tree_uint(tree, node, 1, CONFIG_MAX_DEVICES, &ret->count, err);
        }
        if (!json_is_array(node->json))
                return tree_fail(tree, node, err, "%s, must be all, a number of devices, or a list of them",
                        tree_print(node, text));
        if (tree_array(tree, node, CONFIG_MAX_DEVICES, &count, err) < 0)
                return -1;
        if (count == 0)
                return tree_fail(tree, node, err, "[], must have at least one device; leave the key out for all");
        return read_refs(tree, node, count, ret, err);
}

/* ---- memory ---- */

/* "512", "512Mi", "512MiB", "1Gi", "1GiB": digits and a unit, nothing between them. */
static bool parse_size(const char *text, unsigned int most, uint64_t *ret_mib)
{
        size_t length = strspn(text, "0123456789");
        const char *unit = text + length;
        char digits[16];
        uint64_t factor = 1;
        uint64_t value;

        if (length == 0 || length >= sizeof(digits))
                return false;
        memcpy(digits, text, length);
        digits[length] = '\0';
        if (strcmp(unit, "Gi") == 0 || strcmp(unit, "GiB") == 0)
                factor = 1024;
        else if (*unit && strcmp(unit, "Mi") != 0 && strcmp(unit, "MiB") != 0)
                return false;
        if (!text_to_uint(digits, most, &value) || value * factor > most)
                return false;
        *ret_mib = value * factor;
        return true;
}

/* |*ret_given| is false for "auto". */
static int schema_read_memory(const struct tree *tree, const struct tree_node *node, const struct schema_key *key,
        uint64_t *ret, bool *ret_given, struct error *err)
{
        char text[TREE_VALUE_SIZE];
        unsigned int number;

        if (tree_is_whole(node)) {
                if (tree_uint(tree, node, 0, key->most, &number, err) < 0)
                        return -1;
                *ret = number;
        } else if (json_is_string(node->json) && strcmp(json_string_value(node->json), "auto") == 0) {
                *ret_given = false;
                return 0;
        } else if (!json_is_string(node->json) || !parse_size(json_string_value(node->json), key->most, ret)) {
                return tree_fail(tree, node, err,
                        "%s, must be auto, or an amount of memory from 0 to %u MiB: a number of MiB, or one with its unit "
                        "(512Mi, 1Gi)",
                        tree_print(node, text), key->most);
        }
        if (*ret == 0 && key->zero)
                return tree_fail(tree, node, err, "0, at least 1 MiB%s", key->zero);
        *ret_given = true;
        return 0;
}

/* ---- Xids ---- */

static int read_rule(const struct tree *tree, const struct tree_node *node, const char *name, struct xid_rule *ret,
        struct error *err)
{
        const char *text;
        size_t position;
        uint64_t xid;

        /* Keys keep their text, and YAML 1.1 reads 013 as 11: only one spelling of a number is unambiguous. */
        if (!text_to_uint(name, CONFIG_MAX_XID, &xid) || *name == '0')
                return tree_fail(
                        tree, node, err, "'%.100s' is not an Xid, use a number from 1 to %u", name, CONFIG_MAX_XID);
        if (tree_string(tree, node, &text, err) < 0)
                return -1;
        if (word_check(text, strlen(text), xid_action_words, &position, err) < 0)
                return tree_prefix(tree, node, err);
        *ret = (struct xid_rule){.xid = (unsigned int)xid, .unhealthy = position == 1, .line = node->line};
        return 0;
}

static int schema_read_xids(const struct tree *tree, const struct tree_node *node, const struct xid_rule **ret,
        size_t *ret_count, struct error *err)
{
        struct xid_rule *rules;
        const char *name;
        json_t *value;
        size_t n_rules = 0;
        size_t count;

        if (tree_object(tree, node, err) < 0)
                return -1;
        count = json_object_size(node->json);
        if (count > CONFIG_MAX_XIDS)
                return tree_fail(tree, node, err, "%zu entries, at most %zu", count, CONFIG_MAX_XIDS);
        rules = ARENA_ARRAY(tree->arena, struct xid_rule, count);
        json_object_foreach((json_t *)(uintptr_t)node->json, name, value)
        {
                struct tree_node item;

                if (!tree_member(tree, node, name, &item))
                        continue; /* null */
                if (read_rule(tree, &item, name, &rules[n_rules], err) < 0)
                        return -1;
                n_rules++;
        }
        *ret = rules;
        *ret_count = n_rules;
        return 0;
}

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
