// SPDX-License-Identifier: Apache-2.0
/*
 * What a container finds when it starts: a CDI device for each of its allocations, with the limits of all that it holds
 * at the daemon of the node.
 */
#include "rig.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HALF "11904M 50" /* 2 of 4 replicas of each GPU */

static void assert_starts(struct fake_container *container, const char *limits)
{
        assert_string_equal(rig_start_container(container), "");
        assert_string_equal(rig_limits(container), limits);
}

static void lose_record(void)
{
        kubelet.writes_record = false;
        unlink(rig.record);
}

/* ---- all that it holds ---- */

static void test_a_container_of_one_share_has_its_limits_and_variables_that_name_its_share(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-1::0 GPU-1::1 GPU-1::2");

        assert_starts(train, "0=17856M 75");
        assert_string_equal(rig_device(train), "CUDA_MPS_PIPE_DIRECTORY=/mps/node/pipe\n"
                                               "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=75\n"
                                               "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=17856M\n"
                                               "WARPSHARE_REPLICAS=3/4\n"
                                               "WARPSHARE_FRACTION=0.7265\n"
                                               "WARPSHARE_MEMORY_LIMIT_MIB=17856\n"
                                               "WARPSHARE_THREAD_PERCENTAGE=75.0\n"
                                               "WARPSHARE_SMS=60\n"
                                               "WARPSHARE_TIER=verified\n");
}

static void test_each_device_of_a_container_of_two_resources_has_the_limits_of_both(void **state UNUSED)
{
        struct fake_container *first = rig_run("train", "GPU-0::0 GPU-0::1");
        struct fake_container *second = rig_run("train", "GPU-1::0 GPU-1::1");

        assert_starts(first, HALF);
        assert_string_equal(rig_limits(second), HALF);
        assert_string_equal(rig_device(first), "CUDA_MPS_PIPE_DIRECTORY=/mps/node/pipe\n"
                                               "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\n"
                                               "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=11904M\n"
                                               "CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
                                               "WARPSHARE_FRACTION=0.4843\n");
}

static void test_the_limits_stand_in_the_order_of_the_gpus_whichever_was_asked_for_first(void **state UNUSED)
{
        struct fake_container *first = rig_run("train", "GPU-1::0 GPU-1::1 GPU-1::2");

        rig_run("train", "GPU-0::0");
        assert_starts(first, "0=5952M,1=17856M 25");
}

static void test_containers_of_other_pods_count_for_nothing(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        rig_run("serve", "GPU-1::0");
        assert_starts(train, "0=5952M 25");
}

static void test_an_init_container_with_the_ids_of_the_next_has_limits_of_its_own(void **state UNUSED)
{
        struct fake_container *prepare = rig_allocate_init("train", "GPU-0::0");
        struct fake_container *main = rig_run("train", "GPU-0::0");

        rig_run("train", "GPU-1::0 GPU-1::1");
        assert_starts(prepare, "0=5952M 25");
        assert_starts(main, "0=5952M,1=11904M 25");
        assert_starts(prepare, "0=5952M 25");
}

static void test_an_allocation_without_a_device_of_its_own_counts_for_the_others(void **state UNUSED)
{
        struct fake_container *without;
        struct fake_container *with;

        kubelet.names_devices = false; /* as an answer that was given before CDI was set */
        without = rig_run("train", "GPU-0::0");
        kubelet.names_devices = true;
        with = rig_run("train", "GPU-1::0 GPU-1::1");
        assert_starts(with, "0=5952M,1=11904M 25");
        assert_starts(without, "none");
}

static void test_another_resource_of_the_container_that_mps_does_not_share_counts_for_nothing(void **state UNUSED)
{
        static const struct resource nic = {.name = "nvidia.com/nic"};
        struct fake_container *train = rig_run("train", "GPU-0::0");
        struct fake_container *other = fake_kubelet_allocate(ledger_broker(rig.ledger), &nic, "train", false, "nic-0");

        assert_true(other->is_running);
        assert_starts(train, "0=5952M 25");
}

/* ---- which unit ---- */

static void test_the_limits_are_of_the_gpu_to_which_the_ledger_has_bound_the_container(void **state UNUSED)
{
        struct fake_container *train;

        rig_run("other", "GPU-0::0 GPU-0::1 GPU-0::2");
        train = rig_run("train", "GPU-0::3 GPU-1::3");
        assert_string_equal(train->unit, "GPU-1");
        assert_starts(train, "0=11904M 50"); /* by its ids: one replica of each GPU */
}

static void test_where_the_ledger_has_lost_an_allocation_the_ids_say_the_gpu(void **state UNUSED)
{
        struct fake_container *train;

        rig_run("other", "GPU-0::0 GPU-0::1 GPU-0::2");
        train = rig_run("train", "GPU-0::3 GPU-1::3");
        rig_stop();
        unlink(rig.file);
        kubelet.to = FAKE_IS_SILENT;
        rig_start();
        assert_string_equal(rig_allocations(), "");
        assert_starts(train, "5952M 25");
}

