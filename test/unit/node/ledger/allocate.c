// SPDX-License-Identifier: Apache-2.0
/*
 * From kubelet's request to an answer.
 */
#include "rig.h"

static void test_a_container_gets_its_replicas_on_one_gpu(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");

        assert_string_equal(train->unit, "GPU-0");
        assert_int_equal(train->tier, MPS_TIER_VERIFIED);
        assert_true(allocations_is_id(train->allocation));
        assert_string_equal(rig_allocations(), "? GPU-0[0 1]");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-0[0 1]");
}

static void test_ids_of_two_gpus_go_where_there_is_room_for_all(void **state UNUSED)
{
        rig_run("first", "GPU-0::0 GPU-0::1 GPU-0::2");
        assert_string_equal(rig_run("second", "GPU-0::3 GPU-1::0")->unit, "GPU-1");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0 1 2], second GPU-1[3 0]");
        assert_string_equal(rig_run("third", "GPU-1::1")->unit, "GPU-1");
        assert_string_equal(rig_run("fourth", "GPU-1::2")->unit, "GPU-1");
        assert_string_equal(rig_run("fifth", "GPU-1::3")->unit, "GPU-0");
}

static void test_a_request_that_can_never_be_met_is_refused_without_asking_kubelet(void **state UNUSED)
{
        const struct fake_container *greedy;

        kubelet.to = FAKE_IS_SILENT;
        greedy = rig_allocate("greedy", "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3 GPU-1::0");
        assert_true(greedy->is_answered);
        assert_int_equal(greedy->error.kind, ERROR_INVALID);
        assert_int_equal(kubelet.n_questions, 0);
        assert_string_equal(rig_allocations(), "");
}

/* kubelet may have chosen them before it heard of the newest plan. */
static void test_ids_that_the_plan_does_not_have_are_answered_without_an_allocation(void **state UNUSED)
{
        const struct fake_container *late = rig_run("late", "GPU-9::0");

        assert_string_equal(late->allocation, "");
        assert_string_equal(late->unit, "");
        assert_string_equal(rig_allocations(), "");
}

static void test_a_unit_whose_daemon_is_not_ready_gets_no_container(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        supervisor.unit_at_fault = "GPU-0";
        fake_supervisor_report();
        assert_string_equal(rig_unavailable(), "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3");
        assert_string_equal(rig_run("second", "GPU-0::1")->unit, "GPU-1");

        supervisor.unit_at_fault = NULL;
        fake_supervisor_report();
        assert_string_equal(rig_unavailable(), "");
        assert_string_equal(rig_run("third", "GPU-0::2")->unit, "GPU-0");

        fake_supervisor_vanish();
        assert_string_equal(
                rig_unavailable(), "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3 GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3");
        assert_int_equal(rig_allocate("fourth", "GPU-0::3")->error.kind, ERROR_EXHAUSTED);
}

/* Its daemon may be ready all the same, and say so at any moment. */
static void test_an_unhealthy_gpu_gets_no_container_until_it_is_healthy_again(void **state UNUSED)
{
        size_t changes = rig.n_changes;

        rig_set_health("GPU-0", false);
        assert_true(rig.n_changes > changes);
        assert_string_equal(rig_run("first", "GPU-0::0")->unit, "GPU-1");
        fake_supervisor_report();
        assert_string_equal(rig_run("second", "GPU-0::1")->unit, "GPU-1");

        rig_set_health("GPU-0", true);
        assert_string_equal(rig_run("third", "GPU-0::2")->unit, "GPU-0");
}

/* Of two units of four, with two at most for one container, seven: (2 - 1) + 2 * (4 - (2 - 1)). Of one unit, all. */
static void test_what_is_reserved_counts_healthy_units_only(void **state UNUSED)
{
        assert_string_equal(rig_unavailable(), "GPU-0::3");
        rig_set_health("GPU-0", false);
        assert_string_equal(rig_unavailable(), "");
        fake_supervisor_report();
        assert_string_equal(rig_unavailable(), "");
        rig_set_health("GPU-0", true);
        assert_string_equal(rig_unavailable(), "GPU-0::3");
}

