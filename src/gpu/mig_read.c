// SPDX-License-Identifier: Apache-2.0
#include "gpu/mig_read.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "gpu/mig_instances.h"
#include "gpu/mig_profile.h"

/* ---- mig caps ---- */

#define ACCESS_MAX_SIZE ((size_t)4096)

/* Steps over |word| and the number behind it. */
static bool mig_caps_take_number(const char **text, const char *word, unsigned int *ret)
{
        const char *digits = *text + strlen(word);
        char number[16];
        size_t length;
        uint64_t value;

        if (!text_starts_with(*text, word))
                return false;
        length = strspn(digits, "0123456789");
        if (length >= sizeof(number))
                return false;
        snprintf(number, sizeof(number), "%.*s", (int)length, digits);
        if (!text_to_uint(number, INT32_MAX, &value))
                return false;
        *text = digits + length;
        *ret = (unsigned int)value;
        return true;
}

/* Readers get a const pointer; here the inventory is still being built. */
static struct mig_device *devices_of(const struct gpu *gpu)
{
        return (struct mig_device *)(uintptr_t)gpu->mig_devices;
}

static void set_cap(const struct gpu *gpu, unsigned int gi, const unsigned int *ci, int cap)
{
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                struct mig_device *mig = &devices_of(gpu)[i];

                if (mig->gpu_instance != gi)
                        continue;
                if (!ci)
                        mig->gpu_instance_cap = cap;
                else if (mig->compute_instance == *ci)
                        mig->compute_instance_cap = cap;
        }
}

/*
 * "gpu0/gi9/access 83" or "gpu0/gi9/ci0/access 84"; other lines ("config 1", "monitor 2") do not belong to an instance.
 */
static void mig_caps_read_line(const struct inventory *inventory, const char *line)
{
        unsigned int minor;
        unsigned int gi;
        unsigned int ci;
        unsigned int cap;
        bool has_ci;

        if (!mig_caps_take_number(&line, "gpu", &minor) || !mig_caps_take_number(&line, "/gi", &gi))
                return;
        has_ci = mig_caps_take_number(&line, "/ci", &ci);
        if (!mig_caps_take_number(&line, "/access ", &cap) || *line)
                return;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].minor == (int)minor)
                        set_cap(&inventory->gpus[i], gi, has_ci ? &ci : NULL, (int)cap);
}

static void read_minors(const struct inventory *inventory, const char *system_root)
{
        _free_ char *path = xasprintf("%s/proc/driver/nvidia-caps/mig-minors", system_root);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;
        char *rest;

        if (file_read(path, MIG_CAPS_MAX_SIZE, &text, &ignored) < 0)
                return;
        rest = text.data;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
                mig_caps_read_line(inventory, line);
}

/* The minor in the capability's own file, or unknown. */
static int read_access(const char *path)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;
        char *rest;

        if (file_read(path, ACCESS_MAX_SIZE, &text, &ignored) < 0)
                return GPU_UNKNOWN_INT;
        rest = text.data;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
                const char *position = line;
                unsigned int cap;

                if (mig_caps_take_number(&position, "DeviceFileMinor: ", &cap) && !*position)
                        return (int)cap;
        }
        return GPU_UNKNOWN_INT;
}

static void read_missing(const char *system_root, const struct gpu *gpu, struct mig_device *mig)
{
        _free_ char *folder = xasprintf(
                "%s/proc/driver/nvidia/capabilities/gpu%d/mig/gi%u", system_root, gpu->minor, mig->gpu_instance);
        _free_ char *gi = xasprintf("%s/access", folder);
        _free_ char *ci = xasprintf("%s/ci%u/access", folder, mig->compute_instance);

        if (mig->gpu_instance_cap < 0)
                mig->gpu_instance_cap = read_access(gi);
        if (mig->compute_instance_cap < 0)
                mig->compute_instance_cap = read_access(ci);
}

