// SPDX-License-Identifier: Apache-2.0
#include "gpu/mig_instances.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gpu/hangs.h"
#include "gpu/mig_profile.h"
#include "gpu/mig_read.h"

#define INSTANCES_MAX 64U /* of one profile, and compute instances of one profile in a GPU instance */
#define WHAT_SIZE 96U
#define MODE_LASTS_MS UINT64_C(50000) /* changing the mode may initialise the GPU again */

/* ---- errors ---- */

static const char *way_out(nvmlReturn_t code)
{
        switch (code) {
        case NVML_ERROR_INSUFFICIENT_RESOURCES:
                return "another instance has these slices, or the GPU has no more engines for this profile: destroy "
                       "the instances that overlap it ('nvidia-smi mig -lgi' lists them)";
        case NVML_ERROR_IN_USE:
                return "a process uses it: end the processes that 'nvidia-smi' lists on it; if it lists none, a program that "
                       "watches GPUs keeps it opened (DCGM, dcgm-exporter, another agent): restart that, then try again";
        case NVML_ERROR_NO_PERMISSION:
                return "changing the geometry needs root with CAP_SYS_ADMIN and access to the device node of "
                       "/proc/driver/nvidia/capabilities/mig/config: run privileged, with NVIDIA_MIG_CONFIG_DEVICES=all";
        case NVML_ERROR_NOT_SUPPORTED:
                return "this GPU has no MIG, or MIG is disabled on it: 'nvidia-smi -mig 1' enables it";
        case NVML_ERROR_FUNCTION_NOT_FOUND:
                return "the driver is too old: R535 or newer has it";
        case NVML_ERROR_GPU_IS_LOST:
        case NVML_ERROR_RESET_REQUIRED:
                return "reset the GPU or reboot the node";
        default:
                return "the kernel's log may say more ('dmesg | grep NVRM')";
        }
}

static int raise_code(
        const struct mig_gpu *gpu, const char *what, nvmlReturn_t code, const char *call, struct error *err)
{
        struct error cause;

        (void)nvml_fail(gpu->nvml, code, call, &cause);
        return error_set(err, code == NVML_ERROR_INSUFFICIENT_RESOURCES ? ERROR_EXHAUSTED : cause.kind,
                "GPU %s: %s: %s; %s", gpu->uuid, what, cause.text, way_out(code));
}

