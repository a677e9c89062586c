// SPDX-License-Identifier: Apache-2.0
#include "plan/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan/allocations.h"
#include "plan/prefer.h"
#include "plan/share.h"

#define MIB ((uint64_t)1024 * 1024)
#define NONE SIZE_MAX
#define CLAIM (SIZE_MAX - 1)  /* instead of the position of a resource */
#define MAX_GPUS ((size_t)64) /* of a node, for claims: a bit each */

/* ---- what a request needs ---- */

static uint64_t needed_mib(const struct trace_request *request)
{
        return request->memory_mib ? request->memory_mib : request->peak_mib;
}

static unsigned int needed_threads(const struct trace_request *request)
{
        return request->threads_permille ? request->threads_permille : request->sm_peak_permille;
}

/* Its use of a GPU's threads: what was measured, or else the part of a GPU that it asked for. */
static unsigned int used_threads(const struct trace_request *request, unsigned int measured)
{
        return measured ? measured : request->gpus ? 1000 : request->part_permille;
}

static bool request_is_known(const struct trace_request *request)
{
        return request->gpus || request->part_permille || needed_mib(request) || needed_threads(request);
}

/* The part of its GPU that a unit is: MIG devices by eighths of the memory, as their profiles are. */
static unsigned int unit_permille(const struct unit *unit)
{
        if (!unit->mig || unit->gpu->memory == 0)
                return 1000;
        return (unsigned int)((unit->memory * 8 + unit->gpu->memory / 2) / unit->gpu->memory * 125);
}

static uint64_t share_limit_mib(const struct unit *unit, const struct share *share)
{
        return share->memory_mib ? share->memory_mib : unit->memory / MIB;
}

/* Threads of the share, in permille of a whole GPU. */
static unsigned int share_threads(const struct unit *unit, const struct share *share)
{
        unsigned int of = unit->mig && unit->gpu->multiprocessors
                                  ? unit->mig->attributes.multiprocessors * 1000 / unit->gpu->multiprocessors
                                  : 1000;

        return share->threads_permille * of / 1000;
}

static bool share_suffices(
        const struct resource *resource, const struct unit *unit, unsigned int k, const struct trace_request *request)
{
        struct share share = share_of(resource, unit, k);
        unsigned int part = request->gpus ? 1000 : request->part_permille;

        return (uint64_t)k * unit_permille(unit) >= (uint64_t)part * unit->replicas &&
               share_limit_mib(unit, &share) >= needed_mib(request) &&
               share_threads(unit, &share) >= needed_threads(request);
}

/* More replicas are a larger share. */
static bool is_sized(const struct resource *resource)
{
        return resource->strategy == SHARING_MPS && resource->provisioning != PROVISIONING_UNIFORM;
}

static unsigned int replicas_on(
        const struct resource *resource, const struct unit *unit, const struct trace_request *request)
{
        unsigned int most = share_most(resource, unit);

        if (!request_is_known(request))
                return MAX(request->replicas, 1U) <= most ? MAX(request->replicas, 1U) : 0;
        if (unit->replicas > 1 && !is_sized(resource))
                return 1;
        for (unsigned int k = 1; k <= most; k++)
                if (share_suffices(resource, unit, k, request))
                        return k;
        return 0;
}

unsigned int replay_replicas(const struct resource *resource, const struct trace_request *request)
{
        unsigned int replicas = 0;

        if (request->gpus > 1) {
                for (size_t i = 0; i < resource->n_units; i++)
                        if (resource->units[i].replicas > 1 || resource->units[i].mig)
                                return 0;
                return request->gpus <= resource->n_units ? request->gpus : 0;
        }
        for (size_t i = 0; i < resource->n_units; i++) {
                unsigned int here = replicas_on(resource, &resource->units[i], request);

                if (here == 0)
                        return 0;
                replicas = MAX(replicas, here);
        }
        return replicas;
}

/* ---- the nodes ---- */

struct pool { /* a resource of one node */
        const struct resource *resource;
        struct allocations *allocations;
        size_t advertised;
        size_t used;
        bool *in_use;       /* by device */
        uint64_t *mib;      /* by unit: peaks of those that are there */
        unsigned int *busy; /* by unit: their mean use, permille of a GPU */
};

struct node {
        struct pool *pools;
        unsigned int *pods;    /* by position of the GPU */
        double given;          /* GPUs */
        size_t first;          /* of the pods that run here */
        uint64_t *mib;         /* by position of the GPU: claimed */
        unsigned int *threads; /* the same, permille */
        uint64_t whole;        /* bits of the GPUs that are claimed as a whole */
};

