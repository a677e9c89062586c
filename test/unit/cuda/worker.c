#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "cuda/worker.h"

enum { FIRST, SECOND, STEPS };

#define LONG_MS UINT64_C(60000)

static struct worker_result run(void (*work)(struct worker *, void *), uint64_t second_ms)
{
        const struct worker_step steps[STEPS] = {{"first", LONG_MS}, {"second", second_ms}};
        const struct worker_options options = {
                .steps = steps, .n_steps = STEPS, .shared_size = 64, .run = work, .data = NULL};
        struct worker_result result;
        struct error err;

        assert_ok(worker_run(&result, &options, &err), &err);
        return result;
}

static void finish(struct worker *worker, void *data UNUSED)
{
        worker_begin(worker, FIRST);
        worker_begin(worker, SECOND);
        strcpy(worker->shared, "done");
}

static void hang(struct worker *worker, void *data UNUSED)
{
        worker_begin(worker, FIRST);
        strcpy(worker->shared, "half");
        worker_begin(worker, SECOND);
        for (;;)
                pause();
}

static void die(struct worker *worker, void *data UNUSED)
{
        worker_begin(worker, SECOND);
        raise(SIGKILL);
}

static void leave(struct worker *worker, void *data UNUSED)
{
        worker_begin(worker, SECOND);
        _exit(5);
}

static void test_what_the_child_found_out_is_here(void **state UNUSED)
{
        struct worker_result result = run(finish, LONG_MS);

        assert_int_equal(result.end, WORKER_DONE);
        assert_int_equal(result.step, SECOND);
        assert_string_equal(result.shared, "done");
        worker_release(&result);
}

static void test_a_child_that_hangs_is_killed_and_its_step_known(void **state UNUSED)
{
        struct worker_result result = run(hang, 50);

        assert_int_equal(result.end, WORKER_HUNG);
        assert_int_equal(result.step, SECOND);
        assert_string_equal(result.shared, "half");
        worker_release(&result);
}

static void test_a_child_that_dies_is_reported_with_its_signal(void **state UNUSED)
{
        struct worker_result result = run(die, LONG_MS);

        assert_int_equal(result.end, WORKER_DIED);
        assert_int_equal(result.step, SECOND);
        assert_int_equal(result.signal, SIGKILL);
        worker_release(&result);
        result = run(leave, LONG_MS);
        assert_int_equal(result.end, WORKER_DIED);
        assert_int_equal(result.signal, 0);
        worker_release(&result);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_the_child_found_out_is_here),
                cmocka_unit_test(test_a_child_that_hangs_is_killed_and_its_step_known),
                cmocka_unit_test(test_a_child_that_dies_is_reported_with_its_signal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