static void test_a_container_under_the_previous_sharing_policy_restarts_as_it_was_promised(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::3");
        struct fake_container *next;

        rig_pass(GRACE_MS);
        rig_change(2);
        next = rig_run("next", "GPU-1::0");
        assert_starts(train, "- -");
        assert_non_null(strstr(rig_device(train), "WARPSHARE_REPLICAS=1/4\n"));
        assert_starts(next, "- -");
        assert_non_null(strstr(rig_device(next), "WARPSHARE_REPLICAS=1/2\n"));
}

/* ---- without kubelet's record ---- */

static void test_a_container_that_kubelets_record_lacks_has_the_limits_of_its_allocation(void **state UNUSED)
{
        struct fake_container *first;

        rig_run("other", "GPU-0::3");
        kubelet.records_late = true;
        first = rig_run("train", "GPU-0::0");
        rig_run("train", "GPU-1::0 GPU-1::1");
        assert_starts(first, "0=5952M 25");
        fake_kubelet_record();
        assert_starts(first, "0=5952M,1=11904M 25");
}

static void test_without_the_record_it_has_them_too(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        lose_record();
        assert_starts(train, "0=5952M 25");
}

static void test_what_is_in_no_record_does_not_start(void **state UNUSED)
{
        static const char expected[] =
                "resource 'nvidia.com/gpu0': the container's limits are not known: its devices are "
                "neither in kubelet's record '%s' nor in the agent's; kubelet will ask again";
        struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");
        struct fake_container stranger = *train;

        strcpy(stranger.ids[0], "GPU-0::3");
        strcpy(stranger.ids[1], "GPU-0::2");
        assert_string_equal(rig_start_container(&stranger), arena_printf(&rig.arena, expected, rig.record));
        assert_int_equal(stranger.start_error.kind, ERROR_UNAVAILABLE);
        stranger.n_ids = 0;
        assert_string_equal(rig_start_container(&stranger), arena_printf(&rig.arena, expected, rig.record));
}

/* It has some of the ids that start, or has more than these. */
static void test_only_the_container_with_just_these_ids_is_meant(void **state UNUSED)
{
        struct fake_container *two = rig_run("train", "GPU-0::0 GPU-0::1");
        struct fake_container *other = rig_run("serve", "GPU-0::2 GPU-0::3");

        assert_starts(two, "0=11904M 50");
        assert_string_equal(rig_limits(other), "none");
        strcpy(two->ids[0], "GPU-0::1");
        strcpy(two->ids[1], "GPU-0::0");
        assert_starts(two, "0=11904M 50"); /* in any order */
}

static void test_an_answer_that_names_another_kind_of_allocation_is_no_device(void **state UNUSED)
{
        struct fake_container *train = rig_allocate("train", "GPU-0::0");

        strcpy(train->allocation, "../../etc/passwd");
        fake_kubelet_write_record();
        assert_starts(train, "none");
}

/* ---- whose time is over ---- */

static void test_the_devices_of_pods_that_have_ended_go_when_the_next_container_starts(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");
        struct fake_container *serve = rig_run("serve", "GPU-0::1");
        struct fake_container *next;

        assert_starts(train, "0=5952M 25");
        assert_starts(serve, "0=5952M 25");
        fake_kubelet_end_pod("train");
        next = rig_run("next", "GPU-1::0");
        assert_string_equal(rig_limits(train), "0=5952M 25");
        assert_starts(next, "0=5952M 25");
        assert_string_equal(rig_limits(train), "none");
        assert_string_equal(rig_limits(serve), "0=5952M 25");
}

/* ---- an agent that starts ---- */

static void test_devices_that_a_reboot_took_are_made_again(void **state UNUSED)
{
        struct fake_container *first = rig_run("train", "GPU-0::0 GPU-0::1");
        struct fake_container *second = rig_run("train", "GPU-1::0 GPU-1::1");

        rig_pass(GRACE_MS);
        rig_stop();
        rig_start();
        assert_string_equal(rig_limits(first), HALF);
        assert_string_equal(rig_limits(second), HALF);
}

static void test_those_of_pods_that_ended_meanwhile_go(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");
        struct fake_container *serve = rig_run("serve", "GPU-1::0");

        assert_starts(train, "0=5952M 25");
        rig_stop();
        fake_kubelet_end_pod("train");
        train->is_in_memory = false;
        fake_kubelet_write_record();
        rig_start();
        assert_string_equal(rig_limits(train), "none");
        assert_string_equal(rig_limits(serve), "0=5952M 25");
}

