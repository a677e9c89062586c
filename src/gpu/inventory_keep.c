/* Copies of inventories, and what is remembered about a failing GPU: see inventory_keep(). */
#include "gpu/inventory.h"

#include <string.h>

#include "base/text.h"

static const char *const *copy_texts(struct arena *arena, const char *const *texts, size_t count)
{
        const char **copies = ARENA_ARRAY(arena, const char *, count);

        for (size_t i = 0; i < count; i++)
                copies[i] = arena_strdup(arena, texts[i]);
        return copies;
}

static struct mig_device copy_mig_device(struct arena *arena, const struct mig_device *from)
{
        struct mig_device copy = *from;

        copy.uuid = arena_strdup(arena, from->uuid);
        copy.profile = arena_strdup(arena, from->profile);
        copy.profile_failure = arena_strdup(arena, from->profile_failure);
        copy.failure = arena_strdup(arena, from->failure);
        return copy;
}

static void copy_geometry(struct arena *arena, struct gpu *to, const struct gpu *from)
{
        struct mig_instance_profile *profiles =
                ARENA_ARRAY(arena, struct mig_instance_profile, from->n_mig_instance_profiles);
        struct mig_placed *placed = ARENA_ARRAY(arena, struct mig_placed, from->n_mig_placed);

        for (size_t i = 0; i < from->n_mig_instance_profiles; i++) {
                profiles[i] = from->mig_instance_profiles[i];
                profiles[i].name = arena_strdup(arena, profiles[i].name);
        }
        for (size_t i = 0; i < from->n_mig_placed; i++)
                placed[i] = from->mig_placed[i];
        to->mig_instance_profiles = profiles;
        to->n_mig_instance_profiles = from->n_mig_instance_profiles;
        to->mig_placed = placed;
        to->n_mig_placed = from->n_mig_placed;
        to->mig_geometry_failure = arena_strdup(arena, from->mig_geometry_failure);
}

static void copy_mig(struct arena *arena, struct gpu *to, const struct gpu *from)
{
        struct mig_device *devices = ARENA_ARRAY(arena, struct mig_device, from->n_mig_devices);

        for (size_t i = 0; i < from->n_mig_devices; i++)
                devices[i] = copy_mig_device(arena, &from->mig_devices[i]);
        to->mig_devices = devices;
        to->n_mig_devices = from->n_mig_devices;
        to->mig_failures = copy_texts(arena, from->mig_failures, from->n_mig_failures);
        to->n_mig_failures = from->n_mig_failures;
        to->mig_profiles = copy_texts(arena, from->mig_profiles, from->n_mig_profiles);
        to->n_mig_profiles = from->n_mig_profiles;
        copy_geometry(arena, to, from);
}

/* Everything except the links, whose positions depend on the inventory. */
static void copy_gpu(struct arena *arena, struct gpu *to, const struct gpu *from)
{
        *to = *from;
        to->uuid = arena_strdup(arena, from->uuid);
        to->name = arena_strdup(arena, from->name);
        to->bus = arena_strdup(arena, from->bus);
        to->pcie_root = arena_strdup(arena, from->pcie_root);
        to->failure = arena_strdup(arena, from->failure);
        to->links = NULL;
        copy_mig(arena, to, from);
}

struct inventory *inventory_copy(const struct inventory *inventory)
{
        struct inventory *copy = inventory_new();
        struct arena *arena = &copy->arena;

        copy->platform = inventory->platform;
        copy->nodes = inventory->nodes;
        copy->links_unread = inventory->links_unread;
        copy->driver_version = arena_strdup(arena, inventory->driver_version);
        copy->nvml_version = arena_strdup(arena, inventory->nvml_version);
        copy->cuda_major = inventory->cuda_major;
        copy->cuda_minor = inventory->cuda_minor;
        copy->n_gpus = inventory->n_gpus;
        copy->gpus = ARENA_ARRAY(arena, struct gpu, inventory->n_gpus);
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu_link *links = inventory->gpus[i].links;

