// SPDX-License-Identifier: Apache-2.0
#include "supervisor_rig.h"
#include "user.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/nvml.h"
#include "mps/supervisor/process.h"

#define TEST(name) cmocka_unit_test_setup_teardown((name), rig_set_up, rig_tear_down)

static pid_t pid_of(struct rig *rig, const char *name)
{
        const struct mps_daemon_status *status = rig_status(rig, name);

        assert_non_null(status);
        return status->pid;
}

/* What happened to the first daemon was nothing to the second. */
static void assert_untouched(struct rig *rig, pid_t pid)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_B);

        assert_int_equal(status->state, MPS_READY);
        assert_int_equal(status->pid, pid);
        assert_int_equal(status->restarts, 0);
}

struct reason {
        const char *name;
        const char *part;
        bool is_notice;
};

static bool says(struct rig *rig, const void *data)
{
        const struct reason *reason = data;
        const struct mps_daemon_status *status = rig_status(rig, reason->name);
        const char *text = status ? (reason->is_notice ? status->notice : status->reason) : NULL;

        return text && strstr(text, reason->part);
}

static void wait_for_reason(struct rig *rig, const char *name, const char *part)
{
        const struct reason reason = {name, part, false};

        rig_wait(rig, says, &reason, rig_path(rig, "%s says: %s", name, part));
}

static void wait_for_notice(struct rig *rig, const char *name, const char *part)
{
        const struct reason reason = {name, part, true};

        rig_wait(rig, says, &reason, rig_path(rig, "%s notes: %s", name, part));
}

/* ---- from start to end ---- */

static void test_wanted_daemons_become_ready_with_their_limits(void **state)
{
        struct rig *rig = *state;
        const struct mps_daemon_status *status;

        rig_start_both(rig);
        status = rig_status(rig, GPU_B);
        assert_null(status->reason);
        assert_int_equal(status->limit_mib, 1630);
        assert_int_equal(status->threads_permille, 250);
        assert_int_equal(status->restarts, 0);
        assert_false(status->adopted);
        assert_string_equal(status->units[0], GPU_B);
        assert_true(status->can & MPS_CAN_SERVER_STATUS);
        assert_string_equal(rig_ask(rig, GPU_B, "get_default_active_thread_percentage"), "25.0\n");
        assert_string_equal(rig_ask(rig, GPU_A, "get_default_device_pinned_mem_limit 0"), "8G\n");
        assert_int_equal(access(rig_path(rig, "%s/%s/.started", rig->mps, GPU_A), F_OK), 0);
        rig_close(rig);
        assert_int_not_equal(access(rig_path(rig, "%s/%s/.started", rig->mps, GPU_A), F_OK), 0);
        assert_string_equal(rig_ask(rig, GPU_A, "get_server_list"), "Cannot find MPS control daemon process\n");
}

static void test_a_limit_is_set_and_read_back_by_one_front_end(void **state)
{
        struct rig *rig = *state;
        const char *log;
        const char *set;
        const char *read;
        const char *next;

        rig_start_both(rig);
        log = rig_read(rig, rig_path(rig, "%s/" GPU_A "/log/control.log", rig->mps));
        set = strstr(log, "Cmd:set_default_device_pinned_mem_limit 0");
        assert_non_null(set);
        read = strstr(set, "Cmd:get_default_device_pinned_mem_limit 0");
        next = strstr(set, "NEW UI");
        assert_true(read && (!next || read < next));
}

