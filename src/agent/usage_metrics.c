// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/metrics.h"
#include "config/kube_name.h"

/* ---- GPUs ---- */

/* Rows of one family stand together; the help is that of the first. */
struct gpu_family {
        const char *name;
        const char *help;
        enum exposition_type type;
        enum gpu_value value;
        double scale;
        const char *label; /* NULL: no further one */
        const char *label_value;
};

static const struct gpu_family gpu_families[] = {
        {"warpshare_gpu_utilization_ratio", "Part of the time in which a kernel ran, from 0 to 1.", EXPOSITION_GAUGE,
                GPU_BUSY, 0.01},
        {"warpshare_gpu_memory_controller_ratio", "Part of the time in which memory was read or written, from 0 to 1.",
                EXPOSITION_GAUGE, GPU_MEMORY_BUSY, 0.01},
        {"warpshare_gpu_encoder_ratio", "Part of the time in which the video encoder worked, from 0 to 1.",
                EXPOSITION_GAUGE, GPU_ENCODER_BUSY, 0.01},
        {"warpshare_gpu_decoder_ratio", "Part of the time in which the video decoder worked, from 0 to 1.",
                EXPOSITION_GAUGE, GPU_DECODER_BUSY, 0.01},
        {"warpshare_gpu_temperature_celsius", "Temperature of the GPU, and of its memory.", EXPOSITION_GAUGE,
                GPU_TEMPERATURE, 1, "sensor", "gpu"},
        {"warpshare_gpu_temperature_celsius", NULL, EXPOSITION_GAUGE, GPU_MEMORY_TEMPERATURE, 1, "sensor", "memory"},
        {"warpshare_gpu_power_watts", "Power that the board draws.", EXPOSITION_GAUGE, GPU_POWER, 0.001},
        {"warpshare_gpu_power_limit_watts", "Power that the board may draw.", EXPOSITION_GAUGE, GPU_POWER_LIMIT, 0.001},
        {"warpshare_gpu_energy_joules_total", "Energy that the board has used since the driver was loaded.",
                EXPOSITION_COUNTER, GPU_ENERGY, 0.001},
        {"warpshare_gpu_clock_hertz", "Present clock of the SMs, and of the memory.", EXPOSITION_GAUGE, GPU_SM_CLOCK,
                1e6, "domain", "sm"},
        {"warpshare_gpu_clock_hertz", NULL, EXPOSITION_GAUGE, GPU_MEMORY_CLOCK, 1e6, "domain", "memory"},
        {"warpshare_gpu_throttled_seconds_total",
                "Time for which the limit of power, or of temperature, has lowered the clocks.", EXPOSITION_COUNTER,
                GPU_POWER_THROTTLED, 1e-9, "reason", "power"},
        {"warpshare_gpu_throttled_seconds_total", NULL, EXPOSITION_COUNTER, GPU_THERMAL_THROTTLED, 1e-9, "reason",
                "thermal"},
        {"warpshare_gpu_ecc_errors_total", "Memory errors in the life of the board, corrected or not.",
                EXPOSITION_COUNTER, GPU_ECC_CORRECTED_AGGREGATE, 1, "type", "corrected"},
        {"warpshare_gpu_ecc_errors_total", NULL, EXPOSITION_COUNTER, GPU_ECC_UNCORRECTED_AGGREGATE, 1, "type",
                "uncorrected"},
        {"warpshare_gpu_ecc_volatile_errors_total", "Memory errors since the driver was loaded, corrected or not.",
                EXPOSITION_COUNTER, GPU_ECC_CORRECTED, 1, "type", "corrected"},
        {"warpshare_gpu_ecc_volatile_errors_total", NULL, EXPOSITION_COUNTER, GPU_ECC_UNCORRECTED, 1, "type",
                "uncorrected"},
        {"warpshare_gpu_remapped_rows_total", "Rows of memory that were remapped, by the kind of error.",
                EXPOSITION_COUNTER, GPU_REMAPPED_CORRECTED, 1, "type", "corrected"},
        {"warpshare_gpu_remapped_rows_total", NULL, EXPOSITION_COUNTER, GPU_REMAPPED_UNCORRECTED, 1, "type",
                "uncorrected"},
        {"warpshare_gpu_row_remap_pending", "1 if a row is to be remapped at the next reset.", EXPOSITION_GAUGE,
                GPU_REMAP_PENDING, 1},
        {"warpshare_gpu_row_remap_failed", "1 if a row could not be remapped.", EXPOSITION_GAUGE, GPU_REMAP_FAILED, 1},
        {"warpshare_gpu_retired_pages_total", "Pages of memory that were retired, by the kind of error.",
                EXPOSITION_COUNTER, GPU_RETIRED_CORRECTED, 1, "type", "corrected"},
        {"warpshare_gpu_retired_pages_total", NULL, EXPOSITION_COUNTER, GPU_RETIRED_UNCORRECTED, 1, "type",
                "uncorrected"},
        {"warpshare_gpu_page_retirement_pending", "1 if a page is to be retired at the next reset.", EXPOSITION_GAUGE,
                GPU_RETIRE_PENDING, 1},
        {"warpshare_gpu_pcie_replays_total", "Packets that were sent again over PCIe.", EXPOSITION_COUNTER,
                GPU_PCIE_REPLAYS, 1},
        {"warpshare_gpu_pcie_bytes_total", "Bytes over PCIe, sent or received by the GPU.", EXPOSITION_COUNTER,
                GPU_PCIE_SENT, 1, "direction", "sent"},
        {"warpshare_gpu_pcie_bytes_total", NULL, EXPOSITION_COUNTER, GPU_PCIE_RECEIVED, 1, "direction", "received"},
        {"warpshare_gpu_nvlink_bytes_total", "Data over all NVLinks, sent or received by the GPU.", EXPOSITION_COUNTER,
                GPU_NVLINK_SENT, 1024, "direction", "sent"},
        {"warpshare_gpu_nvlink_bytes_total", NULL, EXPOSITION_COUNTER, GPU_NVLINK_RECEIVED, 1024, "direction",
                "received"},
        {"warpshare_gpu_nvlink_errors_total", "Errors of all NVLinks of the GPU, by kind.", EXPOSITION_COUNTER,
                GPU_NVLINK_CRC_FLIT, 1, "type", "crc_flit"},
        {"warpshare_gpu_nvlink_errors_total", NULL, EXPOSITION_COUNTER, GPU_NVLINK_CRC_DATA, 1, "type", "crc_data"},
        {"warpshare_gpu_nvlink_errors_total", NULL, EXPOSITION_COUNTER, GPU_NVLINK_REPLAY, 1, "type", "replay"},
        {"warpshare_gpu_nvlink_errors_total", NULL, EXPOSITION_COUNTER, GPU_NVLINK_RECOVERY, 1, "type", "recovery"},
        {"warpshare_gpu_nvlink_errors_total", NULL, EXPOSITION_COUNTER, GPU_NVLINK_ECC, 1, "type", "ecc"},
};

