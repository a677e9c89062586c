// SPDX-License-Identifier: Apache-2.0
/*
 * state.json is lost, or tells of earlier, while daemons run: none of them is forgotten, and none that has clients is
 * ended for it.
 */
#include "supervisor_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mps/supervisor/record.h"
#include "mps/supervisor/process.h"

#define TEST(name) cmocka_unit_test_setup_teardown((name), rig_set_up, rig_tear_down)
#define SHARED "nvidia.com/gpu"

/* The supervisor was killed meanwhile. */
static void restart_with(struct rig *rig, const char *record)
{
        const char *path = rig_path(rig, "%s/" MPS_RECORD_FILE, rig->mps);

        rig_leave(rig);
        if (record)
                rig_write(rig, path, record);
        else
                assert_int_equal(unlink(path), 0);
        rig_start(rig);
}

static bool waits_for_a(struct rig *rig, const void *name)
{
        const struct mps_daemon_status *status = rig_status(rig, name);

        return status && status->reason && strstr(status->reason, "it waits for the daemon '" GPU_A "' to end");
}

static bool has_ended(struct rig *rig UNUSED, const void *data)
{
        return process_start_time("", *(const pid_t *)data) == 0;
}

static struct mps_daemon_wanted shared_on(struct rig *rig, const char *uuid)
{
        struct mps_daemon_wanted shared = rig_daemon(rig, uuid, 8192);

        shared.name = SHARED;
        return shared;
}

/* ---- the record is lost ---- */

static void check_drains(struct rig *rig, const char *record)
{
        struct mps_daemon_wanted second;
        pid_t first;
        pid_t other;
        pid_t client;

        rig_start_both(rig);
        first = rig_status(rig, GPU_A)->pid;
        other = rig_status(rig, GPU_B)->pid;
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        restart_with(rig, record);
        second = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, &second, 1);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_wait_for_clients(rig, GPU_A, 1);
        assert_int_equal(rig_status(rig, GPU_A)->pid, first);
        assert_int_equal(rig_status(rig, GPU_A)->clients[0].pid, client);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_B)->pid, other);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_state(rig, GPU_A, MPS_OFF);
        rig_wait(rig, has_ended, &first, "its process has ended");
}

static void test_who_is_not_wanted_drains_though_the_record_is_gone(void **state)
{
        check_drains(*state, NULL);
}

static void test_who_is_not_wanted_drains_though_the_record_cannot_be_read(void **state)
{
        check_drains(*state, "{\"generation\": tr");
}

/* It is asked by interface 3, since it was started so. */
static void test_who_has_namespaces_drains_as_well(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);
        pid_t client;
        pid_t first;

        daemon.provisioning = PROVISIONING_HALF;
        rig_drive(rig, "615.10.01", "", "");
        rig_behave(rig, "version: 615\n");
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_NAMESPACE);
        first = rig_status(rig, GPU_A)->pid;
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        restart_with(rig, NULL);
        rig_apply(rig, NULL, 0);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_wait_for_clients(rig, GPU_A, 1);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_NAMESPACE);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->pid, first);
        rig_apply(rig, NULL, 0);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_end_client(rig, client, SIGTERM);
        rig_wait(rig, has_ended, &first, "its process has ended");
}

static void test_its_unit_waits_for_it(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted shared;
        pid_t client;

        rig_start_both(rig);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        restart_with(rig, NULL);
        shared = shared_on(rig, GPU_A);
        rig_apply(rig, &shared, 1);
        rig_wait(rig, waits_for_a, SHARED, "it waits for who has its unit");
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_state(rig, SHARED, MPS_READY);
        rig_wait_for_state(rig, GPU_A, MPS_OFF);
}

/* What is known of it are its units, before the supervisor is killed once more and after. */
static void test_who_is_wanted_after_all_goes_on(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted second;
        pid_t first;

        rig_start_both(rig);
        first = rig_status(rig, GPU_A)->pid;
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        restart_with(rig, NULL);
        second = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, &second, 1);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_apply(rig, &second, 1);
        restart_with(rig, NULL);
        rig_apply(rig, &second, 1);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->pid, first);
        assert_int_equal(rig_status(rig, GPU_A)->limit_mib, 8192);
        rig_wait_for_clients(rig, GPU_A, 1);
}

