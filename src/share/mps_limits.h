/*
 * The limits of a container as the variables that MPS clients read, and the CDI devices that carry them. Pure.
 *
 * kubelet puts the variables of a pod over those of a device plugin's answer, so a pod that sets one of these has its own value. The
 * edits of a CDI device are the container runtime's, which come after both. So where devices are handed out by CDI the
 * variables are there twice: in the answer, and as devices of kind CDI_KIND_MPS (share/cdi_name.h):
 *
 *   "<daemon>"    CUDA_MPS_PIPE_DIRECTORY alone, the '/' of a resource name written '_'
 *   "<uuid>-<k>"  with the limits of k replicas of that unit, where limits are the container's and a request is of one unit: not
 *                 under provisioning uniform, whose limits no client can raise, and only with daemonScope gpu
 */
#pragma once

#include "share/plan.h"

/* CUDA_MPS_PIPE_DIRECTORY of the containers that hold |unit|: "/mps/<daemon>/pipe". */
const char *mps_limits_pipe(struct arena *arena, const struct resource *resource, const struct unit *unit);

/* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "35", "2.5". */
const char *mps_limits_threads(struct arena *arena, unsigned int permille);

/* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, the same of each of |n_units| units by CUDA's ordinals: "0=5952M,1=5952M". */
const char *mps_limits_memory(struct arena *arena, uint64_t mib, unsigned int n_units);

/* The largest k for which |unit|, which is shared by MPS, has a device "<uuid>-<k>"; 0: none. */
unsigned int mps_limits_most(const struct resource *resource, const struct unit *unit);

/* The name of the device for |k| replicas of |unit|: that of the daemon where k is 0 or more than mps_limits_most(). */
const char *mps_limits_device(
        struct arena *arena, const struct resource *resource, const struct unit *unit, unsigned int k);
