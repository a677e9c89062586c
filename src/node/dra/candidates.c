/*
 * MIG candidates: the GPU instances that can be created on a GPU whose geometry may change, and which counters each
 * consumes.
 *
 * An instance consumes its memory slices, one counter each, so that no two overlap; and compute slices, SMs and
 * engines. The driver does not report how many of these the GPU has, and the largest profile does not have all of some.
 * So the total is the most that any one profile can use (its count × what one instance takes). Instances that were not
 * made by Prepare stay: their memory slices get no counters, and their other use is subtracted from the totals.
 */
#include "base/macro.h"
#include "node/dra/candidates.h"

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
static unsigned int cost_of(
        const struct dra_mig_gpu *geometry, const struct mig_instance_profile *profile, unsigned int start)
{
        unsigned int cost = 0;

        for (size_t i = 0; i < geometry->n_profiles; i++)
                for (unsigned int other = 0; other < MEMORY_SLICES_MAX; other++)
                        cost += may_start(&geometry->profiles[i], other) &&
                                memory_slices(other, geometry->profiles[i].size) & memory_slices(start, profile->size);
        return cost;
}

static const struct mig_instance_profile *profile_by_id(const struct dra_mig_gpu *geometry, unsigned int id)
{
        for (size_t i = 0; i < geometry->n_profiles; i++)
                if (geometry->profiles[i].id == id)
                        return &geometry->profiles[i];
        return NULL;
}

static struct amounts total_of(const struct dra_mig_gpu *geometry)
{
        struct amounts total = {0};

        for (size_t i = 0; i < geometry->n_profiles; i++) {
                struct amounts one = amounts_of(&geometry->profiles[i]);

                for (size_t a = 0; a < N_AMOUNTS; a++)
                        total.of[a] = MAX(total.of[a], one.of[a] * geometry->profiles[i].count);
        }
        return total;
}

/*
 * Subtracts instances that were not made by Prepare from |total|; returns their memory slices. An instance of a profile
 * that NVML does not list counts as all memory slices.
 */
static uint32_t subtract_others(struct amounts *total, const struct dra_mig_gpu *geometry)
{
        uint32_t taken = 0;

        for (size_t i = 0; i < geometry->n_instances; i++) {
                const struct dra_mig_instance *instance = &geometry->instances[i];
                const struct mig_instance_profile *profile = profile_by_id(geometry, instance->at.profile_id);
                struct amounts one;

                if (instance->is_ours)
                        continue;
                if (!profile)
                        return UINT32_MAX;
                one = amounts_of(profile);
                for (size_t a = 0; a < N_AMOUNTS; a++)
                        total->of[a] -= MIN(total->of[a], one.of[a]);
                taken |= memory_slices(instance->at.start, profile->size);
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

static const char *made_of(
        const struct dra_mig_gpu *geometry, const struct mig_instance_profile *profile, unsigned int start)
{
        for (size_t i = 0; i < geometry->n_instances; i++)
                if (geometry->instances[i].is_ours && geometry->instances[i].at.profile_id == profile->id &&
                        geometry->instances[i].at.start == start)
                        return geometry->instances[i].uuid;
        return NULL;
}

static void add_candidate(struct dra_units *units, const struct dra_mig_gpu *geometry, struct dra_unit unit,
        const struct amounts *one, const char *gpu_name)
{
        const struct mig_instance_profile *profile = unit.profile;
        struct dra_counters counters = {0};
        unsigned int mine = cost_of(geometry, profile, unit.start);

        for (unsigned int start = 0; start < MEMORY_SLICES_MAX; start++)
                if (may_start(profile, start)) {
                        unsigned int cost = cost_of(geometry, profile, start);

                        unit.rank += cost < mine || (cost == mine && start < unit.start);
                }
        for (size_t a = 0; a < N_AMOUNTS; a++)
                (void)dra_counters_add(&counters, amount_names[a], one->of[a]);
        for (unsigned int slice = unit.start; slice < unit.start + profile->size; slice++)
                (void)dra_counters_add(&counters, slice_name(units->arena, slice), 1);
        unit.consumes = dra_counters_keep(units->arena, &counters);
        unit.n_consumes = counters.count;
        unit.name = arena_printf(
                units->arena, "%s-mig-%s-at-%u", gpu_name, dra_profile_name(units->arena, profile->name), unit.start);
        dra_units_add(units, unit);
}

void dra_candidates(struct dra_units *units, struct dra_counters *counters, const struct dra_mig_gpu *geometry,
        const struct gpu *gpu, size_t position, const char *gpu_name)
{
        struct amounts total = total_of(geometry);
        uint32_t taken = subtract_others(&total, geometry);
        uint32_t all = 0;

        for (size_t i = 0; i < geometry->n_profiles; i++) {
                const struct mig_instance_profile *profile = &geometry->profiles[i];
                struct amounts one = amounts_of(profile);

                for (unsigned int start = 0; start < MEMORY_SLICES_MAX; start++) {
                        if (!may_start(profile, start))
                                continue;
                        all |= memory_slices(start, profile->size);
                        if (!(taken & memory_slices(start, profile->size)) && candidates_fits(&one, &total))
                                add_candidate(units, geometry,
                                        (struct dra_unit){.gpu = gpu,
                                                .position = position,
                                                .profile = profile,
                                                .start = start,
                                                .made = made_of(geometry, profile, start),
                                                .total_mib = profile->attributes.memory_mib,
                                                .attributes = profile->attributes},
                                        &one, gpu_name);
                }
        }
        for (size_t a = 0; a < N_AMOUNTS; a++)
                (void)dra_counters_add(counters, amount_names[a], total.of[a]);
        for (unsigned int slice = 0; slice < MEMORY_SLICES_MAX; slice++)
                if ((all & ~taken) >> slice & 1)
                        (void)dra_counters_add(counters, slice_name(units->arena, slice), 1);
}
