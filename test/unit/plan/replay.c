// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"

#include "chance.h"
#include "plan/replay.h"

/* A node of 2 GPUs of 24 GiB. */
struct world {
        struct node node;
        struct trace trace;
        struct trace_request requests[400];
};

static void set_up(struct world *world, enum sharing_strategy strategy, unsigned int replicas)
{
        *world = (struct world){.node = node_new(2)};
        world->trace.requests = world->requests;
        if (strategy != SHARING_NONE)
                node_share(&world->node, strategy, replicas);
}

static void weigh(struct world *world, enum reserve reserve, unsigned int most)
{
        struct sharing_section *section = &world->node.section;

        section->provisioning = PROVISIONING_WEIGHTED;
        section->reserve = reserve;
        section->max_per_request = most;
        section->fail_requests_greater_than_one = false;
        world->node.config.placement = PLACEMENT_SAME_GPU;
        world->node.shared.has_placement = true;
        world->node.shared.placement = PLACEMENT_SAME_GPU;
}

static void ask(struct world *world, struct trace_request request)
{
        world->requests[world->trace.n_requests++] = request;
}

static struct replay_result play(struct world *world, unsigned int nodes, uint64_t seed)
{
        struct node *node = &world->node;

        if (!node->plan)
                assert_ok(
                        plan_build(&node->plan, &node->arena, &node->config, &node->inventory, NULL, NULL, &node->err),
                        &node->err);
        return replay_run(node->plan, NULL, &world->trace, nodes, seed);
}

static void test_who_finds_no_gpu_waits_for_the_first_that_ends(void **state UNUSED)
{
        struct world world;
        struct replay_result result;

        set_up(&world, SHARING_NONE, 0);
        ask(&world, (struct trace_request){.start = 0, .duration = 100, .gpus = 1});
        ask(&world, (struct trace_request){.start = 10, .duration = 40, .gpus = 1});
        ask(&world, (struct trace_request){.start = 20, .duration = 10, .gpus = 2}); /* at 100 */
        ask(&world, (struct trace_request){.start = 30, .duration = 20, .gpus = 1}); /* at 50 */
        ask(&world, (struct trace_request){.start = 40, .duration = 10, .gpus = 3}); /* never */
        result = play(&world, 1, 1);
        assert_int_equal(result.n_ran, 4);
        assert_int_equal(result.n_unfit, 1);
        assert_int_equal(result.n_waited, 2);
        assert_int_equal(result.wait_max, 80);
        assert_true(result.wait_mean == 25.0); /* (80 + 20) / 4 */
        assert_int_equal(result.gpus_peak, 2);
        /* 100 + 40 + 2 × 10 + 20 of 2 × 110 seconds; one GPU is free from 70 to 100 while the third waits */
        assert_true(result.given_percent > 81.81 && result.given_percent < 81.83);
        assert_true(result.stranded_percent > 13.63 && result.stranded_percent < 13.64);
        node_done(&world.node);
}

static void test_a_request_gets_the_fewest_replicas_that_are_enough(void **state UNUSED)
{
        static const struct {
                struct trace_request request;
                unsigned int replicas;
        } rows[] = {
                {{.memory_mib = 1}, 1},
                {{.threads_permille = 250}, 3},
                {{.threads_permille = 300}, 3},
                {{.threads_permille = 301}, 4},
                {{.memory_mib = 12288}, 6}, /* usable are 24576 − 704 − 64, so half of the GPU is more than 5 of 10 */
                {{.part_permille = 500}, 5},
                {{.part_permille = 501}, 6},
                {{.gpus = 1}, 10},
                {{.gpus = 2}, 0},
                {{.replicas = 7}, 7},
                {{.peak_mib = 2380}, 1},
                {{.memory_mib = 24000}, 0},
        };
        struct world world;

        set_up(&world, SHARING_MPS, 10);
        weigh(&world, RESERVE_NONE, 10);
        ask(&world, (struct trace_request){.replicas = 1});
        play(&world, 1, 1);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_int_equal(replay_replicas(&world.node.plan->resources[0], &rows[i].request), rows[i].replicas);
        node_done(&world.node);
}

static void test_memory_is_short_beyond_the_share_or_on_a_full_unit(void **state UNUSED)
{
        struct replay_result result;
        struct world world;

        set_up(&world, SHARING_TIME_SLICING, 2);
        for (int i = 0; i < 4; i++) /* two on each GPU: 2 × 13000 MiB are more than 24 GiB */
                ask(&world, (struct trace_request){.duration = 10, .peak_mib = 13000, .sm_mean_permille = 400});
        result = play(&world, 1, 1);
        assert_int_equal(result.n_memory_short, 2);
        assert_int_equal(result.n_threads_short, 0);
        node_done(&world.node);
        set_up(&world, SHARING_MPS, 4); /* uniform: 6144 MiB and 25 % */
        ask(&world, (struct trace_request){.duration = 10, .peak_mib = 6144, .sm_peak_permille = 250});
        ask(&world, (struct trace_request){.duration = 10, .peak_mib = 6145, .sm_peak_permille = 260});
        result = play(&world, 1, 1);
        assert_int_equal(result.n_memory_short, 1);
        assert_int_equal(result.n_threads_short, 1);
        node_done(&world.node);
}

