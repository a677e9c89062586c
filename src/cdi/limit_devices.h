/*
 * The devices of class mps: variables of MPS clients, which a pod's own cannot replace. Their names and values: share/mps_limits.h.
 */
#pragma once

#include "cdi/context.h"
#include "cdi/spec.h"

/*
 * Adds the devices of every MPS daemon of the plan and of what its units' replicas are worth. False, after a warning, when one of
 * them cannot be there; the answers to kubelet must name none then. Without MPS it adds none.
 */
bool limit_devices_add(const struct cdi_context *context, struct spec *spec) MUST_USE;

/*
 * Variables of the specification that stands in |previous| and that |spec| does not have: kubelet restarts containers with the
 * names that they were made with. A name that is there in both means what it means now. |previous| may be anything.
 */
void limit_devices_keep(struct spec *spec, const char *previous, size_t size);
