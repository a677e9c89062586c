// SPDX-License-Identifier: Apache-2.0
/*
 * Until when GPUs that can have MIG are kept back. The clock is the test's.
 */
#include "unit.h"

#include "own_clock.h"

#include "agent/undecided.h"

struct fixture {
        uv_loop_t loop;
        struct undecided *undecided;
        unsigned int n_passed;
};

static void on_passed(void *data)
{
        struct fixture *fixture = data;

        fixture->n_passed++;
}

static int setup(void **state)
{
        struct fixture *fixture = test_calloc(1, sizeof(*fixture));

        uv_loop_init(&fixture->loop);
        fixture->undecided = undecided_new(&fixture->loop, on_passed, fixture);
        *state = fixture;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *fixture = *state;

        fixture->undecided = undecided_close(fixture->undecided);
        own_clock_settle(&fixture->loop);
        assert_int_equal(uv_loop_close(&fixture->loop), 0);
        test_free(fixture);
        return 0;
}

/* "A+" is GPU-A, which can have MIG; "B" is GPU-B, which cannot. */
static bool look(struct fixture *fixture, const char *const *gpus)
{
        struct inventory *inventory = inventory_new();
        bool ret;

        inventory->gpus = ARENA_ARRAY(&inventory->arena, struct gpu, 8);
        for (size_t i = 0; gpus[i]; i++)
                inventory->gpus[inventory->n_gpus++] =
                        (struct gpu){.uuid = arena_printf(&inventory->arena, "GPU-%c", gpus[i][0]),
                                .mig_capable = gpus[i][1] == '+'};
        ret = undecided_look(fixture->undecided, inventory);
        inventory_free(inventory);
        return ret;
}

#define LOOK(fixture, ...) look((fixture), (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void test_gpus_that_can_have_mig_are_undecided_until_they_are_settled(void **state)
{
        struct fixture *fixture = *state;

        assert_false(undecided_has_any(fixture->undecided));
        assert_true(LOOK(fixture, "A+", "B"));
        assert_true(undecided_has(fixture->undecided, "GPU-A"));
        assert_false(undecided_has(fixture->undecided, "GPU-B"));
        assert_false(LOOK(fixture, "A+", "B")); /* as before */
        assert_true(undecided_settle(fixture->undecided));
        assert_false(undecided_has_any(fixture->undecided));
        assert_false(undecided_settle(fixture->undecided));
        assert_false(LOOK(fixture, "A+", "B"));
        assert_false(undecided_has(fixture->undecided, "GPU-A"));
}

static void test_a_gpu_that_comes_or_comes_back_is_undecided_and_the_others_are_not(void **state)
{
        struct fixture *fixture = *state;

        (void)LOOK(fixture, "A+", "B+");
        (void)undecided_settle(fixture->undecided);
        assert_true(LOOK(fixture, "A+", "B+", "C+"));
        assert_true(undecided_has(fixture->undecided, "GPU-C"));
        assert_false(undecided_has(fixture->undecided, "GPU-A"));
        (void)undecided_settle(fixture->undecided);
        assert_false(LOOK(fixture, "A+"));
        assert_true(LOOK(fixture, "A+", "B+"));
        assert_true(undecided_has(fixture->undecided, "GPU-B"));
        assert_false(undecided_has(fixture->undecided, "GPU-A"));
}

static void test_all_are_settled_when_the_bound_has_passed(void **state)
{
        struct fixture *fixture = *state;

        (void)LOOK(fixture, "A+");
        own_clock_pass(&fixture->loop, UNDECIDED_MS / 2);
        (void)LOOK(fixture, "A+", "B+"); /* does not prolong it */
        own_clock_pass(&fixture->loop, UNDECIDED_MS / 2 - 1);
        assert_int_equal(fixture->n_passed, 0);
        assert_true(undecided_has(fixture->undecided, "GPU-A"));
        own_clock_pass(&fixture->loop, 1);
        assert_int_equal(fixture->n_passed, 1);
        assert_false(undecided_has_any(fixture->undecided));
}

static void test_what_is_settled_in_time_passes_no_bound_and_a_later_gpu_has_one_of_its_own(void **state)
{
        struct fixture *fixture = *state;

        (void)LOOK(fixture, "A+");
        own_clock_pass(&fixture->loop, UNDECIDED_MS - 1);
        (void)undecided_settle(fixture->undecided);
        (void)LOOK(fixture, "A+", "B+");
        own_clock_pass(&fixture->loop, UNDECIDED_MS - 1);
        assert_int_equal(fixture->n_passed, 0);
        own_clock_pass(&fixture->loop, 1);
        assert_int_equal(fixture->n_passed, 1);
}

static void test_a_node_whose_gpus_cannot_have_mig_waits_for_nothing(void **state)
{
        struct fixture *fixture = *state;

        assert_false(LOOK(fixture, "A", "B"));
        assert_false(undecided_has_any(fixture->undecided));
        own_clock_pass(&fixture->loop, 2 * UNDECIDED_MS);
        assert_int_equal(fixture->n_passed, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_gpus_that_can_have_mig_are_undecided_until_they_are_settled, setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_a_gpu_that_comes_or_comes_back_is_undecided_and_the_others_are_not, setup, teardown),
                cmocka_unit_test_setup_teardown(test_all_are_settled_when_the_bound_has_passed, setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_what_is_settled_in_time_passes_no_bound_and_a_later_gpu_has_one_of_its_own, setup,
                        teardown),
                cmocka_unit_test_setup_teardown(
                        test_a_node_whose_gpus_cannot_have_mig_waits_for_nothing, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
