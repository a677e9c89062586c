// SPDX-License-Identifier: Apache-2.0
/*
 * The tables of the file as JSON Schema (draft 7, the one that editors read best), for completion and for marking what
 * is wrong.
 *
 * It is stricter than the agent where a file is legal but hardly meant: unknown keys and keys in another case are
 * wrong.
 */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/option.h"
#include "config/kube_name.h"
#include "config/schema.h"
#include "config/word.h"

#define LABEL "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define NAME_PATTERN "^(nvidia\\.com/)?" LABEL "(\\." LABEL ")*$"
#define DURATION_PATTERN "^(infinite|[-+]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|\xc2\xb5s|\xce\xbcs|ms|s|m|h))+))$"
#define UUID "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
#define DEVICE_PATTERN "^([0-9]+(:[0-9]+)?|(GPU|MIG)-" UUID "|MIG-GPU-" UUID "/[0-9]+/[0-9]+)$"
#define MEMORY_PATTERN "^[0-9]+((Mi|Gi)B?)?$"
#define XID_PATTERN "^[1-9][0-9]{0,4}$"

/* null is the same as absent, so it is legal wherever a key may be absent. */
static json_t *typed(bool is_needed, const char *type)
{
        return is_needed ? json_pack("{s:s}", "type", type) : json_pack("{s:[ss]}", "type", type, "null");
}

static json_t *enumeration(const char *const *words, bool is_needed)
{
        json_t *list = json_array();

        for (; *words; words++) {
                json_array_append_new(list, json_string(*words));
                if (strcmp(*words, "off") == 0) /* in YAML 1.1, without quotes */
                        json_array_append_new(list, json_false());
        }
        if (!is_needed)
                json_array_append_new(list, json_null());
        return json_pack("{s:o}", "enum", list);
}

/* A number or a boolean where text is wanted becomes text. */
static json_t *any_text(bool is_needed)
{
        json_t *types = json_pack("[sss]", "string", "number", "boolean");

        if (!is_needed)
                json_array_append_new(types, json_string("null"));
        return json_pack("{s:o}", "type", types);
}

static json_t *patterned(bool is_needed, const char *pattern)
{
        json_t *schema = typed(is_needed, "string");

        json_object_set_new(schema, "pattern", json_string(pattern));
        return schema;
}

static json_t *integer(unsigned int least, unsigned int most)
{
        return json_pack("{s:s, s:i, s:i}", "type", "integer", "minimum", (int)least, "maximum", (int)most);
}

static json_t *array_of(json_t *items, bool is_needed, unsigned int least, unsigned int most)
{
        json_t *schema = typed(is_needed, "array");

        if (least > 0)
                json_object_set_new(schema, "minItems", json_integer(least));
        if (most > 0)
                json_object_set_new(schema, "maxItems", json_integer(most));
        json_object_set_new(schema, "items", items);
        return schema;
}

/* ---- options ---- */

static json_t *option_schema(const struct option *option)
{
        switch (option->type) {
        case OPTION_BOOL:
                return typed(false, "boolean");
        case OPTION_CHOICE:
                return enumeration(option->choices, false);
        case OPTION_LIST:
                return json_pack("{s:[oo]}", "anyOf", enumeration(option->choices, false),
                        array_of(enumeration(option->choices, true), true, 0, 0));
        case OPTION_NUMBERS: {
                json_t *numbers = json_array();

                for (const char *const *choice = option->choices; *choice; choice++)
                        json_array_append_new(numbers, json_integer(strtol(*choice, NULL, 10)));
                return array_of(json_pack("{s:o}", "enum", numbers), false, 0, 0);
        }
        case OPTION_STRING:
        case OPTION_WORDS: /* none of them is in the file */
                break;
        }
        return any_text(false);
}

static json_t *option_default(const struct option *option)
{
        if (option->type == OPTION_BOOL)
                return json_boolean(strcmp(option->fallback, "true") == 0);
        if (option->type == OPTION_NUMBERS)
                return json_array(); /* the only default that they have */
        return json_string(option->fallback);
}

