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

        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
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

static int serve_set(struct nvml_serving *serving, struct pack *question, struct pack *answer UNUSED, struct error *err)
{
        const struct nvml *nvml;
        nvmlComputeMode_t mode;
        const char *uuid;

        pack_text(question, &uuid);
        PACK(question, mode);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        return compute_mode_set(nvml, uuid, mode, err);
}

void compute_mode_ask_to_set(struct nvml_pool *pool, struct nvml_request *request, const char *uuid,
        nvmlComputeMode_t mode,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer))
{
        struct pack question;

        nvml_request_init(request, serve_set, uuid, done);
        question = pack_writer(&request->question);
        pack_text(&question, &uuid);
        PACK(&question, mode);
        nvml_pool_ask(pool, request);
}
