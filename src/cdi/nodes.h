/*
 * Device nodes: whether they are there, and with which rights. cdi/roots.h says where they are looked for.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/spec.h"

/* Adds the node |path| ("/dev/nvidia0") to |edits| when it is a character device here. */
bool nodes_add(const struct cdi_context *context, struct spec_edits *edits, const char *path);

/* True when nodes_add() would add it. */
bool nodes_exist(const struct cdi_context *context, const char *path);

/* The paths of the nodes in |folder| whose names |is_wanted| likes, sorted; all of them exist. */
size_t nodes_list(const struct cdi_context *context, const char *folder, roots_filter_fn *is_wanted, const void *data,
        const char ***ret);
