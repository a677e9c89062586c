// SPDX-License-Identifier: Apache-2.0
#include "mig/parted.h"

#include <string.h>

#include "gpu/mig_profile.h"
#include "mig/profile_text.h"

#define NVIDIA UINT32_C(0x10de)
#define A30 (UINT32_C(0x20b7) << 16 | NVIDIA)

/* The GPUs of one PCI device id. */
struct generate_model {
        uint32_t pci_device;
        const struct mig_gpu_profile *profiles;
        size_t n_profiles;
};

struct generate {
        struct arena *arena;
        struct generate_model *models;
        size_t n_models;
        struct mig_parted_config *configs; /* with room for MIG_PARTED_MAX_CONFIGS */
        size_t n_configs;
};

/* ---- entries ---- */

static bool has_filter(const struct mig_parted_entry *entry, uint32_t device)
{
        for (size_t i = 0; i < entry->n_filters; i++)
                if (entry->filters[i].device == device)
                        return true;
        return false;
}

static bool entry_is_same(const struct mig_parted_entry *a, const struct mig_parted_entry *b)
{
        if (a->is_enabled != b->is_enabled || a->n_counts != b->n_counts)
                return false;
        for (size_t i = 0; i < a->n_counts; i++) {
                const struct mig_wanted_count *found = mig_wanted_find((struct mig_wanted_count *)(uintptr_t)b->counts,
                        b->n_counts, a->counts[i].profile, a->counts[i].compute);

                if (!found || found->count != a->counts[i].count)
                        return false;
        }
        return true;
}

/* |entry| is for the GPUs of |other|, too. */
static void entry_merge(struct mig_parted_entry *entry, struct arena *arena, const struct mig_parted_entry *other)
{
        struct mig_parted_filter *filters = ARENA_ARRAY(arena, struct mig_parted_filter, entry->n_filters + 1);
        unsigned int *devices = ARENA_ARRAY(arena, unsigned int, entry->n_devices + other->n_devices);

        memcpy(filters, entry->filters, entry->n_filters * sizeof(*filters));
        for (size_t i = 0; i < entry->n_devices + other->n_devices; i++)
                devices[i] = i < entry->n_devices ? entry->devices[i] : other->devices[i - entry->n_devices];
        entry->devices = devices;
        entry->n_devices += other->n_devices;
        if (has_filter(entry, other->filters[0].device))
                return;
        filters[entry->n_filters++] = other->filters[0];
        entry->filters = filters;
}

/* Adds |entry|, which has one filter, or merges it with one that wants the same. |config| has room for it. */
static void config_add(struct mig_parted_config *config, struct arena *arena, const struct mig_parted_entry *entry)
{
        size_t at = 0;

        while (at < config->n_entries && !entry_is_same(&config->entries[at], entry))
                at++;
        if (at < config->n_entries)
                entry_merge(&config->entries[at], arena, entry);
        else
                config->entries[config->n_entries++] = *entry;
}

/* ---- the models ---- */

static const struct mig_gpu_profile a30[] = {
        {.name = "1g.6gb", .slices = 1, .max = 4},
        {.name = "1g.6gb+me", .slices = 1, .max = 1},
        {.name = "2g.12gb", .slices = 2, .max = 2},
        {.name = "2g.12gb+me", .slices = 2, .max = 1},
        {.name = "4g.24gb", .slices = 4, .max = 1},
};

/*
 * GPUs of seven slices, by device id: the gigabytes of an eighth, a quarter, half and all of the memory (MIG user
 * guide, "Supported MIG profiles").
 */
