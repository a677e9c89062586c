// SPDX-License-Identifier: Apache-2.0
/* MIG: which instances can be created, creating them, and destroying them. */
#include "sim/nvml/calls.h"

#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"

/* Begins a call about the profiles of a GPU that can be split. */
static struct call call_profile(const char *name, nvmlDevice_t device)
{
        struct call call = call_gpu(name, device);

        if (!call.result &&
                (!call.config->model->memory_slices ||
                        (!call.gpu->mig_current && !versions_report_profiles_without_mig(&call.world->versions))))
                call.result = NVML_ERROR_NOT_SUPPORTED;
        return call;
}

/* An index beyond NVML's last one is an invalid argument; one that only this GPU lacks is not supported. */
static nvmlReturn_t find_by_index(const struct call *call, unsigned int index, const struct mig_profile **profile)
{
        if (index >= NVML_GPU_INSTANCE_PROFILE_COUNT)
                return NVML_ERROR_INVALID_ARGUMENT;
        *profile = model_profile_by_index(call->config->model, index);
        return *profile ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(
        nvmlDevice_t device, unsigned int index, nvmlGpuInstanceProfileInfo_t *info)
{
        _cleanup_(call_end) struct call call = call_profile(__func__, device);
        const struct mig_profile *profile;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        result = info ? find_by_index(&call, index, &profile) : NVML_ERROR_INVALID_ARGUMENT;
        if (result)
                return result;
        *info = (nvmlGpuInstanceProfileInfo_t){.id = profile->id,
                .sliceCount = profile->slices,
                .instanceCount = profile->count,
                .multiprocessorCount = profile->multiprocessors,
                .copyEngineCount = profile->copy_engines,
                .decoderCount = profile->decoders,
                .encoderCount = profile->encoders,
                .jpegCount = profile->jpegs,
                .ofaCount = profile->ofas,
                .memorySizeMB = profile->memory_mib};
        return NVML_SUCCESS;
}

static bool has_graphics(const struct mig_profile *profile)
{
        return strstr(profile->name, "+gfx");
}

static nvmlReturn_t fill_profile(const struct mig_profile *profile, nvmlGpuInstanceProfileInfo_v2_t *second)
{
        nvmlGpuInstanceProfileInfo_v3_t *third = (nvmlGpuInstanceProfileInfo_v3_t *)(void *)second;

        if (second->version == NVML_GPU_INSTANCE_PROFILE_INFO_V2) {
                *second = (nvmlGpuInstanceProfileInfo_v2_t){.version = NVML_GPU_INSTANCE_PROFILE_INFO_V2,
                        .id = profile->id,
                        .sliceCount = profile->slices,
                        .instanceCount = profile->count,
                        .multiprocessorCount = profile->multiprocessors,
                        .copyEngineCount = profile->copy_engines,
                        .decoderCount = profile->decoders,
                        .encoderCount = profile->encoders,
                        .jpegCount = profile->jpegs,
                        .ofaCount = profile->ofas,
                        .memorySizeMB = profile->memory_mib};
                snprintf(second->name, sizeof(second->name), "MIG %s", profile->name);
                return NVML_SUCCESS;
        }
        if (third->version == NVML_GPU_INSTANCE_PROFILE_INFO_V3) {
                *third = (nvmlGpuInstanceProfileInfo_v3_t){.version = NVML_GPU_INSTANCE_PROFILE_INFO_V3,
                        .id = profile->id,
                        .sliceCount = profile->slices,
                        .instanceCount = profile->count,
                        .multiprocessorCount = profile->multiprocessors,
                        .copyEngineCount = profile->copy_engines,
                        .decoderCount = profile->decoders,
                        .encoderCount = profile->encoders,
                        .jpegCount = profile->jpegs,
                        .ofaCount = profile->ofas,
                        .memorySizeMB = profile->memory_mib};
                snprintf(third->name, sizeof(third->name), "MIG %s", profile->name);
                third->capabilities = has_graphics(profile) ? NVML_GPU_INSTANCE_PROFILE_CAPS_GFX : 0;
                return NVML_SUCCESS;
        }
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(
        nvmlDevice_t device, unsigned int index, nvmlGpuInstanceProfileInfo_v2_t *info)
{
        _cleanup_(call_end) struct call call = call_profile(__func__, device);
        const struct mig_profile *profile;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        result = info ? find_by_index(&call, index, &profile) : NVML_ERROR_INVALID_ARGUMENT;
        return result ? result : fill_profile(profile, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(
        nvmlDevice_t device, unsigned int id, nvmlGpuInstanceProfileInfo_v2_t *info)
{
        _cleanup_(call_end) struct call call = call_profile(__func__, device);
        const struct mig_profile *profile;

        if (call.result)
                return call.result;
        profile = model_profile_by_id(call.config->model, id);
        if (!info || !profile)
                return NVML_ERROR_INVALID_ARGUMENT;
        return fill_profile(profile, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        nvmlDevice_t device, unsigned int id, nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
        _cleanup_(call_end) struct call call = call_profile(__func__, device);
        const struct mig_profile *profile;
        unsigned int capacity;

        if (call.result)
                return call.result;
        profile = model_profile_by_id(call.config->model, id);
        if (!count || !profile)
                return NVML_ERROR_INVALID_ARGUMENT;
        capacity = *count;
        *count = (unsigned int)__builtin_popcount(profile->starts);
        if (!placements)
                return NVML_SUCCESS;
        if (*count > capacity)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (unsigned int start = 0; start < call.config->model->memory_slices; start++) {
                if (profile->starts >> start & 1)
                        *placements++ = (nvmlGpuInstancePlacement_t){.start = start, .size = profile->size};
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
        _cleanup_(call_end) struct call call = call_profile(__func__, device);
        const struct mig_profile *profile;

        if (call.result)
                return call.result;
        profile = model_profile_by_id(call.config->model, id);
        if (!count || !profile)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        *count = mig_room(call.config->model, call.gpu->mig, profile);
        return NVML_SUCCESS;
}

static nvmlReturn_t create_instance(const char *name, nvmlDevice_t device, unsigned int id,
        const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *ret)
{
        _cleanup_(call_end) struct call call = call_profile(name, device);
        const struct mig_profile *profile;
        struct nvmlGpuInstance_st *instance;
        unsigned int start = 0;

        if (call.result)
                return call.result;
        profile = model_profile_by_id(call.config->model, id);
        if (!ret || !profile || (placement && placement->size != profile->size))
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call_change(&call))
                return call.result;
        if (!call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        if (placement)
                start = placement->start;
        if (placement ? !mig_fits(call.config->model, call.gpu->mig, profile, start)
                      : !mig_choose(call.config->model, call.gpu->mig, profile, &start))
                return NVML_ERROR_INSUFFICIENT_RESOURCES;
        instance = world_add_instance(call.world, call.gpu, profile, start);
        if (!instance)
                return NVML_ERROR_INSUFFICIENT_RESOURCES;
        *ret = instance;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
        return create_instance(__func__, device, id, NULL, instance);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(
        nvmlDevice_t device, unsigned int id, const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *instance)
{
        return placement ? create_instance(__func__, device, id, placement, instance) : NVML_ERROR_INVALID_ARGUMENT;
}

static bool runs_in(const struct scenario_gpu *gpu, unsigned int gi, unsigned int ci)
{
        for (size_t i = 0; i < gpu->n_processes; i++) {
                if (gpu->processes[i].gi == gi && gpu->processes[i].ci == ci)
                        return true;
        }
        return false;
}

static bool has_computes(const struct nvmlGpuInstance_st *instance)
{
        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                if (instance->place->computes[i].used)
                        return true;
        }
        return false;
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);

        if (call.result)
                return call.result;
        if (!call_change(&call))
                return call.result;
        instance = world_instance(call.world, handle);
        if (!instance)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (has_computes(instance))
                return NVML_ERROR_IN_USE;
        world_remove_instance(call.world, instance);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
        struct nvmlComputeInstance_st *compute = NULL;
        _cleanup_(call_end) struct call call = call_compute(__func__, handle, &compute);

        if (call.result)
                return call.result;
        if (!call_change(&call))
                return call.result;
        compute = world_compute(call.world, handle);
        if (!compute)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (runs_in(call.config, compute->instance->place->id, compute->place->id))
                return NVML_ERROR_IN_USE;
        world_remove_compute(compute);
        return NVML_SUCCESS;
}

/* How many runs of |slices| consecutive compute slots are free. */
static unsigned int compute_room(const struct nvmlGpuInstance_st *instance, unsigned int slices)
{
        struct mig_instance trial = *instance->place;
        unsigned int count = 0;

        for (size_t i = 0; i < MIG_COMPUTE_MAX; i++) {
                unsigned int start;

                if (trial.computes[i].used)
                        continue;
                if (!mig_choose_compute(&trial, slices, &start))
                        break;
                trial.computes[i] = (struct mig_compute){.used = true, .slices = slices, .start = start};
                count++;
        }
        return count;
}

static nvmlReturn_t find_compute(
        const struct nvmlGpuInstance_st *instance, unsigned int index, unsigned int engines, unsigned int *slices)
{
        if (index >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engines != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
                return NVML_ERROR_INVALID_ARGUMENT;
        *slices = mig_compute_slices(instance->place->profile, index);
        return *slices ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(
        nvmlGpuInstance_t handle, unsigned int index, unsigned int engines, nvmlComputeInstanceProfileInfo_t *info)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);
        const struct mig_profile *profile;
        unsigned int slices;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        result = info ? find_compute(instance, index, engines, &slices) : NVML_ERROR_INVALID_ARGUMENT;
        if (result)
                return result;
        profile = instance->place->profile;
        *info = (nvmlComputeInstanceProfileInfo_t){.id = index,
                .sliceCount = slices,
                .instanceCount = profile->slices / slices,
                .multiprocessorCount = mig_multiprocessors(call.config->model, profile, slices),
                .sharedCopyEngineCount = profile->copy_engines,
                .sharedDecoderCount = profile->decoders,
                .sharedEncoderCount = profile->encoders,
                .sharedJpegCount = profile->jpegs,
                .sharedOfaCount = profile->ofas};
        return NVML_SUCCESS;
}

/* Version 3 is version 2 with one field more. */
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        nvmlGpuInstance_t handle, unsigned int index, unsigned int engines, nvmlComputeInstanceProfileInfo_v2_t *info)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);
        const struct mig_profile *profile;
        unsigned int slices;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        result = info ? find_compute(instance, index, engines, &slices) : NVML_ERROR_INVALID_ARGUMENT;
        if (result)
                return result;
        if (info->version != NVML_COMPUTE_INSTANCE_PROFILE_INFO_V2 &&
                info->version != NVML_COMPUTE_INSTANCE_PROFILE_INFO_V3)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        profile = instance->place->profile;
        *info = (nvmlComputeInstanceProfileInfo_v2_t){.version = info->version,
                .id = index,
                .sliceCount = slices,
                .instanceCount = profile->slices / slices,
                .multiprocessorCount = mig_multiprocessors(call.config->model, profile, slices),
                .sharedCopyEngineCount = profile->copy_engines,
                .sharedDecoderCount = profile->decoders,
                .sharedEncoderCount = profile->encoders,
                .sharedJpegCount = profile->jpegs,
                .sharedOfaCount = profile->ofas};
        if (slices == profile->slices)
                snprintf(info->name, sizeof(info->name), "MIG %s", profile->name);
        else
                snprintf(info->name, sizeof(info->name), "MIG %uc.%s", slices, profile->name);
        if (info->version == NVML_COMPUTE_INSTANCE_PROFILE_INFO_V3)
                ((nvmlComputeInstanceProfileInfo_v3_t *)(void *)info)->capabilities =
                        has_graphics(profile) ? NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX : 0;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        nvmlGpuInstance_t handle, unsigned int id, nvmlComputeInstancePlacement_t *placements, unsigned int *count)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);
        unsigned int capacity;
        unsigned int slices;

        if (call.result)
                return call.result;
        slices = mig_compute_slices(instance->place->profile, id);
        if (!count || !slices)
                return NVML_ERROR_INVALID_ARGUMENT;
        capacity = *count;
        *count = instance->place->profile->slices / slices;
        if (!placements)
                return NVML_SUCCESS;
        if (*count > capacity)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (unsigned int i = 0; i < *count; i++)
                placements[i] = (nvmlComputeInstancePlacement_t){.start = i * slices, .size = slices};
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        nvmlGpuInstance_t handle, unsigned int id, unsigned int *count)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);
        unsigned int slices;

        if (call.result)
                return call.result;
        slices = mig_compute_slices(instance->place->profile, id);
        if (!count || !slices)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = compute_room(instance, slices);
        return NVML_SUCCESS;
}

static nvmlReturn_t create_compute(const char *name, nvmlGpuInstance_t handle, unsigned int id,
        const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *ret)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(name, handle, &instance);
        struct nvmlComputeInstance_st *compute;
        unsigned int start = 0;
        unsigned int slices;

        if (call.result)
                return call.result;
        slices = mig_compute_slices(instance->place->profile, id);
        if (!ret || !slices || (placement && placement->size != slices))
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call_change(&call))
                return call.result;
        instance = world_instance(call.world, handle);
        if (!instance)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (placement)
                start = placement->start;
        if (placement ? !mig_fits_compute(instance->place, slices, start)
                      : !mig_choose_compute(instance->place, slices, &start))
                return NVML_ERROR_INSUFFICIENT_RESOURCES;
        compute = world_add_compute(call.world, instance, slices, start);
        if (!compute)
                return NVML_ERROR_INSUFFICIENT_RESOURCES;
        *ret = compute;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(
        nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *compute)
{
        return create_compute(__func__, instance, id, NULL, compute);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int id,
        const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *compute)
{
        return placement ? create_compute(__func__, instance, id, placement, compute) : NVML_ERROR_INVALID_ARGUMENT;
}
