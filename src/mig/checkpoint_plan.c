/* What restoring a checkpoint changes. */
#include <string.h>

#include "gpu/mig_profile.h"
#include "mig/checkpoint.h"

/* One GPU in the making: lists with room for all. */
struct restore {
        struct mig_plan_gpu *plan;
        const struct mig_gpu_instance **stays;
        const struct mig_gpu_instance **goes;
        struct mig_plan_made *made;
};

static const struct mig_gpu_profile *find_profile(const struct mig_node_gpu *gpu, unsigned int index)
{
        for (size_t i = 0; i < gpu->geometry.n_profiles; i++)
                if (gpu->geometry.profiles[i].index == index)
                        return &gpu->geometry.profiles[i];
        return NULL;
}

static bool has_place(const struct mig_gpu_profile *profile, const struct mig_placement *placement)
{
        for (size_t i = 0; i < profile->n_placements; i++)
                if (profile->placements[i].start == placement->start && profile->placements[i].size == placement->size)
                        return true;
        return false;
}

static bool is_at(const struct mig_gpu_instance *instance, const struct mig_gpu_profile *profile,
        const struct mig_placement *placement, const struct mig_shape *shape)
{
        const struct mig_shape is = mig_plan_shape(instance);

        return instance->profile == profile && instance->placement.start == placement->start &&
               instance->placement.size == placement->size && instance->n_devices > 0 && mig_shape_is_same(&is, shape);
}

static bool is_in(const struct mig_gpu_instance *const *list, size_t count, const struct mig_gpu_instance *instance)
{
        for (size_t i = 0; i < count; i++)
                if (list[i] == instance)
                        return true;
        return false;
}

/* None of |ret|: one compute instance of all slices. -1: they do not fit into the profile. */
static int read_shape(
        struct mig_shape *ret, const struct mig_gpu_profile *profile, const struct mig_checkpoint_instance *wanted)
{
        unsigned int sum = 0;

        *ret = (struct mig_shape){.n_computes = 0};
        if (wanted->n_computes == 0 || wanted->n_computes > MIG_SHAPE_SLICES)
                return -1;
        for (size_t i = 0; i < wanted->n_computes; i++) {
                unsigned int slices = mig_profile_compute_slices(wanted->computes[i].profile);

                if (slices == 0)
                        return -1;
                sum += slices;
                mig_shape_add(ret, slices);
        }
        if (ret->n_computes == 1 && sum == profile->slices)
                ret->n_computes = 0;
        return sum <= profile->slices ? 0 : -1;
}

static int restore_instance(struct restore *restore, const struct mig_checkpoint_instance *wanted, struct error *err)
{
        const struct mig_node_gpu *gpu = restore->plan->gpu;
        const struct mig_gpu_profile *profile = find_profile(gpu, wanted->profile);
        struct mig_shape shape;

        if (!profile)
                return error_set(err, ERROR_INVALID, "GPU %s: it has no profile with index %u%s", gpu->uuid,
                        wanted->profile,
                        gpu->geometry.n_profiles ? ": the checkpoint is of another model"
                                                 : ", as its driver lists profiles only while MIG is enabled: restore "
                                                   "the mode first (--mode-only)");
        if (!has_place(profile, &wanted->placement))
                return error_set(err, ERROR_INVALID, "GPU %s: %s cannot be at memory slice %u with %u slices",
                        gpu->uuid, profile->name, wanted->placement.start, wanted->placement.size);
        if (read_shape(&shape, profile, wanted) < 0)
                return error_set(err, ERROR_INVALID,
                        "GPU %s: the compute instances of %s at %u are none that it can have: it has %u slices",
                        gpu->uuid, profile->name, wanted->placement.start, profile->slices);
        for (size_t i = 0; i < gpu->geometry.n_instances; i++) {
                const struct mig_gpu_instance *instance = &gpu->geometry.instances[i];

                if (!is_at(instance, profile, &wanted->placement, &shape) ||
                        is_in(restore->stays, restore->plan->n_stays, instance))
                        continue;
                restore->stays[restore->plan->n_stays++] = instance;
                return 0;
        }
        restore->made[restore->plan->n_made++] = (struct mig_plan_made){.profile = profile->name,
                .start = wanted->placement.start,
                .size = wanted->placement.size,
                .shape = shape};
        return 0;
}

