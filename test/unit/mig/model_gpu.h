// SPDX-License-Identifier: Apache-2.0
/* GPUs of the simulator's models as src/mig has them, without a driver. */
#pragma once

#include <string.h>

#include "gpu/mig_profile.h"
#include "mig/node.h"
#include "sim/hardware/models.h"

/* With MIG on and empty. The profiles are named as ours are, and as the product's are by its driver. */
static inline struct mig_node_gpu model_gpu(struct arena *arena, unsigned int index, const char *key)
{
        const struct model *model = model_find(key);
        struct mig_gpu_profile *profiles = ARENA_ARRAY(arena, struct mig_gpu_profile, model->n_profiles);

        for (size_t i = 0; i < model->n_profiles; i++) {
                const struct mig_profile *from = &model->profiles[i];
                struct mig_placement *placements = ARENA_ARRAY(arena, struct mig_placement, 32);
                char name[MIG_PROFILE_SIZE] = "";

                bool is_named = mig_profile_name(
                        name, from->index, from->slices, from->memory_mib, (uint64_t)model->memory_mib << 20);

                profiles[i] = (struct mig_gpu_profile){.name = is_named ? arena_strdup(arena, name) : from->name,
                        .driver_name = from->name,
                        .id = from->id,
                        .index = from->index,
                        .slices = from->slices,
                        .max = from->count,
                        .memory_mib = from->memory_mib,
                        .attributes = {.decoders = from->decoders,
                                .encoders = from->encoders,
                                .jpegs = from->jpegs,
                                .ofas = from->ofas},
                        .placements = placements};
                for (unsigned int start = 0; start < 32; start++)
                        if (from->starts >> start & 1)
                                placements[profiles[i].n_placements++] = (struct mig_placement){start, from->size};
        }
        return (struct mig_node_gpu){.index = index,
                .uuid = arena_printf(arena, "GPU-%u", index),
                .name = model->product,
                .bus_id = arena_printf(arena, "00000000:%02X:00.0", index + 1),
                .pci_device = model->pci_device << 16 | 0x10de,
                .pci_subsystem = model->pci_subsystem << 16 | 0x10de,
                .is_capable = model->n_profiles > 0,
                .geometry = {.is_enabled = model->n_profiles > 0,
                        .is_pending_enabled = model->n_profiles > 0,
                        .profiles = profiles,
                        .n_profiles = model->n_profiles}};
}
