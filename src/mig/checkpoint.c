// SPDX-License-Identifier: Apache-2.0
#include "mig/checkpoint.h"

#include <string.h>

#include "base/file.h"
#include "base/data/json_fields.h"
#include "gpu/mig_profile.h"
#include "gpu/nvml_abi.h"

/* ---- the fields ---- */

static bool is_version(const char *text)
{
        return strcmp(text, "v1") == 0;
}

static bool checkpoint_is_uuid(const char *text)
{
        return strncmp(text, "GPU-", strlen("GPU-")) == 0;
}

static const struct json_text version_text = {.is = is_version, .most = 2, .must = "v1, "};
static const struct json_text uuid_text = {
        .is = checkpoint_is_uuid, .most = 80, .must = "the UUID of a GPU of at most "};

/* The root: "MigState" has one member. */
struct state {
        const char *version;
        struct mig_checkpoint checkpoint;
};

static const struct json_field compute_fields[] = {
        JSON_UINT("ProfileID", struct mig_checkpoint_compute, profile, 0, NVML_COMPUTE_INSTANCE_PROFILE_COUNT - 1,
                .is_needed = true),
        JSON_UINT("EngProfileID", struct mig_checkpoint_compute, engine, 0, 0),
};
static const struct json_shape compute_shape = JSON_SHAPE(struct mig_checkpoint_compute, compute_fields);

static const struct json_field placement_fields[] = {
        JSON_UINT("Start", struct mig_placement, start, 0, 63, .is_needed = true),
        JSON_UINT("Size", struct mig_placement, size, 1, 64, .is_needed = true),
};
static const struct json_shape placement_shape = JSON_SHAPE(struct mig_placement, placement_fields);

static const struct json_field instance_fields[] = {
        JSON_UINT("ProfileID", struct mig_checkpoint_instance, profile, 0, NVML_GPU_INSTANCE_PROFILE_COUNT - 1,
                .is_needed = true),
        JSON_MEMBER("Placement", struct mig_checkpoint_instance, placement, placement_shape, .is_needed = true),
        JSON_ITEMS("ComputeInstances", struct mig_checkpoint_instance, computes, n_computes, compute_shape, 0,
                MIG_CHECKPOINT_MAX_INSTANCES),
};
static const struct json_shape instance_shape = JSON_SHAPE(struct mig_checkpoint_instance, instance_fields);

static const struct json_field gpu_fields[] = {
        JSON_TEXT("UUID", struct mig_checkpoint_gpu, uuid, uuid_text, .is_needed = true),
        JSON_UINT("MigMode", struct mig_checkpoint_gpu, mode, 0, 1, .is_needed = true),
        JSON_ITEMS("GpuInstances", struct mig_checkpoint_gpu, instances, n_instances, instance_shape, 0,
                MIG_CHECKPOINT_MAX_INSTANCES),
};
static const struct json_shape gpu_shape = JSON_SHAPE(struct mig_checkpoint_gpu, gpu_fields);

static const struct json_field checkpoint_fields[] = {
        JSON_ITEMS("Devices", struct mig_checkpoint, gpus, n_gpus, gpu_shape, 0, MIG_CHECKPOINT_MAX_GPUS),
};
static const struct json_shape checkpoint_shape = JSON_SHAPE(struct mig_checkpoint, checkpoint_fields);

static const struct json_field state_fields[] = {
        JSON_TEXT("Version", struct state, version, version_text, .is_needed = true),
        JSON_MEMBER("MigState", struct state, checkpoint, checkpoint_shape, .is_needed = true),
};
static const struct json_shape state_shape = JSON_SHAPE(struct state, state_fields);

/* ---- taking ---- */

/*
 * The index of the compute profile with |slices|. That of the one slice in a GPU instance with the memory of two has
 * its own ("1g.20gb": nvidia-smi mig -lci).
 */
