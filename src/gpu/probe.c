#include "gpu/probe.h"

#include <stdio.h>

static bool fail_call(const struct nvml *nvml, nvmlReturn_t code, const char *call, char *reason, size_t size)
{
        struct error err;

        (void)!nvml_fail(nvml, code, call, &err);
        snprintf(reason, size, "%s", err.text);
        return false;
}

static bool is_readable(const struct nvml *nvml, const char *uuid, nvmlDevice_t *ret_device, char *reason, size_t size)
{
        nvmlMemory_t memory;
        nvmlReturn_t code;

        code = nvml->device_get_by_uuid(uuid, ret_device);
        if (code != NVML_SUCCESS)
                return fail_call(nvml, code, "nvmlDeviceGetHandleByUUID", reason, size);
        code = nvml->device_get_memory(*ret_device, &memory);
        if (code != NVML_SUCCESS && !nvml_is_unknown(code))
                return fail_call(nvml, code, "nvmlDeviceGetMemoryInfo", reason, size);
        return true;
}

static const char *recovery_action(const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION};

        if (NVML_CALL(nvml, device_get_field_values, device, 1, &field) != NVML_SUCCESS ||
                field.nvmlReturn != NVML_SUCCESS)
                return NULL;
        switch (field.value.uiVal) {
        case NVML_GPU_RECOVERY_ACTION_NONE:
                return NULL;
        case NVML_GPU_RECOVERY_ACTION_GPU_RESET:
                return "the driver asks for a reset of the GPU";
        case NVML_GPU_RECOVERY_ACTION_NODE_REBOOT:
                return "the driver asks for a reboot of the node";
        case NVML_GPU_RECOVERY_ACTION_DRAIN_P2P:
                return "the driver asks to end all peer-to-peer traffic of the GPU";
        case NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
                return "the driver asks to drain and reset the GPU";
        case NVML_GPU_RECOVERY_ACTION_GPU_RESET_IMEX:
                return "the driver asks to recover the IMEX domain of the GPU";
        default:
                return "the driver asks for a recovery action on the GPU";
        }
}

/* Boards without remapping: before Ampere. */
static const char *retirement(const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlEnableState_t pending = NVML_FEATURE_DISABLED;
        unsigned long long errors = 0;

        if (NVML_CALL(nvml, device_get_retired_pending, device, &pending) == NVML_SUCCESS &&
                pending == NVML_FEATURE_ENABLED)
                return "a memory page is to be retired: the GPU needs a reset";
        if (NVML_CALL(nvml, device_get_ecc_errors, device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                    &errors) == NVML_SUCCESS &&
                errors > 0)
                return "memory errors that could not be corrected: the GPU needs a reset";
        return NULL;
}

static const char *memory_fault(const struct nvml *nvml, nvmlDevice_t device)
{
        unsigned int corrected = 0;
        unsigned int uncorrected = 0;
        unsigned int pending = 0;
        unsigned int failure = 0;
        nvmlReturn_t code;

        code = NVML_CALL(nvml, device_get_remapped_rows, device, &corrected, &uncorrected, &pending, &failure);
        if (code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND)
                return retirement(nvml, device);
        if (code != NVML_SUCCESS)
                return NULL;
        if (failure)
                return "a memory row could not be remapped: the board needs service";
        return pending ? "a memory row is to be remapped: the GPU needs a reset" : NULL;
}

bool probe_gpu(const struct nvml *nvml, const char *uuid, char *reason, size_t size)
{
        nvmlDevice_t device;
        const char *failure;

        if (!is_readable(nvml, uuid, &device, reason, size))
                return false;
        failure = recovery_action(nvml, device);
        if (!failure)
                failure = memory_fault(nvml, device);
        if (failure)
                snprintf(reason, size, "%s", failure);
        return !failure;
}

bool probe_mig_device(const struct nvml *nvml, const char *uuid, char *reason, size_t size)
{
        nvmlDevice_t device;

        return is_readable(nvml, uuid, &device, reason, size);
}
