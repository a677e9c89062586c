/*
 * Reads what NVML knows about MIG on one GPU: mode, possible profiles, and the MIG devices with their attributes.
 */
#pragma once

#include "gpu/inventory.h"
#include "gpu/nvml.h"

#define MIG_READ_MAX 64U /* MIG devices of one GPU; today's have up to 7 */

/*
 * Fills the mig_ fields of |gpu|, whose |memory| must be known. -1: the whole GPU failed. A MIG device that cannot be
 * read is left out and listed in gpu->mig_failures; one whose profile NVML does not report has none. Device nodes:
 * gpu/mig_caps.h.
 */
int mig_read(struct inventory *inventory, const struct nvml *nvml, nvmlDevice_t device, struct gpu *gpu,
        struct error *err) MUST_USE;
