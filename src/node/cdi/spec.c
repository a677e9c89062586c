// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/spec.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"

/* The lists of the container edits, in the order in which they are printed. */
enum list { LIST_ENV, LIST_NODES, LIST_HOOKS, LIST_MOUNTS, LIST_GIDS, N_LISTS };
static const char *const list_names[N_LISTS] = {"env", "deviceNodes", "hooks", "mounts", "additionalGids"};

struct spec_edits {
        json_t *lists[N_LISTS]; /* arrays */
        json_t *annotations;    /* NULL: none */
        const char *name;       /* of the device; NULL: the common edits */
        bool is_bad;            /* something was not UTF-8 */
};

struct spec {
        char *vendor;
        char *class_name;
        struct arena arena;
        struct spec_edits common;
        struct spec_edits *devices[SPEC_MAX_DEVICES];
        size_t n_devices;
};

static void edits_init(struct spec_edits *edits, const char *name)
{
        edits->name = name;
        for (size_t i = 0; i < N_LISTS; i++)
                edits->lists[i] = json_array();
}

static void edits_done(struct spec_edits *edits)
{
        for (size_t i = 0; i < N_LISTS; i++)
                json_decref(edits->lists[i]);
        json_decref(edits->annotations);
}

struct spec *spec_new(const char *vendor, const char *class_name)
{
        struct spec *spec = xcalloc(1, sizeof(*spec));

        spec->vendor = xstrdup(vendor);
        spec->class_name = xstrdup(class_name);
        edits_init(&spec->common, NULL);
        return spec;
}

struct spec *spec_free(struct spec *spec)
{
        if (!spec)
                return NULL;
        for (size_t i = 0; i < spec->n_devices; i++)
                edits_done(spec->devices[i]);
        edits_done(&spec->common);
        arena_done(&spec->arena);
        free(spec->class_name);
        free(spec->vendor);
        free(spec);
        return NULL;
}

/* ---- devices ---- */

bool spec_is_name(const char *name)
{
        size_t length = strlen(name);

        if (length == 0 || !isalnum((unsigned char)name[0]) || !isalnum((unsigned char)name[length - 1]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)name[i]) && !strchr("_.:-", name[i]))
                        return false;
        return true;
}

static struct spec_edits *spec_find(const struct spec *spec, const char *name)
{
        for (size_t i = 0; i < spec->n_devices; i++)
                if (strcmp(spec->devices[i]->name, name) == 0)
                        return spec->devices[i];
        return NULL;
}

struct spec_edits *spec_common(struct spec *spec)
{
        return &spec->common;
}

struct spec_edits *spec_device(struct spec *spec, const char *name)
{
        struct spec_edits *edits = spec_find(spec, name);

        if (edits || spec->n_devices == SPEC_MAX_DEVICES || !spec_is_name(name))
                return edits;
        edits = ARENA_NEW(&spec->arena, struct spec_edits);
        edits_init(edits, arena_strdup(&spec->arena, name));
        spec->devices[spec->n_devices++] = edits;
        return edits;
}

bool spec_has(const struct spec *spec, const char *name)
{
        return spec_find(spec, name);
}

size_t spec_count(const struct spec *spec)
{
        return spec->n_devices;
}

/* ---- edits ---- */

static bool has_equal(const json_t *list, const json_t *value)
{
        json_t *other;
        size_t i;

        json_array_foreach(list, i, other)
        {
                if (json_equal(other, value))
                        return true;
        }
        return false;
}

/* Takes the reference to |value|. NULL: jansson refused a string that is not UTF-8. */
static void spec_add(struct spec_edits *edits, enum list list, json_t *value)
{
        if (!value)
                edits->is_bad = true;
        else if (!has_equal(edits->lists[list], value))
                json_array_append(edits->lists[list], value);
        json_decref(value);
}

