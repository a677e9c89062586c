// SPDX-License-Identifier: Apache-2.0
#include "gpu/inventory.h"

#include <string.h>

#include "base/text.h"

struct gpu inventory_unknown_gpu(const char *uuid)
{
        return (struct gpu){
                .uuid = uuid,
                .name = "",
                .minor = GPU_UNKNOWN_INT,
                .brand = GPU_UNKNOWN_INT,
                .numa_node = GPU_UNKNOWN_INT,
                .compute_major = GPU_UNKNOWN_INT,
                .compute_minor = GPU_UNKNOWN_INT,
                .coherent = GPU_UNKNOWN_INT,
        };
}

struct inventory *inventory_new(void)
{
        return xcalloc(1, sizeof(struct inventory));
}

struct inventory *inventory_free(struct inventory *inventory)
{
        if (inventory) {
                arena_done(&inventory->arena);
                free(inventory);
        }
        return NULL;
}

const struct gpu *inventory_find(const struct inventory *inventory, const char *uuid)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (strcmp(inventory->gpus[i].uuid, uuid) == 0)
                        return &inventory->gpus[i];
        return NULL;
}

const struct gpu *inventory_find_unit(
        const struct inventory *inventory, const char *uuid, const struct mig_device **ret_mig)
{
        *ret_mig = NULL;
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (strcmp(gpu->uuid, uuid) == 0)
                        return gpu;
                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        if (strcmp(gpu->mig_devices[j].uuid, uuid) != 0)
                                continue;
                        *ret_mig = &gpu->mig_devices[j];
                        return gpu;
                }
        }
        return NULL;
}

bool gpu_has_unit(const struct gpu *gpu, const char *uuid)
{
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                if (strcmp(gpu->mig_devices[i].uuid, uuid) == 0)
                        return true;
        return strcmp(gpu->uuid, uuid) == 0;
}

bool inventory_has(const struct inventory *inventory, const char *uuid)
{
        const struct mig_device *mig;

        return inventory_find_unit(inventory, uuid, &mig) != NULL;
}

static bool texts_are_same(const char *const *a, size_t n_a, const char *const *b, size_t n_b)
{
        if (n_a != n_b)
                return false;
        for (size_t i = 0; i < n_a; i++)
                if (strcmp(a[i], b[i]) != 0)
                        return false;
        return true;
}

bool mig_attributes_are_same(const struct mig_attributes *a, const struct mig_attributes *b)
{
        return a->gpu_slices == b->gpu_slices && a->compute_slices == b->compute_slices &&
               a->multiprocessors == b->multiprocessors && a->copy_engines == b->copy_engines &&
               a->decoders == b->decoders && a->encoders == b->encoders && a->jpegs == b->jpegs && a->ofas == b->ofas &&
               a->memory_mib == b->memory_mib;
}

static bool mig_is_same(const struct mig_device *a, const struct mig_device *b)
{
        return text_is_same(a->uuid, b->uuid) && text_is_same(a->profile, b->profile) && a->index == b->index &&
               a->gpu_instance == b->gpu_instance && a->compute_instance == b->compute_instance &&
               a->gpu_instance_cap == b->gpu_instance_cap && a->compute_instance_cap == b->compute_instance_cap &&
               mig_attributes_are_same(&a->attributes, &b->attributes) && a->memory == b->memory &&
               !a->failure == !b->failure;
}

