#include "agent/metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MIB (1024 * 1024)

/* The labels before the value of a unit. */
struct dcgm_labels {
        const struct gpu *gpu;
        const struct mig_device *mig;
        const struct usage_row *row; /* of the one pod that has the unit; NULL: none, or several */
        char index[16];
        char bus[40];
        char device[24];
        char instance[16];
};

/* The driver's form, "00000000:3B:00.0", of "0000:3b:00.0". */
static void write_bus(const struct gpu *gpu, char *text, size_t size)
{
        snprintf(text, size, "0000%s", gpu->bus ? gpu->bus : "");
        for (char *c = text; *c; c++)
                *c = (char)toupper((unsigned char)*c);
}

static const struct usage_row *find_row(const struct node_usage_view *view, const char *unit)
{
        const struct usage_row *found = NULL;

        for (size_t i = 0; i < view->n_rows; i++) {
                if (strcmp(view->rows[i].unit, unit) != 0)
                        continue;
                if (found)
                        return NULL;
                found = &view->rows[i];
        }
        return found;
}

/* False: the unit is not in the inventory. */
static bool make_labels(struct dcgm_labels *labels, const struct node_usage_view *view, const char *unit)
{
        *labels = (struct dcgm_labels){.row = find_row(view, unit)};
        labels->gpu = view->inventory ? inventory_find_unit(view->inventory, unit, &labels->mig) : NULL;
        if (!labels->gpu)
                return false;
        snprintf(labels->index, sizeof(labels->index), "%u", labels->gpu->index);
        snprintf(labels->device, sizeof(labels->device), "nvidia%d", labels->gpu->minor);
        if (labels->mig)
                snprintf(labels->instance, sizeof(labels->instance), "%u", labels->mig->gpu_instance);
        write_bus(labels->gpu, labels->bus, sizeof(labels->bus));
        return true;
}

static void put(struct exposition *to, const struct node_usage_view *view, const struct dcgm_labels *labels,
        const char *host, double value)
{
        const struct gpu *gpu = labels->gpu;
        const struct usage_row *row = labels->row;

        exposition_sample(to,
                EXPOSITION_LABELS({"gpu", labels->index}, {"UUID", gpu->uuid},
                        {"pci_bus_id", gpu->bus ? labels->bus : NULL},
                        {"device", gpu->minor >= 0 ? labels->device : NULL}, {"modelName", gpu->name},
                        {"GPU_I_PROFILE", labels->mig ? labels->mig->profile : NULL},
                        {"GPU_I_ID", labels->mig ? labels->instance : NULL}, {"Hostname", *host ? host : NULL},
                        {"DCGM_FI_DRIVER_VERSION", view->inventory->driver_version},
                        {"container", row ? row->container : NULL},
                        {"namespace", row && row->pod ? row->pod_namespace : NULL}, {"pod", row ? row->pod : NULL}),
                value);
}

/* ---- values that are NVML's ---- */

