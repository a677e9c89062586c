// SPDX-License-Identifier: Apache-2.0
#include "plan/prefer.h"

#include "plan/prefer_links.h"

struct choice {
        const struct resource *resource;
        const char **ids; /* the answer */
        size_t n_ids;
        uint32_t *required; /* the units of the required ids */
        bool *is_candidate; /* by position of the device */
        size_t n_candidates;
        size_t needed;  /* besides the required ones */
        bool has_parts; /* candidates or required ids include replicas or MIG devices */
};

static void prefer_note_unit(struct choice *choice, uint32_t position)
{
        const struct unit *unit = &choice->resource->units[position];

        choice->has_parts |= unit->replicas > 1 || unit->mig;
}

/* The answer begins with the required ids. They are not candidates, and the answer has room for all of them. */
static int prefer_collect(
        struct choice *choice, const struct prefer_request *request, struct arena *scratch, struct error *err)
{
        const struct resource *resource = choice->resource;
        bool *is_required = ARENA_ARRAY(scratch, bool, resource->n_devices);

        choice->is_candidate = ARENA_ARRAY(scratch, bool, resource->n_devices);
        choice->required = ARENA_ARRAY(scratch, uint32_t, MIN(request->size, resource->n_devices));
        for (size_t i = 0; i < request->n_required; i++) {
                const struct device *device = map_find(&resource->by_id, request->required[i]);

                if (!device || is_required[device - resource->devices])
                        continue;
                if (choice->n_ids == request->size)
                        return error_set(err, ERROR_INVALID,
                                "resource '%s': %zu devices are asked for, but more devices than that must be included",
                                resource->name, request->size);
                is_required[device - resource->devices] = true;
                prefer_note_unit(choice, device->unit);
                choice->required[choice->n_ids] = device->unit;
                choice->ids[choice->n_ids++] = device->id;
        }
        for (size_t i = 0; i < request->n_available; i++) {
                const struct device *device = map_find(&resource->by_id, request->available[i]);
                size_t position = device ? (size_t)(device - resource->devices) : 0;

                if (!device || is_required[position] || choice->is_candidate[position])
                        continue;
                prefer_note_unit(choice, device->unit);
                choice->is_candidate[position] = true;
                choice->n_candidates++;
        }
        choice->needed = request->size - choice->n_ids;
        if (choice->n_candidates < choice->needed)
                return error_set(err, ERROR_INVALID,
                        "resource '%s': not enough available devices: %zu are asked for, %zu are available",
                        resource->name, request->size, choice->n_ids + choice->n_candidates);
        return 0;
}

static void pick_all(struct choice *choice)
{
        for (size_t i = 0; i < choice->resource->n_devices; i++)
                if (choice->is_candidate[i])
                        choice->ids[choice->n_ids++] = choice->resource->devices[i].id;
}

/* ---- replicas and MIG devices ---- */

/*
 * A rank is four parts of 16 bits in one number; the lowest rank is chosen first. The last part is the pool's position.
 */
#define PART_BITS 16
#define PART_MAX ((UINT64_C(1) << PART_BITS) - 1)

_Static_assert(PLAN_MAX_DEVICES <= PART_MAX, "no count is larger than a part of a rank");

#define NONE UINT32_MAX

struct pool {
        uint32_t *next; /* its remaining candidates: positions of devices, ascending */
        uint32_t left;
        uint32_t gone;
        uint32_t taken; /* by this request; under distinct and same-gpu including required ones */
        uint32_t gpu;   /* position in the inventory */
};

struct gpu_pools {
        uint32_t whole; /* the pool of its MIG devices that are not shared, or NONE */
        uint32_t gone;
};

struct filling {
        enum placement policy;
        const struct device *devices;
        struct pool *pools;
        size_t n_pools;
        struct gpu_pools *gpus;
        uint32_t last; /* same-gpu: all that is needed fits in one pool, and the tightest is chosen; 0: the largest */
        const char **ids; /* where the next id is written */
};

