// SPDX-License-Identifier: Apache-2.0
/* MIG: the mode, MIG devices, and the instances that exist. */
#include "sim/nvml/calls.h"

#include "sim/nvml/library.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!current || !pending)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.config->model->memory_slices)
                return NVML_ERROR_NOT_SUPPORTED;
        *current = call.gpu->mig_current;
        *pending = call.gpu->mig_pending;
        return NVML_SUCCESS;
}

/*
 * Ampere needs a reset for the mode to become current, Hopper does not. If a program uses the GPU, or it has instances,
 * the call succeeds, the mode is pending, and the activation status is IN_USE (MIG user guide, "Enable MIG Mode").
 */
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!activation || mode > NVML_DEVICE_MIG_ENABLE)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.config->model->memory_slices)
                return NVML_ERROR_NOT_SUPPORTED;
        if (!call_change(&call))
                return call.result;
        *activation = NVML_SUCCESS;
        call.gpu->mig_pending = mode;
        if (call.gpu->mig_current == call.gpu->mig_pending)
                return NVML_SUCCESS;
        if (gpu_has_instances(call.gpu) || call.config->n_processes)
                *activation = NVML_ERROR_IN_USE;
        else if (model_sets_mig_mode_without_reset(call.config->model))
                call.gpu->mig_current = mode;
        else
                *activation = NVML_ERROR_RESET_REQUIRED;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);

        if (call.result)
                return call.result;
        if (!is_mig)
                return NVML_ERROR_INVALID_ARGUMENT;
        *is_mig = call.compute != NULL;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
        RETURN_GPU_VALUE(device, count, gpu_max_mig_devices(call.gpu));
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig_device)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        struct nvmlComputeInstance_st *compute;

        if (call.result)
                return call.result;
        if (!mig_device)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        if (index >= gpu_max_mig_devices(call.gpu))
                return NVML_ERROR_INVALID_ARGUMENT;
        compute = gpu_compute_by_index(call.world, call.gpu, index);
        if (!compute)
                return NVML_ERROR_NOT_FOUND;
        *mig_device = &compute->handle;
        return NVML_SUCCESS;
}

/* Begins a call that is for MIG devices only. */
static struct call call_mig(const char *name, nvmlDevice_t device)
{
        struct call call = call_device(name, device);

        if (!call.result && !call.compute)
                call.result = NVML_ERROR_INVALID_ARGUMENT;
        return call;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_device, nvmlDevice_t *device)
{
        _cleanup_(call_end) struct call call = call_mig(__func__, mig_device);

        if (call.result)
                return call.result;
        if (!device)
                return NVML_ERROR_INVALID_ARGUMENT;
        *device = &call.gpu->handle;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
        _cleanup_(call_end) struct call call = call_mig(__func__, device);

        if (call.result)
                return call.result;
        if (!id)
                return NVML_ERROR_INVALID_ARGUMENT;
        *id = call.compute->instance->place->id;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
        _cleanup_(call_end) struct call call = call_mig(__func__, device);

        if (call.result)
                return call.result;
        if (!id)
                return NVML_ERROR_INVALID_ARGUMENT;
        *id = call.compute->place->id;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
        _cleanup_(call_end) struct call call = call_mig(__func__, device);
        const struct mig_profile *profile;

        if (call.result)
                return call.result;
        if (!attributes)
                return NVML_ERROR_INVALID_ARGUMENT;
        profile = call.compute->instance->place->profile;
        *attributes = (nvmlDeviceAttributes_t){
                .multiprocessorCount = mig_multiprocessors(call.config->model, profile, call.compute->place->slices),
                .sharedCopyEngineCount = profile->copy_engines,
                .sharedDecoderCount = profile->decoders,
                .sharedEncoderCount = profile->encoders,
                .sharedJpegCount = profile->jpegs,
                .sharedOfaCount = profile->ofas,
                .gpuInstanceSliceCount = profile->slices,
                .computeInstanceSliceCount = call.compute->place->slices,
                .memorySizeMB = profile->memory_mib,
        };
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(
        nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instances, unsigned int *count)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!instances || !count || !model_profile_by_id(call.config->model, id))
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        /* NVML's contract: the caller's array has room for as many instances as the profile allows. */
        *count = 0;
        LIST_FOR_EACH(link, &call.world->instances) {
                struct nvmlGpuInstance_st *instance = container_of(link, struct nvmlGpuInstance_st, link);

                if (instance->alive && instance->gpu == call.gpu && instance->place->profile->id == id)
                        instances[(*count)++] = instance;
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *ret)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        struct nvmlGpuInstance_st *instance;

        if (call.result)
                return call.result;
        if (!ret)
                return NVML_ERROR_INVALID_ARGUMENT;
        instance = gpu_instance_by_id(call.world, call.gpu, id);
        if (!instance)
                return NVML_ERROR_NOT_FOUND;
        *ret = instance;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);

        if (call.result)
                return call.result;
        if (!info)
                return NVML_ERROR_INVALID_ARGUMENT;
        *info = (nvmlGpuInstanceInfo_t){.device = &call.gpu->handle,
                .id = instance->place->id,
                .profileId = instance->place->profile->id,
                .placement = {.start = instance->place->start, .size = instance->place->profile->size}};
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(
        nvmlGpuInstance_t handle, unsigned int id, nvmlComputeInstance_t *computes, unsigned int *count)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);

        if (call.result)
                return call.result;
        if (!computes || !count)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = 0;
        LIST_FOR_EACH(link, &call.world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute->alive && compute->instance == instance &&
                        mig_compute_profile(instance->place->profile, compute->place->slices) == id)
                        computes[(*count)++] = compute;
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(
        nvmlGpuInstance_t handle, unsigned int id, nvmlComputeInstance_t *ret)
{
        struct nvmlGpuInstance_st *instance = NULL;
        _cleanup_(call_end) struct call call = call_instance(__func__, handle, &instance);

        if (call.result)
                return call.result;
        if (!ret)
                return NVML_ERROR_INVALID_ARGUMENT;
        LIST_FOR_EACH(link, &call.world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (compute->alive && compute->instance == instance && compute->place->id == id) {
                        *ret = compute;
                        return NVML_SUCCESS;
                }
        }
        return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
        struct nvmlComputeInstance_st *compute = NULL;
        _cleanup_(call_end) struct call call = call_compute(__func__, handle, &compute);

        if (call.result)
                return call.result;
        if (!info)
                return NVML_ERROR_INVALID_ARGUMENT;
        *info = (nvmlComputeInstanceInfo_t){.device = &call.gpu->handle,
                .gpuInstance = compute->instance,
                .id = compute->place->id,
                .profileId = mig_compute_profile(compute->instance->place->profile, compute->place->slices),
                .placement = {.start = compute->place->start, .size = compute->place->slices}};
        return NVML_SUCCESS;
}
