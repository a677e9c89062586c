// SPDX-License-Identifier: Apache-2.0
/*
 * Whether this machine is a virtual one whose GPUs are vGPUs, and which driver its host has. NVML does not report this,
 * but the device's PCI configuration does: it has a vendor-specific capability with the letters "VF" and a list of
 * records, of which record 0 holds version and branch of the host's driver (as NVIDIA's gpu-feature-discovery reads
 * it).
 *
 * The kernel shows the capabilities only to root. Other users see 64 bytes, and the result is unknown.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define VGPU_TEXT_SIZE 11 /* ten bytes and the final zero */

enum vgpu_state { VGPU_UNKNOWN, VGPU_ABSENT, VGPU_PRESENT };

struct vgpu {
        enum vgpu_state state;
        char host_driver_version[VGPU_TEXT_SIZE]; /* "460.16"; "": unknown */
        char host_driver_branch[VGPU_TEXT_SIZE];  /* "r460_00" */
};

/* Parses one device's configuration space. Pure; accepts any bytes. |ret| is VGPU_UNKNOWN for fewer than 256. */
void vgpu_parse(struct vgpu *ret, const unsigned char *config, size_t size);

/*
 * Checks all NVIDIA devices below <|system_root|>/sys/bus/pci/devices: the last vGPU by address; unknown if one cannot
 * be read, or if the folder is missing.
 */
void vgpu_read(struct vgpu *ret, const char *system_root);