static void test_without_kubelets_record_nobodys_device_goes(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        assert_starts(train, "0=5952M 25");
        rig_stop();
        lose_record();
        rig_start();
        assert_string_equal(rig_limits(train), "0=5952M 25");
}

/* What they declare is not known yet. */
static void test_those_of_containers_that_declare_what_they_need_stay_as_they_are(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");
        struct fake_container *serve = rig_run("serve", "GPU-1::0");

        fake_api_pod("train", "'warpshare.dev/memory': '3Gi'", "");
        assert_starts(train, "0=3072M -");
        rig_stop();
        rig_start();
        assert_string_equal(rig_limits(train), "0=3072M -");
        assert_string_equal(rig_limits(serve), "none");
}

static void test_while_another_agent_serves_nothing_starts_here(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        ledger_leave(rig.ledger);
        assert_string_equal(rig_start_container(train),
                "resource 'nvidia.com/gpu0': this agent does not serve now; kubelet will ask again");
        assert_int_equal(train->start_error.kind, ERROR_UNAVAILABLE);
        rig_apply(rig.plan);
        assert_starts(train, "0=5952M 25");
}

/* ---- the disk ---- */

static void block_folder(void)
{
        assert_int_equal(symlink("nowhere/at-all", rig.cdi), 0);
}

static void test_a_container_whose_device_cannot_be_written_does_not_start(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        block_folder();
        assert_memory_equal(rig_start_container(train), "CDI: ", 5);
        lose_record();
        assert_memory_equal(rig_start_container(train), "CDI: ", 5);
        unlink(rig.cdi);
        assert_starts(train, "0=5952M 25");
}

static void test_an_agent_that_cannot_write_cdi_devices_still_serves(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        rig_stop();
        block_folder();
        rig_start();
        rig_run("serve", "GPU-0::1");
        unlink(rig.cdi);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(
                        test_a_container_of_one_share_has_its_limits_and_variables_that_name_its_share, RIG_NODE_EACH),
                RIG_TEST_WITH(test_each_device_of_a_container_of_two_resources_has_the_limits_of_both, RIG_NODE_EACH),
                RIG_TEST_WITH(
                        test_the_limits_stand_in_the_order_of_the_gpus_whichever_was_asked_for_first, RIG_NODE_EACH),
                RIG_TEST_WITH(test_containers_of_other_pods_count_for_nothing, RIG_NODE_EACH),
                RIG_TEST_WITH(test_an_init_container_with_the_ids_of_the_next_has_limits_of_its_own, RIG_NODE_EACH),
                RIG_TEST_WITH(test_an_allocation_without_a_device_of_its_own_counts_for_the_others, RIG_NODE_EACH),
                RIG_TEST_WITH(test_another_resource_of_the_container_that_mps_does_not_share_counts_for_nothing,
                        RIG_NODE_EACH),
                RIG_TEST_WITH(test_the_limits_are_of_the_gpu_to_which_the_ledger_has_bound_the_container, RIG_NODE),
                RIG_TEST_WITH(test_where_the_ledger_has_lost_an_allocation_the_ids_say_the_gpu, RIG_NODE),
                RIG_TEST_WITH(
                        test_a_container_under_the_previous_sharing_policy_restarts_as_it_was_promised, RIG_DECLARED),
                RIG_TEST_WITH(
                        test_a_container_that_kubelets_record_lacks_has_the_limits_of_its_allocation, RIG_NODE_EACH),
                RIG_TEST_WITH(test_without_the_record_it_has_them_too, RIG_NODE_EACH),
                RIG_TEST_WITH(test_what_is_in_no_record_does_not_start, RIG_NODE_EACH),
                RIG_TEST_WITH(test_only_the_container_with_just_these_ids_is_meant, RIG_NODE_EACH),
                RIG_TEST_WITH(test_an_answer_that_names_another_kind_of_allocation_is_no_device, RIG_NODE_EACH),
                RIG_TEST_WITH(
                        test_the_devices_of_pods_that_have_ended_go_when_the_next_container_starts, RIG_NODE_EACH),
                RIG_TEST_WITH(test_devices_that_a_reboot_took_are_made_again, RIG_NODE_EACH),
                RIG_TEST_WITH(test_those_of_pods_that_ended_meanwhile_go, RIG_NODE_EACH),
                RIG_TEST_WITH(test_without_kubelets_record_nobodys_device_goes, RIG_NODE_EACH),
                RIG_TEST_WITH(test_those_of_containers_that_declare_what_they_need_stay_as_they_are, RIG_DECLARED),
                RIG_TEST_WITH(test_while_another_agent_serves_nothing_starts_here, RIG_NODE_EACH),
                RIG_TEST_WITH(test_a_container_whose_device_cannot_be_written_does_not_start, RIG_NODE_EACH),
                RIG_TEST_WITH(test_an_agent_that_cannot_write_cdi_devices_still_serves, RIG_NODE_EACH),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
