#include "unit.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "gpu/call_trace.h"

#define LIMIT_MS 30U
#define PATIENCE_MS 20000

struct fixture {
        struct call_trace trace;
        int timer;
        unsigned int n_ended;
        unsigned int n_inherited;
};

static void on_ended(void *data)
{
        ((struct fixture *)data)->n_ended++;
}

static void inherit(void *data)
{
        ((struct fixture *)data)->n_inherited++;
}

static int setup(void **state)
{
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        fixture->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        call_trace_init(&fixture->trace, fixture->timer, LIMIT_MS, on_ended, fixture);
        *state = fixture;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *fixture = *state;

        call_trace_done(&fixture->trace);
        close(fixture->timer);
        free(fixture);
        return 0;
}

static bool is_due(const struct fixture *fixture, int patience_ms)
{
        struct pollfd poll_it = {.fd = fixture->timer, .events = POLLIN};

        return poll(&poll_it, 1, patience_ms) == 1;
}

static bool is_armed(const struct fixture *fixture)
{
        struct itimerspec left;

        timerfd_gettime(fixture->timer, &left);
        return left.it_value.tv_sec || left.it_value.tv_nsec;
}

static void test_the_timer_runs_only_while_a_call_does(void **state)
{
        struct fixture *fixture = *state;

        assert_false(is_armed(fixture));
        assert_true(call_trace_begin(&fixture->trace, "one", 60000));
        assert_true(is_armed(fixture));
        call_trace_end(&fixture->trace);
        assert_false(is_armed(fixture));
        assert_false(is_due(fixture, 2 * LIMIT_MS));
        assert_int_equal(fixture->n_ended, 0);
}

static void test_a_long_call_is_reported_by_name_and_so_is_its_end(void **state)
{
        struct fixture *fixture = *state;
        struct call_info info;

        call_trace_ask(&fixture->trace, CALL_ON_GPU, 3, "GPU-x");
        assert_true(call_trace_begin(&fixture->trace, "one", 0));
        assert_true(is_due(fixture, PATIENCE_MS));
        assert_true(call_trace_over(&fixture->trace, &info));
        assert_string_equal(info.call, "one");
        assert_string_equal(info.gpu, "GPU-x");
        assert_int_equal(info.index, 3);
        assert_int_equal(info.subject, CALL_ON_GPU);
        assert_true(call_trace_now_ms() - info.since_ms >= LIMIT_MS);
        call_trace_end(&fixture->trace);
        assert_int_equal(fixture->n_ended, 1);
        assert_false(call_trace_over(&fixture->trace, &info));
        /* The next one is told again, and nobody waits for it any more. */
        assert_true(call_trace_begin(&fixture->trace, "two", 0));
        call_trace_end(&fixture->trace);
        assert_int_equal(fixture->n_ended, 1);
}

static void test_a_dismissed_thread_makes_no_more_calls(void **state)
{
        struct fixture *fixture = *state;

        assert_false(call_trace_dismiss(&fixture->trace, inherit, fixture));
        assert_true(call_trace_begin(&fixture->trace, "one", 0));
        assert_true(is_due(fixture, PATIENCE_MS));
        assert_true(call_trace_dismiss(&fixture->trace, inherit, fixture));
        assert_int_equal(fixture->n_inherited, 1);
        call_trace_end(&fixture->trace);
        assert_true(call_trace_is_dismissed(&fixture->trace));
        assert_false(call_trace_begin(&fixture->trace, "two", 0));
        assert_int_equal(fixture->n_ended, 0);
}

static void test_a_call_that_returned_in_time_is_not_reported(void **state)
{
        struct fixture *fixture = *state;
        struct call_info info;

        assert_true(call_trace_begin(&fixture->trace, "one", 0));
        assert_true(is_due(fixture, PATIENCE_MS));
        call_trace_end(&fixture->trace);
        assert_false(call_trace_over(&fixture->trace, &info));
        assert_false(call_trace_dismiss(&fixture->trace, inherit, fixture));
        assert_int_equal(fixture->n_inherited, 0);
}

static void test_without_a_trace_every_call_is_made(void **state UNUSED)
{
        call_trace_ask(NULL, CALL_ON_GPU, 0, "GPU-x");
        assert_true(call_trace_begin(NULL, "one", 0));
        call_trace_end(NULL);
        assert_false(call_trace_is_dismissed(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_the_timer_runs_only_while_a_call_does),
                TEST(test_a_long_call_is_reported_by_name_and_so_is_its_end),
                TEST(test_a_dismissed_thread_makes_no_more_calls),
                TEST(test_a_call_that_returned_in_time_is_not_reported),
                cmocka_unit_test(test_without_a_trace_every_call_is_made),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