void mig_caps_read(struct inventory *inventory, const char *system_root)
{
        bool any = false;

        for (size_t g = 0; g < inventory->n_gpus; g++)
                any = any || inventory->gpus[g].n_mig_devices;
        if (!any)
                return;
        read_minors(inventory, system_root);
        for (size_t g = 0; g < inventory->n_gpus; g++) {
                const struct gpu *gpu = &inventory->gpus[g];

                for (size_t i = 0; i < gpu->n_mig_devices && gpu->minor >= 0; i++)
                        read_missing(system_root, gpu, &devices_of(gpu)[i]);
        }
}

/* ---- profiles ---- */

static bool has_profile(const char *const *profiles, size_t count, const char *name)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(profiles[i], name) == 0)
                        return true;
        return false;
}

/* A profile that this GPU does not have, or that the driver does not report, is left out. */
static void mig_read_read_profiles(struct arena *arena, const struct nvml *nvml, nvmlDevice_t device, struct gpu *gpu)
{
        const char **profiles = ARENA_ARRAY(arena, const char *, NVML_GPU_INSTANCE_PROFILE_COUNT);
        size_t count = 0;

        for (unsigned int i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++) {
                nvmlGpuInstanceProfileInfo_t info = {0};
                const char *name;

                if (NVML_CALL(nvml, device_get_instance_profile, device, i, &info) != NVML_SUCCESS)
                        continue;
                name = mig_instances_profile_name(arena, nvml, device, i, info.memorySizeMB, gpu->memory);
                if (name && !has_profile(profiles, count, name))
                        profiles[count++] = name;
        }
        gpu->mig_profiles = profiles;
        gpu->n_mig_profiles = count;
}

/* The index of the profile with this id, or an invalid index: then the profile has no name. */
static unsigned int find_gpu_profile(const struct nvml *nvml, nvmlDevice_t device, unsigned int id)
{
        nvmlGpuInstanceProfileInfo_t info = {0};
        unsigned int i = 0;

        while (i < NVML_GPU_INSTANCE_PROFILE_COUNT &&
                (NVML_CALL(nvml, device_get_instance_profile, device, i, &info) != NVML_SUCCESS || info.id != id))
                i++;
        return i;
}

static unsigned int find_compute_profile(const struct nvml *nvml, nvmlGpuInstance_t instance, unsigned int id)
{
        nvmlComputeInstanceProfileInfo_t info = {0};
        unsigned int i = 0;

        while (i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT &&
                (NVML_CALL(nvml, instance_get_compute_profile, instance, i, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
                         &info) != NVML_SUCCESS ||
                        info.id != id))
                i++;
        return i;
}

/* Why neither the sizes nor the driver's own name of the profile make a name. */
static int raise_no_name(const struct nvml *nvml, nvmlDevice_t device, struct error *err)
{
        nvmlMemory_t memory = {0};
        nvmlReturn_t code = NVML_CALL(nvml, device_get_memory, device, &memory);

        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetMemoryInfo", err);
        return error_set(err, ERROR_UNSUPPORTED, "NVML reports a profile that has no name here");
}

/*
 * From the instances to their profile ids, then to the indices that have names. Reading the slices from the attributes
 * would be simpler, but those do not show media engines or graphics.
 */
static int name_by_instances(char name[MIG_PROFILE_SIZE], struct arena *arena, const struct nvml *nvml,
        nvmlDevice_t device, const struct mig_device *mig, uint64_t total, struct error *err)
{
        nvmlComputeInstanceInfo_t compute_info = {0};
        nvmlGpuInstanceInfo_t info = {0};
        nvmlComputeInstance_t compute = NULL;
        nvmlGpuInstance_t instance = NULL;
        unsigned int slices;
        unsigned int index;
        const char *whole;

        if (NVML_TRY(nvml, err, device_get_instance, device, mig->gpu_instance, &instance) < 0 ||
                NVML_TRY(nvml, err, instance_get_info, instance, &info) < 0 ||
                NVML_TRY(nvml, err, instance_get_compute, instance, mig->compute_instance, &compute) < 0 ||
                NVML_TRY(nvml, err, compute_get_info, compute, &compute_info) < 0)
                return -1;
        slices = mig_profile_compute_slices(find_compute_profile(nvml, instance, compute_info.profileId));
        index = find_gpu_profile(nvml, device, info.profileId);
        whole = mig_instances_profile_name(arena, nvml, device, index, mig->attributes.memory_mib, total);
        if (!whole || !mig_profile_name_within(name, whole, index, slices))
                return raise_no_name(nvml, device, err);
        return 0;
}