/* Nothing is ended before somebody has said what is wanted. */
static void test_until_it_is_known_what_is_wanted_all_go_on(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t other;

        rig_start_both(rig);
        first = rig_status(rig, GPU_A)->pid;
        other = rig_status(rig, GPU_B)->pid;
        restart_with(rig, NULL);
        rig_run_for(rig, 10 * rig->poll_ms);
        assert_int_not_equal(process_start_time("", first), 0);
        assert_int_not_equal(process_start_time("", other), 0);
}

static void test_the_end_of_the_supervisor_is_theirs(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t other;

        rig_start_both(rig);
        first = rig_status(rig, GPU_A)->pid;
        other = rig_status(rig, GPU_B)->pid;
        restart_with(rig, NULL);
        rig_close(rig);
        assert_int_equal(process_start_time("", first), 0);
        assert_int_equal(process_start_time("", other), 0);
}

/* ---- who is a daemon ---- */

struct finds {
        size_t count;
        pid_t a;
        pid_t b;
};

static void find(struct rig *rig, const char *root, const char *program, struct finds *finds)
{
        const struct process_found *found;
        const size_t count = process_find_daemons(root, program, &rig->arena, &found);

        for (size_t i = 0; i < count; i++) {
                finds->count++;
                if (strcmp(found[i].name, GPU_A) == 0 && strcmp(found[i].units, GPU_A) == 0)
                        finds->a = found[i].pid;
                if (strcmp(found[i].name, GPU_B) == 0 && strcmp(found[i].units, GPU_B) == 0)
                        finds->b = found[i].pid;
        }
}

/* Runs |program| with the pipe directory of a daemon and an input that does not end; |*ret_input|: its end. */
static pid_t run_there(struct rig *rig, const char *program, const char *name, const char *argument, int *ret_input)
{
        char *argv[] = {xstrdup(program), argument ? xstrdup(argument) : NULL, NULL};
        char *environment[] = {xasprintf("CUDA_MPS_PIPE_DIRECTORY=%s/%s/pipe", rig->mps, name),
                xasprintf("WARPSHARE_MPS_SIM=%s/mps.sim", rig->root), xstrdup("CUDA_VISIBLE_DEVICES=" GPU_A), NULL};
        int ends[2];
        pid_t pid;

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                dup2(ends[0], STDIN_FILENO);
                execve(program, argv, environment);
                _exit(127);
        }
        close(ends[0]);
        for (size_t i = 0; i < 3; i++)
                free(environment[i]);
        free(argv[0]);
        free(argv[1]);
        *ret_input = ends[1];
        return pid;
}

static bool runs_as(struct rig *rig UNUSED, const void *data)
{
        return process_has_variable(*(const pid_t *)data, "CUDA_VISIBLE_DEVICES", GPU_A);
}

/* Others have the same program, the same directory, or an argument like a daemon's: each only a part of it. */
static void test_a_daemon_is_known_by_program_directory_and_argument_together(void **state)
{
        struct rig *rig = *state;
        struct finds finds = {0};
        int inputs[2];
        pid_t others[2];

        rig_start_both(rig);
        others[0] = run_there(rig, rig->control, GPU_A, NULL, &inputs[0]); /* a front end */
        others[1] = run_there(rig, "/bin/cat", "other", "-", &inputs[1]);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                rig_wait(rig, runs_as, &others[i], "it runs");
        find(rig, rig->mps, rig->control, &finds);
        assert_int_equal(finds.count, 2);
        assert_int_equal(finds.a, rig_status(rig, GPU_A)->pid);
        assert_int_equal(finds.b, rig_status(rig, GPU_B)->pid);
        finds = (struct finds){0};
        find(rig, "/bin", "/bin/cat", &finds);
        find(rig, rig->root, rig->control, &finds); /* "mps/<name>" */
        find(rig, rig_path(rig, "%s/m", rig->root), rig->control, &finds);
        assert_true(finds.count == 2 && !finds.a && !finds.b);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                assert_int_not_equal(process_start_time("", others[i]), 0);
                kill(others[i], SIGKILL);
                waitpid(others[i], NULL, 0);
                close(inputs[i]);
        }
}

