// SPDX-License-Identifier: Apache-2.0
#include "gpu/sample.h"

#include <time.h>

#include "base/clock.h"

/* DCGM takes a memory temperature above this for none. */
#define MEMORY_TEMPERATURE_MAX 200U

struct gpu_samples *gpu_samples_new(void)
{
        return xcalloc(1, sizeof(struct gpu_samples));
}

struct gpu_samples *gpu_samples_free(struct gpu_samples *samples)
{
        if (samples) {
                arena_done(&samples->arena);
                free(samples->units);
                free(samples);
        }
        return NULL;
}

static void sample_put_percent(struct gpu_sample *sample, enum gpu_value value, nvmlReturn_t code, unsigned int percent)
{
        if (code == NVML_SUCCESS && percent <= 100)
                sample->values[value] = percent;
}

static void sample_put_number(struct gpu_sample *sample, enum gpu_value value, nvmlReturn_t code, uint64_t number)
{
        if (code == NVML_SUCCESS)
                sample->values[value] = number;
}

static nvmlReturn_t sample_read_memory(struct gpu_sample *sample, const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlMemory_v2_t second = {.version = NVML_MEMORY_V2};
        nvmlMemory_t memory = {0};
        nvmlReturn_t code = NVML_CALL(nvml, device_get_memory_v2, device, &second);

        if (code == NVML_SUCCESS) {
                sample->values[GPU_MEMORY_TOTAL] = second.total;
                sample->values[GPU_MEMORY_USED] = second.used;
                sample->values[GPU_MEMORY_RESERVED] = second.reserved;
                return code;
        }
        code = NVML_CALL(nvml, device_get_memory, device, &memory);
        sample_put_number(sample, GPU_MEMORY_TOTAL, code, memory.total);
        sample_put_number(sample, GPU_MEMORY_USED, code, memory.used);
        return code;
}

/* A GPU without memory of its own (GB10: both calls are not supported) answers all the other questions. */
static bool memory_answers(nvmlReturn_t code)
{
        return code == NVML_SUCCESS || code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND ||
               code == NVML_ERROR_NO_PERMISSION;
}

static void read_load(struct gpu_sample *sample, const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlUtilization_t rates = {0};
        unsigned int number = 0;
        unsigned int period;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_utilization, device, &rates);

        sample_put_percent(sample, GPU_BUSY, code, rates.gpu);
        sample_put_percent(sample, GPU_MEMORY_BUSY, code, rates.memory);
        code = NVML_CALL(nvml, device_get_encoder, device, &number, &period);
        sample_put_percent(sample, GPU_ENCODER_BUSY, code, number);
        code = NVML_CALL(nvml, device_get_decoder, device, &number, &period);
        sample_put_percent(sample, GPU_DECODER_BUSY, code, number);
}

static void read_power(struct gpu_sample *sample, const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlViolationTime_t time = {0};
        unsigned long long reasons = 0;
        unsigned int number = 0;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_temperature, device, NVML_TEMPERATURE_GPU, &number);

        sample_put_number(sample, GPU_TEMPERATURE, code, number);
        code = NVML_CALL(nvml, device_get_power, device, &number);
        sample_put_number(sample, GPU_POWER, code, number);
        code = NVML_CALL(nvml, device_get_power_limit, device, &number);
        sample_put_number(sample, GPU_POWER_LIMIT, code, number);
        code = NVML_CALL(nvml, device_get_clock, device, NVML_CLOCK_SM, &number);
        sample_put_number(sample, GPU_SM_CLOCK, code, number);
        code = NVML_CALL(nvml, device_get_clock, device, NVML_CLOCK_MEM, &number);
        sample_put_number(sample, GPU_MEMORY_CLOCK, code, number);
        code = NVML_CALL(nvml, device_get_clock_reasons, device, &reasons);
        sample_put_number(sample, GPU_CLOCK_REASONS, code, reasons);
        code = NVML_CALL(nvml, device_get_violation, device, NVML_PERF_POLICY_POWER, &time);
        sample_put_number(sample, GPU_POWER_THROTTLED, code, time.violationTime);
        code = NVML_CALL(nvml, device_get_violation, device, NVML_PERF_POLICY_THERMAL, &time);
        sample_put_number(sample, GPU_THERMAL_THROTTLED, code, time.violationTime);
}

