// SPDX-License-Identifier: Apache-2.0
#include "gpu/look.h"

#include <stdio.h>
#include <string.h>

#include "gpu/nvml_read.h"

/* ---- probe ---- */

/* The driver does not have the GPU. If the GPU is found later, it was reset or enumerated again. */
static bool probe_is_gone(nvmlReturn_t code)
{
        return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_GPU_NOT_FOUND;
}

static struct probe_result fail_call(const struct nvml *nvml, nvmlReturn_t code, const char *call)
{
        struct probe_result result = {.finding = probe_is_gone(code) ? HEALTH_GONE : HEALTH_BAD};
        struct error err;

        (void)!nvml_fail(nvml, code, call, &err);
        snprintf(result.reason, sizeof(result.reason), "%.*s", (int)sizeof(result.reason) - 1, err.text);
        return result;
}

static struct probe_result probe_read_unit(const struct nvml *nvml, const char *uuid, nvmlDevice_t *ret_device)
{
        nvmlMemory_t memory;
        nvmlReturn_t code;

        code = NVML_CALL(nvml, device_get_by_uuid, uuid, ret_device);
        if (code != NVML_SUCCESS)
                return fail_call(nvml, code, "nvmlDeviceGetHandleByUUID");
        code = NVML_CALL(nvml, device_get_memory, *ret_device, &memory);
        if (code != NVML_SUCCESS && !nvml_is_unknown(code))
                return fail_call(nvml, code, "nvmlDeviceGetMemoryInfo");
        return (struct probe_result){.finding = HEALTH_GOOD};
}

static const char *recovery_action(const struct nvml *nvml, nvmlDevice_t device, enum health_finding *finding)
{
        nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION};

        if (NVML_CALL(nvml, device_get_field_values, device, 1, &field) != NVML_SUCCESS ||
                field.nvmlReturn != NVML_SUCCESS)
                return NULL;
        switch (field.value.uiVal) {
        case NVML_GPU_RECOVERY_ACTION_NONE:
                *finding = HEALTH_CLEARED;
                return NULL;
        case NVML_GPU_RECOVERY_ACTION_GPU_RESET:
                return "the driver asks for a reset of the GPU";
        case NVML_GPU_RECOVERY_ACTION_NODE_REBOOT:
                return "the driver asks for a reboot of the node";
        case NVML_GPU_RECOVERY_ACTION_DRAIN_P2P:
                return "the driver asks to end all peer-to-peer traffic of the GPU";
        case NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET:
                return "the driver asks to drain and reset the GPU";
        case NVML_GPU_RECOVERY_ACTION_GPU_RESET_IMEX:
                return "the driver asks to recover the IMEX domain of the GPU";
        default:
                return "the driver asks for a recovery action on the GPU";
        }
}

/*
 * Older boards, which retire pages and cannot contain errors. A driver that does not know architectures knows nothing
 * newer than Turing.
 */
static bool is_before_ampere(const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlDeviceArchitecture_t architecture;
        int major;
        int minor;

        if (NVML_CALL(nvml, device_get_architecture, device, &architecture) == NVML_SUCCESS)
                return architecture < NVML_DEVICE_ARCH_AMPERE;
        return NVML_CALL(nvml, device_get_compute_capability, device, &major, &minor) == NVML_SUCCESS && major < 8;
}

static const char *retirement(const struct nvml *nvml, nvmlDevice_t device)
{
        nvmlEnableState_t pending = NVML_FEATURE_DISABLED;
        unsigned long long errors = 0;

        if (NVML_CALL(nvml, device_get_retired_pending, device, &pending) == NVML_SUCCESS &&
                pending == NVML_FEATURE_ENABLED)
                return "a memory page is to be retired: the GPU needs a reset";
        if (NVML_CALL(nvml, device_get_ecc_errors, device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC,
                    &errors) == NVML_SUCCESS &&
                errors > 0)
                return "memory errors that could not be corrected: the GPU needs a reset";
        return NULL;
}

static const char *memory_fault(const struct nvml *nvml, nvmlDevice_t device, bool remaps_count)
{
        unsigned int corrected = 0;
        unsigned int uncorrected = 0;
        unsigned int pending = 0;
        unsigned int failure = 0;

        if (is_before_ampere(nvml, device))
                return retirement(nvml, device);
        if (NVML_CALL(nvml, device_get_remapped_rows, device, &corrected, &uncorrected, &pending, &failure) !=
                NVML_SUCCESS)
                return NULL;
        if (failure)
                return "a memory row could not be remapped: the board needs service";
        return pending && remaps_count ? "a memory row is to be remapped: the GPU needs a reset" : NULL;
}

struct probe_result probe_gpu(const struct nvml *nvml, const char *uuid, bool remaps_count)
{
        nvmlDevice_t device = NULL;
        struct probe_result result = probe_read_unit(nvml, uuid, &device);
        const char *failure;

