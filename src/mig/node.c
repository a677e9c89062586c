// SPDX-License-Identifier: Apache-2.0
#include "mig/node.h"

#include <string.h>

#include "gpu/hangs.h"
#include "gpu/nvml_read.h"
#include "mig/profile_text.h"

/* 1: the GPU has MIG; 0: it has none, or the driver is too old for it; -1. */
static int node_read_capability(const struct mig_gpu *gpu, struct error *err)
{
        unsigned int current = 0;
        unsigned int pending = 0;
        nvmlReturn_t code = NVML_CALL(gpu->nvml, device_get_mig_mode, gpu->device, &current, &pending);

        if (code == NVML_ERROR_NOT_SUPPORTED || code == NVML_ERROR_FUNCTION_NOT_FOUND)
                return 0;
        return code == NVML_SUCCESS ? 1 : nvml_fail(gpu->nvml, code, "nvmlDeviceGetMigMode", err);
}

static int node_read_identity(
        struct mig_node_gpu *ret, struct arena *arena, const struct nvml *nvml, nvmlDevice_t device, struct error *err)
{
        char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
        char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
        nvmlPciInfo_t pci = {0};
        nvmlReturn_t code = NVML_CALL(nvml, device_get_uuid, device, uuid, sizeof(uuid));
        int known;

        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetUUID", err);
        ret->uuid = nvml_text(arena, uuid, sizeof(uuid));
        if (NVML_TRY(nvml, err, device_get_name, device, name, sizeof(name)) < 0)
                return -1;
        ret->name = nvml_text(arena, name, sizeof(name));
        known = NVML_ASK(nvml, err, device_get_pci, device, &pci);
        if (known <= 0)
                return known;
        ret->bus_id = nvml_text(arena, pci.busId, sizeof(pci.busId));
        ret->pci_device = pci.pciDeviceId;
        ret->pci_subsystem = pci.pciSubSystemId;
        return 0;
}

static int node_read_gpu(struct mig_node_gpu *ret, struct arena *arena, const struct nvml *nvml, struct error *err)
{
        struct mig_gpu gpu = {.nvml = nvml};
        int capable;

        gpu_call_about(CALL_ON_GPU, ret->index, NULL);
        if (NVML_TRY(nvml, err, device_get_by_index, ret->index, &gpu.device) < 0)
                return -1;
        if (node_read_identity(ret, arena, nvml, gpu.device, err) < 0)
                return -1;
        gpu.uuid = ret->uuid;
        gpu_call_about(CALL_ON_GPU, ret->index, ret->uuid);
        capable = node_read_capability(&gpu, err);
        if (capable <= 0)
                return capable;
        ret->is_capable = true;
        return mig_instances_read(&ret->geometry, arena, &gpu, err);
}

int mig_node_read(struct mig_node *ret, struct arena *arena, const struct nvml *nvml, struct error *err)
{
        char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
        struct mig_node_gpu *gpus;
        unsigned int count = 0;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_count, &count);

        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetCount", err);
        if (count > NVML_READ_MAX_GPUS)
                return error_set(err, ERROR_INVALID, "nvmlDeviceGetCount: %u GPUs, at most %u are supported", count,
                        NVML_READ_MAX_GPUS);
        if (NVML_CALL(nvml, system_get_driver_version, version, sizeof(version)) != NVML_SUCCESS)
                version[0] = '\0';
        gpus = ARENA_ARRAY(arena, struct mig_node_gpu, count);
        for (unsigned int i = 0; i < count; i++) {
                struct error problem;

                gpus[i] = (struct mig_node_gpu){.index = i, .uuid = "", .name = "", .bus_id = ""};
                if (node_read_gpu(&gpus[i], arena, nvml, &problem) < 0)
                        gpus[i].problem = arena_strdup(arena, problem.text);
        }
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
        *ret = (struct mig_node){
                .gpus = gpus, .n_gpus = count, .driver_version = nvml_text(arena, version, sizeof(version))};
        return 0;
}

unsigned int mig_device_compute(const struct mig_gpu_instance *instance, size_t index)
{
        unsigned int slices = instance->devices[index].slices;

        return slices == instance->profile->slices ? 0 : slices;
}

/* ---- what is wanted ---- */

struct mig_wanted_count *mig_wanted_find(
        struct mig_wanted_count *counts, size_t n_counts, const char *profile, unsigned int compute)
{
        for (size_t i = 0; i < n_counts; i++)
                if (counts[i].compute == compute && strcmp(counts[i].profile, profile) == 0)
                        return &counts[i];
        return NULL;
}

void mig_wanted_add(struct mig_wanted_count *counts, size_t *n_counts, const struct mig_wanted_count *added)
{
        struct mig_wanted_count *found = mig_wanted_find(counts, *n_counts, added->profile, added->compute);

        if (found)
                found->count += added->count;
        else
                counts[(*n_counts)++] = *added;
}

static unsigned int count_there(const struct mig_geometry *geometry, const char *profile, unsigned int compute)
{
        unsigned int there = 0;

        for (size_t i = 0; i < geometry->n_instances; i++)
                for (size_t k = 0; k < geometry->instances[i].n_devices; k++)
                        there += mig_device_compute(&geometry->instances[i], k) == compute &&
                                 strcmp(geometry->instances[i].profile->name, profile) == 0;
        return there;
}

static const char *compare_profile(struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted,
        const char *profile, unsigned int compute)
{
        unsigned int there = count_there(&gpu->geometry, profile, compute);
        const struct mig_wanted_count *found = mig_wanted_find(
                (struct mig_wanted_count *)(uintptr_t)wanted->counts, wanted->n_counts, profile, compute);
        unsigned int count = found ? found->count : 0;

        return there == count ? NULL
                              : arena_printf(arena, "GPU %u has %u of %s, wanted are %u", gpu->index, there,
                                        mig_profile_text_device(arena, profile, compute), count);
}

static const char *compare_instance(struct arena *arena, const struct mig_node_gpu *gpu,
        const struct mig_wanted *wanted, const struct mig_gpu_instance *instance)
{
        const char *difference = NULL;

        if (instance->n_devices == 0)
                return arena_printf(arena,
                        "GPU instance %u of GPU %u (%s) has no compute instance, so it is no MIG device", instance->id,
                        gpu->index, instance->profile->name);
        for (size_t k = 0; k < instance->n_devices && !difference; k++)
                difference =
                        compare_profile(arena, gpu, wanted, instance->profile->name, mig_device_compute(instance, k));
        return difference;
}

const char *mig_compare(
        struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted, bool is_mode_only)
{
        static const char *const modes[] = {"disabled", "enabled"};
        const struct mig_geometry *geometry = &gpu->geometry;

        if (!wanted->is_named)
                return NULL;
        if (gpu->problem)
                return gpu->problem;
        if (geometry->is_enabled != wanted->is_enabled)
                return arena_printf(arena, "MIG is %s on GPU %u, wanted is %s%s", modes[geometry->is_enabled],
                        gpu->index, modes[wanted->is_enabled],
                        geometry->is_pending_enabled == wanted->is_enabled ? " (after a reset of the GPU)" : "");
        for (size_t i = 0; i < geometry->n_instances && !is_mode_only; i++) {
                const char *difference = compare_instance(arena, gpu, wanted, &geometry->instances[i]);

                if (difference)
                        return difference;
        }
        for (size_t i = 0; i < wanted->n_counts && !is_mode_only; i++) {
                const char *difference =
                        compare_profile(arena, gpu, wanted, wanted->counts[i].profile, wanted->counts[i].compute);

                if (difference)
                        return difference;
        }
        return NULL;
}
