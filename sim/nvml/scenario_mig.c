// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/scenario_parts.h"

#include <assert.h>
#include <string.h>

/* "1c.3g.20gb" is one compute slice of a 3g.20gb; "3g.20gb" all three. */
static const struct mig_profile *find_profile(const struct model *model, const char *text, unsigned int *slices)
{
        const struct mig_profile *profile;

        if (text[0] >= '1' && text[0] <= '7' && text[1] == 'c' && text[2] == '.') {
                *slices = (unsigned int)(text[0] - '0');
                profile = model_profile(model, text + 3);
                return profile && *slices < profile->slices ? profile : NULL;
        }
        profile = model_profile(model, text);
        if (profile)
                *slices = profile->slices;
        return profile;
}

static struct mig_instance *find_instance(struct mig_layout *layout, const struct mig_profile *profile, unsigned int id)
{
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                if (layout->instances[i].profile == profile && (!profile || layout->instances[i].id == id))
                        return &layout->instances[i];
        }
        return NULL;
}

static bool is_id_taken(const struct mig_layout *layout, unsigned int id)
{
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                if (layout->instances[i].profile && layout->instances[i].id == id)
                        return true;
        }
        return false;
}

static int make_instance(const struct decode *decode, struct scenario_gpu *gpu, const struct mig_profile *profile,
        struct mig_instance **ret, struct error *err)
{
        struct mig_instance *instance = find_instance(&gpu->mig, NULL, 0);
        unsigned int start = 0;
        unsigned int id;

        if (decode_has(decode, "start")) {
                if (decode_uint32(decode, "start", gpu->model->memory_slices - 1, &start, err) < 0)
                        return -1;
                if (!mig_fits(gpu->model, &gpu->mig, profile, start))
                        return decode_fail(decode, "start", err, "%s cannot be at %u here", profile->name, start);
        } else if (!mig_choose(gpu->model, &gpu->mig, profile, &start)) {
                return decode_fail(decode, "profile", err, "no room for %s", profile->name);
        }
        if (!instance)
                return decode_fail(decode, "profile", err, "more than %u instances", MIG_INSTANCES_MAX);
        id = mig_instance_id(gpu->model, profile, start);
        while (is_id_taken(&gpu->mig, id)) /* by an instance whose `gi` was given */
                id++;
        *instance = (struct mig_instance){.profile = profile, .start = start, .id = id};
        *ret = instance;
        return 0;
}

static int make_compute(
        const struct decode *decode, struct mig_instance *instance, unsigned int slices, struct error *err)
{
        struct mig_compute *compute = NULL;
        unsigned int id = 0;

        for (size_t i = 0; i < MIG_COMPUTE_MAX && !compute; i++) {
                if (!instance->computes[i].used)
                        compute = &instance->computes[i];
        }
        if (!compute || !mig_choose_compute(instance, slices, &compute->start))
                return decode_fail(decode, "profile", err, "no compute slices left in GPU instance %u", instance->id);
        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++)
                id += instance->computes[i].used;
        if (decode_uint32(decode, "ci", MIG_COMPUTE_MAX - 1, &id, err) < 0)
                return -1;
        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                if (instance->computes[i].used && instance->computes[i].id == id)
                        return decode_fail(decode, "ci", err, "compute instance %u of GPU instance %u is there already",
                                id, instance->id);
        }
        compute->id = id;
        compute->slices = slices;
        compute->used = true;
        return decode_text(decode, "uuid", 41 + 4, &compute->uuid, err);
}

static int parse_device(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"profile", "gi", "ci", "uuid", "start", "count", NULL};
        const struct mig_profile *profile;
        const char *name = "";
        unsigned int slices = 0;
        unsigned int count = 1;
        unsigned int gi = NVML_NO_INSTANCE;

        if (decode_object(decode, keys, err) < 0 || decode_text(decode, "profile", 32, &name, err) < 0 ||
                decode_uint32(decode, "gi", 14, &gi, err) < 0 || decode_uint32(decode, "count", 7, &count, err) < 0)
                return -1;
        profile = find_profile(gpu->model, name, &slices);
        if (!profile)
                return decode_fail(decode, "profile", err, "%s has no profile '%s'", gpu->model->key, name);
        if (count != 1 && (count == 0 || gi != NVML_NO_INSTANCE || decode_has(decode, "uuid") ||
                                  decode_has(decode, "start") || decode_has(decode, "ci")))
                return decode_fail(decode, "count", err, "must be at least 1, and alone: no gi, ci, uuid or start");
        while (count--) {
                struct mig_instance *instance = NULL;

                if (gi != NVML_NO_INSTANCE)
                        instance = find_instance(&gpu->mig, profile, gi);
                if (!instance && make_instance(decode, gpu, profile, &instance, err) < 0)
                        return -1;
                assert(instance);
                if (gi != NVML_NO_INSTANCE && instance->id != gi) {
                        instance->id = NVML_NO_INSTANCE;
                        if (is_id_taken(&gpu->mig, gi))
                                return decode_fail(decode, "gi", err, "GPU instance %u has another profile", gi);
                        instance->id = gi;
                }
                if (make_compute(decode, instance, slices, err) < 0)
                        return -1;
        }
        return 0;
}

int scenario_parse_mig(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"enabled", "pending", "devices", NULL};
        struct decode mig;
        const json_t *devices;
        bool found;

        if (decode_member(decode, "mig", &mig, &found, err) < 0)
                return -1;
        if (!found)
                return 0;
        if (!gpu->model->memory_slices)
                return decode_fail(decode, "mig", err, "%s has no MIG", gpu->model->key);
        gpu->mig_enabled = true;
        if (decode_object(&mig, keys, err) < 0 || decode_bool(&mig, "enabled", &gpu->mig_enabled, err) < 0)
                return -1;
        gpu->mig_pending = gpu->mig_enabled;
        if (decode_bool(&mig, "pending", &gpu->mig_pending, err) < 0 ||
                decode_array(&mig, "devices", 64, &devices, err) < 0)
                return -1;
        if (devices && !gpu->mig_enabled)
                return decode_fail(&mig, "devices", err, "MIG is not enabled");
        for (size_t i = 0; i < json_array_size(devices); i++) {
                struct decode device = decode_item(&mig, "devices", devices, i);

                if (parse_device(&device, gpu, err) < 0)
                        return -1;
        }
        return 0;
}
