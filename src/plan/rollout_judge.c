/*
 * Which units wait. Each unit is judged by all of its holders; then units that belong together wait together.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/rollout_judge.h"
#include "plan/mps_wanted.h"

struct site *judgement_site(const struct judgement *judgement, const char *uuid)
{
        return map_find(&judgement->by_uuid, uuid);
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

static void collect_sites(struct judgement *judgement)
{
        const struct plan *wanted = judgement->wanted;
        size_t count = 0;

        for (size_t i = 0; i < wanted->n_resources; i++)
                count += wanted->resources[i].n_units;
        judgement->sites = ARENA_ARRAY(judgement->arena, struct site, count);
        map_reserve(&judgement->by_uuid, count);
        for (size_t i = 0; i < wanted->n_resources; i++)
                for (size_t j = 0; j < wanted->resources[i].n_units; j++) {
                        struct site *site = &judgement->sites[judgement->n_sites++];

                        site->resource = &wanted->resources[i];
                        site->unit = &wanted->resources[i].units[j];
                        map_add(&judgement->by_uuid, site->unit->uuid, site);
                }
}

static bool is_listed(const char *const *names, size_t n_names, const char *name)
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
static bool is_ours(const struct judgement *judgement, const struct hold *hold)
{
        if (plan_find(judgement->wanted, hold->resource) ||
                is_listed(judgement->previous->names, judgement->previous->n_names, hold->resource))
                return true;
        return text_starts_with(hold->resource, "nvidia.com/") &&
               (judgement_site(judgement, hold->uuid) || inventory_has(judgement->wanted->inventory, hold->uuid));
}

/* What was promised of the unit, if the id is one of those. */
static const struct sharing_policy *find_policy(const struct judgement *judgement, const struct hold *hold)
{
        const struct sharing_policy *policy =
                hold->replica < 0 ? NULL
                                  : sharing_policy_find(judgement->previous->policies, hold->resource, hold->uuid);

        return policy && hold->replica < (int64_t)policy->replicas ? policy : NULL;
}

static struct hold hold_of(const struct judgement *judgement, const struct rollout_held *held)
{
        struct hold hold = {.resource = arena_strdup(judgement->arena, held->resource),
                .id = arena_strdup(judgement->arena, held->device),
                .holder = held->holder ? arena_strdup(judgement->arena, held->holder) : NULL};
        size_t length = device_id_split(hold.id, &hold.replica);

        hold.uuid = arena_strndup(judgement->arena, hold.id, length);
        hold.site = judgement_site(judgement, hold.uuid);
        if (inventory_has(judgement->wanted->inventory, hold.uuid))
                hold.policy = find_policy(judgement, &hold);
        else
                hold.absent = find_policy(judgement, &hold);
        if (held->unit)
                hold.bound = sharing_policy_find(judgement->previous->policies, hold.resource, held->unit);
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

static void collect_holds(struct judgement *judgement, const struct rollout_held *held, size_t n_held)
{
        size_t count = 0;
        size_t kept = 0;

        judgement->holds = ARENA_ARRAY(judgement->arena, struct hold, n_held);
        for (size_t i = 0; i < n_held; i++) {
                struct hold hold = hold_of(judgement, &held[i]);

                if (is_ours(judgement, &hold))
                        judgement->holds[count++] = hold;
        }
        if (count)
                qsort(judgement->holds, count, sizeof(*judgement->holds), compare_holds);
        for (size_t i = 0; i < count; i++)
                if (kept == 0 || !is_same_device(&judgement->holds[kept - 1], &judgement->holds[i]))
                        judgement->holds[kept++] = judgement->holds[i];
                else if (judgement->holds[i].bound)
                        judgement->holds[kept - 1].bound = judgement->holds[i].bound;
        judgement->n_holds = kept;
}

/* ---- one unit, one holder ---- */

static bool is_compatible(const struct judgement *judgement, const struct hold *hold, const struct site *site)
{
        if (hold->policy)
                return sharing_policy_is_kept(hold->policy, site->resource, site->unit);
        if (hold->replica < 0)
                return !site->unit->shared;
        if (!site->unit->shared)
                return false;
        return site->resource->strategy == SHARING_TIME_SLICING ||
               (!judgement->previous->is_known && strcmp(hold->resource, site->resource->name) == 0 &&
                       map_find(&site->resource->by_id, hold->id));
}

/* One plan has the whole GPU, the other has its MIG devices. */
static void mark_relatives(const struct judgement *judgement, const char *uuid)
{
        const struct mig_device *mig;
        const struct gpu *gpu = inventory_find_unit(judgement->wanted->inventory, uuid, &mig);

        if (!gpu)
                return;
        if (mig) {
                struct site *parent = judgement_site(judgement, gpu->uuid);

                if (parent)
                        parent->waits = true;
                return;
        }
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                struct site *child = judgement_site(judgement, gpu->mig_devices[i].uuid);

                if (child)
                        child->waits = true;
        }
}

/* ---- MPS ---- */

static bool is_held(const struct judgement *judgement, const struct sharing_policy *policy)
{
        if (judgement->previous->all_is_held)
                return true;
        for (size_t i = 0; i < judgement->n_holds; i++)
                if (judgement->holds[i].policy == policy || judgement->holds[i].bound == policy)
                        return true;
        return false;
}

