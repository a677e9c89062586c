// SPDX-License-Identifier: Apache-2.0
/*
 * The tree is built from parser events, not from libyaml's own document: the caps then hold while the text is read, and
 * a text that is all anchors costs no quadratic search.
 */
#include "base/data/yaml.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/data/yaml_scalar.h"

struct loader {
        yaml_parser_t parser;
        struct yaml *yaml;
        struct map anchors; /* name → struct anchor *, in the arena of the yaml */
        size_t nodes;
        yaml_warn_fn *warn;
        void *warn_data;
        struct error *err;
};

struct anchor {
        json_t *value; /* NULL while its collection is still open */
        size_t nodes;  /* what an alias to it costs */
        unsigned int height;
};

/* A value under construction: what its parent and its anchor need to know about it. */
struct node {
        json_t *value;
        size_t nodes;
        unsigned int height; /* 0 for a scalar */
        int line;
};

static json_t *load_node(struct loader *loader, yaml_event_t *event, unsigned int depth, struct node *ret);

/* ---- lines ---- */

/*
 * "<address> <key>", or the address alone for the container itself. False if the key is longer than any that was
 * stored.
 */
static bool line_key(char *buffer, size_t size, const json_t *container, const char *key)
{
        int length = snprintf(buffer, size, "%" PRIxPTR "%s%s", (uintptr_t)container, key ? " " : "", key ? key : "");

        return length > 0 && (size_t)length < size;
}

static void line_set(struct yaml *yaml, const json_t *container, const char *key, int line)
{
        char buffer[YAML_MAX_KEY + 32];
        int *known;

        if (!line_key(buffer, sizeof(buffer), container, key))
                return;
        known = map_find(&yaml->lines, buffer);
        if (!known) {
                known = ARENA_NEW(&yaml->arena, int);
                map_add(&yaml->lines, arena_strdup(&yaml->arena, buffer), known);
        }
        *known = line;
}

static int line_get(const struct yaml *yaml, const json_t *container, const char *key)
{
        char buffer[YAML_MAX_KEY + 32];
        const int *known;

        if (!container || !line_key(buffer, sizeof(buffer), container, key))
                return 0;
        known = map_find(&yaml->lines, buffer);
        return known ? *known : 0;
}

/* Positions of items and keys of members cannot meet: a container is an array or an object. */
static const char *item_key(char buffer[static 24], size_t index)
{
        snprintf(buffer, 24, "%zu", index);
        return buffer;
}

int yaml_line(const struct yaml *yaml, const json_t *container)
{
        return line_get(yaml, container, NULL);
}

int yaml_line_of(const struct yaml *yaml, const json_t *object, const char *key)
{
        return line_get(yaml, object, key);
}

int yaml_line_at(const struct yaml *yaml, const json_t *array, size_t index)
{
        char buffer[24];

        return line_get(yaml, array, item_key(buffer, index));
}

/* ---- failing and warning ---- */

static int fail_at(const struct yaml *yaml, int line, struct error *err, const char *format, va_list args)
        PRINTF_LIKE(4, 0);

static int fail_at(const struct yaml *yaml, int line, struct error *err, const char *format, va_list args)
{
        char text[sizeof(err->text)];

        vsnprintf(text, sizeof(text), format, args);
        if (line > 0)
                return error_set(err, ERROR_INVALID, "%s line %d: %s", yaml->name, line, text);
        return error_set(err, ERROR_INVALID, "%s: %s", yaml->name, text);
}

int yaml_fail(const struct yaml *yaml, int line, struct error *err, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fail_at(yaml, line, err, format, args);
        va_end(args);
        return -1;
}

static json_t *loader_fail(struct loader *loader, int line, const char *format, ...) PRINTF_LIKE(3, 4);

static json_t *loader_fail(struct loader *loader, int line, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fail_at(loader->yaml, line, loader->err, format, args);
        va_end(args);
        return NULL;
}

static void loader_warn(struct loader *loader, int line, const char *format, ...) PRINTF_LIKE(3, 4);

static void loader_warn(struct loader *loader, int line, const char *format, ...)
{
        struct error text;
        va_list args;

        if (!loader->warn)
                return;
        va_start(args, format);
        fail_at(loader->yaml, line, &text, format, args);
        va_end(args);
        loader->warn(text.text, loader->warn_data);
}

/* ---- events ---- */

static int line_of(const yaml_event_t *event)
{
        return (int)event->start_mark.line + 1; /* a text of 2 GiB lines is far beyond any cap */
}

