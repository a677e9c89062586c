// SPDX-License-Identifier: Apache-2.0
#include "plan/allocations.h"

#include <string.h>

#include "plan/allocation_table.h"

/* ---- ledger ---- */

static char **copy_texts(const char *const *texts, size_t count)
{
        size_t size = count * sizeof(char *);
        char **copy;
        char *at;

        for (size_t i = 0; i < count; i++)
                size += strlen(texts[i]) + 1;
        copy = xmalloc(size);
        at = (char *)(copy + count);
        for (size_t i = 0; i < count; i++) {
                copy[i] = at;
                at = stpcpy(at, texts[i]) + 1;
        }
        return copy;
}

struct allocation_entry *allocation_entry_new(const char *id, const char *unit, const char *const *devices,
        size_t n_devices, struct allocations_moment granted)
{
        struct allocation_entry *entry = xcalloc(1, sizeof(*entry));

        entry->id = xstrdup(id);
        entry->unit = unit ? xstrdup(unit) : NULL;
        entry->devices = copy_texts(devices, n_devices);
        entry->allocation = (struct allocation){
                .id = entry->id,
                .unit = entry->unit,
                .devices = (const char *const *)entry->devices,
                .n_devices = n_devices,
                .since = granted.date,
        };
        entry->entered = granted.clock;
        return entry;
}

struct allocation_entry *allocation_entry_free(struct allocation_entry *entry)
{
        if (!entry)
                return NULL;
        free(entry->id);
        free(entry->unit);
        free(entry->devices);
        free(entry);
        return NULL;
}

/* ---- the count ---- */

static uint32_t allocations_find_unit(const struct resource *resource, const char *uuid)
{
        const struct unit *unit = uuid ? resource_find_unit(resource, uuid) : NULL;

        return unit ? (uint32_t)(unit - resource->units) : ALLOCATIONS_NO_UNIT;
}

/* The position of the unit that an id of this allocation uses; ALLOCATIONS_NO_UNIT: the unit is gone. */
static uint32_t unit_used(const struct allocation_entry *entry, const struct device *device)
{
        if (entry->unit)
                return entry->position;
        return device ? device->unit : ALLOCATIONS_NO_UNIT;
}

static void use_unit(struct allocations *allocations, uint32_t unit, int32_t replicas)
{
        if (unit != ALLOCATIONS_NO_UNIT)
                allocations->places[unit].used += (uint32_t)replicas;
}

static void hold_device(struct allocations *allocations, struct allocation_entry *entry, const char *id)
{
        const struct device *device = map_find(&allocations->resource->by_id, id);
        struct allocation_entry **holder;
        bool *reserved;

        use_unit(allocations, unit_used(entry, device), 1);
        allocations->n_unknown += !device;
        if (!device)
                return;
        holder = &allocations->holders[device - allocations->resource->devices];
        reserved = &allocations->reserved[device - allocations->resource->devices];
        if (*holder)
                use_unit(allocations, unit_used(*holder, device), -1);
        allocations->places[device->unit].held += *holder == NULL;
        allocations->places[device->unit].reserved -= *reserved;
        *holder = entry;
        *reserved = false;
}

static void allocations_hold_ids(struct allocations *allocations, struct allocation_entry *entry)
{
        entry->position = allocations_find_unit(allocations->resource, entry->unit);
        for (size_t i = 0; i < entry->allocation.n_devices; i++)
                hold_device(allocations, entry, entry->devices[i]);
}

/* A newer allocation has each of its ids. */
static bool has_nothing_left(const struct allocations *allocations, const struct allocation_entry *entry)
{
        for (size_t i = 0; i < entry->allocation.n_devices; i++) {
                const struct device *device = map_find(&allocations->resource->by_id, entry->devices[i]);

                if (!device || allocations->holders[device - allocations->resource->devices] == entry)
                        return false;
        }
        return true;
}

/*
 * An allocation without ids may belong to a running init container. There are at most as many of those as devices. If
 * there are more, the oldest are dropped although kubelet has not reported their end: it may not list holders at all.
 */
static void allocations_forget_oldest(struct allocations *allocations)
{
        size_t n_devices = allocations->resource->n_devices;
        size_t excess = allocations->n_all > 2 * n_devices ? allocations->n_all - n_devices : 0;
        size_t kept = 0;

        if (excess == 0)
                return;
        for (size_t i = 0; i < allocations->n_all; i++) {
                if (excess > 0 && has_nothing_left(allocations, allocations->all[i])) {
                        excess--;
                        allocation_entry_free(allocations->all[i]);
                } else {
                        allocations->all[kept++] = allocations->all[i];
                }
        }
        allocations->n_all = kept;
}

