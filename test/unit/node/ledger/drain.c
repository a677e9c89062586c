// SPDX-License-Identifier: Apache-2.0
/*
 * A resource changes while it is held: who holds has what was promised, on a unit that drains; who comes has what is
 * wanted now. The GPUs have four replicas each, and two then.
 */
#include "rig.h"

#include <unistd.h>

/* Of the pod's allocation. */
static struct ledger_allocation find(const char *pod)
{
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);

        for (size_t i = 0; i < count; i++)
                if (all[i].holder && all[i].holder->pod && strcmp(all[i].holder->pod, pod) == 0)
                        return all[i];
        fail_msg("%s has no allocation: %s", pod, rig_allocations());
        return (struct ledger_allocation){0};
}

static void test_running_containers_keep_unit_and_limits_and_new_ones_have_the_new_ones(void **state UNUSED)
{
        uint64_t quarter;

        rig_run("train", "GPU-0::3");
        rig_pass(GRACE_MS);
        quarter = find("train").limit_mib;
        assert_in_range(quarter, 1, 6 * 1024);
        rig_change(2);
        assert_int_equal(find("train").limit_mib, quarter);
        assert_int_equal(find("train").threads_permille, 250);
        assert_string_equal(rig_run("serve", "GPU-1::0")->unit, "GPU-1");
        rig_pass(GRACE_MS);
        assert_int_equal(find("serve").threads_permille, 500);
        assert_int_equal(find("train").limit_mib, quarter);
        assert_string_equal(rig_allocations(), "serve GPU-1[0], train GPU-0[3]");
        assert_non_null(fake_allocations_find(&supervisor.made, find("train").allocation->id));
        assert_int_equal(fake_allocations_find(&supervisor.reported, find("train").allocation->id)->limit_mib, quarter);
        assert_int_equal(supervisor.made.count, 2);
}

/* The container after an init container, and one that kubelet had in hand, have ids of before. */
static void test_ids_of_before_are_of_the_unit_that_drains(void **state UNUSED)
{
        rig_run("train", "GPU-0::3");
        rig_allocate_init("next", "GPU-0::2");
        rig_pass(GRACE_MS);
        rig_change(2);
        assert_string_equal(rig_run("next", "GPU-0::2")->unit, "GPU-0");
        rig_pass(GRACE_MS);
        assert_int_equal(find("next").threads_permille, 250);
}

/* Ids are tokens: kubelet chose them of two GPUs, so "serve" is on GPU-0 with an id of GPU-1. */
static void test_a_unit_waits_for_who_is_bound_to_it_whatever_its_ids_say(void **state UNUSED)
{
        rig_run("train", "GPU-1::0 GPU-1::1 GPU-1::2 GPU-0::0");
        assert_string_equal(rig_run("serve", "GPU-1::3")->unit, "GPU-0");
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        rig_change(2);
        assert_string_equal(find("serve").allocation->unit, "GPU-0");
        assert_int_equal(find("serve").threads_permille, 250);
        rig_run("next", "GPU-0::0"); /* kubelet has not heard of the change */
        rig_pass(GRACE_MS);
        assert_int_equal(find("next").threads_permille, 250);
        fake_kubelet_end_pod("serve");
        fake_kubelet_end_pod("next");
        rig_review();
        assert_int_equal(rig.rollout->n_pending, 0);
        rig_pass(GRACE_MS);
        assert_string_equal(rig_run("third", "GPU-0::0")->unit, "GPU-0");
}

static void test_the_unit_is_as_wanted_when_its_last_holder_has_ended(void **state UNUSED)
{
        rig_run("train", "GPU-0::3");
        rig_pass(GRACE_MS);
        rig_change(2);
        rig_review();
        assert_int_equal(rig.rollout->n_pending, 1);
        fake_kubelet_end_pod("train");
        rig_review();
        assert_int_equal(rig.rollout->n_pending, 0);
        assert_string_equal(rig_run("serve", "GPU-0::0")->unit, "GPU-0");
        rig_pass(GRACE_MS);
        assert_int_equal(find("serve").threads_permille, 500);
        assert_string_equal(rig_allocations(), "serve GPU-0[0]");
}