static int next_event(struct loader *loader, yaml_event_t *event)
{
        const yaml_parser_t *parser = &loader->parser;

        if (yaml_parser_parse(&loader->parser, event))
                return 0;
        if (parser->error == YAML_MEMORY_ERROR)
                alloc_fail();
        if (parser->error == YAML_READER_ERROR)
                return yaml_fail(loader->yaml, 0, loader->err, "byte %zu: %s", parser->problem_offset, parser->problem);
        return yaml_fail(loader->yaml, (int)parser->problem_mark.line + 1, loader->err, "%s%s%s",
                parser->context ? parser->context : "", parser->context ? ": " : "",
                parser->problem ? parser->problem : "not YAML");
}

/* ---- values ---- */

static bool has_nul(const yaml_event_t *event)
{
        return memchr(event->data.scalar.value, '\0', event->data.scalar.length) != NULL;
}

/* Counts |more| nodes against the cap. */
static int count_nodes(struct loader *loader, size_t more, int line)
{
        loader->nodes += more;
        if (loader->nodes <= YAML_MAX_NODES)
                return 0;
        return yaml_fail(loader->yaml, line, loader->err, "more than %zu values (aliases count as what they stand for)",
                YAML_MAX_NODES);
}

static json_t *load_scalar(struct loader *loader, const yaml_event_t *event)
{
        const char *text = (const char *)event->data.scalar.value;
        const char *tag = (const char *)event->data.scalar.tag;
        json_t *value;

        if (has_nul(event))
                return loader_fail(loader, line_of(event), "a value with a NUL character");
        value = yaml_scalar(tag, event->data.scalar.plain_implicit, text, event->data.scalar.length);
        if (!value && tag)
                return loader_fail(loader, line_of(event), "'%.100s' cannot be read as '%.100s'", text, tag);
        if (!value)
                return loader_fail(loader, line_of(event), "'%.100s' is not a finite number or not UTF-8", text);
        return value;
}

static json_t *load_alias(struct loader *loader, const yaml_event_t *event, unsigned int depth, struct node *ret)
{
        const char *name = (const char *)event->data.alias.anchor;
        const struct anchor *anchor = map_find(&loader->anchors, name);
        int line = line_of(event);

        if (!anchor)
                return loader_fail(loader, line, "alias '*%.100s' has no anchor before it", name);
        if (!anchor->value)
                return loader_fail(loader, line, "alias '*%.100s' stands inside its own anchor", name);
        if (depth + anchor->height > YAML_MAX_DEPTH)
                return loader_fail(loader, line, "nested deeper than %u levels", YAML_MAX_DEPTH);
        /* The alias itself has been counted as one already. */
        if (count_nodes(loader, anchor->nodes - 1, line) < 0)
                return NULL;
        ret->nodes = anchor->nodes;
        ret->height = anchor->height;
        return json_incref(anchor->value);
}

static void node_grow(struct node *parent, const struct node *child)
{
        parent->nodes += child->nodes;
        parent->height = child->height + 1 > parent->height ? child->height + 1 : parent->height;
}

static json_t *load_sequence(struct loader *loader, unsigned int depth, struct node *ret)
{
        json_t *array = json_array();

        for (;;) {
                struct node item;
                yaml_event_t event;
                char key[24];
                json_t *value;
                bool is_end;

                if (next_event(loader, &event) < 0)
                        goto fail;
                is_end = event.type == YAML_SEQUENCE_END_EVENT;
                value = is_end ? NULL : load_node(loader, &event, depth, &item);
                yaml_event_delete(&event);
                if (is_end)
                        return array;
                if (!value)
                        goto fail;
                line_set(loader->yaml, array, item_key(key, json_array_size(array)), item.line);
                node_grow(ret, &item);
                json_array_append_new(array, value);
        }
fail:
        json_decref(array);
        return NULL;
}

/* Members of |from| that |object| does not have yet. */
static int merge_object(struct loader *loader, json_t *object, json_t *from, int line, struct node *ret)
{
        const char *key;
        json_t *value;

        if (!json_is_object(from))
                return yaml_fail(
                        loader->yaml, line, loader->err, "the value of '<<' must be a mapping or a list of mappings");
        /* The merged members are at most as high as the value of "<<", which is counted in |ret| already. */
        if (count_nodes(loader, json_object_size(from), line) < 0)
                return -1;
        ret->nodes += json_object_size(from);
        json_object_foreach(from, key, value)
        {
                if (json_object_get(object, key))
                        continue;
                json_object_set(object, key, value);
                line_set(loader->yaml, object, key, yaml_line_of(loader->yaml, from, key));
        }
        return 0;
}