static const struct {
        uint16_t devices[8];
        unsigned int gb[4];
} documented[] = {
        {{0x20b0, 0x20b1, 0x20f1, 0x20f6}, {5, 10, 20, 40}},                                  /* A100, A800 */
        {{0x20b2, 0x20b5, 0x20f3, 0x20f5, 0x2322, 0x2324, 0x2330, 0x2331}, {10, 20, 40, 80}}, /* and H100, H800 */
        {{0x2321, 0x233a}, {12, 24, 47, 94}},                                                 /* H100 NVL */
        {{0x20b6, 0x2329, 0x233d, 0x2342}, {12, 24, 48, 96}},                                 /* H100, GH200, H20 */
        {{0x2335, 0x233b}, {18, 35, 71, 141}},                                                /* H200 */
        {{0x2348}, {18, 36, 72, 144}},                                                        /* GH200 */
};

static const struct {
        unsigned int slices;
        unsigned int memory; /* which of |gb| */
        const char *attributes;
        unsigned int max;
} seven_profiles[] = {
        {1, 0, "", 7}, {1, 0, "+me", 1}, {1, 1, "", 4}, {2, 1, "", 3}, {3, 2, "", 2}, {4, 2, "", 1}, {7, 3, "", 1}};

static const struct mig_gpu_profile *name_documented(struct arena *arena, const unsigned int *gb)
{
        struct mig_gpu_profile *profiles = ARENA_ARRAY(arena, struct mig_gpu_profile, ARRAY_SIZE(seven_profiles));

        for (size_t i = 0; i < ARRAY_SIZE(seven_profiles); i++)
                profiles[i] =
                        (struct mig_gpu_profile){.name = arena_printf(arena, "%ug.%ugb%s", seven_profiles[i].slices,
                                                         gb[seven_profiles[i].memory], seven_profiles[i].attributes),
                                .slices = seven_profiles[i].slices,
                                .max = seven_profiles[i].max};
        return profiles;
}

/* False: nothing is known of its profiles. */
static bool read_model(struct generate_model *ret, struct arena *arena, const struct mig_node_gpu *gpu)
{
        *ret = (struct generate_model){gpu->pci_device, gpu->geometry.profiles, gpu->geometry.n_profiles};
        if (gpu->pci_device == A30) {
                ret->profiles = a30;
                ret->n_profiles = ARRAY_SIZE(a30);
        }
        for (size_t i = 0; i < ARRAY_SIZE(documented) && ret->n_profiles == 0; i++)
                for (size_t k = 0; k < ARRAY_SIZE(documented[i].devices); k++) {
                        if (gpu->pci_device != ((uint32_t)documented[i].devices[k] << 16 | NVIDIA))
                                continue;
                        ret->profiles = name_documented(arena, documented[i].gb);
                        ret->n_profiles = ARRAY_SIZE(seven_profiles);
                }
        return ret->n_profiles > 0;
}

/* Among GPUs of the same model, one whose profiles the driver lists counts. */
static void add_model(struct generate *generate, const struct mig_node_gpu *gpu)
{
        struct generate_model *model = generate->models;

        while (model < generate->models + generate->n_models && model->pci_device != gpu->pci_device)
                model++;
        if (!gpu->is_capable || (model < generate->models + generate->n_models &&
                                        (gpu->geometry.n_profiles == 0 || gpu->pci_device == A30)))
                return;
        if (read_model(model, generate->arena, gpu) && model == generate->models + generate->n_models)
                generate->n_models++;
}

/* ---- the configurations ---- */

static struct mig_parted_config *find_config(struct generate *generate, const char *name)
{
        for (size_t i = 0; i < generate->n_configs; i++)
                if (strcmp(generate->configs[i].name, name) == 0)
                        return &generate->configs[i];
        if (generate->n_configs == MIG_PARTED_MAX_CONFIGS)
                return NULL;
        generate->configs[generate->n_configs] = (struct mig_parted_config){
                .name = name, .entries = ARENA_ARRAY(generate->arena, struct mig_parted_entry, generate->n_models + 1)};
        return &generate->configs[generate->n_configs++];
}

