// SPDX-License-Identifier: Apache-2.0
/*
 * A plan as text, for tables: "nvidia.com/gpu none: GPU-0 GPU-1; nvidia.com/gpu.shared mps: GPU-2*4". On the way
 * everything is checked that holds for every plan.
 */
#pragma once

#include "unit.h"

#include "node.h"

static inline void check_unit(const struct resource *resource, size_t position, size_t first_device)
{
        const struct unit *unit = &resource->units[position];

        assert_int_equal(unit->first_device, first_device);
        assert_true(unit->shared || unit->replicas == 1);
        for (unsigned int replica = 0; replica < unit->replicas; replica++) {
                const struct device *device = &resource->devices[first_device + replica];
                char id[128];

                snprintf(id, sizeof(id), unit->shared ? "%s::%u" : "%s", unit->uuid, replica);
                assert_string_equal(device->id, id);
                assert_int_equal(device->unit, position);
                assert_int_equal(device->replica, replica);
                assert_ptr_equal(map_find(&resource->by_id, id), device);
        }
}

/* In the node's arena. */
static inline const char *describe(struct node *node)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        assert_ptr_equal(node->plan->config, &node->config);
        assert_ptr_equal(node->plan->inventory, &node->inventory);
        for (size_t r = 0; r < node->plan->n_resources; r++) {
                const struct resource *resource = &node->plan->resources[r];
                size_t n_devices = 0;

                assert_ptr_equal(plan_find(node->plan, resource->name), resource);
                assert_string_equal(resource->base_name, resource->units[0].base_name);
                strbuf_printf(
                        &text, "%s%s %s:", r ? "; " : "", resource->name, sharing_strategy_name(resource->strategy));
                for (size_t i = 0; i < resource->n_units; i++) {
                        const struct unit *unit = &resource->units[i];

                        check_unit(resource, i, n_devices);
                        assert_ptr_equal(unit->gpu, &node->inventory.gpus[unit->position]);
                        n_devices += unit->replicas;
                        strbuf_printf(&text, " %s", unit->uuid);
                        if (unit->shared)
                                strbuf_printf(&text, "*%u", unit->replicas);
                }
                assert_int_equal(resource->n_devices, n_devices);
        }
        return arena_strdup(&node->arena, text.data ? text.data : "");
}