static void test_folders_can_be_walked_by_any_user_whatever_the_umask(void **state)
{
        struct rig *rig = *state;
        const mode_t before = umask(077);
        struct stat status;

        rig_start_both(rig);
        umask(before);
        assert_int_equal(stat(rig_path(rig, "%s/%s/pipe", rig->mps, GPU_A), &status), 0);
        assert_int_equal(status.st_mode & 07777, 0755);
        assert_int_equal(stat(rig->mps, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0755);
}

static void test_what_cannot_be_is_refused_and_changes_nothing(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted daemons[2] = {rig_daemon(rig, GPU_A, 8192), rig_daemon(rig, GPU_A, 8192)};
        struct mps_wanted wanted = {daemons, 2};
        struct error err;

        rig_start(rig);
        assert_fails(mps_supervisor_apply(rig->supervisor, &wanted, 1, &err), &err, ERROR_INVALID,
                "MPS daemon '" GPU_A "' is wanted twice");
        daemons[0].name = "nvidia.com/gpu-with-a-name-that-nobody-would-choose-for-a-resource";
        wanted.n_daemons = 1;
        assert_int_equal(mps_supervisor_apply(rig->supervisor, &wanted, 1, &err), -1);
        assert_non_null(strstr(err.text, "choose a shorter MPS root"));
        assert_int_equal(mps_supervisor_status(rig->supervisor)->n_daemons, 0);
}

static void test_a_daemon_that_is_no_longer_wanted_ends_with_its_last_client(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted second;
        pid_t client;
        pid_t other;

        rig_start_both(rig);
        other = pid_of(rig, GPU_B);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        second = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, &second, 1);
        wait_for_reason(rig, GPU_A, "it waits for its 1 clients to end, then it ends");
        assert_int_equal(kill(client, 0), 0);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_state(rig, GPU_A, MPS_OFF);
        assert_untouched(rig, other);
}

static void test_other_settings_come_when_the_last_client_has_left(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted daemons[2];
        pid_t client;
        pid_t first;
        pid_t other;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        other = pid_of(rig, GPU_B);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        daemons[0] = rig_daemon(rig, GPU_A, 4096);
        daemons[1] = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, daemons, 2);
        wait_for_reason(rig, GPU_A, "then it restarts with other settings");
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_another(rig, GPU_A, first);
        assert_int_equal(rig_status(rig, GPU_A)->limit_mib, 4096);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
        assert_untouched(rig, other);
}

static void test_the_old_settings_again_leave_the_daemon_as_it_is(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted daemons[2];
        pid_t first;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        daemons[0] = rig_daemon(rig, GPU_A, 4096);
        daemons[1] = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, daemons, 2);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(pid_of(rig, GPU_A), first);
        rig_wait_for_clients(rig, GPU_A, 1);
}

/* A GPU has one daemon: the next one waits for the end of the one before. */
static void test_a_unit_changes_its_daemon_only_when_it_is_free(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted shared;
        pid_t client;

        rig_start_both(rig);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        shared = rig_daemon(rig, GPU_A, 8192);
        shared.name = "nvidia.com/gpu";
        rig_apply(rig, &shared, 1);
        wait_for_reason(rig, "nvidia.com/gpu", "it waits for the daemon '" GPU_A "' to end");
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_state(rig, "nvidia.com/gpu", MPS_READY);
        rig_wait_for_state(rig, GPU_A, MPS_OFF);
}

/* ---- faults ---- */

static void test_a_daemon_that_is_killed_is_started_again(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t other;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        other = pid_of(rig, GPU_B);
        kill(first, SIGKILL);
        wait_for_reason(rig, GPU_A, "its control daemon was ended by signal 9 (Killed)");
        rig_wait_for_another(rig, GPU_A, first);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 1);
        assert_string_equal(rig_ask(rig, GPU_A, "get_default_device_pinned_mem_limit 0"), "8G\n");
        assert_untouched(rig, other);
}

static void test_a_daemon_that_hangs_is_replaced_with_its_server(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t server;
        pid_t other;

        rig->command_ms = 2000;
        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        other = pid_of(rig, GPU_B);
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        server = rig_status(rig, GPU_A)->servers[0].pid;
        kill(first, SIGSTOP);
        wait_for_reason(rig, GPU_A, "did not answer within 2000 ms");
        rig_wait_for_another(rig, GPU_A, first);
        assert_int_equal(process_start_time("", first), 0);
        assert_int_equal(process_start_time("", server), 0); /* a zombie perhaps: it had no parent left */
        assert_untouched(rig, other);
}

