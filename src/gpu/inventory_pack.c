/* An inventory as bytes, for another process of the program, and the copies that are made in the same way. */
#include "gpu/inventory.h"

#include "base/pack.h"

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

void gpu_copy(struct arena *arena, struct gpu *to, const struct gpu *from)
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
