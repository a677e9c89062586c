// SPDX-License-Identifier: Apache-2.0
/* Settings of a daemon that serves, which somebody else changes. */
#include "supervisor_rig.h"

#include "mps/supervisor/allocations.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEST(name) cmocka_unit_test_setup_teardown((name), rig_set_up, rig_tear_down)

static void start(struct rig *rig, const char *version, const char *behaviour)
{
        const struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);

        rig_drive(rig, version, "", "");
        rig_behave(rig, rig_path(rig, "version: %.3s\n%s", version, behaviour));
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static bool was_repaired(struct rig *rig, const void *data)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status->repairs && status->notice && strstr(status->notice, data);
}

/* It has served all the time. */
static void expect_repair(struct rig *rig, const char *difference, const char *question, const char *answer)
{
        const int64_t since = rig_status(rig, GPU_A)->since;

        rig_wait(rig, was_repaired, difference, difference);
        assert_string_equal(rig_ask(rig, GPU_A, question), answer);
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
        assert_true(rig_status(rig, GPU_A)->since == since);
}

static void test_a_changed_default_percentage_is_set_back_and_reported(void **state)
{
        struct rig *rig = *state;

        start(rig, "535.261.03", "");
        rig_ask(rig, GPU_A, "set_default_active_thread_percentage 90");
        expect_repair(rig,
                "its settings were changed from outside (configuration drift): default active thread percentage: "
                "90.0 instead of 25.0 %; they were restored",
                "get_default_active_thread_percentage", "25.0\n");
}

static void test_a_changed_default_memory_limit_is_set_back_and_reported(void **state)
{
        struct rig *rig = *state;

        start(rig, "550.163.01", "");
        rig_ask(rig, GPU_A, "set_default_device_pinned_mem_limit 0 0G");
        expect_repair(rig, "default memory limit of " GPU_A ": 0 instead of 8192 MiB",
                "get_default_device_pinned_mem_limit 0", "8G\n");
}

static void test_what_a_live_server_allows_is_set_back(void **state)
{
        struct rig *rig = *state;
        pid_t server;

        start(rig, "550.163.01", "");
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        server = rig_status(rig, GPU_A)->servers[0].pid;
        rig_ask(rig, GPU_A, rig_path(rig, "set_active_thread_percentage %d 80", (int)server));
        expect_repair(rig,
                rig_path(rig, "active thread percentage of its server %d: 80.0 instead of 25.0 %%", (int)server),
                rig_path(rig, "get_active_thread_percentage %d", (int)server), "25.0\n");
        rig_ask(rig, GPU_A, rig_path(rig, "set_device_pinned_mem_limit %d 0 16G", (int)server));
        expect_repair(rig,
                rig_path(rig, "memory limit of its server %d on " GPU_A ": 16384 instead of 8192 MiB", (int)server),
                rig_path(rig, "get_device_pinned_mem_limit %d 0", (int)server), "8G\n");
}

static void test_a_server_that_does_not_follow_is_left_alone(void **state)
{
        struct rig *rig = *state;

        start(rig, "550.163.01", "on get_active_thread_percentage: answer 33.3\n");
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_ask(rig, GPU_A,
                "set_default_active_thread_percentage 90"); /* that this is set back tells that all goes on */
        expect_repair(rig, "default active thread percentage: 90.0 instead", "get_default_active_thread_percentage",
                "25.0\n");
        rig_ask(rig, GPU_A, "set_default_device_pinned_mem_limit 0 0G");
        rig_wait(rig, was_repaired, "default memory limit", "the memory limit is set back");
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->repairs, 2); /* of the server nothing */
}

static void test_a_default_that_cannot_be_set_back_ends_the_serving(void **state)
{
        struct rig *rig = *state;

        start(rig, "550.163.01", "");
        rig_behave(rig, "version: 550\non get_default_active_thread_percentage: answer 90.0\n");
        rig_wait_for_state(rig, GPU_A, MPS_FAULT);
        assert_non_null(strstr(rig_status(rig, GPU_A)->reason, "25.0 was set, its control daemon reports 90.0"));
}

static void start_interface_3(struct rig *rig)
{
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);

        daemon.provisioning = PROVISIONING_HALF;
        daemon.threads_permille = 700;
        rig_drive(rig, "615.10.01", "", "");
        rig_behave(rig, "version: 615\n");
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_NAMESPACE);
}