static void test_a_server_that_is_killed_is_not_the_daemons_end(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t client;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        kill(rig_status(rig, GPU_A)->servers[0].pid, SIGKILL);
        rig_wait_for_clients(rig, GPU_A, 0);
        rig_end_client(rig, client, SIGKILL);
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        assert_int_equal(pid_of(rig, GPU_A), first);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static void test_a_server_in_fault_recovers_when_its_clients_have_left(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t guilty;
        pid_t innocent;
        pid_t other;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        other = pid_of(rig, GPU_B);
        innocent = rig_client(rig, GPU_A, "--stubborn");
        guilty = rig_client(rig, GPU_A, "--stubborn");
        rig_wait_for_clients(rig, GPU_A, 2);
        kill(guilty, SIGUSR1);
        rig_wait_for_state(rig, GPU_A, MPS_FAULT);
        wait_for_reason(rig, GPU_A, "its server is in FAULT");
        rig_end_client(rig, guilty, SIGTERM);
        rig_end_client(rig, innocent, SIGTERM);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(pid_of(rig, GPU_A), first);
        assert_untouched(rig, other);
}

static void test_a_server_that_stays_in_fault_without_clients_is_shut_down(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t client;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_behave(rig, "on get_server_status: answer FAULT\n");
        rig_wait_for_state(rig, GPU_A, MPS_FAULT);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->n_servers, 0);
        assert_int_equal(pid_of(rig, GPU_A), first);
}

static void test_an_end_waits_for_clients_no_longer_than_its_grace(void **state)
{
        struct rig *rig = *state;
        pid_t daemon;

        rig_start_both(rig);
        daemon = pid_of(rig, GPU_A);
        rig_client(rig, GPU_A, "--stubborn");
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_close(rig);
        assert_int_equal(process_start_time("", daemon), 0);
}

static void test_a_value_that_reads_back_otherwise_is_a_fault_with_both(void **state)
{
        struct rig *rig = *state;

        rig_behave(rig, "on set_default_device_pinned_mem_limit: ignore\n");
        rig_start(rig);
        rig_apply_both(rig);
        wait_for_reason(rig, GPU_A, "memory limit of " GPU_A ": 8192 MiB were set, its control daemon reports 0 MiB");
        rig_behave(rig, "");
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
}

static void test_a_pipe_directory_that_is_gone_is_made_again(void **state)
{
        struct rig *rig = *state;
        const char *pipe = rig_path(rig, "%s/%s/pipe", rig->mps, GPU_A);
        pid_t first;
        pid_t other;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        other = pid_of(rig, GPU_B);
        assert_int_equal(rename(pipe, rig_path(rig, "%s/elsewhere", rig->root)), 0);
        wait_for_reason(
                rig, GPU_A, "containers that were started before have the old one mounted and must be restarted");
        rig_wait_for_another(rig, GPU_A, first);
        assert_int_equal(access(pipe, F_OK), 0);
        assert_int_equal(kill(first, 0), -1);
        assert_untouched(rig, other);
}

