// SPDX-License-Identifier: Apache-2.0
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
 * mig_caps_read().
 */
int mig_read(struct inventory *inventory, const struct nvml *nvml, nvmlDevice_t device, struct gpu *gpu,
        struct error *err) MUST_USE;

/* ---- mig caps ---- */

/*
 * Finds the device nodes of MIG instances: the minors of /dev/nvidia-caps/nvidia-cap<n>, which a container needs beside
 * the GPU's own node. NVML does not report them, but the kernel driver does, in two places:
 *
 * - /proc/driver/nvidia-caps/mig-minors, a line "gpu0/gi9/ci0/access 84" for each instance that could be, and
 * - /proc/driver/nvidia/capabilities/gpu0/mig/gi9/access, a file for each that is, with a line "DeviceFileMinor: 84".
 *
 * The number after "gpu" is that of /dev/nvidia<n>. NVIDIA's plugin does not start without them. Here a missing minor
 * is unknown (-1), which matters only to containers that get single device nodes.
 */
#define MIG_CAPS_MAX_SIZE ((size_t)1 << 20) /* size limit of mig-minors; with 32 GPUs it has about 100 KiB */

/*
 * Fills the caps of all MIG devices. Lines that cannot be parsed are skipped; of two lines for one instance the last
 * counts.
 */
void mig_caps_read(struct inventory *inventory, const char *system_root);
