/* How libcurl is loaded; what it does then is tested in test/e2e. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "kube/transport.h"

struct fixture {
        uv_loop_t loop;
        struct transport *transport;
        unsigned int n_told;
        struct error error; /* the last that was told */
        bool is_closed;
};

static void on_ready(const struct error *error, void *data)
{
        struct fixture *fixture = data;

        fixture->n_told++;
        fixture->error = error ? *error : (struct error){.kind = ERROR_NONE};
}

static void on_closed(void *data)
{
        ((struct fixture *)data)->is_closed = true;
}

static int set_up(void **state)
{
        struct fixture *fixture = xcalloc(1, sizeof(*fixture));
        const struct transport_options options = {.loop = &fixture->loop, .on_ready = on_ready, .data = fixture};

        uv_loop_init(&fixture->loop);
        fixture->transport = transport_new(&options);
        *state = fixture;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *fixture = *state;

        transport_close(fixture->transport, on_closed, fixture);
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
        assert_true(fixture->is_closed);
        assert_int_equal(uv_loop_close(&fixture->loop), 0);
        free(fixture);
        return 0;
}

static void load(struct fixture *fixture)
{
        fixture->n_told = 0;
        transport_load(fixture->transport);
        transport_load(fixture->transport);
        assert_int_equal(fixture->n_told, 0);
}

static void wait_told(struct fixture *fixture)
{
        while (fixture->n_told == 0)
                uv_run(&fixture->loop, UV_RUN_ONCE);
        assert_int_equal(fixture->n_told, 1);
}

static void test_it_is_told_once_that_the_library_is_there(void **state)
{
        struct fixture *fixture = *state;

        load(fixture);
        wait_told(fixture);
        assert_int_equal(fixture->error.kind, ERROR_NONE);
        transport_load(fixture->transport);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
        assert_int_equal(fixture->n_told, 1);
}

static void test_a_thread_that_cannot_be_started_is_told_and_tried_again(void **state)
{
        struct fixture *fixture = *state;
        struct rlimit before;
        struct rlimit beyond;

        assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
        beyond = before;
        beyond.rlim_cur = (rlim_t)1 << 48; /* no process has that much address space */
        if (setrlimit(RLIMIT_STACK, &beyond) < 0)
                skip();
        load(fixture);
        wait_told(fixture);
        assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
        assert_non_null(strstr(fixture->error.text, "start the thread that loads libcurl: "));
        load(fixture);
        wait_told(fixture);
        assert_int_equal(fixture->error.kind, ERROR_NONE);
}

static void test_who_closes_while_it_is_loaded_is_told_nothing_more(void **state)
{
        load(*state);
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_it_is_told_once_that_the_library_is_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_thread_that_cannot_be_started_is_told_and_tried_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_who_closes_while_it_is_loaded_is_told_nothing_more, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