/* Calls an NVML function about |gpu|: 0, or -1 with an error as raise_code() makes it. */
#define GPU_TRY(gpu, what, err, member, ...)                                                                           \
        check_code((gpu), (what), NVML_CALL((gpu)->nvml, member, __VA_ARGS__), NVML_INDEX_##member, (err))

static int check_code(
        const struct mig_gpu *gpu, const char *what, nvmlReturn_t code, enum nvml_function function, struct error *err)
{
        if (code == NVML_SUCCESS)
                return 0;
        return raise_code(gpu, what, code, nvml_name_of(gpu->nvml, function).text, err);
}

/* ---- profiles ---- */

/* NULL before R535, which does not report names. */
static const char *read_driver_name(
        struct arena *arena, const struct nvml *nvml, nvmlDevice_t device, unsigned int index)
{
        nvmlGpuInstanceProfileInfo_v2_t info = {.version = NVML_GPU_INSTANCE_PROFILE_INFO_V2};
        char name[MIG_PROFILE_SIZE];

        return NVML_CALL(nvml, device_get_instance_profile_v, device, index, &info) == NVML_SUCCESS &&
                               mig_profile_read(name, nvml_text(arena, info.name, sizeof(info.name)))
                       ? arena_strdup(arena, name)
                       : NULL;
}

const char *mig_instances_profile_name(struct arena *arena, const struct nvml *nvml, nvmlDevice_t device,
        unsigned int index, uint64_t memory_mib, uint64_t total)
{
        char name[MIG_PROFILE_SIZE];

        return mig_profile_name(name, index, mig_profile_gpu_slices(index), memory_mib, total)
                       ? arena_strdup(arena, name)
                       : read_driver_name(arena, nvml, device, index);
}

static int read_placements(
        struct arena *arena, const struct mig_gpu *gpu, struct mig_gpu_profile *profile, struct error *err)
{
        nvmlGpuInstancePlacement_t placements[MIG_PLACEMENTS_MAX] = {0};
        unsigned int count = MIG_PLACEMENTS_MAX;
        struct mig_placement *copy;

        if (GPU_TRY(gpu, profile->name, err, device_get_placements, gpu->device, profile->id, placements, &count) < 0)
                return -1;
        profile->n_placements = MIN(count, MIG_PLACEMENTS_MAX);
        copy = ARENA_ARRAY(arena, struct mig_placement, profile->n_placements);
        for (size_t i = 0; i < profile->n_placements; i++)
                copy[i] = (struct mig_placement){placements[i].start, placements[i].size};
        profile->placements = copy;
        return 0;
}

/* 1: the GPU has a profile at |index|, 0: it has none, -1. */
static int read_profile(struct arena *arena, const struct mig_gpu *gpu, unsigned int index, uint64_t memory,
        struct mig_gpu_profile *profile, struct error *err)
{
        nvmlGpuInstanceProfileInfo_t info = {0};
        const char *name;
        nvmlReturn_t code = NVML_CALL(gpu->nvml, device_get_instance_profile, gpu->device, index, &info);

        if (code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_INVALID_ARGUMENT)
                return 0;
        if (code != NVML_SUCCESS)
                return raise_code(gpu, "list MIG profiles", code, "nvmlDeviceGetGpuInstanceProfileInfo", err);
        name = mig_instances_profile_name(arena, gpu->nvml, gpu->device, index, info.memorySizeMB, memory);
        if (!name)
                return 0;
        *profile = (struct mig_gpu_profile){.name = name,
                .driver_name = read_driver_name(arena, gpu->nvml, gpu->device, index),
                .id = info.id,
                .index = index,
                .slices = info.sliceCount,
                .max = info.instanceCount,
                .memory_mib = info.memorySizeMB,
                .attributes = {.gpu_slices = info.sliceCount,
                        .compute_slices = info.sliceCount,
                        .multiprocessors = info.multiprocessorCount,
                        .copy_engines = info.copyEngineCount,
                        .decoders = info.decoderCount,
                        .encoders = info.encoderCount,
                        .jpegs = info.jpegCount,
                        .ofas = info.ofaCount,
                        .memory_mib = info.memorySizeMB}};
        return read_placements(arena, gpu, profile, err) < 0 ? -1 : 1;
}

static int mig_instances_read_profiles(
        struct mig_geometry *geometry, struct arena *arena, const struct mig_gpu *gpu, struct error *err)
{
        struct mig_gpu_profile *profiles = ARENA_ARRAY(arena, struct mig_gpu_profile, NVML_GPU_INSTANCE_PROFILE_COUNT);
        nvmlMemory_t memory = {0};
        nvmlReturn_t code = NVML_CALL(gpu->nvml, device_get_memory, gpu->device, &memory);

        if (code != NVML_SUCCESS && !nvml_is_unknown(code))
                return raise_code(gpu, "list MIG profiles", code, "nvmlDeviceGetMemoryInfo", err);
        geometry->profiles = profiles;
        for (unsigned int i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++) {
                int found = read_profile(arena, gpu, i, memory.total, &profiles[geometry->n_profiles], err);

                if (found < 0)
                        return -1;
                geometry->n_profiles += (size_t)found;
        }
        if (!geometry->n_profiles && code != NVML_SUCCESS)
                return raise_code(gpu, "name MIG profiles", code, "nvmlDeviceGetMemoryInfo", err);
        return 0;
}

/* ---- instances ---- */

/* 1: the MIG device at |index| is in the GPU instance |id|; 0: it is not, or there is none; -1. */
static int mig_instances_read_device(struct arena *arena, const struct mig_gpu *gpu, unsigned int index,
        unsigned int id, struct mig_gpu_device *ret, struct error *err)
{
        char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
        nvmlDeviceAttributes_t attributes = {0};
        unsigned int gpu_instance = 0;
        unsigned int compute_instance = 0;
        nvmlDevice_t device = NULL;
        nvmlReturn_t code = NVML_CALL(gpu->nvml, device_get_mig_by_index, gpu->device, index, &device);

        if (code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_INVALID_ARGUMENT)
                return 0;
        if (code != NVML_SUCCESS)
                return raise_code(gpu, "list MIG devices", code, "nvmlDeviceGetMigDeviceHandleByIndex", err);
        if (GPU_TRY(gpu, "list MIG devices", err, device_get_gpu_instance, device, &gpu_instance) < 0)
                return -1;
        if (gpu_instance != id)
                return 0;
        if (GPU_TRY(gpu, "list MIG devices", err, device_get_compute_instance, device, &compute_instance) < 0)
                return -1;
        if (GPU_TRY(gpu, "list MIG devices", err, device_get_attributes, device, &attributes) < 0)
                return -1;
        if (GPU_TRY(gpu, "list MIG devices", err, device_get_uuid, device, uuid, sizeof(uuid)) < 0)
                return -1;
        *ret = (struct mig_gpu_device){.uuid = nvml_text(arena, uuid, sizeof(uuid)),
                .compute_instance = compute_instance,
                .slices = attributes.computeInstanceSliceCount};
        return 1;
}

static int mig_instances_read_devices(
        struct mig_gpu_instance *instance, struct arena *arena, const struct mig_gpu *gpu, struct error *err)
{
        struct mig_gpu_device *devices;
        unsigned int max = 0;

        if (GPU_TRY(gpu, "list MIG devices", err, device_get_mig_max, gpu->device, &max) < 0)
                return -1;
        max = MIN(max, MIG_READ_MAX);
        devices = ARENA_ARRAY(arena, struct mig_gpu_device, max);
        instance->devices = devices;
        for (unsigned int i = 0; i < max; i++) {
                int found = mig_instances_read_device(arena, gpu, i, instance->id, &devices[instance->n_devices], err);

                if (found < 0)
                        return -1;
                instance->n_devices += (size_t)found;
        }
        return 0;
}

static int read_instances_of(struct mig_gpu_instance *instances, size_t *count, const struct mig_gpu_profile *profile,
        struct arena *arena, const struct mig_gpu *gpu, struct error *err)
{
        nvmlGpuInstance_t handles[INSTANCES_MAX];
        unsigned int n = 0;

        if (GPU_TRY(gpu, "list GPU instances", err, device_get_instances, gpu->device, profile->id, handles, &n) < 0)
                return -1;
        for (unsigned int i = 0; i < n && *count < INSTANCES_MAX; i++) {
                nvmlGpuInstanceInfo_t info = {0};

                if (GPU_TRY(gpu, "list GPU instances", err, instance_get_info, handles[i], &info) < 0)
                        return -1;
                instances[*count] = (struct mig_gpu_instance){
                        .id = info.id, .profile = profile, .placement = {info.placement.start, info.placement.size}};
                if (mig_instances_read_devices(&instances[(*count)++], arena, gpu, err) < 0)
                        return -1;
        }
        return 0;
}

int mig_gpu_open(struct mig_gpu *ret, const struct nvml *nvml, const char *uuid, struct error *err)
{
        struct mig_gpu gpu = {.nvml = nvml, .uuid = uuid};
        nvmlReturn_t code;

        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, &gpu.device);
        if (code != NVML_SUCCESS) {
                (void)nvml_fail(nvml, code, "nvmlDeviceGetHandleByUUID", err);
                return error_prefix(err, "GPU %s", uuid);
        }
        *ret = gpu;
        return 0;
}

