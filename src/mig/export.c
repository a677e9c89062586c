#include "mig/parted.h"

#include <string.h>

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

static bool export_is_same(const struct mig_parted_entry *a, const struct mig_parted_entry *b)
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

static bool has_filter(const struct mig_parted_entry *entry, uint32_t device)
{
        for (size_t i = 0; i < entry->n_filters; i++)
                if (entry->filters[i].device == device)
                        return true;
        return false;
}

/* |entry| takes the one GPU of |other|. */
static void export_merge(struct mig_parted_entry *entry, struct arena *arena, const struct mig_parted_entry *other)
{
        struct mig_parted_filter *filters = ARENA_ARRAY(arena, struct mig_parted_filter, entry->n_filters + 1);
        unsigned int *devices = ARENA_ARRAY(arena, unsigned int, entry->n_devices + 1);

        memcpy(filters, entry->filters, entry->n_filters * sizeof(*filters));
        memcpy(devices, entry->devices, entry->n_devices * sizeof(*devices));
        devices[entry->n_devices++] = other->devices[0];
        entry->devices = devices;
        if (has_filter(entry, other->filters[0].device))
                return;
        filters[entry->n_filters++] = other->filters[0];
        entry->filters = filters;
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
        struct mig_parted_entry *entries = ARENA_ARRAY(arena, struct mig_parted_entry, node->n_gpus);

        *config = (struct mig_parted_config){.name = name, .entries = entries};
        for (size_t i = 0; i < node->n_gpus; i++) {
                struct mig_parted_entry entry;
                size_t at = 0;

                if (export_gpu(&entry, arena, &node->gpus[i], err) < 0)
                        return -1;
                while (at < config->n_entries && !export_is_same(&entries[at], &entry))
                        at++;
                if (at < config->n_entries)
                        export_merge(&entries[at], arena, &entry);
                else
                        entries[config->n_entries++] = entry;
        }
        for (size_t i = 0; i < config->n_entries; i++)
                export_shorten(&entries[i], node, config->n_entries == 1);
        *ret = (struct mig_parted){.name = "the present geometry", .configs = config, .n_configs = 1};
        return 0;
}
