// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "epoll_limit.h"
#include "base/io/child.h"

/* What the child's end said; the texts are copies. */
struct fixture {
        uv_loop_t loop;
        struct child *child;
        struct child_result result;
        char *output;
        unsigned int ends;
};

static void on_end(const struct child_result *result, void *data)
{
        struct fixture *f = data;

        f->ends++;
        f->result = *result;
        f->output = xstrdup(result->output);
        assert_int_equal(strlen(result->output), result->length);
        f->child = NULL;
}

static const char *const environment[] = {"PATH=/usr/bin:/bin", "WORD=from the environment", NULL};

/* What a shell makes of |script|. */
static struct child_options shell(struct fixture *f, const char *const *argv)
{
        return (struct child_options){.argv = argv, .environment = environment, .on_end = on_end, .data = f};
}

static int start(struct fixture *f, const struct child_options *options, struct error *err)
{
        return child_run(&f->child, &f->loop, options, err);
}

/* Runs |script| to its end, and until the loop has nothing left. */
static void run(struct fixture *f, const char *script, const char *input, uint64_t timeout_ms, size_t limit)
{
        const char *const argv[] = {"/bin/sh", "-c", script, NULL};
        struct child_options options = shell(f, argv);
        struct error err;

        options.input = input;
        options.input_length = input ? strlen(input) : 0;
        options.timeout_ms = timeout_ms;
        options.output_limit = limit;
        assert_ok(start(f, &options, &err), &err);
        assert_int_equal(f->ends, 0);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->ends, 1);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        uv_loop_init(&f->loop);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        free(f->output);
        free(f);
        return 0;
}

static void test_the_input_goes_in_and_both_outputs_come_out_in_order(void **state)
{
        struct fixture *f = *state;

        run(f, "cat; echo one; echo two >&2; echo three", "zero\n", 0, 0);
        assert_string_equal(f->output, "zero\none\ntwo\nthree\n");
        assert_int_equal(f->result.status, 0);
        assert_int_equal(f->result.signal, 0);
        assert_false(f->result.timed_out);
        assert_false(f->result.too_long);
}

static void test_without_input_there_is_an_end_of_file(void **state)
{
        struct fixture *f = *state;

        run(f, "cat; echo end", NULL, 0, 0);
        assert_string_equal(f->output, "end\n");
}

static void test_the_environment_is_what_was_given_and_no_more(void **state)
{
        struct fixture *f = *state;
        const char *const argv[] = {"/usr/bin/env", NULL};
        const struct child_options options = shell(f, argv);
        struct error err;

        setenv("OURS", "1", 1);
        assert_ok(start(f, &options, &err), &err);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_string_equal(f->output, "PATH=/usr/bin:/bin\nWORD=from the environment\n");
}

static void test_status_and_signal_are_told_apart(void **state)
{
        struct fixture *f = *state;

        run(f, "exit 3", NULL, 0, 0);
        assert_int_equal(f->result.status, 3);
        assert_int_equal(f->result.signal, 0);
        free(f->output);
        f->ends = 0;
        run(f, "kill -TERM $$", NULL, 0, 0);
        assert_int_equal(f->result.status, -1);
        assert_int_equal(f->result.signal, SIGTERM);
}

/* As `true` does; the process that writes must not get SIGPIPE for it. */
static void test_a_child_that_ignores_its_input_is_no_error(void **state)
{
        struct fixture *f = *state;
        char input[CHILD_INPUT_MAX + 1];

        memset(input, 'x', CHILD_INPUT_MAX);
        input[CHILD_INPUT_MAX] = '\0';
        run(f, "exec <&-; exit 0", input, 0, 0);
        assert_int_equal(f->result.status, 0);
}

static void test_an_input_that_does_not_fit_is_refused(void **state)
{
        struct fixture *f = *state;
        const char *const argv[] = {"/bin/cat", NULL};
        struct child_options options = shell(f, argv);
        struct error err;

        options.input = "never read";
        options.input_length = CHILD_INPUT_MAX + 1;
        assert_fails(start(f, &options, &err), &err, ERROR_INVALID,
                "run '/bin/cat': an input of 4097 bytes, at most 4096 are possible");
}

static void test_a_child_that_closes_its_output_is_waited_for(void **state)
{
        struct fixture *f = *state;

        run(f, "echo before; exec >&- 2>&-; sleep 0.2; exit 5", NULL, 0, 0);
        assert_string_equal(f->output, "before\n");
        assert_int_equal(f->result.status, 5);
}

