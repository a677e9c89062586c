// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the plan to serve from the state. For each resource: its units that the new plan serves already, each with
 * its held previous ids at the end, then the kept units. And texts for people about what waits.
 */
#include "plan/rollout.h"

#include <string.h>

#include "base/strbuf.h"
#include "plan/rollout_state.h"

static struct span span_of_name(const struct rollout_state *state, const char *name)
{
        struct span span = {0};

        for (size_t i = 0; i < state->n_holds; i++) {
                if (strcmp(state->holds[i].resource, name) != 0)
                        continue;
                if (span.count++ == 0)
                        span.holds = &state->holds[i];
        }
        return span;
}

/* The id is held, listed under this name, and not an id of the unit under its new policy. */
static bool is_extra(const struct hold *hold)
{
        return !hold->is_here && !hold->is_draining;
}

static size_t count_extra(struct span span)
{
        size_t count = 0;

        for (size_t i = 0; i < span.count; i++)
                count += is_extra(&span.holds[i]);
        return count;
}

static bool goes_over(const struct site *site)
{
        return site && !site->waits;
}

/* ---- one resource ---- */

struct build {
        const struct rollout_state *state;
        struct arena *arena;
        struct resource *resource;
        struct unit *units;
        struct device *devices;
        bool *unavailable;
        size_t room; /* for devices: a list is one message */
        size_t n_free;
        bool shows_draining;
};

static void rollout_add_device(struct build *build, const char *id, size_t unit, uint32_t replica, bool unavailable)
{
        struct resource *resource = build->resource;
        struct device *device = &build->devices[resource->n_devices];

        if (build->room == 0 || !map_add(&resource->by_id, id, device))
                return;
        build->room--;
        *device = (struct device){.id = id, .unit = (uint32_t)unit, .replica = replica};
        build->unavailable[resource->n_devices++] = unavailable;
}

/* The unit's own ids: those in use are healthy, and as many of the free ones as may be given. */
static void add_own_devices(struct build *build, const struct site *site, const bool *is_held)
{
        const struct resource *wanted = site->resource;
        const struct unit *unit = site->unit;
        size_t used = site->n_here + site->n_elsewhere;
        size_t left = used < unit->replicas ? unit->replicas - used : 0;
        size_t position = build->resource->n_units;

        build->n_free += left;
        for (size_t i = unit->first_device; i < unit->first_device + unit->replicas; i++) {
                bool is_free = !is_held[i];

                rollout_add_device(
                        build, wanted->devices[i].id, position, wanted->devices[i].replica, is_free && left == 0);
                if (is_free && left > 0)
                        left--;
        }
}

/* Whether these ids are healthy is decided later: it depends on whether the resource has anything else to give. */
static void add_extra_devices(struct build *build, struct span span, size_t position)
{
        for (size_t i = 0; i < span.count; i++)
                if (is_extra(&span.holds[i]))
                        rollout_add_device(build, arena_strdup(build->arena, span.holds[i].id), position,
                                span.holds[i].replica < 0 ? 0 : (uint32_t)span.holds[i].replica, true);
}

static struct span find_unit_span(struct span of_name, const char *uuid)
{
        for (size_t i = 0; i < of_name.count;) {
                struct span span = holds_of_unit(&of_name.holds[i], of_name.count - i);

                if (strcmp(span.holds[0].uuid, uuid) == 0)
                        return span;
                i += span.count;
        }
        return (struct span){0};
}

static void rollout_add_units(struct build *build, const struct resource *wanted, struct span held, const bool *is_held)
{
        for (size_t i = 0; i < wanted->n_units; i++) {
                const struct site *site = rollout_state_site(build->state, wanted->units[i].uuid);
                size_t position = build->resource->n_units;

                if (!goes_over(site))
                        continue;
                build->units[position] = wanted->units[i];
                build->units[position].first_device = build->resource->n_devices;
                add_own_devices(build, site, is_held);
                add_extra_devices(build, find_unit_span(held, wanted->units[i].uuid), position);
                build->resource->n_units++;
        }
}