struct pod {
        const struct trace_request *request;
        size_t pool; /* position of the resource; NONE: it fits nowhere */
        unsigned int replicas;
        size_t next; /* that waits for as many of the same, or that runs on the same node */
        size_t node;
        const char **ids; /* NULL: it does not run */
        const char *id;
        int64_t ends;
        uint64_t mib; /* of a claim; 0: it is for whole GPUs, |replicas| of them */
        unsigned int threads;
        uint64_t gpus; /* bits of those that the claim has */
};

struct queue { /* pods that need as many of the same resource */
        size_t pool;
        unsigned int replicas;
        uint64_t mib;
        unsigned int threads;
        size_t first;
        size_t last;
};

struct replay {
        const struct plan *plan;
        const struct replay_claims *claims;
        struct arena arena;
        struct node *nodes;
        unsigned int n_nodes;
        struct pod *pods;
        struct queue *queues;
        size_t n_queues;
        size_t n_waiting;
        size_t *heap; /* pods that run, the first to end on top */
        size_t n_heap;
        int64_t *waits;
        size_t gpus_in_use;
        double given;
        double given_seconds;
        double stranded_seconds;
        int64_t now;
        uint64_t random;
        struct replay_result result;
};

static double device_gpus(const struct unit *unit)
{
        return unit_permille(unit) / 1000.0 / unit->replicas;
}

static void make_node(struct replay *replay, struct node *node)
{
        struct arena *arena = &replay->arena;

        node->first = NONE;
        node->pods = ARENA_ARRAY(arena, unsigned int, replay->plan->inventory->n_gpus);
        node->mib = ARENA_ARRAY(arena, uint64_t, replay->plan->inventory->n_gpus);
        node->threads = ARENA_ARRAY(arena, unsigned int, replay->plan->inventory->n_gpus);
        node->pools = ARENA_ARRAY(arena, struct pool, replay->plan->n_resources);
        for (size_t i = 0; i < replay->plan->n_resources; i++) {
                const struct resource *resource = &replay->plan->resources[i];

                node->pools[i] = (struct pool){.resource = resource,
                        .allocations = allocations_new(resource, resource->max_per_request),
                        .advertised = allocations_capacity(resource, resource->max_per_request),
                        .in_use = ARENA_ARRAY(arena, bool, resource->n_devices),
                        .mib = ARENA_ARRAY(arena, uint64_t, resource->n_units),
                        .busy = ARENA_ARRAY(arena, unsigned int, resource->n_units)};
        }
}

