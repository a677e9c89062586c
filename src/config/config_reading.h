/*
 * One reading of the configuration: what the files that build a struct config hand to each other.
 */
#pragma once

#include "config/config.h"
#include "config/option.h"
#include "config/schema.h"
#include "base/data/tree.h"

/* One reading of the file. */
struct config_reading {
        const struct option_set *options;
        struct arena *arena;
        config_warn_fn *warn; /* NULL: warnings are dropped */
        void *warn_data;
        struct config *config; /* starts with the defaults; gets the keys that are not options */
        const char **values;   /* the options that are in the file, by position in option_table; NULL: not there */
};

/*
 * config_options.c: reads the options that are in the file, except those that |reading->options| has set already: a
 * wrong value does no harm where it does not count. Then merges all options into |reading->config|.
 */
int config_options_read(const struct config_reading *reading, const struct tree *tree, const struct tree_node *root,
        struct error *err) MUST_USE;
int config_options_store(const struct config_reading *reading, struct error *err) MUST_USE;

/* The value set on command line, in the environment or in the file; NULL: the default counts. */
const char *config_option_set(const struct config_reading *reading, const char *flag);

/* A sharing section as file_schema.c reads it. */
struct sharing_reading {
        struct sharing_section section;
        bool has_placement; /* of the resources that have none of their own */
        enum placement placement;
};

/* Values that a section takes over where it has no key of its own. */
struct sharing_defaults {
        const char *policy; /* sharedDevicesAllocationPolicy, if it was set anywhere; else NULL */
        bool drop_in;
};

/* A sharing section while its keys and entries are checked against each other. */
struct sharing_draft {
        const struct tree *tree;
        const struct sharing_defaults *defaults;
        struct tree_node node;
        struct sharing_section *section;   /* NULL: not in the file */
        struct shared_resource *resources; /* the same as section->resources */
        struct tree_node *nodes;           /* of each of them */
};

/* config_sharing.c: completes |sharing| as it was read from |root|, the file. */
int config_sharing_build(struct sharing *sharing, const struct tree *tree, const struct tree_node *root,
        const struct sharing_defaults *defaults, struct error *err) MUST_USE;

/*
 * config_section.c: the defaults of a section that follow from its other keys, and the combinations that are refused.
 */
int config_section_settle(const struct sharing_draft *draft, struct error *err) MUST_USE;

/* config_dra.c: the combinations in |dra|, read from |root|, that are refused. */
int config_dra_check(const struct config_dra *dra, const struct tree *tree, const struct tree_node *root,
        struct error *err) MUST_USE;