/* NULL if one of |texts| is not UTF-8. */
static json_t *spec_pack_texts(const char *const *texts)
{
        json_t *array = json_array();

        for (; *texts; texts++)
                if (json_array_append_new(array, json_string(*texts)) < 0) {
                        json_decref(array);
                        return NULL;
                }
        return array;
}

void spec_annotate(struct spec_edits *device, const char *name, const char *value)
{
        if (!device->annotations)
                device->annotations = json_object();
        if (json_object_set_new(device->annotations, name, json_string(value)) < 0)
                device->is_bad = true;
}

void spec_add_env(struct spec_edits *edits, const char *assignment)
{
        spec_add(edits, LIST_ENV, json_string(assignment));
}

void spec_add_node(struct spec_edits *edits, const struct spec_node *node)
{
        json_t *json = json_pack("{s:s, s:s, s:i, s:s}", "path", node->path, "hostPath", node->host_path, "fileMode",
                (int)(node->mode & 0777), "permissions", "rwm");

        if (json && node->gid)
                json_object_set_new(json, "gid", json_integer(node->gid));
        spec_add(edits, LIST_NODES, json);
        if (node->gid && node->needs_group)
                spec_add(edits, LIST_GIDS, json_integer(node->gid));
}

void spec_add_mount(
        struct spec_edits *edits, const char *host_path, const char *container_path, const char *const *options)
{
        spec_add(edits, LIST_MOUNTS,
                json_pack("{s:s, s:s, s:o}", "hostPath", host_path, "containerPath", container_path, "options",
                        spec_pack_texts(options)));
}

void spec_add_hook(struct spec_edits *edits, const char *path, const char *const *args, const char *env)
{
        spec_add(edits, LIST_HOOKS,
                json_pack("{s:s, s:s, s:o, s:[s]}", "hookName", "createContainer", "path", path, "args",
                        spec_pack_texts(args), "env", env));
}

/* ---- the document ---- */

static size_t path_depth(const char *path)
{
        size_t depth = 0;

        for (; *path; path++)
                depth += *path == '/';
        return depth;
}

/* Compares by depth, so that no mount hides an earlier one, then by name. */
static int compare_paths(const char *a, const char *b)
{
        size_t depth_a = path_depth(a), depth_b = path_depth(b);

        if (depth_a != depth_b)
                return depth_a < depth_b ? -1 : 1;
        return strcmp(a, b);
}

static const char *spec_text_of(const json_t *object, const char *key)
{
        return json_string_value(json_object_get(object, key));
}

static int compare_nodes(const void *a, const void *b)
{
        return compare_paths(spec_text_of(*(json_t *const *)a, "path"), spec_text_of(*(json_t *const *)b, "path"));
}

static int compare_mounts(const void *a, const void *b)
{
        const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
        int order = compare_paths(spec_text_of(one, "containerPath"), spec_text_of(other, "containerPath"));

        return order ? order : strcmp(spec_text_of(one, "hostPath"), spec_text_of(other, "hostPath"));
}

static int compare_numbers(const void *a, const void *b)
{
        json_int_t one = json_integer_value(*(json_t *const *)a), other = json_integer_value(*(json_t *const *)b);

        return (one > other) - (one < other);
}

/* The items of |list| that the common edits do not have, in order; NULL if there are none. */
static json_t *spec_print_list(const struct spec *spec, const json_t *items, enum list list, bool without_common)
{
        static int (*const orders[N_LISTS])(const void *, const void *) = {
                [LIST_NODES] = compare_nodes, [LIST_MOUNTS] = compare_mounts, [LIST_GIDS] = compare_numbers};
        size_t size = json_array_size(items), count = 0;
        _free_ json_t **kept = xcalloc(size + 1, sizeof(*kept));
        json_t *printed = NULL;
        json_t *item;
        size_t i;

        json_array_foreach(items, i, item)
        {
                if (!without_common || !has_equal(spec->common.lists[list], item))
                        kept[count++] = item;
        }
        if (orders[list])
                qsort(kept, count, sizeof(*kept), orders[list]);
        if (count)
                printed = json_array();
        for (i = 0; i < count; i++)
                json_array_append(printed, kept[i]);
        return printed;
}

