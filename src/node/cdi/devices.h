// SPDX-License-Identifier: Apache-2.0
/* The devices of class gpu: their names, and the device nodes that each has. */
#pragma once

#include "node/cdi/context.h"

/* The name of |unit| in the specification: its UUID, or its index if --device-id-strategy is index. */
const char *devices_name(const struct config *config, const struct unit *unit);

/*
 * Adds one device for each GPU without MIG devices and for each MIG device. A GPU with MIG devices that is one unit of
 * the plan gets a device, too, with all its MIG devices. (NVIDIA's plugin leaves that one out, and kubelet then gives
 * containers a name that no runtime can resolve.) A device without its device node is left out.
 */
void devices_add(const struct cdi_context *context, struct spec *spec);

/* A node of the unit itself that is not there; NULL: none. */
const char *devices_missing_node(const struct cdi_context *context, const struct unit *unit);

/* Warns about each unit of the plan that has no device in |spec|, with the reason; fails if no unit has one. */
int devices_check(const struct cdi_context *context, const struct spec *spec, struct error *err) MUST_USE;

/*
 * Keeps devices of the previous specification (|previous|, its text) that |spec| does not have, because kubelet
 * restarts a container with the device names with which it was created.
 *   - A name that is the other name (UUID or index) of a present device is added as that device.
 *   - Any other device keeps its nodes if all of them still exist and none belongs to a present device: a minor number
 *     that now belongs to another GPU or MIG device must not give an old container access to that.
 * |previous| may have any content; nothing is kept of a file that is not ours. At most DEVICES_MAX_KEPT are kept.
 */
#define DEVICES_MAX_KEPT ((size_t)256)
void devices_keep(const struct cdi_context *context, struct spec *spec, const char *previous, size_t size);
