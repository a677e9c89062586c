// SPDX-License-Identifier: Apache-2.0
/*
 * The names of MIG profiles: "1g.5gb", "1c.3g.20gb", "1g.10gb+me". Pure.
 *
 * NVML reports numbers. The names of profiles, as in resource names, are made from them in the same way as in NVIDIA's
 * device plugin (go-nvlib 0.12), so that a node keeps its resource names. One difference: the profile at index 17
 * (three slices with graphics) has a name here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define MIG_PROFILE_SIZE 32U /* size of the longest name, with its final zero */

/*
 * The slices of the profile at an index of NVML_GPU_INSTANCE_PROFILE_* or NVML_COMPUTE_INSTANCE_PROFILE_*; 0: unknown.
 */
unsigned int mig_profile_gpu_slices(unsigned int gpu_index);
unsigned int mig_profile_compute_slices(unsigned int compute_index);

/*
 * The name of |compute_slices| in the GPU instance profile at |gpu_index|, which has |memory_mib| of the GPU's |total|
 * bytes. The memory in the name is a number of eighths of the GPU's memory, in gigabytes. False: the index is unknown,
 * a size is zero, or |compute_slices| is 0 or more than the GPU instance has.
 */
bool mig_profile_name(char name[MIG_PROFILE_SIZE], unsigned int gpu_index, unsigned int compute_slices,
        uint64_t memory_mib, uint64_t total) MUST_USE;

/*
 * A name as the driver writes it, which is where the GPU's memory is unknown or the profile has none of its own, as on
 * Thor ("1g.0gb"): |text| is that of a GPU instance profile ("MIG 1g.5gb+me") or of a MIG device ("NVIDIA A30 MIG
 * 1c.2g.12gb"). |name| gets the text behind the last "MIG ", or all of it. False: that is not a profile.
 */
bool mig_profile_read(char name[MIG_PROFILE_SIZE], const char *text) MUST_USE;

/*
 * The name of |compute_slices| in the GPU instance profile |whole| at |gpu_index|: "1c.3g.20gb" for 1 in "3g.20gb".
 * False: as mig_profile_name().
 */
bool mig_profile_name_within(
        char name[MIG_PROFILE_SIZE], const char *whole, unsigned int gpu_index, unsigned int compute_slices) MUST_USE;

/* The profile as resource names and labels have it, with '.' for '+': "1g.10gb.me". In |arena|. */
char *mig_profile_dotted(struct arena *arena, const char *profile);
