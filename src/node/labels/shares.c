/*
 * Our own labels: what one device of a resource gives. They are named after the resource that pods request, and have
 * the least that any unit gives, so that a pod that chose a node by them gets at least that much. Numbers are whole,
 * for Gt and Lt of a node affinity.
 */
#include <limits.h>
#include <string.h>

#include "node/labels/label_set.h"
#include "plan/capability.h"
#include "plan/share.h"

/* UINT64_MAX, UINT_MAX: no unit has said anything yet; 0: unknown, or not limited by us. */
struct worth {
        uint64_t memory_mib;
        unsigned int threads_permille;
        unsigned int sms;
        unsigned int clients;
        unsigned int most;
        enum mps_tier tier;
        bool lacks_limits; /* of memory, on one of its units at least */
        bool has_mps;
        bool has_slices; /* of time: memory and threads of a container are not limited */
};

static void shares_add_unit(
        struct worth *worth, const struct plan *plan, const struct resource *resource, const struct unit *unit)
{
        struct share share = share_of(resource, unit, 1);
        uint64_t memory = unit->shared ? share.memory_mib : unit->memory >> 20;
        bool is_mps = unit->shared && resource->strategy == SHARING_MPS;

        worth->most = MIN(worth->most, share_most(resource, unit));
        worth->memory_mib = MIN(worth->memory_mib, memory);
        worth->threads_permille = MIN(worth->threads_permille, share.threads_permille);
        worth->sms = MIN(worth->sms, share_sms(unit, &share));
        worth->has_slices = worth->has_slices || (unit->shared && resource->strategy == SHARING_TIME_SLICING);
        if (!is_mps)
                return;
        worth->has_mps = true;
        worth->clients = MIN(worth->clients, capability_clients(unit, plan->inventory->driver_version));
        worth->tier = MIN(worth->tier, share_tier(plan, resource, unit));
        worth->lacks_limits = worth->lacks_limits || !share_limits_memory(unit);
}

static void shares_put_resource(struct label_set *set, const struct plan *plan, const struct resource *resource)
{
        const char *slash = strchr(resource->name, '/');
        const char *name = arena_printf(set->arena, LABELS_PREFIX "%s", slash ? slash + 1 : resource->name);
        struct worth worth = {.memory_mib = UINT64_MAX,
                .threads_permille = UINT_MAX,
                .sms = UINT_MAX,
                .clients = UINT_MAX,
                .most = UINT_MAX,
                .tier = MPS_TIER_NAMESPACE};

        for (size_t i = 0; i < resource->n_units; i++)
                shares_add_unit(&worth, plan, resource, &resource->units[i]);
        label_set_put_of(set, name, "sharing", "%s", sharing_strategy_name(resource->strategy));
        label_set_put_of(set, name, "most", "%u", worth.most);
        if (!worth.has_slices) {
                if (worth.memory_mib)
                        label_set_put_of(set, name, "memory", "%llu", (unsigned long long)worth.memory_mib);
                label_set_put_of(set, name, "threads", "%u", worth.threads_permille / 10);
                if (worth.sms)
                        label_set_put_of(set, name, "sms", "%u", worth.sms);
        }
        if (!worth.has_mps)
                return;
        label_set_put_of(set, name, "provisioning", "%s", provisioning_name(resource->provisioning));
        label_set_put_of(set, name, "tier", "%s", mps_tier_promise(worth.tier, !worth.lacks_limits));
        label_set_put_of(set, name, "clients", "%u", worth.clients);
}

void labels_put_shares(struct label_set *set)
{
        const struct plan *plan = set->input->plan;

        for (size_t i = 0; plan && i < plan->n_resources; i++)
                shares_put_resource(set, plan, &plan->resources[i]);
}