static void test_both_survive_the_agent(void **state UNUSED)
{
        for (int i = 0; i < 2; i++) {
                const char *train;

                if (i == 0) {
                        rig_run("train", "GPU-0::3");
                        rig_pass(GRACE_MS);
                        rig_change(2);
                        rig_run("serve", "GPU-1::0");
                        rig_pass(GRACE_MS);
                }
                train = arena_strdup(&rig.arena, find("train").allocation->id);
                rig_kill();
                if (i == 1)
                        unlink(rig.file);
                rig_start();
                rig_pass(GRACE_MS);
                assert_string_equal(find("train").allocation->id, train);
                assert_string_equal(find("train").allocation->unit, "GPU-0");
                assert_int_equal(find("train").threads_permille, 250);
                assert_int_equal(find("serve").threads_permille, 500);
        }
}

static void test_what_was_not_on_file_comes_there_after_a_change_too(void **state UNUSED)
{
        const struct fake_container *train;
        _free_ char *file = NULL;

        rig_fill_disk();
        train = rig_run("train", "GPU-0::3");
        rig_pass(200);
        rig_change(2);
        rig_empty_disk();
        rig_pass(60000);
        file = rig_read_file();
        assert_non_null(file);
        assert_non_null(strstr(file, train->allocation));
}

static void test_the_file_is_read_once(void **state UNUSED)
{
        _free_ char *old = NULL;

        rig_run("train", "GPU-0::3");
        rig_pass(GRACE_MS);
        old = rig_read_file();
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        rig_write_file(old); /* as if the disk had been full */
        rig_apply(rig.plan);
        assert_string_equal(rig_allocations(), "");
}

static bool is_made(const struct fake_container *container)
{
        return fake_allocations_find(&supervisor.made, container->allocation);
}

/* "train" has an allocation of GPU-1, which is away for a while; what was made for it stays. */
static void lose_and_find(const struct fake_container *train, unsigned int replicas)
{
        bool was_made = is_made(train);

        rig_change_gpus(replicas, 1);
        for (int i = 0; i < 3; i++) {
                rig_pass(GRACE_MS);
                rig_review();
                assert_string_equal(rig_allocations(), "train GPU-1[3]");
                assert_int_equal(is_made(train), was_made);
        }
        rig_change(replicas);
        rig_review();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-1[3]");
        assert_int_equal(find("train").threads_permille, 250);
        assert_int_equal(is_made(train), was_made);
        rig_change_gpus(replicas, 1);
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "");
        assert_int_equal(supervisor.made.count, 0);
}

static void test_allocations_stay_while_their_gpu_is_away(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-1::3");

        rig_pass(GRACE_MS);
        lose_and_find(train, 4);
}

static void test_allocations_of_before_stay_while_their_gpu_is_away(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-1::3");

        rig_pass(GRACE_MS);
        rig_change(2);
        lose_and_find(train, 2);
}

/* Its daemon drains meanwhile, with the client that it has. */
static void test_no_process_is_a_stranger_while_its_gpu_is_away(void **state UNUSED)
{
        struct ledger_measures measures;

        rig_run("train", "GPU-1::3");
        rig_pass(GRACE_MS);
        fake_supervisor_show("GPU-1", "uid-train", 512);
        rig_pass(2 * GRACE_MS);
        supervisor.unit_that_drains = "GPU-1";
        rig_change_gpus(4, 1);
        rig_pass(2 * GRACE_MS);
        ledger_measure(rig.ledger, &measures);
        assert_int_equal(measures.n_standing, 0);
        assert_int_equal(supervisor.terminated, 0);
}

/* No inventory comes with it, and so no word on health. */
static void test_a_gpu_stays_unhealthy_when_the_plan_changes(void **state UNUSED)
{
        rig_run("train", "GPU-0::3");
        rig_set_health("GPU-1", false);
        rig_pass(GRACE_MS);
        rig_change(4);
        rig_review();
        assert_string_equal(rig_run("serve", "GPU-1::0")->unit, "GPU-0");
        rig_set_health("GPU-1", true);
        assert_string_equal(rig_run("third", "GPU-1::1")->unit, "GPU-1");
}

