// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/io/loop.h"

struct fixture {
        uv_loop_t loop;
        uv_timer_t timer;
        uv_async_t silent; /* for which a turn would wait for ever */
        unsigned int fired;
};

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        uv_loop_init(&f->loop);
        uv_timer_init(&f->loop, &f->timer);
        uv_async_init(&f->loop, &f->silent, NULL);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        uv_close((uv_handle_t *)&f->timer, NULL);
        uv_close((uv_handle_t *)&f->silent, NULL);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        free(f);
        return 0;
}

static void on_timer(uv_timer_t *timer)
{
        container_of(timer, struct fixture, timer)->fired++;
}

static bool has_fired(void *data)
{
        return ((struct fixture *)data)->fired > 0;
}

static bool has_fired_thrice(void *data)
{
        return ((struct fixture *)data)->fired >= 3;
}

static void test_a_timer_that_is_due_when_the_turn_begins_ends_it(void **state)
{
        struct fixture *f = *state;

        uv_timer_start(&f->timer, on_timer, 0, 0);
        assert_true(loop_run_until(&f->loop, has_fired, f, 0));
        assert_int_equal(f->fired, 1);
}

static void test_it_turns_until_the_condition_holds_and_can_be_used_again(void **state)
{
        struct fixture *f = *state;

        uv_timer_start(&f->timer, on_timer, 1, 1);
        assert_true(loop_run_until(&f->loop, has_fired, f, 0));
        assert_true(f->fired < 3);
        assert_true(loop_run_until(&f->loop, has_fired_thrice, f, 60000));
        assert_int_equal(f->fired, 3);
}

static void test_what_holds_already_turns_nothing(void **state)
{
        struct fixture *f = *state;

        f->fired = 1;
        uv_timer_start(&f->timer, on_timer, 0, 0);
        assert_true(loop_run_until(&f->loop, has_fired, f, 0));
        assert_int_equal(f->fired, 1);
}

static void test_a_limit_of_time_ends_it_however_long_the_loop_stood_still(void **state)
{
        struct fixture *f = *state;

        assert_false(loop_run_until(&f->loop, has_fired, f, 1));
        usleep(20000);
        uv_timer_start(&f->timer, on_timer, 0, 0);
        assert_true(loop_run_until(&f->loop, has_fired, f, 5000));
        f->fired = 0;
        usleep(20000);
        assert_false(loop_run_until(&f->loop, has_fired, f, 5));
}

/* Before a sanitizer looks for leaks, which it cannot without descriptors. */
static void end_at_once(void)
{
        _exit(EXIT_FAILURE);
}

static void test_a_process_that_can_have_no_loop_says_so_and_ends(void **state UNUSED)
{
        char text[100] = "";
        int ends[2];
        int status;
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct rlimit none = {0, 0};
                uv_loop_t loop;

                dup2(ends[1], STDERR_FILENO);
                setrlimit(RLIMIT_NOFILE, &none);
                atexit(end_at_once);
                loop_init(&loop);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
        assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
        assert_string_equal(text, "cannot make an event loop: too many open files\n");
        close(ends[0]);
        close(ends[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_a_timer_that_is_due_when_the_turn_begins_ends_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_it_turns_until_the_condition_holds_and_can_be_used_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_limit_of_time_ends_it_however_long_the_loop_stood_still, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_holds_already_turns_nothing, set_up, tear_down),
                cmocka_unit_test(test_a_process_that_can_have_no_loop_says_so_and_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