static uint64_t placement_rank(const struct filling *filling, uint32_t position)
{
        const struct pool *pool = &filling->pools[position];
        uint64_t gpu_gone = filling->gpus[pool->gpu].gone;
        uint64_t parts[3] = {0};

        switch (filling->policy) {
        case PLACEMENT_DISTRIBUTED:
                parts[0] = pool->gone;
                parts[1] = pool->taken;
                parts[2] = gpu_gone;
                break;
        case PLACEMENT_PACKED:
                parts[0] = PART_MAX - pool->gone;
                parts[1] = pool->taken;
                parts[2] = PART_MAX - gpu_gone;
                break;
        case PLACEMENT_DISTINCT:
                parts[0] = pool->taken;
                parts[1] = pool->gone;
                parts[2] = gpu_gone;
                break;
        case PLACEMENT_SAME_GPU: /* plan/allocations.h keeps its promise; the preference is the same */
        case PLACEMENT_PREFER_SAME_GPU:
                parts[0] = pool->taken == 0;
                parts[1] = filling->last ? pool->left : PART_MAX - pool->left;
                parts[2] = PART_MAX - gpu_gone;
                break;
        }
        return parts[0] << (3 * PART_BITS) | parts[1] << (2 * PART_BITS) | parts[2] << PART_BITS | position;
}

static uint32_t add_pool(struct filling *filling, uint32_t gpu)
{
        filling->pools[filling->n_pools].gpu = gpu;
        return (uint32_t)filling->n_pools++;
}

static uint32_t pool_of(struct filling *filling, const struct unit *unit)
{
        struct gpu_pools *gpu = &filling->gpus[unit->position];

        if (!unit->mig || unit->replicas > 1)
                return add_pool(filling, (uint32_t)unit->position);
        if (gpu->whole == NONE)
                gpu->whole = add_pool(filling, (uint32_t)unit->position);
        return gpu->whole;
}

/* The pool of each unit. */
static uint32_t *make_pools(struct filling *filling, const struct resource *resource, struct arena *scratch)
{
        uint32_t *pools = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        size_t n_gpus = 0;

        for (size_t i = 0; i < resource->n_units; i++)
                n_gpus = MAX(n_gpus, resource->units[i].position + 1);
        filling->gpus = ARENA_ARRAY(scratch, struct gpu_pools, n_gpus);
        for (size_t i = 0; i < n_gpus; i++)
                filling->gpus[i].whole = NONE;
        filling->pools = ARENA_ARRAY(scratch, struct pool, resource->n_units);
        for (size_t i = 0; i < resource->n_units; i++) {
                pools[i] = pool_of(filling, &resource->units[i]);
                filling->pools[pools[i]].gone += resource->units[i].replicas;
                filling->gpus[resource->units[i].position].gone += resource->units[i].replicas;
        }
        return pools;
}

/* Sorts the candidates by pool, and drops other devices. */
static void sort_by_pool(
        struct filling *filling, const struct choice *choice, const uint32_t *pools, struct arena *scratch)
{
        const struct resource *resource = choice->resource;
        uint32_t *candidates;
        size_t count = 0;

        for (size_t i = 0; i < resource->n_devices; i++)
                filling->pools[pools[resource->devices[i].unit]].left += choice->is_candidate[i];
        for (size_t i = 0; i < filling->n_pools; i++)
                count += filling->pools[i].left;
        candidates = ARENA_ARRAY(scratch, uint32_t, count);
        for (size_t i = 0; i < filling->n_pools; i++) {
                struct pool *pool = &filling->pools[i];

                pool->next = candidates;
                candidates += pool->left;
                pool->gone -= pool->left;
                filling->gpus[pool->gpu].gone -= pool->left;
                pool->left = 0;
        }
        for (size_t i = 0; i < resource->n_devices; i++) {
                struct pool *pool = &filling->pools[pools[resource->devices[i].unit]];

                if (choice->is_candidate[i])
                        pool->next[pool->left++] = (uint32_t)i;
        }
}

