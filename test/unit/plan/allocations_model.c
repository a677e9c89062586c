// SPDX-License-Identifier: Apache-2.0
/*
 * A model of a node: pods come and go, a scheduler counts by an old allocatable, kubelet chooses by an old list and by
 * our preference or not, the agent hears late who left, is started anew with its record or without, and units fail and
 * recover. Whatever happens, a container that was scheduled by what is safe gets all its replicas on one unit.
 *
 * Runs are told apart by a seed, which a failure names; WARPSHARE_SEED=<n> runs only that one, at ten times the length.
 */
#include "rig.h"

#include "chance.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/allocations.h"

#define MAX_UNITS 8
#define MAX_REPLICAS 48
#define MAX_DEVICES (MAX_UNITS * MAX_REPLICAS)
#define MAX_PODS 400
#define MAX_CONTAINERS 4
#define MAX_VERSIONS 4096

enum { N_WORLDS = 120, N_STEPS = 1200 };

struct container {
        bool is_init;
        unsigned int size;
        uint32_t devices[MAX_REPLICAS]; /* positions */
        unsigned int n_devices;
        bool is_granted;
        uint32_t unit;     /* where it really is */
        bool is_misjudged; /* the ledger lost it once, and thought that it is elsewhere */
};

enum pod_state { POD_NONE, POD_RUNNING, POD_ENDED /* and the scheduler has not heard */ };

struct pod {
        enum pod_state state;
        unsigned int counted; /* by the scheduler: the larger of its init containers and its others together */
        struct container containers[MAX_CONTAINERS];
        unsigned int n_containers;
};

/* A list that kubelet was sent. */
struct version {
        bool healthy[MAX_DEVICES];
        size_t allocatable;
};

/* An answer of kubelet's that is on its way. */
struct answer {
        bool is_there;
        int64_t as_of;
        struct allocations_held held[MAX_PODS * MAX_CONTAINERS];
        size_t n_held;
        struct arena arena;
};

struct world {
        uint64_t seed;
        struct chance *chance;
        unsigned int step;
        struct rig rig;
        const struct resource *resource;
        unsigned int max_per_request;
        bool has_failures;

        struct allocations *allocations;
        struct error err;
        unsigned int n_granted;
        int64_t now;
        bool unhealthy[MAX_UNITS];
        char *record; /* as it was last written */
        struct answer answer;

        struct version *versions;
        size_t n_versions;
        size_t kubelet; /* the version that it acts on */
        size_t node;    /* that the scheduler counts by */
        bool in_use[MAX_DEVICES];
        uint32_t unit_of[MAX_DEVICES];  /* where the container really is that has the id, the newest of the pod */
        bool is_misjudged[MAX_DEVICES]; /* the ledger lost it once, and thought that it is elsewhere */
        struct pod pods[MAX_PODS];

        unsigned int n_admitted;
        unsigned int n_retried;
        unsigned int n_refused;
        unsigned int n_mixed;
};

#define check(world, condition)                                                                                        \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u, max_per_request %u: not true: %s",               \
                                (world)->seed, (world)->step, (world)->max_per_request, #condition);                   \
        } while (0)

static uint64_t draw(struct world *world, uint64_t below)
{
        return chance_draw(world->chance, below);
}

/* One in |n|. */
static bool happens(struct world *world, uint64_t n)
{
        return chance_happens(world->chance, n);
}

/* ---- what is safe, by the definition: the least that any one size of request leaves ---- */

static unsigned int largest_request(const struct world *world)
{
        unsigned int largest = 0;

        for (size_t i = 0; i < world->resource->n_units; i++)
                largest = MAX(largest, world->resource->units[i].replicas);
        return MIN(largest, world->max_per_request);
}

static size_t safe_count(const struct world *world)
{
        size_t least = SIZE_MAX;

        for (size_t s = 1; s <= largest_request(world); s++) {
                size_t count = s - 1;

                for (size_t i = 0; i < world->resource->n_units; i++)
                        if (!world->unhealthy[i] && world->resource->units[i].replicas >= s)
                                count += world->resource->units[i].replicas - (s - 1);
                least = MIN(least, count);
        }
        return least;
}

static bool is_all_healthy(const struct world *world)
{
        for (size_t i = 0; i < world->resource->n_units; i++)
                if (world->unhealthy[i])
                        return false;
        return true;
}

/* ---- the agent ---- */