#define INDEX_SIZE 24U

/* "3", or "3:1" of a MIG device, in |text|; NULL: it is not in the inventory. */
static const char *index_of(const struct node_usage_view *view, const char *uuid, char text[INDEX_SIZE])
{
        const struct mig_device *mig = NULL;
        const struct gpu *gpu = view->inventory ? inventory_find_unit(view->inventory, uuid, &mig) : NULL;

        if (gpu && mig)
                snprintf(text, INDEX_SIZE, "%u:%u", gpu->index, mig->index);
        else if (gpu)
                snprintf(text, INDEX_SIZE, "%u", gpu->index);
        return gpu ? text : NULL;
}

static void put_gpus(struct exposition *to, const struct node_usage_view *view)
{
        for (size_t i = 0; i < ARRAY_SIZE(gpu_families); i++) {
                const struct gpu_family *family = &gpu_families[i];

                if (family->help)
                        exposition_family(to, family->name, family->type, family->help);
                for (size_t j = 0; j < view->samples->n_units; j++) {
                        const struct gpu_sample *unit = &view->samples->units[j];
                        char text[INDEX_SIZE];
                        const char *index = index_of(view, unit->uuid, text);

                        if (!unit->is_mig && unit->values[family->value] != GPU_VALUE_UNKNOWN)
                                exposition_sample(to,
                                        EXPOSITION_LABELS({"gpu", unit->uuid}, {"index", index},
                                                {family->label ? family->label : "", family->label_value}),
                                        (double)unit->values[family->value] * family->scale);
                }
        }
}