static void test_a_missing_program_is_named_and_found_later(void **state)
{
        struct rig *rig = *state;
        const char *real = rig->control;

        rig->control = rig_path(rig, "%s/nvidia-cuda-mps-control", rig->root);
        rig_start(rig);
        rig_apply_both(rig);
        wait_for_reason(rig, GPU_A, rig_path(rig, "MPS control program: there is no '%s'", rig->control));
        rig_write(rig, rig->control, "");
        chmod(rig->control, 0644);
        wait_for_reason(rig, GPU_A, "is no program that may be executed");
        unlink(rig->control);
        assert_int_equal(symlink(real, rig->control), 0);
        assert_int_equal(symlink(rig_path(rig, "%s/nvidia-cuda-mps-server", getenv("WARPSHARE_MPS_SIM_BIN")),
                                 rig_path(rig, "%s/nvidia-cuda-mps-server", rig->root)),
                0);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static void test_a_daemon_that_ends_at_once_says_why(void **state)
{
        struct rig *rig = *state;

        rig_behave(rig, "daemon: exits 7\n");
        rig_start(rig);
        rig_apply_both(rig);
        wait_for_reason(rig, GPU_A, "its control daemon ended with status 7");
        rig_behave(rig, "");
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static void test_an_option_that_the_program_does_not_know_is_left_out(void **state)
{
        struct rig *rig = *state;

        if (geteuid() != 0)
                skip(); /* only root's daemon is started for many users */
        rig_drive(rig, "580.105.08", "", "");
        rig_behave(rig, "version: 550\n");
        rig_start_both(rig);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
        assert_false(rig_status(rig, GPU_A)->can & MPS_CAN_MULTI_USER);
        rig_close(rig);
        rig_behave(rig, "version: 580\n");
        rig_start_both(rig);
        assert_true(rig_status(rig, GPU_A)->can & MPS_CAN_MULTI_USER);
}

static void test_a_client_of_another_user_is_explained(void **state)
{
        struct rig *rig = *state;
        pid_t first;

        if (!user_can_be(12345))
                skip(); /* only root can be somebody else */
        rig_start_both(rig);
        chmod(rig->root, 0755);
        first = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_client(rig, GPU_A, "--uid=12345");
        wait_for_notice(rig, GPU_A, "of user 12345 waits: the server belongs to user 0");
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        rig_end_client(rig, first, SIGTERM);
        rig_wait_for_clients(rig, GPU_A, 1);
}

static void test_a_lost_gpu_is_a_fault_until_it_is_back(void **state)
{
        struct rig *rig = *state;
        pid_t other;

        rig_start_both(rig);
        other = pid_of(rig, GPU_B);
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_drive(rig, "550.163.01", ", lost: true", "");
        wait_for_reason(rig, GPU_A, "GPU_IS_LOST");
        rig_drive(rig, "550.163.01", "", "");
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_untouched(rig, other);
}

static bool has_no_process(struct rig *rig, const void *name)
{
        const struct mps_daemon_status *status = rig_status(rig, name);

        return status->state == MPS_FAULT && status->pid == 0 && status->reason &&
               strstr(status->reason, "GPU_IS_LOST");
}

/* Nobody computes on the node, so no call of CUDA tells it. */
static void lose_under_an_idle_daemon(struct rig *rig, const char *how)
{
        const pid_t first = pid_of(rig, GPU_A);
        const pid_t other = pid_of(rig, GPU_B);

        rig_drive(rig, "550.163.01", how, "");
        rig_wait(rig, has_no_process, GPU_A, "the daemon of the lost GPU is ended, and not started again");
        assert_true(kill(first, 0) < 0);
        rig_drive(rig, "550.163.01", "", "");
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_untouched(rig, other);
}

static void test_a_gpu_that_is_lost_under_an_idle_daemon_ends_it_until_it_is_back(void **state)
{
        struct rig *rig = *state;

        rig_start_both(rig);
        lose_under_an_idle_daemon(rig, ", lost: true");
        /* Where a driver cannot list the processes of MPS, something else has to tell. */
        rig_drive(rig, "550.163.01", ", errors: {nvmlDeviceGetMPSComputeRunningProcesses: NOT_SUPPORTED}", "");
        lose_under_an_idle_daemon(rig,
                ", errors: {nvmlDeviceGetMPSComputeRunningProcesses: NOT_SUPPORTED, nvmlDeviceGetMemoryInfo: GPU_IS_LOST, "
                "nvmlDeviceGetComputeMode: GPU_IS_LOST}");
}

/* ---- without the supervisor ---- */

static void test_a_daemon_outlives_the_supervisor_and_is_adopted(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t other;
        pid_t client;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        other = pid_of(rig, GPU_B);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_leave(rig);
        rig_start(rig); /* what is wanted is on record */
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
        assert_int_equal(pid_of(rig, GPU_A), first);
        assert_true(rig_status(rig, GPU_A)->adopted);
        rig_wait_for_clients(rig, GPU_A, 1);
        assert_int_equal(rig_status(rig, GPU_A)->clients[0].pid, client);
        assert_untouched(rig, other);
        kill(first, SIGKILL);
        rig_wait_for_another(rig, GPU_A, first);
        assert_false(rig_status(rig, GPU_A)->adopted);
}

static void test_without_a_record_a_daemon_is_found_by_its_lock(void **state)
{
        struct rig *rig = *state;
        pid_t first;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        rig_leave(rig);
        rig_write(rig, rig_path(rig, "%s/state.json", rig->mps), "{\"generation\": tr");
        rig_start(rig);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(pid_of(rig, GPU_A), first);
        assert_true(rig_status(rig, GPU_A)->adopted);
}

static bool has_memory(struct rig *rig, const void *name)
{
        return rig_status(rig, name)->clients[0].memory == UINT64_C(500) << 20;
}

/* It says that both are there still. */
static void test_a_look_needs_no_daemon_to_see_which_clients_have_ended(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t second;

        rig->command_ms = 60000;
        rig_start_both(rig);
        first = rig_client(rig, GPU_A, NULL);
        second = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 2);
        kill(pid_of(rig, GPU_A), SIGSTOP);
        rig_run_for(rig, 2 * rig->poll_ms); /* what is asked now has no answer */
        rig_end_client(rig, first, SIGKILL);
        mps_supervisor_look(rig->supervisor);
        assert_int_equal(rig_status(rig, GPU_A)->n_clients, 1);
        assert_int_equal(rig_status(rig, GPU_A)->clients[0].pid, second);
        kill(pid_of(rig, GPU_A), SIGCONT);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_clients(rig, GPU_A, 1);
}

static void test_what_stays_as_it_is_is_reported_once(void **state)
{
        struct rig *rig = *state;
        unsigned int changes;

        rig_start_both(rig);
        rig_client(rig, GPU_A, "--memory=500");
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_wait(rig, has_memory, GPU_A, "its memory is known");
        rig_run_for(rig, 10 * rig->poll_ms); /* what else was begun has ended */
        changes = rig->changes;
        rig_run_for(rig, 20 * rig->poll_ms);
        assert_int_equal(rig->changes, changes);
}

static void test_a_look_without_descriptors_takes_no_client_for_ended(void **state)
{
        struct rig *rig = *state;
        struct rlimit before;
        struct rlimit none;

        rig_start_both(rig);
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        getrlimit(RLIMIT_NOFILE, &before);
        none = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
        mps_supervisor_look(rig->supervisor);
        setrlimit(RLIMIT_NOFILE, &before);
        assert_int_equal(rig_status(rig, GPU_A)->n_clients, 1);
}

/* A client that starts in that moment keeps what it finds. */
static void test_an_adopted_daemon_has_its_limits_all_the_time(void **state)
{
        struct rig *rig = *state;
        const char *log;

        rig_start_both(rig);
        rig_leave(rig);
        rig_write(rig, rig_path(rig, "%s/state.json", rig->mps), "{\"generation\": tr");
        rig_start(rig);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        log = rig_read(rig, rig_path(rig, "%s/%s/log/control.log", rig->mps, GPU_A));
        for (const char *at = log; (at = strstr(at, "Cmd:set_default_device_pinned_mem_limit "));) {
                at += strlen("Cmd:set_default_device_pinned_mem_limit ");
                if (strncmp(at, "0 8192M\n", strlen("0 8192M\n")) != 0)
                        fail_msg("a limit was set that is nobody's: %.10s", at);
        }
}

/* So that a daemon that is adopted has not to be asked again. */
static bool has_skills_on_file(struct rig *rig, const void *data UNUSED)
{
        const char *text = rig_read(rig, rig_path(rig, "%s/state.json", rig->mps));
        size_t count = 0;

        for (const char *at = text; (at = strstr(at, "\"can\": ")); at++)
                if (strncmp(at, "\"can\": 0", strlen("\"can\": 0")) != 0)
                        count++;
        return count == 2;
}

static void test_what_a_daemon_can_is_on_file_when_it_is_ready(void **state)
{
        struct rig *rig = *state;

        rig_start_both(rig);
        rig_wait(rig, has_skills_on_file, NULL, "what both can is on file");
}

static void test_a_daemon_that_died_meanwhile_is_started_again(void **state)
{
        struct rig *rig = *state;
        pid_t first;

        rig_start_both(rig);
        first = pid_of(rig, GPU_A);
        rig_leave(rig);
        kill(first, SIGKILL);
        waitpid(first, NULL, 0);
        rig_start(rig);
        rig_wait_for_another(rig, GPU_A, first);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
        assert_true(rig_status(rig, GPU_B)->adopted);
}

static bool has_ended(struct rig *rig UNUSED, const void *data)
{
        return process_start_time("", *(const pid_t *)data) == 0;
}

/* It would keep the GPU, and nobody would know it. */
static void test_the_server_of_a_daemon_that_died_meanwhile_is_ended(void **state)
{
        struct rig *rig = *state;
        pid_t first;
        pid_t server;
        pid_t other;

        rig_start_both(rig);
        rig_client(rig, GPU_A, NULL);
        rig_client(rig, GPU_B, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_wait_for_clients(rig, GPU_B, 1);
        first = pid_of(rig, GPU_A);
        server = rig_status(rig, GPU_A)->servers[0].pid;
        other = rig_status(rig, GPU_B)->servers[0].pid;
        rig_leave(rig);
        kill(first, SIGKILL);
        waitpid(first, NULL, 0);
        assert_int_not_equal(process_start_time("", server), 0);
        rig_start(rig);
        rig_wait_for_another(rig, GPU_A, first);
        rig_wait(rig, has_ended, &server, "the server that was left is ended");
        rig_wait_for_state(rig, GPU_B, MPS_READY);
        assert_int_not_equal(process_start_time("", other), 0); /* its daemon is there */
}

static void test_an_adopted_daemon_that_is_no_longer_wanted_drains(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted second;
        pid_t client;

        rig_start_both(rig);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        rig_leave(rig);
        rig_start(rig);
        second = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, &second, 1);
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        rig_leave(rig);
        rig_start(rig); /* it is on record only as a process now */
        rig_wait_for_state(rig, GPU_A, MPS_DRAINING);
        assert_int_equal(kill(client, 0), 0);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_state(rig, GPU_A, MPS_OFF);
}

/* ---- daemons that are to end with their clients ---- */

static void end_clients(struct rig *rig)
{
        const struct mps_wanted nothing = {.ends_clients = true};
        struct error err;

        assert_ok(mps_supervisor_apply(rig->supervisor, &nothing, 2, &err), &err);
}

static void test_a_daemon_that_is_to_end_with_its_clients_does_so_after_the_grace(void **state)
{
        struct rig *rig = *state;
        pid_t client;

        rig_start_both(rig);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        end_clients(rig);
        rig_wait_for_state(rig, GPU_A, MPS_OFF);
        rig_wait_for_state(rig, GPU_B, MPS_OFF);
        rig_end_client(rig, client, SIGKILL);
}

static void test_within_the_grace_it_may_be_wanted_again_and_its_clients_notice_nothing(void **state)
{
        struct rig *rig = *state;
        pid_t client;
        pid_t daemon;

        rig->grace_ms = 600000;
        rig_start_both(rig);
        client = rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        daemon = pid_of(rig, GPU_A);
        end_clients(rig);
        rig_wait_for_state(rig, GPU_B, MPS_OFF);
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_DRAINING);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(pid_of(rig, GPU_A), daemon);
        assert_int_equal(kill(client, 0), 0);
}

