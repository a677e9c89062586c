// SPDX-License-Identifier: Apache-2.0
#include "node/dra/instances.h"

#include <string.h>

#include "gpu/hangs.h"
#include "gpu/mig_instances.h"

struct look {
        struct mig_gpu gpu;
        struct mig_geometry geometry;
        const struct mig_gpu_instance *found; /* at the placement; NULL: none */
};

static int look_at(struct look *look, const struct nvml *nvml, const struct dra_instance *instance, struct arena *arena,
        struct error *err)
{
        *look = (struct look){0};
        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, instance->gpu);
        if (mig_gpu_open(&look->gpu, nvml, instance->gpu, err) < 0 ||
                mig_instances_read(&look->geometry, arena, &look->gpu, err) < 0)
                return -1;
        for (size_t i = 0; i < look->geometry.n_instances; i++) {
                const struct mig_gpu_instance *one = &look->geometry.instances[i];

                if (one->profile->id == instance->profile_id && one->placement.start == instance->start)
                        look->found = one;
        }
        return 0;
}

static bool instances_is_ours(const struct mig_gpu_instance *found, const struct dra_instance *instance)
{
        if (instance->state == DRA_INSTANCE_MAKING || found->n_devices == 0)
                return instance->state != DRA_INSTANCE_NONE;
        return instance->state == DRA_INSTANCE_MADE && strcmp(found->devices[0].uuid, instance->uuid) == 0;
}

static void set_none(struct dra_instance *instance)
{
        instance->state = DRA_INSTANCE_NONE;
        instance->uuid = NULL;
}

static int refuse_others(const struct look *look, const struct dra_instance *instance, struct error *err)
{
        return error_set(err, ERROR_EXHAUSTED,
                "GPU %s: another program (nvidia-mig-parted, NVIDIA's MIG manager or DRA driver, or somebody's nvidia-smi) has made %s at %u, which the claim was given: it stays, and its place is no longer "
                "offered",
                instance->gpu, look->found->profile->name, instance->start);
}

int dra_instance_look(const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err)
{
        struct look look;

        if (look_at(&look, nvml, instance, arena, err) < 0)
                return -1;
        if (!look.found) {
                set_none(instance);
                return 0;
        }
        if (!instances_is_ours(look.found, instance))
                return refuse_others(&look, instance, err);
        if (look.found->n_devices == 0) {
                if (mig_instances_destroy(&look.gpu, look.found, err) < 0)
                        return -1;
                set_none(instance);
                return 0;
        }
        instance->state = DRA_INSTANCE_MADE;
        instance->uuid = look.found->devices[0].uuid;
        return 0;
}

/* After the driver has refused, nothing of ours exists, unless it is half made. */
static void look_for_rest(const struct nvml *nvml, struct dra_instance *instance, struct arena *arena)
{
        struct error ignored;
        struct look look;

        if (look_at(&look, nvml, instance, arena, &ignored) == 0 && (!look.found || look.found->n_devices > 0))
                set_none(instance);
}

int dra_instance_make(const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err)
{
        const struct mig_gpu_profile *profile = NULL;
        struct look look;
        unsigned int id;

        if (look_at(&look, nvml, instance, arena, err) < 0)
                return -1;
        for (size_t i = 0; i < look.geometry.n_profiles; i++)
                if (look.geometry.profiles[i].id == instance->profile_id)
                        profile = &look.geometry.profiles[i];
        if (!profile) {
                set_none(instance);
                return error_set(err, ERROR_UNAVAILABLE, "GPU %s: has no MIG profile %u now", instance->gpu,
                        instance->profile_id);
        }
        if (mig_instances_create(&look.gpu, profile, instance->start, &profile->slices, 1, &id, err) < 0) {
                look_for_rest(nvml, instance, arena);
                return -1;
        }
        if (look_at(&look, nvml, instance, arena, err) < 0)
                return -1;
        if (!look.found || look.found->n_devices == 0)
                return error_set(err, ERROR_UNAVAILABLE, "GPU %s: %s at %u was made and has no MIG device",
                        instance->gpu, profile->name, instance->start);
        instance->state = DRA_INSTANCE_MADE;
        instance->uuid = look.found->devices[0].uuid;
        return 0;
}

int dra_instance_destroy(const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err)
{
        struct look look;

        if (instance->state == DRA_INSTANCE_NONE)
                return 0;
        if (look_at(&look, nvml, instance, arena, err) < 0 && err->kind != ERROR_NOT_FOUND)
                return -1;
        if (!look.found || !instances_is_ours(look.found, instance)) {
                set_none(instance);
                return 0;
        }
        if (mig_instances_destroy(&look.gpu, look.found, err) < 0 && err->kind != ERROR_NOT_FOUND)
                return -1;
        set_none(instance);
        if (look.found->n_devices > 0)
                instance->uuid = look.found->devices[0].uuid;
        return 0;
}