void allocations_enter(struct allocations *allocations, struct allocation_entry *entry)
{
        if (allocations->n_all == allocations->room) {
                allocations->room = allocations->room ? 2 * allocations->room : 16;
                allocations->all = xrealloc(allocations->all, allocations->room * sizeof(*allocations->all));
        }
        allocations->all[allocations->n_all++] = entry;
        allocations_hold_ids(allocations, entry);
}

void allocations_recount(struct allocations *allocations)
{
        for (size_t i = 0; i < allocations->resource->n_units; i++)
                allocations->places[i].used = allocations->places[i].held = 0;
        for (size_t i = 0; i < allocations->resource->n_devices; i++)
                allocations->holders[i] = NULL;
        allocations->n_unknown = 0;
        for (size_t i = 0; i < allocations->n_all; i++)
                allocations_hold_ids(allocations, allocations->all[i]);
        allocations_forget_oldest(allocations);
        allocations_reserve(allocations);
}

static bool allocations_is_on_unit(const struct allocation_entry *entry, const struct resource *resource)
{
        return entry->unit && resource_find_unit(resource, entry->unit);
}

static bool is_to_move(const struct allocation_entry *entry, const struct resource *from, const struct resource *to,
        enum allocations_which which)
{
        bool has_id = map_find(&to->by_id, entry->devices[0]);

        switch (which) {
        case ALLOCATIONS_OF_TARGET:
                return entry->unit ? allocations_is_on_unit(entry, to) : has_id;
        case ALLOCATIONS_STRAY:
                return has_id && !allocations_is_on_unit(entry, from);
        case ALLOCATIONS_ALL:
                break;
        }
        return true;
}

void allocations_move(struct allocations *from, struct allocations *to, enum allocations_which which)
{
        size_t left = 0;

        for (size_t i = 0; i < from->n_all; i++)
                if (is_to_move(from->all[i], from->resource, to->resource, which))
                        allocations_enter(to, from->all[i]);
                else
                        from->all[left++] = from->all[i];
        from->n_all = left;
        allocations_recount(from);
        allocations_recount(to);
}

/* ---- a request ---- */

struct request {
        const struct allocations *allocations;
        enum allocations_try which;
        const char **ids; /* each once */
        size_t n_ids;
        uint32_t *own;   /* by unit: how many of the ids are its own */
        uint32_t *fresh; /* by unit: how many of them are in no allocation */
        uint32_t *moved; /* by unit: how many of the ids are in an allocation that is bound to it */
};

static int collect(
        struct request *request, struct arena *scratch, const char *const *devices, size_t n_devices, struct error *err)
{
        const struct allocations *allocations = request->allocations;
        const struct resource *resource = allocations->resource;
        bool *seen = ARENA_ARRAY(scratch, bool, resource->n_devices);

        request->ids = ARENA_ARRAY(scratch, const char *, MIN(n_devices, resource->n_devices));
        request->own = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        request->fresh = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        request->moved = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        for (size_t i = 0; i < n_devices; i++) {
                const struct device *device = map_find(&resource->by_id, devices[i]);
                const struct allocation_entry *holder;
                uint32_t used;

                if (!device)
                        return error_set(err, ERROR_NOT_FOUND,
                                "invalid request for resource '%s': unknown device '%.100s'", resource->name,
                                devices[i]);
                if (seen[device - resource->devices])
                        continue;
                seen[device - resource->devices] = true;
                request->ids[request->n_ids++] = device->id;
                request->own[device->unit]++;
                holder = allocations->holders[device - resource->devices];
                request->fresh[device->unit] += holder == NULL;
                used = holder ? unit_used(holder, device) : ALLOCATIONS_NO_UNIT;
                if (used != ALLOCATIONS_NO_UNIT)
                        request->moved[used]++;
        }
        return 0;
}

static unsigned int largest_unit(const struct resource *resource)
{
        unsigned int largest = 0;

        for (size_t i = 0; i < resource->n_units; i++)
                largest = MAX(largest, resource->units[i].replicas);
        return largest;
}