/* Where a driver does not know the field: Hopper is the first that needs none. */
static bool read_mode_needs_reset(const struct mig_gpu *gpu)
{
        nvmlFieldValue_t value = {.fieldId = NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED};
        int major = 0;
        int minor = 0;

        if (NVML_CALL(gpu->nvml, device_get_field_values, gpu->device, 1, &value) == NVML_SUCCESS &&
                value.nvmlReturn == NVML_SUCCESS)
                return value.value.uiVal == 0;
        return NVML_CALL(gpu->nvml, device_get_compute_capability, gpu->device, &major, &minor) != NVML_SUCCESS ||
               major < 9;
}

int mig_instances_read(struct mig_geometry *ret, struct arena *arena, const struct mig_gpu *gpu, struct error *err)
{
        struct mig_gpu_instance *instances = ARENA_ARRAY(arena, struct mig_gpu_instance, INSTANCES_MAX);
        struct mig_geometry geometry = {.instances = instances};
        unsigned int current = NVML_DEVICE_MIG_DISABLE;
        unsigned int pending = NVML_DEVICE_MIG_DISABLE;
        nvmlReturn_t code = NVML_CALL(gpu->nvml, device_get_mig_mode, gpu->device, &current, &pending);

        if (code == NVML_ERROR_NOT_SUPPORTED)
                return error_set(err, ERROR_UNSUPPORTED, "GPU %s has no MIG", gpu->uuid);
        if (code != NVML_SUCCESS)
                return raise_code(gpu, "read the MIG mode", code, "nvmlDeviceGetMigMode", err);
        geometry.is_enabled = current == NVML_DEVICE_MIG_ENABLE;
        geometry.is_pending_enabled = pending == NVML_DEVICE_MIG_ENABLE;
        geometry.mode_needs_reset = read_mode_needs_reset(gpu);
        if (mig_instances_read_profiles(&geometry, arena, gpu, err) < 0)
                return -1;
        for (size_t i = 0; i < geometry.n_profiles && geometry.is_enabled; i++)
                if (read_instances_of(instances, &geometry.n_instances, &geometry.profiles[i], arena, gpu, err) < 0)
                        return -1;
        *ret = geometry;
        return 0;
}

