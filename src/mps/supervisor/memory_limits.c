#include "mps/supervisor/memory_limits.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void mps_memory_limits_done(struct mps_memory_limits *limits)
{
        arena_done(&limits->arena);
        *limits = (struct mps_memory_limits){0};
}

static void memory_limits_copy(struct mps_memory_limits *ret, const struct mps_memory_limit *limit)
{
        struct mps_memory_limit *copy = &ret->items[ret->n_items++];

        *copy = *limit;
        mps_container_limit_copy(&copy->told, &ret->arena, &limit->told);
        copy->room = NULL;
}

static void copy_all(struct mps_memory_limits *limits, const bool *keeps, size_t room)
{
        struct mps_memory_limits all = {.arena = ARENA_INIT};

        all.items = ARENA_ARRAY(&all.arena, struct mps_memory_limit, limits->n_items + room);
        for (size_t i = 0; i < limits->n_items; i++)
                if (!keeps || keeps[i])
                        memory_limits_copy(&all, &limits->items[i]);
        arena_done(&limits->arena);
        *limits = all;
}

void mps_memory_limits_keep(struct mps_memory_limits *limits, const bool *keeps)
{
        copy_all(limits, keeps, 0);
}

void mps_memory_limits_restore(
        struct mps_memory_limits *limits, const struct mps_container_limit *recorded, size_t n_recorded)
{
        limits->items = ARENA_ARRAY(&limits->arena, struct mps_memory_limit, n_recorded);
        for (size_t i = 0; i < n_recorded; i++)
                memory_limits_copy(limits, &(struct mps_memory_limit){.told = recorded[i]});
}

/* ---- who is to have one ---- */

static const struct mps_record_allocation *find_allocation(
        const struct mps_record_allocation *allocations, size_t n_allocations, const char *id, const char *unit)
{
        for (size_t i = 0; i < n_allocations; i++)
                if (allocations[i].allocation.tier == MPS_TIER_NAMESPACE &&
                        strcmp(allocations[i].request.id, id) == 0 && strcmp(allocations[i].request.unit, unit) == 0)
                        return &allocations[i];
        return NULL;
}

static bool has(const struct mps_memory_limits *limits, const char *unit, const char *cgroup)
{
        for (size_t i = 0; i < limits->n_items; i++)
                if (strcmp(limits->items[i].told.unit, unit) == 0 && strcmp(limits->items[i].told.cgroup, cgroup) == 0)
                        return true;
        return false;
}

static bool takes_part(const struct mps_daemon_status *daemon)
{
        return daemon->tier == MPS_TIER_NAMESPACE && daemon->n_units == 1 &&
               !text_starts_with(daemon->units[0], "MIG-");
}

bool mps_memory_limits_add(struct mps_memory_limits *limits, const struct mps_daemon_status *daemon,
        const struct mps_record_allocation *allocations, size_t n_allocations)
{
        const size_t before = limits->n_items;
        bool has_room = false;

        for (size_t i = 0; takes_part(daemon) && i < daemon->n_clients; i++) {
                const struct mps_client *client = &daemon->clients[i];
                const struct mps_record_allocation *allocation =
                        client->cgroup && client->name_space
                                ? find_allocation(allocations, n_allocations, client->name_space, daemon->units[0])
                                : NULL;
                struct mps_memory_limit limit;

                if (!allocation || !allocation->request.limit_mib || has(limits, daemon->units[0], client->cgroup) ||
                        limits->n_items == MPS_MEMORY_LIMITS_MAX)
                        continue;
                if (!has_room)
                        copy_all(limits, NULL, daemon->n_clients);
                has_room = true;
                limit = (struct mps_memory_limit){.told = {.unit = daemon->units[0],
                                                          .cgroup = client->cgroup,
                                                          .allocation = allocation->request.id,
                                                          .limit_mib = allocation->request.limit_mib}};
                memory_limits_copy(limits, &limit);
        }
        return limits->n_items > before;
}

bool mps_memory_limit_is_void(
        const struct mps_memory_limit *limit, const struct mps_record_allocation *allocations, size_t n_allocations)
{
        return !find_allocation(allocations, n_allocations, limit->told.allocation, limit->told.unit);
}

/* ---- outcomes ---- */

/* Always in the same buffer: problems may come and go many times while the container runs. */
static void set_problem(struct mps_memory_limit *limit, struct arena *arena, const char *problem)
{
        const size_t size = sizeof(((struct error *)0)->text);

        if (!limit->room)
                limit->room = arena_alloc(arena, size, 1);
        snprintf(limit->room, size, "%s", problem);
        limit->told.problem = limit->room;
}

bool mps_memory_limit_take(struct mps_memory_limit *limit, struct arena *arena, bool was_void,
        enum memory_limit_outcome outcome, const char *problem)
{
        limit->was_tried = true;
        limit->was_void = was_void;
        limit->told.is_in_force = outcome == MEMORY_LIMIT_DONE && !was_void;
        if (outcome == MEMORY_LIMIT_DONE)
                limit->told.problem = NULL;
        else if (problem && (!limit->told.problem || strcmp(limit->told.problem, problem) != 0))
                set_problem(limit, arena, problem);
        return outcome != MEMORY_LIMIT_GONE && !(was_void && outcome != MEMORY_LIMIT_FAILED);
}