/* With NVIDIA's program, as a person would. */
static void run_control(struct rig *rig, const char *arguments)
{
        assert_int_equal(system(rig_path(rig, /* NOLINT(cert-env33-c) */
                                 "export CUDA_MPS_PIPE_DIRECTORY=%s/" GPU_A "/pipe WARPSHARE_MPS_SIM=%s/mps.sim; "
                                 "until %s/nvidia-cuda-mps-control %s >%s/said 2>&1; do sleep 0.01; done",
                                 rig->mps, rig->root, getenv("WARPSHARE_MPS_SIM_BIN"), arguments, rig->root)),
                0);
}

static void test_a_server_of_interface_3_is_set_back(void **state)
{
        struct rig *rig = *state;

        start_interface_3(rig);
        run_control(rig, rig_path(rig, "server set uid_%u --active-thread-percentage=95", geteuid()));
        rig_wait(rig, was_repaired, "95", "the server is set back");
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
}

static void on_granted(const struct error *err, const struct mps_allocation *allocation UNUSED, void *data)
{
        assert_null(err);
        *(bool *)data = true;
}

static bool is_true(struct rig *rig UNUSED, const void *data)
{
        return *(const bool *)data;
}

static void make_namespace(struct rig *rig, const char *id)
{
        const struct mps_allocation_request request = {
                .id = id, .daemon = GPU_A, .unit = GPU_A, .threads_permille = 500, .limit_mib = 2048};
        bool is_there = false;

        mps_allocations_make(mps_supervisor_allocations(rig->supervisor), &request, on_granted, &is_there);
        rig_wait(rig, is_true, &is_there, "the grant is answered");
}

static void expect_field(struct rig *rig, const char *id, const char *field, const char *expected)
{
        run_control(rig, rig_path(rig, "namespace get %s uid_%u %s", id, geteuid(), field));
        assert_string_equal(rig_read(rig, rig_path(rig, "%s/said", rig->root)), expected);
}

static void test_the_limits_of_a_namespace_are_set_back(void **state)
{
        struct rig *rig = *state;

        start_interface_3(rig);
        make_namespace(rig, "g1");
        make_namespace(rig, "g2");
        run_control(rig, rig_path(rig, "namespace set g2 --server=uid_%u --active-thread-percentage=95", geteuid()));
        rig_wait(rig, was_repaired,
                "active thread percentage of its namespace g2: 95.0 instead of 50.0 %; they were restored",
                "the percentage is set back");
        expect_field(rig, "g2", "active-thread-percentage", "50.00\n");
        run_control(rig, rig_path(rig, "namespace set g1 --server=uid_%u --pinned-memory-limit=30G", geteuid()));
        rig_wait(rig, was_repaired, "memory limit of its namespace g1: 30720 instead of 2048 MiB; they were restored",
                "the limit is set back");
        expect_field(rig, "g1", "pinned-memory-limit", "2048M\n");
        assert_int_equal(rig_status(rig, GPU_A)->repairs, 2);
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
}

static bool has_notice(struct rig *rig, const void *data)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status->notice && strstr(status->notice, data);
}

static void test_a_namespace_that_keeps_its_old_limit_is_reported_and_the_others_are_served(void **state)
{
        struct rig *rig = *state;

        start_interface_3(rig);
        make_namespace(rig, "g1");
        rig_behave(
                rig, rig_path(rig, "version: 615\non namespace list: answer g1,uid_%u,Ready,9G,50,-,/x\n", geteuid()));
        rig_wait(rig, has_notice, "memory limit of its namespace g1: 9216 instead of 2048 MiB; they cannot be restored",
                "it is told");
        rig_behave(rig, "version: 615\n");
        make_namespace(rig, "g2");
        assert_int_equal(rig_status(rig, GPU_A)->repairs, 0);
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_changed_default_percentage_is_set_back_and_reported),
                TEST(test_a_changed_default_memory_limit_is_set_back_and_reported),
                TEST(test_what_a_live_server_allows_is_set_back),
                TEST(test_a_server_that_does_not_follow_is_left_alone),
                TEST(test_a_default_that_cannot_be_set_back_ends_the_serving),
                TEST(test_a_server_of_interface_3_is_set_back),
                TEST(test_the_limits_of_a_namespace_are_set_back),
                TEST(test_a_namespace_that_keeps_its_old_limit_is_reported_and_the_others_are_served),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