static unsigned int compute_profile(const struct mig_gpu_profile *profile, unsigned int slices)
{
        if (profile->index == NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2)
                return NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1;
        for (unsigned int i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++)
                if (mig_profile_compute_slices(i) == slices)
                        return i;
        return NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE;
}

static void take_instance(
        struct mig_checkpoint_instance *ret, struct arena *arena, const struct mig_gpu_instance *instance)
{
        struct mig_checkpoint_compute *computes =
                ARENA_ARRAY(arena, struct mig_checkpoint_compute, instance->n_devices);

        for (size_t i = 0; i < instance->n_devices; i++)
                computes[i].profile = compute_profile(instance->profile, instance->devices[i].slices);
        *ret = (struct mig_checkpoint_instance){.profile = instance->profile->index,
                .placement = instance->placement,
                .computes = computes,
                .n_computes = instance->n_devices};
}

int mig_checkpoint_take(struct mig_checkpoint *ret, struct arena *arena, const struct mig_node *node, struct error *err)
{
        struct mig_checkpoint_gpu *gpus = ARENA_ARRAY(arena, struct mig_checkpoint_gpu, node->n_gpus);
        size_t n_gpus = 0;

        for (size_t i = 0; i < node->n_gpus; i++) {
                const struct mig_node_gpu *gpu = &node->gpus[i];
                struct mig_checkpoint_instance *instances;

                if (gpu->problem)
                        return error_set(err, ERROR_UNAVAILABLE, "%s", gpu->problem);
                if (!gpu->is_capable)
                        continue;
                instances = ARENA_ARRAY(arena, struct mig_checkpoint_instance, gpu->geometry.n_instances);
                for (size_t k = 0; k < gpu->geometry.n_instances; k++)
                        take_instance(&instances[k], arena, &gpu->geometry.instances[k]);
                gpus[n_gpus++] = (struct mig_checkpoint_gpu){.uuid = gpu->uuid,
                        .mode = gpu->geometry.is_enabled,
                        .instances = instances,
                        .n_instances = gpu->geometry.n_instances};
        }
        *ret = (struct mig_checkpoint){.gpus = gpus, .n_gpus = n_gpus};
        return 0;
}

void mig_checkpoint_print(struct strbuf *text, const struct mig_checkpoint *checkpoint)
{
        const struct state state = {.version = "v1", .checkpoint = *checkpoint};
        json_t *json = json_object();
        _free_ char *printed = NULL;

        json_fields_put(json, &state_shape, &state);
        printed = json_fields_print(json, JSON_COMPACT);
        strbuf_puts(text, printed);
}

/* ---- reading ---- */

/* A Go program writes null for an empty list. */
static void drop_nulls(json_t *json)
{
        const char *key;
        json_t *value;
        void *next;
        size_t i;

        json_array_foreach(json, i, value) drop_nulls(value);
        json_object_foreach_safe(json, next, key, value)
        {
                if (json_is_null(value))
                        json_object_del(json, key);
                else
                        drop_nulls(value);
        }
}

int mig_checkpoint_parse(
        struct mig_checkpoint *ret, struct arena *arena, const char *text, size_t size, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        struct state state = {0};
        json_t *json;

        if (size > MIG_CHECKPOINT_LIMIT)
                return error_set(err, ERROR_INVALID, "%zu bytes, at most %zu", size, MIG_CHECKPOINT_LIMIT);
        json = json_fields_load(&in, text, size);
        drop_nulls(json);
        if (!in.is_bad)
                json_fields_take(&in, json, &state_shape, &state);
        json_decref(json);
        if (in.is_bad)
                return -1;
        *ret = state.checkpoint;
        return 0;
}

int mig_checkpoint_read(struct mig_checkpoint *ret, struct arena *arena, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, MIG_CHECKPOINT_LIMIT, &text, err) < 0)
                return -1;
        if (mig_checkpoint_parse(ret, arena, text.data, text.size, err) < 0)
                return error_prefix(err, "checkpoint '%.200s'", path);
        return 0;
}

