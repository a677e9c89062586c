// SPDX-License-Identifier: Apache-2.0
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
#include "gpu/platform.h"

#define NVML_READ_MAX_GPUS 256U /* more than NVIDIA's driver supports */

/*
 * Fails only if NVML as a whole fails, with DENIED or UNAVAILABLE. The GPUs in |skips| (NULL: none) are not asked
 * about. Such a GPU gets the reason as its failure, or is an unnamed failure if its UUID is not known. Links that must
 * not be read stay unread; inventory_keep() completes them.
 */
int nvml_read(struct inventory **ret, const struct nvml *nvml, const struct gpu_paths *paths, const struct skips *skips,
        struct error *err) MUST_USE;

/* "00000000:3B:00.0" → "0000:3b:00.0", as in sysfs: a domain has at least four digits. */
void nvml_bus_to_sysfs(const char *bus, char *text, size_t size);

/* ---- multiprocessors ---- */

/*
 * How many SMs a GPU has. NVML reports it only for MIG devices: nvmlDeviceGetAttributes_v2 answers NOT_SUPPORTED for a
 * whole GPU. So it is computed: nvmlDeviceGetNumGpuCores divided by the cores per SM of this compute capability.
 *
 * The largest MIG profile's count is not used: MIG offers fewer SMs (98 of A100's 108), and a number that is too low
 * would make shares too small. If the division has a remainder, the number is unknown.
 */

/* 0 unknown. */
unsigned int multiprocessors_of(unsigned int cores, int compute_major, int compute_minor);
