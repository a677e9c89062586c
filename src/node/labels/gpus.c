// SPDX-License-Identifier: Apache-2.0
/*
 * NVIDIA's labels of GPUs and MIG devices: "nvidia.com/gpu.*" for whole GPUs (and, under migStrategy single, for MIG
 * devices over them), "nvidia.com/mig-<profile>.*" under mixed.
 */
#include <string.h>

#include "base/text.h"
#include "gpu/mig_profile.h"
#include "node/labels/labels.h"

#define GPU_RESOURCE LABELS_NVIDIA_PREFIX "gpu"

/* The subject of a label: a GPU, or a MIG device of it, and how it is shared. */
struct part {
        const struct gpu *gpu;
        const struct mig_device *mig; /* NULL: the whole GPU */
        enum sharing_strategy strategy;
        unsigned int replicas; /* 0: nothing of it is advertised under that name */
        bool is_renamed;
};

struct parts {
        struct part *items;
        size_t count;
};

/* ---- parts ---- */

static const struct unit *gpus_find_unit(const struct plan *plan, const struct gpu *gpu, const struct mig_device *mig,
        const struct resource **ret_resource)
{
        for (size_t i = 0; plan && i < plan->n_resources; i++)
                for (size_t j = 0; j < plan->resources[i].n_units; j++)
                        if (plan->resources[i].units[j].gpu == gpu && plan->resources[i].units[j].mig == mig) {
                                *ret_resource = &plan->resources[i];
                                return &plan->resources[i].units[j];
                        }
        return NULL;
}

static struct part make_part(const struct plan *plan, const struct gpu *gpu, const struct mig_device *mig)
{
        struct part part = {.gpu = gpu, .mig = mig, .replicas = plan ? 0 : 1};
        const struct resource *resource = NULL;
        const struct unit *unit = gpus_find_unit(plan, gpu, mig, &resource);

        /* As in NVIDIA's gpu-feature-discovery: a whole GPU in MIG mode has no replicas. */
        if (!mig && gpu->mig_enabled)
                part.replicas = 0;
        else if (unit)
                part.replicas = unit->replicas;
        if (part.replicas && unit && unit->shared) {
                part.strategy = resource->strategy;
                part.is_renamed = unit->shared->rename != NULL;
        }
        return part;
}

static struct parts new_parts(struct label_set *set, size_t most)
{
        return (struct parts){.items = ARENA_ARRAY(set->arena, struct part, most)};
}

static size_t count_mig_devices(const struct inventory *inventory)
{
        size_t count = 0;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                count += inventory->gpus[i].n_mig_devices;
        return count;
}

/* MIG devices of |profile|; NULL: every one that is advertised. */
static struct parts mig_parts(struct label_set *set, const char *profile)
{
        const struct inventory *inventory = set->input->inventory;
        struct parts parts = new_parts(set, count_mig_devices(inventory));

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        struct part part = make_part(set->input->plan, gpu, &gpu->mig_devices[j]);

                        if (profile ? text_is_same(gpu->mig_devices[j].profile, profile) : part.replicas > 0)
                                parts.items[parts.count++] = part;
                }
        }
        return parts;
}

/* Keeps the parts of the most frequent product; |parts| stays as it is. */
static struct parts of_leading_product(struct label_set *set, const struct parts *parts)
{
        const char **names = ARENA_ARRAY(set->arena, const char *, parts->count);
        struct parts chosen = new_parts(set, parts->count);
        size_t leading;

        for (size_t i = 0; i < parts->count; i++)
                names[i] = parts->items[i].gpu->name;
        leading = label_leading(names, parts->count);
        for (size_t i = 0; i < parts->count; i++)
                if (strcmp(names[i], names[leading]) == 0)
                        chosen.items[chosen.count++] = parts->items[i];
        return chosen;
}

/* The one whose sharing most of them have. */
static const struct part *leading_part(struct label_set *set, const char *resource, const struct parts *parts)
{
        const char **texts = ARENA_ARRAY(set->arena, const char *, parts->count);
        size_t leading;

        for (size_t i = 0; i < parts->count; i++) {
                const struct part *part = &parts->items[i];

                texts[i] = arena_printf(set->arena, "%s with %u replicas%s", sharing_strategy_name(part->strategy),
                        part->replicas, part->is_renamed ? ", renamed" : "");
        }
        leading = label_leading(texts, parts->count);
        for (size_t i = 0; i < parts->count; i++)
                if (strcmp(texts[i], texts[leading]) != 0) {
                        label_set_warn(set,
                                "labels %s.*: units are shared differently; the labels describe most of them: %s",
                                resource, texts[leading]);
                        break;
                }
        return &parts->items[leading];
}