/* The pool of the lowest rank that has enough candidates left. */
static struct pool *find_first_pool(const struct filling *filling)
{
        struct pool *first = NULL;
        uint64_t least = UINT64_MAX;

        for (uint32_t i = 0; i < filling->n_pools; i++) {
                uint64_t rank = placement_rank(filling, i);

                if (filling->pools[i].left < MAX(filling->last, 1U) || rank >= least)
                        continue;
                first = &filling->pools[i];
                least = rank;
        }
        return first;
}

static void prefer_take(struct filling *filling, struct pool *pool, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++)
                *filling->ids++ = filling->devices[*pool->next++].id;
        pool->left -= count;
        pool->gone += count;
        pool->taken += count;
        filling->gpus[pool->gpu].gone += count;
}

static void fill_same_gpu(struct filling *filling, size_t needed)
{
        while (needed > 0) {
                struct pool *pool = find_first_pool(filling);
                uint32_t count;

                if (pool->left >= needed) {
                        filling->last = (uint32_t)needed;
                        pool = find_first_pool(filling);
                }
                count = (uint32_t)MIN(pool->left, needed);
                prefer_take(filling, pool, count);
                needed -= count;
        }
}

static void pick_by_placement(struct choice *choice, struct arena *scratch)
{
        struct filling filling = {.policy = choice->resource->placement,
                .devices = choice->resource->devices,
                .ids = choice->ids + choice->n_ids};
        const uint32_t *pools = make_pools(&filling, choice->resource, scratch);
        bool fills_one = filling.policy == PLACEMENT_SAME_GPU || filling.policy == PLACEMENT_PREFER_SAME_GPU;
        bool opens = filling.policy == PLACEMENT_DISTINCT || fills_one;

        for (size_t i = 0; opens && i < choice->n_ids; i++)
                filling.pools[pools[choice->required[i]]].taken++;
        sort_by_pool(&filling, choice, pools, scratch);
        choice->n_ids += choice->needed;
        if (fills_one)
                fill_same_gpu(&filling, choice->needed);
        for (size_t i = 0; !fills_one && i < choice->needed; i++)
                prefer_take(&filling, find_first_pool(&filling), 1);
}

/* ---- whole GPUs ---- */

static void pick_by_links(struct choice *choice, struct arena *scratch)
{
        const struct resource *resource = choice->resource;
        size_t n_required = choice->n_ids;
        uint32_t *candidates = ARENA_ARRAY(scratch, uint32_t, choice->n_candidates);
        uint32_t *picked = ARENA_ARRAY(scratch, uint32_t, n_required + choice->needed);
        size_t count = 0;

        /* A whole unit is one device. */
        for (size_t i = 0; i < resource->n_devices; i++)
                if (choice->is_candidate[i])
                        candidates[count++] = resource->devices[i].unit;
        for (size_t i = 0; i < n_required; i++)
                picked[i] = choice->required[i];
        prefer_links(resource, scratch, candidates, count, choice->needed, picked, n_required);
        for (size_t i = n_required; i < n_required + choice->needed; i++)
                choice->ids[choice->n_ids++] = resource->devices[resource->units[picked[i]].first_device].id;
}

/* ---- the answer ---- */

int prefer(const struct resource *resource, const struct prefer_request *request, struct arena *scratch,
        const char **ret_ids, size_t *ret_n_ids, struct error *err)
{
        struct choice choice = {.resource = resource, .ids = ret_ids};

        if (prefer_collect(&choice, request, scratch, err) < 0)
                return -1;
        if (choice.needed == choice.n_candidates)
                pick_all(&choice);
        else if (choice.needed > 0 && choice.has_parts)
                pick_by_placement(&choice, scratch);
        else if (choice.needed > 0)
                pick_by_links(&choice, scratch);
        *ret_n_ids = choice.n_ids;
        return 0;
}
