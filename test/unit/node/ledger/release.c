// SPDX-License-Identifier: Apache-2.0
/*
 * What ended is given back, and nothing else.
 */
#include "rig.h"

static void test_an_allocation_ends_with_its_pod(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "serve GPU-0[1]");
}

static void test_a_released_allocation_leaves_the_file_and_the_plugins_are_notified(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");
        _free_ char *before = NULL;
        _free_ char *after = NULL;
        size_t n_changes;

        rig_pass(GRACE_MS);
        before = rig_read_file();
        assert_non_null(strstr(before, train->allocation));
        n_changes = rig.n_changes;
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_true(rig.n_changes > n_changes);
        after = rig_read_file();
        assert_null(strstr(after, train->allocation));
}

/* kubelet gives its devices away, before it says so. Or it was an init container: kubelet keeps those on record. */
static void test_a_device_counts_for_the_newest_allocation_that_has_it(void **state UNUSED)
{
        const struct ledger_allocation *all;

        rig_run("train", "GPU-0::0 GPU-0::1");
        fake_kubelet_end_pod("train");
        rig_run("serve", "GPU-0::1 GPU-0::2");
        assert_int_equal(ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all), 2);
        assert_int_equal(all[0].n_left, 1);
        assert_int_equal(all[1].n_left, 2);
}

/* kubelet has read the answer, and its list does not have the container yet. */
static void test_a_new_allocation_stays_though_kubelet_does_not_list_it_yet(void **state UNUSED)
{
        rig_run("first", "GPU-0::0");
        kubelet.records_late = true;
        rig_run("train", "GPU-0::1");
        rig_pass(GRACE_MS - 1000);
        assert_string_equal(rig_allocations(), "first GPU-0[0], ? GPU-0[1]");
        fake_kubelet_record();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0], train GPU-0[1]");
}

