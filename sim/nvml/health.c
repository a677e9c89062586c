// SPDX-License-Identifier: Apache-2.0
/* ECC, remapped rows, retired pages, field values. */
#include "sim/nvml/calls.h"

#include <time.h>

#include "sim/nvml/library.h"

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!current || !pending)
                return NVML_ERROR_INVALID_ARGUMENT;
        *current = *pending = call.config->ecc ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
        return NVML_SUCCESS;
}

static nvmlReturn_t ecc_errors(const char *name, nvmlDevice_t device, nvmlMemoryErrorType_t error,
        nvmlEccCounterType_t counter, unsigned long long *count)
{
        _cleanup_(call_end) struct call call = call_device(name, device);

        if (call.result)
                return call.result;
        if (!count || error > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter > NVML_AGGREGATE_ECC)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!call.config->ecc)
                return NVML_ERROR_NOT_SUPPORTED;
        *count = call.compute ? 0 : call.config->ecc_errors[error][counter];
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(
        nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter, unsigned long long *count)
{
        return ecc_errors(__func__, device, error, counter, count);
}

/* All errors are in DRAM. */
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t error,
        nvmlEccCounterType_t counter, nvmlMemoryLocation_t location, unsigned long long *count)
{
        nvmlReturn_t result = ecc_errors(__func__, device, error, counter, count);

        if (result)
                return result;
        if (location > NVML_MEMORY_LOCATION_SRAM)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (location != NVML_MEMORY_LOCATION_DRAM)
                *count = 0;
        return NVML_SUCCESS;
}

/* GPUs before Ampere retire pages; Ampere and newer ones remap rows. */
static bool remaps_rows(const struct scenario_gpu *gpu)
{
        return gpu->model->architecture >= NVML_DEVICE_ARCH_AMPERE;
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *pending)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!pending)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (remaps_rows(call.config))
                return NVML_ERROR_NOT_SUPPORTED;
        *pending = call.config->retired_pending ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
        unsigned int *pending, unsigned int *failure)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!corrected || !uncorrected || !pending || !failure)
                return NVML_ERROR_INVALID_ARGUMENT;
        /* nvml.h: "NVML_ERROR_NOT_SUPPORTED if MIG is enabled or if the device doesn't support this feature". */
        if (!remaps_rows(call.config) || call.gpu->mig_current)
                return NVML_ERROR_NOT_SUPPORTED;
        *corrected = call.config->remapped_corrected;
        *uncorrected = call.config->remapped_uncorrected;
        *pending = call.config->remapped_pending;
        *failure = call.config->remapped_failure;
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);

        if (call.result)
                return call.result;
        if (!values)
                return NVML_ERROR_INVALID_ARGUMENT;
        if (!remaps_rows(call.config))
                return NVML_ERROR_NOT_SUPPORTED;
        *values = (nvmlRowRemapperHistogramValues_t){.max = call.config->model->memory_mib / 64};
        return NVML_SUCCESS;
}

static unsigned int links_to_switch(const struct scenario_gpu *gpu)
{
        return gpu->nvlink_switch ? gpu->model->nvlinks : 0;
}

static bool field_of_rows(const struct scenario_gpu *gpu, unsigned int id, unsigned int *value)
{
        if (!remaps_rows(gpu))
                return false;
        switch (id) {
        case NVML_FI_DEV_REMAPPED_COR:
                *value = gpu->remapped_corrected;
                return true;
        case NVML_FI_DEV_REMAPPED_UNC:
                *value = gpu->remapped_uncorrected;
                return true;
        case NVML_FI_DEV_REMAPPED_PENDING:
                *value = gpu->remapped_pending;
                return true;
        case NVML_FI_DEV_REMAPPED_FAILURE:
                *value = gpu->remapped_failure;
                return true;
        default:
                return false;
        }
}

static bool field_value(const struct call *call, unsigned int id, unsigned int *value)
{
        const struct scenario_versions *versions = &call->world->versions;
        const struct scenario_gpu *gpu = call->config;
        const struct model *model = gpu->model;

        switch (id) {
        case NVML_FI_DEV_RETIRED_SBE:
        case NVML_FI_DEV_RETIRED_DBE:
                *value = 0;
                return !remaps_rows(gpu);
        case NVML_FI_DEV_RETIRED_PENDING:
                *value = gpu->retired_pending;
                return !remaps_rows(gpu);
        case NVML_FI_DEV_MEMORY_TEMP:
                *value = gpu->temperature + 6;
                return model->architecture != NVML_DEVICE_ARCH_TURING; /* HBM reports it, GDDR6 of T4 does not */
        case NVML_FI_DEV_NVLINK_LINK_COUNT:
                *value = model->nvlinks;
                return model->nvlinks;
        case NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT:
                *value = links_to_switch(gpu);
                return model->nvlinks;
        case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
                *value = 0;
                return true;
        case NVML_FI_DEV_C2C_LINK_COUNT:
                *value = 10;
                return model->coherent;
        case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED:
                *value = model_sets_mig_mode_without_reset(model);
                return model->memory_slices;
        case NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE:
                *value = versions_report_profiles_without_mig(versions);
                return model->memory_slices;
        case NVML_FI_DEV_POWER_AVERAGE:
        case NVML_FI_DEV_POWER_INSTANT:
                *value = gpu->power_mw;
                return true;
        case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
                *value = gpu->recovery_action;
                return versions_report_recovery_actions(versions);
        default:
                return !call->gpu->mig_current && field_of_rows(gpu, id, value);
        }
}

static bool nvlink_errors(const struct scenario_gpu *gpu, unsigned int id, unsigned long long *value)
{
        static const unsigned int ids[] = {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
                NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
                NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL};

        if (!gpu->model->nvlinks || (id == NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL &&
                                            gpu->model->architecture < NVML_DEVICE_ARCH_AMPERE))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
                if (id == ids[i]) {
                        *value = gpu->nvlink_errors[i];
                        return true;
                }
        return false;
}

/* The fields of 64 bits. */
static bool wide_value(const struct scenario_gpu *gpu, unsigned int id, unsigned long long *value)
{
        switch (id) {
        case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
                *value = gpu->energy_mj;
                return true;
        case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
        case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
                *value = gpu->nvlink_kib[id - NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX];
                return gpu->model->nvlinks;
        case NVML_FI_DEV_PCIE_COUNT_TX_BYTES:
        case NVML_FI_DEV_PCIE_COUNT_RX_BYTES:
                *value = gpu->pcie_bytes[id - NVML_FI_DEV_PCIE_COUNT_TX_BYTES];
                return true;
        default:
                return nvlink_errors(gpu, id, value);
        }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
        _cleanup_(call_end) struct call call = call_gpu(__func__, device);
        struct timespec now;

        if (call.result)
                return call.result;
        if (!values || count < 0)
                return NVML_ERROR_INVALID_ARGUMENT;
        clock_gettime(CLOCK_REALTIME, &now);
        for (int i = 0; i < count; i++) {
                nvmlFieldValue_t *value = &values[i];
                unsigned int number = 0;

                value->timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
                value->latencyUsec = 0;
                value->value.ullVal = 0;
                value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
                value->nvmlReturn = NVML_SUCCESS;
                if (wide_value(call.config, value->fieldId, &value->value.ullVal)) {
                        value->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
                } else if (field_value(&call, value->fieldId, &number)) {
                        value->value.uiVal = number;
                } else {
                        value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
                }
        }
        return NVML_SUCCESS;
}
