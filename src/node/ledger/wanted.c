/*
 * Sends all present allocations to the supervisor of the daemons, which compares them with what it has made
 * (mps/supervisor/allocations.c has the rule). So nothing is left of a container that has ended, even if its release
 * was lost, and a running container lacks nothing.
 *
 * The list is sent only if each allocation has its original id and its share is known: the supervisor removes what the
 * list does not name. Example: of three containers one was found in kubelet's list alone, because the record was lost.
 * Its id is a guess, so no list is sent, and the supervisor keeps all that it has.
 *
 * And the names of who has what, for people who ask the supervisor.
 */
#include "node/ledger/parts.h"

#include <string.h>

#include "node/ledger/claims.h"
#include "plan/mps_wanted.h"

/*
 * If the record was lost, the id was derived from the devices (plan/allocations_sync.c), and the original id is
 * unknown.
 */
#define GUESSED_ID_LENGTH ((size_t)17)

static bool is_known(const struct allocation *allocation)
{
        return !allocation->is_guess && strlen(allocation->id) != GUESSED_ID_LENGTH;
}

/* By the plan, the supervisor makes something for it; whether the daemon can do that now, the supervisor decides. */
static bool is_made(const struct ledger *ledger, const struct ledger_resource *shared, const struct unit *unit)
{
        return unit->shared && share_tier(ledger->plan, shared->resource, unit) >= MPS_TIER_PARTITION;
}

static bool makes_any(const struct ledger *ledger, const struct ledger_resource *shared)
{
        for (size_t i = 0; i < shared->resource->n_units; i++)
                if (shared->resource->units[i].is_kept || is_made(ledger, shared, &shared->resource->units[i]))
                        return true;
        return false;
}

/* False: its share is not known, or not while its unit is away. */
static bool wanted_add(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, struct arena *arena, struct mps_allocation_request *ret, size_t *ret_count)
{
        const struct unit *unit = allocation->unit ? resource_find_unit(shared->resource, allocation->unit) : NULL;
        struct share share;

        if (!is_known(allocation) || !unit || unit->is_kept)
                return false;
        if (!is_made(ledger, shared, unit))
                return true;
        share = share_of(shared->resource, unit, (unsigned int)MIN(allocation->n_devices, unit->replicas));
        ret[(*ret_count)++] = (struct mps_allocation_request){
                .id = allocation->id,
                .daemon = mps_daemon_name(arena, shared->resource, unit),
                .unit = unit->uuid,
                .threads_permille = share.threads_permille,
                .limit_mib = share.memory_mib,
                .sms = share.sms,
        };
        return true;
}

static bool add_shared(const struct ledger *ledger, const struct ledger_resource *shared, struct arena *arena,
        struct mps_allocation_request *ret, size_t *ret_count)
{
        if (!makes_any(ledger, shared))
                return true;
        for (size_t i = 0; i < allocations_count(shared->allocations); i++)
                if (!wanted_add(ledger, shared, allocations_get(shared->allocations, i), arena, ret, ret_count))
                        return false;
        return true;
}

static size_t count_allocations(const struct ledger *ledger)
{
        size_t count = ledger_claims_count_devices(ledger);

        for (size_t i = 0; i < ledger->n_shared; i++)
                count += allocations_count(ledger->shared[i].allocations);
        return count;
}

static void name_pods(const struct ledger *ledger, const struct ledger_resource *shared, struct arena *arena,
        struct mps_holder *ret, size_t *ret_count)
{
        for (size_t i = 0; i < allocations_count(shared->allocations); i++) {
                const struct allocation *allocation = allocations_get(shared->allocations, i);
                const struct holder *holder = ledger_holder_of(ledger, shared, allocation);

                if (allocation->unit && holder && holder->pod)
                        ret[(*ret_count)++] = (struct mps_holder){.unit = allocation->unit,
                                .pod = arena_printf(arena, "%s/%s", holder->pod_namespace, holder->pod)};
        }
}

static size_t name_claims(const struct ledger *ledger, struct arena *arena, struct mps_holder *ret)
{
        const struct ledger_claim_state *states;
        size_t n_claims = ledger_claims(ledger, arena, &states);
        size_t count = 0;

        for (size_t i = 0; i < n_claims; i++)
                for (size_t j = 0; j < states[i].claim->n_devices; j++)
                        if (states[i].claim->devices[j].is_shared)
                                ret[count++] = (struct mps_holder){
                                        .unit = states[i].claim->devices[j].unit, .claim = states[i].claim->name};
        return count;
}

void ledger_name_holders(struct ledger *ledger)
{
        struct arena scratch = ARENA_INIT;
        struct mps_holder *holders = ARENA_ARRAY(&scratch, struct mps_holder, count_allocations(ledger) + 1);
        size_t count = name_claims(ledger, &scratch, holders);

        for (size_t i = 0; i < ledger->n_shared; i++)
                name_pods(ledger, &ledger->shared[i], &scratch, holders, &count);
        mps_link_name_holders(ledger->link, holders, count);
        arena_done(&scratch);
}

/*
 * A unit that is held is away. Where nothing else of its resource is shared, its allocations are not on record
 * meanwhile.
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

void ledger_report_all(struct ledger *ledger)
{
        struct arena scratch = ARENA_INIT;
        struct mps_allocation_request *requests;
        size_t count = 0;
        bool is_whole = ledger->plan && !has_unit_away(ledger->plan);

        requests = ARENA_ARRAY(&scratch, struct mps_allocation_request, count_allocations(ledger) + 1);
        for (size_t i = 0; is_whole && i < ledger->n_shared; i++)
                is_whole = add_shared(ledger, &ledger->shared[i], &scratch, requests, &count);
        is_whole = is_whole && ledger_claims_add_made(ledger, &scratch, requests, &count);
        mps_link_hold(ledger->link, is_whole ? requests : NULL, count);
        arena_done(&scratch);
        ledger_name_holders(ledger);
}