/* Sends kubelet a list where something has changed. */
static void publish(struct world *world)
{
        const bool *reserved = allocations_reserved_ids(world->allocations);
        struct version *next = &world->versions[world->n_versions % MAX_VERSIONS];
        const struct version *last = &world->versions[(world->n_versions + MAX_VERSIONS - 1) % MAX_VERSIONS];

        *next = (struct version){0};
        for (size_t i = 0; i < world->resource->n_devices; i++) {
                next->healthy[i] = !reserved[i] && !world->unhealthy[world->resource->devices[i].unit];
                next->allocatable += next->healthy[i];
        }
        if (world->n_versions > 0 && memcmp(last->healthy, next->healthy, sizeof(last->healthy)) == 0)
                return;
        world->n_versions++;
        /* What it should have heard long ago. */
        world->kubelet = MAX(world->kubelet + MAX_VERSIONS / 2, world->n_versions) - MAX_VERSIONS / 2;
        world->node = MAX(world->node + MAX_VERSIONS / 2, world->n_versions) - MAX_VERSIONS / 2;
}

static void on_released(const char *id UNUSED, void *data UNUSED)
{
}

/* What kubelet would answer now: its own record, init containers included. */
static void take_answer(struct world *world, struct answer *answer)
{
        arena_done(&answer->arena);
        answer->n_held = 0;
        for (size_t i = 0; i < MAX_PODS; i++) {
                const struct pod *pod = &world->pods[i];

                for (unsigned int c = 0; pod->state == POD_RUNNING && c < pod->n_containers; c++) {
                        const struct container *container = &pod->containers[c];
                        const char **devices = ARENA_ARRAY(&answer->arena, const char *, container->n_devices);

                        for (unsigned int d = 0; d < container->n_devices; d++)
                                devices[d] = world->resource->devices[container->devices[d]].id;
                        if (container->is_granted)
                                answer->held[answer->n_held++] = (struct allocations_held){
                                        .devices = devices, .n_devices = container->n_devices};
                }
        }
}

static void sync_now(struct world *world, int64_t as_of)
{
        struct answer *answer = xcalloc(1, sizeof(*answer));

        take_answer(world, answer);
        allocations_sync(world->allocations, answer->held, answer->n_held, as_of, on_released, NULL);
        world->answer.is_there = false; /* answers come in the order of the questions */
        arena_done(&answer->arena);
        free(answer);
}

/* Asks kubelet, or hears its answer to what was asked before. */
static void sync_some_time(struct world *world)
{
        if (!world->answer.is_there) {
                take_answer(world, &world->answer);
                world->answer.as_of = world->now;
        } else {
                allocations_sync(world->allocations, world->answer.held, world->answer.n_held, world->answer.as_of,
                        on_released, NULL);
        }
        world->answer.is_there = !world->answer.is_there;
}

/* After a start: what the ledger have elsewhere than it is. */
static void compare_units(struct world *world)
{
        for (size_t i = 0; i < world->resource->n_devices; i++) {
                const struct allocation *allocation =
                        allocations_of_device(world->allocations, world->resource->devices[i].id);

                if (!world->in_use[i])
                        continue;
                check(world, allocation);
                world->is_misjudged[i] |= strcmp(allocation->unit, world->resource->units[world->unit_of[i]].uuid) != 0;
        }
}

static void write_record(struct world *world)
{
        free(world->record);
        world->record = allocations_write_all(&(const struct allocations *){world->allocations}, 1);
}

/* Its record is up to date, old, or lost. */
static void restart_agent(struct world *world)
{
        if (happens(world, 2))
                write_record(world);
        world->allocations = allocations_free(world->allocations);
        world->allocations = allocations_new(world->resource, world->max_per_request);
        if (!happens(world, 4))
                assert_ok(allocations_read(
                                  world->allocations, world->record, strlen(world->record), world->now, &world->err),
                        &world->err);
        world->answer.is_there = false;
        for (size_t i = 0; i < world->resource->n_units; i++)
                allocations_set_unit_health(world->allocations, world->resource->units[i].uuid, !world->unhealthy[i]);
        sync_now(world, world->now + 1);
        compare_units(world);
}

static void change_health(struct world *world)
{
        size_t unit = draw(world, world->resource->n_units);

        world->unhealthy[unit] = !world->unhealthy[unit];
        allocations_set_unit_health(world->allocations, world->resource->units[unit].uuid, !world->unhealthy[unit]);
}

/* ---- kubelet ---- */