static json_t *print_edits(const struct spec *spec, const struct spec_edits *edits, bool without_common)
{
        json_t *json = json_object();

        for (enum list list = 0; list < N_LISTS; list++) {
                json_t *printed = spec_print_list(spec, edits->lists[list], list, without_common);

                if (printed)
                        json_object_set_new(json, list_names[list], printed);
        }
        return json;
}

/* A device without edits is not allowed; so if all edits of a device are common ones, they are repeated in it. */
static json_t *print_device(const struct spec *spec, const struct spec_edits *device)
{
        json_t *edits = print_edits(spec, device, true);
        json_t *json;

        if (json_object_size(edits) == 0) {
                json_decref(edits);
                edits = print_edits(spec, device, false);
        }
        json = json_pack("{s:s}", "name", device->name);
        if (device->annotations)
                json_object_set(json, "annotations", device->annotations);
        json_object_set_new(json, "containerEdits", edits);
        return json;
}

static const char *least_version(const struct spec *spec)
{
        bool has_nodes = json_array_size(spec->common.lists[LIST_NODES]) > 0;
        bool has_gids = json_array_size(spec->common.lists[LIST_GIDS]) > 0;
        bool has_digit = false;
        bool has_annotations = false;

        for (size_t i = 0; i < spec->n_devices; i++) {
                const struct spec_edits *device = spec->devices[i];

                has_nodes = has_nodes || json_array_size(device->lists[LIST_NODES]) > 0;
                has_gids = has_gids || json_array_size(device->lists[LIST_GIDS]) > 0;
                has_annotations = has_annotations || device->annotations;
                has_digit = has_digit || isdigit((unsigned char)device->name[0]);
        }
        if (has_gids)
                return "0.7.0"; /* additionalGids */
        if (has_annotations)
                return "0.6.0";
        return has_nodes || has_digit ? "0.5.0" /* hostPath; names that begin with a digit */ : "0.3.0";
}

static int compare_devices(const void *a, const void *b)
{
        return strcmp((*(struct spec_edits *const *)a)->name, (*(struct spec_edits *const *)b)->name);
}

static json_t *print_devices(const struct spec *spec)
{
        struct spec_edits *sorted[SPEC_MAX_DEVICES];
        json_t *devices = json_array();

        memcpy(sorted, spec->devices, spec->n_devices * sizeof(sorted[0]));
        qsort(sorted, spec->n_devices, sizeof(sorted[0]), compare_devices);
        for (size_t i = 0; i < spec->n_devices; i++)
                json_array_append_new(devices, print_device(spec, sorted[i]));
        return devices;
}

static bool is_bad(const struct spec *spec)
{
        bool bad = spec->common.is_bad;

        for (size_t i = 0; i < spec->n_devices; i++)
                bad = bad || spec->devices[i]->is_bad;
        return bad;
}

int spec_print(const struct spec *spec, struct strbuf *ret, struct error *err)
{
        _free_ char *kind = xasprintf("%s/%s", spec->vendor, spec->class_name);
        _free_ char *printed = NULL;
        json_t *document;

        if (is_bad(spec))
                return error_set(err, ERROR_INVALID,
                        "CDI specification %s: a path is not UTF-8; check the driver root and the path of the hook",
                        kind);
        if (spec->n_devices == 0)
                return error_set(err, ERROR_INTERNAL, "CDI specification %s: no device", kind);
        document = json_pack("{s:s, s:s, s:o, s:o}", "cdiVersion", least_version(spec), "kind", kind, "devices",
                print_devices(spec), "containerEdits", print_edits(spec, &spec->common, false));
        printed = json_dumps(document, JSON_INDENT(2));
        json_decref(document);
        strbuf_clear(ret);
        strbuf_puts(ret, printed);
        strbuf_putc(ret, '\n');
        return 0;
}
