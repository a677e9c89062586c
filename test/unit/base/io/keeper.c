// SPDX-License-Identifier: Apache-2.0
#include "unit.h"
#include "user.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io/keeper.h"

#define NOBODY 65534

static void test_a_crash_is_followed_by_a_start_at_once_and_a_loop_of_them_by_ever_longer_waits(void **state UNUSED)
{
        static const int64_t waits[] = {0, 0, 0, 0, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};

        for (unsigned int i = 0; i < ARRAY_SIZE(waits); i++)
                assert_int_equal(keeper_wait_ms(i), waits[i]);
        assert_int_equal(keeper_wait_ms(UINT32_MAX), KEEPER_WAIT_MAX_MS);
}

static void test_a_parent_is_wanted_in_a_container_or_where_it_is_asked_for(void **state UNUSED)
{
        assert_true(keeper_is_wanted("always"));
        assert_false(keeper_is_wanted("never"));
        assert_int_equal(keeper_is_wanted("auto"), getpid() == 1);
        if (geteuid() == 0) { /* with the PIDs of the host: the parent has other mounts */
                pid_t pid = fork();
                int status;

                assert_true(pid >= 0);
                if (pid == 0)
                        _exit(unshare(CLONE_NEWNS) == 0 && !keeper_is_wanted("auto"));
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_int_equal(status, 0);
        }
}

/* What the child does, by how many came before it; the status that the parent ends with. */
static int keep(void (*child)(const struct keeper_crashes *crashes))
{
        pid_t pid = fork();
        int status = 0;

        if (pid == 0) {
                struct keeper_crashes crashes;
                struct error err;
                int result = -1;

                if (keeper_run("a child", &crashes, &result, &err) == 1)
                        child(&crashes);
                _exit(result);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void crash_twice(const struct keeper_crashes *crashes)
{
        if (crashes->total < 2)
                raise(SIGKILL);
        _exit(crashes->signal == SIGKILL ? 40 + (int)crashes->total : 1);
}

static void test_a_child_that_a_signal_ended_is_started_again_and_gets_the_reason(void **state UNUSED)
{
        assert_int_equal(keep(crash_twice), 42);
}

static void refuse(const struct keeper_crashes *crashes)
{
        _exit(crashes->total ? 99 : 3);
}

static void test_an_exit_status_ends_it(void **state UNUSED)
{
        assert_int_equal(keep(refuse), 3);
}

static void die_when_reported(const struct keeper_crashes *crashes)
{
        if (crashes->total)
                _exit(99);
        signal(SIGTERM, SIG_DFL);
        kill(getppid(), SIGTERM);
        for (;;)
                pause();
}

static void test_a_child_that_is_to_stop_is_not_started_again(void **state UNUSED)
{
        assert_int_equal(keep(die_when_reported), 128 + SIGTERM);
}

static volatile sig_atomic_t was_hung_up;

static void on_hang_up(int number UNUSED)
{
        was_hung_up = 1;
}

static void await_hang_up(const struct keeper_crashes *crashes UNUSED)
{
        sigset_t none;
        sigset_t blocked;

        signal(SIGHUP, on_hang_up);
        sigemptyset(&none);
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGHUP);
        sigprocmask(SIG_BLOCK, &blocked, NULL);
        kill(getppid(), SIGHUP);
        while (!was_hung_up)
                sigsuspend(&none);
        _exit(7);
}

static void test_a_hang_up_is_passed_on(void **state UNUSED)
{
        assert_int_equal(keep(await_hang_up), 7);
}

/* A daemon in a session of its own, which ignores what it can; it holds |fd| open. */
static void leave_a_daemon(int fd)
{
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid > 0)
                return;
        setsid();
        signal(SIGTERM, SIG_IGN);
        if (fork() == 0) /* one more, whose parent ends at once */
                for (;;)
                        pause();
        assert_int_equal(write(fd, "r", 1), 1);
        _exit(0);
}

static void test_what_a_program_leaves_when_it_is_killed_is_killed_with_it(void **state UNUSED)
{
        int ends[2];
        char byte;
        int status;
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct error err;
                int result = -1;

                if (keeper_run_once("a program", &result, &err) == 1) {
                        leave_a_daemon(ends[1]);
                        assert_int_equal(read(ends[0], &byte, 1), 1); /* the daemon is there */
                        raise(SIGKILL);
                }
                _exit(result);
        }
        close(ends[1]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), 128 + SIGKILL);
        assert_int_equal(read(ends[0], &byte, 1), 0); /* nobody has the other end any more */
        close(ends[0]);
}

static void test_without_a_child_the_work_is_done_with_the_signals_of_before(void **state UNUSED)
{
        pid_t pid;
        int status;

        if (geteuid() == 0 && !user_can_be(NOBODY))
                skip(); /* no limit of processes is for root */
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct rlimit none = {0, 0};
                struct keeper_crashes crashes;
                struct error err;
                sigset_t before;
                sigset_t after;
                int result = -1;

                sigprocmask(SIG_SETMASK, NULL, &before);
                if (setrlimit(RLIMIT_NPROC, &none) < 0 || (geteuid() == 0 && setuid(NOBODY) < 0))
                        _exit(1);
                if (keeper_run("a child", &crashes, &result, &err) != -1)
                        _exit(2);
                sigprocmask(SIG_SETMASK, NULL, &after);
                for (int i = 1; i < NSIG; i++)
                        if (sigismember(&after, i) != sigismember(&before, i))
                                _exit(3);
                _exit(strcmp(err.text, "start a child in a child process: Resource temporarily unavailable") == 0 ? 0
                                                                                                                  : 4);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_crash_is_followed_by_a_start_at_once_and_a_loop_of_them_by_ever_longer_waits),
                cmocka_unit_test(test_a_parent_is_wanted_in_a_container_or_where_it_is_asked_for),
                cmocka_unit_test(test_a_child_that_a_signal_ended_is_started_again_and_gets_the_reason),
                cmocka_unit_test(test_an_exit_status_ends_it),
                cmocka_unit_test(test_a_child_that_is_to_stop_is_not_started_again),
                cmocka_unit_test(test_a_hang_up_is_passed_on),
                cmocka_unit_test(test_what_a_program_leaves_when_it_is_killed_is_killed_with_it),
                cmocka_unit_test(test_without_a_child_the_work_is_done_with_the_signals_of_before),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