/* The unit has this policy in the wanted plan, too. */
static bool is_as_wanted(const struct judgement *judgement, const struct sharing_policy *policy)
{
        const struct site *site = judgement_site(judgement, policy->unit);

        return site && sharing_policy_is_kept(policy, site->resource, site->unit);
}

static bool has_own_daemon(const struct sharing_policy *policy)
{
        return mps_has_own_daemon(policy->daemon_scope, policy->unit);
}

static bool is_same_daemon(const struct sharing_policy *a, const struct sharing_policy *b)
{
        return a == b || (!has_own_daemon(a) && !has_own_daemon(b) &&
                                 mps_daemon_is_common(a->daemon_scope, a->resource, b->daemon_scope, b->resource));
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
                                                  policy->daemon_scope, policy->resource);
}

/*
 * True if the daemon serves the same units under the same policy in the wanted plan; otherwise it has to be replaced.
 */
static bool is_daemon_as_wanted(const struct judgement *judgement, const struct sharing_policy *policy)
{
        const struct sharing_policy_list *list = judgement->previous->policies;
        size_t n_previous = 0;
        size_t n_wanted = 0;

        for (size_t i = 0; i < list->count; i++) {
                if (!is_same_daemon(policy, &list->items[i]))
                        continue;
                if (!is_as_wanted(judgement, &list->items[i]))
                        return false;
                n_previous++;
        }
        for (size_t i = 0; i < judgement->n_sites; i++)
                n_wanted += is_served_beside(&judgement->sites[i], policy);
        return n_previous == n_wanted;
}

/* |policy| stays until its holders have ended: until then no new container gets a unit of its daemon. */
static void keep_policy(struct judgement *judgement, const struct sharing_policy *policy)
{
        const struct sharing_policy_list *list = judgement->previous->policies;

        for (size_t i = 0; i < list->count; i++) {
                struct site *site = judgement_site(judgement, list->items[i].unit);

                if (!is_same_daemon(policy, &list->items[i]) ||
                        !inventory_has(judgement->wanted->inventory, list->items[i].unit))
                        continue;
                judgement->stays[i] = true;
                if (site)
                        site->waits = true;
                mark_relatives(judgement, list->items[i].unit);
        }
}

static void judge_policy(struct judgement *judgement)
{
        const struct sharing_policy_list *list = judgement->previous->policies;

        judgement->stays = ARENA_ARRAY(judgement->arena, bool, list->count);
        for (size_t i = 0; i < list->count; i++) {
                const struct sharing_policy *policy = &list->items[i];
                bool is_kept = has_own_daemon(policy) ? is_as_wanted(judgement, policy)
                                                      : is_daemon_as_wanted(judgement, policy);

                if (!is_kept && is_held(judgement, policy))
                        keep_policy(judgement, policy);
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
static bool has_to_wait(const struct judgement *judgement, const struct site *site)
{
        const struct sharing_policy_list *list = judgement->previous->policies;

        for (size_t i = 0; i < list->count; i++)
                if (judgement->stays[i] && is_replaced(site, &list->items[i]))
                        return true;
        for (size_t i = 0; i < judgement->n_sites; i++)
                if (judgement->sites[i].waits && is_beside(site, &judgement->sites[i]))
                        return true;
        return false;
}

/* A daemon of several units starts with all of them, or not yet. */
static void wait_together(struct judgement *judgement)
{
        for (size_t i = 0; i < judgement->n_sites; i++) {
                struct site *site = &judgement->sites[i];

                if (has_common_daemon(site) && has_to_wait(judgement, site))
                        site->waits = true;
        }
}

/* ---- all of it ---- */

static void judge_holds(struct judgement *judgement)
{
        for (size_t i = 0; i < judgement->n_holds; i++) {
                struct hold *hold = &judgement->holds[i];

                if (hold->site && !is_compatible(judgement, hold, hold->site))
                        hold->site->waits = true;
                mark_relatives(judgement, hold->uuid);
        }
}

static void count_holds(struct judgement *judgement)
{
        const struct sharing_policy *items = judgement->previous->policies->items;

        for (size_t i = 0; i < judgement->n_holds; i++) {
                struct hold *hold = &judgement->holds[i];
                struct site *site = hold->site;

                hold->is_draining = hold->policy && judgement->stays[hold->policy - items];
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

void judgement_make(struct judgement *ret, struct arena *arena, const struct plan *wanted,
        const struct rollout_previous *previous, const struct rollout_held *held, size_t n_held)
{
        *ret = (struct judgement){.wanted = wanted, .previous = previous, .arena = arena};
        collect_sites(ret);
        collect_holds(ret, held, n_held);
        judge_holds(ret);
        judge_policy(ret);
        wait_together(ret);
        count_holds(ret);
}

void judgement_done(struct judgement *judgement)
{
        map_done(&judgement->by_uuid);
}

bool judgement_is_settled(const struct judgement *judgement)
{
        for (size_t i = 0; i < judgement->n_sites; i++)
                if (judgement->sites[i].waits)
                        return false;
        for (size_t i = 0; i < judgement->previous->policies->count; i++)
                if (judgement->stays[i])
                        return false;
        for (size_t i = 0; i < judgement->n_holds; i++)
                if (!judgement->holds[i].is_here)
                        return false;
        return true;
}
