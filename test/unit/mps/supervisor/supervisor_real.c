// SPDX-License-Identifier: Apache-2.0
/*
 * A supervisor over NVIDIA's own control daemon, as far as it goes without a GPU: no server starts, but daemons do,
 * take settings and answer. Skipped where the packages could not be had.
 */
#include "supervisor_rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The releases that there are. */
static char roots[4][256];
static size_t n_roots;

static void find_roots(void)
{
        const char *folders = getenv("WARPSHARE_REAL_MPS");

        while (folders && *folders && n_roots < 4) {
                const size_t length = strcspn(folders, ":");
                char program[320];

                snprintf(roots[n_roots], sizeof(roots[0]), "%.*s/root", (int)length, folders);
                snprintf(program, sizeof(program), "%s/usr/bin/nvidia-cuda-mps-control", roots[n_roots]);
                n_roots += access(program, X_OK) == 0;
                folders += length + (folders[length] == ':');
        }
}

static void choose(struct rig *rig, const char *root)
{
        rig->control = rig_path(rig, "%s/usr/bin/nvidia-cuda-mps-control", root);
        rig->driver_root = root;
}

/* Each test is for all releases: the rig is set up once and used again. */
static void for_each_release(void **state, void (*test)(struct rig *rig))
{
        struct rig *rig = *state;

        if (!n_roots)
                skip();
        for (size_t i = 0; i < n_roots; i++) {
                choose(rig, roots[i]);
                test(rig);
                rig_close(rig);
        }
}

static void become_ready(struct rig *rig)
{
        rig_start_both(rig);
        assert_int_equal(rig_status(rig, GPU_B)->limit_mib, 1630);
        assert_int_equal(rig_status(rig, GPU_B)->threads_permille, 250);
}

static void test_the_real_daemon_takes_its_settings(void **state)
{
        for_each_release(state, become_ready);
}

static void be_killed(struct rig *rig)
{
        pid_t first;

        rig_start_both(rig);
        first = rig_status(rig, GPU_A)->pid;
        kill(first, SIGKILL);
        rig_wait_for_another(rig, GPU_A, first);
}

static void test_the_real_daemon_is_started_again(void **state)
{
        for_each_release(state, be_killed);
}

static void be_adopted(struct rig *rig)
{
        pid_t first;
        pid_t second;

        rig_start_both(rig);
        first = rig_status(rig, GPU_A)->pid;
        second = rig_status(rig, GPU_B)->pid;
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->pid, first);
        rig_leave(rig);
        unlink(rig_path(rig, "%s/state.json", rig->mps)); /* found by the lock in its pipe directory */
        rig_start(rig);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->pid, first);
        assert_int_equal(rig_status(rig, GPU_B)->pid, second);
}

static void test_the_real_daemon_is_adopted_with_a_record_and_without(void **state)
{
        for_each_release(state, be_adopted);
}

static void get_unknown_options(struct rig *rig)
{
        rig_drive(rig, "590.44.01", "", ""); /* what the driver promises, this program does not know */
        rig_start_both(rig);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
        assert_false(rig_status(rig, GPU_A)->can & MPS_CAN_MULTI_USER);
}

static void test_the_real_program_is_started_without_the_options_that_it_does_not_know(void **state)
{
        for_each_release(state, get_unknown_options);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_real_daemon_takes_its_settings, rig_set_up, rig_tear_down),
                cmocka_unit_test_setup_teardown(test_the_real_daemon_is_started_again, rig_set_up, rig_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_real_daemon_is_adopted_with_a_record_and_without, rig_set_up, rig_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_real_program_is_started_without_the_options_that_it_does_not_know, rig_set_up,
                        rig_tear_down),
        };

        find_roots();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
