/*
 * Whether this machine is a virtual one whose GPUs are vGPUs, and which driver its host has. NVML does not tell; the PCI configuration of
 * the device does: a vendor-specific capability with the letters "VF" and a list of records, of which record 0 holds version and
 * branch of the host's driver (as NVIDIA's gpu-feature-discovery reads it).
 *
 * The kernel shows the capabilities to root alone: others see 64 bytes, and then nothing is known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define VGPU_TEXT_SIZE 11 /* ten bytes and the end */

enum vgpu_state { VGPU_UNKNOWN, VGPU_ABSENT, VGPU_PRESENT };

struct vgpu {
        enum vgpu_state state;
        char host_driver_version[VGPU_TEXT_SIZE]; /* "460.16"; "": not told */
        char host_driver_branch[VGPU_TEXT_SIZE];  /* "r460_00" */
};

/* Of one device's configuration space. Pure; any bytes will do: |ret| is VGPU_UNKNOWN for fewer than 256. */
void vgpu_parse(struct vgpu *ret, const unsigned char *config, size_t size);

/*
 * Of all NVIDIA devices below <|system_root|>/sys/bus/pci/devices: the last one that is a vGPU, by address; unknown where one cannot be
 * read, or where there is no such folder.
 */
void vgpu_read(struct vgpu *ret, const char *system_root);
