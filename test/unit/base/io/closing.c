// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/io/loop.h"

struct owner {
        struct closing closing;
        uv_timer_t first, second;
        unsigned int *n_closed;
};

static int set_up(void **state)
{
        uv_loop_t *loop = calloc(1, sizeof(*loop));

        uv_loop_init(loop);
        *state = loop;
        return 0;
}

static int tear_down(void **state)
{
        assert_int_equal(uv_loop_close(*state), 0);
        free(*state);
        return 0;
}

static struct owner *make_owner(uv_loop_t *loop, unsigned int *n_closed)
{
        struct owner *owner = calloc(1, sizeof(*owner));

        uv_timer_init(loop, &owner->first);
        uv_timer_init(loop, &owner->second);
        owner->n_closed = n_closed;
        return owner;
}

static void on_closed(void *data)
{
        struct owner *owner = data;

        (*owner->n_closed)++;
        free(owner);
}

static void test_the_owner_is_freed_when_its_last_handle_has_closed(void **state)
{
        unsigned int n_closed = 0;
        struct owner *owner = make_owner(*state, &n_closed);

        closing_close(&owner->closing, &owner->first);
        closing_close(&owner->closing, &owner->second);
        closing_end(&owner->closing, on_closed, owner);
        assert_int_equal(n_closed, 0);
        uv_run(*state, UV_RUN_DEFAULT);
        assert_int_equal(n_closed, 1);
}

static void test_a_handle_that_closes_early_does_not_end_the_owner(void **state)
{
        unsigned int n_closed = 0;
        struct owner *owner = make_owner(*state, &n_closed);

        closing_close(&owner->closing, &owner->first);
        uv_run(*state, UV_RUN_DEFAULT);
        assert_int_equal(n_closed, 0);
        assert_int_equal(owner->closing.n_open, 0);
        closing_close(&owner->closing, &owner->second);
        closing_end(&owner->closing, on_closed, owner);
        uv_run(*state, UV_RUN_DEFAULT);
        assert_int_equal(n_closed, 1);
}

static void test_a_part_with_a_callback_of_its_own_is_waited_for(void **state)
{
        unsigned int n_closed = 0;
        struct owner *owner = make_owner(*state, &n_closed);
        void *part = closing_hold(&owner->closing);

        closing_close(&owner->closing, &owner->first);
        closing_close(&owner->closing, &owner->second);
        closing_end(&owner->closing, on_closed, owner);
        uv_run(*state, UV_RUN_DEFAULT);
        assert_int_equal(n_closed, 0);
        closing_release(part);
        assert_int_equal(n_closed, 1);
}

static void test_an_owner_with_nothing_to_close_ends_at_once(void **state UNUSED)
{
        unsigned int n_closed = 0;
        struct owner *owner = calloc(1, sizeof(*owner));

        owner->n_closed = &n_closed;
        closing_end(&owner->closing, on_closed, owner);
        assert_int_equal(n_closed, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_the_owner_is_freed_when_its_last_handle_has_closed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_handle_that_closes_early_does_not_end_the_owner, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_part_with_a_callback_of_its_own_is_waited_for, set_up, tear_down),
                cmocka_unit_test(test_an_owner_with_nothing_to_close_ends_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
