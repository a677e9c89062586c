#include "dra/options.h"

#include "share/plan.h"

struct dra_options dra_options_from(const struct config *config, const struct inventory *inventory, struct arena *arena)
{
        const struct config_dra *dra = &config->dra;
        struct dra_options options = DRA_OPTIONS_DEFAULT;
        const char **devices = ARENA_ARRAY(arena, const char *, inventory->n_gpus + 1);

        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (plan_is_for_dra(config, inventory, &inventory->gpus[i]))
                        devices[options.n_devices++] = inventory->gpus[i].uuid;
        options.devices = devices;
        options.whole = dra->whole;
        options.mps = dra->mps;
        options.time_slicing = dra->time_slicing;
        options.default_memory_mib = dra->default_memory_mib;
        options.default_thread_percentage = dra->default_thread_percentage;
        options.default_clients = dra->default_clients;
        options.has_memory_reserve = dra->has_memory_reserve;
        options.memory_reserve_mib = dra->memory_reserve_mib;
        options.slots = dra->slots;
        options.fallback = dra->fallback;
        options.shares = dra->shares;
        return options;
}