/* As when kubelet gave up, or the pod was deleted meanwhile. */
static void test_an_allocation_that_kubelet_never_lists_is_released(void **state UNUSED)
{
        kubelet.records_late = true;
        rig_run("train", "GPU-0::0");
        fake_kubelet_end_pod("train");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

static void test_what_was_made_goes_with_the_allocation(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-0::0");
        const struct fake_container *serve = rig_run("serve", "GPU-0::1");

        rig_pass(GRACE_MS);
        assert_int_equal(supervisor.made.count, 2);
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_null(fake_allocations_find(&supervisor.made, train->allocation));
        assert_non_null(fake_allocations_find(&supervisor.made, serve->allocation));
}

/* ---- init containers: kubelet's list never has them ---- */

static void test_an_init_container_keeps_its_allocation_while_it_runs(void **state UNUSED)
{
        rig_allocate_init("train", "GPU-0::0 GPU-0::1");
        rig_pass(10 * GRACE_MS);
        assert_string_equal(rig_allocations(), "uid-train GPU-0[0 1]");
        fake_kubelet_end_pod("train");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

static void test_a_container_takes_the_ids_of_its_init_container_over_on_the_same_gpu(void **state UNUSED)
{
        const struct fake_container *init;
        const struct fake_container *main;

        rig_run("first", "GPU-0::0 GPU-0::1");
        init = rig_allocate_init("train", "GPU-0::2 GPU-1::0 GPU-1::1");
        main = rig_run("train", "GPU-0::2 GPU-1::0");
        assert_string_equal(init->unit, "GPU-1");
        assert_string_equal(main->unit, "GPU-1");
        rig_pass(10 * GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0 1], train GPU-1[2 0 1], train GPU-1[2 0]");
        fake_kubelet_end_pod("train");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0 1]");
}

/* ---- kubelet's record keeps who has ended until it is written again ---- */

static void test_an_ended_pod_of_the_record_that_no_list_had_goes_when_the_record_is_written(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        fake_kubelet_end_pod("train"); /* before any list had it */
        kubelet.takes_lists = false;
        rig_pass(10 * GRACE_MS);
        assert_string_equal(rig_allocations(), "uid-train GPU-0[0]");
        assert_true(kubelet.n_repeats > 2);

        kubelet.takes_lists = true;
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

static void test_once_the_record_is_written_kubelet_is_asked_within_a_second(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        fake_kubelet_end_pod("train");
        assert_int_equal(kubelet.n_repeats, 0);
        while (kubelet.n_repeats == 0)
                rig_pass(100);
        assert_string_equal(rig_allocations(), "uid-train GPU-0[0]");
        rig.clock += GRACE_MS; /* as if it were an old one */
        rig_pass(1000);
        assert_string_equal(rig_allocations(), "");
}

/* Each makes kubelet write a file. */
static void test_kubelet_is_made_to_write_its_record_at_longer_and_longer_intervals(void **state UNUSED)
{
        size_t before;

        rig_allocate_init("train", "GPU-0::0"); /* which is as it should be, and stays a doubt */
        rig_pass(60000);
        before = kubelet.n_repeats;
        rig_pass(120000);
        assert_in_range(kubelet.n_repeats - before, 1, 12);
}

static void test_an_ended_pod_that_a_list_had_is_gone_whatever_the_record_says(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.takes_lists = false;
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

/* ---- what it costs ---- */

static void test_kubelet_is_asked_as_long_as_anything_is_held_and_no_longer(void **state UNUSED)
{
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(1000000);
        assert_int_equal(kubelet.n_questions, 0);

        kubelet.to = FAKE_ANSWERS;
        rig_run("train", "GPU-0::0");
        rig_pass(1000000);
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(GRACE_MS);
        assert_int_equal(kubelet.n_questions, 1);
        kubelet.to = FAKE_ANSWERS;
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(1000000);
        assert_int_equal(kubelet.n_questions, 0);
}

/* Set back by an hour, set forward by a day: nothing is given back sooner or later for it. */
static void test_the_time_of_day_decides_nothing(void **state UNUSED)
{
        static const int64_t steps[] = {-3600000, 86400000};

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                kubelet.records_late = true;
                rig_run("train", "GPU-0::0");
                rig.date += steps[i];
                rig_pass(GRACE_MS - 1000);
                assert_string_equal(rig_allocations(), "? GPU-0[0]");
                fake_kubelet_record();
                rig_pass(GRACE_MS);
                assert_string_equal(rig_allocations(), "train GPU-0[0]");
                fake_kubelet_end_pod("train");
                rig_pass(GRACE_MS);
                assert_string_equal(rig_allocations(), "");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_an_allocation_ends_with_its_pod),
                RIG_TEST(test_a_released_allocation_leaves_the_file_and_the_plugins_are_notified),
                RIG_TEST(test_a_device_counts_for_the_newest_allocation_that_has_it),
                RIG_TEST(test_a_new_allocation_stays_though_kubelet_does_not_list_it_yet),
                RIG_TEST(test_an_allocation_that_kubelet_never_lists_is_released),
                RIG_TEST_WITH(test_what_was_made_goes_with_the_allocation, RIG_NAMESPACES),
                RIG_TEST(test_an_init_container_keeps_its_allocation_while_it_runs),
                RIG_TEST(test_a_container_takes_the_ids_of_its_init_container_over_on_the_same_gpu),
                RIG_TEST(test_an_ended_pod_of_the_record_that_no_list_had_goes_when_the_record_is_written),
                RIG_TEST(test_once_the_record_is_written_kubelet_is_asked_within_a_second),
                RIG_TEST(test_kubelet_is_made_to_write_its_record_at_longer_and_longer_intervals),
                RIG_TEST(test_an_ended_pod_that_a_list_had_is_gone_whatever_the_record_says),
                RIG_TEST(test_kubelet_is_asked_as_long_as_anything_is_held_and_no_longer),
                RIG_TEST(test_the_time_of_day_decides_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
