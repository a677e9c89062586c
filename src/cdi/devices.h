/*
 * The devices of class gpu: which names there are, and which device nodes each stands for.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/spec.h"

/* The name of |unit| in the specification, as cdi requests spell it. */
const char *devices_name(const struct config *config, const struct unit *unit);

/*
 * Adds one device for each GPU that is not divided and each MIG device, and for each GPU that the plan shows as a whole, divided or
 * not: that one comes with all its MIG devices. (NVIDIA's plugin leaves it out, and kubelet hands out a name that no runtime
 * resolves.) What has no device node is left out.
 */
void devices_add(const struct cdi_context *context, struct spec *spec);

/* Warns for each unit of the plan that has no device in |spec|, with the reason; fails when none has. */
int devices_check(const struct cdi_context *context, const struct spec *spec, struct error *err) MUST_USE;

/*
 * Devices of the specification that stands in |previous| and that |spec| does not have: kubelet restarts containers with the
 * names that they were made with.
 *   - A name that means a device of now by the other naming (uuid, index) is that device.
 *   - Any other keeps the nodes that it had and that still exist, unless one of them belongs to a device of now: a minor number
 *     that was given to another GPU or MIG device must not lead the old container there.
 * |previous| may be anything: a file that is not ours has none. At most DEVICES_MAX_KEPT are kept.
 */
#define DEVICES_MAX_KEPT ((size_t)256)
void devices_keep(const struct cdi_context *context, struct spec *spec, const char *previous, size_t size);