/* splitmix64, so that a seed means the same everywhere. */
static uint64_t replay_random(struct replay *replay)
{
        uint64_t z = replay->random += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* ---- claims ---- */

static void plan_claim(struct replay *replay, struct pod *pod)
{
        const struct replay_claims *claims = replay->claims;
        const struct trace_request *request = pod->request;
        uint64_t part_mib = claims->memory_mib * request->part_permille / 1000;
        uint64_t mib = needed_mib(request) ? needed_mib(request) : part_mib ? part_mib : claims->preset_mib;
        unsigned int threads = needed_threads(request) ? needed_threads(request) : request->part_permille;

        pod->replicas = MAX(request->gpus, 1U);
        if (request->gpus == 0 && claims->memory_mib > 0) {
                pod->mib = MAX(mib, claims->least_mib);
                pod->threads = ((threads ? threads : claims->preset_permille) + 9) / 10 * 10; /* whole percent */
        }
        if (pod->mib <= claims->memory_mib && pod->replicas <= MIN(replay->plan->inventory->n_gpus, MAX_GPUS))
                pod->pool = CLAIM;
}

/* The GPUs that such a claim would get, as bits; 0: it has to wait. */
static uint64_t find_gpus(const struct replay *replay, const struct node *node, const struct queue *wish)
{
        size_t n_gpus = MIN(replay->plan->inventory->n_gpus, MAX_GPUS);
        unsigned int left = wish->replicas;
        uint64_t gpus = 0;

        for (size_t i = 0; i < n_gpus && left > 0; i++) {
                size_t gpu = wish->mib ? i : n_gpus - 1 - i;
                bool is_free = node->pods[gpu] == 0;

                if (wish->mib)
                        is_free = !(node->whole >> gpu & 1) &&
                                  node->mib[gpu] + wish->mib <= replay->claims->memory_mib &&
                                  node->threads[gpu] + wish->threads <= 1000;
                gpus |= (uint64_t)is_free << gpu;
                left -= is_free;
        }
        return left == 0 ? gpus : 0;
}

static void mark_claim(struct replay *replay, struct node *node, const struct pod *pod, bool in_use)
{
        double part = pod->mib ? MAX((double)pod->mib / (double)replay->claims->memory_mib, pod->threads / 1000.0) : 1;

        for (size_t gpu = 0; gpu < MAX_GPUS; gpu++) {
                if (!(pod->gpus >> gpu & 1))
                        continue;
                node->mib[gpu] += in_use ? pod->mib : -pod->mib;
                node->threads[gpu] += in_use ? pod->threads : -pod->threads;
                replay->gpus_in_use += in_use ? node->pods[gpu] == 0 : (size_t) - (node->pods[gpu] == 1);
                node->pods[gpu] += in_use ? 1U : -1U;
                replay->given += in_use ? part : -part;
                node->given += in_use ? part : -part;
        }
        if (!pod->mib)
                node->whole ^= pod->gpus;
        if (!in_use || !pod->mib)
                return;
        replay->result.n_memory_short += pod->request->peak_mib > pod->mib;
        replay->result.n_threads_short += used_threads(pod->request, pod->request->sm_peak_permille) > pod->threads;
}

/* ---- a pod on a node ---- */

static size_t choose_ids(struct pool *pool, unsigned int size, struct arena *scratch, const char **ret)
{
        const struct resource *resource = pool->resource;
        const bool *reserved = allocations_reserved_ids(pool->allocations);
        const char **available = ARENA_ARRAY(scratch, const char *, resource->n_devices);
        struct prefer_request request = {.available = available, .size = size};
        struct error err;
        size_t n_ids = 0;

        for (size_t i = 0; i < resource->n_devices; i++)
                if (!pool->in_use[i] && !reserved[i])
                        available[request.n_available++] = resource->devices[i].id;
        return prefer(resource, &request, scratch, ret, &n_ids, &err) < 0 ? 0 : n_ids;
}

static void mark_device(struct replay *replay, struct node *node, struct pod *pod, const struct device *device,
        const struct unit *unit, bool in_use)
{
        struct pool *pool = &node->pools[pod->pool];
        unsigned int *pods = &node->pods[unit->position];
        double gpus = in_use ? device_gpus(unit) : -device_gpus(unit);

        pool->in_use[device - pool->resource->devices] = in_use;
        pool->used += in_use ? 1 : (size_t)-1;
        replay->gpus_in_use += in_use ? *pods == 0 : (size_t) - (*pods == 1);
        *pods += in_use ? 1U : -1U;
        replay->given += gpus;
        node->given += gpus;
}

/* The peaks of those without a limit of their own must fit on the unit together. */
static void judge(struct replay *replay, struct pool *pool, const struct pod *pod, const struct unit *unit)
{
        const struct trace_request *request = pod->request;
        struct share share = share_of(pool->resource, unit, MIN(pod->replicas, unit->replicas));
        size_t at = (size_t)(unit - pool->resource->units);
        bool is_shared = share.memory_mib == 0 && unit->replicas > 1;
        bool is_memory_short = request->peak_mib > share_limit_mib(unit, &share) ||
                               (is_shared && request->peak_mib && pool->mib[at] > unit->memory / MIB);

        replay->result.n_memory_short += unit->memory > 0 && is_memory_short;
        replay->result.n_threads_short +=
                used_threads(request, request->sm_peak_permille) > share_threads(unit, &share) ||
                (is_shared && pool->busy[at] > 1000);
}

static void pool_use(struct pool *pool, const struct pod *pod, const struct unit *unit, bool adds)
{
        size_t at = (size_t)(unit - pool->resource->units);
        unsigned int threads = used_threads(pod->request, pod->request->sm_mean_permille);

        pool->mib[at] += adds ? pod->request->peak_mib : -pod->request->peak_mib;
        pool->busy[at] += adds ? threads : -threads;
}

/* The unit that a pod of one GPU has; that of the first of several. */
static const struct unit *unit_of_pod(const struct pool *pool, const struct pod *pod)
{
        const struct allocation *allocation = allocations_find(pool->allocations, pod->id);
        const char *bound = allocation ? allocation->unit : NULL;

        return bound ? resource_find_unit(pool->resource, bound) : resource_unit_of(pool->resource, pod->ids[0]);
}

static void mark_pod(struct replay *replay, struct node *node, struct pod *pod, bool in_use)
{
        struct pool *pool;
        const struct unit *bound;

        if (pod->pool == CLAIM) {
                mark_claim(replay, node, pod, in_use);
                return;
        }
        pool = &node->pools[pod->pool];
        bound = unit_of_pod(pool, pod);
        for (unsigned int i = 0; i < pod->replicas; i++) {
                const struct device *device = map_find(&pool->resource->by_id, pod->ids[i]);

                mark_device(replay, node, pod, device,
                        pod->request->gpus > 1 ? &pool->resource->units[device->unit] : bound, in_use);
        }
        pool_use(pool, pod, bound, in_use);
        if (in_use)
                judge(replay, pool, pod, bound);
}

static void heap_swap(struct replay *replay, size_t a, size_t b)
{
        size_t pod = replay->heap[a];

        replay->heap[a] = replay->heap[b];
        replay->heap[b] = pod;
}

static bool ends_before(const struct replay *replay, size_t a, size_t b)
{
        const struct pod *first = &replay->pods[replay->heap[a]];
        const struct pod *second = &replay->pods[replay->heap[b]];

        return first->ends != second->ends ? first->ends < second->ends : first < second;
}

static void heap_add(struct replay *replay, size_t pod)
{
        size_t at = replay->n_heap++;

        replay->heap[at] = pod;
        for (; at > 0 && ends_before(replay, at, (at - 1) / 2); at = (at - 1) / 2)
                heap_swap(replay, at, (at - 1) / 2);
}

static size_t heap_take(struct replay *replay)
{
        size_t top = replay->heap[0];
        size_t at = 0;

        replay->heap[0] = replay->heap[--replay->n_heap];
        for (;;) {
                size_t least = at;

                for (size_t below = 2 * at + 1; below <= 2 * at + 2; below++)
                        if (below < replay->n_heap && ends_before(replay, below, least))
                                least = below;
                if (least == at)
                        return top;
                heap_swap(replay, at, least);
                at = least;
        }
}

static struct queue queue_like(const struct pod *pod)
{
        return (struct queue){.pool = pod->pool,
                .replicas = pod->replicas,
                .mib = pod->mib,
                .threads = pod->threads,
                .first = NONE,
                .last = NONE};
}

/* kubelet asks which devices the pod gets, and allocates them. False: the node refuses it. */
static bool allocate_ids(struct replay *replay, size_t position, struct node *node)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct pod *pod = &replay->pods[position];
        struct pool *pool = &node->pools[pod->pool];
        const char **ids = ARENA_ARRAY(&replay->arena, const char *, pod->replicas);
        const struct allocation *allocation;
        struct error err;

        pod->id = arena_printf(&replay->arena, "g%zx", position);
        if (choose_ids(pool, pod->replicas, &scratch, ids) != pod->replicas ||
                allocations_make(pool->allocations, ids, pod->replicas,
                        (struct allocations_moment){.clock = replay->now}, pod->id, ALLOCATIONS_AFTER_KUBELET,
                        &allocation, &err) < 0) {
                replay->result.n_refused++;
                return false;
        }
        pod->ids = ids;
        return true;
}

