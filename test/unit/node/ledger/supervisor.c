// SPDX-License-Identifier: Apache-2.0
/*
 * What the supervisor makes for containers is what they hold, whichever of the two was not heard.
 */
#include "rig.h"

/* What it was told is what is held, and what it has made is that and no more. */
static void assert_made(size_t count)
{
        const struct ledger_allocation *all;

        assert_int_equal(ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all), count);
        assert_true(supervisor.is_reported);
        assert_int_equal(supervisor.reported.count, count);
        assert_int_equal(supervisor.made.count, count);
        for (size_t i = 0; i < count; i++) {
                const struct fake_allocation *reported =
                        fake_allocations_find(&supervisor.reported, all[i].allocation->id);
                const struct fake_allocation *made = fake_allocations_find(&supervisor.made, all[i].allocation->id);

                assert_non_null(reported);
                assert_non_null(made);
                assert_string_equal(reported->unit, all[i].allocation->unit);
                assert_string_equal(reported->daemon, all[i].allocation->unit);
                assert_int_equal(reported->limit_mib, all[i].limit_mib);
                assert_int_equal(reported->threads_permille, all[i].threads_permille);
                assert_memory_equal(reported, made, sizeof(*reported));
        }
}

static void test_it_is_sent_what_containers_hold_and_with_which_limits(void **state UNUSED)
{
        rig_run("train", "GPU-0::0 GPU-0::1");
        rig_run("serve", "GPU-1::0");
        rig_pass(GRACE_MS);
        assert_made(2);
        assert_string_equal(supervisor.holders, "GPU-0 pod team/train, GPU-1 pod team/serve");
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_made(1);
        assert_string_equal(supervisor.holders, "GPU-1 pod team/serve");
}

/* Its init container and the container after it hold the same replicas, of two allocations. */
static void test_a_pod_is_named_once_of_a_unit(void **state UNUSED)
{
        rig_run("other", "GPU-0::2");
        rig_allocate_init("train", "GPU-0::0 GPU-0::1");
        rig_run("train", "GPU-0::0 GPU-0::1");
        rig_pass(GRACE_MS);
        assert_string_equal(supervisor.holders, "GPU-0 pod team/other, GPU-0 pod team/train");
}

/* What the container's own variables limit, nobody makes. */
static void test_it_is_not_sent_containers_that_need_nothing_from_it(void **state UNUSED)
{
        rig_run("train", "GPU-0::0 GPU-0::1");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-0[0 1]");
        assert_true(supervisor.is_reported);
        assert_int_equal(supervisor.reported.count, 0);
}

/*
 * kubelet's list, made before, comes late, too: what the container will have must not be taken away before it starts.
 */
static void test_an_allocation_counts_from_its_answer_however_late_that_was(void **state UNUSED)
{
        const struct fake_container *train;

        rig_run("first", "GPU-0::0");
        rig_pass(GRACE_MS);
        supervisor.allocations = FAKE_ALLOCATIONS_LATE;
        train = rig_allocate("train", "GPU-0::1");
        kubelet.to = FAKE_REFUSES;
        rig_pass(5000);
        kubelet.to = FAKE_IS_SILENT;
        kubelet.records_late = true;
        rig_pass(4900);
        assert_int_equal(kubelet.n_questions, 1);
        fake_supervisor_answer();
        assert_true(train->is_running);
        rig_pass(200);
        fake_kubelet_answer_as_asked();
        fake_supervisor_answer();
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
        assert_string_equal(rig_allocations(), "first GPU-0[0], ? GPU-0[1]");
}

/* kubelet waits for the answer: nobody else can have the replicas. */
static void test_an_allocation_is_not_over_while_its_answer_is_awaited(void **state UNUSED)
{
        const struct fake_container *train;

        rig_run("first", "GPU-0::0");
        supervisor.allocations = FAKE_ALLOCATIONS_LATE;
        train = rig_allocate("train", "GPU-0::1");
        rig_pass(3 * GRACE_MS);
        assert_false(train->is_answered);
        assert_string_equal(rig_allocations(), "first GPU-0[0], ? GPU-0[1]");
        fake_supervisor_answer();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0], train GPU-0[1]");
        assert_made(2);
}

static void test_what_was_made_without_an_answer_is_taken_back(void **state UNUSED)
{
        const struct fake_container *train;

        rig_run("first", "GPU-0::0");
        supervisor.allocations = FAKE_LOSES_IT;
        train = rig_allocate("train", "GPU-0::1");
        assert_true(train->is_answered);
        assert_int_equal(train->error.kind, ERROR_UNAVAILABLE);
        assert_int_equal(supervisor.made.count, 2);
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0]");
        assert_made(1);
}

static void test_also_when_the_agent_was_killed_right_after(void **state UNUSED)
{
        supervisor.allocations = FAKE_LOSES_IT;
        rig_allocate("train", "GPU-0::1");
        assert_int_equal(supervisor.made.count, 1);
        rig_kill();
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        rig_start();
        rig_pass(2 * GRACE_MS);
        assert_made(0);
}

static void test_what_it_did_not_release_is_sent_to_it_again(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        supervisor.loses_releases = true;
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_made(1);
}

static void test_what_it_has_lost_it_makes_again(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-1::0");
        rig_pass(GRACE_MS);
        fake_supervisor_restart();
        assert_made(2);
        rig_run("third", "GPU-0::1"); /* kubelet has not listed it yet */
        fake_supervisor_restart();
        assert_made(3);
}

static void test_a_container_that_ends_while_it_starts_leaves_nothing(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-1::0");
        rig_pass(GRACE_MS);
        fake_supervisor_vanish();
        supervisor.loses_releases = true;
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        fake_supervisor_restart();
        assert_made(1);
}

/* Whatever the daemons can at the moment: what a container has been promised is what it is to have. */
static void test_a_daemon_at_fault_changes_nothing_of_what_is_held(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        supervisor.unit_at_fault = "GPU-0";
        fake_supervisor_report();
        rig_pass(3 * GRACE_MS);
        assert_made(1);
        rig_set_health("GPU-0", false);
        rig_pass(3 * GRACE_MS);
        assert_made(1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(test_it_is_sent_what_containers_hold_and_with_which_limits, RIG_NAMESPACES),
                RIG_TEST_WITH(test_a_pod_is_named_once_of_a_unit, RIG_NAMESPACES),
                RIG_TEST(test_it_is_not_sent_containers_that_need_nothing_from_it),
                RIG_TEST_WITH(test_an_allocation_counts_from_its_answer_however_late_that_was, RIG_PARTITIONS),
                RIG_TEST_WITH(test_an_allocation_is_not_over_while_its_answer_is_awaited, RIG_PARTITIONS),
                RIG_TEST_WITH(test_what_was_made_without_an_answer_is_taken_back, RIG_PARTITIONS),
                RIG_TEST_WITH(test_also_when_the_agent_was_killed_right_after, RIG_PARTITIONS),
                RIG_TEST_WITH(test_what_it_did_not_release_is_sent_to_it_again, RIG_PARTITIONS),
                RIG_TEST_WITH(test_what_it_has_lost_it_makes_again, RIG_NAMESPACES),
                RIG_TEST_WITH(test_a_container_that_ends_while_it_starts_leaves_nothing, RIG_PARTITIONS),
                RIG_TEST_WITH(test_a_daemon_at_fault_changes_nothing_of_what_is_held, RIG_NAMESPACES),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
