// SPDX-License-Identifier: Apache-2.0
/*
 * Containers that hold devices of several resources and do not get all of them: here by environment variables, of which
 * kubelet passes on one value only. What they miss is judged in plan/several.h; this is who is told, and when.
 */
#include "rig.h"

#include <unistd.h>

#include "fake_events.h"

#define POLL_MS 1500 /* node/ledger/several.c */
#define MISSES                                                                                                         \
        "it has devices of nvidia.com/gpu0 and nvidia.com/gpu1 but sees only those of one of them: an environment "    \
        "variable names them, and kubelet passes on only one value of it: set deviceListStrategy: cdi-cri; the "       \
        "container runtime has to know CDI: CRI-O, containerd from 2.0 on, or 1.7 with enable_cdi = true, or use "     \
        "volume-mounts.\n"
#define EVENT(pod, container) "team/" pod " PodGetsLess: Container " container ": " MISSES

static void run_with_both(const char *pod)
{
        rig_run(pod, "GPU-0::0");
        rig_run(pod, "GPU-1::0");
}

static void test_the_pod_of_a_container_with_two_resources_has_an_event(void **state UNUSED)
{
        run_with_both("train");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
        assert_string_equal(fake_events_of_node(), "");
}

static void test_a_container_with_one_resource_or_with_all_gpus_has_no_event(void **state)
{
        rig_run("train", "GPU-0::0");
        if (*(const enum rig_shares *)*state == RIG_NODE_EACH)
                rig_run("train", "GPU-1::0");
        else
                rig_run("serve", "GPU-1::0");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
}

/* kubelet enters an allocation only when it has read the answer, and asks for the next resource after that. */
static void test_a_container_is_looked_at_a_moment_after_its_first_allocation(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(1000);
        rig_run("train", "GPU-1::0");
        rig_pass(POLL_MS - 1000 - 1);
        assert_string_equal(fake_events_of_pods(), "");
        rig_pass(1);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
}

static void test_each_pod_has_its_event_once(void **state UNUSED)
{
        run_with_both("train");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
        rig_run("serve", "GPU-0::1");
        rig_run("serve", "GPU-1::1");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), EVENT("serve", "main"));
        rig_run("third", "GPU-0::2");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
}

/* kubelet's list has no init containers; the container that has the same devices after it tells their pod. */
static void test_each_container_of_a_pod_has_an_event(void **state UNUSED)
{
        rig_allocate_init("train", "GPU-0::0");
        rig_allocate_init("train", "GPU-1::0");
        run_with_both("train");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "prepare") EVENT("train", "main"));
}

static void test_with_a_new_plan_each_container_has_its_event_again(void **state UNUSED)
{
        run_with_both("train");
        rig_pass(GRACE_MS);
        fake_events_of_pods();
        rig_apply(rig.plan);
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
}

/* ---- the name of the pod ---- */

static void test_the_name_is_that_of_kubelets_previous_list_until_there_is_a_new_one(void **state UNUSED)
{
        run_with_both("train");
        rig_pass(POLL_MS - 1); /* by now it has been asked for another reason */
        kubelet.to = FAKE_REFUSES;
        rig_pass(1);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
}

static void test_kubelet_is_asked_for_the_name(void **state UNUSED)
{
        kubelet.to = FAKE_REFUSES;
        run_with_both("train");
        rig_pass(POLL_MS - 1);
        kubelet.to = FAKE_ANSWERS;
        rig_pass(1);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
}

static void test_a_pod_whose_name_is_not_known_has_no_event(void **state UNUSED)
{
        kubelet.to = FAKE_REFUSES;
        run_with_both("train");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
}

static void test_where_kubelets_list_is_not_used_no_start_waits_for_it(void **state UNUSED)
{
        rig_stop();
        rig.node.config.kubelet.pod_resources = "";
        rig_start();
        run_with_both("train");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
}

static void test_without_kubelets_record_nothing_is_known(void **state UNUSED)
{
        kubelet.writes_record = false;
        unlink(rig.record);
        run_with_both("train");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
}

/* ---- the end ---- */

static void test_an_agent_that_stops_serving_reports_no_container(void **state UNUSED)
{
        run_with_both("train");
        ledger_leave(rig.ledger);
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
        rig_apply(rig.plan);
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), EVENT("train", "main"));
}

static void test_an_agent_that_left_while_it_asked_says_nothing(void **state UNUSED)
{
        run_with_both("train");
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(POLL_MS);
        ledger_leave(rig.ledger);
        kubelet.to = FAKE_ANSWERS;
        rig_settle();
        assert_string_equal(fake_events_of_pods(), "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(test_the_pod_of_a_container_with_two_resources_has_an_event, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_a_container_with_one_resource_or_with_all_gpus_has_no_event, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_a_container_with_one_resource_or_with_all_gpus_has_no_event, RIG_NODE_EACH),
                RIG_TEST_WITH(test_a_container_is_looked_at_a_moment_after_its_first_allocation, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_each_pod_has_its_event_once, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_each_container_of_a_pod_has_an_event, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_with_a_new_plan_each_container_has_its_event_again, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(
                        test_the_name_is_that_of_kubelets_previous_list_until_there_is_a_new_one, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_kubelet_is_asked_for_the_name, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_a_pod_whose_name_is_not_known_has_no_event, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_where_kubelets_list_is_not_used_no_start_waits_for_it, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_without_kubelets_record_nothing_is_known, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_an_agent_that_stops_serving_reports_no_container, RIG_ENVVAR_EACH),
                RIG_TEST_WITH(test_an_agent_that_left_while_it_asked_says_nothing, RIG_ENVVAR_EACH),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