static const struct version *kubelet_list(const struct world *world)
{
        return &world->versions[world->kubelet % MAX_VERSIONS];
}

/* What it has of the pod's init containers and may use again. */
static unsigned int find_reusable(
        const struct world *world, const struct pod *pod, unsigned int before, bool *is_reusable)
{
        unsigned int count = 0;

        for (unsigned int c = 0; c < before; c++)
                for (unsigned int d = 0; d < pod->containers[c].n_devices; d++)
                        is_reusable[pod->containers[c].devices[d]] = pod->containers[c].is_init;
        for (unsigned int c = 0; c < before; c++)
                for (unsigned int d = 0; !pod->containers[c].is_init && d < pod->containers[c].n_devices; d++)
                        is_reusable[pod->containers[c].devices[d]] = false;
        for (size_t i = 0; i < world->resource->n_devices; i++)
                count += is_reusable[i];
        return count;
}

static void pick_any(struct world *world, struct container *container, const bool *is_candidate)
{
        size_t at = draw(world, world->resource->n_devices);

        while (container->n_devices < container->size) {
                if (is_candidate[at])
                        container->devices[container->n_devices++] = (uint32_t)at;
                at = (at + 1) % world->resource->n_devices;
        }
}

static void pick_preferred(struct world *world, struct container *container, const bool *is_candidate)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const char *available[2 * MAX_DEVICES];
        const char *required[MAX_DEVICES];
        const char *answer[MAX_DEVICES];
        struct prefer_request request = {.available = available, .required = required, .size = container->size};
        size_t n_answer = 0;

        for (unsigned int i = 0; i < container->n_devices; i++) {
                required[request.n_required++] = world->resource->devices[container->devices[i]].id;
                available[request.n_available++] = world->resource->devices[container->devices[i]].id;
        }
        for (size_t i = 0; i < world->resource->n_devices; i++)
                if (is_candidate[i])
                        available[request.n_available++] = world->resource->devices[i].id;
        assert_ok(prefer(world->resource, &request, &scratch, answer, &n_answer, &world->err), &world->err);
        assert_int_equal(n_answer, container->size);
        container->n_devices = 0;
        for (size_t i = 0; i < n_answer; i++) {
                const struct device *device = map_find(&world->resource->by_id, answer[i]);

                container->devices[container->n_devices++] = (uint32_t)(device - world->resource->devices);
        }
}

/* False: kubelet has not enough that is healthy. */
static bool pick(struct world *world, struct pod *pod, unsigned int which, bool by_preference)
{
        struct container *container = &pod->containers[which];
        bool is_reusable[MAX_DEVICES] = {false};
        bool is_candidate[MAX_DEVICES] = {false};
        unsigned int count = find_reusable(world, pod, which, is_reusable);

        for (size_t i = 0; i < world->resource->n_devices; i++) {
                is_candidate[i] = kubelet_list(world)->healthy[i] && !world->in_use[i] && !is_reusable[i];
                count += is_candidate[i];
        }
        if (count < container->size)
                return false;
        for (uint32_t i = 0; i < world->resource->n_devices && container->n_devices < container->size; i++)
                if (is_reusable[i])
                        container->devices[container->n_devices++] = i;
        if (by_preference)
                pick_preferred(world, container, is_candidate);
        else
                pick_any(world, container, is_candidate);
        return true;
}

static void hear_lists(struct world *world)
{
        world->kubelet += draw(world, world->n_versions - world->kubelet);
        world->node += draw(world, world->kubelet - world->node + 1);
}

/* ---- admission ---- */

static int ask(struct world *world, const struct container *container, enum allocations_try which,
        const struct allocation **ret)
{
        const char *ids[MAX_REPLICAS];
        char id[16];

        for (unsigned int i = 0; i < container->n_devices; i++)
                ids[i] = world->resource->devices[container->devices[i]].id;
        snprintf(id, sizeof(id), "g%x", ++world->n_granted);
        return allocations_make(world->allocations, ids, container->n_devices,
                (struct allocations_moment){world->now, world->now}, id, which, ret, &world->err);
}

static size_t count_scheduled(const struct world *world)
{
        size_t count = 0;

        for (size_t i = 0; i < MAX_PODS; i++)
                count += world->pods[i].state == POD_NONE ? 0 : world->pods[i].counted;
        return count;
}

