// SPDX-License-Identifier: Apache-2.0
/*
 * An inventory as bytes, for another process of the program; the copies that are made in the same way; and a failing
 * GPU, which is completed with what was known.
 */
#include <string.h>

#include "gpu/inventory.h"
#include "base/pack.h"
#include "base/text.h"

static void inventory_pack_pack_texts(struct pack *pack, const char *const **texts, size_t *count)
{
        const char **list;

        PACK_ARRAY(pack, *texts, *count);
        list = (const char **)(uintptr_t)*texts;
        for (size_t i = 0; i < *count; i++)
                pack_text(pack, &list[i]);
}

/* Casts const away: when reading, the items belong to the reader; when writing, they are not changed. */
#define ITEMS(type, items) ((type *)(uintptr_t)(items))

static void pack_mig_device(struct pack *pack, struct mig_device *device)
{
        pack_text(pack, &device->uuid);
        pack_text(pack, &device->profile);
        pack_text(pack, &device->profile_failure);
        pack_text(pack, &device->failure);
}

static void pack_mig(struct pack *pack, struct gpu *gpu)
{
        PACK_ARRAY(pack, gpu->mig_devices, gpu->n_mig_devices);
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                pack_mig_device(pack, &ITEMS(struct mig_device, gpu->mig_devices)[i]);
        inventory_pack_pack_texts(pack, &gpu->mig_failures, &gpu->n_mig_failures);
        inventory_pack_pack_texts(pack, &gpu->mig_profiles, &gpu->n_mig_profiles);
        PACK_ARRAY(pack, gpu->mig_instance_profiles, gpu->n_mig_instance_profiles);
        for (size_t i = 0; i < gpu->n_mig_instance_profiles; i++)
                pack_text(pack, &ITEMS(struct mig_instance_profile, gpu->mig_instance_profiles)[i].name);
        PACK_ARRAY(pack, gpu->mig_placed, gpu->n_mig_placed);
        pack_text(pack, &gpu->mig_geometry_failure);
}

static void pack_gpu(struct pack *pack, struct gpu *gpu)
{
        pack_text(pack, &gpu->uuid);
        pack_text(pack, &gpu->name);
        pack_text(pack, &gpu->bus);
        pack_text(pack, &gpu->pcie_root);
        pack_text(pack, &gpu->fabric.cluster);
        pack_text(pack, &gpu->failure);
        pack_mig(pack, gpu);
}

void gpu_pack(struct pack *pack, struct gpu *gpu)
{
        PACK(pack, *gpu);
        pack_gpu(pack, gpu);
        if (pack_reads(pack))
                gpu->links = NULL; /* their positions are those of an inventory */
}

/* The links of a GPU are as many as there are GPUs, or none. */
static void pack_gpus(struct pack *pack, struct inventory *inventory)
{
        PACK_ARRAY(pack, inventory->gpus, inventory->n_gpus);
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                struct gpu *gpu = &inventory->gpus[i];
                size_t n_links = gpu->links ? inventory->n_gpus : 0;

                pack_gpu(pack, gpu);
                PACK_ARRAY(pack, gpu->links, n_links);
        }
}

/* Packs or unpacks an inventory. An unpacked inventory has an arena of its own, which belongs to the reader. */
void inventory_pack(struct pack *pack, struct inventory **inventory)
{
        struct arena own = ARENA_INIT;
        struct inventory *packed;
        struct arena *outer = pack->arena;
        const char *const *failures;

        if (pack_reads(pack))
                *inventory = inventory_new();
        packed = *inventory;
        own = packed->arena;
        PACK(pack, *packed);
        if (pack_reads(pack)) {
                packed->arena = own;
                pack->arena = &packed->arena;
        }
        pack_text(pack, &packed->driver_version);
        pack_text(pack, &packed->nvml_version);
        pack_gpus(pack, packed);
        failures = packed->unnamed_failures;
        inventory_pack_pack_texts(pack, &failures, &packed->n_unnamed_failures);
        packed->unnamed_failures = ITEMS(const char *, failures);
        pack->arena = outer;
}

