/*
 * NVML → inventory: every call that describes the node, in one pass. It knows nothing of events, health or threads.
 *
 * A call that the board, driver or user is not allowed (NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_PERMISSION, …) leaves its field
 * unknown. Any other error is that GPU's failure, and the next GPU is read. A GPU that cannot name itself, or that has the
 * UUID of another, is an unnamed failure. Display GPUs of DGX stations are left out, as NVIDIA's plugin does.
 */
#pragma once

#include "gpu/hangs.h"
#include "gpu/inventory.h"
#include "gpu/nvml.h"
#include "gpu/paths.h"

#define NVML_READ_MAX_GPUS 256U /* the driver's own limit is below */

/*
 * Fails only when NVML as a whole does; the kind of the error is DENIED or
 * UNAVAILABLE.
 */
int nvml_read(
        struct inventory **ret, const struct nvml *nvml, const struct gpu_paths *paths, struct error *err) MUST_USE;

/*
 * The same without a call about what |skips| names (NULL: nothing). Such a GPU has the reason as its failure, or is an unnamed failure where
 * its UUID is not known; links that are not to be asked for are unread, and inventory_keep() knows them.
 */
int nvml_read_but(struct inventory **ret, const struct nvml *nvml, const struct gpu_paths *paths,
        const struct skips *skips, struct error *err) MUST_USE;

/* "00000000:3B:00.0" → "0000:3b:00.0", as sysfs has it: a domain has four digits, or as many more as it needs. */
void nvml_bus_to_sysfs(const char *bus, char *text, size_t size);