static void test_one_that_does_not_end_is_killed_at_the_deadline(void **state)
{
        struct fixture *f = *state;

        run(f, "trap '' TERM; echo said; while :; do sleep 600; done", NULL, 300, 0);
        assert_true(f->result.timed_out);
        assert_int_equal(f->result.status, -1);
        assert_int_equal(f->result.signal, SIGKILL);
}

static void test_one_that_says_too_much_is_killed_and_its_output_cut(void **state)
{
        struct fixture *f = *state;

        run(f, "while :; do echo yes; done", NULL, 0, 1000);
        assert_true(f->result.too_long);
        assert_false(f->result.timed_out);
        assert_int_equal(f->result.status, -1);
        assert_int_equal(f->result.length, 1000);
        assert_int_equal(strncmp(f->output, "yes\nyes\n", 8), 0);
}

static void test_what_just_fits_is_no_error(void **state)
{
        struct fixture *f = *state;

        run(f, "printf %1000d 1", NULL, 0, 1000);
        assert_false(f->result.too_long);
        assert_int_equal(f->result.length, 1000);
}

static void test_the_last_words_of_a_large_output_are_there(void **state)
{
        struct fixture *f = *state;

        run(f, "printf %60000d 1; echo; echo last", NULL, 0, 0);
        assert_int_equal(f->result.length, 60006);
        assert_string_equal(f->output + 60001, "last\n");
}

static void count_active_polls(uv_handle_t *handle, void *data)
{
        *(unsigned int *)data += handle->type == UV_POLL && uv_is_active(handle);
}

/* It would be a wake-up for each word. */
static void test_what_a_brief_one_says_wakes_nobody(void **state)
{
        struct fixture *f = *state;
        const char *const argv[] = {"/bin/sh", "-c", "echo one; echo two", NULL};
        const struct child_options options = shell(f, argv);
        unsigned int polls = 0;
        struct error err;

        assert_ok(start(f, &options, &err), &err);
        uv_walk(&f->loop, count_active_polls, &polls);
        assert_int_equal(polls, 0);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_string_equal(f->output, "one\ntwo\n");
}

static void test_one_that_says_more_than_a_pipe_holds_is_heard_to_its_end(void **state)
{
        struct fixture *f = *state;

        run(f, "printf %200000d 1; echo; echo last", NULL, 0, 400000);
        assert_int_equal(f->result.length, 200006);
        assert_string_equal(f->output + 200001, "last\n");
}

/* With nobody left who would end it: the pipe stays open for ten minutes. */
static void test_a_grandchild_that_keeps_the_pipe_open_delays_nothing(void **state)
{
        struct fixture *f = *state;
        uint64_t start_ns = uv_hrtime();
        pid_t grandchild;

        run(f, "sleep 600 & echo $!", NULL, 0, 0);
        assert_int_equal(f->result.status, 0);
        assert_true(uv_hrtime() - start_ns < UINT64_C(300) * 1000000000);
        grandchild = (pid_t)strtol(f->output, NULL, 10);
        assert_true(grandchild > 1);
        assert_int_equal(kill(grandchild, SIGKILL), 0); /* it was left alone */
}

/* True when the process |pid| has gone; it is somebody else's child, so there is nothing to wait for but time. */
static bool goes(pid_t pid)
{
        for (int i = 0; i < 3000; i++) {
                char path[32];
                char state[64] = "";
                FILE *file;

                snprintf(path, sizeof(path), "/proc/%d/stat", pid);
                file = fopen(path, "re");
                if (!file)
                        return true;
                if (!fgets(state, sizeof(state), file))
                        state[0] = '\0';
                fclose(file);
                if (strstr(state, ") Z"))
                        return true; /* where nobody reaps orphans */
                usleep(10000);
        }
        return false;
}

static void test_what_is_killed_goes_with_all_that_it_started(void **state)
{
        struct fixture *f = *state;

        run(f, "sleep 600 & echo $!; wait", NULL, 1000, 0);
        assert_true(f->result.timed_out);
        if (f->output[0]) /* empty on a machine that is slower than the deadline */
                assert_true(goes((pid_t)strtol(f->output, NULL, 10)));
}

