// SPDX-License-Identifier: Apache-2.0
/*
 * The devices of class mps: they only set variables of MPS clients, which variables in a pod's specification cannot
 * override. plan/mps_limits.h has their names and values.
 */
#pragma once

#include <stdbool.h>

#include "node/cdi/context.h"

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

/* ---- for one container ---- */

/*
 * Devices that are each for one container and are written when it starts: their kind is CDI_KIND_MPS, the name is the
 * id of the container's allocation, and the edits are the variables of all shares that the container holds. Each is a
 * file of its own, k8s.device-plugin.nvidia.com-mps-<allocation>.json, in the folder of the specifications: so the
 * start of one container does not touch the file of another. Runtimes watch the folder and read it again after a
 * change: so a file that has the same content already is not written again.
 */

/*
 * Writes or replaces the device |allocation| (an id of plan/allocations.h); creates the folder |root| if it is
 * missing.
 */
int start_device_write(const char *root, const char *allocation, const char *const *variables, size_t n_variables,
        struct error *err) MUST_USE;

/* Calls |visit| for the file of each allocation, in the folder's order; |visit| may remove the file. */
void start_devices_each(
        const char *root, void (*visit)(const char *path, const char *allocation, void *data), void *data);

/* Removes the files of allocations for which |is_kept| is false. Errors are ignored. */
void start_devices_sweep(const char *root, bool (*is_kept)(const char *allocation, void *data), void *data);
