// SPDX-License-Identifier: Apache-2.0
/*
 * Nodes of the simulator's scenario files, as inventories, and what may be made of their GPUs by MIG: of the same
 * tables that the simulated NVML answers from.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "node/dra/layout.h"
#include "gpu/nvml_read.h"
#include "sim/hardware/models.h"

/* Of the scenario at |path|; the simulated library's path is in WARPSHARE_SIM_NVML. Aborts where it cannot. */
static inline struct inventory *simulated_inventory(const char *path)
{
        const struct gpu_paths paths = {.system_root = "/nowhere", .driver_root = ""};
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        struct inventory *inventory = NULL;
        struct error err;

        if (setenv("WARPSHARE_SIM_SCENARIO", path, 1) < 0 ||
                nvml_open(&nvml, getenv("WARPSHARE_SIM_NVML"), "", &err) < 0 ||
                nvml_read(&inventory, nvml, &paths, NULL, &err) < 0)
                abort();
        return inventory;
}

static inline const struct model *simulated_model(const struct gpu *gpu)
{
        const struct model *model;

        for (size_t i = 0; (model = model_at(i)); i++)
                if (strcmp(model->product, gpu->name) == 0)
                        return model;
        return NULL;
}

/* Each GPU that can do MIG has the profiles of its model, as if it were in MIG mode and empty; in |arena|. */
static inline void simulated_mig(struct dra_options *options, struct arena *arena, const struct inventory *inventory)
{
        options->config.dynamic_mig = true;
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct model *model = simulated_model(&inventory->gpus[i]);
                struct mig_instance_profile *profiles;

                if (!model || model->n_profiles == 0)
                        continue;
                profiles = ARENA_ARRAY(arena, struct mig_instance_profile, model->n_profiles);
                for (size_t j = 0; j < model->n_profiles; j++) {
                        const struct mig_profile *from = &model->profiles[j];

                        profiles[j] = (struct mig_instance_profile){.name = from->name,
                                .id = from->id,
                                .slices = from->slices,
                                .size = from->size,
                                .count = from->count,
                                .starts = from->starts,
                                .attributes = {.gpu_slices = from->slices,
                                        .compute_slices = from->slices,
                                        .multiprocessors = from->multiprocessors,
                                        .copy_engines = from->copy_engines,
                                        .decoders = from->decoders,
                                        .encoders = from->encoders,
                                        .jpegs = from->jpegs,
                                        .ofas = from->ofas,
                                        .memory_mib = from->memory_mib}};
                }
                inventory->gpus[i].mig_instance_profiles = profiles;
                inventory->gpus[i].n_mig_instance_profiles = model->n_profiles;
                inventory->gpus[i].n_mig_placed = 0;
        }
}
