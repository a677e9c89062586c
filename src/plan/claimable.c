#include "plan/claimable.h"

#include "plan/share.h"

/* One share of one: what a client may have at most is the whole unit. */
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

static struct unit unit_of(const struct config *config, const struct shared_resource *shared,
        const struct inventory *inventory, size_t position)
{
        return (struct unit){
                .base_name = config->dra.driver_name,
                .name = config->dra.driver_name,
                .gpu = &inventory->gpus[position],
                .shared = shared,
                .replicas = 1,
                .position = position,
        };
}

static size_t add_units(struct arena *arena, const struct config *config, const struct shared_resource *shared,
        const struct inventory *inventory, size_t position, struct unit *ret)
{
        const struct gpu *gpu = &inventory->gpus[position];

        if (!gpu->mig_enabled) {
                ret[0] = unit_of(config, shared, inventory, position);
                ret[0].uuid = gpu->uuid;
                ret[0].index = arena_printf(arena, "%u", gpu->index);
                ret[0].memory = share_memory_of(config->dra.memory_mib, gpu, NULL);
                return 1;
        }
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                ret[i] = unit_of(config, shared, inventory, position);
                ret[i].uuid = gpu->mig_devices[i].uuid;
                ret[i].index = arena_printf(arena, "%u:%u", gpu->index, gpu->mig_devices[i].index);
                ret[i].mig = &gpu->mig_devices[i];
                ret[i].memory = share_memory_of(config->dra.memory_mib, gpu, ret[i].mig);
        }
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
                        count += add_units(arena, config, shared, inventory, i, &units[count]);
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
