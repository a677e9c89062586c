/*
 * The specification of class gpu: the devices, and what of the driver they all need.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/spec.h"

/* Fails when the driver is not found, or is not the one that runs. */
int gpu_build(const struct cdi_context *context, struct spec *spec, struct error *err) MUST_USE;