/* ---- changes ---- */

int mig_gpu_set_mode(const struct mig_gpu *gpu, bool is_enabled, enum mig_activation *ret, struct error *err)
{
        unsigned int mode = is_enabled ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
        nvmlReturn_t activation = NVML_SUCCESS;
        nvmlReturn_t code =
                NVML_CALL_LASTING(gpu->nvml, MODE_LASTS_MS, device_set_mig_mode, gpu->device, mode, &activation);

        if (code == NVML_SUCCESS && activation == NVML_SUCCESS)
                *ret = MIG_MODE_ACTIVE;
        else if (code == NVML_SUCCESS && activation == NVML_ERROR_RESET_REQUIRED)
                *ret = MIG_MODE_NEEDS_RESET;
        else if (code == NVML_SUCCESS && activation == NVML_ERROR_IN_USE)
                *ret = MIG_MODE_IN_USE;
        else if (code == NVML_ERROR_NOT_SUPPORTED)
                return error_set(err, ERROR_UNSUPPORTED, "GPU %s has no MIG", gpu->uuid);
        else
                return raise_code(gpu, is_enabled ? "enable MIG" : "disable MIG", code ? code : activation,
                        "nvmlDeviceSetMigMode", err);
        return 0;
}

/* "create 3g.20gb at 4" */
static void describe(char what[WHAT_SIZE], const char *verb, const struct mig_gpu_profile *profile, unsigned int start)
{
        snprintf(what, WHAT_SIZE, "%s %s at %u", verb, profile->name, start);
}

static int find_placement(const struct mig_gpu *gpu, const struct mig_gpu_profile *profile, unsigned int start,
        nvmlGpuInstancePlacement_t *ret, struct error *err)
{
        char starts[WHAT_SIZE] = "";
        size_t used = 0;

        for (size_t i = 0; i < profile->n_placements; i++) {
                const struct mig_placement *placement = &profile->placements[i];

                if (placement->start == start) {
                        *ret = (nvmlGpuInstancePlacement_t){.start = start, .size = placement->size};
                        return 0;
                }
                if (used < sizeof(starts))
                        used += (size_t)snprintf(
                                starts + used, sizeof(starts) - used, "%s%u", i ? ", " : "", placement->start);
        }
        return error_set(err, ERROR_INVALID, "GPU %s: create %s at %u: it can start at %s only", gpu->uuid,
                profile->name, start, starts);
}

/* A compute instance of |slices|. */
static nvmlReturn_t create_compute(const struct mig_gpu *gpu, unsigned int slices, nvmlGpuInstance_t instance,
        nvmlComputeInstance_t *ret, const char **call)
{
        for (unsigned int i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++) {
                nvmlComputeInstanceProfileInfo_t info = {0};
                nvmlReturn_t code = NVML_CALL(gpu->nvml, instance_get_compute_profile, instance, i,
                        NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info);

                *call = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
                if (code != NVML_SUCCESS && code != NVML_ERROR_NOT_SUPPORTED && code != NVML_ERROR_INVALID_ARGUMENT)
                        return code;
                if (code != NVML_SUCCESS || info.sliceCount != slices)
                        continue;
                *call = "nvmlGpuInstanceCreateComputeInstance";
                return NVML_CALL(gpu->nvml, instance_create_compute, instance, info.id, ret);
        }
        return NVML_ERROR_NOT_FOUND;
}

/* Destroys a GPU instance that could not be completed, with those of its compute instances that could. */
static nvmlReturn_t mig_instances_take_back(const struct mig_gpu *gpu, nvmlGpuInstance_t instance,
        const nvmlComputeInstance_t *computes, size_t n_computes, const char **call)
{
        *call = "nvmlComputeInstanceDestroy";
        for (size_t i = 0; i < n_computes; i++) {
                nvmlReturn_t code = NVML_CALL(gpu->nvml, compute_destroy, computes[i]);

                if (code != NVML_SUCCESS)
                        return code;
        }
        *call = "nvmlGpuInstanceDestroy";
        return NVML_CALL(gpu->nvml, instance_destroy, instance);
}

