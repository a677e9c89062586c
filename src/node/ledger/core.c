// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/core.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "plan/share.h"

struct ledger_time ledger_now(const struct ledger_core *core)
{
        return core->options.now(core->options.data);
}

int64_t ledger_clock(const struct ledger_core *core)
{
        return ledger_now(core).clock;
}

#define ID_PREFIX "g%016" PRIx64

void ledger_write_id(const struct ledger_core *core, char ret[static LEDGER_ID_SIZE], uint64_t number)
{
        snprintf(ret, LEDGER_ID_SIZE, ID_PREFIX "%" PRIx64, core->incarnation, number);
}

bool ledger_has_made(const struct ledger_core *core, const struct allocation *allocation)
{
        char prefix[LEDGER_ID_SIZE];

        snprintf(prefix, sizeof(prefix), ID_PREFIX, core->incarnation);
        return text_starts_with(allocation->id, prefix);
}

enum mps_tier ledger_tier(const struct ledger_core *core, const struct resource *resource, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = daemons_find(&core->daemons, unit->uuid);
        enum mps_tier tier = share_tier(core->plan, resource, unit);

        return daemon ? MIN(tier, daemon->tier) : tier;
}

static const struct holder *holder_of(
        const struct ledger_core *core, const struct mps_resource *shared, const struct allocation *allocation)
{
        const struct holder *holder = NULL;

        for (size_t i = 0; i < allocation->n_devices && !holder; i++)
                holder = holdings_find(&core->holdings, shared->resource->name, allocation->devices[i]);
        return holder;
}

size_t ledger_shares(const struct ledger_core *core, struct arena *arena, const struct ledger_share **ret)
{
        size_t n_all = mps_resources_count_allocations(&core->resources);
        struct ledger_share *shares = ARENA_ARRAY(arena, struct ledger_share, n_all);
        size_t n_resources;
        const struct mps_resource *resources = mps_resources_all(&core->resources, &n_resources);

        *ret = shares;
        for (size_t i = 0; i < n_resources; i++)
                for (size_t j = 0; j < allocations_count(resources[i].allocations); j++) {
                        const struct allocation *allocation = allocations_get(resources[i].allocations, j);

                        *shares++ = (struct ledger_share){
                                .shared = &resources[i],
                                .allocation = allocation,
                                .unit = allocation->unit ? resource_find_unit(resources[i].resource, allocation->unit)
                                                         : NULL,
                                .holder = holder_of(core, &resources[i], allocation),
                        };
                }
        return n_all;
}

const struct unit *ledger_claimable_unit(const struct ledger_core *core, const char *uuid)
{
        const struct resource *claimable = core->plan ? core->plan->claimable : NULL;

        return claimable ? resource_find_unit(claimable, uuid) : NULL;
}
