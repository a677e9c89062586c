// SPDX-License-Identifier: Apache-2.0
#include "plan/sharing_policy.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/json_fields.h"
#include "plan/share.h"

/* ---- conversion and comparison ---- */

static struct sharing_policy policy_make(struct arena *arena, const struct resource *resource, const struct unit *unit)
{
        struct sharing_policy policy = {
                .resource = arena_strdup(arena, resource->name),
                .base_name = arena_strdup(arena, unit->base_name),
                .unit = arena_strdup(arena, unit->uuid),
                .replicas = unit->replicas,
                .sms = unit->shared->sms,
                .memory_mib = unit->shared->memory_mib,
                .placement = resource->placement,
                .section = *unit->shared->section,
        };

        policy.section.max_per_request = resource->max_per_request;
        policy.section.resources = NULL; /* of a plan that may go */
        policy.section.n_resources = 0;
        policy.section.refuses_overcommit = false; /* is not in the record either */
        return policy;
}

static size_t policy_add_units(struct sharing_policy *items, struct arena *arena, const struct resource *resource)
{
        size_t count = 0;

        for (size_t i = 0; resource->strategy == SHARING_MPS && i < resource->n_units; i++)
                if (resource->units[i].shared)
                        items[count++] = policy_make(arena, resource, &resource->units[i]);
        return count;
}

void sharing_policy_of(struct sharing_policy_list *ret, struct arena *arena, const struct plan *plan)
{
        struct sharing_policy *items;
        size_t most = 0;

        for (size_t i = 0; i < plan->n_resources; i++) {
                most += plan->resources[i].n_units;
                for (size_t j = 0; j < plan->resources[i].n_draining; j++)
                        most += plan->resources[i].draining[j].n_units;
        }
        items = ARENA_ARRAY(arena, struct sharing_policy, most);
        *ret = (struct sharing_policy_list){.items = items};
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                ret->count += policy_add_units(&items[ret->count], arena, resource);
                for (size_t j = 0; j < resource->n_draining; j++)
                        ret->count += policy_add_units(&items[ret->count], arena, &resource->draining[j]);
        }
}

static void policy_copy_all(struct sharing_policy_list *list, struct sharing_policy *items, struct arena *arena,
        const struct sharing_policy_list *from)
{
        for (size_t i = 0; i < from->count; i++) {
                struct sharing_policy *copy = &items[list->count++];

                *copy = from->items[i];
                copy->resource = arena_strdup(arena, copy->resource);
                copy->base_name = arena_strdup(arena, copy->base_name);
                copy->unit = arena_strdup(arena, copy->unit);
        }
}

void sharing_policy_join(struct sharing_policy_list *ret, struct arena *arena, const struct sharing_policy_list *first,
        const struct sharing_policy_list *second)
{
        struct sharing_policy *items = ARENA_ARRAY(arena, struct sharing_policy, first->count + second->count);
        struct sharing_policy_list joined = {.items = items};

        policy_copy_all(&joined, items, arena, first);
        policy_copy_all(&joined, items, arena, second);
        *ret = joined;
}

const struct sharing_policy *sharing_policy_find(
        const struct sharing_policy_list *list, const char *resource, const char *unit)
{
        for (size_t i = 0; i < list->count; i++)
                if (strcmp(list->items[i].unit, unit) == 0 && strcmp(list->items[i].resource, resource) == 0)
                        return &list->items[i];
        return NULL;
}

/* The settings by which a daemon and its clients are limited. */
static bool limits_are_same(const struct sharing_section *a, const struct sharing_section *b)
{
        return a->provisioning == b->provisioning && a->daemon_scope == b->daemon_scope &&
               a->tier_limit == b->tier_limit && a->has_memory_reserve == b->has_memory_reserve &&
               a->memory_reserve_mib == b->memory_reserve_mib && a->max_threads == b->max_threads &&
               a->max_memory_mib == b->max_memory_mib;
}

static unsigned int most_of(const struct sharing_policy *policy)
{
        const struct resource resource = {
                .max_per_request = policy->section.max_per_request,
                .fail_requests_greater_than_one = policy->section.fail_requests_greater_than_one,
        };
        const struct unit unit = {.replicas = policy->replicas};

        return share_most(&resource, &unit);
}

