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

static bool is_uuid(const char *text)
{
        return strncmp(text, "GPU-", strlen("GPU-")) == 0;
}

static const struct json_text version_text = {.is = is_version, .most = 2, .must = "v1, "};
static const struct json_text uuid_text = {.is = is_uuid, .most = 80, .must = "the UUID of a GPU of at most "};

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
