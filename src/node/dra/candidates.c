// SPDX-License-Identifier: Apache-2.0
/*
 * MIG candidates: the GPU instances that can be created on a GPU whose geometry may change, and which counters each
 * consumes.
 *
 * An instance consumes its memory slices, one counter each, so that no two overlap; and compute slices, SMs and
 * engines. The driver does not report how many of these the GPU has, and the largest profile does not have all of some.
 * So the total is the most that any one profile can use (its count × what one instance takes). Instances that were not
 * made by Prepare stay: their memory slices get no counters, and their other use is subtracted from the totals.
 */
#include "node/dra/candidates.h"

#include <string.h>

#include "base/macro.h"

#define MEMORY_SLICES_MAX 16U /* of a GPU; today's have 8 */

enum { COMPUTE, SMS, COPY, DECODE, ENCODE, JPEG, OFA, N_AMOUNTS };

static const char *const amount_names[N_AMOUNTS] = {
        [COMPUTE] = "compute-slices",
        [SMS] = "multiprocessors",
        [COPY] = "copy-engines",
        [DECODE] = "decoders",
        [ENCODE] = "encoders",
        [JPEG] = "jpeg-engines",
        [OFA] = "ofa-engines",
};

struct amounts {
        uint64_t of[N_AMOUNTS];
};

static struct amounts amounts_of(const struct mig_instance_profile *profile)
{
        return (struct amounts){.of = {
                                        [COMPUTE] = profile->slices,
                                        [SMS] = profile->attributes.multiprocessors,
                                        [COPY] = profile->attributes.copy_engines,
                                        [DECODE] = profile->attributes.decoders,
                                        [ENCODE] = profile->attributes.encoders,
                                        [JPEG] = profile->attributes.jpegs,
                                        [OFA] = profile->attributes.ofas,
                                }};
}

static uint32_t memory_slices(unsigned int start, unsigned int size)
{
        return start < MEMORY_SLICES_MAX ? ((1U << MIN(size, MEMORY_SLICES_MAX)) - 1) << start : 0;
}

static bool may_start(const struct mig_instance_profile *profile, unsigned int start)
{
        return profile->starts >> start & 1 && profile->size > 0 && start + profile->size <= MEMORY_SLICES_MAX;
}

/* How many placements of all profiles an instance at |start| would make impossible. */
static unsigned int cost_of(const struct gpu *gpu, const struct mig_instance_profile *profile, unsigned int start)
{
        unsigned int cost = 0;

        for (size_t i = 0; i < gpu->n_mig_instance_profiles; i++)
                for (unsigned int other = 0; other < MEMORY_SLICES_MAX; other++)
                        cost += may_start(&gpu->mig_instance_profiles[i], other) &&
                                memory_slices(other, gpu->mig_instance_profiles[i].size) &
                                        memory_slices(start, profile->size);
        return cost;
}

static const struct mig_instance_profile *profile_by_id(const struct gpu *gpu, unsigned int id)
{
        for (size_t i = 0; i < gpu->n_mig_instance_profiles; i++)
                if (gpu->mig_instance_profiles[i].id == id)
                        return &gpu->mig_instance_profiles[i];
        return NULL;
}

static struct amounts total_of(const struct gpu *gpu)
{
        struct amounts total = {0};

        for (size_t i = 0; i < gpu->n_mig_instance_profiles; i++) {
                struct amounts one = amounts_of(&gpu->mig_instance_profiles[i]);

                for (size_t a = 0; a < N_AMOUNTS; a++)
                        total.of[a] = MAX(total.of[a], one.of[a] * gpu->mig_instance_profiles[i].count);
        }
        return total;
}

/* The MIG device of the GPU instance: Prepare makes exactly one. NULL: it has none. */
static const struct mig_device *candidates_find_device(const struct gpu *gpu, unsigned int gpu_instance)
{
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                if (gpu->mig_devices[i].gpu_instance == gpu_instance)
                        return &gpu->mig_devices[i];
        return NULL;
}

const struct dra_instance *dra_instance_placed(
        const struct dra_options *options, const struct gpu *gpu, const struct mig_placed *placed)
{
        const struct mig_device *device = candidates_find_device(gpu, placed->gpu_instance);

        for (size_t i = 0; i < options->n_instances; i++) {
                const struct dra_instance *made = &options->instances[i];

                if (made->state != DRA_INSTANCE_NONE && strcmp(made->gpu, gpu->uuid) == 0 &&
                        made->profile_id == placed->profile_id && made->start == placed->start &&
                        (!made->uuid || !device || strcmp(made->uuid, device->uuid) == 0))
                        return made;
        }
        return NULL;
}