static void test_a_cancelled_child_is_killed_without_a_callback(void **state)
{
        struct fixture *f = *state;
        const char *const argv[] = {"/bin/sleep", "600", NULL};
        const struct child_options options = shell(f, argv);
        struct error err;

        assert_ok(start(f, &options, &err), &err);
        child_cancel(f->child);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->ends, 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

static void test_a_program_that_is_not_there_is_named(void **state)
{
        struct fixture *f = *state;
        const char *const argv[] = {"/nowhere/program", NULL};
        const struct child_options options = shell(f, argv);
        struct error err;

        assert_fails(
                start(f, &options, &err), &err, ERROR_NOT_FOUND, "run '/nowhere/program': No such file or directory");
}

static void test_a_program_that_may_not_be_run_is_named(void **state)
{
        struct fixture *f = *state;
        char path[] = "/tmp/warpshare-child-XXXXXX";
        int fd = mkstemp(path);
        const char *const argv[] = {path, NULL};
        const struct child_options options = shell(f, argv);
        struct error err;
        char expected[80];

        assert_true(fd >= 0);
        close(fd);
        snprintf(expected, sizeof(expected), "run '%s': Permission denied", path);
        assert_fails(start(f, &options, &err), &err, ERROR_DENIED, expected);
        unlink(path);
}

/* Ours are close-on-exec; this is what the module itself opens. */
static void test_a_child_whose_output_cannot_be_watched_does_not_begin(void **state)
{
        static const char *const argv[] = {"/bin/true", NULL};
        struct fixture *f = *state;
        struct child_options options = shell(f, argv);
        struct error err;
        int rc;

        watches_left = 0;
        rc = start(f, &options, &err);
        watches_left = -1;
        assert_int_equal(rc, -1);
        assert_string_equal(err.text, "run '/bin/true': watch its output: No space left on device");
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->ends, 0);
}

static void test_the_child_has_three_descriptors(void **state)
{
        struct fixture *f = *state;
        const char *const argv[] = {"/bin/ls", "/proc/self/fd", NULL};
        const struct child_options options = shell(f, argv);
        struct error err;

        for (int fd = 3; fd < 1024; fd++) /* the test runner's own */
                fcntl(fd, F_SETFD, FD_CLOEXEC);
        assert_ok(start(f, &options, &err), &err);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_string_equal(f->output, "0\n1\n2\n3\n"); /* 3 is the folder that ls reads */
}

static void test_many_children_at_once_each_keep_their_own(void **state)
{
        struct fixture many[20];
        struct fixture *f = *state;
        const char *const argv[] = {"/bin/cat", NULL};
        struct error err;

        for (unsigned int i = 0; i < ARRAY_SIZE(many); i++) {
                struct child_options options;
                char input[16];

                many[i] = (struct fixture){0};
                options = shell(&many[i], argv);
                snprintf(input, sizeof(input), "%u", i);
                options.input = input;
                options.input_length = strlen(input);
                assert_ok(child_run(&many[i].child, &f->loop, &options, &err), &err);
        }
        uv_run(&f->loop, UV_RUN_DEFAULT);
        for (unsigned int i = 0; i < ARRAY_SIZE(many); i++) {
                assert_int_equal(many[i].ends, 1);
                assert_int_equal(strtoul(many[i].output, NULL, 10), i);
                free(many[i].output);
        }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_the_input_goes_in_and_both_outputs_come_out_in_order),
                TEST(test_without_input_there_is_an_end_of_file),
                TEST(test_the_environment_is_what_was_given_and_no_more),
                TEST(test_status_and_signal_are_told_apart),
                TEST(test_a_child_that_ignores_its_input_is_no_error),
                TEST(test_an_input_that_does_not_fit_is_refused),
                TEST(test_a_child_that_closes_its_output_is_waited_for),
                TEST(test_one_that_does_not_end_is_killed_at_the_deadline),
                TEST(test_one_that_says_too_much_is_killed_and_its_output_cut),
                TEST(test_what_just_fits_is_no_error),
                TEST(test_the_last_words_of_a_large_output_are_there),
                TEST(test_what_a_brief_one_says_wakes_nobody),
                TEST(test_one_that_says_more_than_a_pipe_holds_is_heard_to_its_end),
                TEST(test_a_grandchild_that_keeps_the_pipe_open_delays_nothing),
                TEST(test_what_is_killed_goes_with_all_that_it_started),
                TEST(test_a_cancelled_child_is_killed_without_a_callback),
                TEST(test_a_program_that_is_not_there_is_named),
                TEST(test_a_program_that_may_not_be_run_is_named),
                TEST(test_a_child_whose_output_cannot_be_watched_does_not_begin),
                TEST(test_the_child_has_three_descriptors),
                TEST(test_many_children_at_once_each_keep_their_own),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
