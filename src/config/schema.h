// SPDX-License-Identifier: Apache-2.0
/*
 * The shape of the configuration file as tables: one for each kind of mapping (config/file_schema.c). The same tables
 * warn about unknown keys, read values into struct config and what it has, become the JSON Schema for editors
 * (config/schema_print.c), and print the effective configuration (config/config_print.c).
 *
 * Reading checks types, bounds and what must be there; what values mean together is for the caller. null is the same as
 * absent, everywhere. Keys that options have (config/option.h) belong to a mapping by its |options|, and are read
 * elsewhere.
 */
#pragma once

#include "base/data/tree.h"

enum schema_type {       /* and the type of the member that it fills */
        SCHEMA_GROUP,    /* a mapping whose keys fill the struct at this offset */
        SCHEMA_OBJECT,   /* a pointer to a struct of |object|, which starts as |object->initial|; NULL while absent */
        SCHEMA_LIST,     /* a pointer to |count| structs of |object|, from |least|, 0 or 1, to |most| */
        SCHEMA_BOOL,     /* bool */
        SCHEMA_UINT,     /* unsigned int, from |least| to |most| */
        SCHEMA_CHOICE,   /* unsigned int, or an enum as large, or bool: the position in |choices| */
        SCHEMA_TEXT,     /* const char * */
        SCHEMA_NAME,     /* const char *, a resource name with its prefix */
        SCHEMA_VERSION,  /* none: the first of |choices|, or "" */
        SCHEMA_DURATION, /* int64_t, nanoseconds; INT64_MAX for infinite */
        SCHEMA_DEVICES,  /* struct device_selector */
        SCHEMA_MEMORY,   /* uint64_t, MiB, at most |most|; 0 for "auto", which does not set |has| */
        SCHEMA_XIDS,     /* a pointer to |count| struct xid_rule */
};

/* A row is all there is of a key: reading, JSON Schema and printing follow from it. */
struct schema_key {
        const char *name;
        size_t offset; /* of the member in the struct of the mapping */
        size_t size;   /* of the member */
        size_t has;    /* offset of a bool: the file has the key; 0: none */
        size_t count;  /* offset of a size_t */
        const struct schema_object *object;
        const char *const *choices; /* NULL-terminated */
        /* The numbers that SCHEMA_CHOICE (by position) and SCHEMA_BOOL (false, true) store; NULL: 0, 1, … */
        const unsigned int *values;
        const char *needed; /* NULL: may be absent; else what follows "<name> is missing" and "empty" */
        const char *zero;   /* SCHEMA_MEMORY: NULL, or 0 is refused, and this is what follows "0, at least 1 MiB" */
        const char *help;
        enum schema_type type;
        unsigned int least;
        unsigned int most;
        bool is_pointer; /* the member is a pointer to the value, NULL while absent */
        bool is_quiet;   /* left out of the printed configuration while it is 0, false, empty or absent */
};

struct schema_object {
        const char *options; /* NULL, or "flags.": the options with such a key and no further dot belong here, too */
        const struct schema_key *keys;
        size_t n_keys;
        size_t size; /* of the struct of SCHEMA_OBJECT and SCHEMA_LIST */
        const void *initial;
        size_t line; /* offset of an int for the line of the mapping; 0: none */
        bool exact;  /* from here on, keys match in one spelling only, as in the maps of NVIDIA's plugin */
        const char *const *printed; /* the keys that config_print() shows, in order; NULL: options and keys as above */
};
/* The file as a whole. */
extern const struct schema_object schema_file;

/*
 * Reads |node| into |target|, the struct of |object|. Members of absent keys stay as they are. Unknown keys are warned
 * about. Results live in the tree's arena.
 */
int schema_read(const struct tree *tree, const struct tree_node *node, const struct schema_object *object, void *target,
        struct error *err) MUST_USE;

/* The name of the option's key in |object|, or NULL if it does not belong there. */
struct option;
const char *schema_option_key(const struct schema_object *object, const struct option *option);