int mig_instances_create(const struct mig_gpu *gpu, const struct mig_gpu_profile *profile, unsigned int start,
        const unsigned int *slices, size_t n_slices, unsigned int *ret_id, struct error *err)
{
        const char *call = "nvmlDeviceCreateGpuInstanceWithPlacement";
        nvmlComputeInstance_t computes[INSTANCES_MAX] = {0};
        nvmlGpuInstancePlacement_t placement;
        nvmlGpuInstanceInfo_t info = {0};
        nvmlGpuInstance_t instance = NULL;
        size_t n_computes = 0;
        char what[WHAT_SIZE];
        struct error cause;
        struct error undo;
        nvmlReturn_t code;

        if (find_placement(gpu, profile, start, &placement, err) < 0)
                return -1;
        describe(what, "create", profile, start);
        code = NVML_CALL(gpu->nvml, device_create_instance, gpu->device, profile->id, &placement, &instance);
        if (code != NVML_SUCCESS)
                return raise_code(gpu, what, code, call, err);
        call = "nvmlGpuInstanceGetInfo";
        code = NVML_CALL(gpu->nvml, instance_get_info, instance, &info);
        while (code == NVML_SUCCESS && n_computes < MIN(n_slices, INSTANCES_MAX)) {
                code = create_compute(gpu, slices[n_computes], instance, &computes[n_computes], &call);
                n_computes += code == NVML_SUCCESS;
        }
        if (code == NVML_SUCCESS) {
                *ret_id = info.id;
                return 0;
        }
        (void)raise_code(gpu, what, code, call, &cause);
        code = mig_instances_take_back(gpu, instance, computes, n_computes, &call);
        if (code == NVML_SUCCESS)
                return error_set(err, cause.kind, "%s", cause.text);
        (void)nvml_fail(gpu->nvml, code, call, &undo);
        return error_set(err, cause.kind,
                "%s; its GPU instance %u is left without a compute instance (%s): 'nvidia-smi mig -dgi' destroys it",
                cause.text, info.id, undo.text);
}

static int destroy_computes(
        const struct mig_gpu *gpu, nvmlGpuInstance_t instance, unsigned int index, const char *what, struct error *err)
{
        nvmlComputeInstance_t computes[INSTANCES_MAX];
        nvmlComputeInstanceProfileInfo_t info = {0};
        unsigned int count = 0;
        nvmlReturn_t code = NVML_CALL(gpu->nvml, instance_get_compute_profile, instance, index,
                NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info);

        if (code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_INVALID_ARGUMENT)
                return 0;
        if (code != NVML_SUCCESS)
                return raise_code(gpu, what, code, "nvmlGpuInstanceGetComputeInstanceProfileInfo", err);
        if (GPU_TRY(gpu, what, err, instance_get_computes, instance, info.id, computes, &count) < 0)
                return -1;
        for (unsigned int i = 0; i < count; i++) {
                if (GPU_TRY(gpu, what, err, compute_destroy, computes[i]) < 0)
                        return -1;
        }
        return 0;
}

int mig_instances_destroy(const struct mig_gpu *gpu, const struct mig_gpu_instance *instance, struct error *err)
{
        const char *call = "nvmlDeviceGetGpuInstanceById";
        nvmlGpuInstanceInfo_t info = {0};
        nvmlGpuInstance_t handle = NULL;
        char what[WHAT_SIZE];
        nvmlReturn_t code;

        describe(what, "destroy", instance->profile, instance->placement.start);
        code = NVML_CALL(gpu->nvml, device_get_instance, gpu->device, instance->id, &handle);
        if (code == NVML_SUCCESS) {
                call = "nvmlGpuInstanceGetInfo";
                code = NVML_CALL(gpu->nvml, instance_get_info, handle, &info);
        }
        if (code != NVML_SUCCESS && code != NVML_ERROR_NOT_FOUND)
                return raise_code(gpu, what, code, call, err);
        if (code == NVML_ERROR_NOT_FOUND || info.profileId != instance->profile->id ||
                info.placement.start != instance->placement.start || info.placement.size != instance->placement.size)
                return error_set(err, ERROR_NOT_FOUND,
                        "GPU %s: %s: another program has changed GPU instance %u since it was read: read the geometry "
                        "again",
                        gpu->uuid, what, instance->id);
        for (unsigned int i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++)
                if (destroy_computes(gpu, handle, i, what, err) < 0)
                        return -1;
        code = NVML_CALL(gpu->nvml, instance_destroy, handle);
        return code == NVML_SUCCESS ? 0 : raise_code(gpu, what, code, "nvmlGpuInstanceDestroy", err);
}