/* ---- what restoring changes ---- */

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

static bool checkpoint_is_at(const struct mig_gpu_instance *instance, const struct mig_gpu_profile *profile,
        const struct mig_placement *placement, const struct mig_shape *shape)
{
        const struct mig_shape is = mig_plan_shape(instance);

        return instance->profile == profile && instance->placement.start == placement->start &&
               instance->placement.size == placement->size && instance->n_devices > 0 && mig_shape_is_same(&is, shape);
}

static bool checkpoint_is_in(
        const struct mig_gpu_instance **list, size_t count, const struct mig_gpu_instance *instance)
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

static int restore_instance(struct mig_plan_gpu *plan, const struct mig_checkpoint_instance *wanted, struct error *err)
{
        const struct mig_node_gpu *gpu = plan->gpu;
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

                if (!checkpoint_is_at(instance, profile, &wanted->placement, &shape) ||
                        checkpoint_is_in(plan->stays, plan->n_stays, instance))
                        continue;
                plan->stays[plan->n_stays++] = instance;
                return 0;
        }
        plan->made[plan->n_made++] = (struct mig_plan_made){.profile = profile->name,
                .start = wanted->placement.start,
                .size = wanted->placement.size,
                .shape = shape};
        return 0;
}

static int restore_gpu(struct mig_plan_gpu *plan, struct mig_wanted *of_plan, const struct mig_checkpoint_gpu *wanted,
        bool is_mode_only, struct error *err)
{
        const struct mig_geometry *geometry = &plan->gpu->geometry;
        const bool is_enabled = wanted && wanted->mode == 1;

        if (!wanted || (is_mode_only && geometry->is_enabled == is_enabled)) {
                mig_plan_keep_all(plan);
                return 0;
        }
        if (plan->gpu->problem)
                return error_set(err, ERROR_UNAVAILABLE, "%s", plan->gpu->problem);
        if (!plan->gpu->is_capable)
                return error_set(err, ERROR_UNSUPPORTED, "GPU %s has no MIG", plan->gpu->uuid);
        *of_plan = (struct mig_wanted){.is_named = true, .is_enabled = is_enabled};
        for (size_t i = 0; i < wanted->n_instances && is_enabled && !is_mode_only; i++)
                if (restore_instance(plan, &wanted->instances[i], err) < 0)
                        return -1;
        for (size_t i = 0; i < geometry->n_instances; i++)
                if (!checkpoint_is_in(plan->stays, plan->n_stays, &geometry->instances[i]))
                        plan->goes[plan->n_goes++] = &geometry->instances[i];
        mig_plan_settle(plan);
        return 0;
}

static const struct mig_checkpoint_gpu *checkpoint_find_wanted(
        const struct mig_checkpoint *checkpoint, const char *uuid)
{
        for (size_t i = 0; i < checkpoint->n_gpus; i++)
                if (strcmp(checkpoint->gpus[i].uuid, uuid) == 0)
                        return &checkpoint->gpus[i];
        return NULL;
}

static int checkpoint_check_gpus(
        const struct mig_node *node, const struct mig_checkpoint *checkpoint, struct error *err)
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

        if (checkpoint_check_gpus(node, checkpoint, err) < 0)
                return -1;
        for (size_t i = 0; i < node->n_gpus; i++) {
                const struct mig_checkpoint_gpu *wanted = checkpoint_find_wanted(checkpoint, node->gpus[i].uuid);
                struct mig_wanted *of_plan = ARENA_NEW(arena, struct mig_wanted);

                mig_plan_init(&gpus[i], arena, &node->gpus[i], of_plan, wanted ? wanted->n_instances : 0);
                if (restore_gpu(&gpus[i], of_plan, wanted, is_mode_only, err) < 0)
                        return -1;
                plan.changes = plan.changes || gpus[i].changes;
        }
        *ret = plan;
        return 0;
}
