#include "mps/supervisor/memory_limit.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

static bool is_unsupported(nvmlReturn_t code)
{
        return code == NVML_ERROR_FUNCTION_NOT_FOUND || code == NVML_ERROR_NOT_SUPPORTED;
}

/* If the folder was removed during the call, the result is "gone", whatever error NVML returns. */
static enum memory_limit_outcome memory_limit_fail(
        const struct nvml *nvml, nvmlReturn_t code, const char *call, const char *folder, struct error *err)
{
        if (access(folder, F_OK) < 0 && errno == ENOENT)
                return MEMORY_LIMIT_GONE;
        nvml_fail(nvml, code, call, err);
        return is_unsupported(code) ? MEMORY_LIMIT_CANNOT : MEMORY_LIMIT_FAILED;
}

static enum memory_limit_outcome memory_limit_find(
        const struct nvml *nvml, const char *uuid, const char *folder, nvmlDevice_t *device, struct error *err)
{
        nvmlReturn_t code;

        if (access(folder, F_OK) < 0 && errno == ENOENT)
                return MEMORY_LIMIT_GONE;
        call_trace_ask(nvml->trace, CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, device);
        return code == NVML_SUCCESS ? MEMORY_LIMIT_DONE
                                    : memory_limit_fail(nvml, code, "nvmlDeviceGetHandleByUUID", folder, err);
}

/* Without a limit, some drivers report that none is set, others that limits are not known or not supported. */
static nvmlReturn_t read_limits(
        const struct nvml *nvml, nvmlDevice_t device, const char *folder, nvmlGetMemoryLimits_v1_t *limits)
{
        *limits = (nvmlGetMemoryLimits_v1_t){.nameSpace = folder, .hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX};
        return NVML_CALL(nvml, device_get_memory_limits, device, limits);
}

enum memory_limit_outcome memory_limit_set(const struct nvml *nvml, const char *uuid, const char *folder, uint64_t mib,
        bool *ret_changed, struct error *err)
{
        nvmlSetMemoryLimits_v1_t wanted = {.nameSpace = folder, .hardLimit = mib << 20};
        nvmlGetMemoryLimits_v1_t limits;
        nvmlDevice_t device;
        enum memory_limit_outcome outcome = memory_limit_find(nvml, uuid, folder, &device, err);
        nvmlReturn_t code;

        *ret_changed = false;
        if (outcome != MEMORY_LIMIT_DONE)
                return outcome;
        code = read_limits(nvml, device, folder, &limits);
        if (code == NVML_SUCCESS && limits.softLimit == 0 && limits.hardLimit == wanted.hardLimit)
                return MEMORY_LIMIT_DONE;
        code = NVML_CALL(nvml, device_set_memory_limits, device, &wanted);
        if (code != NVML_SUCCESS)
                return memory_limit_fail(nvml, code, "nvmlDeviceSetMemoryLimits", folder, err);
        code = read_limits(nvml, device, folder, &limits);
        if (code != NVML_SUCCESS)
                return memory_limit_fail(nvml, code, "nvmlDeviceGetMemoryLimits", folder, err);
        if (limits.softLimit != 0 || limits.hardLimit != wanted.hardLimit) {
                error_raise(err, ERROR_INVALID,
                        "memory limit of a cgroup: %" PRIu64
                        " MiB were set, the driver reports %llu MiB, of which %llu MiB reserved",
                        mib, limits.hardLimit >> 20, limits.softLimit >> 20);
                return MEMORY_LIMIT_FAILED;
        }
        *ret_changed = true;
        return MEMORY_LIMIT_DONE;
}

enum memory_limit_outcome memory_limit_clear(
        const struct nvml *nvml, const char *uuid, const char *folder, uint64_t mib, struct error *err)
{
        nvmlSetMemoryLimits_v1_t none = {.nameSpace = folder, .hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX};
        nvmlGetMemoryLimits_v1_t limits;
        nvmlDevice_t device;
        enum memory_limit_outcome outcome = memory_limit_find(nvml, uuid, folder, &device, err);
        nvmlReturn_t code;

        if (outcome != MEMORY_LIMIT_DONE)
                return outcome;
        code = read_limits(nvml, device, folder, &limits);
        if (is_unsupported(code) || code == NVML_ERROR_NOT_FOUND ||
                (code == NVML_SUCCESS && limits.hardLimit != mib << 20))
                return MEMORY_LIMIT_DONE;
        if (code == NVML_SUCCESS)
                code = NVML_CALL(nvml, device_set_memory_limits, device, &none);
        return code == NVML_SUCCESS ? MEMORY_LIMIT_DONE
                                    : memory_limit_fail(nvml, code, "nvmlDeviceSetMemoryLimits", folder, err);
}
