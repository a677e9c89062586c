#include "node/ledger/granted.h"

#include <string.h>

#include "plan/mps_wanted.h"
#include "plan/share.h"

/*
 * If the record was lost, the id was derived from the devices (plan/allocations_sync.c), and the original id is
 * unknown.
 */
#define GUESSED_ID_LENGTH ((size_t)17)

static bool granted_is_known(const struct allocation *allocation)
{
        return !allocation->is_guess && strlen(allocation->id) != GUESSED_ID_LENGTH;
}

/* True if the tier needs a partition or a namespace. The supervisor decides whether the daemon can make one now. */
static bool is_made(const struct ledger_core *core, const struct mps_resource *shared, const struct unit *unit)
{
        return unit->shared && share_tier(core->plan, shared->resource, unit) >= MPS_TIER_PARTITION;
}

static bool makes_any(const struct ledger_core *core, const struct mps_resource *shared)
{
        for (size_t i = 0; i < shared->resource->n_units; i++)
                if (shared->resource->units[i].is_kept || is_made(core, shared, &shared->resource->units[i]))
                        return true;
        return false;
}

/* False: the share is unknown, perhaps only while its unit is missing. */
static bool granted_add_allocation(const struct ledger_core *core, const struct mps_resources_allocation *of,
        struct arena *arena, struct mps_allocation_request *ret, size_t *ret_count)
{
        const struct resource *resource = of->shared->resource;
        const struct allocation *allocation = of->allocation;
        const struct unit *unit = allocation->unit ? resource_find_unit(resource, allocation->unit) : NULL;
        struct share share;

        if (!makes_any(core, of->shared))
                return true;
        if (!granted_is_known(allocation) || !unit || unit->is_kept)
                return false;
        if (!is_made(core, of->shared, unit))
                return true;
        share = share_of(resource, unit, (unsigned int)MIN(allocation->n_devices, unit->replicas));
        ret[(*ret_count)++] = (struct mps_allocation_request){
                .id = allocation->id,
                .daemon = mps_daemon_name(arena, resource, unit),
                .unit = unit->uuid,
                .threads_permille = share.threads_permille,
                .limit_mib = share.memory_mib,
                .sms = share.sms,
        };
        return true;
}

static size_t name_claims(const struct claim_set *claims, struct arena *arena, struct mps_holder *ret)
{
        const struct ledger_claim_state *states;
        size_t n_claims = claim_set_all(claims, arena, &states);
        size_t count = 0;

        for (size_t i = 0; i < n_claims; i++)
                for (size_t j = 0; j < states[i].claim->n_devices; j++)
                        if (states[i].claim->devices[j].is_shared)
                                ret[count++] = (struct mps_holder){
                                        .unit = states[i].claim->devices[j].unit, .claim = states[i].claim->name};
        return count;
}

void granted_send_names(const struct ledger_core *core, const struct claim_set *claims)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct mps_resources_allocation *all;
        size_t n_all = mps_resources_allocations(&core->resources, &scratch, &all);
        struct mps_holder *holders =
                ARENA_ARRAY(&scratch, struct mps_holder, n_all + claim_set_count_devices(claims) + 1);
        size_t count = name_claims(claims, &scratch, holders);

        for (size_t i = 0; i < n_all; i++) {
                const struct holder *holder = ledger_holder_of(core, all[i].shared, all[i].allocation);

                if (all[i].allocation->unit && holder && holder->pod)
                        holders[count++] = (struct mps_holder){.unit = all[i].allocation->unit,
                                .pod = arena_printf(&scratch, "%s/%s", holder->pod_namespace, holder->pod)};
        }
        mps_link_name_holders(daemons_link(&core->daemons), holders, count);
}

/*
 * True if a kept unit is missing from the node. Its allocations may be unknown then: if nothing else of its resource is
 * shared, they are not in the record.
 */
static bool has_unit_away(const struct plan *plan)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t j = 0; j < plan->resources[i].n_units; j++)
                        if (plan->resources[i].units[j].is_kept &&
                                !inventory_has(plan->inventory, plan->resources[i].units[j].uuid))
                                return true;
        return false;
}

void granted_send(const struct ledger_core *core, const struct claim_set *claims)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct mps_resources_allocation *all;
        size_t n_all = mps_resources_allocations(&core->resources, &scratch, &all);
        struct mps_allocation_request *requests =
                ARENA_ARRAY(&scratch, struct mps_allocation_request, n_all + claim_set_count_devices(claims) + 1);
        bool is_whole = core->plan && !has_unit_away(core->plan);
        size_t count = 0;

        for (size_t i = 0; is_whole && i < n_all; i++)
                is_whole = granted_add_allocation(core, &all[i], &scratch, requests, &count);
        is_whole = is_whole && claim_set_add_made(claims, &scratch, requests, &count);
        mps_link_hold(daemons_link(&core->daemons), is_whole ? requests : NULL, count);
        granted_send_names(core, claims);
}
