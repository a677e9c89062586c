#include "gpu/process_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define PID_MAX UINT32_C(4194304) /* of Linux: 2^22 */
#define INSTANCE_MAX 64U          /* of GPU and compute instances */

struct long_record {
        nvmlProcessInfo_t info;
        unsigned long long protected_memory;
};

static bool is_plausible(const nvmlProcessInfo_t *info)
{
        return info->pid > 0 && info->pid <= PID_MAX &&
               (info->gpuInstanceId == NVML_NO_INSTANCE || info->gpuInstanceId < INSTANCE_MAX) &&
               (info->computeInstanceId == NVML_NO_INSTANCE || info->computeInstanceId < INSTANCE_MAX);
}

static nvmlProcessInfo_t record_at(const struct long_record *room, size_t position, size_t size)
{
        nvmlProcessInfo_t info;

        memcpy(&info, (const char *)room + position * size, sizeof(info));
        return info;
}

static bool are_plausible(const struct long_record *room, unsigned int count, size_t size)
{
        for (unsigned int i = 0; i < count; i++) {
                const nvmlProcessInfo_t info = record_at(room, i, size);

                if (!is_plausible(&info))
                        return false;
        }
        return true;
}

static uint64_t known_memory(unsigned long long memory)
{
        return memory == NVML_VALUE_NOT_AVAILABLE_ULL ? UINT64_MAX : memory;
}

/* The present form, whose records may be longer than the header says. */
static nvmlReturn_t take_records(struct gpu_listed_process *ret, const struct long_record *room, unsigned int count)
{
        size_t size = sizeof(nvmlProcessInfo_t);

        if (!are_plausible(room, count, size))
                size = sizeof(struct long_record);
        if (!are_plausible(room, count, size))
                return NVML_ERROR_UNKNOWN;
        for (unsigned int i = 0; i < count; i++) {
                const nvmlProcessInfo_t info = record_at(room, i, size);

                ret[i] = (struct gpu_listed_process){info.pid, known_memory(info.usedGpuMemory)};
        }
        return NVML_SUCCESS;
}

static nvmlReturn_t call_list(
        const struct nvml *nvml, nvmlDevice_t device, unsigned int kind, unsigned int *count, nvmlProcessInfo_t *infos)
{
        switch (kind) {
        case GPU_PROCESS_COMPUTE:
                return NVML_CALL(nvml, device_get_processes, device, count, infos);
        case GPU_PROCESS_MPS:
                return NVML_CALL(nvml, device_get_mps_processes, device, count, infos);
        default:
                return NVML_CALL(nvml, device_get_graphics_processes, device, count, infos);
        }
}

static nvmlReturn_t call_old_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind, unsigned int *count,
        nvmlProcessInfo_v1_t *infos)
{
        switch (kind) {
        case GPU_PROCESS_COMPUTE:
                return NVML_CALL(nvml, device_get_processes_v1, device, count, infos);
        case GPU_PROCESS_MPS:
                return NVML_CALL(nvml, device_get_mps_processes_v1, device, count, infos);
        default:
                return NVML_ERROR_FUNCTION_NOT_FOUND;
        }
}

static nvmlReturn_t read_old_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind,
        struct gpu_listed_process *ret, unsigned int *count)
{
        _free_ nvmlProcessInfo_v1_t *infos = xcalloc(*count, sizeof(*infos));
        const unsigned int most = *count;
        const nvmlReturn_t code = call_old_list(nvml, device, kind, count, infos);

        if (code != NVML_SUCCESS)
                return code;
        *count = MIN(*count, most);
        for (unsigned int i = 0; i < *count; i++)
                ret[i] = (struct gpu_listed_process){infos[i].pid, known_memory(infos[i].usedGpuMemory)};
        return NVML_SUCCESS;
}

nvmlReturn_t gpu_process_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind,
        struct gpu_listed_process *ret, unsigned int *count)
{
        _free_ struct long_record *room = xcalloc(*count, sizeof(*room));
        const unsigned int most = *count;
        const nvmlReturn_t code = call_list(nvml, device, kind, count, (nvmlProcessInfo_t *)(void *)room);

        if (code == NVML_ERROR_FUNCTION_NOT_FOUND) {
                *count = most;
                return read_old_list(nvml, device, kind, ret, count);
        }
        if (code != NVML_SUCCESS)
                return code;
        *count = MIN(*count, most);
        return take_records(ret, room, *count);
}

const char *gpu_process_list_call(unsigned int kind)
{
        switch (kind) {
        case GPU_PROCESS_COMPUTE:
                return "nvmlDeviceGetComputeRunningProcesses";
        case GPU_PROCESS_MPS:
                return "nvmlDeviceGetMPSComputeRunningProcesses";
        default:
                return "nvmlDeviceGetGraphicsRunningProcesses";
        }
}