static const struct {
        const char *name;
        const char *help;
        enum exposition_type type;
        enum gpu_value value;
        double scale;
} families[] = {
        {"DCGM_FI_DEV_SM_CLOCK", "Clock of the SMs, in MHz.", EXPOSITION_GAUGE, GPU_SM_CLOCK, 1},
        {"DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory, in MHz.", EXPOSITION_GAUGE, GPU_MEMORY_CLOCK, 1},
        {"DCGM_FI_DEV_MEMORY_TEMP", "Temperature of the memory, in degrees Celsius.", EXPOSITION_GAUGE,
                GPU_MEMORY_TEMPERATURE, 1},
        {"DCGM_FI_DEV_GPU_TEMP", "Temperature of the GPU, in degrees Celsius.", EXPOSITION_GAUGE, GPU_TEMPERATURE, 1},
        {"DCGM_FI_DEV_POWER_USAGE", "Power that the board draws, in watts.", EXPOSITION_GAUGE, GPU_POWER, 0.001},
        {"DCGM_FI_DEV_POWER_MGMT_LIMIT", "Power that the board may draw, in watts.", EXPOSITION_GAUGE, GPU_POWER_LIMIT,
                0.001},
        {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy since the driver was loaded, in millijoules.",
                EXPOSITION_COUNTER, GPU_ENERGY, 1},
        {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Packets that were sent again over PCIe.", EXPOSITION_COUNTER,
                GPU_PCIE_REPLAYS, 1},
        {"DCGM_FI_DEV_GPU_UTIL", "Time in which a kernel ran, in percent.", EXPOSITION_GAUGE, GPU_BUSY, 1},
        {"DCGM_FI_DEV_MEM_COPY_UTIL", "Time in which memory was read or written, in percent.", EXPOSITION_GAUGE,
                GPU_MEMORY_BUSY, 1},
        {"DCGM_FI_DEV_ENC_UTIL", "Time in which the video encoder worked, in percent.", EXPOSITION_GAUGE,
                GPU_ENCODER_BUSY, 1},
        {"DCGM_FI_DEV_DEC_UTIL", "Time in which the video decoder worked, in percent.", EXPOSITION_GAUGE,
                GPU_DECODER_BUSY, 1},
        {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Reasons for the present clock, as bits.", EXPOSITION_GAUGE,
                GPU_CLOCK_REASONS, 1},
        {"DCGM_FI_DEV_POWER_VIOLATION", "Time for which the power limit lowered the clocks, in nanoseconds.",
                EXPOSITION_COUNTER, GPU_POWER_THROTTLED, 1},
        {"DCGM_FI_DEV_THERMAL_VIOLATION", "Time for which the temperature lowered the clocks, in nanoseconds.",
                EXPOSITION_COUNTER, GPU_THERMAL_THROTTLED, 1},
        {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Corrected memory errors since the driver was loaded.", EXPOSITION_COUNTER,
                GPU_ECC_CORRECTED, 1},
        {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Uncorrected memory errors since the driver was loaded.", EXPOSITION_COUNTER,
                GPU_ECC_UNCORRECTED, 1},
        {"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "Corrected memory errors in the life of the board.", EXPOSITION_COUNTER,
                GPU_ECC_CORRECTED_AGGREGATE, 1},
        {"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "Uncorrected memory errors in the life of the board.", EXPOSITION_COUNTER,
                GPU_ECC_UNCORRECTED_AGGREGATE, 1},
        {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped because of uncorrected errors.", EXPOSITION_COUNTER,
                GPU_REMAPPED_UNCORRECTED, 1},
        {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped because of corrected errors.", EXPOSITION_COUNTER,
                GPU_REMAPPED_CORRECTED, 1},
        {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "1 if a row could not be remapped.", EXPOSITION_GAUGE, GPU_REMAP_FAILED, 1},
        {"DCGM_FI_DEV_ROW_REMAP_PENDING", "1 if a row is to be remapped at the next reset.", EXPOSITION_GAUGE,
                GPU_REMAP_PENDING, 1},
        {"DCGM_FI_DEV_RETIRED_SBE", "Pages retired because of corrected errors.", EXPOSITION_COUNTER,
                GPU_RETIRED_CORRECTED, 1},
        {"DCGM_FI_DEV_RETIRED_DBE", "Pages retired because of uncorrected errors.", EXPOSITION_COUNTER,
                GPU_RETIRED_UNCORRECTED, 1},
        {"DCGM_FI_DEV_RETIRED_PENDING", "1 if a page is to be retired at the next reset.", EXPOSITION_GAUGE,
                GPU_RETIRE_PENDING, 1},
        {"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "Errors of flow control on all NVLinks.", EXPOSITION_COUNTER,
                GPU_NVLINK_CRC_FLIT, 1},
        {"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "Errors of data on all NVLinks.", EXPOSITION_COUNTER,
                GPU_NVLINK_CRC_DATA, 1},
        {"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "Replays on all NVLinks.", EXPOSITION_COUNTER,
                GPU_NVLINK_REPLAY, 1},
        {"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "Recoveries of all NVLinks.", EXPOSITION_COUNTER,
                GPU_NVLINK_RECOVERY, 1},
};

/* ---- memory, of MIG devices, too ---- */

/* Whole MiB, as DCGM has it. */
static double in_mib(uint64_t bytes)
{
        const uint64_t whole = bytes / MIB;

        return (double)whole;
}

