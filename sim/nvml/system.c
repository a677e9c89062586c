// SPDX-License-Identifier: Apache-2.0
/* The library itself, the system, and how devices are found. */
#include "sim/nvml/calls.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sim/nvml/library.h"
#include "sim/nvml/scenario_parts.h"

nvmlReturn_t nvmlInit_v2(void)
{
        return library_init(__func__);
}

nvmlReturn_t nvmlInit(void)
{
        return library_init(__func__);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags UNUSED)
{
        return library_init(__func__);
}

nvmlReturn_t nvmlShutdown(void)
{
        return library_shutdown();
}

const char *nvmlErrorString(nvmlReturn_t result)
{
        /* clang-format off */
        static const char *const texts[] = {
                "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
                "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
                "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
                "Corrupted infoROM", "GPU is lost", "GPU requires reset", "GPU access blocked by the operating system",
                "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
                "Ecc not supported on vGPU", "Insufficient Resources", "Requested frequency not supported",
                "Argument version mismatch", "Deprecated", "Not Ready", "GPU Not Found", "Invalid State",
                "Reset type not supported",
        };
        /* clang-format on */

        return (size_t)result < ARRAY_SIZE(texts) ? texts[result] : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_any(__func__);

        return call.result ? call.result : copy_text(version, length, call.world->versions.driver);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_any(__func__);

        return call.result ? call.result : copy_text(version, length, call.world->versions.nvml);
}

static nvmlReturn_t cuda_version(const char *name, int *version)
{
        _cleanup_(call_end) struct call call = call_any(name);

        if (call.result)
                return call.result;
        if (!version)
                return NVML_ERROR_INVALID_ARGUMENT;
        *version = call.world->versions.cuda;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
        return cuda_version(__func__, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
        return cuda_version(__func__, version);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *info, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_any(__func__);

        if (call.result)
                return call.result;
        if (!info || length < sizeof(info->branch))
                return NVML_ERROR_INVALID_ARGUMENT;
        if (info->version != NVML_SYSTEM_DRIVER_BRANCH_INFO_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        snprintf(info->branch, sizeof(info->branch), "r%.*s_00", (int)MIN(strcspn(call.world->versions.driver, "."), 8),
                call.world->versions.driver);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
        _cleanup_(call_end) struct call call = call_any(__func__);

        if (call.result)
                return call.result;
        if (!name || !length)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (size_t i = 0; i < call.world->scenario->n_gpus; i++) {
                const struct scenario_gpu *gpu = &call.world->scenario->gpus[i];

                for (size_t j = 0; j < gpu->n_processes; j++) {
                        if (gpu->processes[j].pid == pid) {
                                snprintf(name, length, "%s", gpu->processes[j].name); /* cut, as the driver does */
                                return NVML_SUCCESS;
                        }
                }
        }
        return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
        _cleanup_(call_end) struct call call = call_any(__func__);

        if (call.result)
                return call.result;
        if (!state)
                return NVML_ERROR_INVALID_ARGUMENT;
        *state = (nvmlConfComputeSystemState_t){0};
        return NVML_SUCCESS;
}

/* Units (S-class boxes) and excluded GPUs: none. */
static nvmlReturn_t count_none(const char *name, unsigned int *count)
{
        _cleanup_(call_end) struct call call = call_any(name);

        if (call.result)
                return call.result;
        if (!count)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = 0;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
        return count_none(__func__, count);
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
        return count_none(__func__, count);
}

nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count)
{
        return count_none(__func__, count);
}

static nvmlReturn_t count_devices(const char *name, unsigned int *count)
{
        _cleanup_(call_end) struct call call = call_any(name);

        if (call.result)
                return call.result;
        if (!count)
                return NVML_ERROR_INVALID_ARGUMENT;
        *count = world_count(call.world);
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
        return count_devices(__func__, count);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
        return count_devices(__func__, count);
}

static nvmlReturn_t by_index(const char *name, unsigned int index, nvmlDevice_t *device)
{
        _cleanup_(call_end) struct call call = call_any(name);
        struct gpu *gpu;

        if (call.result)
                return call.result;
        gpu = world_gpu_by_index(call.world, index);
        if (!device || !gpu)
                return NVML_ERROR_INVALID_ARGUMENT;
        call_visit(&call, name, gpu);
        if (!call.result)
                *device = &gpu->handle;
        return call.result;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
        return by_index(__func__, index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
        return by_index(__func__, index, device);
}

enum gpu_key { BY_UUID, BY_SERIAL, BY_BUS };

static bool gpu_has_key(const struct gpu *gpu, enum gpu_key key, const char *value)
{
        unsigned int domain;
        unsigned int bus;
        unsigned int device;

        switch (key) {
        case BY_UUID:
                return strcasecmp(gpu->uuid, value) == 0;
        case BY_SERIAL:
                return strcmp(gpu->config->serial, value) == 0;
        case BY_BUS:
                return scenario_bus(value, &domain, &bus, &device) && domain == gpu->config->domain &&
                       bus == gpu->config->bus && device == gpu->config->device;
        }
        return false;
}

static nvmlReturn_t by_key(const char *name, enum gpu_key key, const char *value, nvmlDevice_t *device)
{
        _cleanup_(call_end) struct call call = call_any(name);

        if (call.result)
                return call.result;
        if (!value || !device)
                return NVML_ERROR_INVALID_ARGUMENT;
        LIST_FOR_EACH(link, &call.world->gpus) {
                struct gpu *gpu = container_of(link, struct gpu, link);

                if (gpu_is_present(gpu) && gpu_has_key(gpu, key, value)) {
                        call_visit(&call, name, gpu);
                        if (!call.result)
                                *device = &gpu->handle;
                        return call.result;
                }
        }
        LIST_FOR_EACH(link, &call.world->computes) {
                struct nvmlComputeInstance_st *compute = container_of(link, struct nvmlComputeInstance_st, link);

                if (key == BY_UUID && compute->alive && compute->handle.gpu->attached &&
                        strcasecmp(compute->uuid, value) == 0) {
                        call_visit(&call, name, compute->handle.gpu);
                        if (!call.result)
                                *device = &compute->handle;
                        return call.result;
                }
        }
        return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
        return by_key(__func__, BY_UUID, uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_v1_t *uuid, nvmlDevice_t *device)
{
        char text[sizeof(uuid->value.str) + 1] = "";

        if (uuid && uuid->version != NVML_UUID_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        if (uuid && uuid->type != NVML_UUID_TYPE_ASCII)
                return NVML_ERROR_NOT_SUPPORTED;
        if (uuid)
                memcpy(text, uuid->value.str, sizeof(uuid->value.str));
        return by_key(__func__, BY_UUID, uuid ? text : NULL, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
        return by_key(__func__, BY_SERIAL, serial, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device)
{
        return by_key(__func__, BY_BUS, bus, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
        return by_key(__func__, BY_BUS, bus, device);
}
