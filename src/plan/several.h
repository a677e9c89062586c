// SPDX-License-Identifier: Apache-2.0
/*
 * Checks whether a container that holds devices of several of our resources gets everything that it is charged for.
 * Only kubelet knows that it asks for several: each resource is allocated separately, and kubelet merges the answers.
 * Of a variable in several answers kubelet keeps an arbitrary one; CDI devices and mounts add up. Pure.
 *
 *   GPUs     by CDI or volume mounts all of them, by NVIDIA_VISIBLE_DEVICES those of one resource
 *   MPS      a container has one control daemon: a GPU that another one serves, or that MPS does not share, its clients
 *            do not see
 *   limits   those of all shares by CDI (plan/mps_limits.h), those of one share by variables
 */
#pragma once

#include "plan/checkpoint.h"
#include "plan/plan.h"

/* A container that does not get everything. */
struct several_fault {
        const struct checkpoint_entry *entry; /* its own text: which container it is */
        const char *text;                     /* what it does not get, and what to do */
};

/* From kubelet's record, which may contain containers that ended a while ago. In |arena|. */
size_t several_faults(
        struct several_fault **ret, struct arena *arena, const struct plan *plan, const struct checkpoint *record);
