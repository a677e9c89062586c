// SPDX-License-Identifier: Apache-2.0
/*
 * YAML, and therefore JSON, into one jansson tree, with the line of every value. It knows no schema.
 *
 * The dialect is the one that Kubernetes tools read (sigs.k8s.io/yaml, that is YAML 1.1 as go-yaml v2 resolves it):
 * yes, no, on, off, y and n are booleans; "", ~ and null are null; integers may be written 0x1F, 0o17, 017, 0b11 and
 * 1_000. Quoted scalars are strings, always. Keys keep the text in which they are written. Dates stay strings.
 *
 * The text is UTF-8, or UTF-16 with a byte order mark (base/data/yaml_scalar.h). A text of size 0 or of comments only
 * is null. Of several documents only the first is read, with a warning. Of a repeated key the last counts, with a
 * warning. Aliases and merge keys (<<, of which there may be several: what a later one says counts) are resolved, and
 * the caps below count what they stand for, so that a small text cannot become a large tree. The size of the text is
 * the caller's to cap.
 *
 * An aliased value is one jansson value in several places, so the tree must not be modified; its line is that of the
 * anchor.
 *
 *         _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
 *
 *         if (yaml_load(&yaml, "config '/config.yaml'", text, size, warn, data, err) < 0)
 *                 return -1;
 *         if (!json_is_integer(json_object_get(yaml->root, "replicas")))
 *                 return yaml_fail(yaml, yaml_line_of(yaml, yaml->root, "replicas"), err, "replicas: must be an integer");
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"

#define YAML_MAX_NODES ((size_t)20000) /* values, aliases counted as what they stand for */
#define YAML_MAX_DEPTH 64U
#define YAML_MAX_KEY ((size_t)1024) /* bytes of one key */
#define YAML_MAX_DIRECTIVES ((size_t)16)

/* One sentence without a full stop, with its place. */
typedef void yaml_warn_fn(const char *text, void *data);

struct yaml {
        json_t *root;
        const char *name;
        struct arena arena;
        struct map lines; /* "<container> <key or position>" → const int * */
};

/* |name| is what errors and warnings call the text: "config '/config.yaml'". |warn| may be NULL. */
int yaml_load(struct yaml **ret, const char *name, const char *text, size_t size, yaml_warn_fn *warn, void *warn_data,
        struct error *err) MUST_USE;
/* Not yaml_free: libyaml exports that name, and a static link would have two. Accepts NULL, returns NULL. */
struct yaml *yaml_unload(struct yaml *yaml);

static inline void yaml_unloadp(struct yaml **yaml)
{
        yaml_unload(*yaml);
}

/*
 * The line where the object or array begins; where the member's key stands; where the item begins. 1-based, 0 unknown.
 */
int yaml_line(const struct yaml *yaml, const json_t *container);
int yaml_line_of(const struct yaml *yaml, const json_t *object, const char *key);
int yaml_line_at(const struct yaml *yaml, const json_t *array, size_t index);

/* Raises ERROR_INVALID: "<name> line <line>: <text>". Returns -1. */
int yaml_fail(const struct yaml *yaml, int line, struct error *err, const char *format, ...) PRINTF_LIKE(4, 5);
