// SPDX-License-Identifier: Apache-2.0
/* The processes on a device. */
#include "sim/nvml/calls.h"

#include <string.h>
#include <time.h>

#include "sim/nvml/library.h"

/*
 * A process belongs to the MIG device whose instance ids it has; the list of a GPU in MIG mode has the processes of all
 * its MIG devices.
 */
static bool is_listed(const struct call *call, const struct scenario_process *process, unsigned int types)
{
        if (!(process->types & types))
                return false;
        if (!call->compute)
                return true;
        return process->gi == call->compute->instance->place->id && process->ci == call->compute->place->id;
}

static unsigned int count_listed(const struct call *call, unsigned int types)
{
        unsigned int count = 0;

        for (size_t i = 0; i < call->config->n_processes; i++)
                count += is_listed(call, &call->config->processes[i], types);
        return count;
}

/* Both layouts begin with pid and memory; the older one ends there. */
static nvmlReturn_t list_processes(
        const char *name, nvmlDevice_t device, unsigned int types, unsigned int *count, void *infos, size_t record)
{
        _cleanup_(call_end) struct call call = call_device(name, device);
        unsigned int capacity;
        char *next = infos;

        if (call.result)
                return call.result;
        if (!count || (*count && !infos))
                return NVML_ERROR_INVALID_ARGUMENT;
        capacity = *count;
        *count = count_listed(&call, types);
        if (*count > capacity)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (size_t i = 0; i < call.config->n_processes; i++) {
                const struct scenario_process *process = &call.config->processes[i];
                nvmlProcessInfo_t info = {.pid = process->pid,
                        .usedGpuMemory = process->memory,
                        .gpuInstanceId = process->gi,
                        .computeInstanceId = process->ci};

                if (!is_listed(&call, process, types))
                        continue;
                memcpy(next, &info, record);
                next += record;
        }
        return NVML_SUCCESS;
}

#define LIST_CALLS(kind, types)                                                                                        \
        nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses(                                                            \
                nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)                                 \
        {                                                                                                              \
                return list_processes(__func__, device, types, count, infos, sizeof(nvmlProcessInfo_v1_t));            \
        }                                                                                                              \
        nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v2(                                                         \
                nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)                                    \
        {                                                                                                              \
                return list_processes(__func__, device, types, count, infos, sizeof(nvmlProcessInfo_t));               \
        }                                                                                                              \
        nvmlReturn_t nvmlDeviceGet##kind##RunningProcesses_v3(                                                         \
                nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)                                    \
        {                                                                                                              \
                return list_processes(__func__, device, types, count, infos, sizeof(nvmlProcessInfo_t));               \
        }

LIST_CALLS(Compute, PROCESS_COMPUTE)
LIST_CALLS(Graphics, PROCESS_GRAPHICS)
LIST_CALLS(MPSCompute, PROCESS_MPS)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
        static const unsigned int types[] = {
                PROCESS_COMPUTE, PROCESS_GRAPHICS, PROCESS_MPS, PROCESS_COMPUTE | PROCESS_GRAPHICS | PROCESS_MPS};
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        unsigned int capacity;
        unsigned int n = 0;

        if (call.result)
                return call.result;
        if (!list || list->mode >= ARRAY_SIZE(types) || (list->numProcArrayEntries && !list->procArray))
                return NVML_ERROR_INVALID_ARGUMENT;
        if (list->version != NVML_PROCESS_DETAIL_LIST_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        capacity = list->numProcArrayEntries;
        list->numProcArrayEntries = count_listed(&call, types[list->mode]);
        if (list->numProcArrayEntries > capacity)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (size_t i = 0; i < call.config->n_processes; i++) {
                const struct scenario_process *process = &call.config->processes[i];

                if (is_listed(&call, process, types[list->mode]))
                        list->procArray[n++] = (nvmlProcessDetail_v1_t){.pid = process->pid,
                                .usedGpuMemory = process->memory,
                                .gpuInstanceId = process->gi,
                                .computeInstanceId = process->ci,
                                .usedGpuCcProtectedMemory = 0};
        }
        return NVML_SUCCESS;
}

static unsigned long long now_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* One sample for each process, taken now; a process that does nothing has none. */
static unsigned int count_busy(const struct scenario_gpu *gpu)
{
        unsigned int count = 0;

        for (size_t i = 0; i < gpu->n_processes; i++)
                count += gpu->processes[i].utilization != 0;
        return count;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(
        nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long since)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        unsigned long long now = now_us();
        unsigned int capacity;
        unsigned int n = 0;

        if (call.result)
                return call.result;
        if (!count)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        capacity = *count;
        *count = count_busy(call.config);
        if (!*count || since > now)
                return NVML_ERROR_NOT_FOUND;
        if (!samples || *count > capacity)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (size_t i = 0; i < call.config->n_processes; i++) {
                const struct scenario_process *process = &call.config->processes[i];

                if (process->utilization)
                        samples[n++] = (nvmlProcessUtilizationSample_t){.pid = process->pid,
                                .timeStamp = now,
                                .smUtil = process->utilization,
                                .memUtil = process->memory_utilization};
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        unsigned long long now = now_us();
        unsigned int capacity;
        unsigned int n = 0;

        if (call.result)
                return call.result;
        if (!info)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (info->version != NVML_PROCESSES_UTILIZATION_INFO_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        if (call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        capacity = info->processSamplesCount;
        info->processSamplesCount = count_busy(call.config);
        if (!info->processSamplesCount || info->lastSeenTimeStamp > now)
                return NVML_ERROR_NOT_FOUND;
        if (!info->procUtilArray || info->processSamplesCount > capacity)
                return NVML_ERROR_INSUFFICIENT_SIZE;
        for (size_t i = 0; i < call.config->n_processes; i++) {
                const struct scenario_process *process = &call.config->processes[i];

                if (process->utilization)
                        info->procUtilArray[n++] = (nvmlProcessUtilizationInfo_v1_t){.timeStamp = now,
                                .pid = process->pid,
                                .smUtil = process->utilization,
                                .memUtil = process->memory_utilization};
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
        RETURN_GPU_VALUE(device, mode, NVML_FEATURE_DISABLED);
}
