#include "mps/supervisor/compute_mode.h"

const char *compute_mode_name(nvmlComputeMode_t mode)
{
        switch (mode) {
        case NVML_COMPUTEMODE_DEFAULT:
                return "DEFAULT";
        case NVML_COMPUTEMODE_EXCLUSIVE_THREAD:
                return "EXCLUSIVE_THREAD";
        case NVML_COMPUTEMODE_PROHIBITED:
                return "PROHIBITED";
        case NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
                return "EXCLUSIVE_PROCESS";
        }
        return "unknown";
}

static int compute_mode_find(const struct nvml *nvml, const char *uuid, nvmlDevice_t *device, struct error *err)
{
        nvmlReturn_t code;

        call_trace_ask(nvml->trace, CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, device);
        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, "nvmlDeviceGetHandleByUUID", err);
}

int compute_mode_read(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t *ret, struct error *err)
{
        nvmlDevice_t device = NULL;
        nvmlReturn_t code;

        if (compute_mode_find(nvml, uuid, &device, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_get_compute_mode, device, ret);
        return nvml_outcome(nvml, code, "nvmlDeviceGetComputeMode", err);
}

int compute_mode_set(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t mode, struct error *err)
{
        nvmlDevice_t device = NULL;
        nvmlReturn_t code;

        if (compute_mode_find(nvml, uuid, &device, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_set_compute_mode, device, mode);
        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, "nvmlDeviceSetComputeMode", err);
}
