#include "plan/claimable.h"

#include "plan/share.h"

/* A sharing section with one replica, so that a client may have the whole unit at most. */
static const struct shared_resource *share_for(struct arena *arena, const struct config *config)
{
        struct sharing_section *section = ARENA_NEW(arena, struct sharing_section);
        struct shared_resource *shared = ARENA_NEW(arena, struct shared_resource);

        *section = (struct sharing_section){
                .strategy = SHARING_MPS,
                .provisioning = PROVISIONING_WEIGHTED,
                .daemon_scope = config->dra.daemon_scope,
                .guard = config->sharing.mps ? config->sharing.mps->guard : GUARD_REPORT,
                .tier_limit = config->sharing.mps ? config->sharing.mps->tier_limit : MPS_TIER_NAMESPACE,
                .has_memory_reserve = config->dra.has_memory_reserve,
                .memory_reserve_mib = config->dra.memory_reserve_mib,
        };
        *shared = (struct shared_resource){
                .section = section, .path = "dra", .name = config->dra.driver_name, .replicas = 1};
        return shared;
}

static void claimable_add_unit(struct arena *arena, const struct config *config, const struct shared_resource *shared,
        const struct inventory *inventory, size_t position, const struct mig_device *mig, struct unit *ret)
{
        *ret = unit_make(arena, inventory, position, mig);
        ret->base_name = ret->name = config->dra.driver_name;
        ret->shared = shared;
        ret->memory = share_memory_of(config->dra.memory_mib, ret->gpu, mig);
}

static size_t claimable_add_gpu(struct arena *arena, const struct config *config, const struct shared_resource *shared,
        const struct inventory *inventory, size_t position, struct unit *ret)
{
        const struct gpu *gpu = &inventory->gpus[position];

        if (!gpu->mig_enabled) {
                claimable_add_unit(arena, config, shared, inventory, position, NULL, ret);
                return 1;
        }
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                claimable_add_unit(arena, config, shared, inventory, position, &gpu->mig_devices[i], &ret[i]);
        return gpu->n_mig_devices;
}

const struct resource *claimable_units(
        struct arena *arena, const struct config *config, const struct inventory *inventory)
{
        const struct shared_resource *shared;
        struct resource *resource;
        struct unit *units;
        size_t count = 0;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                count += 1 + inventory->gpus[i].n_mig_devices;
        units = ARENA_ARRAY(arena, struct unit, count);
        shared = share_for(arena, config);
        count = 0;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (plan_leaves_to_dra(config, inventory, &inventory->gpus[i]))
                        count += claimable_add_gpu(arena, config, shared, inventory, i, &units[count]);
        if (count == 0 && !config->dra.enabled)
                return NULL;
        resource = ARENA_NEW(arena, struct resource);
        *resource = (struct resource){
                .name = config->dra.driver_name,
                .base_name = config->dra.driver_name,
                .strategy = SHARING_MPS,
                .provisioning = shared->section->provisioning,
                .daemon_scope = shared->section->daemon_scope,
                .tier_limit = shared->section->tier_limit,
                .units = units,
                .n_units = count,
                .by_id = MAP_INIT,
        };
        return resource;
}
