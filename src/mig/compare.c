#include "mig/compare.h"

#include <string.h>

static bool is_whole(const struct mig_gpu_instance *instance)
{
        return instance->n_devices == 1 && instance->devices[0].slices == instance->profile->slices;
}

static unsigned int count_of(const struct mig_wanted *wanted, const char *profile)
{
        for (size_t i = 0; i < wanted->n_counts; i++)
                if (strcmp(wanted->counts[i].profile, profile) == 0)
                        return wanted->counts[i].count;
        return 0;
}

static const char *compare_profile(
        struct arena *arena, const struct mig_node_gpu *gpu, const char *profile, unsigned int wanted)
{
        unsigned int there = 0;

        for (size_t i = 0; i < gpu->geometry.n_instances; i++)
                there += strcmp(gpu->geometry.instances[i].profile->name, profile) == 0;
        return there == wanted
                       ? NULL
                       : arena_printf(arena, "GPU %u has %u of %s, wanted are %u", gpu->index, there, profile, wanted);
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
                const struct mig_gpu_instance *instance = &geometry->instances[i];
                const char *difference =
                        compare_profile(arena, gpu, instance->profile->name, count_of(wanted, instance->profile->name));

                if (difference)
                        return difference;
                if (!is_whole(instance))
                        return arena_printf(arena,
                                "GPU instance %u of GPU %u (%s) has %zu compute instances, wanted is one of all slices",
                                instance->id, gpu->index, instance->profile->name, instance->n_devices);
        }
        for (size_t i = 0; i < wanted->n_counts && !is_mode_only; i++) {
                const char *difference =
                        compare_profile(arena, gpu, wanted->counts[i].profile, wanted->counts[i].count);

                if (difference)
                        return difference;
        }
        return NULL;
}
