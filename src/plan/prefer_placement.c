#include "plan/prefer_placement.h"

/*
 * A rank is four parts of 16 bits in one number; the lowest rank is chosen first. The last part is the pool's position.
 */
#define PART_BITS 16
#define PART_MAX ((UINT64_C(1) << PART_BITS) - 1)

_Static_assert(PLAN_MAX_DEVICES <= PART_MAX, "no count is larger than a part of a rank");

#define NONE UINT32_MAX

struct pool {
        uint64_t rank;
        uint32_t *next; /* its remaining candidates: positions of devices, ascending */
        uint32_t left;
        uint32_t gone;
        uint32_t taken;   /* by this request; under distinct and same-gpu including required ones */
        uint32_t gpu;     /* position in the inventory */
        uint32_t sibling; /* another pool of the same GPU, or NONE */
        uint32_t at;      /* position in the heap; NONE: no candidates are left */
};

struct gpu_pools {
        uint32_t first; /* pool, or NONE */
        uint32_t whole; /* the pool of its MIG devices that are not shared, or NONE */
        uint32_t gone;
};

struct filling {
        enum placement policy;
        const struct device *devices;
        struct pool *pools;
        size_t n_pools;
        struct gpu_pools *gpus;
        uint32_t *heap; /* pools; rank of heap[i] ≤ that of heap[2i + 1], heap[2i + 2] */
        size_t heap_size;
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
                parts[1] = PART_MAX - pool->left;
                parts[2] = PART_MAX - gpu_gone;
                break;
        }
        return parts[0] << (3 * PART_BITS) | parts[1] << (2 * PART_BITS) | parts[2] << PART_BITS | position;
}

/* ---- the heap ---- */

static void heap_put(struct filling *filling, size_t at, uint32_t pool)
{
        filling->heap[at] = pool;
        filling->pools[pool].at = (uint32_t)at;
}

static uint64_t heap_rank(const struct filling *filling, size_t at)
{
        return filling->pools[filling->heap[at]].rank;
}

/* Moves the pool at |at| to the place of its rank. */
static void heap_fix(struct filling *filling, size_t at)
{
        uint32_t pool = filling->heap[at];
        uint64_t rank = filling->pools[pool].rank;

        while (at > 0 && rank < heap_rank(filling, (at - 1) / 2)) {
                heap_put(filling, at, filling->heap[(at - 1) / 2]);
                at = (at - 1) / 2;
        }
        for (size_t child; (child = 2 * at + 1) < filling->heap_size; at = child) {
                if (child + 1 < filling->heap_size && heap_rank(filling, child + 1) < heap_rank(filling, child))
                        child++;
                if (rank <= heap_rank(filling, child))
                        break;
                heap_put(filling, at, filling->heap[child]);
        }
        heap_put(filling, at, pool);
}

static void heap_remove(struct filling *filling, struct pool *pool)
{
        size_t at = pool->at;
        uint32_t last = filling->heap[--filling->heap_size];

        pool->at = NONE;
        if (at == filling->heap_size)
                return;
        heap_put(filling, at, last);
        heap_fix(filling, at);
}

/* ---- the pools ---- */

static uint32_t add_pool(struct filling *filling, uint32_t gpu)
{
        uint32_t position = (uint32_t)filling->n_pools++;

        filling->pools[position] = (struct pool){.gpu = gpu, .sibling = filling->gpus[gpu].first, .at = NONE};
        filling->gpus[gpu].first = position;
        return position;
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
                filling->gpus[i].first = filling->gpus[i].whole = NONE;
        filling->pools = ARENA_ARRAY(scratch, struct pool, resource->n_units);
        for (size_t i = 0; i < resource->n_units; i++) {
                pools[i] = pool_of(filling, &resource->units[i]);
                filling->pools[pools[i]].gone += resource->units[i].replicas;
                filling->gpus[resource->units[i].position].gone += resource->units[i].replicas;
        }
        return pools;
}

/* Sorts the candidates by pool, and drops other devices. */
static void placement_sort_by_pool(
        struct filling *filling, const struct prefer_placement *placement, const uint32_t *pools, struct arena *scratch)
{
        const struct resource *resource = placement->resource;
        uint32_t *candidates;
        size_t count = 0;

        for (size_t i = 0; i < resource->n_devices; i++)
                filling->pools[pools[resource->devices[i].unit]].left += placement->is_candidate[i];
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

                if (placement->is_candidate[i])
                        pool->next[pool->left++] = (uint32_t)i;
        }
}

static void fill_heap(struct filling *filling, struct arena *scratch)
{
        filling->heap = ARENA_ARRAY(scratch, uint32_t, filling->n_pools);
        for (uint32_t i = 0; i < filling->n_pools; i++) {
                if (filling->pools[i].left == 0)
                        continue;
                filling->pools[i].rank = placement_rank(filling, i);
                filling->heap[filling->heap_size] = i;
                heap_fix(filling, filling->heap_size++);
        }
}

static void prefer_placement_take(struct filling *filling, struct pool *pool, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++)
                *filling->ids++ = filling->devices[*pool->next++].id;
        pool->left -= count;
        pool->gone += count;
        pool->taken += count;
        filling->gpus[pool->gpu].gone += count;
        if (pool->left == 0)
                heap_remove(filling, pool);
        /* Updates the ranks of all pools of this GPU. */
        for (uint32_t i = filling->gpus[pool->gpu].first; i != NONE; i = filling->pools[i].sibling) {
                if (filling->pools[i].at == NONE)
                        continue;
                filling->pools[i].rank = placement_rank(filling, i);
                heap_fix(filling, filling->pools[i].at);
        }
}

/*
 * Among the pools that are as open as the first one and can hold the request: the one with the fewest candidates left.
 */
static struct pool *find_tightest(const struct filling *filling, size_t needed)
{
        struct pool *best = &filling->pools[filling->heap[0]];

        for (size_t i = 1; i < filling->heap_size; i++) {
                struct pool *pool = &filling->pools[filling->heap[i]];

                if ((pool->taken == 0) != (best->taken == 0) || pool->left < needed)
                        continue;
                if (pool->left < best->left || (pool->left == best->left && pool->rank < best->rank))
                        best = pool;
        }
        return best;
}

static void fill_same_gpu(struct filling *filling, size_t needed)
{
        while (needed > 0) {
                struct pool *pool = &filling->pools[filling->heap[0]];
                uint32_t count = pool->left;

                if (count >= needed) {
                        pool = find_tightest(filling, needed);
                        count = (uint32_t)needed;
                }
                prefer_placement_take(filling, pool, count);
                needed -= count;
        }
}

void prefer_placement(const struct prefer_placement *placement, struct arena *scratch, size_t needed, const char **ids)
{
        struct filling filling = {
                .policy = placement->resource->placement, .devices = placement->resource->devices, .ids = ids};
        const uint32_t *pools = make_pools(&filling, placement->resource, scratch);
        bool fills_one = filling.policy == PLACEMENT_SAME_GPU || filling.policy == PLACEMENT_PREFER_SAME_GPU;
        bool opens = filling.policy == PLACEMENT_DISTINCT || fills_one;

        for (size_t i = 0; opens && i < placement->n_required; i++)
                filling.pools[pools[placement->required[i]]].taken++;
        placement_sort_by_pool(&filling, placement, pools, scratch);
        fill_heap(&filling, scratch);
        if (fills_one) {
                fill_same_gpu(&filling, needed);
                return;
        }
        for (; needed > 0; needed--)
                prefer_placement_take(&filling, &filling.pools[filling.heap[0]], 1);
}