/* 6 and 6 of 10 on two GPUs leave 8, and none has 7. */
static void test_without_a_reserve_a_pod_is_refused_and_with_it_it_waits(void **state UNUSED)
{
        for (int strict = 0; strict < 2; strict++) {
                struct replay_result result;
                struct world world;

                set_up(&world, SHARING_MPS, 10);
                weigh(&world, strict ? RESERVE_STRICT : RESERVE_NONE, 7);
                ask(&world, (struct trace_request){.start = 0, .duration = 100, .replicas = 6});
                ask(&world, (struct trace_request){.start = 1, .duration = 100, .replicas = 6});
                ask(&world, (struct trace_request){.start = 2, .duration = 100, .replicas = 7});
                result = play(&world, 1, 1);
                assert_int_equal(result.n_refused, strict ? 0 : 1);
                assert_int_equal(result.n_waited, strict ? 1 : 0);
                assert_int_equal(result.wait_max, strict ? 98 : 0);
                node_done(&world.node);
        }
}

static struct trace_request request_of(struct chance *chance, int64_t start, unsigned int most)
{
        return (struct trace_request){.start = start,
                .duration = (int64_t)chance_draw(chance, 300),
                .replicas = 1 + (unsigned int)chance_draw(chance, most)};
}

/* Nobody is refused with the reserve, whatever comes; everybody is somewhere; no more is in use than there is. */
static void test_nobody_is_lost_and_with_the_reserve_nobody_is_refused(void **state UNUSED)
{
        unsigned int refused = 0;

        for (uint64_t seed = 1; seed <= 60; seed++) {
                struct chance chance = chance_of_seed(seed);
                bool is_strict = seed % 2;
                struct replay_result result;
                struct replay_result again;
                unsigned int most = 2 + (unsigned int)chance_draw(&chance, 9);
                struct world world;
                int64_t now = 0;

                set_up(&world, SHARING_MPS, 10);
                weigh(&world, is_strict ? RESERVE_STRICT : RESERVE_NONE, most);
                for (size_t i = 0; i < ARRAY_SIZE(world.requests); i++)
                        ask(&world, request_of(&chance, now += (int64_t)chance_draw(&chance, 30), most));
                result = play(&world, 1 + (unsigned int)chance_draw(&chance, 3), seed);
                if (result.n_ran + result.n_refused + result.n_unfit != result.n_requests ||
                        (is_strict && result.n_refused > 0) || result.given_percent > 100 || result.n_unfit > 0)
                        fail_msg("seed %llu: %zu ran, %zu refused, %zu unfit of %zu", (unsigned long long)seed,
                                result.n_ran, result.n_refused, result.n_unfit, result.n_requests);
                refused += result.n_refused > 0;
                again = play(&world, (unsigned int)(result.gpus / 2), seed);
                assert_memory_equal(&again, &result, sizeof(result));
                node_done(&world.node);
        }
        assert_true(refused > 10);
}

/* Two GPUs of which 20000 MiB can be shared. */
static void test_claims_are_accounted_by_memory_and_threads(void **state UNUSED)
{
        const struct replay_claims claims = {
                .memory_mib = 20000, .least_mib = 256, .preset_mib = 5000, .preset_permille = 100};
        struct replay_result result;
        struct world world;
        struct node *node = &world.node;

        set_up(&world, SHARING_NONE, 0);
        assert_ok(plan_build(&node->plan, &node->arena, &node->config, &node->inventory, NULL, NULL, &node->err),
                &node->err);
        ask(&world, (struct trace_request){.start = 0, .duration = 100, .memory_mib = 12000, .threads_permille = 300});
        ask(&world, (struct trace_request){.start = 1, .duration = 100, .memory_mib = 8000, .threads_permille = 700});
        ask(&world, (struct trace_request){.start = 2, .duration = 98, .memory_mib = 300, .peak_mib = 301}); /* GPU 1 */
        ask(&world, (struct trace_request){.start = 3, .duration = 10, .gpus = 1});           /* there, at 100 */
        ask(&world, (struct trace_request){.start = 4, .duration = 10, .memory_mib = 20001}); /* never */
        ask(&world, (struct trace_request){.start = 5, .duration = 10, .gpus = 3});           /* never */
        result = replay_run(node->plan, &claims, &world.trace, 1, 1);
        assert_int_equal(result.n_ran, 4);
        assert_int_equal(result.n_unfit, 2);
        assert_int_equal(result.n_refused, 0);
        assert_int_equal(result.n_waited, 1);
        assert_int_equal(result.wait_max, 97);
        assert_int_equal(result.n_memory_short, 1);
        assert_int_equal(result.gpus_peak, 2);
        node_done(node);
}

static void test_the_best_loses_least_and_then_waits_least(void **state UNUSED)
{
        const struct replay_result good = {.wait_mean = 5, .gpus_peak = 4};

        assert_true(replay_compare(&good, &(struct replay_result){.n_refused = 1}) < 0);
        assert_true(replay_compare(&good, &(struct replay_result){.n_memory_short = 1}) < 0);
        assert_true(replay_compare(&good, &(struct replay_result){.n_unfit = 1}) < 0);
        assert_true(replay_compare(&good, &(struct replay_result){.wait_mean = 6}) < 0);
        assert_true(replay_compare(&good, &(struct replay_result){.wait_mean = 5, .n_threads_short = 1}) < 0);
        assert_true(replay_compare(&good, &(struct replay_result){.wait_mean = 5, .gpus_peak = 5}) < 0);
        assert_int_equal(replay_compare(&good, &good), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_finds_no_gpu_waits_for_the_first_that_ends),
                cmocka_unit_test(test_a_request_gets_the_fewest_replicas_that_are_enough),
                cmocka_unit_test(test_memory_is_short_beyond_the_share_or_on_a_full_unit),
                cmocka_unit_test(test_without_a_reserve_a_pod_is_refused_and_with_it_it_waits),
                cmocka_unit_test(test_nobody_is_lost_and_with_the_reserve_nobody_is_refused),
                cmocka_unit_test(test_claims_are_accounted_by_memory_and_threads),
                cmocka_unit_test(test_the_best_loses_least_and_then_waits_least),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