/* |merged| is the value of one "<<". */
static int yaml_merge(struct loader *loader, json_t *object, json_t *merged, int line, struct node *ret)
{
        json_t *item;
        size_t i;

        if (!json_is_array(merged))
                return merge_object(loader, object, merged, line, ret);
        json_array_foreach(merged, i, item) if (merge_object(loader, object, item, line, ret) < 0) return -1;
        return 0;
}

/* Reads a key; an owned copy, or NULL and an error. The end of the mapping is a success with *ret_end set. */
static char *load_key(struct loader *loader, int *ret_line, bool *ret_merge, bool *ret_end)
{
        const char *text;
        yaml_event_t event;
        char *key = NULL;

        if (next_event(loader, &event) < 0)
                return NULL;
        *ret_line = line_of(&event);
        *ret_end = event.type == YAML_MAPPING_END_EVENT;
        if (*ret_end) {
                yaml_event_delete(&event);
                return NULL;
        }
        text = event.type == YAML_SCALAR_EVENT ? (const char *)event.data.scalar.value : NULL;
        if (!text)
                yaml_fail(loader->yaml, *ret_line, loader->err, "a key must be a plain word or a string");
        else if (has_nul(&event) || event.data.scalar.length > YAML_MAX_KEY)
                yaml_fail(loader->yaml, *ret_line, loader->err, "a key with a NUL character or of more than %zu bytes",
                        YAML_MAX_KEY);
        else
                key = xstrdup(text);
        if (key)
                *ret_merge = event.data.scalar.plain_implicit && strcmp(key, "<<") == 0;
        yaml_event_delete(&event);
        return key;
}

static json_t *load_mapping(struct loader *loader, unsigned int depth, struct node *ret)
{
        json_t *object = json_object();
        json_t *merged = json_array(); /* the values of "<<" */
        int merged_line = 0;

        for (;;) {
                _free_ char *key = NULL;
                struct node member;
                yaml_event_t event;
                json_t *value;
                bool is_merge = false;
                bool is_end = false;
                int line;

                key = load_key(loader, &line, &is_merge, &is_end);
                if (is_end)
                        break;
                if (!key || next_event(loader, &event) < 0)
                        goto fail;
                value = load_node(loader, &event, depth, &member);
                yaml_event_delete(&event);
                if (!value)
                        goto fail;
                node_grow(ret, &member);
                if (is_merge) {
                        json_array_append_new(merged, value);
                        merged_line = line;
                        continue;
                }
                if (json_object_get(object, key))
                        loader_warn(loader, line, "key '%.100s' is there already (line %d); the last one counts", key,
                                yaml_line_of(loader->yaml, object, key));
                line_set(loader->yaml, object, key, line);
                if (json_object_set_new(object, key, value) < 0) {
                        loader_fail(loader, line, "a key that is not UTF-8");
                        goto fail;
                }
        }
        /* After all own members, since those win wherever they stand; of several "<<", the last one first. */
        for (size_t i = json_array_size(merged); i > 0; i--)
                if (yaml_merge(loader, object, json_array_get(merged, i - 1), merged_line, ret) < 0)
                        goto fail;
        json_decref(merged);
        return object;
fail:
        json_decref(merged);
        json_decref(object);
        return NULL;
}

static struct anchor *add_anchor(struct loader *loader, const yaml_char_t *name)
{
        struct arena *arena = &loader->yaml->arena;
        struct anchor *anchor;

        if (!name)
                return NULL;
        anchor = map_find(&loader->anchors, (const char *)name);
        if (!anchor) {
                anchor = ARENA_NEW(arena, struct anchor);
                map_add(&loader->anchors, arena_strdup(arena, (const char *)name), anchor);
        }
        /* A name may be given again, and means the newest value from then on. */
        json_decref(anchor->value);
        anchor->value = NULL;
        return anchor;
}

