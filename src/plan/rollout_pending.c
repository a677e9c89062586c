/* Texts about what waits. */
#include <string.h>

#include "base/strbuf.h"
#include "plan/rollout_state.h"

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
                return say_share(arena, SHARING_MPS, policy->provisioning, policy->daemon_scope, policy->replicas);
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

void rollout_describe_pending(struct rollout *rollout, const struct rollout_state *state)
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

bool rollout_pending_is_same(const struct rollout *a, const struct rollout *b)
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
