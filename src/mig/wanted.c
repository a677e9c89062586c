#include "mig/wanted.h"

#include <string.h>

#include "mig/profile_text.h"

struct mig_wanted_count *mig_wanted_find(
        struct mig_wanted_count *counts, size_t n_counts, const char *profile, unsigned int compute)
{
        for (size_t i = 0; i < n_counts; i++)
                if (counts[i].compute == compute && strcmp(counts[i].profile, profile) == 0)
                        return &counts[i];
        return NULL;
}

void mig_wanted_add(struct mig_wanted_count *counts, size_t *n_counts, const struct mig_wanted_count *added)
{
        struct mig_wanted_count *found = mig_wanted_find(counts, *n_counts, added->profile, added->compute);

        if (found)
                found->count += added->count;
        else
                counts[(*n_counts)++] = *added;
}

static unsigned int count_there(const struct mig_geometry *geometry, const char *profile, unsigned int compute)
{
        unsigned int there = 0;

        for (size_t i = 0; i < geometry->n_instances; i++)
                for (size_t k = 0; k < geometry->instances[i].n_devices; k++)
                        there += mig_device_compute(&geometry->instances[i], k) == compute &&
                                 strcmp(geometry->instances[i].profile->name, profile) == 0;
        return there;
}

static const char *compare_profile(struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted,
        const char *profile, unsigned int compute)
{
        unsigned int there = count_there(&gpu->geometry, profile, compute);
        const struct mig_wanted_count *found = mig_wanted_find(
                (struct mig_wanted_count *)(uintptr_t)wanted->counts, wanted->n_counts, profile, compute);
        unsigned int count = found ? found->count : 0;

        return there == count ? NULL
                              : arena_printf(arena, "GPU %u has %u of %s, wanted are %u", gpu->index, there,
                                        mig_profile_text_device(arena, profile, compute), count);
}

static const char *compare_instance(struct arena *arena, const struct mig_node_gpu *gpu,
        const struct mig_wanted *wanted, const struct mig_gpu_instance *instance)
{
        const char *difference = NULL;

        if (instance->n_devices == 0)
                return arena_printf(arena,
                        "GPU instance %u of GPU %u (%s) has no compute instance, so it is no MIG device", instance->id,
                        gpu->index, instance->profile->name);
        for (size_t k = 0; k < instance->n_devices && !difference; k++)
                difference =
                        compare_profile(arena, gpu, wanted, instance->profile->name, mig_device_compute(instance, k));
        return difference;
}

const char *mig_compare(
        struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted, bool is_mode_only)
{
        static const char *const modes[] = {"disabled", "enabled"};
        const struct mig_geometry *geometry = &gpu->geometry;

        if (!wanted->is_named)
                return NULL;
        if (gpu->problem)
                return gpu->problem;
        if (geometry->is_enabled != wanted->is_enabled)
                return arena_printf(arena, "MIG is %s on GPU %u, wanted is %s%s", modes[geometry->is_enabled],
                        gpu->index, modes[wanted->is_enabled],
                        geometry->is_pending_enabled == wanted->is_enabled ? " (after a reset of the GPU)" : "");
        for (size_t i = 0; i < geometry->n_instances && !is_mode_only; i++) {
                const char *difference = compare_instance(arena, gpu, wanted, &geometry->instances[i]);

                if (difference)
                        return difference;
        }
        for (size_t i = 0; i < wanted->n_counts && !is_mode_only; i++) {
                const char *difference =
                        compare_profile(arena, gpu, wanted, wanted->counts[i].profile, wanted->counts[i].compute);

                if (difference)
                        return difference;
        }
        return NULL;
}
