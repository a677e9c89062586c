// SPDX-License-Identifier: Apache-2.0
/* Decides which units wait: each because of its own holders, then units that belong together. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/rollout_state.h"
#include "plan/mps_wanted.h"

struct site *rollout_state_site(const struct rollout_state *state, const char *uuid)
{
        return map_find(&state->by_uuid, uuid);
}

struct span holds_of_unit(const struct hold *holds, size_t count)
{
        size_t n = 1;

        while (n < count && strcmp(holds[n].resource, holds[0].resource) == 0 &&
                strcmp(holds[n].uuid, holds[0].uuid) == 0)
                n++;
        return (struct span){.holds = holds, .count = n};
}

/* ---- what there is ---- */

static void collect_sites(struct rollout_state *state)
{
        const struct plan *wanted = state->wanted;
        size_t count = 0;

        for (size_t i = 0; i < wanted->n_resources; i++)
                count += wanted->resources[i].n_units;
        state->sites = ARENA_ARRAY(state->arena, struct site, count);
        map_reserve(&state->by_uuid, count);
        for (size_t i = 0; i < wanted->n_resources; i++)
                for (size_t j = 0; j < wanted->resources[i].n_units; j++) {
                        struct site *site = &state->sites[state->n_sites++];

                        site->resource = &wanted->resources[i];
                        site->unit = &wanted->resources[i].units[j];
                        map_add(&state->by_uuid, site->unit->uuid, site);
                }
}

