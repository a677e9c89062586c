// SPDX-License-Identifier: Apache-2.0
/*
 * A GPU goes while containers hold it, and comes back: what they were promised is on record all the time, whatever else
 * happens meanwhile. GPU-1 is the one that goes. The GPUs have four replicas each.
 */
#include "rig.h"

#include <unistd.h>

static unsigned int permille_of(const char *allocation)
{
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);

        for (size_t i = 0; i < count; i++)
                if (strcmp(all[i].allocation->id, allocation) == 0)
                        return all[i].threads_permille;
        fail_msg("%s is not there: %s", allocation, rig_allocations());
        return 0;
}

/* Ids are tokens: kubelet chose one of GPU-0, so that GPU-1, which is fuller, has an allocation with that id. */
static const struct fake_container *run_with_id_of_other(const char *ids)
{
        const struct fake_container *train;

        rig_run("first", "GPU-1::0");
        train = rig_run("train", ids);
        assert_string_equal(train->unit, "GPU-1");
        fake_kubelet_end_pod("first");
        rig_pass(2 * GRACE_MS);
        return train;
}

static void lose_agent_and_file(void)
{
        rig_kill();
        unlink(rig.file);
        rig_start();
        rig_pass(2 * GRACE_MS);
}

static void test_allocations_stay_when_all_that_is_left_drains(void **state UNUSED)
{
        const struct fake_container *train = run_with_id_of_other("GPU-1::1 GPU-0::3");

        rig_run("serve", "GPU-0::0");
        rig_pass(2 * GRACE_MS);
        rig_change_gpus(4, 1);
        rig_change_gpus(2, 1);
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-1[1 3], serve GPU-0[0]");
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
        rig_change(2);
        rig_pass(2 * GRACE_MS);
        assert_int_equal(permille_of(train->allocation), 500);
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
}

static void test_allocations_are_found_again_without_their_record(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-1::1");

        rig_run("serve", "GPU-0::0");
        rig_pass(2 * GRACE_MS);
        rig_change_gpus(4, 1);
        lose_agent_and_file();
        assert_string_equal(rig_allocations(), "serve GPU-0[0], train GPU-1[1]");
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
        fake_kubelet_end_pod("train");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "serve GPU-0[0]");
}

static void test_they_are_found_where_all_that_is_left_drains(void **state UNUSED)
{
        rig_run("train", "GPU-1::1");
        rig_run("serve", "GPU-0::0");
        rig_pass(2 * GRACE_MS);
        rig_change_gpus(2, 1);
        lose_agent_and_file();
        assert_string_equal(rig_allocations(), "serve GPU-0[0], train GPU-1[1]");
}

/* Of GPU-1, with ids of GPU-0 only. */
static const struct fake_container *run_with_ids_of_other(void)
{
        const struct fake_container *train;

        rig_run("first", "GPU-0::0 GPU-0::1 GPU-1::1");
        train = rig_run("train", "GPU-0::2 GPU-0::3");
        assert_string_equal(train->unit, "GPU-1");
        fake_kubelet_end_pod("first");
        rig_pass(2 * GRACE_MS);
        return train;
}

static void test_what_was_answered_names_the_gpu_that_is_away(void **state UNUSED)
{
        run_with_ids_of_other();
        rig_change_gpus(4, 1);
        lose_agent_and_file();
        assert_string_equal(rig_allocations(), "train GPU-1[2 3]");
        rig_change(4);
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-1[2 3]");
}

/* The other way round: its id is of the GPU that goes. */
static void test_what_was_answered_names_the_gpu_that_is_there(void **state UNUSED)
{
        rig_run("first", "GPU-0::0");
        assert_string_equal(rig_run("train", "GPU-1::3 GPU-0::1")->unit, "GPU-0");
        rig_pass(2 * GRACE_MS);
        rig_change_gpus(4, 1);
        lose_agent_and_file();
        assert_string_equal(rig_allocations(), "first GPU-0[0], train GPU-0[3 1]");
}

static void test_limits_of_before_come_back_with_the_gpu(void **state UNUSED)
{
        const struct fake_container *train = run_with_ids_of_other();

        rig_change(2);
        assert_int_equal(permille_of(train->allocation), 500);
        rig_change_gpus(2, 1);
        rig_change(2);
        assert_string_equal(rig_allocations(), "train GPU-1[2 3]");
        assert_int_equal(permille_of(train->allocation), 500);
}

/* Nothing of its resource is left, and so no allocation of that is on record. What was made stays all the same. */
static void test_what_was_made_stays_while_all_of_a_resource_is_away(void **state UNUSED)
{
        const struct fake_container *serve = rig_run("serve", "GPU-0::0");
        const struct fake_container *train = rig_run("train", "GPU-1::1");

        rig_pass(2 * GRACE_MS);
        rig_change_gpus(4, 1);
        rig_pass(2 * GRACE_MS);
        assert_non_null(fake_allocations_find(&supervisor.made, serve->allocation));
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
        rig_change(4);
        rig_pass(2 * GRACE_MS);
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
        rig_change_gpus(4, 1);
        fake_kubelet_end_pod("train");
        rig_pass(2 * GRACE_MS);
        rig_review();
        rig_pass(2 * GRACE_MS);
        assert_null(fake_allocations_find(&supervisor.made, train->allocation));
        assert_non_null(fake_allocations_find(&supervisor.made, serve->allocation));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(test_allocations_stay_when_all_that_is_left_drains, RIG_NAMESPACES),
                RIG_TEST_WITH(test_allocations_are_found_again_without_their_record, RIG_NAMESPACES),
                RIG_TEST(test_they_are_found_where_all_that_is_left_drains),
                RIG_TEST(test_what_was_answered_names_the_gpu_that_is_away),
                RIG_TEST(test_what_was_answered_names_the_gpu_that_is_there),
                RIG_TEST(test_limits_of_before_come_back_with_the_gpu),
                RIG_TEST_WITH(test_what_was_made_stays_while_all_of_a_resource_is_away, RIG_NAMESPACES_EACH),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
