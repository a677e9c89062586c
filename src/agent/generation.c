// SPDX-License-Identifier: Apache-2.0
#include "agent/generation.h"

#include <stdlib.h>

#include "node/cdi/cdi.h"
#include "gpu/platform.h"

static int check_imex(
        const struct config *config, const struct inventory *inventory, enum log_level warnings, struct error *err)
{
        static const char text[] = "IMEX channel 0 is to be given to containers, but its device node "
                                   "/dev/nvidia-caps-imex-channels/channel0 is not there";

        if (!config->devices.has_imex_channel || (inventory->nodes & NODE_IMEX_CHANNEL))
                return 0;
        if (config->devices.imex_required)
                return error_set(err, ERROR_NOT_FOUND, "%s (imex.required: false would go on without)", text);
        LOG_AT(warnings, text);
        return 0;
}

int generation_new(struct generation **ret, struct settings *settings, struct inventory *inventory,
        enum log_level warnings, struct error *err)
{
        struct generation *generation = xcalloc(1, sizeof(*generation));
        const struct config *config = settings->config;

        generation->settings = settings_ref(settings);
        if (check_imex(config, inventory, warnings, err) < 0 ||
                plan_build(&generation->plan, &generation->arena, config, inventory, settings_warn, &warnings, err) <
                        0) {
                generation_free(generation);
                return -1;
        }
        generation->inventory = inventory;
        *ret = generation;
        return 0;
}

static unsigned int nodes_there(const struct generation *generation)
{
        const struct config *config = generation->settings->config;
        const struct gpu_paths paths = {.system_root = config->system_root, .driver_root = config->driver.mounted_root};

        return nodes_find(&paths);
}

int generation_publish(
        struct generation *generation, struct cdi_files *files, enum log_level warnings, struct error *err)
{
        generation->nodes = nodes_there(generation);
        return cdi_publish(generation->plan, files, settings_warn, &warnings, err);
}

int generation_publish_again(struct generation *generation, struct cdi_files *files, struct error *err)
{
        generation->nodes = nodes_there(generation);
        return cdi_publish_again(generation->plan, files, err);
}

bool generation_lacks_nodes(const struct generation *generation)
{
        return generation->plan->lacks_nodes || (nodes_there(generation) & ~generation->nodes);
}

struct generation *generation_free(struct generation *generation)
{
        if (!generation)
                return NULL;
        rollout_free(generation->rollout_previous);
        rollout_free(generation->rollout);
        if (generation->plan)
                plan_done(generation->plan);
        arena_done(&generation->arena);
        inventory_free(generation->inventory);
        settings_unref(generation->settings);
        free(generation);
        return NULL;
}

void generation_serve(struct generation *generation, struct rollout *next)
{
        rollout_free(generation->rollout_previous);
        generation->rollout_previous = generation->rollout;
        generation->rollout = next;
}