static int check_size(const struct request *request, struct error *err)
{
        const struct allocations *allocations = request->allocations;
        const char *name = allocations->resource->name;
        unsigned int largest = largest_unit(allocations->resource);

        if (request->n_ids == 0)
                return error_set(err, ERROR_INVALID, "invalid request for resource '%s': it names no device", name);
        if (allocations->max_per_request == 0)
                return 0;
        if (request->n_ids > largest)
                return error_set(err, ERROR_INVALID,
                        "invalid request for resource '%s': %zu replicas are asked for, but all must be of one unit, and the "
                        "largest has %u: ask for fewer",
                        name, request->n_ids, largest);
        if (request->n_ids > allocations->max_per_request)
                return error_set(err, ERROR_INVALID,
                        "invalid request for resource '%s': %zu replicas are asked for, but maxPerRequest is %u: ask for "
                        "fewer, or raise it",
                        name, request->n_ids, allocations->max_per_request);
        return 0;
}

/*
 * More replicas would be in use than is safe to advertise: some allocations have ended, but kubelet has not reported it
 * yet. If the request were accepted, too few free ids could be reserved, and the scheduler would be promised more than
 * there is. Once kubelet has been asked, nothing has ended that could be known of, and the check is skipped.
 */
static int check_count(const struct request *request, struct error *err)
{
        const struct allocations *allocations = request->allocations;
        size_t safe = allocations_safe_count(allocations->resource, allocations->max_per_request, allocations->places);
        size_t held = 0;

        if (request->which == ALLOCATIONS_AFTER_KUBELET)
                return 0;
        for (size_t i = 0; i < allocations->resource->n_units; i++)
                held += allocations->places[i].is_unhealthy ? 0 : allocations->places[i].held + request->fresh[i];
        if (held <= safe)
                return 0;
        return error_set(err, ERROR_EXHAUSTED,
                "with this request %zu replicas of resource '%s' would be in use, and %zu are advertised", held,
                allocations->resource->name, safe);
}

/*
 * Best is the unit to which the ids' present allocations are bound, then the unit of most of the ids, then the one with
 * the least room.
 */
static bool allocations_is_better(const struct request *request, const uint32_t *room, uint32_t a, uint32_t b)
{
        if (request->moved[a] != request->moved[b])
                return request->moved[a] > request->moved[b];
        if (request->own[a] != request->own[b])
                return request->own[a] > request->own[b];
        return room[a] < room[b];
}

static int choose_unit(const struct request *request, struct arena *scratch, uint32_t *ret, struct error *err)
{
        const struct allocations *allocations = request->allocations;
        size_t n_units = allocations->resource->n_units;
        uint32_t *room = ARENA_ARRAY(scratch, uint32_t, n_units);
        uint32_t best = ALLOCATIONS_NO_UNIT;
        uint32_t most = 0;
        size_t unhealthy = 0;

        for (uint32_t i = 0; i < n_units; i++) {
                unhealthy += allocations->places[i].is_unhealthy;
                room[i] = place_room(allocations, i, request->moved[i]);
                most = MAX(most, room[i]);
                if (room[i] < request->n_ids)
                        continue;
                if (best == ALLOCATIONS_NO_UNIT || allocations_is_better(request, room, i, best))
                        best = i;
        }
        if (best == ALLOCATIONS_NO_UNIT)
                return error_set(err, ERROR_EXHAUSTED,
                        "no unit of resource '%s' has %zu free replicas: the most is %u; %zu of %zu units are not healthy%s",
                        allocations->resource->name, request->n_ids, most, unhealthy, n_units,
                        allocations->resource->reserves
                                ? ""
                                : " (with reserve: strict no pod is admitted that finds no unit)");
        *ret = best;
        return 0;
}

static int allocations_find_room(
        const struct request *request, struct arena *scratch, const char **ret_uuid, struct error *err)
{
        const struct resource *resource = request->allocations->resource;
        uint32_t unit;

        *ret_uuid = NULL;
        if (request->allocations->max_per_request == 0)
                return 0;
        if (check_count(request, err) < 0 || choose_unit(request, scratch, &unit, err) < 0)
                return -1;
        *ret_uuid = resource->units[unit].uuid;
        return 0;
}