static void read_ecc(struct gpu_sample *sample, const struct nvml *nvml, nvmlDevice_t device)
{
        static const struct {
                enum gpu_value value;
                nvmlMemoryErrorType_t error;
                nvmlEccCounterType_t counter;
        } table[] = {
                {GPU_ECC_CORRECTED, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC},
                {GPU_ECC_UNCORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC},
                {GPU_ECC_CORRECTED_AGGREGATE, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC},
                {GPU_ECC_UNCORRECTED_AGGREGATE, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                unsigned long long count = 0;
                nvmlReturn_t code =
                        NVML_CALL(nvml, device_get_ecc_errors, device, table[i].error, table[i].counter, &count);

                sample_put_number(sample, table[i].value, code, count);
        }
}

static uint64_t field_number(const nvmlFieldValue_t *field)
{
        if (field->nvmlReturn != NVML_SUCCESS)
                return GPU_VALUE_UNKNOWN;
        /* Drivers have given the temperature of memory another type than it has (DCGM reads it as we do). */
        if (field->fieldId == NVML_FI_DEV_MEMORY_TEMP)
                return field->value.uiVal > MEMORY_TEMPERATURE_MAX ? GPU_VALUE_UNKNOWN : field->value.uiVal;
        switch (field->valueType) {
        case NVML_VALUE_TYPE_UNSIGNED_INT:
                return field->value.uiVal;
        case NVML_VALUE_TYPE_UNSIGNED_LONG:
        case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
                return field->value.ullVal;
        default:
                return GPU_VALUE_UNKNOWN;
        }
}

/* Reads all fields in one call. */
static void read_fields(struct gpu_sample *sample, const struct nvml *nvml, nvmlDevice_t device)
{
        static const struct {
                enum gpu_value value;
                unsigned int field;
                unsigned int scope;
        } table[] = {
                {GPU_MEMORY_TEMPERATURE, NVML_FI_DEV_MEMORY_TEMP, 0},
                {GPU_ENERGY, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0},
                {GPU_PCIE_REPLAYS, NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0},
                {GPU_REMAPPED_CORRECTED, NVML_FI_DEV_REMAPPED_COR, 0},
                {GPU_REMAPPED_UNCORRECTED, NVML_FI_DEV_REMAPPED_UNC, 0},
                {GPU_REMAP_PENDING, NVML_FI_DEV_REMAPPED_PENDING, 0},
                {GPU_REMAP_FAILED, NVML_FI_DEV_REMAPPED_FAILURE, 0},
                {GPU_RETIRED_CORRECTED, NVML_FI_DEV_RETIRED_SBE, 0},
                {GPU_RETIRED_UNCORRECTED, NVML_FI_DEV_RETIRED_DBE, 0},
                {GPU_RETIRE_PENDING, NVML_FI_DEV_RETIRED_PENDING, 0},
                {GPU_PCIE_SENT, NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0},
                {GPU_PCIE_RECEIVED, NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0},
                {GPU_NVLINK_SENT, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_SCOPE_ALL},
                {GPU_NVLINK_RECEIVED, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_SCOPE_ALL},
                {GPU_NVLINK_CRC_FLIT, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0},
                {GPU_NVLINK_CRC_DATA, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 0},
                {GPU_NVLINK_REPLAY, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0},
                {GPU_NVLINK_RECOVERY, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 0},
                {GPU_NVLINK_ECC, NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL, 0},
        };
        nvmlFieldValue_t fields[ARRAY_SIZE(table)] = {{0}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                fields[i] = (nvmlFieldValue_t){.fieldId = table[i].field, .scopeId = table[i].scope};
        if (NVML_CALL(nvml, device_get_field_values, device, (int)ARRAY_SIZE(fields), fields) != NVML_SUCCESS)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                sample->values[table[i].value] = field_number(&fields[i]);
}

/* NULL: it does not answer. */
static struct gpu_sample *sample_add_unit(struct gpu_samples *samples, const struct nvml *nvml, const struct gpu *gpu,
        const char *uuid, nvmlDevice_t *ret_device)
{
        struct gpu_sample sample = {.is_mig = uuid != gpu->uuid, .at_ms = clock_now_ms()};

        for (size_t i = 0; i < GPU_VALUES; i++)
                sample.values[i] = GPU_VALUE_UNKNOWN;
        if (NVML_CALL(nvml, device_get_by_uuid, uuid, ret_device) != NVML_SUCCESS ||
                !memory_answers(sample_read_memory(&sample, nvml, *ret_device)))
                return NULL;
        sample.uuid = arena_strdup(&samples->arena, uuid);
        sample.gpu = arena_strdup(&samples->arena, gpu->uuid);
        samples->units = xrealloc(samples->units, (samples->n_units + 1) * sizeof(*samples->units));
        samples->units[samples->n_units] = sample;
        return &samples->units[samples->n_units++];
}

void gpu_samples_add(struct gpu_samples *samples, const struct nvml *nvml, const struct gpu *gpu, const char *root,
        uint64_t since_ms)
{
        nvmlDevice_t device;
        struct gpu_sample *sample = sample_add_unit(samples, nvml, gpu, gpu->uuid, &device);

        if (!sample)
                return;
        read_load(sample, nvml, device);
        read_power(sample, nvml, device);
        read_ecc(sample, nvml, device);
        read_fields(sample, nvml, device);
        if (!gpu->mig_enabled)
                gpu_sample_processes(sample, &samples->arena, nvml, device, root, since_ms);
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                sample = sample_add_unit(samples, nvml, gpu, gpu->mig_devices[i].uuid, &device);
                if (sample)
                        gpu_sample_processes(sample, &samples->arena, nvml, device, root, since_ms);
        }
}