/* The ledger and kubelet's agree, and everything is on the unit of its ids. */
static bool is_settled(const struct world *world)
{
        if (world->kubelet + 1 < world->n_versions)
                return false;
        for (size_t i = 0; i < allocations_count(world->allocations); i++) {
                const struct allocation *allocation = allocations_get(world->allocations, i);

                for (size_t j = 0; j < allocation->n_devices; j++) {
                        const struct device *device = map_find(&world->resource->by_id, allocation->devices[j]);

                        if (strcmp(world->resource->units[device->unit].uuid, allocation->unit) != 0)
                                return false;
                        if (!world->in_use[device - world->resource->devices])
                                return false;
                }
        }
        return true;
}

static bool is_of_one_unit(const struct world *world, const struct container *container)
{
        for (unsigned int i = 1; i < container->n_devices; i++)
                if (world->resource->devices[container->devices[i]].unit !=
                        world->resource->devices[container->devices[0]].unit)
                        return false;
        return true;
}

static bool is_granted(struct world *world, struct container *container, bool is_promised)
{
        uint32_t unit = 0;
        const struct allocation *allocation = NULL;
        bool is_over = ask(world, container, ALLOCATIONS_BEFORE_KUBELET, &allocation) == 0;

        if (!is_over) {
                check(world, world->err.kind == ERROR_EXHAUSTED);
                world->n_retried++;
                sync_now(world, INT64_MAX);
                is_over = ask(world, container, ALLOCATIONS_AFTER_KUBELET, &allocation) == 0;
        }
        if (!is_over) {
                if (is_promised)
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u, max_per_request %u: %s", world->seed, world->step,
                                world->max_per_request, world->err.text);
                return false;
        }
        check(world, allocation->unit && allocation->n_devices == container->n_devices);
        for (uint32_t i = 0; i < world->resource->n_units; i++)
                if (strcmp(world->resource->units[i].uuid, allocation->unit) == 0)
                        unit = i;
        check(world, !world->unhealthy[unit]);
        for (unsigned int i = 0; i < container->n_devices; i++) {
                world->in_use[container->devices[i]] = true;
                world->unit_of[container->devices[i]] = unit;
                world->is_misjudged[container->devices[i]] = false;
        }
        return true;
}

/* False where the container is refused; its ids are free then. */
static bool admit_container(struct world *world, struct pod *pod, unsigned int which, bool is_promised)
{
        struct container *container = &pod->containers[which];
        bool by_preference = !happens(world, 4);
        bool is_settled_now = is_settled(world) && which == 0;

        if (!pick(world, pod, which, by_preference)) {
                check(world, !is_promised || world->has_failures);
                return false;
        }
        /* kubelet's choice by our preference and newest list needs no correction. */
        if (by_preference && is_settled_now && is_promised)
                check(world, is_of_one_unit(world, container));
        world->n_mixed += !is_of_one_unit(world, container);
        if (happens(world, 4))
                hear_lists(world);
        if (!is_granted(world, container, is_promised)) {
                container->n_devices = 0;
                return false;
        }
        container->is_granted = true;
        publish(world);
        return true;
}

static void end_pod(struct world *world, struct pod *pod)
{
        for (unsigned int c = 0; c < pod->n_containers; c++)
                for (unsigned int d = 0; d < pod->containers[c].n_devices; d++)
                        world->in_use[pod->containers[c].devices[d]] = false;
        pod->state = POD_ENDED;
}

static void make_pod(struct world *world, struct pod *pod)
{
        unsigned int most_init = 0;
        unsigned int sum = 0;

        *pod = (struct pod){.n_containers = 1};
        while (pod->n_containers < MAX_CONTAINERS && happens(world, 4))
                pod->n_containers++;
        for (unsigned int c = 0; c < pod->n_containers; c++) {
                struct container *container = &pod->containers[c];

                container->is_init =
                        c + 1 < pod->n_containers && happens(world, 2) && (c == 0 || pod->containers[c - 1].is_init);
                container->size = 1 + (unsigned int)draw(world, largest_request(world));
                if (container->is_init)
                        most_init = MAX(most_init, container->size);
                else
                        sum += container->size;
        }
        pod->counted = MAX(most_init, sum);
}