/*
 * The instances of a MIG device may be kept from who may use it. Its name ends with its profile, but the text is the
 * driver's, so it comes second.
 */
static void name_profile(struct arena *arena, const struct nvml *nvml, nvmlDevice_t gpu_device, nvmlDevice_t device,
        struct mig_device *mig, uint64_t total)
{
        char product[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
        char name[MIG_PROFILE_SIZE];
        struct error err;

        if (name_by_instances(name, arena, nvml, gpu_device, mig, total, &err) < 0 &&
                (NVML_CALL(nvml, device_get_name, device, product, sizeof(product)) != NVML_SUCCESS ||
                        !mig_profile_read(name, nvml_text(arena, product, sizeof(product)))))
                mig->profile_failure = arena_strdup(arena, err.text);
        else
                mig->profile = arena_strdup(arena, name);
}

/* ---- MIG devices ---- */

static void take_attributes(struct mig_attributes *to, const nvmlDeviceAttributes_t *from)
{
        *to = (struct mig_attributes){
                .gpu_slices = from->gpuInstanceSliceCount,
                .compute_slices = from->computeInstanceSliceCount,
                .multiprocessors = from->multiprocessorCount,
                .copy_engines = from->sharedCopyEngineCount,
                .decoders = from->sharedDecoderCount,
                .encoders = from->sharedEncoderCount,
                .jpegs = from->sharedJpegCount,
                .ofas = from->sharedOfaCount,
                .memory_mib = from->memorySizeMB,
        };
}

static int mig_read_read_device(
        struct arena *arena, const struct nvml *nvml, nvmlDevice_t device, struct mig_device *mig, struct error *err)
{
        char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
        nvmlDeviceAttributes_t attributes = {0};
        nvmlMemory_t memory = {0};

        if (NVML_TRY(nvml, err, device_get_uuid, device, uuid, sizeof(uuid)) < 0)
                return -1;
        if (!*uuid)
                return error_set(err, ERROR_UNAVAILABLE, "nvmlDeviceGetUUID: the UUID is empty");
        if (NVML_TRY(nvml, err, device_get_gpu_instance, device, &mig->gpu_instance) < 0 ||
                NVML_TRY(nvml, err, device_get_compute_instance, device, &mig->compute_instance) < 0 ||
                NVML_TRY(nvml, err, device_get_attributes, device, &attributes) < 0)
                return -1;
        mig->uuid = nvml_text(arena, uuid, sizeof(uuid));
        mig->gpu_instance_cap = mig->compute_instance_cap = GPU_UNKNOWN_INT;
        take_attributes(&mig->attributes, &attributes);
        if (NVML_CALL(nvml, device_get_memory, device, &memory) == NVML_SUCCESS && memory.total)
                mig->memory = memory.total;
        else
                mig->memory = attributes.memorySizeMB << 20;
        return 0;
}

/* 1: there is a MIG device at |index|, and |mig| is it; 0: there is none, which is normal; -1. */
static int mig_read_find_device(struct arena *arena, const struct nvml *nvml, nvmlDevice_t gpu_device,
        const struct gpu *gpu, unsigned int index, struct mig_device *mig, struct error *err)
{
        nvmlDevice_t device = NULL;
        nvmlReturn_t code = NVML_CALL(nvml, device_get_mig_by_index, gpu_device, index, &device);

        if (code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_INVALID_ARGUMENT)
                return 0;
        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetMigDeviceHandleByIndex", err);
        *mig = (struct mig_device){.index = index};
        if (mig_read_read_device(arena, nvml, device, mig, err) < 0)
                return -1;
        name_profile(arena, nvml, gpu_device, device, mig, gpu->memory);
        return 1;
}

static void mig_read_read_devices(struct arena *arena, const struct nvml *nvml, nvmlDevice_t device, struct gpu *gpu)
{
        struct mig_device *devices = ARENA_ARRAY(arena, struct mig_device, gpu->mig_max);
        const char **failures = ARENA_ARRAY(arena, const char *, gpu->mig_max);
        struct error err;

        gpu->mig_devices = devices;
        gpu->mig_failures = failures;
        for (unsigned int i = 0; i < gpu->mig_max; i++) {
                int found = mig_read_find_device(arena, nvml, device, gpu, i, &devices[gpu->n_mig_devices], &err);

                if (found < 0)
                        failures[gpu->n_mig_failures++] = arena_printf(arena, "MIG device %u: %s", i, err.text);
                else if (found)
                        gpu->n_mig_devices++;
        }
}

/* ---- geometry ---- */

static struct mig_instance_profile flatten_profile(const struct mig_gpu_profile *from)
{
        struct mig_instance_profile profile = {.name = from->name,
                .id = from->id,
                .slices = from->slices,
                .count = from->max,
                .attributes = from->attributes};

