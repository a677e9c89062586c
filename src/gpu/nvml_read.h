/*
 * Reads the inventory from NVML: all calls that describe the node, in one pass.
 * It knows nothing of events, health or threads.
 *
 * A call that the board, driver or user does not permit (NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_PERMISSION, …) leaves
 * its field unknown. Any other error is a failure of that GPU, and the next GPU is read. A GPU without a UUID, or with
 * that of another GPU, is an unnamed failure. Display GPUs of DGX stations are left out, as in NVIDIA's plugin.
 */
#pragma once

#include "gpu/hangs.h"
#include "gpu/inventory.h"
#include "gpu/nvml.h"
#include "gpu/paths.h"

#define NVML_READ_MAX_GPUS 256U /* more than NVIDIA's driver supports */

/* Fails only if NVML as a whole fails, with DENIED or UNAVAILABLE. */
int nvml_read(
        struct inventory **ret, const struct nvml *nvml, const struct gpu_paths *paths, struct error *err) MUST_USE;

/*
 * The same, without calls about the GPUs in |skips| (NULL: none). Such a GPU gets the reason as its failure, or is an
 * unnamed failure if its UUID is not known. Links that must not be read stay unread; inventory_keep() completes them.
 */
int nvml_read_but(struct inventory **ret, const struct nvml *nvml, const struct gpu_paths *paths,
        const struct skips *skips, struct error *err) MUST_USE;

/* "00000000:3B:00.0" → "0000:3b:00.0", as in sysfs: a domain has at least four digits. */
void nvml_bus_to_sysfs(const char *bus, char *text, size_t size);