bool sharing_policy_is_kept(
        const struct sharing_policy *policy, const struct resource *resource, const struct unit *unit)
{
        return unit->shared && resource->strategy == SHARING_MPS && strcmp(policy->resource, resource->name) == 0 &&
               policy->replicas == unit->replicas && policy->sms == unit->shared->sms &&
               policy->memory_mib == unit->shared->memory_mib &&
               limits_are_same(&policy->section, unit->shared->section) &&
               most_of(policy) == share_most(resource, unit);
}

bool sharing_policy_agrees(const struct sharing_policy *a, const struct sharing_policy *b)
{
        return strcmp(a->resource, b->resource) == 0 && a->placement == b->placement &&
               limits_are_same(&a->section, &b->section) && a->section.guard == b->section.guard &&
               a->section.fail_requests_greater_than_one == b->section.fail_requests_greater_than_one &&
               a->section.max_per_request == b->section.max_per_request;
}

/* ---- back to a resource ---- */

static const struct shared_resource *entry_of(struct arena *arena, const struct sharing_policy *policy)
{
        struct sharing_section *section = ARENA_NEW(arena, struct sharing_section);
        struct shared_resource *entry = ARENA_NEW(arena, struct shared_resource);

        *section = policy->section;
        *entry = (struct shared_resource){
                .section = section,
                .path = "sharing.mps.resources",
                .name = arena_strdup(arena, policy->base_name),
                .replicas = policy->replicas,
                .sms = policy->sms,
                .memory_mib = policy->memory_mib,
        };
        return entry;
}

static struct unit policy_unit(
        struct arena *arena, const struct inventory *inventory, const struct sharing_policy *policy)
{
        const struct mig_device *mig;
        const struct gpu *gpu = inventory_find_unit(inventory, policy->unit, &mig);
        struct unit unit = unit_make(arena, inventory, (size_t)(gpu - inventory->gpus), mig);

        unit.uuid = arena_strdup(arena, policy->unit);
        unit.base_name = arena_strdup(arena, policy->base_name);
        unit.name = arena_strdup(arena, policy->resource);
        unit.shared = entry_of(arena, policy);
        unit.memory = share_memory_of(policy->memory_mib, gpu, mig);
        unit.replicas = policy->replicas;
        return unit;
}

/* The order of every plan. */
static int policy_compare_units(const void *a, const void *b)
{
        const struct unit *left = a;
        const struct unit *right = b;
        unsigned int left_index = left->mig ? left->mig->index : 0;
        unsigned int right_index = right->mig ? right->mig->index : 0;

        if (left->position != right->position)
                return left->position < right->position ? -1 : 1;
        return (left_index > right_index) - (left_index < right_index);
}

void sharing_policy_resource(struct resource *ret, struct arena *arena, const struct inventory *inventory,
        const struct sharing_policy *const *policy, size_t n_policies)
{
        struct unit *units = ARENA_ARRAY(arena, struct unit, n_policies);
        const struct sharing_section *section;

        for (size_t i = 0; i < n_policies; i++)
                units[i] = policy_unit(arena, inventory, policy[i]);
        qsort(units, n_policies, sizeof(*units), policy_compare_units);
        section = units[0].shared->section;
        *ret = (struct resource){
                .name = units[0].name,
                .base_name = units[0].base_name,
                .strategy = section->strategy,
                .provisioning = section->provisioning,
                .placement = policy[0]->placement,
                .fail_requests_greater_than_one = section->fail_requests_greater_than_one,
                .daemon_scope = section->daemon_scope,
                .tier_limit = section->tier_limit,
                .max_per_request = section->max_per_request,
                .reserves = section->provisioning != PROVISIONING_UNIFORM,
        };
        resource_set_units(ret, arena, units, n_policies);
}

/* ---- the file ---- */

static bool is_filled(const char *text)
{
        return *text;
}

