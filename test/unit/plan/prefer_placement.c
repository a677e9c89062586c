// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

#define DISTRIBUTED PLACEMENT_DISTRIBUTED
#define PACKED PLACEMENT_PACKED
#define DISTINCT PLACEMENT_DISTINCT
#define SAME_GPU PLACEMENT_SAME_GPU
#define PREFER_SAME_GPU PLACEMENT_PREFER_SAME_GPU

struct row {
        const char *units;
        enum placement policy;
        const char *available;
        const char *required;
        size_t size;
        const char *expected;
};

static void assert_rows(const struct row *rows, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                _cleanup_(rig_done) struct rig rig;
                struct rig_query query = {.available = rows[i].available,
                        .required = rows[i].required,
                        .size = rows[i].size,
                        .policy = rows[i].policy};

                rig_init(&rig, rows[i].units);
                rig_assert(&rig, &query, rows[i].expected);
        }
}

static void test_replicas_are_packed_or_distributed(void **state UNUSED)
{
        static const struct row rows[] = {
                /* the cases of NVIDIA's tests (internal/rm/allocate_test.go) */
                {"A*4 B*4", DISTRIBUTED, NULL, NULL, 2, "A::0 B::0"},
                {"A*4 B*4", DISTRIBUTED, NULL, NULL, 4, "A::0 B::0 A::1 B::1"},
                {"A*4 B*4", PACKED, NULL, NULL, 2, "A::0 A::1"},
                {"A*4 B*4", PACKED, NULL, NULL, 4, "A::0 A::1 A::2 A::3"},
                {"A*4 B*4", PACKED, NULL, NULL, 5, "A::0 A::1 A::2 A::3 B::0"},
                {"A*2 B*2 C*2", DISTRIBUTED, NULL, NULL, 3, "A::0 B::0 C::0"},
                /* the emptiest and the fullest first */
                {"A*4 B*4", DISTRIBUTED, "A::3 B::0 B::1", NULL, 1, "B::0"},
                {"A*4 B*4", PACKED, "B::0 B::1 A::3", NULL, 1, "A::3"},
                {"A*4 B*4", PACKED, "B::0 B::1 A::3", NULL, 2, "A::3 B::0"},
                {"A*4 B*4 C*4", PACKED, "A::0 A::1 A::2 B::2 B::3 C::0 C::1 C::2", NULL, 3, "B::2 B::3 A::0"},
                /* among equally full ones, those that this request has taken less of */
                {"A*4 B*4", DISTRIBUTED, "A::0 A::1 A::2 B::0 B::1", NULL, 3, "A::0 B::0 A::1"},
                /* required ones come first, count as gone, and need not be available */
                {"A*4 B*4", DISTRIBUTED, NULL, "A::2", 2, "A::2 B::0"},
                {"A*4 B*4", PACKED, NULL, "B::2", 3, "B::2 B::0 B::1"},
                {"A*4 B*4", PACKED, "A::1 A::3 B::0", "B::2 B::2", 2, "B::2 B::0"},
                {"A*4 B*4", PACKED, NULL, "B::2 A::0", 2, "B::2 A::0"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

/* Fill is counted in replicas, not in parts of the unit. */
static void test_units_may_have_different_numbers_of_replicas(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A*10 B*2", PACKED, NULL, NULL, 3, "A::0 A::1 A::2"},
                {"B*2 A*10", PACKED, NULL, NULL, 3, "B::0 B::1 A::0"},
                {"A*10 B*2", PACKED, "A::5 A::6 A::7 A::8 A::9 B::1", NULL, 1, "A::5"}, /* 5 gone and 1 gone */
                {"A*10 B*2", DISTRIBUTED, "A::5 A::6 A::7 A::8 A::9 B::1", NULL, 2, "B::1 A::5"},
                {"A*10 B*2", DISTRIBUTED, NULL, NULL, 6, "A::0 B::0 A::1 B::1 A::2 A::3"},
                {"A*2 B*3 C*1", DISTINCT, NULL, NULL, 5, "A::0 B::0 C A::1 B::1"},
                {"A*2 B*5 C*3", SAME_GPU, NULL, NULL, 3, "C::0 C::1 C::2"},
                {"A*2 B*5 C*3", SAME_GPU, NULL, NULL, 4, "B::0 B::1 B::2 B::3"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

static void test_whole_gpus_stand_beside_replicas_as_units_of_one(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A B*3", DISTRIBUTED, NULL, NULL, 2, "A B::0"},
                {"A B*3", PACKED, "A B::1 B::2", NULL, 2, "B::1 B::2"},
                {"B*3 A C", DISTINCT, NULL, NULL, 4, "B::0 A C B::1"},
                {"B*3 A C", SAME_GPU, NULL, NULL, 1, "A"},
                {"B*3 A C", SAME_GPU, "A C B::0 B::1", "B::2", 2, "B::2 B::0"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

static void test_distinct_takes_another_unit_as_long_as_there_is_one(void **state UNUSED)
{
        static const struct row rows[] = {
                /* distributed would take B twice */
                {"A*4 B*4", DISTINCT, "A::3 B::0 B::1 B::2 B::3", NULL, 2, "B::0 A::3"},
                {"A*4 B*4", DISTRIBUTED, "A::3 B::0 B::1 B::2 B::3", NULL, 2, "B::0 B::1"},
                /* then even */
                {"A*4 B*4 C*4", DISTINCT, "A::2 A::3 B::0 B::1 B::2 B::3 C::3", NULL, 6,
                        "B::0 A::2 C::3 B::1 A::3 B::2"},
                /* required ones count */
                {"A*4 B*4", DISTINCT, "A::0 A::1 B::3", "A::2", 2, "A::2 B::3"},
                {"A*4 B*4", DISTINCT, NULL, "A::2 A::3", 4, "A::2 A::3 B::0 B::1"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

static void test_same_gpu_takes_the_unit_where_the_request_fits_tightest(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A*4 B*4", SAME_GPU, NULL, NULL, 3, "A::0 A::1 A::2"},
                {"A*4 B*4 C*4", SAME_GPU, "A::0 A::1 A::2 A::3 B::0 C::1 C::2 C::3", NULL, 2, "C::1 C::2"},
                {"A*4 B*4 C*4", SAME_GPU, "A::0 A::1 A::2 A::3 B::0 C::1 C::2 C::3", NULL, 4, "A::0 A::1 A::2 A::3"},
                /* packed would begin with B, where it does not fit */
                {"A*4 B*4", SAME_GPU, "A::0 A::1 A::2 B::3", NULL, 2, "A::0 A::1"},
                {"A*4 B*4", PACKED, "A::0 A::1 A::2 B::3", NULL, 2, "B::3 A::0"},
                /* the unit of the required ones, though another one fits tighter */
                {"A*4 B*4", SAME_GPU, "A::0 A::1 A::2 B::3", "A::3", 2, "A::3 A::0"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

static void test_same_gpu_takes_the_fewest_units_where_none_fits(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A*4 B*4", SAME_GPU, NULL, NULL, 5, "A::0 A::1 A::2 A::3 B::0"},
                /* the largest first, the last piece where it fits tightest */
                {"A*4 B*4 C*4 D*4", SAME_GPU, "A::3 B::2 B::3 C::0 C::1 C::2 C::3 D::1 D::2 D::3", NULL, 6,
                        "C::0 C::1 C::2 C::3 B::2 B::3"},
                {"A*4 B*4 C*4 D*4", SAME_GPU, "A::3 B::2 B::3 C::0 C::1 C::2 C::3 D::1 D::2 D::3", NULL, 5,
                        "C::0 C::1 C::2 C::3 A::3"},
                /* those that the required ones opened are emptied first */
                {"A*4 B*4 C*4", SAME_GPU, "A::3 B::0 B::1 B::2 B::3 C::2 C::3", "A::2", 4, "A::2 A::3 C::2 C::3"},
                {"A*4 B*4 C*4", SAME_GPU, "A::3 B::2 B::3 C::0 C::1 C::2 C::3", "A::2 B::1", 4, "A::2 B::1 B::2 B::3"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

/* What same-gpu promises is kept elsewhere; what it prefers is what prefer-same-gpu prefers. */
static void test_prefer_same_gpu_splits_only_what_fits_nowhere_and_then_over_few_units(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A*4 B*4", PREFER_SAME_GPU, NULL, NULL, 3, "A::0 A::1 A::2"},
                {"A*4 B*4", PREFER_SAME_GPU, "A::0 A::1 A::2 B::3", NULL, 2, "A::0 A::1"},
                {"A*4 B*4", PREFER_SAME_GPU, "A::0 B::1 B::2 B::3", NULL, 1, "A::0"},
                {"A*4 B*4 C*4", PREFER_SAME_GPU, "A::3 B::2 B::3 C::1 C::2 C::3", NULL, 4, "C::1 C::2 C::3 A::3"},
                {"A*4 B*4 C*4", PREFER_SAME_GPU, "A::3 B::2 B::3 C::1 C::2 C::3", NULL, 5, "C::1 C::2 C::3 B::2 B::3"},
                {"A*4 B*4 C*4", PREFER_SAME_GPU, "A::3 B::0 B::1 B::2 B::3 C::2 C::3", "A::2", 3, "A::2 A::3 C::2"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

/* In NVIDIA's plugin the policy does nothing to MIG devices: each is a group of its own. */
static void test_mig_devices_are_placed_by_their_parent(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A/a A/b A/c B/a B/b", DISTRIBUTED, NULL, NULL, 2, "A/a B/a"},
                {"A/a A/b A/c B/a B/b", DISTRIBUTED, "A/c B/a B/b", NULL, 2, "B/a B/b"}, /* 2 of A are gone */
                {"A/a A/b A/c B/a B/b C/a", DISTRIBUTED, NULL, NULL, 4, "A/a B/a C/a A/b"},
                {"A/a A/b A/c B/a B/b B/c", PACKED, NULL, NULL, 3, "A/a A/b A/c"},
                {"A/a A/b A/c B/a B/b B/c", PACKED, "A/a A/b A/c B/b B/c", NULL, 1, "B/b"},
                {"A/a A/b A/c B/a B/b B/c", PACKED, NULL, "B/b", 2, "B/b B/a"},
                {"A/a A/b A/c B/a B/b B/c", DISTINCT, NULL, "B/b", 2, "B/b A/a"},
                {"A/a A/b A/c B/a B/b", SAME_GPU, NULL, NULL, 2, "B/a B/b"},
                {"A/a A/b A/c B/a B/b", SAME_GPU, NULL, NULL, 4, "A/a A/b A/c B/a"},
                /* neighbours or not */
                {"A/a B/a A/b B/b A/c B/c", PACKED, NULL, NULL, 4, "A/a A/b A/c B/a"},
                {"A/a B/a A/b B/b A/c B/c", DISTRIBUTED, NULL, NULL, 4, "A/a B/a A/b B/b"},
                /* beside whole GPUs */
                {"A/a A/b B C/a C/b", PACKED, NULL, NULL, 3, "A/a A/b B"},
                {"A/a A/b B C/a C/b", SAME_GPU, NULL, NULL, 2, "A/a A/b"},
                {"A/a A/b B C/a C/b", SAME_GPU, NULL, NULL, 1, "B"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

static void test_mig_replicas_go_by_their_unit_and_then_by_their_parent(void **state UNUSED)
{
        static const struct row rows[] = {
                {"A/a*2 A/b*2 B/a*2 B/b*2", DISTRIBUTED, NULL, NULL, 2, "A/a::0 B/a::0"},
                {"A/a*2 A/b*2 B/a*2 B/b*2", DISTRIBUTED, NULL, NULL, 4, "A/a::0 B/a::0 A/b::0 B/b::0"},
                {"A/a*2 A/b*2 B/a*2 B/b*2", DISTINCT, NULL, NULL, 3, "A/a::0 B/a::0 A/b::0"},
                {"A/a*2 A/b*2 B/a*2 B/b*2", PACKED, NULL, NULL, 3, "A/a::0 A/a::1 A/b::0"},
                {"A/a*2 B/a*2 A/b*2 B/b*2", PACKED, NULL, NULL, 4, "A/a::0 A/a::1 A/b::0 A/b::1"},
                {"A/a*2 B/a*2 A/b*2 B/b*2", SAME_GPU, NULL, NULL, 4, "A/a::0 A/a::1 A/b::0 A/b::1"},
                /* all of B/b is free, but its neighbour is in use */
                {"B/a*2 B/b*2 A/a*2 A/b*2", DISTRIBUTED, "B/a::1 B/b::0 B/b::1 A/a::0 A/a::1 A/b::0 A/b::1", NULL, 1,
                        "A/a::0"},
                {"A/a*2 A/b*2 B/a*2 B/b*2", PACKED, "A/a::0 A/a::1 A/b::0 A/b::1 B/b::0 B/b::1", NULL, 1, "B/b::0"},
                {"Z*4 B/a*2 C/a*2 C/b*2", SAME_GPU, "Z::0 Z::1 Z::2 Z::3 B/a::0 B/a::1 C/a::0 C/a::1 C/b::1", NULL, 2,
                        "C/a::0 C/a::1"},
                /* the unit comes before its parent */
                {"A/a*3 A/b*3 B/a*3", PACKED, "A/a::0 A/a::1 A/b::0 A/b::1 A/b::2 B/a::0", NULL, 1, "B/a::0"},
                /* replicas and whole MIG devices of one GPU */
                {"A/a*2 A/b A/c B/a*2", PACKED, "A/a::0 A/a::1 A/c B/a::0 B/a::1", NULL, 2, "A/c A/a::0"},
        };

        assert_rows(rows, ARRAY_SIZE(rows));
}

/* ---- against slow references ---- */

struct trial {
        struct rig rig;
        enum placement policy;
        unsigned int pool_of[16]; /* of each unit, by the letters before "::" or, for whole MIG devices, before "/" */
        unsigned int n_pools;
        unsigned int gpu_of[16]; /* of each pool */
        bool *is_available;
        unsigned int left[16]; /* candidates of each pool */
        unsigned int gone[16];
        unsigned int taken[16];  /* as the policy counts it */
        unsigned int answer[16]; /* how many of each pool the answer has, required ones not counted */
        unsigned int required[16];
        size_t needed;
};

static void make_pools(struct trial *trial)
{
        const struct resource *resource = &trial->rig.resource;

        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                size_t first = 0;

                /* Whole MIG devices of one GPU share the pool of the first of them. */
                while (first < i &&
                        !(unit->mig && unit->replicas == 1 && resource->units[first].mig &&
                                resource->units[first].replicas == 1 && resource->units[first].gpu == unit->gpu))
                        first++;
                trial->pool_of[i] = first < i ? trial->pool_of[first] : trial->n_pools++;
                trial->gpu_of[trial->pool_of[i]] = (unsigned int)unit->position;
                trial->gone[trial->pool_of[i]] += unit->replicas;
        }
}

static void init_trial(struct trial *trial, unsigned int *seed)
{
        char text[256] = "";
        size_t n_units = 1 + (size_t)rand_r(seed) % 9;

        *trial = (struct trial){.policy = (enum placement)(rand_r(seed) % 5)};
        for (size_t i = 0; i < n_units; i++) {
                char word[16] = {(char)('A' + rand_r(seed) % 4), '/', (char)('a' + i)};

                if (rand_r(seed) % 3 == 0) /* a GPU of its own */
                        snprintf(word, sizeof(word), "%c", (char)('E' + i));
                if (rand_r(seed) % 4)
                        snprintf(word + strlen(word), 8, "*%d", 2 + rand_r(seed) % 6);
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", word);
        }
        /* The links would decide if only whole GPUs were there. */
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "Z*3");
        rig_init(&trial->rig, text);
        make_pools(trial);
}

static unsigned int gpu_gone(const struct trial *trial, unsigned int pool)
{
        unsigned int gone = 0;

        for (unsigned int i = 0; i < trial->n_pools; i++)
                gone += trial->gpu_of[i] == trial->gpu_of[pool] ? trial->gone[i] : 0;
        return gone;
}

static int compare(unsigned int a, unsigned int b)
{
        return a < b ? -1 : a > b;
}

/* Negative: |a| comes before |b|. */
static int compare_pools(const struct trial *trial, unsigned int a, unsigned int b)
{
        int gone = compare(trial->gone[a], trial->gone[b]);
        int taken = compare(trial->taken[a], trial->taken[b]);
        int gpu = compare(gpu_gone(trial, a), gpu_gone(trial, b));
        bool is_packed = trial->policy == PLACEMENT_PACKED;
        int parts[] = {is_packed ? -gone : gone, taken, is_packed ? -gpu : gpu};

        if (trial->policy == PLACEMENT_DISTINCT) {
                parts[0] = taken;
                parts[1] = gone;
        }
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                if (parts[i])
                        return parts[i];
        return compare(a, b);
}

/* Looks at every pool before each pick. */
static void assert_slow_choice(struct trial *trial)
{
        unsigned int expected[16] = {0};

        for (size_t i = 0; i < trial->needed; i++) {
                unsigned int best = trial->n_pools;

                for (unsigned int pool = 0; pool < trial->n_pools; pool++)
                        if (trial->left[pool] && (best == trial->n_pools || compare_pools(trial, pool, best) < 0))
                                best = pool;
                trial->left[best]--;
                trial->gone[best]++;
                trial->taken[best]++;
                expected[best]++;
        }
        assert_memory_equal(trial->answer, expected, sizeof(expected));
}

/* Tries every set of pools. */
static void assert_fewest_pools(const struct trial *trial)
{
        unsigned int opened = 0;
        unsigned int used = 0;
        size_t fewest = 17;
        unsigned int tightest = UINT32_MAX;

        for (unsigned int i = 0; i < trial->n_pools; i++) {
                opened |= trial->required[i] ? 1U << i : 0;
                used |= trial->answer[i] ? 1U << i : 0;
        }
        for (unsigned int set = 0; set < 1U << trial->n_pools; set++) {
                unsigned int room = 0;

                for (unsigned int i = 0; i < trial->n_pools; i++)
                        room += set & 1U << i ? trial->left[i] : 0;
                if (room < trial->needed)
                        continue;
                fewest = MIN(fewest, (size_t)__builtin_popcount(set | opened));
                if (!opened && __builtin_popcount(set) == 1)
                        tightest = MIN(tightest, room);
        }
        assert_int_equal(__builtin_popcount(used | opened), fewest);
        for (unsigned int i = 0; i < trial->n_pools && !opened && fewest == 1; i++)
                if (trial->answer[i])
                        assert_int_equal(trial->left[i], tightest);
}

static void ask(struct trial *trial, unsigned int *seed)
{
        const struct resource *resource = &trial->rig.resource;
        struct arena *arena = &trial->rig.arena;
        const char **available = ARENA_ARRAY(arena, const char *, resource->n_devices);
        const char **required = ARENA_ARRAY(arena, const char *, resource->n_devices);
        const char **ids = ARENA_ARRAY(arena, const char *, resource->n_devices);
        struct prefer_request request = {.available = available, .required = required};
        size_t n_ids;

        trial->is_available = ARENA_ARRAY(arena, bool, resource->n_devices);
        for (size_t i = 0; i < resource->n_devices; i++) {
                size_t other = (size_t)rand_r(seed) % (request.n_available + 1);
                unsigned int pool = trial->pool_of[resource->devices[i].unit];

                if (resource->devices[i].unit + 1 < resource->n_units && rand_r(seed) % 3 == 0)
                        continue;
                trial->is_available[i] = true;
                /* in any order, as kubelet sends them */
                available[request.n_available++] = available[other];
                available[other] = resource->devices[i].id;
                if (rand_r(seed) % 8 == 0) {
                        required[request.n_required++] = resource->devices[i].id;
                        trial->required[pool]++;
                        continue;
                }
                trial->left[pool]++;
                trial->gone[pool]--;
        }
        if (trial->policy == PLACEMENT_DISTINCT)
                memcpy(trial->taken, trial->required, sizeof(trial->taken));
        trial->needed = (size_t)rand_r(seed) % (request.n_available - request.n_required + 1);
        request.size = request.n_required + trial->needed;
        trial->rig.resource.placement = trial->policy;
        assert_ok(prefer(resource, &request, arena, ids, &n_ids, &trial->rig.err), &trial->rig.err);
        assert_int_equal(n_ids, request.size);
        for (size_t i = 0; i < n_ids; i++) {
                const struct device *device = map_find(&resource->by_id, ids[i]);

                assert_non_null(device);
                /* available, and not there twice */
                assert_true(trial->is_available[device - resource->devices]);
                trial->is_available[device - resource->devices] = false;
                if (i < request.n_required)
                        assert_string_equal(ids[i], required[i]);
                else
                        trial->answer[trial->pool_of[device->unit]]++;
        }
}

static void test_random_requests_get_what_looking_at_every_unit_gives(void **state UNUSED)
{
        unsigned int seed = 4711;

        for (int round = 0; round < 8000; round++) {
                struct trial trial;

                init_trial(&trial, &seed);
                ask(&trial, &seed);
                if (trial.policy == PLACEMENT_SAME_GPU || trial.policy == PLACEMENT_PREFER_SAME_GPU)
                        assert_fewest_pools(&trial);
                else
                        assert_slow_choice(&trial);
                rig_done(&trial.rig);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replicas_are_packed_or_distributed),
                cmocka_unit_test(test_units_may_have_different_numbers_of_replicas),
                cmocka_unit_test(test_whole_gpus_stand_beside_replicas_as_units_of_one),
                cmocka_unit_test(test_distinct_takes_another_unit_as_long_as_there_is_one),
                cmocka_unit_test(test_same_gpu_takes_the_unit_where_the_request_fits_tightest),
                cmocka_unit_test(test_same_gpu_takes_the_fewest_units_where_none_fits),
                cmocka_unit_test(test_prefer_same_gpu_splits_only_what_fits_nowhere_and_then_over_few_units),
                cmocka_unit_test(test_mig_devices_are_placed_by_their_parent),
                cmocka_unit_test(test_mig_replicas_go_by_their_unit_and_then_by_their_parent),
                cmocka_unit_test(test_random_requests_get_what_looking_at_every_unit_gives),
        };

        return cmocka_run_group_tests_name("prefer_placement", tests, NULL, NULL);
}
