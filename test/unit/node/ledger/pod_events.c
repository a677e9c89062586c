// SPDX-License-Identifier: Apache-2.0
/*
 * Events for the pods that hold a part of a GPU: for each of them, once, and for nobody else.
 */
#include "rig.h"

#include "fake_events.h"

/* What the pods of GPU-0 are told when kubelet has said who they are. */
static const char *report(void)
{
        ledger_report_pods(rig.ledger, "GPU-0", NODE_EVENT_MPS_NOTICE, "slow");
        rig_settle();
        return fake_events_of_pods();
}

static void test_each_pod_on_the_gpu_has_one_event_and_a_pod_on_another_has_none(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-0::1 GPU-0::2");
        rig_run("other", "GPU-1::0");
        rig_pass(GRACE_MS);
        assert_string_equal(report(), "team/train MPSNotice: slow\nteam/serve MPSNotice: slow\n");
}

static void test_a_pod_with_two_allocations_has_one_event(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("train", "GPU-0::1");
        rig_pass(GRACE_MS);
        assert_string_equal(report(), "team/train MPSNotice: slow\n");
}

static void test_a_pod_that_has_ended_has_none(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_kubelet_end_pod("train");
        assert_string_equal(report(), "");
}

static void test_a_pod_on_a_gpu_that_drains_has_its_event(void **state UNUSED)
{
        rig_run("train", "GPU-0::3");
        rig_pass(GRACE_MS);
        rig_change(2);
        assert_string_equal(report(), "team/train MPSNotice: slow\n");
}

static void test_kubelets_list_of_before_counts_where_it_has_no_new_one(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_REFUSES;
        assert_string_equal(report(), "team/train MPSNotice: slow\n");
}

static void test_two_reports_that_wait_for_kubelet_both_come(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        ledger_report_pods(rig.ledger, "GPU-0", NODE_EVENT_MPS_NOTICE, "slow");
        assert_string_equal(report(), "team/train MPSNotice: slow\nteam/train MPSNotice: slow\n");
}

static void test_a_ledger_that_closes_reports_nothing_more(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_IS_SILENT;
        ledger_report_pods(rig.ledger, "GPU-0", NODE_EVENT_MPS_NOTICE, "slow");
        rig_stop();
        assert_string_equal(fake_events_of_pods(), "");
        kubelet.to = FAKE_ANSWERS;
        rig_start();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_each_pod_on_the_gpu_has_one_event_and_a_pod_on_another_has_none),
                RIG_TEST(test_a_pod_with_two_allocations_has_one_event),
                RIG_TEST(test_a_pod_that_has_ended_has_none),
                RIG_TEST(test_a_pod_on_a_gpu_that_drains_has_its_event),
                RIG_TEST(test_kubelets_list_of_before_counts_where_it_has_no_new_one),
                RIG_TEST(test_two_reports_that_wait_for_kubelet_both_come),
                RIG_TEST(test_a_ledger_that_closes_reports_nothing_more),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