static struct unit kept_unit(struct build *build, const struct hold *hold, const char *name)
{
        const struct inventory *inventory = build->state->wanted->inventory;
        const struct mig_device *mig;
        const struct gpu *gpu = inventory_find_unit(inventory, hold->uuid, &mig);
        const char *uuid = arena_strdup(build->arena, hold->uuid);
        struct unit unit = {.index = ""};

        if (gpu) {
                unit = unit_make(build->arena, inventory, (size_t)(gpu - inventory->gpus), mig);
        } else {
                struct gpu *gone = ARENA_NEW(build->arena, struct gpu);

                *gone = inventory_unknown_gpu(uuid);
                unit.gpu = gone;
        }
        unit.uuid = uuid;
        unit.base_name = unit.name = name;
        unit.first_device = build->resource->n_devices;
        unit.is_kept = true;
        return unit;
}

static void add_kept_units(struct build *build, struct span held)
{
        struct resource *resource = build->resource;

        for (size_t i = 0; i < held.count;) {
                struct span span = holds_of_unit(&held.holds[i], held.count - i);
                const struct site *site = span.holds[0].site;
                bool has_place = goes_over(site) && strcmp(site->resource->name, resource->name) == 0;

                i += span.count;
                if (has_place || count_extra(span) == 0)
                        continue;
                build->units[resource->n_units] = kept_unit(build, &span.holds[0], resource->name);
                add_extra_devices(build, span, resource->n_units);
                build->units[resource->n_units].replicas =
                        (unsigned int)(resource->n_devices - build->units[resource->n_units].first_device);
                resource->n_units += build->units[resource->n_units].replicas > 0;
        }
}

/* A request for several ids could mix two kinds of unit; a container cannot have MPS and another kind. */
static bool takes_one(const struct resource *resource)
{
        return resource->fail_requests_greater_than_one && resource->max_per_request == 0;
}

/*
 * Ids in use are healthy while the resource has something else to give (see the header); ids of lost units never are.
 */
static void show_extra(struct build *build, const bool *is_own)
{
        const struct resource *resource = build->resource;

        if (build->n_free == 0 || (resource->strategy == SHARING_MPS && !takes_one(resource)))
                return;
        for (size_t i = 0; i < resource->n_devices; i++)
                if (!is_own[i])
                        build->unavailable[i] = !inventory_has(
                                build->state->wanted->inventory, build->units[resource->devices[i].unit].uuid);
}

/* The resource gets its new strategy only when one of its units is shared that way. */
static void settle_strategy(struct resource *resource)
{
        for (size_t i = 0; i < resource->n_units; i++)
                if (resource->units[i].shared)
                        return;
        resource->strategy = SHARING_NONE;
        resource->max_per_request = 0;
}

/* By position in the wanted resource. */
static bool *mark_held(const struct build *build, const struct resource *wanted, struct span held)
{
        bool *is_held = ARENA_ARRAY(build->arena, bool, wanted->n_devices);

        for (size_t i = 0; i < held.count; i++) {
                const struct device *device = held.holds[i].is_here ? map_find(&wanted->by_id, held.holds[i].id) : NULL;

                if (device)
                        is_held[device - wanted->devices] = true;
        }
        return is_held;
}

static void build_resource(struct build *build, const struct resource *wanted, struct span held)
{
        struct resource *resource = build->resource;
        size_t most = wanted->n_devices + count_extra(held);
        const bool *is_held = mark_held(build, wanted, held);
        bool *is_own;

        *resource = *wanted;
        resource->n_units = resource->n_devices = 0;
        resource->by_id = (struct map)MAP_INIT;
        map_reserve(&resource->by_id, most);
        build->room = PLAN_MAX_DEVICES;
        resource->units = build->units = ARENA_ARRAY(build->arena, struct unit, wanted->n_units + held.count);
        resource->devices = build->devices = ARENA_ARRAY(build->arena, struct device, most);
        resource->unavailable = build->unavailable = ARENA_ARRAY(build->arena, bool, most);
        rollout_add_units(build, wanted, held, is_held);
        add_kept_units(build, held);
        is_own = ARENA_ARRAY(build->arena, bool, most);
        for (size_t i = 0; i < resource->n_devices; i++)
                is_own[i] = !build->units[resource->devices[i].unit].is_kept &&
                            map_find(&wanted->by_id, resource->devices[i].id);
        show_extra(build, is_own);
        build->shows_draining = build->n_free > 0 && takes_one(wanted);
        settle_strategy(resource);
}

