/*
 * What the configuration file says, before command line and environment have their say. Part of config/config.h.
 */
#pragma once

#include "config/config.h"
#include "config/option.h"
#include "config/tree.h"

struct config_file {
        const char **values; /* by position in option_table; NULL: not in the file */
        struct sharing sharing;
};

/*
 * Reads |path|; "" is an empty file. Values that |options| has set already are not looked at, so that a wrong one does no harm
 * where it does not count.
 */
int config_file_read(struct config_file *ret, const char *path, const struct option_set *options, struct arena *arena,
        config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* config_sharing.c: the section "sharing" of |root|. */
int config_sharing_read(
        struct config_file *file, const struct tree *tree, const struct tree_node *root, struct error *err) MUST_USE;
