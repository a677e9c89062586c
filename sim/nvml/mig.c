// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/mig.h"

#include <string.h>

#include "base/macro.h"
#include "gpu/nvml_abi.h"

static uint32_t slots(unsigned int start, unsigned int size)
{
        return ((1U << size) - 1) << start;
}

static uint32_t memory_taken(const struct mig_layout *layout)
{
        uint32_t taken = 0;

        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                const struct mig_instance *instance = &layout->instances[i];

                if (instance->profile)
                        taken |= slots(instance->start, instance->profile->size);
        }
        return taken;
}

static unsigned int compute_taken(const struct mig_layout *layout)
{
        unsigned int taken = 0;

        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                if (layout->instances[i].profile)
                        taken += layout->instances[i].profile->slices;
        }
        return taken;
}

/*
 * How many more instances of |profile| the decoders that are left are enough for; a profile without decoders always has
 * room.
 */
static unsigned int decoder_room(
        const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile)
{
        unsigned int all = 0;
        unsigned int taken = 0;

        for (size_t i = 0; i < model->n_profiles; i++)
                all = MAX(all, model->profiles[i].decoders);
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                if (layout->instances[i].profile)
                        taken += layout->instances[i].profile->decoders;
        }
        return profile->decoders ? (all - MIN(all, taken)) / profile->decoders : MIG_INSTANCES_MAX;
}

static bool is_for_graphics(const struct mig_profile *profile)
{
        return strstr(profile->name, "+gfx");
}

/*
 * How many instances there are of |profile|. A GPU has the media extension once: for a profile with it, all instances
 * with it count. So do, where they come in pairs, all that are for graphics or all that are not.
 */
static unsigned int count_of(
        const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile)
{
        unsigned int count = 0;

        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                const struct mig_profile *other = layout->instances[i].profile;

                if (other && (other == profile || (profile->ofas && other->ofas) ||
                                     (model->pairs_graphics && is_for_graphics(other) == is_for_graphics(profile))))
                        count++;
        }
        return count;
}

static bool may_start(const struct mig_profile *profile, uint32_t taken, unsigned int start)
{
        return start < 32 && (profile->starts >> start & 1) && !(taken & slots(start, profile->size));
}

bool mig_fits(const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile,
        unsigned int start)
{
        return count_of(model, layout, profile) < profile->count && decoder_room(model, layout, profile) > 0 &&
               compute_taken(layout) + profile->slices <= model->compute_slices &&
               may_start(profile, memory_taken(layout), start);
}

unsigned int mig_room(const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile)
{
        uint32_t taken = memory_taken(layout);
        unsigned int by_compute = (model->compute_slices - compute_taken(layout)) / profile->slices;
        unsigned int made = count_of(model, layout, profile);
        unsigned int by_count = profile->count - MIN(profile->count, made);
        unsigned int by_memory = 0;

        for (unsigned int start = 0; start < model->memory_slices; start++) {
                if (may_start(profile, taken, start)) {
                        taken |= slots(start, profile->size);
                        by_memory++;
                }
        }
        return MIN(MIN(by_memory, by_compute), MIN(by_count, decoder_room(model, layout, profile)));
}

bool mig_choose(const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile,
        unsigned int *ret_start)
{
        uint32_t taken = memory_taken(layout);
        unsigned int least = ~0U;

        for (unsigned int start = 0; start < model->memory_slices; start++) {
                uint32_t then = taken | slots(start, profile->size);
                unsigned int lost = 0;

                if (!mig_fits(model, layout, profile, start))
                        continue;
                for (size_t i = 0; i < model->n_profiles; i++) {
                        for (unsigned int s = 0; s < model->memory_slices; s++)
                                lost += may_start(&model->profiles[i], taken, s) &&
                                        !may_start(&model->profiles[i], then, s);
                }
                if (lost < least) {
                        least = lost;
                        *ret_start = start;
                }
        }
        return least != ~0U;
}

unsigned int mig_instance_id(const struct model *model, const struct mig_profile *profile, unsigned int start)
{
        return model->memory_slices / profile->size - 1 + start / profile->size;
}

bool mig_fits_compute(const struct mig_instance *instance, unsigned int slices, unsigned int start)
{
        uint32_t taken = 0;

        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                if (instance->computes[i].used)
                        taken |= slots(instance->computes[i].start, instance->computes[i].slices);
        }
        return start < instance->profile->slices && slices <= instance->profile->slices - start &&
               !(taken & slots(start, slices));
}

bool mig_choose_compute(const struct mig_instance *instance, unsigned int slices, unsigned int *ret_start)
{
        for (unsigned int start = 0; start < instance->profile->slices; start++) {
                if (mig_fits_compute(instance, slices, start)) {
                        *ret_start = start;
                        return true;
                }
        }
        return false;
}

unsigned int mig_multiprocessors(const struct model *model, const struct mig_profile *profile, unsigned int slices)
{
        const struct mig_profile *one = model_profile_by_index(model, NVML_GPU_INSTANCE_PROFILE_1_SLICE);

        return slices == profile->slices ? profile->multiprocessors : slices * one->multiprocessors;
}

static const unsigned int compute_profiles[] = {
        [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE] = 1,
        [NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE] = 2,
        [NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE] = 3,
        [NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE] = 4,
        [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE] = 7,
};

/* The 1g profile with twice the memory has more multiprocessors than a slice, and so a compute profile of its own. */
static bool is_double(const struct mig_profile *profile)
{
        return profile->index == NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2;
}

unsigned int mig_compute_profile(const struct mig_profile *profile, unsigned int slices)
{
        if (is_double(profile))
                return NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1;
        for (unsigned int i = 0; i < ARRAY_SIZE(compute_profiles); i++) {
                if (compute_profiles[i] == slices)
                        return i;
        }
        return NVML_COMPUTE_INSTANCE_PROFILE_COUNT;
}

unsigned int mig_compute_slices(const struct mig_profile *profile, unsigned int compute_profile)
{
        unsigned int slices = compute_profile < ARRAY_SIZE(compute_profiles) ? compute_profiles[compute_profile] : 0;

        if (is_double(profile))
                return compute_profile == NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1;
        return slices <= profile->slices ? slices : 0;
}