static bool is_known(const struct gpu_sample *unit, enum gpu_value value)
{
        return unit->values[value] != GPU_VALUE_UNKNOWN;
}

/* Negative: unknown. |value| GPU_MEMORY_TOTAL: what is free of it. */
static double memory_of(const struct gpu_sample *unit, enum gpu_value value)
{
        const uint64_t total = unit->values[GPU_MEMORY_TOTAL];
        uint64_t taken;

        if (!is_known(unit, value) || (value == GPU_MEMORY_TOTAL && !is_known(unit, GPU_MEMORY_USED)))
                return -1;
        if (value != GPU_MEMORY_TOTAL)
                return in_mib(unit->values[value]);
        taken = unit->values[GPU_MEMORY_USED] +
                (is_known(unit, GPU_MEMORY_RESERVED) ? unit->values[GPU_MEMORY_RESERVED] : 0);
        return taken < total ? in_mib(total - taken) : 0;
}

/*
 * dcgm-exporter has the MIG devices in the place of their GPU, so a sum counts all memory once: used of the GPU is what
 * its MIG devices use.
 */
static bool is_divided(const struct gpu_samples *samples, const struct dcgm_labels *labels)
{
        const struct mig_device *mig;

        for (size_t i = 0; !labels->mig && i < labels->gpu->n_mig_devices; i++) {
                mig = &labels->gpu->mig_devices[i];
                for (size_t j = 0; j < samples->n_units; j++)
                        if (strcmp(samples->units[j].uuid, mig->uuid) == 0)
                                return true;
        }
        return false;
}

static const struct {
        const char *name;
        const char *help;
        enum gpu_value value;
} memory_families[] = {
        {"DCGM_FI_DEV_FB_FREE", "Free memory, in MiB.", GPU_MEMORY_TOTAL},
        {"DCGM_FI_DEV_FB_USED", "Used memory, in MiB.", GPU_MEMORY_USED},
        {"DCGM_FI_DEV_FB_RESERVED", "Memory that the driver keeps for itself, in MiB.", GPU_MEMORY_RESERVED},
};

/* ---- the last Xid ---- */

static uint64_t last_xid(const struct gpu_samples *samples, const char *gpu)
{
        const struct gpu_xid *last = NULL;

        for (size_t i = 0; i < samples->n_xids; i++)
                if (strcmp(samples->xids[i].gpu, gpu) == 0 && (!last || samples->xids[i].last > last->last))
                        last = &samples->xids[i];
        return last ? last->xid : 0;
}

void dcgm_metrics_put(struct exposition *to, const struct node_usage_view *view, const char *host)
{
        struct dcgm_labels labels;

        if (!view->samples)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
                exposition_family(to, families[i].name, families[i].type, families[i].help);
                for (size_t j = 0; j < view->samples->n_units; j++) {
                        const struct gpu_sample *unit = &view->samples->units[j];

                        if (!unit->is_mig && unit->values[families[i].value] != GPU_VALUE_UNKNOWN &&
                                make_labels(&labels, view, unit->uuid))
                                put(to, view, &labels, host,
                                        (double)unit->values[families[i].value] * families[i].scale);
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(memory_families); i++) {
                exposition_family(to, memory_families[i].name, EXPOSITION_GAUGE, memory_families[i].help);
                for (size_t j = 0; j < view->samples->n_units; j++) {
                        const double value = memory_of(&view->samples->units[j], memory_families[i].value);

                        if (value >= 0 && make_labels(&labels, view, view->samples->units[j].uuid) &&
                                !is_divided(view->samples, &labels))
                                put(to, view, &labels, host, value);
                }
        }
        exposition_family(to, "DCGM_FI_DEV_XID_ERRORS", EXPOSITION_GAUGE, "The last Xid error; 0: none yet.");
        for (size_t j = 0; j < view->samples->n_units; j++)
                if (!view->samples->units[j].is_mig && make_labels(&labels, view, view->samples->units[j].uuid))
                        put(to, view, &labels, host, (double)last_xid(view->samples, view->samples->units[j].uuid));
}
