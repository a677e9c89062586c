/*
 * CDI devices that are each for one container and are written when it starts: their kind is CDI_KIND_MPS, the name is
 * the id of the container's allocation, and the edits are the variables of all shares that the container holds
 * (plan/mps_limits.h). Each is a file of its own, k8s.device-plugin.nvidia.com-mps-<allocation>.json, in the folder of
 * the specifications: so the start of one container does not touch the file of another.
 *
 * Runtimes watch the folder and read it again after a change: so a file that has the same content already is not
 * written again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

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
