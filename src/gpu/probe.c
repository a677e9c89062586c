#include "gpu/probe.h"

#include <stdio.h>

/* The driver does not have the GPU. If the GPU is found later, it was reset or enumerated again. */
static bool probe_is_gone(nvmlReturn_t code)
{
        return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_GPU_NOT_FOUND;
}

static struct probe_result fail_call(const struct nvml *nvml, nvmlReturn_t code, const char *call)
{
        struct probe_result result = {.finding = probe_is_gone(code) ? HEALTH_GONE : HEALTH_BAD};
        struct error err;

        (void)!nvml_fail(nvml, code, call, &err);
        snprintf(result.reason, sizeof(result.reason), "%.*s", (int)sizeof(result.reason) - 1, err.text);
        return result;
}

static struct probe_result probe_read_unit(const struct nvml *nvml, const char *uuid, nvmlDevice_t *ret_device)
{
        nvmlMemory_t memory;
        nvmlReturn_t code;

        code = NVML_CALL(nvml, device_get_by_uuid, uuid, ret_device);
        if (code != NVML_SUCCESS)
                return fail_call(nvml, code, "nvmlDeviceGetHandleByUUID");
        code = NVML_CALL(nvml, device_get_memory, *ret_device, &memory);
        if (code != NVML_SUCCESS && !nvml_is_unknown(code))
                return fail_call(nvml, code, "nvmlDeviceGetMemoryInfo");
        return (struct probe_result){.finding = HEALTH_GOOD};
}

static const char *recovery_action(const struct nvml *nvml, nvmlDevice_t device, enum health_finding *finding)
{
        nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION};

        if (NVML_CALL(nvml, device_get_field_values, device, 1, &field) != NVML_SUCCESS ||
                field.nvmlReturn != NVML_SUCCESS)
                return NULL;
        switch (field.value.uiVal) {
        case NVML_GPU_RECOVERY_ACTION_NONE:
                *finding = HEALTH_CLEARED;
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

/*
 * Older boards, which retire pages and cannot contain errors. A driver that does not know architectures knows nothing
 * newer than Turing.
 */
static bool is_before_ampere(const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlDeviceArchitecture_t architecture;
        int major;
        int minor;

        if (NVML_CALL(nvml, device_get_architecture, device, &architecture) == NVML_SUCCESS)
                return architecture < NVML_DEVICE_ARCH_AMPERE;
        return NVML_CALL(nvml, device_get_compute_capability, device, &major, &minor) == NVML_SUCCESS && major < 8;
}

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

static const char *memory_fault(const struct nvml *nvml, nvmlDevice_t device, bool remaps_count)
{
        unsigned int corrected = 0;
        unsigned int uncorrected = 0;
        unsigned int pending = 0;
        unsigned int failure = 0;

        if (is_before_ampere(nvml, device))
                return retirement(nvml, device);
        if (NVML_CALL(nvml, device_get_remapped_rows, device, &corrected, &uncorrected, &pending, &failure) !=
                NVML_SUCCESS)
                return NULL;
        if (failure)
                return "a memory row could not be remapped: the board needs service";
        return pending && remaps_count ? "a memory row is to be remapped: the GPU needs a reset" : NULL;
}

struct probe_result probe_gpu(const struct nvml *nvml, const char *uuid, bool remaps_count)
{
        nvmlDevice_t device = NULL;
        struct probe_result result = probe_read_unit(nvml, uuid, &device);
        const char *failure;

        if (!health_is_good(result.finding))
                return result;
        failure = recovery_action(nvml, device, &result.finding);
        if (!failure)
                failure = memory_fault(nvml, device, remaps_count);
        if (failure) {
                result.finding = HEALTH_BAD;
                snprintf(result.reason, sizeof(result.reason), "%s", failure);
        }
        return result;
}

struct probe_result probe_mig_device(const struct nvml *nvml, const char *uuid)
{
        nvmlDevice_t device;

        return probe_read_unit(nvml, uuid, &device);
}