static bool has_model(const struct mig_parted_config *config, const struct generate_model *model)
{
        for (size_t i = 0; i < config->n_entries; i++)
                if (has_filter(&config->entries[i], model->pci_device))
                        return true;
        return false;
}

/* Adds an entry for |model| to the configuration |name|, unless it has one: the first one counts. */
static void generate_add(struct generate *generate, const char *name, const struct generate_model *model,
        const struct mig_wanted_count *counts, size_t n_counts)
{
        struct mig_parted_config *config = find_config(generate, name);
        struct mig_parted_filter *filter = ARENA_NEW(generate->arena, struct mig_parted_filter);

        filter->device = model->pci_device;
        if (config && !has_model(config, model))
                config_add(config, generate->arena,
                        &(struct mig_parted_entry){.filters = filter,
                                .n_filters = 1,
                                .is_for_all = true,
                                .is_enabled = true,
                                .counts = counts,
                                .n_counts = n_counts});
}

static void add_of_each_gpu(struct generate *generate, const char *name, bool is_enabled)
{
        struct mig_parted_config *config = find_config(generate, name);

        config->entries[0] = (struct mig_parted_entry){.is_for_all = true, .is_enabled = is_enabled};
        config->n_entries = 1;
}

/* The one without attributes of which the most fit: that of the smallest memory. */
static const struct mig_gpu_profile *plain_profile(const struct generate_model *model, unsigned int slices)
{
        const struct mig_gpu_profile *best = NULL;

        for (size_t i = 0; i < model->n_profiles; i++) {
                const struct mig_gpu_profile *profile = &model->profiles[i];
                struct mig_profile_text text;

                if (profile->slices == slices && mig_profile_text_parse(&text, profile->name) && !*text.attributes &&
                        (!best || profile->max > best->max))
                        best = profile;
        }
        return best;
}

static void add_balanced(struct generate *generate, const struct generate_model *model)
{
        static const unsigned int balanced[] = {2, 1, 1}; /* of one, two and three slices */
        struct mig_wanted_count *counts = ARENA_ARRAY(generate->arena, struct mig_wanted_count, ARRAY_SIZE(balanced));
        const size_t n_counts = plain_profile(model, 7) ? 3 : 2;

        if (!plain_profile(model, 7) && !plain_profile(model, 4))
                return;
        for (size_t i = 0; i < n_counts; i++) {
                const struct mig_gpu_profile *profile = plain_profile(model, (unsigned int)i + 1);

                if (!profile)
                        return;
                counts[i] = (struct mig_wanted_count){mig_parted_profile(profile), balanced[i]};
        }
        generate_add(generate, "all-balanced", model, counts, n_counts);
}

static void add_profile(struct generate *generate, const struct generate_model *model,
        const struct mig_gpu_profile *profile, const char *name)
{
        struct mig_wanted_count *count = ARENA_NEW(generate->arena, struct mig_wanted_count);

        *count = (struct mig_wanted_count){mig_parted_profile(profile), profile->max};
        generate_add(generate, arena_printf(generate->arena, "all-%s", mig_profile_dotted(generate->arena, name)),
                model, count, 1);
}

/* Filters are needed only where models differ. */
static void generate_finish(struct mig_parted *ret, struct generate *generate)
{
        for (size_t i = 0; i < generate->n_configs && generate->n_models == 1; i++)
                for (size_t k = 0; k < generate->configs[i].n_entries; k++)
                        generate->configs[i].entries[k].n_filters = 0;
        *ret = (struct mig_parted){.name = "what this node's profiles give",
                .configs = generate->configs,
                .n_configs = generate->n_configs};
}

