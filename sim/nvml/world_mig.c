// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/world.h"

#include <stdio.h>
#include <string.h>

#include "sim/hardware/uuid.h"

struct nvmlGpuInstance_st *world_instance(const struct world *world, nvmlGpuInstance_t handle)
{
        LIST_FOR_EACH(link, &world->instances) {
                struct nvmlGpuInstance_st *instance = container_of(link, struct nvmlGpuInstance_st, link);

                if (instance == handle)
                        return instance->alive ? instance : NULL;
        }
        return NULL;
}

struct nvmlComputeInstance_st *world_compute(const struct world *world, nvmlComputeInstance_t handle)
{
        LIST_FOR_EACH(link, &world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute == handle)
                        return compute->alive ? compute : NULL;
        }
        return NULL;
}

struct nvmlGpuInstance_st *gpu_instance_by_id(const struct world *world, const struct gpu *gpu, unsigned int id)
{
        LIST_FOR_EACH(link, &world->instances) {
                struct nvmlGpuInstance_st *instance = container_of(link, struct nvmlGpuInstance_st, link);

                if (instance->alive && instance->gpu == gpu && instance->place->id == id)
                        return instance;
        }
        return NULL;
}

struct nvmlComputeInstance_st *gpu_compute_by_index(
        const struct world *world, const struct gpu *gpu, unsigned int index)
{
        LIST_FOR_EACH(link, &world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute->alive && compute->handle.gpu == gpu && compute->mig_index == index)
                        return compute;
        }
        return NULL;
}

unsigned int gpu_max_mig_devices(const struct gpu *gpu)
{
        return gpu->mig_current ? gpu->config->model->compute_slices : 0;
}

bool gpu_has_instances(const struct gpu *gpu)
{
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                if (gpu->mig->instances[i].profile)
                        return true;
        }
        return false;
}

/* Makes the handle for an instance that is in the layout already. */
static struct nvmlGpuInstance_st *new_instance(struct world *world, struct gpu *gpu, struct mig_instance *place)
{
        struct nvmlGpuInstance_st *instance = xcalloc(1, sizeof(*instance));

        instance->gpu = gpu;
        instance->alive = true;
        instance->place = place;
        list_append(&world->instances, &instance->link);
        return instance;
}

static struct nvmlComputeInstance_st *new_compute(
        struct world *world, struct nvmlGpuInstance_st *instance, struct mig_compute *place)
{
        struct nvmlComputeInstance_st *compute = xcalloc(1, sizeof(*compute));
        struct gpu *gpu = instance->gpu;

        while (gpu_compute_by_index(world, gpu, compute->mig_index))
                compute->mig_index++;
        compute->instance = instance;
        compute->alive = true;
        compute->place = place;
        compute->handle = (struct nvmlDevice_st){gpu, compute};
        if (place->uuid) {
                snprintf(compute->uuid, sizeof(compute->uuid), "%s", place->uuid);
        } else {
                _free_ char *seed = xasprintf("%s/%u/%u", gpu->uuid, instance->place->id, place->id);

                sim_uuid(compute->uuid, "MIG", seed);
        }
        place->uuid = NULL; /* it points into the scenario's memory, which is freed with the scenario */
        list_append(&world->computes, &compute->link);
        return compute;
}

struct nvmlGpuInstance_st *world_add_instance(
        struct world *world, struct gpu *gpu, const struct mig_profile *profile, unsigned int start)
{
        const struct model *model = gpu->config->model;
        unsigned int id = mig_instance_id(model, profile, start);

        while (gpu_instance_by_id(world, gpu, id))
                id++;
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                struct mig_instance *place = &gpu->mig->instances[i];

                if (place->profile)
                        continue;
                *place = (struct mig_instance){.profile = profile, .id = id, .start = start};
                return new_instance(world, gpu, place);
        }
        return NULL;
}

static bool has_compute_id(const struct mig_instance *place, unsigned int id)
{
        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                if (place->computes[i].used && place->computes[i].id == id)
                        return true;
        }
        return false;
}

struct nvmlComputeInstance_st *world_add_compute(
        struct world *world, struct nvmlGpuInstance_st *instance, unsigned int slices, unsigned int start)
{
        struct gpu *gpu = instance->gpu;
        unsigned int id = 0;

        while (has_compute_id(instance->place, id))
                id++;
        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                struct mig_compute *place = &instance->place->computes[i];
                _free_ char *seed = NULL;
                char uuid[SIM_UUID];

