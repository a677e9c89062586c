// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses the free ids that are reserved. Ids and room are counted separately: after a request that mixed units, a unit
 * may have more free ids than room for them, or fewer.
 */
#include "plan/allocation_table.h"

uint32_t place_room(const struct allocations *allocations, size_t unit, uint32_t moved)
{
        const struct place *place = &allocations->places[unit];
        uint32_t used = place->used - moved;
        uint32_t replicas = allocations->resource->units[unit].replicas;

        return place->is_unhealthy || used >= replicas ? 0 : replicas - used;
}

static unsigned int healthy_replicas(const struct resource *resource, const struct place *places, size_t unit)
{
        return places && places[unit].is_unhealthy ? 0 : resource->units[unit].replicas;
}

size_t allocations_safe_count(const struct resource *resource, unsigned int max_per_request, const struct place *places)
{
        unsigned int largest = 0;
        unsigned int healthy = 0; /* replicas of the largest healthy unit */
        unsigned int less = 0;    /* one less than the largest request that must fit */
        size_t count;

        for (size_t i = 0; i < resource->n_units; i++) {
                largest = MAX(largest, resource->units[i].replicas);
                healthy = MAX(healthy, healthy_replicas(resource, places, i));
        }
        if (max_per_request > 0 && resource->reserves)
                less = MIN(MIN(max_per_request, largest) - 1, healthy);
        count = less;
        for (size_t i = 0; i < resource->n_units; i++)
                count += MAX(healthy_replicas(resource, places, i), less) - less;
        return count;
}

size_t allocations_n_reserved(const struct resource *resource)
{
        if (!resource->reserves || resource->max_per_request == 0)
                return 0;
        return resource->n_devices - allocations_safe_count(resource, resource->max_per_request, NULL);
}

bool allocations_reserved_is_much(const struct resource *resource)
{
        return allocations_n_reserved(resource) * 3 > resource->n_devices;
}

size_t allocations_ways_out(const struct resource *resource, struct allocations_way ret[static ALLOCATIONS_WAYS])
{
        unsigned int most = resource->max_per_request;
        size_t count = 0;

        for (; count < ALLOCATIONS_WAYS && most > 1 && allocations_n_reserved(resource) > 0; count++) {
                most = (most + 1) / 2;
                ret[count] = (struct allocations_way){most, allocations_safe_count(resource, most, NULL)};
        }
        return count;
}

struct choice {
        struct allocations *allocations;
        size_t n_units;
        uint32_t *room;       /* by unit; like all below, 0 for unhealthy units */
        uint32_t *free;       /* own ids without a holder, reserved or not */
        uint32_t *to_reserve; /* how many of those to reserve */
        size_t wanted;        /* how many to reserve in total */
        size_t visible;       /* free ids that stay unreserved */
};

static void measure(struct choice *choice, struct arena *scratch)
{
        const struct allocations *allocations = choice->allocations;
        const struct resource *resource = allocations->resource;
        size_t healthy = 0;
        size_t free_ids = 0;

        choice->n_units = resource->n_units;
        choice->room = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        choice->free = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        choice->to_reserve = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        for (size_t i = 0; i < resource->n_units; i++) {
                if (allocations->places[i].is_unhealthy)
                        continue;
                choice->room[i] = place_room(allocations, i, 0);
                choice->free[i] = resource->units[i].replicas - allocations->places[i].held;
                healthy += resource->units[i].replicas;
                free_ids += choice->free[i];
        }
        choice->wanted = healthy - allocations_safe_count(resource, allocations->max_per_request, allocations->places);
        choice->wanted = MIN(choice->wanted, free_ids);
        choice->visible = free_ids - choice->wanted;
}

/* How many ids of the unit have room on it. */
static uint32_t usable(const struct choice *choice, size_t unit)
{
        return MIN(choice->free[unit], choice->room[unit]);
}

/* The unit that keeps enough visible ids for the next request. */
static size_t find_keeper(const struct choice *choice)
{
        size_t keeper = 0;

        for (size_t i = 1; i < choice->n_units; i++)
                if (usable(choice, i) > usable(choice, keeper))
                        keeper = i;
        return keeper;
}

/* How many it keeps: as many as the largest possible request needs, if it has them. */
static uint32_t count_kept(const struct choice *choice, size_t keeper)
{
        size_t request = MIN(choice->visible, choice->allocations->max_per_request);

        return (uint32_t)MIN(request, usable(choice, keeper));
}

/* The number of reserved ids is right, and some unit has enough visible ids for the next request. */
static bool is_enough(const struct choice *choice)
{
        const struct place *places = choice->allocations->places;
        uint32_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < choice->n_units; i++) {
                if (places[i].reserved > choice->free[i])
                        return false;
                count += places[i].reserved;
                most = MAX(most, MIN(choice->free[i] - places[i].reserved, choice->room[i]));
        }
        return count == choice->wanted && most >= count_kept(choice, find_keeper(choice));
}

/* Reserves up to |most| more of the unit's ids. */
static size_t reserve_more(struct choice *choice, size_t unit, size_t most, size_t left)
{
        uint32_t more = (uint32_t)MIN(most, left);

        choice->to_reserve[unit] += more;
        return left - more;
}

/* The emptiest unit that has more ids to reserve than it must keep, or n_units. */
static size_t find_emptiest(const struct choice *choice, size_t keeper, uint32_t kept)
{
        size_t emptiest = choice->n_units;

        for (size_t i = 0; i < choice->n_units; i++) {
                if (choice->free[i] <= choice->to_reserve[i] + (i == keeper ? kept : 0))
                        continue;
                if (emptiest == choice->n_units || choice->room[i] > choice->room[emptiest])
                        emptiest = i;
        }
        return emptiest;
}

/* Reserves ids without room first, then those of the emptiest units; kept ids come last. */
static void choose(struct choice *choice)
{
        size_t keeper = find_keeper(choice);
        uint32_t kept = count_kept(choice, keeper);
        size_t left = choice->wanted;

        for (size_t i = 0; i < choice->n_units; i++)
                left = reserve_more(choice, i, choice->free[i] - usable(choice, i), left);
        while (left > 0) {
                size_t unit = find_emptiest(choice, keeper, kept);

                if (unit == choice->n_units) {
                        kept = 0;
                        continue;
                }
                left = reserve_more(choice, unit,
                        choice->free[unit] - choice->to_reserve[unit] - (unit == keeper ? kept : 0), left);
        }
}

/* Reserves the last of its ids; ids that are reserved already stay so. */
static void reserve_ids(struct allocations *allocations, size_t position, uint32_t count)
{
        const struct unit *unit = &allocations->resource->units[position];
        struct place *place = &allocations->places[position];
        size_t first = unit->first_device;

        for (size_t i = first; place->reserved > count; i++) {
                place->reserved -= allocations->reserved[i];
                allocations->reserved[i] = false;
        }
        for (size_t i = first + unit->replicas; place->reserved < count; i--) {
                if (allocations->holders[i - 1] || allocations->reserved[i - 1])
                        continue;
                allocations->reserved[i - 1] = true;
                place->reserved++;
        }
}

void allocations_reserve(struct allocations *allocations)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct choice choice = {.allocations = allocations};

        measure(&choice, &scratch);
        if (is_enough(&choice))
                return;
        choose(&choice);
        for (size_t i = 0; i < choice.n_units; i++)
                reserve_ids(allocations, i, choice.to_reserve[i]);
}