/*
 * Subtracts instances that were not made by Prepare from |total|; returns their memory slices. An instance of a profile
 * that NVML does not list counts as all memory slices.
 */
static uint32_t subtract_others(struct amounts *total, const struct dra_options *options, const struct gpu *gpu)
{
        uint32_t taken = 0;

        for (size_t i = 0; i < gpu->n_mig_placed; i++) {
                const struct mig_placed *placed = &gpu->mig_placed[i];
                const struct mig_instance_profile *profile = profile_by_id(gpu, placed->profile_id);
                struct amounts one;

                if (dra_instance_placed(options, gpu, placed))
                        continue;
                if (!profile)
                        return UINT32_MAX;
                one = amounts_of(profile);
                for (size_t a = 0; a < N_AMOUNTS; a++)
                        total->of[a] -= MIN(total->of[a], one.of[a]);
                taken |= memory_slices(placed->start, profile->size);
        }
        return taken;
}

static bool candidates_fits(const struct amounts *one, const struct amounts *total)
{
        for (size_t a = 0; a < N_AMOUNTS; a++)
                if (one->of[a] > total->of[a])
                        return false;
        return true;
}

static const char *slice_name(struct arena *arena, unsigned int slice)
{
        return arena_printf(arena, "memory-slice-%u", slice);
}

/* The MIG device that is made of a candidate now, or NULL. */
static const char *made_of(const struct dra_options *options, const struct dra_device *candidate)
{
        const struct gpu *gpu = candidate->gpu;

        for (size_t i = 0; i < gpu->n_mig_placed; i++) {
                const struct mig_placed *placed = &gpu->mig_placed[i];
                const struct dra_instance *made = dra_instance_placed(options, gpu, placed);

                if (made && placed->profile_id == candidate->profile->id && placed->start == candidate->start)
                        return made->uuid;
        }
        return NULL;
}

static void add_candidate(struct dra_units *units, const struct dra_options *options, const struct gpu *gpu,
        const struct mig_instance_profile *profile, unsigned int at, const char *gpu_name)
{
        struct dra_unit unit = {.whole = {.uuid = gpu->uuid, .gpu = gpu, .profile = profile, .start = at},
                .total_mib = profile->attributes.memory_mib,
                .attributes = profile->attributes};
        struct amounts one = amounts_of(profile);
        struct dra_counters counters = {0};
        unsigned int mine = cost_of(gpu, profile, at);

        unit.whole.made = made_of(options, &unit.whole);
        for (unsigned int start = 0; start < MEMORY_SLICES_MAX; start++)
                if (may_start(profile, start)) {
                        unsigned int cost = cost_of(gpu, profile, start);

                        unit.rank += cost < mine || (cost == mine && start < at);
                }
        for (size_t a = 0; a < N_AMOUNTS; a++)
                (void)dra_counters_add(&counters, amount_names[a], one.of[a]);
        for (unsigned int slice = at; slice < at + profile->size; slice++)
                (void)dra_counters_add(&counters, slice_name(units->arena, slice), 1);
        unit.whole.consumes = dra_counters_keep(units->arena, &counters);
        unit.whole.n_consumes = counters.count;
        unit.whole.name = arena_printf(
                units->arena, "%s-mig-%s-at-%u", gpu_name, dra_profile_name(units->arena, profile->name), at);
        dra_units_add(units, unit);
}

void dra_candidates(struct dra_units *units, struct dra_counters *counters, const struct dra_options *options,
        const struct gpu *gpu, const char *gpu_name)
{
        struct amounts total = total_of(gpu);
        uint32_t taken = subtract_others(&total, options, gpu);
        uint32_t all = 0;

        for (size_t i = 0; i < gpu->n_mig_instance_profiles; i++) {
                const struct mig_instance_profile *profile = &gpu->mig_instance_profiles[i];
                struct amounts one = amounts_of(profile);

                for (unsigned int start = 0; start < MEMORY_SLICES_MAX; start++) {
                        if (!may_start(profile, start))
                                continue;
                        all |= memory_slices(start, profile->size);
                        if (!(taken & memory_slices(start, profile->size)) && candidates_fits(&one, &total))
                                add_candidate(units, options, gpu, profile, start, gpu_name);
                }
        }
        for (size_t a = 0; a < N_AMOUNTS; a++)
                (void)dra_counters_add(counters, amount_names[a], total.of[a]);
        for (unsigned int slice = 0; slice < MEMORY_SLICES_MAX; slice++)
                if ((all & ~taken) >> slice & 1)
                        (void)dra_counters_add(counters, slice_name(units->arena, slice), 1);
}
