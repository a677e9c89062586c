// SPDX-License-Identifier: Apache-2.0
/*
 * A node in rollout, for tests: the wanted plan, what is held, and the plan to serve as one line.
 *
 * "nvidia.com/gpu: GPU-0*4[0 1! +5 +6!]; nvidia.com/b: ~GPU-1[GPU-1!] leaving GPU-2*20" means: of GPU-0, shared by 4,
 * the ids 0 and 1 and the kept ones 5 and 6, of which 1 and 6 are withheld; nothing but a kept id of GPU-1; GPU-2 by
 * its old terms. "GPU-2*20[3 4]": and of those the ids 3 and 4 count as healthy. A resource that is as wanted is
 * "nvidia.com/gpu: as wanted".
 */
#pragma once

#include "unit.h"

#include "node.h"
#include "plan/rollout.h"

#define MAX_HELD 512

struct rollout_rig {
        struct arena arena;
        struct sharing_policy_list policy;
        const char *names[PLAN_MAX_RESOURCES * 2];
        size_t n_names;
        struct rollout_held held[MAX_HELD];
        size_t n_held;
        bool is_unknown;
        bool all_is_held;
        struct rollout *rollout;
};

/* "nvidia.com/gpu GPU-0::3 team/pod", once more. */
static inline void rig_hold(struct rollout_rig *rig, const char *resource, const char *device, const char *holder)
{
        assert_true(rig->n_held < MAX_HELD);
        rig->held[rig->n_held++] = (struct rollout_held){.resource = resource, .device = device, .holder = holder};
}

static inline void rig_release(struct rollout_rig *rig, const char *device)
{
        for (size_t i = 0; i < rig->n_held; i++)
                if (strcmp(rig->held[i].device, device) == 0) {
                        rig->held[i] = rig->held[--rig->n_held];
                        return;
                }
        fail_msg("%s is not held", device);
}

/* What was promised, as the agent puts it down. */
static inline void rig_promise(struct rollout_rig *rig, const struct plan *plan)
{
        rig->n_names = 0;
        for (size_t i = 0; i < plan->n_resources; i++)
                rig->names[rig->n_names++] = arena_strdup(&rig->arena, plan->resources[i].name);
        sharing_policy_of(&rig->policy, &rig->arena, plan);
}

static inline void rig_judge(struct rollout_rig *rig, const struct plan *wanted)
{
        const struct rollout_previous previous = {.policies = &rig->policy,
                .names = rig->names,
                .n_names = rig->n_names,
                .is_known = !rig->is_unknown,
                .all_is_held = rig->all_is_held};

        rollout_free(rig->rollout);
        rig->rollout = rollout_new(wanted, &previous, rig->held, rig->n_held);
        rig_promise(rig, rig->rollout->plan);
        sharing_policy_join(&rig->policy, &rig->arena, &rig->policy, &rig->rollout->absent);
}

static inline void rig_end(struct rollout_rig *rig)
{
        rollout_free(rig->rollout);
        arena_done(&rig->arena);
}

static inline void describe_unit(struct strbuf *text, const struct resource *resource, size_t position)
{
        const struct unit *unit = &resource->units[position];
        const char *blank = "";

        strbuf_printf(text, " %s%s", unit->is_kept ? "~" : "", unit->uuid);
        if (unit->shared)
                strbuf_printf(text, "*%u", unit->replicas);
        strbuf_printf(text, "[");
        for (size_t i = 0; i < resource->n_devices; i++) {
                const struct device *device = &resource->devices[i];
                const char *colons = strstr(device->id, "::");
                bool is_extra = i >= unit->first_device + unit->replicas;

                assert_ptr_equal(map_find(&resource->by_id, device->id), device);
                if (device->unit != position)
                        continue;
                assert_true(i >= unit->first_device);
                strbuf_printf(text, "%s%s%s%s", blank, is_extra ? "+" : "", colons ? colons + 2 : "all",
                        resource->unavailable[i] ? "!" : "");
                blank = " ";
        }
        strbuf_printf(text, "]");
}

static inline void describe_draining(struct strbuf *text, const struct resource *draining)
{
        strbuf_printf(text, " leaving");
        for (size_t i = 0; i < draining->n_units; i++) {
                const struct unit *unit = &draining->units[i];
                const char *begin = "[";

                strbuf_printf(text, " %s*%u", unit->uuid, unit->replicas);
                for (size_t j = 0; j < unit->replicas; j++)
                        if (!draining->unavailable[unit->first_device + j]) {
                                strbuf_printf(text, "%s%zu", begin, j);
                                begin = " ";
                        }
                if (*begin == ' ')
                        strbuf_printf(text, "]");
        }
}

static inline const char *rig_describe(struct rollout_rig *rig, const struct plan *wanted)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct plan *plan = rig->rollout->plan;

        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];
                const struct resource *same = plan_find(wanted, resource->name);

                strbuf_printf(&text, "%s%s:", i ? "; " : "", resource->name + strlen("nvidia.com/"));
                if (same && !resource->unavailable) {
                        assert_ptr_equal(resource->devices, same->devices);
                        strbuf_printf(&text, " as wanted");
                        continue;
                }
                for (size_t j = 0; j < resource->n_units; j++)
                        describe_unit(&text, resource, j);
                for (size_t j = 0; j < resource->n_draining; j++)
                        describe_draining(&text, &resource->draining[j]);
        }
        return arena_strdup(&rig->arena, text.data ? text.data : "");
}

static inline const char *rig_describe_pending(struct rollout_rig *rig)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < rig->rollout->n_pending; i++) {
                const struct rollout_pending *pending = &rig->rollout->pending[i];

                strbuf_printf(&text, "%s%s %s: %s -> %s%s, %zu of %s", i ? "; " : "",
                        pending->resource + strlen("nvidia.com/"), pending->unit, pending->from, pending->to,
                        pending->waits ? " (waits)" : "", pending->n_devices, pending->holders);
        }
        return arena_strdup(&rig->arena, text.data ? text.data : "");
}
