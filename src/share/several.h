/*
 * Whether a container that holds devices of several of our resources gets all of what it is charged for. Only kubelet knows that it asks
 * for several: each is allocated by itself, and kubelet joins the answers. Of a variable it hands on the first value that it comes to, in
 * any order; CDI devices and mounts add up. Pure.
 *
 *   GPUs     by CDI or volume mounts all of them, by NVIDIA_VISIBLE_DEVICES those of one resource
 *   MPS      a container has one control daemon: a GPU that another one serves, or that MPS does not share, its clients do not see
 *   limits   those of all shares by CDI (share/mps_limits.h), those of one share by variables
 */
#pragma once

#include "share/checkpoint.h"
#include "share/plan.h"

/* A container that does not get all. */
struct several_fault {
        const struct checkpoint_entry *entry; /* one of its own: who it is */
        const char *text;                     /* what it does not get, and the way out */
};

/* By kubelet's record, which may have containers that ended a while ago. In |arena|. */
size_t several_faults(
        struct several_fault **ret, struct arena *arena, const struct plan *plan, const struct checkpoint *record);