/* ---- labels that every resource has ---- */

/*
 * NVIDIA's program makes values of any length, and those of more than LABELS_MAX_VALUE never reach a node. Here the
 * name of the GPU gives way, not what follows it.
 */
static void put_product(struct label_set *set, const char *resource, const char *gpu, const char *suffix)
{
        const char *name = label_clean(set->arena, gpu);
        size_t size = MIN(strlen(name), LABELS_MAX_VALUE - MIN(strlen(suffix), LABELS_MAX_VALUE));

        while (size && name[size] && strchr("-_.", name[size - 1]))
                size--;
        if (*name) /* Tegra and WSL have none */
                label_set_put_of(set, resource, "product", "%.*s%s", (int)size, name, suffix);
}

static void put_base(struct label_set *set, const char *resource, const struct part *part, size_t count)
{
        const char *profile = part->mig && part->mig->profile
                                      ? label_clean(set->arena, mig_profile_dotted(set->arena, part->mig->profile))
                                      : "";
        bool is_marked = part->replicas > 1 && !part->is_renamed;

        put_product(set, resource, part->gpu->name,
                arena_printf(set->arena, "%s%s%s%s", part->mig ? "-MIG" : "", *profile ? "-" : "", profile,
                        is_marked ? "-SHARED" : ""));
        label_set_put_of(set, resource, "count", "%zu", count);
        label_set_put_of(set, resource, "replicas", "%u", part->replicas);
        label_set_put_of(set, resource, "sharing-strategy", "%s", sharing_strategy_name(part->strategy));
}

/* ---- whole GPUs ---- */

static const char *family_of(int major, int minor)
{
        switch (major) {
        case 1:
                return "tesla";
        case 2:
                return "fermi";
        case 3:
                return "kepler";
        case 5:
                return "maxwell";
        case 6:
                return "pascal";
        case 7:
                return minor < 5 ? "volta" : "turing";
        case 8:
                return minor < 9 ? "ampere" : "ada-lovelace";
        case 9:
                return "hopper";
        case 10:
        case 12:
                return "blackwell";
        case 13:
                return "rubin";
        default:
                return "undefined";
        }
}

static void put_hardware(struct label_set *set, const struct gpu *gpu)
{
        if (gpu->memory >> 20)
                label_set_put_of(
                        set, GPU_RESOURCE, "memory", "%llu", (unsigned long long)(gpu->memory >> 20)); /* MiB */
        if (gpu->compute_major <= 0)
                return;
        label_set_put_of(set, GPU_RESOURCE, "family", "%s", family_of(gpu->compute_major, gpu->compute_minor));
        label_set_put_of(set, GPU_RESOURCE, "compute.major", "%d", gpu->compute_major);
        label_set_put_of(set, GPU_RESOURCE, "compute.minor", "%d", gpu->compute_minor);
}

static size_t count_product(const struct parts *parts, const char *name)
{
        size_t count = 0;

        for (size_t i = 0; i < parts->count; i++)
                count += strcmp(parts->items[i].gpu->name, name) == 0;
        return count;
}

/* How many GPUs each product has, also of products that NVIDIA's labels leave out. */
static void put_products(struct label_set *set, const struct parts *all, const char *reported)
{
        for (size_t i = 0; i < all->count; i++) {
                const char *name = all->items[i].gpu->name;
                const char *key = label_clean(set->arena, name);
                const struct parts before = {all->items, i};

                if (!*key || count_product(&before, name))
                        continue;
                label_set_put_of(set, LABELS_PREFIX "product", key, "%zu", count_product(all, name));
                if (strcmp(name, reported) != 0)
                        label_set_warn(set, "labels nvidia.com/gpu.*: this node also has %s; the labels describe %s",
                                name, reported);
        }
}

