#include "share/prefer.h"

#include <string.h>

#include "share/prefer_links.h"

struct choice {
        const struct resource *resource;
        struct arena *scratch;
        const char **ids; /* the answer */
        size_t n_ids;
        bool *is_candidate; /* by position of the device */
        size_t n_candidates;
        size_t needed; /* beyond the required ones */
};

/* ---- shared units ---- */

/*
 * What ranks a unit: how much of it is gone, what this request took of it, its position; packed into one number whose least
 * value comes first. PLAN_MAX_DEVICES bounds each to 16 bits.
 */
#define RANK_BITS 16
#define RANK_MASK ((UINT64_C(1) << RANK_BITS) - 1)

_Static_assert(PLAN_MAX_DEVICES <= RANK_MASK, "a rank has 16 bits for each part");

struct heap {
        uint64_t *ranks; /* the least first; ranks[i] ≤ ranks[2i + 1], ranks[2i + 2] */
        size_t size;
};

static uint64_t rank_of(uint64_t gone, uint64_t taken, uint64_t unit, enum placement policy)
{
        uint64_t fill = policy == PLACEMENT_PACKED ? RANK_MASK - gone : gone;

        return fill << (2 * RANK_BITS) | taken << RANK_BITS | unit;
}

/* The rank after one more replica was taken of the same unit. */
static uint64_t rank_next(uint64_t rank, enum placement policy)
{
        uint64_t one = UINT64_C(1) << (2 * RANK_BITS);

        rank += UINT64_C(1) << RANK_BITS;
        return policy == PLACEMENT_PACKED ? rank - one : rank + one;
}

static void heap_sink(struct heap *heap, size_t at)
{
        for (;;) {
                size_t least = at;
                uint64_t rank;

                for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap->size; child++)
                        if (heap->ranks[child] < heap->ranks[least])
                                least = child;
                if (least == at)
                        return;
                rank = heap->ranks[at];
                heap->ranks[at] = heap->ranks[least];
                heap->ranks[least] = rank;
                at = least;
        }
}

/* The next candidate of a unit at or after the device |from|; there is one. */
static size_t next_candidate(const struct choice *choice, size_t from)
{
        while (!choice->is_candidate[from])
                from++;
        return from;
}

static void pick_replicas(struct choice *choice, enum placement policy)
{
        const struct resource *resource = choice->resource;
        size_t *next = ARENA_ARRAY(choice->scratch, size_t, resource->n_units);     /* device to go on from */
        uint32_t *left = ARENA_ARRAY(choice->scratch, uint32_t, resource->n_units); /* candidates */
        struct heap heap = {.ranks = ARENA_ARRAY(choice->scratch, uint64_t, resource->n_units)};

        for (size_t i = 0; i < resource->n_devices; i++)
                left[resource->devices[i].unit] += choice->is_candidate[i];
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];

                next[i] = unit->first_device;
                if (left[i])
                        heap.ranks[heap.size++] = rank_of(unit->replicas - left[i], 0, i, policy);
        }
        for (size_t i = heap.size; i-- > 0;)
                heap_sink(&heap, i);
        for (; choice->needed; choice->needed--) {
                size_t unit = heap.ranks[0] & RANK_MASK;
                size_t device = next_candidate(choice, next[unit]);

                choice->ids[choice->n_ids++] = resource->devices[device].id;
                next[unit] = device + 1;
                if (--left[unit])
                        heap.ranks[0] = rank_next(heap.ranks[0], policy);
                else
                        heap.ranks[0] = heap.ranks[--heap.size];
                heap_sink(&heap, 0);
        }
}

/* ---- whole units ---- */

static void pick_units(struct choice *choice, const uint32_t *required)
{
        const struct resource *resource = choice->resource;
        size_t n_required = choice->n_ids;
        uint32_t *candidates = ARENA_ARRAY(choice->scratch, uint32_t, choice->n_candidates);
        uint32_t *picked = ARENA_ARRAY(choice->scratch, uint32_t, n_required + choice->needed);
        size_t count = 0;

        /* A whole unit is one device, and both are in one order. */
        for (size_t i = 0; i < resource->n_devices; i++)
                if (choice->is_candidate[i])
                        candidates[count++] = resource->devices[i].unit;
        if (n_required)
                memcpy(picked, required, n_required * sizeof(*required));
        prefer_links(resource, choice->scratch, candidates, count, choice->needed, picked, n_required);
        for (size_t i = n_required; i < n_required + choice->needed; i++)
                choice->ids[choice->n_ids++] = resource->devices[resource->units[picked[i]].first_device].id;
}

/* ---- the request ---- */

/* The answer begins with the required ids. They are no candidates, and at most as many as the answer has room for. */
static int collect(struct choice *choice, const struct prefer_request *request, uint32_t *required, struct error *err)
{
        const struct resource *resource = choice->resource;
        bool *is_required = ARENA_ARRAY(choice->scratch, bool, resource->n_devices);

        for (size_t i = 0; i < request->n_required; i++) {
                const struct device *device = map_find(&resource->by_id, request->required[i]);

                if (!device || is_required[device - resource->devices])
                        continue;
                if (choice->n_ids == request->size)
                        return error_set(err, ERROR_INVALID,
                                "resource '%s': %zu devices are wanted, but more than that must be among them",
                                resource->name, request->size);
                is_required[device - resource->devices] = true;
                required[choice->n_ids] = device->unit;
                choice->ids[choice->n_ids++] = device->id;
        }
        for (size_t i = 0; i < request->n_available; i++) {
                const struct device *device = map_find(&resource->by_id, request->available[i]);
                size_t position = device ? (size_t)(device - resource->devices) : 0;

                if (!device || is_required[position] || choice->is_candidate[position])
                        continue;
                choice->is_candidate[position] = true;
                choice->n_candidates++;
        }
        choice->needed = request->size - choice->n_ids;
        if (choice->n_candidates < choice->needed)
                return error_set(err, ERROR_INVALID,
                        "resource '%s': not enough available devices: %zu are wanted, %zu are there", resource->name,
                        request->size, choice->n_ids + choice->n_candidates);
        return 0;
}

static bool is_whole(const struct resource *resource)
{
        return resource->n_devices == resource->n_units;
}

int prefer(const struct resource *resource, enum placement policy, const struct prefer_request *request,
        struct arena *scratch, const char **ret_ids, size_t *ret_n_ids, struct error *err)
{
        struct choice choice = {
                .resource = resource,
                .scratch = scratch,
                .ids = ret_ids,
                .is_candidate = ARENA_ARRAY(scratch, bool, resource->n_devices),
        };
        uint32_t *required = ARENA_ARRAY(scratch, uint32_t, MIN(request->size, resource->n_devices));

        if (collect(&choice, request, required, err) < 0)
                return -1;
        if (is_whole(resource))
                pick_units(&choice, required);
        else
                pick_replicas(&choice, policy);
        *ret_n_ids = choice.n_ids;
        return 0;
}
