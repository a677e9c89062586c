/*
 * The names of MIG profiles: "1g.5gb", "1c.3g.20gb", "1g.10gb+me". Pure.
 *
 * NVML tells numbers; the names by which people and resource names know a profile are made of them the way NVIDIA's device
 * plugin does it (go-nvlib 0.12), so that a node keeps its resource names. Unlike there, the profile at index 17 (three slices
 * with graphics) has a name, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define MIG_PROFILE_SIZE 32U /* of the longest name, its end included */

/* Slices of what stands at an index of NVML_GPU_INSTANCE_PROFILE_* or NVML_COMPUTE_INSTANCE_PROFILE_*; 0: not known here. */
unsigned int mig_profile_gpu_slices(unsigned int gpu_index);
unsigned int mig_profile_compute_slices(unsigned int compute_index);

/*
 * The name of |compute_slices| within the GPU instance profile at |gpu_index|, which has |memory_mib| of a GPU's |total| bytes;
 * the memory in the name is a number of eighths of the GPU's, as gigabytes. False: the index is not known here, a size is zero, or
 * there are none or more compute slices than the GPU instance has.
 */
bool mig_profile_name(char name[MIG_PROFILE_SIZE], unsigned int gpu_index, unsigned int compute_slices,
        uint64_t memory_mib, uint64_t total) MUST_USE;

/* The profile as names of resources and labels have it, in which '+' is '.': "1g.10gb.me". In |arena|. */
char *mig_profile_dotted(struct arena *arena, const char *profile);
