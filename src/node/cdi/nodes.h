/*
 * Device nodes: whether they exist, and their permissions; and the mounts of the driver's files. node/cdi/roots.h says
 * in which folders they are searched.
 */
#pragma once

#include "node/cdi/context.h"
#include "node/cdi/driver.h"
#include "node/cdi/spec.h"

/* Adds the node |path| ("/dev/nvidia0") to |edits| if it is a character device here. */
bool nodes_add(const struct cdi_context *context, struct spec_edits *edits, const char *path);

/* True if nodes_add() would add it. */
bool nodes_exist(const struct cdi_context *context, const char *path);

/* The paths of the existing nodes in |folder| whose names |is_wanted| accepts, sorted. */
size_t nodes_list(const struct cdi_context *context, const char *folder, roots_filter_fn *is_wanted, const void *data,
        const char ***ret);

/* |file| is below the driver's root; sockets are mounted writable. */
void mounts_add(const struct cdi_context *context, struct spec_edits *edits, const struct driver_file *file);

/*
 * Sets NVIDIA_VISIBLE_DEVICES=void, so that the older hook of NVIDIA's runtime does not act on the value that the image
 * sets.
 */
void mounts_add_void(struct spec_edits *edits);
