/* Mounts of the driver's files, and the variable that is always set with them. */
#pragma once

#include "node/cdi/context.h"
#include "node/cdi/driver.h"
#include "node/cdi/spec.h"

/* |file| is below the driver's root; sockets are mounted writable. */
void mounts_add(const struct cdi_context *context, struct spec_edits *edits, const struct driver_file *file);

/*
 * Sets NVIDIA_VISIBLE_DEVICES=void, so that the older hook of NVIDIA's runtime does not act on the value that the image
 * sets.
 */
void mounts_add_void(struct spec_edits *edits);