static void keep_all(struct restore *restore)
{
        const struct mig_geometry *geometry = &restore->plan->gpu->geometry;

        for (size_t i = 0; i < geometry->n_instances; i++)
                restore->stays[restore->plan->n_stays++] = &geometry->instances[i];
}

static int restore_gpu(struct restore *restore, struct arena *arena, const struct mig_checkpoint_gpu *wanted,
        bool is_mode_only, struct error *err)
{
        struct mig_plan_gpu *plan = restore->plan;
        const struct mig_geometry *geometry = &plan->gpu->geometry;
        struct mig_wanted *of_plan = ARENA_NEW(arena, struct mig_wanted);
        const bool is_enabled = wanted && wanted->mode == 1;

        plan->wanted = of_plan;
        if (!wanted || (is_mode_only && geometry->is_enabled == is_enabled)) {
                keep_all(restore);
                return 0;
        }
        if (plan->gpu->problem)
                return error_set(err, ERROR_UNAVAILABLE, "%s", plan->gpu->problem);
        if (!plan->gpu->is_capable)
                return error_set(err, ERROR_UNSUPPORTED, "GPU %s has no MIG", plan->gpu->uuid);
        *of_plan = (struct mig_wanted){.is_named = true, .is_enabled = is_enabled};
        for (size_t i = 0; i < wanted->n_instances && is_enabled && !is_mode_only; i++)
                if (restore_instance(restore, &wanted->instances[i], err) < 0)
                        return -1;
        for (size_t i = 0; i < geometry->n_instances; i++)
                if (!is_in(restore->stays, plan->n_stays, &geometry->instances[i]))
                        restore->goes[plan->n_goes++] = &geometry->instances[i];
        plan->changes_mode = geometry->is_enabled != is_enabled || geometry->is_pending_enabled != is_enabled;
        plan->needs_reset = geometry->is_enabled != is_enabled && geometry->mode_needs_reset;
        plan->changes = plan->changes_mode || plan->n_goes || plan->n_made;
        return 0;
}

static const struct mig_checkpoint_gpu *find_wanted(const struct mig_checkpoint *checkpoint, const char *uuid)
{
        for (size_t i = 0; i < checkpoint->n_gpus; i++)
                if (strcmp(checkpoint->gpus[i].uuid, uuid) == 0)
                        return &checkpoint->gpus[i];
        return NULL;
}

static int check_gpus(const struct mig_node *node, const struct mig_checkpoint *checkpoint, struct error *err)
{
        for (size_t i = 0; i < checkpoint->n_gpus; i++) {
                size_t k = 0;

                while (k < node->n_gpus && strcmp(node->gpus[k].uuid, checkpoint->gpus[i].uuid) != 0)
                        k++;
                if (k == node->n_gpus)
                        return error_set(err, ERROR_NOT_FOUND, "GPU %s of the checkpoint is not in this node",
                                checkpoint->gpus[i].uuid);
        }
        return 0;
}

int mig_checkpoint_plan(struct mig_plan *ret, struct arena *arena, const struct mig_node *node,
        const struct mig_checkpoint *checkpoint, bool is_mode_only, struct error *err)
{
        struct mig_plan_gpu *gpus = ARENA_ARRAY(arena, struct mig_plan_gpu, node->n_gpus);
        struct mig_plan plan = {.gpus = gpus, .n_gpus = node->n_gpus, .fits = true};

        if (check_gpus(node, checkpoint, err) < 0)
                return -1;
        for (size_t i = 0; i < node->n_gpus; i++) {
                const size_t present = node->gpus[i].geometry.n_instances;
                const struct mig_checkpoint_gpu *wanted = find_wanted(checkpoint, node->gpus[i].uuid);
                struct restore restore = {
                        .plan = &gpus[i],
                        .stays = ARENA_ARRAY(arena, const struct mig_gpu_instance *, present),
                        .goes = ARENA_ARRAY(arena, const struct mig_gpu_instance *, present),
                        .made = ARENA_ARRAY(arena, struct mig_plan_made, wanted ? wanted->n_instances : 0),
                };

                gpus[i].gpu = &node->gpus[i];
                if (restore_gpu(&restore, arena, wanted, is_mode_only, err) < 0)
                        return -1;
                gpus[i].stays = restore.stays;
                gpus[i].goes = restore.goes;
                gpus[i].made = restore.made;
                plan.changes = plan.changes || gpus[i].changes;
        }
        *ret = plan;
        return 0;
}