static bool geometry_is_same(const struct gpu *a, const struct gpu *b)
{
        if (a->n_mig_instance_profiles != b->n_mig_instance_profiles || a->n_mig_placed != b->n_mig_placed ||
                !a->mig_geometry_failure != !b->mig_geometry_failure)
                return false;
        for (size_t i = 0; i < a->n_mig_instance_profiles; i++) {
                const struct mig_instance_profile *one = &a->mig_instance_profiles[i];
                const struct mig_instance_profile *other = &b->mig_instance_profiles[i];

                if (!text_is_same(one->name, other->name) || one->id != other->id || one->slices != other->slices ||
                        one->size != other->size || one->count != other->count || one->starts != other->starts ||
                        !mig_attributes_are_same(&one->attributes, &other->attributes))
                        return false;
        }
        for (size_t i = 0; i < a->n_mig_placed; i++)
                if (a->mig_placed[i].gpu_instance != b->mig_placed[i].gpu_instance ||
                        a->mig_placed[i].profile_id != b->mig_placed[i].profile_id ||
                        a->mig_placed[i].start != b->mig_placed[i].start)
                        return false;
        return true;
}

static bool links_are_same(const struct gpu_link *a, const struct gpu_link *b, size_t count)
{
        if (!a || !b)
                return a == b;
        for (size_t i = 0; i < count; i++)
                if (a[i].level != b[i].level || a[i].nvlinks != b[i].nvlinks || a[i].p2p != b[i].p2p)
                        return false;
        return true;
}

static bool gpu_is_same(const struct gpu *a, const struct gpu *b)
{
        if (!text_is_same(a->uuid, b->uuid) || !text_is_same(a->name, b->name) || !text_is_same(a->bus, b->bus))
                return false;
        if (!text_is_same(a->pcie_root, b->pcie_root))
                return false;
        if (a->fabric.state != b->fabric.state || !text_is_same(a->fabric.cluster, b->fabric.cluster) ||
                a->fabric.clique != b->fabric.clique || a->pci_class != b->pci_class)
                return false;
        if (a->index != b->index || a->minor != b->minor || a->brand != b->brand || a->numa_node != b->numa_node)
                return false;
        if (a->compute_major != b->compute_major || a->compute_minor != b->compute_minor ||
                a->architecture != b->architecture || a->coherent != b->coherent || a->memory != b->memory ||
                a->memory_reserved != b->memory_reserved || a->multiprocessors != b->multiprocessors)
                return false;
        if (a->mig_capable != b->mig_capable || a->mig_enabled != b->mig_enabled || a->mig_max != b->mig_max ||
                a->n_mig_devices != b->n_mig_devices || a->n_mig_failures != b->n_mig_failures ||
                !texts_are_same(a->mig_profiles, a->n_mig_profiles, b->mig_profiles, b->n_mig_profiles) ||
                !a->failure != !b->failure)
                return false;
        for (size_t i = 0; i < a->n_mig_devices; i++)
                if (!mig_is_same(&a->mig_devices[i], &b->mig_devices[i]))
                        return false;
        return geometry_is_same(a, b);
}

bool inventory_is_same(const struct inventory *a, const struct inventory *b)
{
        if (a->platform != b->platform || a->nodes != b->nodes || !text_is_same(a->driver_version, b->driver_version) ||
                !text_is_same(a->nvml_version, b->nvml_version) || a->cuda_major != b->cuda_major ||
                a->cuda_minor != b->cuda_minor || a->n_gpus != b->n_gpus ||
                a->n_unnamed_failures != b->n_unnamed_failures)
                return false;
        for (size_t i = 0; i < a->n_gpus; i++)
                if (!gpu_is_same(&a->gpus[i], &b->gpus[i]) ||
                        !links_are_same(a->gpus[i].links, b->gpus[i].links, a->n_gpus))
                        return false;
        return true;
}

void inventory_withdraw(
        struct inventory *inventory, bool (*takes)(const struct gpu *gpu, const char *unit, void *data), void *data)
{
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                struct gpu *gpu = &inventory->gpus[i];
                struct mig_device *devices = ARENA_ARRAY(&inventory->arena, struct mig_device, gpu->n_mig_devices);

                gpu->is_withdrawn = takes(gpu, gpu->uuid, data);
                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        devices[j] = gpu->mig_devices[j];
                        devices[j].is_withdrawn = takes(gpu, devices[j].uuid, data);
                }
                gpu->mig_devices = devices;
        }
}
