// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/io/loop.h"

struct fixture {
        uv_loop_t loop;
        struct deferred deferred;
        struct closing closing;
        uv_timer_t timer, other;
        unsigned int n_runs;
        unsigned int n_others;        /* how often the other timer has fired */
        unsigned int n_others_at_run; /* and how often when |deferred| ran last */
        unsigned int n_again;         /* how often it schedules itself */
        bool is_closed;
};

static void on_closed(void *data)
{
        ((struct fixture *)data)->is_closed = true;
}

static void on_run(void *data)
{
        struct fixture *f = data;

        f->n_runs++;
        f->n_others_at_run = f->n_others;
        if (f->n_again > 0) {
                f->n_again--;
                deferred_schedule(&f->deferred);
        }
}

static void on_timer(uv_timer_t *timer)
{
        deferred_schedule(&container_of(timer, struct fixture, timer)->deferred);
}

static void on_other(uv_timer_t *timer)
{
        container_of(timer, struct fixture, other)->n_others++;
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        uv_loop_init(&f->loop);
        deferred_init(&f->deferred, &f->loop, on_run, f);
        uv_timer_init(&f->loop, &f->timer);
        uv_timer_init(&f->loop, &f->other);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        deferred_close(&f->deferred, &f->closing);
        closing_close(&f->closing, &f->timer);
        closing_close(&f->closing, &f->other);
        closing_end(&f->closing, on_closed, f);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(f->is_closed);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        free(f);
        return 0;
}

static void test_it_runs_once_however_often_it_is_scheduled(void **state)
{
        struct fixture *f = *state;

        deferred_schedule(&f->deferred);
        deferred_schedule(&f->deferred);
        assert_true(deferred_is_scheduled(&f->deferred));
        assert_int_equal(f->n_runs, 0);
        uv_run(&f->loop, UV_RUN_DEFAULT); /* returns: it keeps the loop no longer */
        assert_int_equal(f->n_runs, 1);
        assert_false(deferred_is_scheduled(&f->deferred));
}

static void test_it_runs_after_all_that_is_due_in_this_turn(void **state)
{
        struct fixture *f = *state;

        uv_timer_start(&f->timer, on_timer, 0, 0);
        uv_timer_start(&f->other, on_other, 0, 0);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->n_runs, 1);
        assert_int_equal(f->n_others_at_run, 1);
}

static void test_it_may_schedule_itself_for_the_next_turn(void **state)
{
        struct fixture *f = *state;

        f->n_again = 2;
        deferred_schedule(&f->deferred);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        assert_int_equal(f->n_runs, 1);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        assert_int_equal(f->n_runs, 2);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->n_runs, 3);
}

static void test_flushed_it_runs_at_once_and_only_if_it_was_scheduled(void **state)
{
        struct fixture *f = *state;

        deferred_flush(&f->deferred);
        assert_int_equal(f->n_runs, 0);
        deferred_schedule(&f->deferred);
        deferred_flush(&f->deferred);
        assert_int_equal(f->n_runs, 1);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->n_runs, 1);
}

static void test_closed_it_does_not_run(void **state)
{
        struct fixture *f = *state;

        deferred_schedule(&f->deferred);
        deferred_close(&f->deferred, &f->closing);
        deferred_schedule(&f->deferred); /* as an owner does that hears of a last change while it closes */
        assert_false(deferred_is_scheduled(&f->deferred));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(f->n_runs, 0);
        deferred_init(&f->deferred, &f->loop, on_run, f); /* for tear_down */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_it_runs_once_however_often_it_is_scheduled, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_it_runs_after_all_that_is_due_in_this_turn, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_it_may_schedule_itself_for_the_next_turn, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_flushed_it_runs_at_once_and_only_if_it_was_scheduled, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_closed_it_does_not_run, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
