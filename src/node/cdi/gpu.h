/* The specification of class gpu: the devices, and the driver's files that all of them need. */
#pragma once

#include "node/cdi/context.h"
#include "node/cdi/spec.h"

/* Fails if the driver's files are not found, or are not those of the version that runs. */
int gpu_build(const struct cdi_context *context, struct spec *spec, struct error *err) MUST_USE;

/* A node that CUDA needs in every container, and that is not there; NULL: none. */
const char *gpu_missing_node(const struct cdi_context *context);
