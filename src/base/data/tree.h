// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a YAML tree by key: typed, with the path and line of each fault, and warnings for keys that are not read.
 *
 * Type rules are those of sigs.k8s.io/yaml decoding into Go structs: null is the
 * same as absent, a number or boolean where text is wanted becomes text, a float that is whole (4.0, 1e1, 08) is a
 * number where one is wanted, and nothing else is converted.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/data/yaml.h"

/* One reading of a file. */
struct tree {
        const struct yaml *yaml;
        struct arena *arena; /* for paths and results */
        yaml_warn_fn *warn;  /* NULL: warnings are dropped */
        void *warn_data;
};

/* One object or array of the tree. */
struct tree_node {
        const json_t *json;
        const char *path; /* "sharing.mps.resources[0]", "" for the root */
        int line;
        bool fold; /* keys match in any case, as the fields of a Go struct do */
};

/* Must be given to each object once: warns about keys that are not among |names|, naming the nearest of them. */
void tree_check_keys(const struct tree *tree, const struct tree_node *node, const char *const *names, size_t n_names);

/* The same for a file whose unknown keys are an error. */
int tree_refuse_keys(const struct tree *tree, const struct tree_node *node, const char *const *names, size_t n_names,
        struct error *err) MUST_USE;

/* The member, or false if it is absent or null. |ret->json| may be of any type; |ret->line| is that of the key. */
bool tree_member(const struct tree *tree, const struct tree_node *node, const char *key, struct tree_node *ret);
bool tree_has(const struct tree *tree, const struct tree_node *node, const char *key);
void tree_item(const struct tree *tree, const struct tree_node *array, size_t index, struct tree_node *ret);

/* An integer, or a float that is one. */
bool tree_is_whole(const struct tree_node *node);

/* Each fails with "<file> line <n>: <path>: <value>, must be …" if the value is of another type. */
int tree_object(const struct tree *tree, const struct tree_node *node, struct error *err) MUST_USE;
int tree_array(const struct tree *tree, const struct tree_node *node, size_t most, size_t *ret_count,
        struct error *err) MUST_USE; /* or has more than |most| items */
int tree_string(const struct tree *tree, const struct tree_node *node, const char **ret, struct error *err) MUST_USE;
int tree_bool(const struct tree *tree, const struct tree_node *node, bool *ret, struct error *err) MUST_USE;
int tree_uint(const struct tree *tree, const struct tree_node *node, unsigned int least, unsigned int most,
        unsigned int *ret, struct error *err) MUST_USE;

/* The value as JSON on one line, cut where it gets long. */
#define TREE_VALUE_SIZE 64
const char *tree_print(const struct tree_node *node, char text[static TREE_VALUE_SIZE]);

/* "<file> line <n>: <path>: <text>" as an error, as a warning, and before the text of |err|. */
int tree_fail(const struct tree *tree, const struct tree_node *node, struct error *err, const char *format, ...)
        PRINTF_LIKE(4, 5);
int tree_prefix(const struct tree *tree, const struct tree_node *node, struct error *err);
void tree_warn(const struct tree *tree, const struct tree_node *node, const char *format, ...) PRINTF_LIKE(3, 4);