                if (place->used)
                        continue;
                gpu->created++;
                if (world->scenario->keep_mig_uuids)
                        seed = xasprintf("%s/%s/%u/%u/%u", gpu->uuid, instance->place->profile->name,
                                instance->place->start, start, slices);
                else
                        seed = xasprintf("%s/%u/%u/%u", gpu->uuid, instance->place->id, id, gpu->created);
                sim_uuid(uuid, "MIG", seed);
                *place = (struct mig_compute){.used = true, .id = id, .slices = slices, .start = start, .uuid = uuid};
                return new_compute(world, instance, place);
        }
        return NULL;
}

void world_remove_compute(struct nvmlComputeInstance_st *compute)
{
        compute->alive = false;
        *compute->place = (struct mig_compute){0};
        compute->place = NULL;
}

void world_remove_instance(struct world *world, struct nvmlGpuInstance_st *instance)
{
        LIST_FOR_EACH(link, &world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute->alive && compute->instance == instance)
                        world_remove_compute(compute);
        }
        instance->alive = false;
        *instance->place = (struct mig_instance){0};
        instance->place = NULL;
}

/* The entry of |layout| that is the same instance as |place|, or NULL. */
static struct mig_instance *same_instance(struct mig_layout *layout, const struct mig_instance *place)
{
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                struct mig_instance *other = &layout->instances[i];

                if (other->profile == place->profile && other->id == place->id && other->start == place->start)
                        return other;
        }
        return NULL;
}

static struct mig_compute *same_compute(
        struct mig_instance *instance, const struct mig_compute *place, const char *uuid)
{
        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                struct mig_compute *other = &instance->computes[i];

                if (other->used && other->id == place->id && other->slices == place->slices &&
                        other->start == place->start && (!other->uuid || strcmp(other->uuid, uuid) == 0))
                        return other;
        }
        return NULL;
}

/* Moves the instances that |next| has as well to it, with their handles; the other instances of the GPU end. */
static void keep_or_remove(struct world *world, struct gpu *gpu, struct mig_layout *next)
{
        LIST_FOR_EACH(link, &world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);
                struct mig_instance *instance;
                struct mig_compute *place;

                if (!compute->alive || compute->handle.gpu != gpu)
                        continue;
                instance = same_instance(next, compute->instance->place);
                place = instance ? same_compute(instance, compute->place, compute->uuid) : NULL;
                if (!place) {
                        world_remove_compute(compute);
                } else {
                        place->uuid = NULL;
                        compute->place = place;
                }
        }
        LIST_FOR_EACH(link, &world->instances) {
                struct nvmlGpuInstance_st *instance = container_of(link, struct nvmlGpuInstance_st, link);
                struct mig_instance *place;

                if (!instance->alive || instance->gpu != gpu)
                        continue;
                place = same_instance(next, instance->place);
                instance->alive = place;
                instance->place = place;
        }
}

static bool has_handle(const struct world *world, const struct mig_instance *place, const struct mig_compute *compute)
{
        LIST_FOR_EACH(link, compute ? &world->computes : &world->instances) {
                if (compute && container_of(link, struct nvmlComputeInstance_st, link)->place == compute)
                        return true;
                if (!compute && container_of(link, struct nvmlGpuInstance_st, link)->place == place)
                        return true;
        }
        return false;
}

void world_set_layout(struct world *world, struct gpu *gpu, const struct mig_layout *layout)
{
        struct mig_layout *next = xmalloc(sizeof(*next));

        *next = *layout;
        keep_or_remove(world, gpu, next);
        free(gpu->mig);
        gpu->mig = next;
        for (size_t i = 0; i < MIG_INSTANCES_MAX; i++) {
                struct mig_instance *place = &next->instances[i];
                struct nvmlGpuInstance_st *instance;

                if (!place->profile)
                        continue;
                if (!has_handle(world, place, NULL))
                        new_instance(world, gpu, place);
                instance = gpu_instance_by_id(world, gpu, place->id);
                for (size_t j = 0; j < MIG_COMPUTE_MAX; j++) {
                        if (place->computes[j].used && !has_handle(world, place, &place->computes[j]))
                                new_compute(world, instance, &place->computes[j]);
                }
        }
}

void world_reset_gpu(struct world *world, struct gpu *gpu, bool reboot)
{
        static const struct mig_layout none;

        if (reboot && model_sets_mig_mode_without_reset(gpu->config->model))
                gpu->mig_pending = false;
        gpu->mig_current = gpu->mig_pending;
        world_set_layout(world, gpu, &none);
}
