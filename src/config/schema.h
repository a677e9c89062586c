/*
 * The shape of the configuration file as tables: one for each kind of mapping (config/file_schema.c). The same tables
 * warn about unknown keys, read values into structs, and become the JSON Schema for editors (config/schema_print.c).
 *
 * Reading checks types, bounds and what must be there; what values mean together is for the caller. null is the same as
 * absent, everywhere. Keys that options have (config/option.h) belong to a mapping by its |options|, and are read
 * elsewhere.
 */
#pragma once

#include "base/data/tree.h"

enum schema_type {       /* and the type of the member that it fills */
        SCHEMA_OBJECT,   /* struct * of |object|; NULL while absent */
        SCHEMA_LIST,     /* struct schema_list of |object|, at most |most|; |least| is 0, or 1 for one that is needed */
        SCHEMA_BOOL,     /* bool */
        SCHEMA_UINT,     /* unsigned int, from |least| to |most| */
        SCHEMA_CHOICE,   /* unsigned int, the position in |choices| */
        SCHEMA_TEXT,     /* const char *; |choices| are for editors alone */
        SCHEMA_NAME,     /* const char *, a resource name with its prefix */
        SCHEMA_DURATION, /* int64_t, nanoseconds; INT64_MAX for infinite */
        SCHEMA_DEVICES,  /* struct device_selector */
        SCHEMA_MEMORY,   /* struct memory_size, at most |most| MiB */
        SCHEMA_XIDS,     /* struct xid_list */
};

struct schema_key {
        const char *name;
        enum schema_type type;
        size_t offset; /* of the member in the struct of the mapping */
        const struct schema_object *object;
        const char *const *choices;     /* NULL-terminated */
        const char *const *unsupported; /* NULL-terminated or NULL: known words that this version cannot serve */
        unsigned int least;
        unsigned int most;
        const char *needed; /* NULL: may be absent; else what follows "<name> is missing" and "empty" */
        const char *help;
};

struct schema_object {
        const char *options; /* NULL, or "flags.": the options with such a key and no further dot belong here, too */
        const struct schema_key *keys;
        size_t n_keys;
        size_t size; /* of the struct, whose first member is its struct tree_node */
        bool exact;  /* from here on, keys match in one spelling only, as in the plain maps of NVIDIA's plugin */
};

struct schema_list {
        void *items; /* array of the struct */
        size_t count;
};

struct memory_size {
        bool is_given; /* false: "auto" */
        uint64_t mib;
};

struct xid_list {
        const struct xid_rule *rules;
        size_t count;
};

/* The file as a whole. */
extern const struct schema_object schema_file;

/*
 * Reads |node| into |target|, which is zeroed and lives in the tree's arena, and sets its node. Members of absent keys
 * stay as they are. Unknown keys are warned about.
 */
int schema_read(const struct tree *tree, const struct tree_node *node, const struct schema_object *object, void *target,
        struct error *err) MUST_USE;

/* The name of the option's key in |object|, or NULL if it is no key of it. */
struct option;
const char *schema_option_key(const struct schema_object *object, const struct option *option);

/* schema_values.c: the values with a form of their own. */
struct device_selector;
int schema_read_devices(
        const struct tree *tree, const struct tree_node *node, struct device_selector *ret, struct error *err) MUST_USE;
int schema_read_memory(const struct tree *tree, const struct tree_node *node, unsigned int most,
        struct memory_size *ret, struct error *err) MUST_USE;
int schema_read_xids(
        const struct tree *tree, const struct tree_node *node, struct xid_list *ret, struct error *err) MUST_USE;