static const struct json_text name_text = {.is = is_filled, .most = 255, .must = "a name of at most "};
static const struct json_field policy_fields[] = {
        JSON_TEXT("resource", struct sharing_policy, resource, name_text, .is_needed = true),
        JSON_TEXT("baseName", struct sharing_policy, base_name, name_text, .is_needed = true),
        JSON_TEXT("unit", struct sharing_policy, unit, name_text, .is_needed = true),
        JSON_UINT("replicas", struct sharing_policy, replicas, 1, PLAN_MAX_DEVICES),
        JSON_UINT("sms", struct sharing_policy, sms, 0, INT32_MAX),
        JSON_UINT("provisioning", struct sharing_policy, section.provisioning, 0, PROVISIONING_LAST),
        JSON_UINT("placement", struct sharing_policy, placement, 0, PLACEMENT_PREFER_SAME_GPU),
        JSON_UINT("daemonScope", struct sharing_policy, section.daemon_scope, 0, DAEMON_SCOPE_NODE),
        JSON_UINT("tierLimit", struct sharing_policy, section.tier_limit, 0, MPS_TIER_NAMESPACE),
        JSON_UINT("guard", struct sharing_policy, section.guard, 0, GUARD_TERMINATE),
        JSON_BOOL("failRequestsGreaterThanOne", struct sharing_policy, section.fail_requests_greater_than_one),
        JSON_UINT("maxPerRequest", struct sharing_policy, section.max_per_request, 0, PLAN_MAX_DEVICES),
        JSON_BOOL("hasMemoryReserve", struct sharing_policy, section.has_memory_reserve),
        JSON_UINT("memoryReserveMiB", struct sharing_policy, section.memory_reserve_mib, 0, INT64_MAX),
        JSON_UINT("maxThreads", struct sharing_policy, section.max_threads, 0, 100),
        JSON_UINT("maxMemoryMiB", struct sharing_policy, section.max_memory_mib, 0, INT64_MAX),
        JSON_UINT("memoryMiB", struct sharing_policy, memory_mib, 0, CONFIG_MAX_RESERVE_MIB),
};
static const struct json_shape policy_shape = JSON_SHAPE(struct sharing_policy, policy_fields);

char *sharing_policy_write(const struct sharing_policy_list *list, const char *const *names, size_t n_names)
{
        json_t *units = json_array();
        json_t *resources = json_array();
        json_t *root;
        char *text;

        for (size_t i = 0; i < n_names; i++)
                json_array_append_new(resources, json_string(names[i]));
        for (size_t i = 0; i < list->count; i++) {
                json_t *unit = json_object();

                json_fields_put(unit, &policy_shape, &list->items[i]);
                json_array_append_new(units, unit);
        }
        root = json_pack("{s:i, s:o, s:o}", "version", 1, "resources", resources, "mps", units);
        text = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        return text;
}

int sharing_policy_read(struct sharing_policy_list *ret, const char *const **ret_names, size_t *ret_n_names,
        struct arena *arena, const char *text, size_t length, struct error *err)
{
        json_error_t fault;
        json_t *root = length <= SHARING_POLICY_TEXT_MAX ? json_loadb(text, length, 0, &fault) : NULL;
        const json_t *units = json_object_get(root, "mps");
        const json_t *resources = json_object_get(root, "resources");
        size_t n_units = MIN(json_array_size(units), SHARING_POLICY_MAX);
        size_t n_names = MIN(json_array_size(resources), 2 * PLAN_MAX_RESOURCES);
        struct sharing_policy *items;
        const char **names;

        if (!json_is_array(units) || !json_is_array(resources)) {
                json_decref(root);
                return error_set(
                        err, ERROR_INVALID, "no record of sharing policies: it has no lists 'mps' and 'resources'");
        }
        items = ARENA_ARRAY(arena, struct sharing_policy, n_units);
        names = ARENA_ARRAY(arena, const char *, n_names);
        *ret = (struct sharing_policy_list){.items = items};
        *ret_names = names;
        *ret_n_names = 0;
        for (size_t i = 0; i < n_units; i++) {
                struct sharing_policy *next = &items[ret->count];
                struct error ignored;
                struct json_in in = {.arena = arena, .err = &ignored};

                *next = (struct sharing_policy){.section.strategy = SHARING_MPS};
                json_fields_take(&in, json_array_get(units, i), &policy_shape, next);
                if (!in.is_bad && !sharing_policy_find(ret, next->resource, next->unit))
                        ret->count++;
        }
        for (size_t i = 0; i < n_names; i++) {
                const char *name = json_string_value(json_array_get(resources, i));

                if (name && *name && strlen(name) <= name_text.most)
                        names[(*ret_n_names)++] = arena_strdup(arena, name);
        }
        json_decref(root);
        return 0;
}