/* ---- compute mode ---- */

static nvmlComputeMode_t mode_of(const char *uuid)
{
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
        nvmlDevice_t device;
        struct error err;

        assert_ok(nvml_open(&nvml, getenv("WARPSHARE_SIM_NVML"), "", &err), &err);
        assert_int_equal(NVML_CALL(nvml, device_get_by_uuid, uuid, &device), NVML_SUCCESS);
        assert_int_equal(NVML_CALL(nvml, device_get_compute_mode, device, &mode), NVML_SUCCESS);
        return mode;
}

static bool has_mode(struct rig *rig UNUSED, const void *data)
{
        return mode_of(GPU_A) == *(const nvmlComputeMode_t *)data;
}

static void test_the_compute_mode_is_exclusive_while_there_is_a_daemon(void **state)
{
        static const nvmlComputeMode_t before = NVML_COMPUTEMODE_DEFAULT;
        struct rig *rig = *state;
        struct mps_daemon_wanted second;

        rig->sets_compute_mode = true;
        rig_start_both(rig);
        assert_int_equal(mode_of(GPU_A), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        second = rig_daemon(rig, GPU_B, 1630);
        rig_apply(rig, &second, 1);
        rig_wait(rig, has_mode, &before, "the mode is put back");
        assert_int_equal(mode_of(GPU_B), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        rig_close(rig);
        assert_int_equal(mode_of(GPU_B), before);
}

static void test_a_crash_does_not_lose_the_compute_mode_from_before(void **state)
{
        static const nvmlComputeMode_t before = NVML_COMPUTEMODE_PROHIBITED;
        struct rig *rig = *state;
        struct mps_wanted nothing = {NULL, 0};
        struct error err;

        rig_drive(rig, "550.163.01", ", computeMode: prohibited", "");
        rig->sets_compute_mode = true;
        rig_start_both(rig);
        assert_int_equal(mode_of(GPU_A), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_ok(mps_supervisor_apply(rig->supervisor, &nothing, 2, &err), &err);
        rig_wait(rig, has_mode, &before, "the mode is put back");
}

/* Another's folder in the place of the record: it cannot be written, not by root either. */
static void block_record(struct rig *rig)
{
        assert_int_equal(mkdir(rig->mps, 0755) < 0 && errno != EEXIST, 0);
        unlink(rig_path(rig, "%s/state.json", rig->mps));
        assert_int_equal(mkdir(rig_path(rig, "%s/state.json", rig->mps), 0700), 0);
}

static bool has_record(struct rig *rig, const void *data)
{
        return strstr(rig_read(rig, rig_path(rig, "%s/state.json", rig->mps)), data) != NULL;
}

static void test_a_record_that_could_not_be_written_is_written_later(void **state)
{
        struct rig *rig = *state;

        rig_start_both(rig);
        block_record(rig);
        rig_apply_both(rig);
        rig_run_for(rig, 200);
        assert_int_equal(rmdir(rig_path(rig, "%s/state.json", rig->mps)), 0);
        rig_wait(rig, has_record, GPU_B, "the record is written after all");
}

/* One after the other on each GPU. */
static void test_memory_limits_of_containers_that_are_gone_are_forgotten_however_many_they_are(void **state)
{
        struct rig *rig = *state;
        _cleanup_(strbuf_done) struct strbuf record = STRBUF_INIT;

        strbuf_puts(&record, "{\"daemons\": [], \"containerLimits\": [");
        for (unsigned int i = 0; i < 300; i++)
                strbuf_printf(&record,
                        "%s{\"unit\": \"%s\", \"cgroup\": \"/gone/%u\", \"grant\": \"%u\", \"limitMib\": 1}",
                        i ? "," : "", i % 2 ? GPU_A : GPU_B, i, i);
        strbuf_puts(&record, "]}");
        assert_int_equal(mkdir(rig->mps, 0755) < 0 && errno != EEXIST, 0);
        rig_write(rig, rig_path(rig, "%s/state.json", rig->mps), record.data);
        rig_start(rig);
        rig_wait(rig, has_record, "\"containerLimits\": []", "none is on record");
}

/* A node that went down then would never have the mode from before again. */
static void test_a_compute_mode_that_cannot_be_put_on_file_stays_as_it_is(void **state)
{
        struct rig *rig = *state;

        block_record(rig);
        rig->sets_compute_mode = true;
        rig_start_both(rig);
        assert_int_equal(mode_of(GPU_A), NVML_COMPUTEMODE_DEFAULT);
        rig_close(rig); /* does not wait for a record that cannot be written */
        assert_int_equal(mode_of(GPU_A), NVML_COMPUTEMODE_DEFAULT);
        assert_int_equal(rmdir(rig_path(rig, "%s/state.json", rig->mps)), 0);
}

/* The mode is that of the MIG device's handle; its GPU keeps its own. */
static void test_a_mig_device_has_a_daemon_and_a_mode_of_its_own(void **state)
{
        static const char mig[] = "MIG-33333333-3333-3333-3333-333333333333";
        struct rig *rig = *state;
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 1024);
        struct mps_unit unit = daemon.units[0];

        rig_drive(rig, "550.163.01",
                ", mig: {devices: [{profile: 1g.5gb, uuid: MIG-33333333-3333-3333-3333-333333333333}]}", "");
        rig_behave(rig, "gpu: MIG-33333333-3333-3333-3333-333333333333 sms=14 memory=4864 cc=8\n");
        rig->sets_compute_mode = true;
        unit.uuid = mig;
        unit.is_mig = true;
        daemon.name = mig;
        daemon.units = &unit;
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, mig, MPS_READY);
        assert_int_equal(mode_of(mig), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        assert_int_equal(mode_of(GPU_A), NVML_COMPUTEMODE_DEFAULT);
        rig_client(rig, mig, NULL);
        rig_wait_for_clients(rig, mig, 1);
        assert_string_equal(rig_status(rig, mig)->clients[0].unit, mig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_wanted_daemons_become_ready_with_their_limits),
                TEST(test_a_limit_is_set_and_read_back_by_one_front_end),
                TEST(test_folders_can_be_walked_by_any_user_whatever_the_umask),
                TEST(test_what_cannot_be_is_refused_and_changes_nothing),
                TEST(test_a_daemon_that_is_no_longer_wanted_ends_with_its_last_client),
                TEST(test_other_settings_come_when_the_last_client_has_left),
                TEST(test_the_old_settings_again_leave_the_daemon_as_it_is),
                TEST(test_a_unit_changes_its_daemon_only_when_it_is_free),
                TEST(test_a_daemon_that_is_killed_is_started_again),
                TEST(test_a_daemon_that_hangs_is_replaced_with_its_server),
                TEST(test_a_server_that_is_killed_is_not_the_daemons_end),
                TEST(test_a_server_in_fault_recovers_when_its_clients_have_left),
                TEST(test_a_server_that_stays_in_fault_without_clients_is_shut_down),
                TEST(test_an_end_waits_for_clients_no_longer_than_its_grace),
                TEST(test_a_value_that_reads_back_otherwise_is_a_fault_with_both),
                TEST(test_a_pipe_directory_that_is_gone_is_made_again),
                TEST(test_a_missing_program_is_named_and_found_later),
                TEST(test_a_daemon_that_ends_at_once_says_why),
                TEST(test_an_option_that_the_program_does_not_know_is_left_out),
                TEST(test_a_client_of_another_user_is_explained),
                TEST(test_a_lost_gpu_is_a_fault_until_it_is_back),
                TEST(test_a_gpu_that_is_lost_under_an_idle_daemon_ends_it_until_it_is_back),
                TEST(test_a_daemon_outlives_the_supervisor_and_is_adopted),
                TEST(test_without_a_record_a_daemon_is_found_by_its_lock),
                TEST(test_a_look_needs_no_daemon_to_see_which_clients_have_ended),
                TEST(test_what_stays_as_it_is_is_reported_once),
                TEST(test_a_look_without_descriptors_takes_no_client_for_ended),
                TEST(test_an_adopted_daemon_has_its_limits_all_the_time),
                TEST(test_what_a_daemon_can_is_on_file_when_it_is_ready),
                TEST(test_a_daemon_that_died_meanwhile_is_started_again),
                TEST(test_the_server_of_a_daemon_that_died_meanwhile_is_ended),
                TEST(test_an_adopted_daemon_that_is_no_longer_wanted_drains),
                TEST(test_a_daemon_that_is_to_end_with_its_clients_does_so_after_the_grace),
                TEST(test_within_the_grace_it_may_be_wanted_again_and_its_clients_notice_nothing),
                TEST(test_the_compute_mode_is_exclusive_while_there_is_a_daemon),
                TEST(test_a_crash_does_not_lose_the_compute_mode_from_before),
                TEST(test_a_record_that_could_not_be_written_is_written_later),
                TEST(test_memory_limits_of_containers_that_are_gone_are_forgotten_however_many_they_are),
                TEST(test_a_compute_mode_that_cannot_be_put_on_file_stays_as_it_is),
                TEST(test_a_mig_device_has_a_daemon_and_a_mode_of_its_own),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