void mig_generate(struct mig_parted *ret, struct arena *arena, const struct mig_node *node)
{
        struct generate generate = {.arena = arena,
                .models = ARENA_ARRAY(arena, struct generate_model, node->n_gpus),
                .configs = ARENA_ARRAY(arena, struct mig_parted_config, MIG_PARTED_MAX_CONFIGS)};
        for (size_t i = 0; i < node->n_gpus; i++)
                add_model(&generate, &node->gpus[i]);
        add_of_each_gpu(&generate, "all-disabled", false);
        add_of_each_gpu(&generate, "all-enabled", true);
        for (size_t i = 0; i < generate.n_models; i++)
                add_balanced(&generate, &generate.models[i]);
        for (size_t i = 0; i < generate.n_models; i++)
                for (size_t k = 0; k < generate.models[i].n_profiles; k++)
                        add_profile(&generate, &generate.models[i], &generate.models[i].profiles[k],
                                mig_parted_profile(&generate.models[i].profiles[k]));
        for (size_t i = 0; i < generate.n_models; i++)
                for (size_t k = 0; k < generate.models[i].n_profiles; k++)
                        add_profile(&generate, &generate.models[i], &generate.models[i].profiles[k],
                                generate.models[i].profiles[k].name);
        generate_finish(ret, &generate);
}

/* ---- the present geometry ---- */

static int export_gpu(
        struct mig_parted_entry *ret, struct arena *arena, const struct mig_node_gpu *gpu, struct error *err)
{
        struct mig_parted_filter *filter = ARENA_NEW(arena, struct mig_parted_filter);
        unsigned int *device = ARENA_NEW(arena, unsigned int);
        struct mig_wanted_count *counts;
        size_t n_devices = 0;

        if (gpu->problem)
                return error_set(err, ERROR_UNAVAILABLE, "%s", gpu->problem);
        filter->device = gpu->pci_device;
        *device = gpu->index;
        for (size_t i = 0; i < gpu->geometry.n_instances; i++)
                n_devices += gpu->geometry.instances[i].n_devices;
        counts = ARENA_ARRAY(arena, struct mig_wanted_count, n_devices);
        *ret = (struct mig_parted_entry){.filters = filter,
                .n_filters = 1,
                .devices = device,
                .n_devices = 1,
                .is_enabled = gpu->geometry.is_enabled,
                .counts = counts};
        for (size_t i = 0; i < gpu->geometry.n_instances; i++) {
                const struct mig_gpu_instance *instance = &gpu->geometry.instances[i];

                for (size_t k = 0; k < instance->n_devices; k++)
                        mig_wanted_add(counts, &ret->n_counts,
                                &(struct mig_wanted_count){
                                        mig_parted_profile(instance->profile), 1, mig_device_compute(instance, k)});
        }
        return 0;
}

static void export_shorten(struct mig_parted_entry *entry, const struct mig_node *node, bool is_alone)
{
        bool is_one_model = true;
        size_t matching = 0;

        for (size_t i = 0; i < node->n_gpus; i++) {
                is_one_model = is_one_model && node->gpus[i].pci_device == node->gpus[0].pci_device;
                matching += has_filter(entry, node->gpus[i].pci_device);
        }
        entry->is_for_all = matching == entry->n_devices;
        if (entry->is_for_all)
                entry->n_devices = 0;
        if (is_one_model || is_alone)
                entry->n_filters = 0;
}

int mig_export(
        struct mig_parted *ret, struct arena *arena, const struct mig_node *node, const char *name, struct error *err)
{
        struct mig_parted_config *config = ARENA_NEW(arena, struct mig_parted_config);

        *config = (struct mig_parted_config){
                .name = name, .entries = ARENA_ARRAY(arena, struct mig_parted_entry, node->n_gpus)};
        for (size_t i = 0; i < node->n_gpus; i++) {
                struct mig_parted_entry entry;

                if (export_gpu(&entry, arena, &node->gpus[i], err) < 0)
                        return -1;
                config_add(config, arena, &entry);
        }
        for (size_t i = 0; i < config->n_entries; i++)
                export_shorten(&config->entries[i], node, config->n_entries == 1);
        *ret = (struct mig_parted){.name = "the present geometry", .configs = config, .n_configs = 1};
        return 0;
}