/* The scheduler has sent the pod to the node. */
static void admit(struct replay *replay, size_t position, size_t to)
{
        struct pod *pod = &replay->pods[position];
        struct node *node = &replay->nodes[to];
        const struct queue wish = queue_like(pod);

        if (pod->pool == CLAIM)
                pod->gpus = find_gpus(replay, node, &wish);
        else if (!allocate_ids(replay, position, node))
                return;
        pod->node = to;
        pod->next = node->first;
        node->first = position;
        pod->ends = replay->now + pod->request->duration;
        mark_pod(replay, node, pod, true);
        heap_add(replay, position);
        replay->waits[replay->result.n_ran++] = replay->now - pod->request->start;
        replay->result.gpus_peak = MAX(replay->result.gpus_peak, replay->gpus_in_use);
}

static void forget(const char *id UNUSED, void *data UNUSED)
{
}

static void replay_end_pod(struct replay *replay, size_t position)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct pod *pod = &replay->pods[position];
        struct node *node = &replay->nodes[pod->node];
        size_t *link = &node->first;
        struct allocations_held *held;
        struct pool *pool;
        size_t n_held = 0;

        mark_pod(replay, node, pod, false);
        while (*link != position)
                link = &replay->pods[*link].next;
        *link = pod->next;
        if (pod->pool == CLAIM)
                return;
        pool = &node->pools[pod->pool];
        held = ARENA_ARRAY(&scratch, struct allocations_held, pool->used + 1);
        for (size_t i = node->first; i != NONE; i = replay->pods[i].next)
                if (replay->pods[i].pool == pod->pool)
                        held[n_held++] = (struct allocations_held){.devices = replay->pods[i].ids,
                                .n_devices = replay->pods[i].replicas,
                                .id = replay->pods[i].id};
        allocations_sync(pool->allocations, held, n_held, INT64_MAX, forget, NULL);
}

