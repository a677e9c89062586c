// SPDX-License-Identifier: Apache-2.0
/*
 * What processes have against what their containers hold, as the supervisor sees the ones and kubelet knows the others.
 * How it is judged is tested with the guard; this is what it is told, and what comes of it.
 */
#include "fake_events.h"
#include "rig.h"

#include <unistd.h>

static void show_none(void)
{
        supervisor.n_clients = 0;
        fake_supervisor_report();
}

static struct ledger_measures measure(void)
{
        struct ledger_measures measures;

        ledger_measure(rig.ledger, &measures);
        return measures;
}

static void test_a_process_below_its_limit_is_no_violation(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_supervisor_show("GPU-0", "uid-train", 1024);
        rig_pass(GRACE_MS);
        assert_int_equal(measure().n_standing, 0);
        assert_int_equal(supervisor.terminated, 0);
        assert_string_equal(measure().mps->daemons[0].name, "GPU-0");
}

static void test_a_process_with_more_memory_than_promised_is_terminated(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_supervisor_show("GPU-0", "uid-train", 20000);
        rig_pass(GRACE_MS);
        assert_int_equal(supervisor.terminated, 7);
        assert_int_equal(measure().n_standing, 1);
        assert_int_equal(measure().standing[0]->kind, LIMIT_VIOLATION_MEMORY);
        assert_int_equal(measure().violations_total[LIMIT_VIOLATION_MEMORY], 1);
        assert_int_equal(measure().clients_ended_total, 1);
        show_none();
        rig_pass(GRACE_MS);
        assert_int_equal(measure().n_standing, 0);
}

/* The process has ended, and the supervisor stands still, or the daemon that would say so does. */
static void test_a_process_counts_only_if_the_supervisor_sees_it_after_its_allocation_is_over(void **state UNUSED)
{
        for (int i = 0; i < 2; i++) {
                bool is_there = i == 1;

                rig_run("train", "GPU-0::0");
                rig_pass(GRACE_MS);
                fake_supervisor_show("GPU-0", "uid-train", 1024);
                rig_pass(GRACE_MS);
                supervisor.is_frozen = true;
                fake_kubelet_end_pod("train");
                rig_run("serve", i == 0 ? "GPU-1::0" : "GPU-1::1"); /* then kubelet's record has "train" no more */
                rig_pass(2 * GRACE_MS);
                assert_null(strstr(rig_allocations(), "train"));
                assert_int_equal(measure().n_standing, 0);
                if (!is_there)
                        show_none();
                supervisor.is_frozen = false;
                rig_pass(GRACE_MS);
                assert_int_equal(measure().n_standing, is_there);
                assert_int_equal(measure().violations_total[LIMIT_VIOLATION_STRANGER], is_there);
                assert_int_equal(supervisor.terminated, is_there ? 7 : 0);
        }
}

/* kubelet may have given the memory to it a moment ago. */
static void test_no_process_is_terminated_on_facts_from_before_the_newest_allocation(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_supervisor_show("GPU-0", "uid-train", 20000);
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(1900);
        rig_run("serve", "GPU-1::0");
        while (kubelet.n_questions)
                fake_kubelet_answer_as_asked();
        rig_pass(2000);
        fake_supervisor_answer();
        assert_int_equal(supervisor.terminated, 0);
        kubelet.to = FAKE_ANSWERS;
        rig_pass(GRACE_MS);
        assert_int_equal(supervisor.terminated, 7);
}

static void test_without_an_answer_of_kubelet_no_process_is_terminated(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_REFUSES;
        fake_supervisor_show("GPU-0", "uid-train", 20000);
        rig_pass(10 * GRACE_MS);
        assert_int_equal(supervisor.terminated, 0);
}

static void test_a_pod_without_devices_of_the_unit_in_kubelets_list_is_external(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_supervisor_show("GPU-0", "uid-thief", 100);
        rig_pass(GRACE_MS);
        assert_int_equal(measure().n_standing, 1);
        assert_int_equal(measure().standing[0]->kind, LIMIT_VIOLATION_STRANGER);
        assert_int_equal(supervisor.terminated, 7);
}

static void test_a_process_of_an_unknown_owner_is_reported_and_violates_nothing(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        (void)fake_events_of_node();
        fake_supervisor_show("GPU-0", NULL, 100);
        rig_pass(GRACE_MS);
        assert_int_equal(measure().n_standing, 1);
        assert_int_equal(measure().standing[0]->kind, LIMIT_VIOLATION_UNKNOWN);
        assert_string_equal(fake_events_of_node(),
                "MPSClientUnknown: the owner of MPS clients is not known: 1 MPS clients of daemon GPU-0 with 100 MiB "
                "have no known owner, one of them process 7: no pod is in their cgroups\n");
        show_none();
        rig_pass(GRACE_MS);
        assert_memory_equal(fake_events_of_node(), "MPSClientSettled: ", strlen("MPSClientSettled: "));
        fake_supervisor_show("GPU-0", "uid-train", 20000);
        rig_pass(GRACE_MS);
        assert_memory_equal(fake_events_of_node(), "MPSLimitViolated: ", strlen("MPSLimitViolated: "));
}

/* An init container is in kubelet's record alone. */
static void test_an_init_container_is_not_external(void **state UNUSED)
{
        rig_allocate_init("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_supervisor_show("GPU-0", "uid-train", 100);
        rig_pass(GRACE_MS);
        assert_int_equal(measure().n_standing, 0);
        assert_int_equal(supervisor.terminated, 0);
}

/* While an agent has not heard yet who holds what, that of a container is not known. */
static void test_a_new_agent_terminates_no_process_before_it_knows_what_containers_hold(void **state UNUSED)
{
        rig_run("train", "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3");
        rig_pass(GRACE_MS);
        rig_kill();
        unlink(rig.file);
        kubelet.to = FAKE_IS_SILENT;
        rig_start();
        fake_supervisor_show("GPU-0", "uid-train", 20000);
        rig_pass(GRACE_MS);
        assert_int_equal(supervisor.terminated, 0);
        kubelet.to = FAKE_ANSWERS;
        rig_pass(GRACE_MS);
        assert_int_equal(supervisor.terminated, 0);
        assert_int_equal(measure().n_standing, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_a_process_below_its_limit_is_no_violation),
                RIG_TEST(test_a_process_with_more_memory_than_promised_is_terminated),
                RIG_TEST(test_a_process_of_an_unknown_owner_is_reported_and_violates_nothing),
                RIG_TEST(test_a_process_counts_only_if_the_supervisor_sees_it_after_its_allocation_is_over),
                RIG_TEST(test_no_process_is_terminated_on_facts_from_before_the_newest_allocation),
                RIG_TEST(test_without_an_answer_of_kubelet_no_process_is_terminated),
                RIG_TEST(test_a_pod_without_devices_of_the_unit_in_kubelets_list_is_external),
                RIG_TEST(test_an_init_container_is_not_external),
                RIG_TEST(test_a_new_agent_terminates_no_process_before_it_knows_what_containers_hold),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