                copy_gpu(arena, &copy->gpus[i], &inventory->gpus[i]);
                if (links) {
                        struct gpu_link *own = ARENA_ARRAY(arena, struct gpu_link, inventory->n_gpus);

                        memcpy(own, links, inventory->n_gpus * sizeof(*own));
                        copy->gpus[i].links = own;
                }
        }
        copy->n_unnamed_failures = inventory->n_unnamed_failures;
        copy->unnamed_failures = ARENA_ARRAY(arena, const char *, inventory->n_unnamed_failures);
        for (size_t i = 0; i < inventory->n_unnamed_failures; i++)
                copy->unnamed_failures[i] = arena_strdup(arena, inventory->unnamed_failures[i]);
        return copy;
}

/* MIG is read last, so it is incomplete for a GPU that failed. */
static void complete(struct arena *arena, struct gpu *gpu, const struct gpu *known)
{
        if (!*gpu->name)
                gpu->name = arena_strdup(arena, known->name);
        if (!gpu->bus)
                gpu->bus = arena_strdup(arena, known->bus);
        if (!gpu->pcie_root)
                gpu->pcie_root = arena_strdup(arena, known->pcie_root);
        if (gpu->pci_class == 0)
                gpu->pci_class = known->pci_class;
        if (gpu->minor < 0)
                gpu->minor = known->minor;
        if (gpu->brand < 0)
                gpu->brand = known->brand;
        if (gpu->numa_node < 0)
                gpu->numa_node = known->numa_node;
        if (gpu->compute_major < 0) {
                gpu->compute_major = known->compute_major;
                gpu->compute_minor = known->compute_minor;
        }
        if (gpu->architecture == GPU_ARCHITECTURE_UNKNOWN)
                gpu->architecture = known->architecture;
        if (gpu->coherent < 0)
                gpu->coherent = known->coherent;
        if (gpu->memory == 0)
                gpu->memory = known->memory;
        if (gpu->memory_reserved == 0)
                gpu->memory_reserved = known->memory_reserved;
        if (gpu->multiprocessors == 0)
                gpu->multiprocessors = known->multiprocessors;
        gpu->fabric = known->fabric;
        gpu->fabric.cluster = arena_strdup(arena, known->fabric.cluster);
        gpu->mig_capable = known->mig_capable;
        gpu->mig_enabled = known->mig_enabled;
        gpu->mig_max = known->mig_max;
        copy_mig(arena, gpu, known);
}

static const struct mig_device *find_mig_device(const struct gpu *gpu, const char *uuid)
{
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                if (strcmp(gpu->mig_devices[i].uuid, uuid) == 0)
                        return &gpu->mig_devices[i];
        return NULL;
}

/*
 * Puts missing MIG devices back in their places by index, as many as could not be read. If NVML reported no UUID, it is
 * not known which of the missing ones failed; if another one was destroyed at the same time, the next reading removes
 * it.
 */
static void complete_mig(struct arena *arena, struct gpu *gpu, const struct gpu *known)
{
        for (size_t i = 0; i < known->n_mig_devices && gpu->n_mig_failures > 0; i++) {
                struct mig_device *devices;
                size_t at = 0;

                if (find_mig_device(gpu, known->mig_devices[i].uuid))
                        continue;
                devices = ARENA_ARRAY(arena, struct mig_device, gpu->n_mig_devices + 1);
                while (at < gpu->n_mig_devices && gpu->mig_devices[at].index < known->mig_devices[i].index)
                        at++;
                memcpy(devices, gpu->mig_devices, at * sizeof(*devices));
                devices[at] = copy_mig_device(arena, &known->mig_devices[i]);
                devices[at].failure = *gpu->mig_failures;
                memcpy(devices + at + 1, gpu->mig_devices + at, (gpu->n_mig_devices - at) * sizeof(*devices));
                gpu->mig_devices = devices;
                gpu->n_mig_devices++;
                gpu->mig_failures++;
                gpu->n_mig_failures--;
        }
}

/* Puts a known GPU that did not report its UUID this time back in its place by index. */
static void adopt(struct inventory *fresh, const struct gpu *known)
{
        struct gpu *gpus = ARENA_ARRAY(&fresh->arena, struct gpu, fresh->n_gpus + 1);
        size_t at = 0;

        while (at < fresh->n_gpus && fresh->gpus[at].index < known->index)
                at++;
        memcpy(gpus, fresh->gpus, at * sizeof(*gpus));
        copy_gpu(&fresh->arena, &gpus[at], known);
        gpus[at].failure = *fresh->unnamed_failures;
        memcpy(gpus + at + 1, fresh->gpus + at, (fresh->n_gpus - at) * sizeof(*gpus));
        fresh->gpus = gpus;
        fresh->n_gpus++;
        fresh->unnamed_failures++;
        fresh->n_unnamed_failures--;
}