static void put_clock_reasons(struct exposition *to, const struct node_usage_view *view)
{
        static const struct {
                unsigned long long bit;
                const char *name;
        } reasons[] = {
                {NVML_CLOCKS_EVENT_REASON_GPU_IDLE, "idle"},
                {NVML_CLOCKS_EVENT_REASON_APPLICATIONS_CLOCKS, "applications_clocks"},
                {NVML_CLOCKS_EVENT_REASON_SW_POWER_CAP, "sw_power_cap"},
                {NVML_CLOCKS_EVENT_REASON_HW_SLOWDOWN, "hw_slowdown"},
                {NVML_CLOCKS_EVENT_REASON_SYNC_BOOST, "sync_boost"},
                {NVML_CLOCKS_EVENT_REASON_SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"},
                {NVML_CLOCKS_EVENT_REASON_HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"},
                {NVML_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake"},
                {NVML_CLOCKS_EVENT_REASON_DISPLAY_CLOCK_SETTING, "display_clock"},
        };

        exposition_family(to, "warpshare_gpu_clock_reason", EXPOSITION_GAUGE,
                "1 if this is a reason for the present clock, else 0.");
        for (size_t i = 0; i < view->samples->n_units; i++) {
                const struct gpu_sample *unit = &view->samples->units[i];
                char text[INDEX_SIZE];
                const char *index = index_of(view, unit->uuid, text);
                const uint64_t bits = unit->values[GPU_CLOCK_REASONS];

                for (size_t j = 0; !unit->is_mig && bits != GPU_VALUE_UNKNOWN && j < ARRAY_SIZE(reasons); j++)
                        exposition_sample(to,
                                EXPOSITION_LABELS({"gpu", unit->uuid}, {"index", index}, {"reason", reasons[j].name}),
                                bits & reasons[j].bit ? 1 : 0);
        }
}

static void put_xid(struct exposition *to, const struct node_usage_view *view, const struct gpu_xid *xid, double value)
{
        char text[INDEX_SIZE];
        const char *index = index_of(view, xid->gpu, text);
        char number[24];

        snprintf(number, sizeof(number), "%" PRIu64, xid->xid);
        exposition_sample(to, EXPOSITION_LABELS({"gpu", xid->gpu}, {"index", index}, {"xid", number}), value);
}

static void usage_metrics_put_xids(struct exposition *to, const struct node_usage_view *view)
{
        exposition_family(to, "warpshare_gpu_xid_errors_total", EXPOSITION_COUNTER,
                "Xid errors of the GPU since the agent started, by number.");
        for (size_t i = 0; i < view->samples->n_xids; i++)
                put_xid(to, view, &view->samples->xids[i], (double)view->samples->xids[i].count);
        exposition_family(to, "warpshare_gpu_xid_last_timestamp_seconds", EXPOSITION_GAUGE,
                "When the GPU had that Xid error last, in seconds since the epoch.");
        for (size_t i = 0; i < view->samples->n_xids; i++)
                put_xid(to, view, &view->samples->xids[i], (double)view->samples->xids[i].last);
}

/* ---- units ---- */

static void put_unit_values(struct exposition *to, const struct node_usage_view *view)
{
        static const struct {
                const char *name;
                const char *help;
                enum gpu_value value;
        } families[] = {
                {"warpshare_unit_memory_capacity_bytes", "All memory of the unit.", GPU_MEMORY_TOTAL},
                {"warpshare_unit_memory_used_bytes", "Memory of the unit that is in use.", GPU_MEMORY_USED},
                {"warpshare_unit_memory_reserved_bytes", "Memory of the unit that the driver keeps for itself.",
                        GPU_MEMORY_RESERVED},
        };

        for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
                exposition_family(to, families[i].name, EXPOSITION_GAUGE, families[i].help);
                for (size_t j = 0; j < view->samples->n_units; j++) {
                        const struct gpu_sample *unit = &view->samples->units[j];
                        char text[INDEX_SIZE];
                        const char *index = index_of(view, unit->uuid, text);

                        if (unit->values[families[i].value] != GPU_VALUE_UNKNOWN)
                                exposition_sample(to, EXPOSITION_LABELS({"unit", unit->uuid}, {"index", index}),
                                        (double)unit->values[families[i].value]);
                }
        }
}

static void put_others(struct exposition *to, const struct node_usage_view *view)
{
        exposition_family(to, "warpshare_unit_other_memory_bytes", EXPOSITION_GAUGE,
                "Memory of the unit that no pod uses, by whom: mps-server, host (a process of no pod), hidden (a process "
                "that is not visible here) or unattributed (in use beyond the known processes).");
        for (size_t i = 0; i < view->samples->n_units; i++) {
                const struct gpu_sample *unit = &view->samples->units[i];
                char text[INDEX_SIZE];
                const char *index = index_of(view, unit->uuid, text);

                for (size_t j = 0; unit->has_processes && j < view->n_shares; j++) {
                        const struct usage_share *share = &view->shares[j];

                        if (share->kind != USAGE_POD && share->n_processes && share->memory != GPU_VALUE_UNKNOWN &&
                                strcmp(share->unit, unit->uuid) == 0)
                                exposition_sample(to,
                                        EXPOSITION_LABELS({"unit", unit->uuid}, {"index", index},
                                                {"by", usage_kind_name(share->kind)}),
                                        (double)share->memory);
                }
                if (usage_unattributed(unit) != GPU_VALUE_UNKNOWN)
                        exposition_sample(to,
                                EXPOSITION_LABELS({"unit", unit->uuid}, {"index", index}, {"by", "unattributed"}),
                                (double)usage_unattributed(unit));
        }
}

/* ---- containers ---- */

enum row_value {
        ROW_REPLICAS,
        ROW_LIMIT,
        ROW_THREADS,
        ROW_MEMORY,
        ROW_PEAK,
        ROW_SM,
        ROW_SECONDS,
        ROW_SM_SECONDS,
        ROW_ENERGY,
};

/* Negative: unknown. */
static double row_value(const struct usage_row *row, enum row_value value)
{
        static const struct usage_share none = {.sm_percent = GPU_PERCENT_UNKNOWN, .sm_seconds = -1, .energy = -1};
        const struct usage_share *share = row->share ? row->share : &none;

        switch (value) {
        case ROW_REPLICAS:
                return row->replicas ? (double)row->replicas : -1;
        case ROW_LIMIT:
                return row->limit ? (double)row->limit : -1;
        case ROW_THREADS:
                return row->threads_permille && row->threads_permille < 1000 ? row->threads_permille / 1000.0 : -1;
        case ROW_MEMORY:
                return share->memory == GPU_VALUE_UNKNOWN ? -1 : (double)share->memory;
        case ROW_PEAK:
                return (double)share->memory_peak;
        case ROW_SM:
                return share->sm_percent == GPU_PERCENT_UNKNOWN ? -1 : share->sm_percent / 100.0;
        case ROW_SECONDS:
                return share->seconds;
        case ROW_SM_SECONDS:
                return share->sm_seconds;
        case ROW_ENERGY:
                return share->energy;
        }
        return -1;
}

/* The source of a value; a row whose source is unavailable gets no sample. */
enum row_source {
        ROW_GRANTED, /* the ledger */
        ROW_KEPT,    /* readings so far */
        ROW_READING, /* the newest reading: the driver lists the unit's processes */
        /* like the two above, and 0 for a pod without processes, unless hidden processes may be its own */
        ROW_KEPT_OR_0,
        ROW_READING_OR_0,
};

static const struct {
        const char *name;
        const char *help;
        enum exposition_type type;
        enum row_source source;
        enum row_value value;
} row_families[] = {
        {"warpshare_container_replicas", "Replicas that it holds.", EXPOSITION_GAUGE, ROW_GRANTED, ROW_REPLICAS},
        {"warpshare_container_memory_limit_bytes", "Memory of the unit that it may use; absent without a limit.",
                EXPOSITION_GAUGE, ROW_GRANTED, ROW_LIMIT},
        {"warpshare_container_active_thread_ratio",
                "Part of the unit's threads that it may use, from 0 to 1; absent without a limit.", EXPOSITION_GAUGE,
                ROW_GRANTED, ROW_THREADS},
        {"warpshare_container_memory_used_bytes", "Memory of the unit that its processes use.", EXPOSITION_GAUGE,
                ROW_READING_OR_0, ROW_MEMORY},
        {"warpshare_container_memory_peak_bytes", "The most memory that its processes used within the last hour.",
                EXPOSITION_GAUGE, ROW_KEPT_OR_0, ROW_PEAK},
        {"warpshare_container_sm_ratio",
                "Activity of its processes on the unit's SMs, from 0 to 1; absent where the driver does not say.",
                EXPOSITION_GAUGE, ROW_READING, ROW_SM},
        {"warpshare_container_gpu_seconds_total", "Time for which it has had processes on the unit.",
                EXPOSITION_COUNTER, ROW_KEPT_OR_0, ROW_SECONDS},
        {"warpshare_container_sm_seconds_total",
                "That time, each moment multiplied by the activity on the SMs; absent where the driver does not say.",
                EXPOSITION_COUNTER, ROW_KEPT, ROW_SM_SECONDS},
        {"warpshare_container_energy_estimated_joules_total",
                "An estimate: energy above the unit's least power, divided by activity on the SMs.", EXPOSITION_COUNTER,
                ROW_KEPT, ROW_ENERGY},
};

#define ROW_LABELS ((size_t)9)

/* Only this family has the names: with names in each sample the page would be four times as large. */
static void put_names(struct exposition *to, const struct node_usage_view *view)
{
        exposition_family(to, "warpshare_container_info", EXPOSITION_GAUGE,
                "Always 1; its labels say whose share of which unit the label share of the next metrics means.");
        for (size_t i = 0; i < view->n_rows; i++) {
                const struct usage_row *row = &view->rows[i];

                struct exposition_label labels[ROW_LABELS + POD_LABELS_MAX + 1] = {{"share", row->id},
                        {"unit", *row->unit ? row->unit : NULL}, {"resource", row->resource},
                        {"namespace", row->pod_namespace}, {"pod", row->pod}, {"container", row->container},
                        {"claim", row->claim}, {"pod_uid", row->pod ? NULL : row->pod_uid},
                        {"tier", row_value(row, ROW_LIMIT) > 0 || row_value(row, ROW_THREADS) > 0 ? row->tier : NULL}};
                const char *const *names = node_pod_labels_names(view->labels);
                const char *const *values = node_pod_labels_find(view->labels, row->pod_namespace, row->pod);

                for (size_t j = 0; values && names[j]; j++)
                        labels[ROW_LABELS + j] = (struct exposition_label){names[j], values[j]};
                exposition_sample(to, labels, 1);
        }
}

/* A unit that rows are about. */
struct row_unit {
        bool is_listed; /* its processes are */
        bool has_hidden;
        bool is_sampled; /* some reading was made of anything */
};

static bool may_say(enum row_source source, const struct usage_row *row, const struct row_unit *unit)
{
        if (source == ROW_GRANTED)
                return true;
        if (!unit->is_sampled || !*row->unit)
                return false;
        if ((source == ROW_READING || source == ROW_READING_OR_0) && !unit->is_listed)
                return false;
        return row->share || ((source == ROW_KEPT_OR_0 || source == ROW_READING_OR_0) && !unit->has_hidden);
}

static void put_rows(struct exposition *to, const struct node_usage_view *view)
{
        struct row_unit unit = {.is_sampled = view->samples};

        for (size_t i = 0; i < ARRAY_SIZE(row_families); i++) {
                exposition_family(to, row_families[i].name, row_families[i].type, row_families[i].help);
                for (size_t j = 0; j < view->n_rows; j++) {
                        const struct usage_row *row = &view->rows[j];
                        const double value = row_value(row, row_families[i].value);

                        if (view->samples && (j == 0 || strcmp(row->unit, view->rows[j - 1].unit) != 0)) {
                                const struct gpu_sample *sample = node_usage_find_sample(view, row->unit);

                                unit.is_listed = sample && sample->has_processes;
                                unit.has_hidden = node_usage_has_hidden(view, row->unit);
                        }
                        if (value >= 0 && may_say(row_families[i].source, row, &unit))
                                exposition_sample(to, EXPOSITION_LABELS({"share", row->id}), value);
                }
        }
}

void usage_metrics_put(struct exposition *to, const struct node_usage_view *view)
{
        put_names(to, view);
        put_rows(to, view);
        if (!view->samples)
                return;
        put_gpus(to, view);
        put_clock_reasons(to, view);
        usage_metrics_put_xids(to, view);
        put_unit_values(to, view);
        put_others(to, view);
}

/* ---- under dcgm-exporter's names ---- */

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

static const struct usage_row *dcgm_find_row(const struct node_usage_view *view, const char *unit)
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
static bool dcgm_make_labels(struct dcgm_labels *labels, const struct node_usage_view *view, const char *unit)
{
        *labels = (struct dcgm_labels){.row = dcgm_find_row(view, unit)};
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

static void dcgm_put(struct exposition *to, const struct node_usage_view *view, const struct dcgm_labels *labels,
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
} dcgm_families[] = {
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
} dcgm_memory_families[] = {
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
        for (size_t i = 0; i < ARRAY_SIZE(dcgm_families); i++) {
                exposition_family(to, dcgm_families[i].name, dcgm_families[i].type, dcgm_families[i].help);
                for (size_t j = 0; j < view->samples->n_units; j++) {
                        const struct gpu_sample *unit = &view->samples->units[j];

                        if (!unit->is_mig && unit->values[dcgm_families[i].value] != GPU_VALUE_UNKNOWN &&
                                dcgm_make_labels(&labels, view, unit->uuid))
                                dcgm_put(to, view, &labels, host,
                                        (double)unit->values[dcgm_families[i].value] * dcgm_families[i].scale);
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(dcgm_memory_families); i++) {
                exposition_family(to, dcgm_memory_families[i].name, EXPOSITION_GAUGE, dcgm_memory_families[i].help);
                for (size_t j = 0; j < view->samples->n_units; j++) {
                        const double value = memory_of(&view->samples->units[j], dcgm_memory_families[i].value);

                        if (value >= 0 && dcgm_make_labels(&labels, view, view->samples->units[j].uuid) &&
                                !is_divided(view->samples, &labels))
                                dcgm_put(to, view, &labels, host, value);
                }
        }
        exposition_family(to, "DCGM_FI_DEV_XID_ERRORS", EXPOSITION_GAUGE, "The last Xid error; 0: none yet.");
        for (size_t j = 0; j < view->samples->n_units; j++)
                if (!view->samples->units[j].is_mig && dcgm_make_labels(&labels, view, view->samples->units[j].uuid))
                        dcgm_put(
                                to, view, &labels, host, (double)last_xid(view->samples, view->samples->units[j].uuid));
}