/* ---- units that keep their sharing policy ---- */

/* Its ids in use are healthy as the header says; the others are unavailable until its policy has ended. */
static const bool *make_draining_unavailable(
        const struct build *build, const struct resource *draining, struct span held)
{
        bool *unavailable = ARENA_ARRAY(build->arena, bool, draining->n_devices);

        for (size_t i = 0; i < draining->n_devices; i++)
                unavailable[i] = true;
        for (size_t i = 0; build->shows_draining && i < held.count; i++) {
                const struct device *device =
                        held.holds[i].is_draining ? map_find(&draining->by_id, held.holds[i].id) : NULL;

                if (device)
                        unavailable[device - draining->devices] = false;
        }
        return unavailable;
}

static void rollout_add_draining(struct build *build, struct span held)
{
        const struct rollout_state *state = build->state;
        const struct sharing_policy_list *list = state->previous->policies;
        const struct sharing_policy **group = ARENA_ARRAY(build->arena, const struct sharing_policy *, list->count);
        bool *done = ARENA_ARRAY(build->arena, bool, list->count);
        struct resource *draining = ARENA_ARRAY(build->arena, struct resource, list->count);

        for (size_t i = 0; i < list->count; i++) {
                size_t count = 0;
                size_t devices = 0;
                struct resource *made;

                if (done[i] || !state->stays[i] || strcmp(list->items[i].resource, build->resource->name) != 0)
                        continue;
                for (size_t j = i; j < list->count; j++) {
                        if (done[j] || !state->stays[j] || !sharing_policy_agrees(&list->items[i], &list->items[j]) ||
                                devices + list->items[j].replicas > PLAN_MAX_DEVICES)
                                continue;
                        done[j] = true;
                        devices += list->items[j].replicas;
                        group[count++] = &list->items[j];
                }
                if (count == 0)
                        continue;
                made = &draining[build->resource->n_draining++];
                sharing_policy_resource(made, build->arena, state->wanted->inventory, group, count);
                made->unavailable = make_draining_unavailable(build, made, held);
        }
        build->resource->draining = draining;
}

/* ---- the plan ---- */

static bool is_touched(const struct rollout_state *state, const struct resource *wanted)
{
        struct span held = span_of_name(state, wanted->name);

        for (size_t i = 0; i < wanted->n_units; i++) {
                const struct site *site = rollout_state_site(state, wanted->units[i].uuid);

                if (site->waits || site->n_elsewhere)
                        return true;
        }
        for (size_t i = 0; i < held.count; i++)
                if (!held.holds[i].is_here)
                        return true;
        for (size_t i = 0; i < state->previous->policies->count; i++)
                if (state->stays[i] && strcmp(state->previous->policies->items[i].resource, wanted->name) == 0)
                        return true;
        return false;
}

static void rollout_add_resource(
        struct rollout_state *state, struct arena *arena, struct plan *plan, const struct resource *wanted)
{
        struct build build = {.state = state, .arena = arena, .resource = &plan->resources[plan->n_resources++]};
        struct span held = span_of_name(state, wanted->name);

        build_resource(&build, wanted, held);
        rollout_add_draining(&build, held);
}

/* A resource that the wanted plan does not have: it lists only ids that containers still hold. */
static void add_old_name(struct rollout_state *state, struct arena *arena, struct plan *plan, const char *name)
{
        struct resource empty = {.placement = state->wanted->config->placement};

        if (plan_find(plan, name) || plan->n_resources == 2 * PLAN_MAX_RESOURCES)
                return;
        empty.name = empty.base_name = arena_strdup(arena, name);
        rollout_add_resource(state, arena, plan, &empty);
}

static struct plan *build_plan(struct rollout_state *state, struct arena *arena)
{
        const struct plan *wanted = state->wanted;
        struct plan *plan = ARENA_NEW(arena, struct plan);