/* ---- the scheduler ---- */

static bool has_room(const struct replay *replay, size_t node, const struct queue *wish)
{
        const struct pool *here;

        if (wish->pool == CLAIM)
                return find_gpus(replay, &replay->nodes[node], wish) != 0;
        here = &replay->nodes[node].pools[wish->pool];
        return here->advertised >= here->used + wish->replicas;
}

static size_t replay_find_node(struct replay *replay, const struct pod *pod)
{
        size_t first = replay->n_nodes > 1 ? replay_random(replay) % replay->n_nodes : 0;
        const struct queue wish = queue_like(pod);
        size_t best = NONE;

        for (size_t i = 0; i < replay->n_nodes; i++) {
                size_t node = (first + i) % replay->n_nodes;

                if (has_room(replay, node, &wish) &&
                        (best == NONE || replay->nodes[node].given < replay->nodes[best].given - 1e-9))
                        best = node;
        }
        return best;
}

static struct queue *replay_queue(struct replay *replay, const struct pod *pod)
{
        struct queue *queue = replay->queues;

        for (; queue < replay->queues + replay->n_queues; queue++)
                if (queue->pool == pod->pool && queue->replicas == pod->replicas && queue->mib == pod->mib &&
                        queue->threads == pod->threads)
                        return queue;
        *queue = queue_like(pod);
        replay->n_queues++;
        return queue;
}

static void arrive(struct replay *replay, size_t position)
{
        struct pod *pod = &replay->pods[position];
        struct queue *queue;
        size_t node;

        if (pod->pool == NONE) {
                replay->result.n_unfit++;
                return;
        }
        queue = replay_queue(replay, pod);
        node = queue->first == NONE ? replay_find_node(replay, pod) : NONE;
        if (node != NONE) {
                admit(replay, position, node);
                return;
        }
        pod->next = NONE;
        *(queue->first == NONE ? &queue->first : &replay->pods[queue->last].next) = position;
        queue->last = position;
        replay->n_waiting++;
}

/* Only |node| has more room than before: the pod that waits longest and fits goes there. */
static void refill(struct replay *replay, size_t node)
{
        for (;;) {
                struct queue *best = NULL;
                size_t position;

                for (struct queue *queue = replay->queues; queue < replay->queues + replay->n_queues; queue++)
                        if (queue->first != NONE && has_room(replay, node, queue) &&
                                (!best || queue->first < best->first))
                                best = queue;
                if (!best)
                        return;
                position = best->first;
                best->first = replay->pods[position].next;
                replay->n_waiting--;
                admit(replay, position, node);
        }
}

/* ---- the run ---- */

static void go_to(struct replay *replay, int64_t now)
{
        double seconds = (double)(now - replay->now);

        replay->given_seconds += seconds * replay->given;
        if (replay->n_waiting > 0)
                replay->stranded_seconds += seconds * MAX((double)replay->result.gpus - replay->given, 0.0);
        replay->now = now;
}

static void plan_pods(struct replay *replay, const struct trace *trace)
{
        for (size_t i = 0; i < trace->n_requests; i++) {
                struct pod *pod = &replay->pods[i];
                double least = 0;

                *pod = (struct pod){.request = &trace->requests[i], .pool = NONE};
                if (replay->claims) {
                        plan_claim(replay, pod);
                        continue;
                }
                for (size_t r = 0; r < replay->plan->n_resources; r++) {
                        const struct resource *resource = &replay->plan->resources[r];
                        unsigned int replicas = replay_replicas(resource, pod->request);
                        double gpus = replicas * device_gpus(&resource->units[0]);

                        if (replicas == 0 || replicas > allocations_capacity(resource, resource->max_per_request) ||
                                (pod->pool != NONE && gpus >= least))
                                continue;
                        pod->pool = r;
                        pod->replicas = replicas;
                        least = gpus;
                        replay->result.largest = MAX(replay->result.largest, replicas);
                }
        }
}