/* ---- where there is no room by what is known ---- */

/* One replica is free on each GPU, so that a request for both finds no room. */
static void fill_gpus(void)
{
        rig_run("first", "GPU-0::0 GPU-0::1 GPU-0::2");
        rig_run("second", "GPU-1::0 GPU-1::1 GPU-1::2");
        rig_pass(GRACE_MS);
}

static void test_where_there_is_no_room_kubelet_is_asked_for_ended_containers(void **state UNUSED)
{
        const struct fake_container *third;

        fill_gpus();
        fake_kubelet_end_pod("second");
        kubelet.to = FAKE_IS_SILENT;
        third = rig_allocate("third", "GPU-0::3 GPU-1::3");
        assert_false(third->is_answered);
        kubelet.to = FAKE_ANSWERS;
        rig_settle();
        assert_true(third->is_running);
        assert_string_equal(third->unit, "GPU-1");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "first GPU-0[0 1 2], third GPU-1[3 3]");
}

#define NO_ROOM                                                                                                        \
        "no unit of resource 'nvidia.com/gpu' has 2 free replicas: the most is 1; 0 of 2 units are not healthy (with " \
        "reserve: strict no pod is admitted that finds no unit)"

static void test_where_no_container_has_ended_the_request_is_refused(void **state UNUSED)
{
        const struct fake_container *third;

        fill_gpus();
        third = rig_allocate("third", "GPU-0::3 GPU-1::3");
        assert_true(third->is_answered);
        assert_int_equal(third->error.kind, ERROR_EXHAUSTED);
        assert_string_equal(third->error.text, NO_ROOM);

        kubelet.to = FAKE_REFUSES;
        third = rig_allocate("fourth", "GPU-0::3 GPU-1::3");
        assert_int_equal(third->error.kind, ERROR_EXHAUSTED);
        assert_string_equal(
                third->error.text, "kubelet does not report which devices were released (kubelet is busy): " NO_ROOM);
        assert_string_equal(rig_allocations(), "first GPU-0[0 1 2], second GPU-1[0 1 2]");
}

/*
 * Whom kubelet's record has alone may be an init container that runs. kubelet writes the record when it is sent a list
 * of devices.
 */
static void test_a_request_waits_a_moment_for_kubelets_record(void **state UNUSED)
{
        const struct fake_container *third;

        fill_gpus();
        rig_stop();
        fake_kubelet_end_pod("second"); /* while no agent looks: nobody has seen it in a list and then not */
        kubelet.takes_lists = false;
        rig_start();
        rig_pass(0);
        third = rig_allocate("third", "GPU-0::3 GPU-1::3");
        assert_false(third->is_answered);
        kubelet.takes_lists = true;
        rig_pass(200);
        assert_true(third->is_running);
        assert_string_equal(third->unit, "GPU-1");
}

static void test_and_is_refused_where_the_record_does_not_change(void **state UNUSED)
{
        const struct fake_container *third;

        fill_gpus();
        rig_stop();
        fake_kubelet_end_pod("second");
        kubelet.takes_lists = false;
        rig_start();
        rig_pass(0);
        third = rig_allocate("third", "GPU-0::3 GPU-1::3");
        rig_pass(30 + 60);
        assert_false(third->is_answered);
        rig_pass(120);
        assert_int_equal(third->error.kind, ERROR_EXHAUSTED);
}

/* ---- what is made for a container ---- */

static void test_a_partition_is_made_before_the_answer(void **state UNUSED)
{
        struct fake_container *train;
        const struct fake_allocation *made;

        supervisor.allocations = FAKE_ALLOCATIONS_LATE;
        train = rig_allocate("train", "GPU-0::0 GPU-0::1");
        assert_false(train->is_answered);
        fake_supervisor_answer();
        assert_true(train->is_running);
        assert_int_equal(train->tier, MPS_TIER_PARTITION);
        assert_string_equal(train->partition, train->allocation);
        assert_int_equal(train->sms, 40);

        made = fake_allocations_find(&supervisor.made, train->allocation);
        assert_non_null(made);
        assert_string_equal(made->daemon, "GPU-0");
        assert_string_equal(made->unit, "GPU-0");
        assert_int_equal(made->sms, 40); /* of 80, half */
        assert_int_equal(made->threads_permille, 500);
}