int allocations_make(struct allocations *allocations, const char *const *devices, size_t n_devices,
        struct allocations_moment now, const char *id, enum allocations_try which, const struct allocation **ret,
        struct error *err)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct request request = {.allocations = allocations, .which = which};
        struct allocation_entry *entry;
        const char *uuid;

        if (collect(&request, &scratch, devices, n_devices, err) < 0 || check_size(&request, err) < 0)
                return -1;
        if (allocations_find_room(&request, &scratch, &uuid, err) < 0)
                return -1;
        allocations_forget_oldest(allocations);
        entry = allocation_entry_new(id, uuid, request.ids, request.n_ids, now);
        allocations_enter(allocations, entry);
        allocations_reserve(allocations);
        *ret = &entry->allocation;
        return 0;
}

static struct allocation_entry *find_entry(const struct allocations *allocations, const char *id)
{
        for (size_t i = allocations->n_all; i > 0; i--)
                if (strcmp(allocations->all[i - 1]->id, id) == 0)
                        return allocations->all[i - 1];
        return NULL;
}

void allocations_renew(struct allocations *allocations, const char *id, int64_t clock)
{
        struct allocation_entry *entry = find_entry(allocations, id);

        if (entry)
                entry->entered = clock;
}

const struct allocation *allocations_find(const struct allocations *allocations, const char *id)
{
        const struct allocation_entry *entry = find_entry(allocations, id);

        return entry ? &entry->allocation : NULL;
}

/* ---- the ledger as a whole ---- */

struct allocations *allocations_new(const struct resource *resource, unsigned int max_per_request)
{
        struct allocations *allocations = xcalloc(1, sizeof(*allocations));

        allocations_set_resource(allocations, resource, max_per_request);
        return allocations;
}

struct allocations *allocations_free(struct allocations *allocations)
{
        if (!allocations)
                return NULL;
        for (size_t i = 0; i < allocations->n_all; i++)
                allocation_entry_free(allocations->all[i]);
        free(allocations->all);
        free(allocations->places);
        free(allocations->holders);
        free(allocations->reserved);
        free(allocations);
        return NULL;
}

void allocations_set_resource(
        struct allocations *allocations, const struct resource *resource, unsigned int max_per_request)
{
        struct place *places = xcalloc(resource->n_units, sizeof(*places));

        for (size_t i = 0; allocations->resource && i < resource->n_units; i++) {
                uint32_t before = allocations_find_unit(allocations->resource, resource->units[i].uuid);

                places[i].is_unhealthy = before != ALLOCATIONS_NO_UNIT && allocations->places[before].is_unhealthy;
        }
        free(allocations->places);
        free(allocations->holders);
        free(allocations->reserved);
        allocations->places = places;
        allocations->holders = xcalloc(resource->n_devices, sizeof(struct allocation_entry *));
        allocations->reserved = xcalloc(resource->n_devices, sizeof(bool));
        allocations->resource = resource;
        allocations->max_per_request = max_per_request;
        allocations_recount(allocations);
}

void allocations_set_unit_health(struct allocations *allocations, const char *uuid, bool healthy)
{
        uint32_t unit = allocations_find_unit(allocations->resource, uuid);

        if (unit == ALLOCATIONS_NO_UNIT)
                return;
        allocations->places[unit].is_unhealthy = !healthy;
        allocations_reserve(allocations);
}

size_t allocations_capacity(const struct resource *resource, unsigned int max_per_request)
{
        return allocations_safe_count(resource, max_per_request, NULL);
}

const bool *allocations_reserved_ids(const struct allocations *allocations)
{
        return allocations->reserved;
}

size_t allocations_count(const struct allocations *allocations)
{
        return allocations->n_all;
}

const struct allocation *allocations_get(const struct allocations *allocations, size_t position)
{
        return &allocations->all[position]->allocation;
}

static bool allocations_has_device(const struct allocation *allocation, const char *id)
{
        for (size_t i = 0; i < allocation->n_devices; i++)
                if (strcmp(allocation->devices[i], id) == 0)
                        return true;
        return false;
}

const struct allocation *allocations_of_device(const struct allocations *allocations, const char *device)
{
        const struct device *known = map_find(&allocations->resource->by_id, device);

        if (known) {
                const struct allocation_entry *holder = allocations->holders[known - allocations->resource->devices];

                return holder ? &holder->allocation : NULL;
        }
        /* An id that the plan does not have any more. */
        for (size_t i = allocations->n_unknown ? allocations->n_all : 0; i > 0; i--)
                if (allocations_has_device(&allocations->all[i - 1]->allocation, device))
                        return &allocations->all[i - 1]->allocation;
        return NULL;
}
