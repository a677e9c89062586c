#include "mps/compute_mode.h"

#include "mps/record.h"

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

static int find(const struct nvml *nvml, const char *uuid, nvmlDevice_t *device, struct error *err)
{
        nvmlReturn_t code = nvml->device_get_by_uuid(uuid, device);

        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, "nvmlDeviceGetHandleByUUID", err);
}

int compute_mode_read(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t *ret, struct error *err)
{
        nvmlDevice_t device;
        nvmlReturn_t code;

        if (find(nvml, uuid, &device, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_get_compute_mode, device, ret);
        return nvml_outcome(nvml, code, "nvmlDeviceGetComputeMode", err);
}

int compute_mode_set(const struct nvml *nvml, const char *uuid, nvmlComputeMode_t mode, struct error *err)
{
        nvmlDevice_t device;
        nvmlReturn_t code;

        if (find(nvml, uuid, &device, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_set_compute_mode, device, mode);
        return code == NVML_SUCCESS ? 0 : nvml_fail(nvml, code, "nvmlDeviceSetComputeMode", err);
}

int compute_mode_restore_all(struct mps_record *record, const char *nvml_library, const char *driver_root,
        void (*warn)(const char *uuid, const struct error *err, void *data), void *data, struct error *err)
{
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;

        if (record->n_modes == 0)
                return 0;
        if (nvml_open(&nvml, nvml_library, driver_root, err) < 0)
                return error_prefix(err, "put the compute modes back");
        for (; record->n_modes; record->n_modes--) {
                const struct mps_record_mode *mode = &record->modes[record->n_modes - 1];
                struct error problem;

                if (compute_mode_set(nvml, mode->uuid, mode->before, &problem) < 0)
                        warn(mode->uuid, &problem, data);
        }
        return 0;
}
