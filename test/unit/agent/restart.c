#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/restart.h"

/* ---- this program as the one that restarts: it is started with LIFE_ARGUMENTS ---- */

#define LIFE_ARGUMENTS "test", "an argument", "", "last"
#define OPEN_FD 200

static unsigned int count_marks(void)
{
        unsigned int count = 0;

        for (size_t i = 0; environ[i]; i++)
                count += strncmp(environ[i], RESTART_VARIABLE "=", strlen(RESTART_VARIABLE "=")) == 0;
        return count;
}

/* The exit status: 0 if the second life has all of the first but its descriptors. */
static int live(int argc, char **argv)
{
        static const char *const arguments[] = {LIFE_ARGUMENTS};
        const struct restart last = restart_read(getenv(RESTART_VARIABLE));
        struct error err;

        if (last.count < 2)
                return dup2(STDERR_FILENO, OPEN_FD) == OPEN_FD &&
                                       restart_now(&(struct restart){1, restart_clock()}, &err) < 0
                               ? 10
                               : 16;
        for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
                if ((size_t)argc <= i || strcmp(argv[i], arguments[i]) != 0)
                        return 11;
        if (argc != (int)ARRAY_SIZE(arguments))
                return 12;
        if (last.count != 2 || count_marks() != 1)
                return 13;
        if (strcmp(getenv("KEPT") ? getenv("KEPT") : "", "yes") != 0)
                return 14;
        return fcntl(OPEN_FD, F_GETFD) < 0 ? 0 : 15;
}

/* From here on the kernel has no close_range(), as before 5.9. */
static int forget_close_range(void)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog program = {ARRAY_SIZE(filter), filter};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int status_of_a_life(bool has_close_range)
{
        static char mark[] = RESTART_VARIABLE "=1@5";
        static char kept[] = "KEPT=yes";
        static char arguments[][16] = {LIFE_ARGUMENTS};
        int status = 0;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                if (!has_close_range && forget_close_range() < 0)
                        _exit(21);
                execve("/proc/self/exe", (char *const[]){arguments[0], arguments[1], arguments[2], arguments[3], NULL},
                        (char *const[]){mark, kept, NULL});
                _exit(20);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void test_the_next_process_has_arguments_and_environment_of_this_one_but_no_descriptor(void **state UNUSED)
{
        assert_int_equal(status_of_a_life(true), 0);
}

static void test_the_next_process_has_no_descriptor_where_the_kernel_is_older(void **state UNUSED)
{
        const int status = status_of_a_life(false);

        if (status == 21)
                skip();
        assert_int_equal(status, 0);
}

/* ---- how often ---- */

static void test_a_mark_is_read_as_it_was_written(void **state UNUSED)
{
        const struct restart first = {0};
        char *mark = restart_mark(&first, 1234);
        struct restart second = restart_read(mark);

        assert_int_equal(second.count, 1);
        assert_int_equal(second.at_s, 1234);
        free(mark);
        mark = restart_mark(&second, 1300);
        assert_int_equal(restart_read(mark).count, 2);
        free(mark);
}

static void test_a_mark_that_is_none_is_a_first_start(void **state UNUSED)
{
        static const char *const marks[] = {NULL, "", "x", "1", "1@", "1@x", "@5", "1@5x"};

        for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
                struct restart last = restart_read(marks[i]);

                assert_int_equal(last.count, 0);
                assert_int_equal(restart_wait(&last, 100), 0);
        }
}

static void test_the_wait_doubles_to_an_hour_and_ends_with_the_row(void **state UNUSED)
{
        static const struct {
                struct restart last;
                int64_t now_s;
                int64_t wait_s;
        } cases[] = {
                {{0, 0}, 5, 0}, {{1, 1000}, 1000, 60}, {{1, 1000}, 1059, 1}, {{1, 1000}, 1060, 0},
                {{2, 1000}, 1000, 120}, {{3, 1000}, 1000, 240}, {{6, 1000}, 1000, 1920}, {{7, 1000}, 1000, 3600},
                {{4000000000, 1000}, 1000, 3600}, {{7, 1000}, 1000 + 7199, 0},
                {{7, 1000}, 999, 0}, /* the clock of another boot */
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(restart_wait(&cases[i].last, cases[i].now_s), cases[i].wait_s);
}

static void test_a_restart_long_after_the_last_one_is_the_first_of_its_row(void **state UNUSED)
{
        const struct restart last = {7, 1000};
        char *mark = restart_mark(&last, 1000 + 7199);

        assert_int_equal(restart_read(mark).count, 8);
        free(mark);
        mark = restart_mark(&last, 1000 + 7200);
        assert_int_equal(restart_read(mark).count, 1);
        free(mark);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_mark_is_read_as_it_was_written),
                cmocka_unit_test(test_a_mark_that_is_none_is_a_first_start),
                cmocka_unit_test(test_the_wait_doubles_to_an_hour_and_ends_with_the_row),
                cmocka_unit_test(test_a_restart_long_after_the_last_one_is_the_first_of_its_row),
                cmocka_unit_test(test_the_next_process_has_arguments_and_environment_of_this_one_but_no_descriptor),
                cmocka_unit_test(test_the_next_process_has_no_descriptor_where_the_kernel_is_older),
        };

        if (argc > 1)
                return live(argc, argv);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