static const struct gpu_link *find_link(const struct inventory *inventory, const char *from, const char *to)
{
        const struct gpu *a = inventory_find(inventory, from);
        const struct gpu *b = inventory_find(inventory, to);

        return a && b && a->links ? &a->links[b - inventory->gpus] : NULL;
}

/* |read|: |fresh| before the old GPUs were added; its links use the positions in it. */
static void keep_links(struct inventory *fresh, const struct inventory *read, const struct inventory *previous)
{
        for (size_t i = 0; i < fresh->n_gpus; i++) {
                struct gpu *from = &fresh->gpus[i];
                struct gpu_link *links = ARENA_ARRAY(&fresh->arena, struct gpu_link, fresh->n_gpus);

                for (size_t j = 0; j < fresh->n_gpus; j++) {
                        const struct gpu *to = &fresh->gpus[j];
                        const struct gpu_link *link = NULL;

                        if (i == j)
                                continue;
                        if (from->failure || to->failure || fresh->links_unread)
                                link = find_link(previous, from->uuid, to->uuid);
                        if (!link)
                                link = find_link(read, from->uuid, to->uuid);
                        links[j] = link ? *link : (struct gpu_link){.level = GPU_UNKNOWN_INT};
                }
                from->links = links;
        }
}

/* The profile of a UUID does not change, so a name that NVML did not report this time is copied from before. */
static void keep_profiles(struct inventory *fresh, const struct inventory *previous)
{
        for (size_t g = 0; g < fresh->n_gpus; g++) {
                struct gpu *gpu = &fresh->gpus[g];
                const struct gpu *known = inventory_find(previous, gpu->uuid);

                if (known && gpu->n_mig_profiles == 0) {
                        gpu->mig_profiles = copy_texts(&fresh->arena, known->mig_profiles, known->n_mig_profiles);
                        gpu->n_mig_profiles = known->n_mig_profiles;
                }
                for (size_t i = 0; known && i < gpu->n_mig_devices; i++) {
                        struct mig_device *mig = (struct mig_device *)(uintptr_t)&gpu->mig_devices[i];
                        const struct mig_device *before = find_mig_device(known, mig->uuid);

                        if (before && !mig->profile)
                                mig->profile = arena_strdup(&fresh->arena, before->profile);
                }
        }
}

/* Another driver may reserve another amount, so its value is taken. From the same driver the first value is kept. */
static void keep_reserved(struct inventory *fresh, const struct inventory *previous)
{
        if (!text_is_same(fresh->driver_version, previous->driver_version))
                return;
        for (size_t i = 0; i < fresh->n_gpus; i++) {
                struct gpu *gpu = &fresh->gpus[i];
                const struct gpu *known = inventory_find(previous, gpu->uuid);

                if (known && known->memory_reserved && gpu->memory == known->memory)
                        gpu->memory_reserved = known->memory_reserved;
        }
}

void inventory_keep(struct inventory *fresh, const struct inventory *previous)
{
        struct inventory *read = NULL;
        bool any_failure = fresh->n_unnamed_failures > 0 || fresh->links_unread;

        keep_profiles(fresh, previous);
        keep_reserved(fresh, previous);
        for (size_t i = 0; i < fresh->n_gpus; i++)
                any_failure = any_failure || fresh->gpus[i].failure || fresh->gpus[i].n_mig_failures;
        if (!any_failure)
                return;
        read = inventory_copy(fresh);
        for (size_t i = 0; i < fresh->n_gpus; i++) {
                const struct gpu *known = inventory_find(previous, fresh->gpus[i].uuid);

                if (known && fresh->gpus[i].failure)
                        complete(&fresh->arena, &fresh->gpus[i], known);
                else if (known)
                        complete_mig(&fresh->arena, &fresh->gpus[i], known);
        }
        for (size_t i = 0; i < previous->n_gpus && fresh->n_unnamed_failures > 0; i++)
                if (!inventory_find(fresh, previous->gpus[i].uuid))
                        adopt(fresh, &previous->gpus[i]);
        keep_links(fresh, read, previous);
        inventory_free(read);
}
