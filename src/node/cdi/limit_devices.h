/*
 * The devices of class mps: they only set variables of MPS clients, which variables in a pod's specification cannot
 * override. plan/mps_limits.h has their names and values.
 */
#pragma once

#include "node/cdi/context.h"
#include "node/cdi/spec.h"

/*
 * For each unit of the plan that is shared by MPS, adds the device of its daemon, and one device for each number of
 * replicas that a container can have. False, after a warning: one of them cannot be added, and the answers to kubelet
 * must not name any. Adds none without MPS.
 */
bool limit_devices_add(const struct cdi_context *context, struct spec *spec) MUST_USE;

/*
 * Keeps devices of the previous specification (|previous|, its text) that |spec| does not have, because kubelet
 * restarts a container with the device names with which it was created. A name that both have gets the variables of
 * |spec|. |previous| may have any content.
 */
void limit_devices_keep(struct spec *spec, const char *previous, size_t size);
