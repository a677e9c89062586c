// SPDX-License-Identifier: Apache-2.0
/*
 * The section "sharing": what its keys mean together. config/file_schema.c says how each is read.
 */
#pragma once

#include "base/data/tree.h"
#include "config/config.h"

/* A section of it as it is read. */
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

/*
 * Completes |sharing| as it was read from |root|, the file: the defaults of a section that follow from its other keys,
 * and names. Combinations that are refused are errors.
 */
int config_sharing_build(struct sharing *sharing, const struct tree *tree, const struct tree_node *root,
        const struct sharing_defaults *defaults, struct error *err) MUST_USE;