        for (size_t i = 0; i < from->n_placements; i++)
                if (from->placements[i].start < 32) {
                        profile.starts |= 1U << from->placements[i].start;
                        profile.size = from->placements[i].size;
                }
        return profile;
}

/* A process that may see MIG devices may lack the rights for this; the rest of the GPU is known even so. */
static void read_geometry(struct arena *arena, const struct nvml *nvml, nvmlDevice_t device, struct gpu *gpu)
{
        const struct mig_gpu of = {.nvml = nvml, .uuid = gpu->uuid, .device = device};
        struct mig_instance_profile *profiles;
        struct mig_placed *placed;
        struct mig_geometry geometry;
        struct error err;

        if (mig_instances_read(&geometry, arena, &of, &err) < 0) {
                gpu->mig_geometry_failure = arena_strdup(arena, err.text);
                return;
        }
        profiles = ARENA_ARRAY(arena, struct mig_instance_profile, geometry.n_profiles);
        placed = ARENA_ARRAY(arena, struct mig_placed, geometry.n_instances);
        for (size_t i = 0; i < geometry.n_profiles; i++)
                profiles[i] = flatten_profile(&geometry.profiles[i]);
        for (size_t i = 0; i < geometry.n_instances; i++)
                placed[i] = (struct mig_placed){.gpu_instance = geometry.instances[i].id,
                        .profile_id = geometry.instances[i].profile->id,
                        .start = geometry.instances[i].placement.start};
        gpu->mig_instance_profiles = profiles;
        gpu->n_mig_instance_profiles = geometry.n_profiles;
        gpu->mig_placed = placed;
        gpu->n_mig_placed = geometry.n_instances;
}

int mig_read(
        struct inventory *inventory, const struct nvml *nvml, nvmlDevice_t device, struct gpu *gpu, struct error *err)
{
        unsigned int current = NVML_DEVICE_MIG_DISABLE;
        unsigned int pending = NVML_DEVICE_MIG_DISABLE;
        int known;

        known = NVML_ASK(nvml, err, device_get_mig_mode, device, &current, &pending);
        if (known <= 0)
                return known;
        gpu->mig_capable = true;
        gpu->mig_enabled = current == NVML_DEVICE_MIG_ENABLE;
        known = NVML_ASK(nvml, err, device_get_mig_max, device, &gpu->mig_max);
        if (known < 0)
                return -1;
        gpu->mig_max = known ? MIN(gpu->mig_max, MIG_READ_MAX) : 0;
        mig_read_read_profiles(&inventory->arena, nvml, device, gpu);
        if (gpu->mig_enabled) {
                mig_read_read_devices(&inventory->arena, nvml, device, gpu);
                read_geometry(&inventory->arena, nvml, device, gpu);
        }
        return 0;
}
