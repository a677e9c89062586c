// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon for two GPUs of which one cannot be used: it serves with the other, and takes in what has come back when it
 * has no clients.
 */
#include "supervisor_rig.h"

#include <signal.h>
#include <string.h>

#define TEST(name) cmocka_unit_test_setup_teardown((name), rig_set_up, rig_tear_down)
#define NAME "nvidia.com/gpu"

static const char *const second = GPU_B;

/* The second GPU is away, or has that limit. */
static void apply(struct rig *rig, bool is_away, uint64_t limit_mib)
{
        const struct mps_daemon_wanted each[] = {rig_daemon(rig, GPU_A, 8192), rig_daemon(rig, GPU_B, limit_mib)};
        struct mps_unit *units = ARENA_ARRAY(&rig->arena, struct mps_unit, 2);
        struct mps_daemon_wanted wanted = each[0];

        units[0] = *each[0].units;
        units[1] = *each[1].units;
        wanted.name = NAME;
        wanted.units = units;
        wanted.n_units = is_away ? 1 : 2;
        wanted.away = &second;
        wanted.n_away = is_away;
        rig_apply(rig, &wanted, 1);
}

static pid_t start(struct rig *rig, bool is_away)
{
        if (!rig->supervisor)
                rig_start(rig);
        apply(rig, is_away, 1024);
        rig_wait_for_state(rig, NAME, MPS_READY);
        return rig_status(rig, NAME)->pid;
}

/* It has been looked at, and nothing has happened to it. */
static void assert_untouched(struct rig *rig, pid_t pid, size_t n_units)
{
        rig_run_for(rig, 300);
        assert_int_equal(rig_status(rig, NAME)->state, MPS_READY);
        assert_int_equal(rig_status(rig, NAME)->pid, pid);
        assert_int_equal(rig_status(rig, NAME)->n_units, n_units);
}

static void assert_has_both(struct rig *rig)
{
        assert_int_equal(rig_status(rig, NAME)->n_units, 2);
        assert_null(rig_status(rig, NAME)->notice);
        assert_string_equal(rig_ask(rig, NAME, "get_default_device_pinned_mem_limit 0"), "8G\n");
        assert_string_equal(rig_ask(rig, NAME, "get_default_device_pinned_mem_limit 1"), "1G\n");
}

static bool has_notice(struct rig *rig, const void *data UNUSED)
{
        return rig_status(rig, NAME)->notice != NULL;
}

static void test_what_was_away_is_taken_in_when_the_last_client_has_left(void **state)
{
        struct rig *rig = *state;
        pid_t pid = start(rig, true);
        pid_t client = rig_client(rig, NAME, NULL);

        rig_wait_for_clients(rig, NAME, 1);
        assert_untouched(rig, pid, 1);
        apply(rig, false, 1024);
        rig_wait(rig, has_notice, NULL, "it says what it lacks");
        assert_string_equal(rig_status(rig, NAME)->notice,
                "it was started while " GPU_B " could not be used, and takes it in when it has no clients");
        assert_untouched(rig, pid, 1);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_another(rig, NAME, pid);
        assert_has_both(rig);
        assert_int_equal(rig_status(rig, NAME)->restarts, 0);
}

static void test_without_a_client_it_is_taken_in_at_once(void **state)
{
        struct rig *rig = *state;
        pid_t pid = start(rig, true);

        apply(rig, false, 1024);
        rig_wait_for_another(rig, NAME, pid);
        assert_has_both(rig);
}

static void test_what_goes_away_for_a_while_is_kept(void **state)
{
        struct rig *rig = *state;
        pid_t pid = start(rig, false);

        apply(rig, true, 0);
        assert_untouched(rig, pid, 2);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, NAME, MPS_READY);
        assert_untouched(rig, pid, 2);
        apply(rig, false, 1024);
        assert_untouched(rig, pid, 2);
        assert_has_both(rig);
}

static void test_what_was_away_comes_after_another_supervisor_too(void **state)
{
        struct rig *rig = *state;
        pid_t pid = start(rig, true);
        pid_t client = rig_client(rig, NAME, NULL);

        rig_wait_for_clients(rig, NAME, 1);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_clients(rig, NAME, 1);
        apply(rig, false, 1024);
        assert_untouched(rig, pid, 1);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_another(rig, NAME, pid);
        assert_has_both(rig);
}

static void test_another_limit_than_it_was_started_with_makes_it_drain(void **state)
{
        struct rig *rig = *state;
        pid_t pid = start(rig, false);
        pid_t client = rig_client(rig, NAME, NULL);

        rig_wait_for_clients(rig, NAME, 1);
        apply(rig, true, 0);
        assert_untouched(rig, pid, 2);
        apply(rig, false, 2048);
        rig_wait_for_state(rig, NAME, MPS_DRAINING);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_another(rig, NAME, pid);
        assert_string_equal(rig_ask(rig, NAME, "get_default_device_pinned_mem_limit 1"), "2G\n");
}

static void test_a_gpu_that_is_lost_for_good_is_left_out(void **state)
{
        struct rig *rig = *state;
        pid_t pid = start(rig, false);

        rig_drive(rig, "550.163.01", "", ", lost: true");
        rig_wait_for_state(rig, NAME, MPS_FAULT);
        apply(rig, true, 0);
        rig_wait_for_another(rig, NAME, pid);
        assert_untouched(rig, rig_status(rig, NAME)->pid, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_what_was_away_is_taken_in_when_the_last_client_has_left),
                TEST(test_without_a_client_it_is_taken_in_at_once),
                TEST(test_what_goes_away_for_a_while_is_kept),
                TEST(test_what_was_away_comes_after_another_supervisor_too),
                TEST(test_another_limit_than_it_was_started_with_makes_it_drain),
                TEST(test_a_gpu_that_is_lost_for_good_is_left_out),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