static void test_settings_are_guessed_from_what_a_supervisor_starts_with(void **state UNUSED)
{
        static const struct {
                const char *name;
                const char *units;
                size_t count;
        } cases[] = {
                {GPU_A, GPU_A, 1},
                {SHARED, GPU_A "," GPU_B, 2},
                {"MIG-1", "MIG-GPU-1/1/0", 1},
                {GPU_A, "", 0},
                {GPU_A, GPU_A ",", 0},
                {GPU_A, "0,1;2", 0},
                {"../" GPU_A, GPU_A, 0},
                {"", GPU_A, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct mps_daemon_wanted guess;

                assert_int_equal(mps_guess(&guess, &arena, cases[i].name, cases[i].units), cases[i].count > 0);
                if (!cases[i].count)
                        continue;
                assert_true(mps_guess_is(&guess));
                assert_string_equal(guess.name, cases[i].name);
                assert_int_equal(guess.n_units, cases[i].count);
        }
}

static void test_a_guess_fits_what_has_the_same_units(void **state)
{
        struct rig *rig = *state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct mps_daemon_wanted a = rig_daemon(rig, GPU_A, 8192);
        const struct mps_daemon_wanted b = rig_daemon(rig, GPU_B, 8192);
        struct mps_daemon_wanted guess;

        assert_false(mps_guess_is(&a));
        assert_true(mps_guess(&guess, &arena, GPU_A, GPU_A));
        assert_true(mps_guess_fits(&guess, &a));
        assert_false(mps_guess_fits(&guess, &b));
        assert_true(mps_guess(&guess, &arena, GPU_A, GPU_A "," GPU_B));
        assert_false(mps_guess_fits(&guess, &a));
}

/* ---- the record is of earlier, since it could not be written ---- */

static void test_who_started_after_the_record_was_written_keeps_its_unit(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted both[2];
        struct mps_daemon_wanted shared;
        const char *before;
        pid_t client;
        pid_t first;

        shared = shared_on(rig, GPU_A);
        rig_start(rig);
        rig_apply(rig, &shared, 1);
        rig_wait_for_state(rig, SHARED, MPS_READY);
        before = rig_read(rig, rig_path(rig, "%s/" MPS_RECORD_FILE, rig->mps));
        both[0] = rig_daemon(rig, GPU_A, 8192);
        both[1] = shared_on(rig, GPU_B);
        rig_apply(rig, both, 2);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, SHARED, MPS_READY);
        first = rig_status(rig, GPU_A)->pid;
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        restart_with(rig, before);
        rig_wait(rig, waits_for_a, SHARED, "what is wanted by the record waits for who has the unit");
        rig_apply(rig, both, 2);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, SHARED, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->pid, first);
        rig_wait_for_clients(rig, GPU_A, 1);
        assert_int_equal(rig_status(rig, GPU_A)->clients[0].pid, client);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_who_is_not_wanted_drains_though_the_record_is_gone),
                TEST(test_who_is_not_wanted_drains_though_the_record_cannot_be_read),
                TEST(test_who_has_namespaces_drains_as_well),
                TEST(test_its_unit_waits_for_it),
                TEST(test_who_is_wanted_after_all_goes_on),
                TEST(test_until_it_is_known_what_is_wanted_all_go_on),
                TEST(test_the_end_of_the_supervisor_is_theirs),
                TEST(test_a_daemon_is_known_by_program_directory_and_argument_together),
                cmocka_unit_test(test_settings_are_guessed_from_what_a_supervisor_starts_with),
                TEST(test_a_guess_fits_what_has_the_same_units),
                TEST(test_who_started_after_the_record_was_written_keeps_its_unit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