/* New GPUs, and with them another health; the supervisor says nothing yet. */
static void test_a_plan_begins_with_the_health_of_its_gpus(void **state UNUSED)
{
        supervisor.unit_at_fault = "GPU-0";
        fake_supervisor_report();
        unit_health_set(&rig.health, "GPU-1", false, "Xid 79");
        ledger_apply(rig.ledger, rig.plan);
        assert_string_equal(rig_unavailable(), "GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3");
        assert_int_equal(rig_allocate("train", "GPU-1::0")->error.kind, ERROR_EXHAUSTED);
        unit_health_clear(&rig.health);
        ledger_apply(rig.ledger, rig.plan);
        assert_string_equal(rig_run("serve", "GPU-1::1")->unit, "GPU-1");
}

/* What is ready may be the daemon of before, which is about to end. */
static void test_a_daemon_that_changes_is_ready_when_the_supervisor_has_the_change(void **state UNUSED)
{
        rig_run("train", "GPU-0::3");
        rig_pass(GRACE_MS);
        supervisor.is_behind = true;
        rig_change(2);
        assert_string_equal(rig_unavailable(), "GPU-1::0 GPU-1::1");
        assert_int_equal(rig_allocate("serve", "GPU-1::0")->error.kind, ERROR_EXHAUSTED);
        supervisor.is_behind = false;
        fake_supervisor_report();
        assert_string_equal(rig_unavailable(), "");
        assert_string_equal(rig_run("serve", "GPU-1::0")->unit, "GPU-1");
}

/* Nothing changes for the daemons, so there is nothing that the supervisor would have to hear first. */
static void test_a_plan_with_the_same_daemons_leaves_them_ready(void **state UNUSED)
{
        supervisor.hides_settings = true; /* as NVIDIA's own daemons do */
        fake_supervisor_report();
        supervisor.is_behind = true;
        rig_apply(rig.plan);
        assert_string_equal(rig_unavailable(), "");
}

/* One daemon for both GPUs goes on with the other one, and takes in what has come back when it can. */
static void test_a_gpu_that_goes_away_and_comes_back_leaves_the_other_of_its_daemon_ready(void **state UNUSED)
{
        supervisor.is_behind = true;
        rig.node.inventory.gpus[1].failure = "nvmlDeviceGetMemoryInfo: Unknown Error";
        rig_apply(rig.plan);
        assert_string_equal(rig_unavailable(), "GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3");
        supervisor.is_behind = false;
        fake_supervisor_report();
        rig.node.inventory.gpus[1].failure = NULL;
        supervisor.is_behind = true;
        rig_apply(rig.plan);
        fake_supervisor_report();
        assert_string_equal(rig_unavailable(), "GPU-1::0 GPU-1::1 GPU-1::2 GPU-1::3");
        supervisor.is_behind = false;
        fake_supervisor_report();
        assert_string_equal(rig_unavailable(), "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(
                        test_running_containers_keep_unit_and_limits_and_new_ones_have_the_new_ones, RIG_NAMESPACES),
                RIG_TEST(test_ids_of_before_are_of_the_unit_that_drains),
                RIG_TEST(test_a_unit_waits_for_who_is_bound_to_it_whatever_its_ids_say),
                RIG_TEST(test_the_unit_is_as_wanted_when_its_last_holder_has_ended),
                RIG_TEST_WITH(test_both_survive_the_agent, RIG_NAMESPACES),
                RIG_TEST(test_what_was_not_on_file_comes_there_after_a_change_too),
                RIG_TEST(test_the_file_is_read_once),
                RIG_TEST(test_no_process_is_a_stranger_while_its_gpu_is_away),
                RIG_TEST_WITH(test_allocations_stay_while_their_gpu_is_away, RIG_NAMESPACES),
                RIG_TEST_WITH(test_allocations_stay_while_their_gpu_is_away, RIG_DECLARED),
                RIG_TEST_WITH(test_allocations_of_before_stay_while_their_gpu_is_away, RIG_NAMESPACES),
                RIG_TEST_WITH(test_allocations_of_before_stay_while_their_gpu_is_away, RIG_DECLARED),
                RIG_TEST(test_a_gpu_stays_unhealthy_when_the_plan_changes),
                RIG_TEST(test_a_plan_begins_with_the_health_of_its_gpus),
                RIG_TEST_WITH(test_a_daemon_that_changes_is_ready_when_the_supervisor_has_the_change, RIG_STRICT),
                RIG_TEST(test_a_plan_with_the_same_daemons_leaves_them_ready),
                RIG_TEST_WITH(test_a_gpu_that_goes_away_and_comes_back_leaves_the_other_of_its_daemon_ready, RIG_NODE),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