/* The value that begins with |event|; an owned reference, or NULL and an error. |depth| is that of the parent. */
static json_t *load_node(struct loader *loader, yaml_event_t *event, unsigned int depth, struct node *ret)
{
        struct anchor *anchor = NULL;
        json_t *value = NULL;

        *ret = (struct node){.nodes = 1, .line = line_of(event)};
        if (count_nodes(loader, 1, ret->line) < 0)
                return NULL;
        if (event->type == YAML_ALIAS_EVENT)
                return load_alias(loader, event, depth, ret);
        if (event->type == YAML_SCALAR_EVENT) {
                anchor = add_anchor(loader, event->data.scalar.anchor);
                value = load_scalar(loader, event);
        } else if (depth >= YAML_MAX_DEPTH) {
                return loader_fail(loader, ret->line, "nested deeper than %u levels", YAML_MAX_DEPTH);
        } else if (event->type == YAML_SEQUENCE_START_EVENT) {
                ret->height = 1;
                anchor = add_anchor(loader, event->data.sequence_start.anchor);
                value = load_sequence(loader, depth + 1, ret);
        } else {
                ret->height = 1;
                anchor = add_anchor(loader, event->data.mapping_start.anchor);
                value = load_mapping(loader, depth + 1, ret);
        }
        if (!value)
                return NULL;
        if (ret->height)
                line_set(loader->yaml, value, NULL, ret->line);
        if (anchor) {
                json_decref(anchor->value); /* given again inside its own value */
                *anchor = (struct anchor){.value = json_incref(value), .nodes = ret->nodes, .height = ret->height};
        }
        return value;
}

/* The first document, and a look at whether there is a second. */
static int load_document(struct loader *loader)
{
        bool have_document = false;

        for (;;) {
                struct node node;
                yaml_event_t event;
                yaml_event_type_t type;
                int line;

                if (next_event(loader, &event) < 0)
                        return -1;
                type = event.type;
                line = line_of(&event);
                if (type == YAML_DOCUMENT_START_EVENT && have_document) {
                        loader_warn(loader, line, "a second document begins here; only the first is read");
                        type = YAML_STREAM_END_EVENT;
                } else if (type == YAML_DOCUMENT_START_EVENT) {
                        have_document = true;
                } else if (type == YAML_SCALAR_EVENT || type == YAML_ALIAS_EVENT || type == YAML_SEQUENCE_START_EVENT ||
                           type == YAML_MAPPING_START_EVENT) {
                        loader->yaml->root = load_node(loader, &event, 0, &node);
                }
                yaml_event_delete(&event);
                if (have_document && type != YAML_DOCUMENT_START_EVENT && !loader->yaml->root)
                        return -1;
                if (type == YAML_STREAM_END_EVENT)
                        break;
        }
        if (!loader->yaml->root)
                loader->yaml->root = json_null();
        return 0;
}

/*
 * libyaml reads all directives before its first event, and compares each %TAG with all before it: a file of nothing
 * else would keep it busy for seconds. They begin a line, whichever of YAML's line ends (the last bytes of U+0085,
 * U+2028 and U+2029 included) comes before.
 */
static int check_directives(const struct yaml *yaml, const char *text, size_t size, struct error *err)
{
        size_t count = 0;

        for (size_t i = 1; i < size; i++)
                count += text[i] == '%' && memchr("\n\r\x85\xa8\xa9", text[i - 1], 5) != NULL;
        if (count <= YAML_MAX_DIRECTIVES)
                return 0;
        return yaml_fail(
                yaml, 0, err, "%zu directives (lines that begin with '%%'), at most %zu", count, YAML_MAX_DIRECTIVES);
}

int yaml_load(struct yaml **ret, const char *name, const char *text, size_t size, yaml_warn_fn *warn, void *warn_data,
        struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = xcalloc(1, sizeof(*yaml));
        _cleanup_(yaml_text_done) struct yaml_text utf8 = {.converted = STRBUF_INIT};
        struct loader loader = {.yaml = yaml, .warn = warn, .warn_data = warn_data, .err = err};
        int r;

        yaml->name = arena_strdup(&yaml->arena, name);
        if (!yaml_text_read(&utf8, text, size))
                return yaml_fail(yaml, 0, err, "begins as UTF-16, but is not: write it as UTF-8");
        if (check_directives(yaml, utf8.at, utf8.size, err) < 0)
                return -1;
        if (!yaml_parser_initialize(&loader.parser))
                alloc_fail();
        yaml_parser_set_encoding(&loader.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&loader.parser, (const unsigned char *)utf8.at, utf8.size);
        r = load_document(&loader);
        yaml_parser_delete(&loader.parser);
        for (size_t i = 0; i < loader.anchors.capacity; i++)
                if (loader.anchors.entries[i].key)
                        json_decref(((struct anchor *)loader.anchors.entries[i].value)->value);
        map_done(&loader.anchors);
        if (r < 0)
                return -1;
        *ret = TAKE_PTR(yaml);
        return 0;
}

struct yaml *yaml_unload(struct yaml *yaml)
{
        if (!yaml)
                return NULL;
        json_decref(yaml->root);
        map_done(&yaml->lines);
        arena_done(&yaml->arena);
        free(yaml);
        return NULL;
}