static void put_options(json_t *properties, const struct schema_object *object)
{
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char *name = schema_option_key(object, option);
                json_t *schema;

                if (!name)
                        continue;
                schema = option_schema(option);
                json_object_set_new(schema, "description", json_string(option->help));
                json_object_set_new(schema, "default", option_default(option));
                json_object_set_new(properties, name, schema);
        }
}

/* ---- keys ---- */

static json_t *devices_schema(void)
{
        json_t *device =
                json_pack("{s:[oo]}", "anyOf", integer(0, CONFIG_MAX_DEVICES - 1), patterned(true, DEVICE_PATTERN));

        return json_pack("{s:[ooo]}", "anyOf", enumeration((const char *const[]){"all", NULL}, false),
                integer(1, CONFIG_MAX_DEVICES), array_of(device, true, 1, CONFIG_MAX_DEVICES));
}

static json_t *xids_schema(void)
{
        json_t *schema = typed(false, "object");

        json_object_set_new(
                schema, "patternProperties", json_pack("{s:o}", XID_PATTERN, enumeration(xid_action_words, false)));
        json_object_set_new(schema, "additionalProperties", json_false());
        json_object_set_new(schema, "maxProperties", json_integer((json_int_t)CONFIG_MAX_XIDS));
        return schema;
}

static json_t *name_schema(bool is_needed)
{
        json_t *schema = patterned(is_needed, NAME_PATTERN);

        json_object_set_new(schema, "maxLength", json_integer((json_int_t)RESOURCE_NAME_MAX));
        return schema;
}

static json_t *object_schema(const struct schema_object *object, bool is_needed);

static json_t *key_schema(const struct schema_key *key)
{
        bool is_needed = key->needed;

        switch (key->type) {
        case SCHEMA_GROUP:
        case SCHEMA_OBJECT:
                return object_schema(key->object, is_needed);
        case SCHEMA_LIST:
                return array_of(object_schema(key->object, true), is_needed, key->least, key->most);
        case SCHEMA_BOOL:
                return typed(is_needed, "boolean");
        case SCHEMA_UINT:
                return integer(key->least, key->most);
        case SCHEMA_CHOICE:
        case SCHEMA_VERSION:
                return enumeration(key->choices, is_needed);
        case SCHEMA_TEXT:
                return any_text(is_needed);
        case SCHEMA_NAME:
                return name_schema(is_needed);
        case SCHEMA_DURATION:
                return json_pack("{s:[sss], s:s}", "type", "string", "number", "null", "pattern", DURATION_PATTERN);
        case SCHEMA_DEVICES:
                return devices_schema();
        case SCHEMA_MEMORY:
                return json_pack("{s:[ooo]}", "anyOf", enumeration((const char *const[]){"auto", NULL}, false),
                        integer(0, key->most), patterned(true, MEMORY_PATTERN));
        case SCHEMA_XIDS:
                return xids_schema();
        }
        return json_object();
}

/* The tables nest a few levels deep and do not contain themselves. */
static json_t *object_schema(const struct schema_object *object, bool is_needed) /* NOLINT(misc-no-recursion) */
{
        json_t *schema = typed(is_needed, "object");
        json_t *properties = json_object();
        json_t *required = json_array();

        for (size_t i = 0; i < object->n_keys; i++) {
                const struct schema_key *key = &object->keys[i];
                json_t *value = key_schema(key);

                json_object_set_new(value, "description", json_string(key->help));
                json_object_set_new(properties, key->name, value);
                if (key->needed)
                        json_array_append_new(required, json_string(key->name));
        }
        put_options(properties, object);
        json_object_set_new(schema, "properties", properties);
        json_object_set_new(schema, "additionalProperties", json_false());
        if (json_array_size(required) > 0)
                json_object_set(schema, "required", required);
        json_decref(required);
        return schema;
}

char *config_schema(void)
{
        json_t *schema = object_schema(&schema_file, false);
        json_t *head = json_pack("{s:s, s:s, s:s}", "$schema", "http://json-schema.org/draft-07/schema#", "title",
                "Warpshare configuration", "description",
                "The configuration file of warpshare agent: version v1 of NVIDIA's k8s-device-plugin, and more");
        char *printed;

        json_object_update(head, schema);
        json_decref(schema);
        printed = json_dumps(head, JSON_INDENT(2));
        json_decref(head);
        return printed ? printed : xstrdup("{}");
}