/* Everything but the links, whose positions are those of an inventory. */
static void gpu_copy(struct arena *arena, struct gpu *to, const struct gpu *from)
{
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct pack writer = pack_writer(&bytes);
        struct pack reader;

        gpu_pack(&writer, (struct gpu *)(uintptr_t)from);
        reader = pack_reader(bytes.data, bytes.size, arena);
        gpu_pack(&reader, to);
}

struct inventory *inventory_copy(const struct inventory *inventory)
{
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct pack writer = pack_writer(&bytes);
        struct inventory *from = (struct inventory *)(uintptr_t)inventory;
        struct inventory *copy;
        struct pack reader;

        inventory_pack(&writer, &from);
        reader = pack_reader(bytes.data, bytes.size, NULL);
        inventory_pack(&reader, &copy);
        return copy;
}

/* ---- completing a failing GPU with earlier knowledge: inventory_keep() ---- */

/* MIG is read last, so it is incomplete for a GPU that failed. */
static void complete(struct arena *arena, struct gpu *gpu, const struct gpu *known)
{
        const struct gpu fresh = *gpu;

        gpu_copy(arena, gpu, known);
        gpu->index = fresh.index;
        gpu->failure = fresh.failure;
        gpu->links = fresh.links;
        if (*fresh.name)
                gpu->name = fresh.name;
        if (fresh.bus)
                gpu->bus = fresh.bus;
        if (fresh.pcie_root)
                gpu->pcie_root = fresh.pcie_root;
        if (fresh.pci_class)
                gpu->pci_class = fresh.pci_class;
        if (fresh.minor >= 0)
                gpu->minor = fresh.minor;
        if (fresh.brand >= 0)
                gpu->brand = fresh.brand;
        if (fresh.numa_node >= 0)
                gpu->numa_node = fresh.numa_node;
        if (fresh.compute_major >= 0) {
                gpu->compute_major = fresh.compute_major;
                gpu->compute_minor = fresh.compute_minor;
        }
        if (fresh.architecture != GPU_ARCHITECTURE_UNKNOWN)
                gpu->architecture = fresh.architecture;
        if (fresh.coherent >= 0)
                gpu->coherent = fresh.coherent;
        if (fresh.memory)
                gpu->memory = fresh.memory;
        if (fresh.memory_reserved)
                gpu->memory_reserved = fresh.memory_reserved;
        if (fresh.multiprocessors)
                gpu->multiprocessors = fresh.multiprocessors;
}

/* |items| may be NULL if there are none, which memcpy() does not take. */
static void copy_items(void *to, const void *items, size_t first, size_t count, size_t size)
{
        if (count)
                memcpy(to, (const char *)items + first * size, count * size);
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
static void complete_mig(struct arena *arena, struct gpu *gpu, const struct gpu *previous)
{
        struct gpu copy;
        const struct gpu *known = &copy;

        if (gpu->n_mig_failures == 0)
                return;
        gpu_copy(arena, &copy, previous);
        for (size_t i = 0; i < known->n_mig_devices && gpu->n_mig_failures > 0; i++) {
                struct mig_device *devices;
                size_t at = 0;

                if (find_mig_device(gpu, known->mig_devices[i].uuid))
                        continue;
                devices = ARENA_ARRAY(arena, struct mig_device, gpu->n_mig_devices + 1);
                while (at < gpu->n_mig_devices && gpu->mig_devices[at].index < known->mig_devices[i].index)
                        at++;
                copy_items(devices, gpu->mig_devices, 0, at, sizeof(*devices));
                devices[at] = known->mig_devices[i];
                devices[at].failure = *gpu->mig_failures;
                copy_items(devices + at + 1, gpu->mig_devices, at, gpu->n_mig_devices - at, sizeof(*devices));
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
        copy_items(gpus, fresh->gpus, 0, at, sizeof(*gpus));
        gpu_copy(&fresh->arena, &gpus[at], known);
        gpus[at].failure = *fresh->unnamed_failures;
        copy_items(gpus + at + 1, fresh->gpus, at, fresh->n_gpus - at, sizeof(*gpus));
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

                if (known && gpu->n_mig_profiles == 0 && known->n_mig_profiles) {
                        struct gpu copy;

                        gpu_copy(&fresh->arena, &copy, known);
                        gpu->mig_profiles = copy.mig_profiles;
                        gpu->n_mig_profiles = copy.n_mig_profiles;
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