static int compare_waits(const void *a, const void *b)
{
        const int64_t *first = a;
        const int64_t *second = b;

        return (*first > *second) - (*first < *second);
}

static void sum_up(struct replay *replay, int64_t seconds)
{
        struct replay_result *result = &replay->result;
        double all = (double)result->gpus * (double)MAX(seconds, 1);
        double sum = 0;
        size_t devices = 0;
        size_t reserved = 0;

        qsort(replay->waits, result->n_ran, sizeof(*replay->waits), compare_waits);
        for (size_t i = 0; i < result->n_ran; i++) {
                sum += (double)replay->waits[i];
                result->n_waited += replay->waits[i] > 0;
        }
        if (result->n_ran > 0) {
                result->wait_mean = sum / (double)result->n_ran;
                result->wait_p95 = replay->waits[(result->n_ran * 95 + 99) / 100 - 1];
                result->wait_max = replay->waits[result->n_ran - 1];
        }
        for (size_t i = 0; i < replay->plan->n_resources; i++) {
                devices += replay->plan->resources[i].n_devices;
                reserved += allocations_n_reserved(&replay->plan->resources[i]);
        }
        result->reserved_percent = devices ? 100.0 * (double)reserved / (double)devices : 0;
        result->given_percent = 100 * replay->given_seconds / all;
        result->stranded_percent = MAX(100 * replay->stranded_seconds / all, 0.0);
}

struct replay_result replay_run(const struct plan *plan, const struct replay_claims *claims, const struct trace *trace,
        unsigned int n_nodes, uint64_t seed)
{
        struct replay replay = {
                .plan = plan, .claims = claims, .n_nodes = n_nodes, .random = seed, .now = trace->requests[0].start};
        size_t next = 0;
        struct replay_result result;

        replay.result.n_requests = trace->n_requests;
        replay.result.gpus = n_nodes * plan->inventory->n_gpus;
        replay.pods = xcalloc(trace->n_requests, sizeof(*replay.pods));
        replay.heap = xcalloc(trace->n_requests, sizeof(*replay.heap));
        replay.waits = xcalloc(trace->n_requests, sizeof(*replay.waits));
        replay.queues = xcalloc(trace->n_requests, sizeof(*replay.queues));
        replay.nodes = ARENA_ARRAY(&replay.arena, struct node, n_nodes);
        for (size_t i = 0; i < n_nodes; i++)
                make_node(&replay, &replay.nodes[i]);
        plan_pods(&replay, trace);
        while (next < trace->n_requests || replay.n_heap > 0) {
                if (replay.n_heap > 0 && (next == trace->n_requests ||
                                                 replay.pods[replay.heap[0]].ends <= trace->requests[next].start)) {
                        size_t ended = heap_take(&replay);

                        go_to(&replay, replay.pods[ended].ends);
                        replay_end_pod(&replay, ended);
                        refill(&replay, replay.pods[ended].node);
                } else {
                        go_to(&replay, trace->requests[next].start);
                        arrive(&replay, next++);
                }
        }
        sum_up(&replay, replay.now - trace->requests[0].start);
        result = replay.result;
        for (size_t i = 0; i < n_nodes; i++)
                for (size_t r = 0; r < plan->n_resources; r++)
                        allocations_free(replay.nodes[i].pools[r].allocations);
        arena_done(&replay.arena);
        free(replay.pods);
        free(replay.heap);
        free(replay.waits);
        free(replay.queues);
        return result;
}

int replay_compare(const struct replay_result *a, const struct replay_result *b)
{
        size_t lost_a = a->n_unfit + a->n_refused + a->n_memory_short;
        size_t lost_b = b->n_unfit + b->n_refused + b->n_memory_short;

        if (lost_a != lost_b)
                return lost_a < lost_b ? -1 : 1;
        if (a->wait_mean < b->wait_mean || a->wait_mean > b->wait_mean)
                return a->wait_mean < b->wait_mean ? -1 : 1;
        if (a->n_threads_short != b->n_threads_short)
                return a->n_threads_short < b->n_threads_short ? -1 : 1;
        return (a->gpus_peak > b->gpus_peak) - (a->gpus_peak < b->gpus_peak);
}