        *plan = *wanted;
        plan->resources = ARENA_ARRAY(arena, struct resource, 2 * PLAN_MAX_RESOURCES);
        plan->n_resources = 0;
        for (size_t i = 0; i < wanted->n_resources; i++)
                if (is_touched(state, &wanted->resources[i]))
                        rollout_add_resource(state, arena, plan, &wanted->resources[i]);
                else
                        plan->resources[plan->n_resources++] = wanted->resources[i];
        for (size_t i = 0; i < state->n_holds; i++)
                if (!state->holds[i].is_here)
                        add_old_name(state, arena, plan, state->holds[i].resource);
        for (size_t i = 0; i < state->previous->policies->count; i++)
                if (state->stays[i])
                        add_old_name(state, arena, plan, state->previous->policies->items[i].resource);
        return plan;
}

/* ---- units that the inventory lacks ---- */

static bool is_absent(const struct rollout_state *state, const struct sharing_policy *policy)
{
        if (inventory_has(state->wanted->inventory, policy->unit))
                return false;
        for (size_t i = 0; i < state->n_holds; i++)
                if (state->holds[i].absent == policy || state->holds[i].bound == policy)
                        return true;
        return state->previous->all_is_held;
}

static void remember_absent(const struct rollout_state *state, struct arena *scratch, struct rollout *rollout)
{
        const struct sharing_policy_list *previous = state->previous->policies;
        struct sharing_policy *items = ARENA_ARRAY(scratch, struct sharing_policy, previous->count);
        struct sharing_policy_list found = {.items = items};

        for (size_t i = 0; i < previous->count; i++)
                if (is_absent(state, &previous->items[i]))
                        items[found.count++] = previous->items[i];
        sharing_policy_join(&rollout->absent, &rollout->arena, &found, &(struct sharing_policy_list){0});
}

/* ---- texts about what waits ---- */

/* Number of holders in one line; kubelet lists all of them. */
#define MAX_HOLDERS 5

static const char *const daemon_texts[] = {[DAEMON_SCOPE_GPU] = "",
        [DAEMON_SCOPE_RESOURCE] = ", one daemon for all units",
        [DAEMON_SCOPE_NODE] = ", one daemon for the node"};

static const char *say_share(struct arena *arena, enum sharing_strategy strategy, enum provisioning provisioning,
        enum daemon_scope scope, unsigned int replicas)
{
        switch (strategy) {
        case SHARING_NONE:
                return "whole";
        case SHARING_TIME_SLICING:
                return arena_printf(arena, "time-slicing, %u replicas", replicas);
        case SHARING_MPS:
                break;
        }
        return arena_printf(
                arena, "mps %s, %u replicas%s", provisioning_name(provisioning), replicas, daemon_texts[scope]);
}

static const char *say_from(struct arena *arena, const struct hold *hold)
{
        const struct sharing_policy *policy = hold->policy ? hold->policy : hold->absent;

        if (policy)
                return say_share(arena, SHARING_MPS, policy->section.provisioning, policy->section.daemon_scope,
                        policy->replicas);
        return hold->replica < 0 ? "whole" : "time-slicing";
}

/*
 * |resource|, |unit|: of |plan|, or NULL: it does not have the unit |uuid|. |held|: the name under which that is held.
 */
static const char *say_to(struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct unit *unit, const char *uuid, const char *held)
{
        const struct mig_device *mig;
        const struct gpu *gpu = inventory_find_unit(plan->inventory, uuid, &mig);
        const char *share;

        if (!gpu)
                return "gone";
        if (!resource)
                return plan_is_for_dra(plan->config, plan->inventory, gpu) ? "DRA" : "not advertised";
        share = say_share(arena, unit->shared ? resource->strategy : SHARING_NONE, resource->provisioning,
                resource->daemon_scope, unit->replicas);
        return strcmp(resource->name, held) == 0 ? share : arena_printf(arena, "%s of %s", share, resource->name);
}

const char *rollout_say(struct arena *arena, const struct plan *plan, const char *held, const char *uuid)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t j = 0; j < plan->resources[i].n_units; j++)
                        if (strcmp(plan->resources[i].units[j].uuid, uuid) == 0)
                                return say_to(
                                        arena, plan, &plan->resources[i], &plan->resources[i].units[j], uuid, held);
        return say_to(arena, plan, NULL, NULL, uuid, held);
}