static bool rollout_state_is_listed(const char *const *names, size_t n_names, const char *name)
{
        for (size_t i = 0; i < n_names; i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

/*
 * A resource that we never advertised may be another plugin's, even with UUIDs of our GPUs. After a start without a
 * record, a device counts as ours if its resource has NVIDIA's name and its unit is of this node.
 */
static bool rollout_state_is_ours(const struct rollout_state *state, const struct hold *hold)
{
        if (plan_find(state->wanted, hold->resource) ||
                rollout_state_is_listed(state->previous->names, state->previous->n_names, hold->resource))
                return true;
        return text_starts_with(hold->resource, "nvidia.com/") &&
               (rollout_state_site(state, hold->uuid) || inventory_has(state->wanted->inventory, hold->uuid));
}

/* The sharing policy that was promised of the unit, if it has the id. */
static const struct sharing_policy *find_policy(const struct rollout_state *state, const struct hold *hold)
{
        const struct sharing_policy *policy =
                hold->replica < 0 ? NULL : sharing_policy_find(state->previous->policies, hold->resource, hold->uuid);

        return policy && hold->replica < (int64_t)policy->replicas ? policy : NULL;
}

static struct hold hold_of(const struct rollout_state *state, const struct rollout_held *held)
{
        struct hold hold = {.resource = arena_strdup(state->arena, held->resource),
                .id = arena_strdup(state->arena, held->device),
                .holder = held->holder ? arena_strdup(state->arena, held->holder) : NULL};
        size_t length = device_id_split(hold.id, &hold.replica);

        hold.uuid = arena_strndup(state->arena, hold.id, length);
        hold.site = rollout_state_site(state, hold.uuid);
        if (inventory_has(state->wanted->inventory, hold.uuid))
                hold.policy = find_policy(state, &hold);
        else
                hold.absent = find_policy(state, &hold);
        if (held->unit)
                hold.bound = sharing_policy_find(state->previous->policies, hold.resource, held->unit);
        return hold;
}

static int compare_holds(const void *a, const void *b)
{
        const struct hold *left = a;
        const struct hold *right = b;
        int by_name = strcmp(left->resource, right->resource);
        int by_unit = by_name ? by_name : strcmp(left->uuid, right->uuid);

        if (by_unit)
                return by_unit;
        return (left->replica > right->replica) - (left->replica < right->replica);
}

static bool is_same_device(const struct hold *a, const struct hold *b)
{
        return strcmp(a->resource, b->resource) == 0 && strcmp(a->id, b->id) == 0;
}

static void collect_holds(struct rollout_state *state, const struct rollout_held *held, size_t n_held)
{
        size_t count = 0;
        size_t kept = 0;

        state->holds = ARENA_ARRAY(state->arena, struct hold, n_held);
        for (size_t i = 0; i < n_held; i++) {
                struct hold hold = hold_of(state, &held[i]);

                if (rollout_state_is_ours(state, &hold))
                        state->holds[count++] = hold;
        }
        if (count)
                qsort(state->holds, count, sizeof(*state->holds), compare_holds);
        for (size_t i = 0; i < count; i++)
                if (kept == 0 || !is_same_device(&state->holds[kept - 1], &state->holds[i]))
                        state->holds[kept++] = state->holds[i];
                else if (state->holds[i].bound)
                        state->holds[kept - 1].bound = state->holds[i].bound;
        state->n_holds = kept;
}

/* ---- one unit, one holder ---- */

static bool is_compatible(const struct rollout_state *state, const struct hold *hold, const struct site *site)
{
        if (hold->policy)
                return sharing_policy_is_kept(hold->policy, site->resource, site->unit);
        if (hold->replica < 0)
                return !site->unit->shared;
        if (!site->unit->shared)
                return false;
        return site->resource->strategy == SHARING_TIME_SLICING ||
               (!state->previous->is_known && strcmp(hold->resource, site->resource->name) == 0 &&
                       map_find(&site->resource->by_id, hold->id));
}

/* One plan has the whole GPU, the other has its MIG devices. */
static void mark_relatives(const struct rollout_state *state, const char *uuid)
{
        const struct mig_device *mig;
        const struct gpu *gpu = inventory_find_unit(state->wanted->inventory, uuid, &mig);

        if (!gpu)
                return;
        if (mig) {
                struct site *parent = rollout_state_site(state, gpu->uuid);

                if (parent)
                        parent->waits = true;
                return;
        }
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                struct site *child = rollout_state_site(state, gpu->mig_devices[i].uuid);

                if (child)
                        child->waits = true;
        }
}

/* ---- MPS ---- */

static bool rollout_state_is_held(const struct rollout_state *state, const struct sharing_policy *policy)
{
        if (state->previous->all_is_held)
                return true;
        for (size_t i = 0; i < state->n_holds; i++)
                if (state->holds[i].policy == policy || state->holds[i].bound == policy)
                        return true;
        return false;
}

/* The unit has this policy in the wanted plan, too. */
static bool is_as_wanted(const struct rollout_state *state, const struct sharing_policy *policy)
{
        const struct site *site = rollout_state_site(state, policy->unit);

        return site && sharing_policy_is_kept(policy, site->resource, site->unit);
}

static bool has_own_daemon(const struct sharing_policy *policy)
{
        return mps_has_own_daemon(policy->section.daemon_scope, policy->unit);
}

static bool is_same_daemon(const struct sharing_policy *a, const struct sharing_policy *b)
{
        return a == b || (!has_own_daemon(a) && !has_own_daemon(b) &&
                                 mps_daemon_is_common(
                                         a->section.daemon_scope, a->resource, b->section.daemon_scope, b->resource));
}

/* The unit's daemon serves several units. */
static bool has_common_daemon(const struct site *site)
{
        return site->unit->shared && site->resource->strategy == SHARING_MPS &&
               !mps_has_own_daemon(site->resource->daemon_scope, site->unit->uuid);
}

static bool is_served_beside(const struct site *site, const struct sharing_policy *policy)
{
        return has_common_daemon(site) && mps_daemon_is_common(site->resource->daemon_scope, site->resource->name,
                                                  policy->section.daemon_scope, policy->resource);
}

/*
 * True if the daemon serves the same units under the same policy in the wanted plan; otherwise it has to be replaced.
 */
static bool is_daemon_as_wanted(const struct rollout_state *state, const struct sharing_policy *policy)
{
        const struct sharing_policy_list *list = state->previous->policies;
        size_t n_previous = 0;
        size_t n_wanted = 0;

        for (size_t i = 0; i < list->count; i++) {
                if (!is_same_daemon(policy, &list->items[i]))
                        continue;
                if (!is_as_wanted(state, &list->items[i]))
                        return false;
                n_previous++;
        }
        for (size_t i = 0; i < state->n_sites; i++)
                n_wanted += is_served_beside(&state->sites[i], policy);
        return n_previous == n_wanted;
}

/* |policy| stays until its holders have ended: until then no new container gets a unit of its daemon. */
static void keep_policy(struct rollout_state *state, const struct sharing_policy *policy)
{
        const struct sharing_policy_list *list = state->previous->policies;

        for (size_t i = 0; i < list->count; i++) {
                struct site *site = rollout_state_site(state, list->items[i].unit);

                if (!is_same_daemon(policy, &list->items[i]) ||
                        !inventory_has(state->wanted->inventory, list->items[i].unit))
                        continue;
                state->stays[i] = true;
                if (site)
                        site->waits = true;
                mark_relatives(state, list->items[i].unit);
        }
}

static void keep_policies(struct rollout_state *state)
{
        const struct sharing_policy_list *list = state->previous->policies;

        state->stays = ARENA_ARRAY(state->arena, bool, list->count);
        for (size_t i = 0; i < list->count; i++) {
                const struct sharing_policy *policy = &list->items[i];
                bool is_kept =
                        has_own_daemon(policy) ? is_as_wanted(state, policy) : is_daemon_as_wanted(state, policy);

                if (!is_kept && rollout_state_is_held(state, policy))
                        keep_policy(state, policy);
        }
}

static bool is_beside(const struct site *a, const struct site *b)
{
        return has_common_daemon(a) && has_common_daemon(b) &&
               mps_daemon_is_common(
                       a->resource->daemon_scope, a->resource->name, b->resource->daemon_scope, b->resource->name);
}

/* The daemon of |policy| has the same name as the wanted daemon of |site|. */
static bool is_replaced(const struct site *site, const struct sharing_policy *policy)
{
        return site->resource->daemon_scope == DAEMON_SCOPE_RESOURCE
                       ? strcmp(policy->resource, site->resource->name) == 0
                       : is_served_beside(site, policy);
}

/* Its daemon would start beside one of the same name, or without a unit that waits. */
static bool has_to_wait(const struct rollout_state *state, const struct site *site)
{
        const struct sharing_policy_list *list = state->previous->policies;

        for (size_t i = 0; i < list->count; i++)
                if (state->stays[i] && is_replaced(site, &list->items[i]))
                        return true;
        for (size_t i = 0; i < state->n_sites; i++)
                if (state->sites[i].waits && is_beside(site, &state->sites[i]))
                        return true;
        return false;
}

/* A daemon of several units starts with all of them, or not yet. */
static void wait_together(struct rollout_state *state)
{
        for (size_t i = 0; i < state->n_sites; i++) {
                struct site *site = &state->sites[i];

                if (has_common_daemon(site) && has_to_wait(state, site))
                        site->waits = true;
        }
}

/* ---- all of it ---- */

static void mark_incompatible(struct rollout_state *state)
{
        for (size_t i = 0; i < state->n_holds; i++) {
                struct hold *hold = &state->holds[i];

                if (hold->site && !is_compatible(state, hold, hold->site))
                        hold->site->waits = true;
                mark_relatives(state, hold->uuid);
        }
}

static void count_holds(struct rollout_state *state)
{
        const struct sharing_policy *items = state->previous->policies->items;

        for (size_t i = 0; i < state->n_holds; i++) {
                struct hold *hold = &state->holds[i];
                struct site *site = hold->site;

                hold->is_draining = hold->policy && state->stays[hold->policy - items];
                if (!site || site->waits)
                        continue;
                hold->is_here =
                        strcmp(hold->resource, site->resource->name) == 0 && map_find(&site->resource->by_id, hold->id);
                if (hold->is_here)
                        site->n_here++;
                else
                        site->n_elsewhere++;
        }
}

void rollout_state_make(struct rollout_state *ret, struct arena *arena, const struct plan *wanted,
        const struct rollout_previous *previous, const struct rollout_held *held, size_t n_held)
{
        *ret = (struct rollout_state){.wanted = wanted, .previous = previous, .arena = arena};
        collect_sites(ret);
        collect_holds(ret, held, n_held);
        mark_incompatible(ret);
        keep_policies(ret);
        wait_together(ret);
        count_holds(ret);
}

void rollout_state_done(struct rollout_state *state)
{
        map_done(&state->by_uuid);
}

bool rollout_state_is_settled(const struct rollout_state *state)
{
        for (size_t i = 0; i < state->n_sites; i++)
                if (state->sites[i].waits)
                        return false;
        for (size_t i = 0; i < state->previous->policies->count; i++)
                if (state->stays[i])
                        return false;
        for (size_t i = 0; i < state->n_holds; i++)
                if (!state->holds[i].is_here)
                        return false;
        return true;
}
