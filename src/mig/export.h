/*
 * The geometry that a node has, as one configuration. Pure. GPUs with the same are one entry; a filter is there only
 * where models differ, and |devices| is "all" where the entry is for every GPU that its filter matches.
 *
 * A GPU instance without a compute instance is left out, as it has no MIG device. One with a compute instance of fewer
 * slices has the name "1c.3g.20gb", which NVIDIA's mig-parted applies, and this program does not.
 */
#pragma once

#include "mig/node.h"
#include "mig/parted.h"

/* An error names a GPU that could not be read. */
int mig_export(struct mig_parted *ret, struct arena *arena, const struct mig_node *node, const char *name,
        struct error *err) MUST_USE;