static void put_whole(struct label_set *set)
{
        const struct inventory *inventory = set->input->inventory;
        struct parts all = new_parts(set, inventory->n_gpus);
        struct parts plain = new_parts(set, inventory->n_gpus);
        struct parts chosen;
        const struct part *part;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (!labels_counts_gpu(inventory, gpu))
                        continue;
                all.items[all.count++] = make_part(set->input->plan, gpu, NULL);
                if (!gpu->mig_enabled)
                        plain.items[plain.count++] = all.items[all.count - 1];
        }
        chosen = of_leading_product(set, plain.count ? &plain : &all);
        part = leading_part(set, GPU_RESOURCE, &chosen);
        put_base(set, GPU_RESOURCE, part, count_product(&all, part->gpu->name));
        put_hardware(set, part->gpu);
        put_products(set, &all, part->gpu->name);
}

/* ---- MIG devices ---- */

static void put_mig(struct label_set *set, const char *resource, const struct parts *parts)
{
        struct parts chosen = of_leading_product(set, parts);
        const struct part *part = leading_part(set, resource, &chosen);
        const struct mig_attributes *attributes = &part->mig->attributes;

        put_base(set, resource, part, parts->count);
        label_set_put_of(set, resource, "memory", "%llu", (unsigned long long)attributes->memory_mib);
        label_set_put_of(set, resource, "multiprocessors", "%u", attributes->multiprocessors);
        label_set_put_of(set, resource, "slices.gi", "%u", attributes->gpu_slices);
        label_set_put_of(set, resource, "slices.ci", "%u", attributes->compute_slices);
        label_set_put_of(set, resource, "engines.copy", "%u", attributes->copy_engines);
        label_set_put_of(set, resource, "engines.decoder", "%u", attributes->decoders);
        label_set_put_of(set, resource, "engines.encoder", "%u", attributes->encoders);
        label_set_put_of(set, resource, "engines.jpeg", "%u", attributes->jpegs);
        label_set_put_of(set, resource, "engines.ofa", "%u", attributes->ofas);
}

static const struct gpu *first_in_mig_mode(const struct inventory *inventory)
{
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].mig_enabled && labels_counts_gpu(inventory, &inventory->gpus[i]))
                        return &inventory->gpus[i];
        return NULL;
}

/* The layout is invalid if no plan could be made of it, or if it has nothing to advertise. */
static void put_single(struct label_set *set)
{
        const struct gpu *gpu = first_in_mig_mode(set->input->inventory);
        struct parts parts;

        if (!gpu)
                return;
        parts = mig_parts(set, NULL);
        if (set->input->plan && parts.count) {
                put_mig(set, GPU_RESOURCE, &parts);
                return;
        }
        put_product(set, GPU_RESOURCE, gpu->name, "-MIG-INVALID");
        label_set_put_of(set, GPU_RESOURCE, "count", "0");
        label_set_put_of(set, GPU_RESOURCE, "replicas", "0");
        label_set_put_of(set, GPU_RESOURCE, "sharing-strategy", "%s", "");
        label_set_put_of(set, GPU_RESOURCE, "memory", "0");
}

static bool is_profile_before(const struct inventory *inventory, size_t gpu, size_t device, const char *profile)
{
        for (size_t i = 0; i <= gpu; i++)
                for (size_t j = 0; j < (i == gpu ? device : inventory->gpus[i].n_mig_devices); j++)
                        if (text_is_same(inventory->gpus[i].mig_devices[j].profile, profile))
                                return true;
        return false;
}

static void put_profile(struct label_set *set, const char *profile)
{
        struct parts parts = mig_parts(set, profile);

        put_mig(set, arena_printf(set->arena, LABELS_NVIDIA_PREFIX "mig-%s", mig_profile_dotted(set->arena, profile)),
                &parts);
}

static void put_mixed(struct label_set *set)
{
        const struct inventory *inventory = set->input->inventory;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                for (size_t j = 0; j < inventory->gpus[i].n_mig_devices; j++) {
                        const char *profile = inventory->gpus[i].mig_devices[j].profile;

                        if (profile && !is_profile_before(inventory, i, j, profile))
                                put_profile(set, profile);
                }
}

void labels_put_gpus(struct label_set *set)
{
        put_whole(set);
        if (set->input->config->mig_strategy == MIG_STRATEGY_SINGLE)
                put_single(set);
        else if (set->input->config->mig_strategy == MIG_STRATEGY_MIXED)
                put_mixed(set);
}