static bool is_new_holder(struct span span, size_t position)
{
        const char *holder = span.holds[position].holder;

        if (!holder)
                return false;
        for (size_t i = 0; i < position; i++)
                if (span.holds[i].holder && strcmp(span.holds[i].holder, holder) == 0)
                        return false;
        return true;
}

static const char *say_holders(struct arena *arena, struct span span)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(MAX_HOLDERS);

        for (size_t i = 0; i < span.count && names.count <= MAX_HOLDERS; i++)
                if (is_new_holder(span, i))
                        names_add(&names, "%s", span.holds[i].holder);
        return arena_strdup(arena, names.text.data);
}

static bool is_pending(struct span span)
{
        for (size_t i = 0; i < span.count; i++)
                if (!span.holds[i].is_here)
                        return true;
        return false;
}

static void describe_pending(struct rollout *rollout, const struct rollout_state *state)
{
        struct rollout_pending *pending = ARENA_ARRAY(&rollout->arena, struct rollout_pending, state->n_holds);

        rollout->pending = pending;
        for (size_t i = 0; i < state->n_holds;) {
                struct span span = holds_of_unit(&state->holds[i], state->n_holds - i);
                const struct hold *first = &span.holds[0];

                i += span.count;
                if (!is_pending(span))
                        continue;
                pending[rollout->n_pending++] = (struct rollout_pending){
                        .resource = arena_strdup(&rollout->arena, first->resource),
                        .unit = arena_strdup(&rollout->arena, first->uuid),
                        .from = say_from(&rollout->arena, first),
                        .to = say_to(&rollout->arena, state->wanted, first->site ? first->site->resource : NULL,
                                first->site ? first->site->unit : NULL, first->uuid, first->resource),
                        .n_devices = span.count,
                        .holders = say_holders(&rollout->arena, span),
                        .waits = first->site && first->site->waits,
                };
        }
}

static bool pending_is_same(const struct rollout *a, const struct rollout *b)
{
        if (a->n_pending != b->n_pending)
                return false;
        for (size_t i = 0; i < a->n_pending; i++) {
                const struct rollout_pending *left = &a->pending[i];
                const struct rollout_pending *right = &b->pending[i];

                if (strcmp(left->resource, right->resource) != 0 || strcmp(left->unit, right->unit) != 0 ||
                        strcmp(left->to, right->to) != 0 || strcmp(left->from, right->from) != 0 ||
                        strcmp(left->holders, right->holders) != 0 || left->n_devices != right->n_devices ||
                        left->waits != right->waits)
                        return false;
        }
        return true;
}

/* ---- public ---- */

struct rollout *rollout_new(const struct plan *wanted, const struct rollout_previous *previous,
        const struct rollout_held *held, size_t n_held)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct rollout *rollout = xcalloc(1, sizeof(*rollout));
        struct rollout_state state;

        rollout_state_make(&state, &scratch, wanted, previous, held, n_held);
        rollout->plan = wanted;
        if (!rollout_state_is_settled(&state)) {
                rollout->plan = rollout->own = build_plan(&state, &rollout->arena);
                describe_pending(rollout, &state);
        }
        remember_absent(&state, &scratch, rollout);
        rollout_state_done(&state);
        return rollout;
}

struct rollout *rollout_free(struct rollout *rollout)
{
        if (!rollout)
                return NULL;
        for (size_t i = 0; rollout->own && i < rollout->own->n_resources; i++) {
                struct resource *resource = &rollout->own->resources[i];

                if (!resource->unavailable)
                        continue; /* the wanted plan's */
                map_done(&resource->by_id);
                for (size_t j = 0; j < resource->n_draining; j++)
                        map_done(&((struct resource *)(uintptr_t)resource->draining)[j].by_id);
        }
        arena_done(&rollout->arena);
        free(rollout);
        return NULL;
}

static bool plan_is_same(const struct plan *a, const struct plan *b)
{
        if (a->n_resources != b->n_resources)
                return false;
        for (size_t i = 0; i < a->n_resources; i++)
                if (!resource_is_same(&a->resources[i], &b->resources[i]))
                        return false;
        return true;
}

bool rollout_is_same(const struct rollout *a, const struct rollout *b)
{
        return !a->own == !b->own && plan_is_same(a->plan, b->plan) && pending_is_same(a, b);
}