/* A daemon with partitions takes no client that has none, so there is nothing to fall back to. */
static void test_a_container_is_refused_that_gets_no_partition(void **state UNUSED)
{
        static const struct {
                enum error_kind refusal;
                enum error_kind answer;
        } rows[] = {
                {ERROR_INVALID,
                        ERROR_EXHAUSTED}, /* the daemon has no room; the request was right, and may come again */
                {ERROR_UNAVAILABLE, ERROR_UNAVAILABLE},
                {ERROR_TIMEOUT, ERROR_TIMEOUT},
        };

        supervisor.allocations = FAKE_ALLOCATIONS_NOT;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct fake_container *train;

                supervisor.refusal = rows[i].refusal;
                train = rig_allocate("train", "GPU-0::0");
                assert_true(train->is_answered);
                assert_false(train->is_running);
                assert_int_equal(train->error.kind, rows[i].answer);
                assert_string_equal(train->error.text, "sm_partition add: out of SMs");
        }
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

static void test_a_container_that_gets_no_namespace_starts_with_its_own_limits(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-0::0");

        assert_int_equal(train->tier, MPS_TIER_NAMESPACE);
        assert_string_equal(train->pipe, train->allocation);
        supervisor.allocations = FAKE_ALLOCATIONS_NOT;
        train = rig_run("second", "GPU-0::1");
        assert_int_equal(train->tier, MPS_TIER_VERIFIED);
        assert_string_equal(train->pipe, "");
        assert_string_equal(train->unit, "GPU-0");
}

static void test_what_was_made_counts_and_not_what_was_expected(void **state UNUSED)
{
        supervisor.tier = MPS_TIER_VERIFIED; /* since its last word */
        assert_int_equal(rig_run("train", "GPU-0::0")->tier, MPS_TIER_VERIFIED);
}

static void test_nothing_is_made_where_the_daemon_can_do_less_than_the_plan(void **state UNUSED)
{
        supervisor.tier = MPS_TIER_VERIFIED;
        fake_supervisor_report();
        assert_int_equal(rig_run("train", "GPU-0::0")->tier, MPS_TIER_VERIFIED);
        assert_int_equal(supervisor.made.count, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_a_container_gets_its_replicas_on_one_gpu),
                RIG_TEST(test_ids_of_two_gpus_go_where_there_is_room_for_all),
                RIG_TEST(test_a_request_that_can_never_be_met_is_refused_without_asking_kubelet),
                RIG_TEST(test_ids_that_the_plan_does_not_have_are_answered_without_an_allocation),
                RIG_TEST(test_a_unit_whose_daemon_is_not_ready_gets_no_container),
                RIG_TEST(test_an_unhealthy_gpu_gets_no_container_until_it_is_healthy_again),
                RIG_TEST_WITH(test_what_is_reserved_counts_healthy_units_only, RIG_STRICT),
                RIG_TEST(test_where_there_is_no_room_kubelet_is_asked_for_ended_containers),
                RIG_TEST(test_where_no_container_has_ended_the_request_is_refused),
                RIG_TEST(test_a_request_waits_a_moment_for_kubelets_record),
                RIG_TEST(test_and_is_refused_where_the_record_does_not_change),
                RIG_TEST_WITH(test_a_partition_is_made_before_the_answer, RIG_PARTITIONS),
                RIG_TEST_WITH(test_a_container_is_refused_that_gets_no_partition, RIG_PARTITIONS),
                RIG_TEST_WITH(test_a_container_that_gets_no_namespace_starts_with_its_own_limits, RIG_NAMESPACES),
                RIG_TEST_WITH(test_what_was_made_counts_and_not_what_was_expected, RIG_NAMESPACES),
                RIG_TEST_WITH(test_nothing_is_made_where_the_daemon_can_do_less_than_the_plan, RIG_PARTITIONS),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