static void arrive(struct world *world)
{
        struct pod *pod = NULL;
        size_t scheduled = count_scheduled(world);
        bool is_promised;

        for (size_t i = 0; i < MAX_PODS && !pod; i++)
                if (world->pods[i].state == POD_NONE)
                        pod = &world->pods[i];
        if (!pod)
                return;
        make_pod(world, pod);
        if (scheduled + pod->counted > world->versions[world->node % MAX_VERSIONS].allocatable)
                return;
        is_promised = scheduled + pod->counted <= safe_count(world);
        check(world, is_promised || world->has_failures);
        pod->state = POD_RUNNING;
        for (unsigned int c = 0; c < pod->n_containers; c++) {
                if (admit_container(world, pod, c, is_promised))
                        continue;
                world->n_refused++;
                end_pod(world, pod);
                return;
        }
        world->n_admitted++;
}

static void depart(struct world *world, enum pod_state state)
{
        size_t at = draw(world, MAX_PODS);

        for (size_t i = 0; i < MAX_PODS; i++, at = (at + 1) % MAX_PODS) {
                if (world->pods[at].state != state)
                        continue;
                if (state == POD_RUNNING)
                        end_pod(world, &world->pods[at]);
                else
                        world->pods[at].state = POD_NONE;
                return;
        }
}

/* ---- what must be true at any time ---- */

static void check_units(struct world *world)
{
        unsigned int used[MAX_UNITS] = {0};

        for (size_t i = 0; i < world->resource->n_devices; i++)
                used[world->unit_of[i]] += world->in_use[i] && !world->is_misjudged[i];
        for (size_t i = 0; i < world->resource->n_units; i++)
                check(world, used[i] <= world->resource->units[i].replicas);
}

static void check_lists(struct world *world)
{
        const bool *reserved = allocations_reserved_ids(world->allocations);
        size_t allocatable = world->versions[(world->n_versions - 1) % MAX_VERSIONS].allocatable;

        for (size_t i = 0; i < world->resource->n_devices; i++) {
                check(world, !(reserved[i] && world->in_use[i]));
                check(world, !(reserved[i] && world->unhealthy[world->resource->devices[i].unit]));
        }
        check(world, allocatable >= safe_count(world));
        if (!world->has_failures)
                check(world, allocatable == safe_count(world));
        if (is_all_healthy(world))
                check(world, safe_count(world) == allocations_capacity(world->resource, world->max_per_request));
}

/* ---- a run ---- */

static void step(struct world *world)
{
        unsigned int what = (unsigned int)draw(world, 100);

        world->now += (int64_t)draw(world, 3);
        if (what < 45)
                arrive(world);
        else if (what < 65)
                depart(world, POD_RUNNING);
        else if (what < 82)
                depart(world, POD_ENDED);
        else if (what < 88)
                sync_some_time(world);
        else if (what < 95)
                hear_lists(world);
        else if (what < 97)
                write_record(world);
        else if (what < 98)
                restart_agent(world);
        else if (what < 99) /* kubelet starts anew, and is told all */
                world->kubelet = world->n_versions - 1;
        else if (world->has_failures)
                change_health(world);
        publish(world);
        check_units(world);
        check_lists(world);
}

static void make_shape(struct world *world)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        uint64_t n_units = 1 + draw(world, MAX_UNITS);
        uint64_t most = happens(world, 2) ? MAX_REPLICAS : 6;
        uint64_t replicas = 1 + draw(world, most);
        bool are_unequal = happens(world, 4);

        for (uint64_t i = 0; i < n_units; i++)
                strbuf_printf(&text, "%s%c*%" PRIu64, i ? " " : "", (char)('A' + i),
                        are_unequal ? 1 + draw(world, most) : replicas);
        rig_init(&world->rig, text.data);
        world->rig.resource.placement = PLACEMENT_SAME_GPU;
        world->resource = &world->rig.resource;
        world->max_per_request = 1 + (unsigned int)draw(world, replicas);
        world->has_failures = happens(world, 3);
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps, struct world *total)
{
        struct world *world = xcalloc(1, sizeof(*world));

        world->seed = seed;
        world->chance = chance;
        make_shape(world);
        world->versions = xcalloc(MAX_VERSIONS, sizeof(*world->versions));
        world->allocations = allocations_new(world->resource, world->max_per_request);
        world->now = 1000;
        write_record(world);
        publish(world);
        for (; world->step < n_steps && chance_step(chance); world->step++)
                step(world);
        total->n_admitted += world->n_admitted;
        total->n_retried += world->n_retried;
        total->n_refused += world->n_refused;
        total->n_mixed += world->n_mixed;
        arena_done(&world->answer.arena);
        free(world->record);
        free(world->versions);
        allocations_free(world->allocations);
        rig_done(&world->rig);
        free(world);
}

