// SPDX-License-Identifier: Apache-2.0
/* Memory, utilisation, temperature, power, clocks. */
#include "sim/nvml/calls.h"

#include "sim/nvml/library.h"

struct memory {
        uint64_t total;
        uint64_t reserved;
        uint64_t used;
};

static bool is_of_instance(const struct scenario_process *process, const struct nvmlComputeInstance_st *compute)
{
        return !compute || process->gi == compute->instance->place->id;
}

/*
 * The memory of a MIG device is that of its GPU instance, and so are its processes. A GPU that uses the machine's
 * memory has none to report.
 */
static nvmlReturn_t read_memory(const struct call *call, struct memory *memory)
{
        const struct scenario_gpu *gpu = call->config;
        uint64_t used = 0;

        for (size_t i = 0; i < gpu->n_processes; i++) {
                if (is_of_instance(&gpu->processes[i], call->compute))
                        used += gpu->processes[i].memory;
        }
        if (call->compute) {
                memory->total = (uint64_t)call->compute->instance->place->profile->memory_mib << 20;
                memory->reserved = 0;
        } else {
                memory->total = gpu->memory;
                memory->reserved = MIN((uint64_t)gpu->model->reserved_mib << 20, gpu->memory);
                if (gpu->memory_used >= 0)
                        used = (uint64_t)gpu->memory_used;
        }
        memory->used = MIN(used, memory->total - memory->reserved);
        return memory->total ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        struct memory m;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        if (!memory)
                return NVML_ERROR_INVALID_ARGUMENT;
        result = read_memory(&call, &m);
        if (result)
                return result;
        *memory = (nvmlMemory_t){.total = m.total, .free = m.total - m.reserved - m.used, .used = m.reserved + m.used};
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        struct memory m;
        nvmlReturn_t result;

        if (call.result)
                return call.result;
        if (!memory)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (memory->version != NVML_MEMORY_V2)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        result = read_memory(&call, &m);
        if (result)
                return result;
        memory->total = m.total;
        memory->reserved = m.reserved;
        memory->free = m.total - m.reserved - m.used;
        memory->used = m.used;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);
        uint64_t total;

        if (call.result)
                return call.result;
        if (!memory)
                return NVML_ERROR_INVALID_ARGUMENT;
        total = (uint64_t)call.config->model->bar1_mib << 20;
        if (call.compute)
                total = total * call.compute->instance->place->profile->size / call.config->model->memory_slices;
        *memory = (nvmlBAR1Memory_t){.bar1Total = total, .bar1Used = 1 << 20, .bar1Free = total - (1 << 20)};
        return NVML_SUCCESS;
}

/* A GPU that is split into MIG devices has no rate of its own. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
        _cleanup_(call_end) struct call call = call_device(__func__, device);

        if (call.result)
                return call.result;
        if (!rates)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (call.compute || call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        *rates = (nvmlUtilization_t){.gpu = call.config->utilization, .memory = call.config->memory_utilization};
        return NVML_SUCCESS;
}

static nvmlReturn_t engine_utilization(
        const char *name, nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
        _cleanup_(call_end) struct call call = call_gpu(name, device);

        if (call.result)
                return call.result;
        if (!percent || !period_us)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        *percent = 0;
        *period_us = 167000;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
        return engine_utilization(__func__, device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
        return engine_utilization(__func__, device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
        return engine_utilization(__func__, device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
        return engine_utilization(__func__, device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
        if (sensor != NVML_TEMPERATURE_GPU)
                return NVML_ERROR_INVALID_ARGUMENT;
        RETURN_GPU_VALUE(device, celsius, call.config->temperature);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!temperature || temperature->sensorType != NVML_TEMPERATURE_GPU)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (temperature->version != NVML_TEMPERATURE_V1)
                return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
        temperature->temperature = (int)call.config->temperature;
        return NVML_SUCCESS;
}

/* Thresholds by nvmlTemperatureThresholds_t: shutdown, slowdown, memory maximum, GPU maximum. */
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int kind, unsigned int *celsius)
{
        static const unsigned int thresholds[] = {92, 89, 95, 87};

        if (kind >= ARRAY_SIZE(thresholds))
                return NVML_ERROR_NOT_SUPPORTED;
        RETURN_GPU_VALUE(device, celsius, thresholds[kind]);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
        RETURN_GPU_VALUE(device, milliwatts, call.config->power_mw);
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
        RETURN_GPU_VALUE(device, mode, NVML_FEATURE_ENABLED);
}

static nvmlReturn_t read_power_limits(const char *name, nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
        _cleanup_(call_end) struct call call = call_gpu(name, device);
        unsigned int watts;

        if (call.result)
                return call.result;
        if (!least || !most)
                return NVML_ERROR_INVALID_ARGUMENT;
        watts = call.config->model->power_w;
        *least = watts * 500;
        *most = watts * 1000;
        return watts ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
        unsigned int least;

        return read_power_limits(__func__, device, &least, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
        unsigned int least;

        return read_power_limits(__func__, device, &least, milliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
        unsigned int least;

        return read_power_limits(__func__, device, &least, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
        return read_power_limits(__func__, device, least, most);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules)
{
        RETURN_GPU_VALUE(device, millijoules, call.config->energy_mj);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned int *state)
{
        RETURN_GPU_VALUE(device, state, call.config->utilization ? 0 : 8);
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, unsigned int *state)
{
        RETURN_GPU_VALUE(device, state, call.config->utilization ? 0 : 8);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
        if (type > NVML_CLOCK_VIDEO)
                return NVML_ERROR_INVALID_ARGUMENT;
        RETURN_GPU_VALUE(
                device, mhz, type == NVML_CLOCK_MEM ? call.config->model->memory_clock_mhz : call.config->clock_mhz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
        if (type > NVML_CLOCK_VIDEO)
                return NVML_ERROR_INVALID_ARGUMENT;
        RETURN_GPU_VALUE(device, mhz,
                type == NVML_CLOCK_MEM ? call.config->model->memory_clock_mhz : call.config->model->clock_mhz);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
        RETURN_GPU_VALUE(device, reasons, call.config->clock_reasons);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
        RETURN_GPU_VALUE(device, reasons, call.config->clock_reasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
        RETURN_GPU_VALUE(device, reasons, 0x1ff);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
        RETURN_GPU_VALUE(device, reasons, 0x1ff);
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *time)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!time)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (policy != NVML_PERF_POLICY_POWER && policy != NVML_PERF_POLICY_THERMAL)
                return NVML_ERROR_NOT_SUPPORTED;
        *time = (nvmlViolationTime_t){.violationTime = call.config->throttled_ms[policy] * 1000000};
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *kilobytes)
{
        if (counter != NVML_PCIE_UTIL_TX_BYTES && counter != NVML_PCIE_UTIL_RX_BYTES)
                return NVML_ERROR_INVALID_ARGUMENT;
        RETURN_GPU_VALUE(device, kilobytes, 0);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *count)
{
        RETURN_GPU_VALUE(device, count, 0);
}
