/*
 * Mounts of the driver's files, and what always goes with them.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/driver.h"
#include "cdi/spec.h"

/* |file| is below the driver's root; sockets are mounted writable. */
void mounts_add(const struct cdi_context *context, struct spec_edits *edits, const struct driver_file *file);

/* Stops the older hook of NVIDIA's runtime, which would act on what the image sets, too. */
void mounts_add_void(struct spec_edits *edits);
