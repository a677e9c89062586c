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

/* One configuration in the making. */
struct generate_config {
        const char *name;
        struct mig_parted_entry *entries;
        size_t n_entries;
};

struct generate {
        struct arena *arena;
        struct generate_model *models;
        size_t n_models;
        struct generate_config configs[MIG_PARTED_MAX_CONFIGS];
        size_t n_configs;
};

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
        unsigned int eighth, quarter, half, all;
} documented[] = {
        {{0x20b0, 0x20b1, 0x20f1, 0x20f6}, 5, 10, 20, 40},                                  /* A100, A800 */
        {{0x20b2, 0x20b5, 0x20f3, 0x20f5, 0x2322, 0x2324, 0x2330, 0x2331}, 10, 20, 40, 80}, /* and H100, H800 */
        {{0x2321, 0x233a}, 12, 24, 47, 94},                                                 /* H100 NVL */
        {{0x20b6, 0x2329, 0x233d, 0x2342}, 12, 24, 48, 96},                                 /* H100, GH200, H20 */
        {{0x2335, 0x233b}, 18, 35, 71, 141},                                                /* H200 */
        {{0x2348}, 18, 36, 72, 144},                                                        /* GH200 */
};

#define SEVEN_PROFILES 7

static const struct mig_gpu_profile *name_documented(struct arena *arena, size_t row)
{
        struct mig_gpu_profile *profiles = ARENA_ARRAY(arena, struct mig_gpu_profile, SEVEN_PROFILES);
        const unsigned int eighth = documented[row].eighth, quarter = documented[row].quarter,
                           half = documented[row].half;

        profiles[0] = (struct mig_gpu_profile){.name = arena_printf(arena, "1g.%ugb", eighth), .slices = 1, .max = 7};
        profiles[1] =
                (struct mig_gpu_profile){.name = arena_printf(arena, "1g.%ugb+me", eighth), .slices = 1, .max = 1};
        profiles[2] = (struct mig_gpu_profile){.name = arena_printf(arena, "1g.%ugb", quarter), .slices = 1, .max = 4};
        profiles[3] = (struct mig_gpu_profile){.name = arena_printf(arena, "2g.%ugb", quarter), .slices = 2, .max = 3};
        profiles[4] = (struct mig_gpu_profile){.name = arena_printf(arena, "3g.%ugb", half), .slices = 3, .max = 2};
        profiles[5] = (struct mig_gpu_profile){.name = arena_printf(arena, "4g.%ugb", half), .slices = 4, .max = 1};
        profiles[6] = (struct mig_gpu_profile){
                .name = arena_printf(arena, "7g.%ugb", documented[row].all), .slices = 7, .max = 1};
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
                        ret->profiles = name_documented(arena, i);
                        ret->n_profiles = SEVEN_PROFILES;
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

static struct generate_config *find_config(struct generate *generate, const char *name)
{
        for (size_t i = 0; i < generate->n_configs; i++)
                if (strcmp(generate->configs[i].name, name) == 0)
                        return &generate->configs[i];
        if (generate->n_configs == MIG_PARTED_MAX_CONFIGS)
                return NULL;
        generate->configs[generate->n_configs] = (struct generate_config){
                .name = name, .entries = ARENA_ARRAY(generate->arena, struct mig_parted_entry, generate->n_models + 1)};
        return &generate->configs[generate->n_configs++];
}

static bool has_model(const struct generate_config *config, const struct generate_model *model)
{
        for (size_t i = 0; i < config->n_entries; i++)
                for (size_t k = 0; k < config->entries[i].n_filters; k++)
                        if (config->entries[i].filters[k].device == model->pci_device)
                                return true;
        return false;
}

static bool generate_is_same(const struct mig_wanted_count *a, size_t n_a, const struct mig_wanted_count *b, size_t n_b)
{
        for (size_t i = 0; i < n_a && n_a == n_b; i++)
                if (a[i].count != b[i].count || strcmp(a[i].profile, b[i].profile) != 0)
                        return false;
        return n_a == n_b;
}

/* Adds an entry for |model| to the configuration |name|, unless it has one: the first one counts. */
static void generate_add(struct generate *generate, const char *name, const struct generate_model *model,
        const struct mig_wanted_count *counts, size_t n_counts)
{
        struct generate_config *config = find_config(generate, name);
        struct mig_parted_filter *filters;
        struct mig_parted_entry *entry;
        size_t at = 0;

        if (!config || has_model(config, model))
                return;
        while (at < config->n_entries &&
                !generate_is_same(config->entries[at].counts, config->entries[at].n_counts, counts, n_counts))
                at++;
        entry = &config->entries[at];
        filters = ARENA_ARRAY(generate->arena, struct mig_parted_filter, generate->n_models);
        for (size_t i = 0; i < entry->n_filters; i++)
                filters[i] = entry->filters[i];
        filters[entry->n_filters].device = model->pci_device;
        *entry = (struct mig_parted_entry){.filters = filters,
                .n_filters = entry->n_filters + 1,
                .is_for_all = true,
                .is_enabled = true,
                .counts = counts,
                .n_counts = n_counts};
        config->n_entries = MAX(config->n_entries, at + 1);
}

static void add_of_each_gpu(struct generate *generate, const char *name, bool is_enabled)
{
        struct generate_config *config = find_config(generate, name);

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
        struct mig_parted_config *configs = ARENA_ARRAY(generate->arena, struct mig_parted_config, generate->n_configs);

        for (size_t i = 0; i < generate->n_configs; i++) {
                const struct generate_config *config = &generate->configs[i];

                configs[i] = (struct mig_parted_config){config->name, config->entries, config->n_entries};
                for (size_t k = 0; k < config->n_entries && generate->n_models == 1; k++)
                        config->entries[k].n_filters = 0;
        }
        *ret = (struct mig_parted){
                .name = "what this node's profiles give", .configs = configs, .n_configs = generate->n_configs};
}

void mig_generate(struct mig_parted *ret, struct arena *arena, const struct mig_node *node)
{
        struct generate *generate = ARENA_NEW(arena, struct generate);

        generate->arena = arena;
        generate->models = ARENA_ARRAY(arena, struct generate_model, node->n_gpus);
        for (size_t i = 0; i < node->n_gpus; i++)
                add_model(generate, &node->gpus[i]);
        add_of_each_gpu(generate, "all-disabled", false);
        add_of_each_gpu(generate, "all-enabled", true);
        for (size_t i = 0; i < generate->n_models; i++)
                add_balanced(generate, &generate->models[i]);
        for (size_t i = 0; i < generate->n_models; i++)
                for (size_t k = 0; k < generate->models[i].n_profiles; k++)
                        add_profile(generate, &generate->models[i], &generate->models[i].profiles[k],
                                mig_parted_profile(&generate->models[i].profiles[k]));
        for (size_t i = 0; i < generate->n_models; i++)
                for (size_t k = 0; k < generate->models[i].n_profiles; k++)
                        add_profile(generate, &generate->models[i], &generate->models[i].profiles[k],
                                generate->models[i].profiles[k].name);
        generate_finish(ret, generate);
}
