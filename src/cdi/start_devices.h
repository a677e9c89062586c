/*
 * CDI devices of one container each, which are made when it starts: kind CDI_KIND_MPS, called by the allocation of an allocation, with the
 * variables of all that the container holds (share/mps_limits.h). Each is a file of its own, k8s.device-plugin.nvidia.com-mps-<allocation>.json
 * in the folder of the specifications, so that starting one container touches nothing of another.
 *
 * Runtimes watch the folder and read it again after a change. A file that is there with the same content is not written again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Makes or replaces the device |allocation|, which share/allocations.h says is an id; the folder |root| is made where it is not there. */
int start_device_write(const char *root, const char *allocation, const char *const *variables, size_t n_variables,
        struct error *err) MUST_USE;

/* The file of each allocation that has one, in the folder's order; it may be removed in the visit. */
void start_devices_each(
        const char *root, void (*visit)(const char *path, const char *allocation, void *data), void *data);

/* Removes the files of allocations that |is_kept| does not know. What cannot be removed stays. */
void start_devices_sweep(const char *root, bool (*is_kept)(const char *allocation, void *data), void *data);
