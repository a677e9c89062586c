// SPDX-License-Identifier: Apache-2.0
#include "gpu/mig_profile.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "gpu/nvml_abi.h"

/* more than any GPU has, and small enough for the arithmetic */
#define MEMORY_MAX (UINT64_C(1) << 50)

static const struct {
        unsigned int slices;
        const char *suffix;
} gpu_profiles[] = {
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE] = {1, ""},
        [NVML_GPU_INSTANCE_PROFILE_2_SLICE] = {2, ""},
        [NVML_GPU_INSTANCE_PROFILE_3_SLICE] = {3, ""},
        [NVML_GPU_INSTANCE_PROFILE_4_SLICE] = {4, ""},
        [NVML_GPU_INSTANCE_PROFILE_7_SLICE] = {7, ""},
        [NVML_GPU_INSTANCE_PROFILE_8_SLICE] = {8, ""},
        [NVML_GPU_INSTANCE_PROFILE_6_SLICE] = {6, ""},
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1] = {1, "+me"},
        [NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1] = {2, "+me"},
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2] = {1, ""},
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX] = {1, "+gfx"},
        [NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX] = {2, "+gfx"},
        [NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX] = {4, "+gfx"},
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME] = {1, "-me"},
        [NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME] = {2, "-me"},
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME] = {1, "+me.all"},
        [NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME] = {2, "+me.all"},
        [NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX] = {3, "+gfx"},
};
static_assert(ARRAY_SIZE(gpu_profiles) == NVML_GPU_INSTANCE_PROFILE_COUNT, "a GPU instance profile without a name");

static const unsigned int compute_profiles[] = {
        [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE] = 1,
        [NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE] = 2,
        [NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE] = 3,
        [NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE] = 4,
        [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE] = 7,
        [NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE] = 8,
        [NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE] = 6,
        [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1] = 1,
        [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL] = 7,
};
static_assert(ARRAY_SIZE(compute_profiles) == NVML_COMPUTE_INSTANCE_PROFILE_COUNT, "a compute profile without slices");

unsigned int mig_profile_gpu_slices(unsigned int gpu_index)
{
        return gpu_index < ARRAY_SIZE(gpu_profiles) ? gpu_profiles[gpu_index].slices : 0;
}

unsigned int mig_profile_compute_slices(unsigned int compute_index)
{
        return compute_index < ARRAY_SIZE(compute_profiles) ? compute_profiles[compute_index] : 0;
}

/*
 * Eighths are rounded up, since an instance has a little less than its share because of the driver's part; so are half
 * gigabytes.
 */
static uint64_t gigabytes(uint64_t memory_mib, uint64_t total)
{
        uint64_t whole = (total + (1 << 30) - 1) >> 30;
        uint64_t eighths = ((memory_mib << 23) + total - 1) / total;

        return (eighths * whole + 4) / 8;
}

bool mig_profile_name_within(
        char name[MIG_PROFILE_SIZE], const char *whole, unsigned int gpu_index, unsigned int compute_slices)
{
        unsigned int slices = mig_profile_gpu_slices(gpu_index);
        int length;

        if (!compute_slices || compute_slices > slices)
                return false;
        if (compute_slices == slices)
                length = snprintf(name, MIG_PROFILE_SIZE, "%s", whole);
        else
                length = snprintf(name, MIG_PROFILE_SIZE, "%uc.%s", compute_slices, whole);
        return length < (int)MIG_PROFILE_SIZE;
}

bool mig_profile_name(char name[MIG_PROFILE_SIZE], unsigned int gpu_index, unsigned int compute_slices,
        uint64_t memory_mib, uint64_t total)
{
        unsigned int slices = mig_profile_gpu_slices(gpu_index);
        unsigned long long gb;
        char whole[2 * MIG_PROFILE_SIZE];

        if (!slices || !memory_mib || !total)
                return false;
        gb = gigabytes(MIN(memory_mib, MEMORY_MAX >> 20), MIN(total, MEMORY_MAX));
        snprintf(whole, sizeof(whole), "%ug.%llugb%s", slices, gb, gpu_profiles[gpu_index].suffix);
        return mig_profile_name_within(name, whole, gpu_index, compute_slices);
}

static const char *pass_number(const char *at, const char *unit)
{
        size_t digits = strspn(at, "0123456789");

        return digits && text_starts_with(at + digits, unit) ? at + digits + strlen(unit) : NULL;
}

bool mig_profile_read(char name[MIG_PROFILE_SIZE], const char *text)
{
        const char *compute;
        const char *start = text;
        const char *at;

        while ((at = strstr(start, "MIG ")))
                start = at + strlen("MIG ");
        if (strlen(start) >= MIG_PROFILE_SIZE)
                return false;
        compute = pass_number(start, "c.");
        at = pass_number(compute ? compute : start, "g.");
        at = at ? pass_number(at, "gb") : NULL;
        if (!at || at[strspn(at, "+-.abcdefghijklmnopqrstuvwxyz")])
                return false;
        strcpy(name, start);
        return true;
}

char *mig_profile_dotted(struct arena *arena, const char *profile)
{
        char *dotted = arena_strdup(arena, profile);

        for (char *at = dotted; *at; at++)
                if (*at == '+')
                        *at = '.';
        return dotted;
}