#ifdef FUZZING

static void run_bytes(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        static struct world total;

        run(chance, seed, n_steps, &total);
}

FUZZ_MODEL(run_bytes)

#else

static void run_seed(uint64_t seed, unsigned int n_steps, struct world *total)
{
        struct chance chance = chance_of_seed(seed);

        run(&chance, seed, n_steps, total);
}

static void test_admitted_requests_get_their_replicas_on_one_unit(void **state UNUSED)
{
        const char *seed = getenv("WARPSHARE_SEED");
        struct world *total = xcalloc(1, sizeof(*total));

        if (seed) {
                run_seed(strtoull(seed, NULL, 10), 10 * N_STEPS, total);
        } else {
                for (uint64_t i = 1; i <= N_WORLDS; i++)
                        run_seed(i, N_STEPS, total);
                /* The hard cases were there. */
                assert_true(total->n_admitted > 10000);
                assert_true(total->n_retried > 100);
                assert_true(total->n_mixed > 500);
        }
        print_message("# admitted %u, retried %u, mixed %u, refused after failures %u\n", total->n_admitted,
                total->n_retried, total->n_mixed, total->n_refused);
        free(total);
}

/* ---- the bound is the largest that is safe, kubelet putting requests where it likes ---- */

#define SMALL_UNITS 4
#define SMALL_SIZE 5

struct small {
        size_t n_units;
        unsigned int replicas[SMALL_UNITS];
        unsigned int largest;
};

/* Requests of one replica come and go until |used| is left; then one of |size| is admitted, and no unit can hold it. */
static bool is_stranded(const struct small *small, const unsigned int *used, unsigned int size, unsigned int advertised)
{
        unsigned int sum = size;

        for (size_t i = 0; i < small->n_units; i++) {
                sum += used[i];
                if (small->replicas[i] - used[i] >= size)
                        return false;
        }
        return sum <= advertised;
}

/* Counts |used| up like an odometer whose wheels are the units; false after the last. */
static bool next_use(const struct small *small, unsigned int *used)
{
        for (size_t i = 0; i < small->n_units; i++) {
                if (++used[i] <= small->replicas[i])
                        return true;
                used[i] = 0;
        }
        return false;
}

static bool can_strand(const struct small *small, unsigned int advertised)
{
        unsigned int used[SMALL_UNITS] = {0};
        unsigned int highest = 0;

        for (size_t i = 0; i < small->n_units; i++)
                highest = MAX(highest, small->replicas[i]);
        do
                for (unsigned int s = 1; s <= MIN(small->largest, highest); s++)
                        if (is_stranded(small, used, s, advertised))
                                return true;
        while (next_use(small, used));
        return false;
}

static void check_small(const struct small *small)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(rig_done) struct rig rig;
        unsigned int bound;
        unsigned int total = 0;

        for (size_t i = 0; i < small->n_units; i++) {
                strbuf_printf(&text, "%s%c*%u", i ? " " : "", (char)('A' + i), small->replicas[i]);
                total += small->replicas[i];
        }
        rig_init(&rig, text.data);
        bound = (unsigned int)allocations_capacity(&rig.resource, small->largest);
        if (can_strand(small, bound))
                fail_msg("%s, max_per_request %u: %u is not safe", text.data, small->largest, bound);
        if (bound < total && !can_strand(small, bound + 1))
                fail_msg("%s, max_per_request %u: %u is less than is safe", text.data, small->largest, bound);
}

static void test_one_more_than_the_bound_strands_a_request_and_the_bound_does_not(void **state UNUSED)
{
        struct small small = {0};

        for (small.n_units = 1; small.n_units <= SMALL_UNITS; small.n_units++) {
                unsigned int shapes = 1;

                for (size_t i = 0; i < small.n_units; i++)
                        shapes *= SMALL_SIZE;
                for (unsigned int shape = 0; shape < shapes; shape++) {
                        for (unsigned int i = 0, rest = shape; i < small.n_units; i++, rest /= SMALL_SIZE)
                                small.replicas[i] = 1 + rest % SMALL_SIZE;
                        for (small.largest = 1; small.largest <= SMALL_SIZE + 1; small.largest++)
                                check_small(&small);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_admitted_requests_get_their_replicas_on_one_unit),
                cmocka_unit_test(test_one_more_than_the_bound_strands_a_request_and_the_bound_does_not),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