        if (!health_is_good(result.finding))
                return result;
        failure = recovery_action(nvml, device, &result.finding);
        if (!failure)
                failure = memory_fault(nvml, device, remaps_count);
        if (failure) {
                result.finding = HEALTH_BAD;
                snprintf(result.reason, sizeof(result.reason), "%s", failure);
        }
        return result;
}

struct probe_result probe_mig_device(const struct nvml *nvml, const char *uuid)
{
        nvmlDevice_t device;

        return probe_read_unit(nvml, uuid, &device);
}

/* ---- the inventory, in the process ---- */

static void pack_wanted(struct pack *pack, struct look_reading_wanted *wanted)
{
        PACK(pack, *wanted);
        pack_text(pack, &wanted->paths.system_root);
        pack_text(pack, &wanted->paths.driver_root);
}

static void pack_reading(struct pack *pack, struct look_reading *reading)
{
        PACK(pack, *reading);
        if (reading->platform == PLATFORM_NVML && (!pack_reads(pack) || !pack->is_short))
                inventory_pack(pack, &reading->inventory);
        PACK_ARRAY(pack, reading->findings, reading->n_findings);
}

/* All calls on GPUs would fail in the same way; this call says why. */
static int check_library(const struct nvml *nvml, struct error *err)
{
        char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
        nvmlReturn_t code = NVML_CALL(nvml, system_get_driver_version, text, sizeof(text));

        return look_is_fatal(code) ? nvml_fail(nvml, code, "nvmlSystemGetDriverVersion", err) : 0;
}

static void add_finding(struct look_reading *reading, const char *unit, const struct probe_result *result)
{
        struct look_finding *finding = &reading->findings[reading->n_findings++];

        snprintf(finding->unit, sizeof(finding->unit), "%s", unit);
        finding->result = *result;
}

static void look_at_gpu(
        struct look_reading *reading, const struct nvml *nvml, const struct gpu *gpu, bool counts_remaps)
{
        struct probe_result result;

        gpu_call_about(CALL_ON_GPU, gpu->index, gpu->uuid);
        result = probe_gpu(nvml, gpu->uuid, counts_remaps);
        add_finding(reading, gpu->uuid, &result);
        for (size_t i = 0; health_is_good(result.finding) && i < gpu->n_mig_devices; i++) {
                const struct probe_result own = probe_mig_device(nvml, gpu->mig_devices[i].uuid);

                add_finding(reading, gpu->mig_devices[i].uuid, &own);
        }
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
}

static void look_at_gpus(struct look_reading *reading, struct arena *arena, const struct nvml *nvml,
        const struct look_reading_wanted *wanted)
{
        const struct inventory *inventory = reading->inventory;
        size_t n_units = inventory->n_gpus;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                n_units += inventory->gpus[i].n_mig_devices;
        reading->findings = ARENA_ARRAY(arena, struct look_finding, n_units);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (!skips_find(&wanted->skips, inventory->gpus[i].uuid))
                        look_at_gpu(reading, nvml, &inventory->gpus[i], wanted->counts_remaps);
}

static int look_read_all(struct look_reading *reading, struct nvml_serving *serving,
        const struct look_reading_wanted *wanted, struct error *err)
{
        const struct nvml *nvml;

        if (nvml_serving_open(serving, &nvml, err) < 0 || check_library(nvml, err) < 0)
                return -1;
        if (NVML_TRY(nvml, err, device_get_count, &reading->nvml_count) < 0)
                return -1;
        reading->mark = serving->mark;
        reading->gpus = serving->gpus;
        reading->now = nvml_serving_mark(serving);
        reading->seen = nvml_serving_gpus(serving);
        if (nvml_read(&reading->inventory, nvml, &wanted->paths, &wanted->skips, err) < 0)
                return -1;
        if (wanted->has_probes)
                look_at_gpus(reading, &serving->arena, nvml, wanted);
        return 0;
}

static int serve_reading(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct look_reading reading = {.platform = PLATFORM_NVML};
        struct look_reading_wanted wanted;

        pack_wanted(question, &wanted);
        if (!serving->nvml)
                reading.platform = platform_detect(wanted.discovery, &wanted.paths, serving->library, wanted.can_load);
        if (reading.platform == PLATFORM_NVML && look_read_all(&reading, serving, &wanted, err) < 0)
                return -1;
        pack_reading(answer, &reading);
        inventory_free(reading.inventory);
        return 0;
}

void look_ask_reading(struct nvml_request *request, const struct look_reading_wanted *wanted)
{
        struct pack pack = pack_writer(&request->question);
        struct look_reading_wanted asked = *wanted;

        request->serve = serve_reading;
        pack_wanted(&pack, &asked);
}

bool look_reading_unpack(struct pack *answer, struct look_reading *ret)
{
        *ret = (struct look_reading){0};
        pack_reading(answer, ret);
        if (ret->platform != PLATFORM_NVML)
                ret->inventory = NULL;
        return pack_end(answer);
}
