/* A thread that carries out jobs with NVML, when a call does not return. */
#include "unit.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "io/loop.h"
#include "gpu/nvml_queue.h"
#include "scenario.h"

#define A "GPU-00000000-0000-4000-8000-00000000000a"
#define GPU(more) "gpus: [{model: T4, uuid: " A more "}]\n"
#define PATIENCE_MS 20000

struct fixture {
        uv_loop_t loop;
        struct nvml_queue *queue;
        struct nvml_job job;
        nvmlReturn_t code;
        unsigned int n_done;
        bool is_closed;
        bool wants_hang;
};

static void work(struct nvml_job *job, const struct nvml *nvml, const struct error *err UNUSED)
{
        struct fixture *fixture = container_of(job, struct fixture, job);
        nvmlMemory_t memory;
        nvmlDevice_t device;

        call_trace_ask(nvml->trace, CALL_ON_GPU, CALL_NO_INDEX, A);
        fixture->code = NVML_CALL(nvml, device_get_by_uuid, A, &device);
        if (fixture->code == NVML_SUCCESS)
                fixture->code = NVML_CALL(nvml, device_get_memory, device, &memory);
}

static void on_done(struct nvml_job *job)
{
        container_of(job, struct fixture, job)->n_done++;
}

static void on_closed(bool is_left UNUSED, void *data)
{
        ((struct fixture *)data)->is_closed = true;
}

static bool is_closed(void *data)
{
        return ((struct fixture *)data)->is_closed;
}

static bool is_done(void *data)
{
        return ((struct fixture *)data)->n_done > 0;
}

static bool is_as_wanted(void *data)
{
        struct fixture *fixture = data;
        struct call_info call;

        return nvml_queue_hang(fixture->queue, &call) == fixture->wants_hang;
}

static int setup(void **state)
{
        struct fixture *fixture = calloc(1, sizeof(*fixture));
        struct error err;

        uv_loop_init(&fixture->loop);
        assert_ok(nvml_queue_new(&fixture->queue, &fixture->loop, scenario_library(), "", 100, &err), &err);
        fixture->job = (struct nvml_job){.work = work, .done = on_done};
        *state = fixture;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *fixture = *state;

        nvml_queue_close(fixture->queue, PATIENCE_MS, on_closed, fixture);
        assert_true(loop_run_until(&fixture->loop, is_closed, fixture, PATIENCE_MS));
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&fixture->loop), 0);
        free(fixture);
        return 0;
}

static void wait_hang(struct fixture *fixture, bool wanted)
{
        fixture->wants_hang = wanted;
        assert_true(loop_run_until(&fixture->loop, is_as_wanted, fixture, PATIENCE_MS));
}

static void test_a_call_that_does_not_return_is_named_until_it_does(void **state)
{
        struct fixture *fixture = *state;
        struct call_info call;

        scenario_write(GPU(", delays: {nvmlDeviceGetMemoryInfo: 600s}"));
        nvml_queue_add(fixture->queue, &fixture->job);
        wait_hang(fixture, true);
        assert_true(nvml_queue_hang(fixture->queue, &call));
        assert_string_equal(call.call, "nvmlDeviceGetMemoryInfo");
        assert_string_equal(call.gpu, A);
        assert_int_equal(fixture->n_done, 0);
        scenario_write(GPU(""));
        assert_true(loop_run_until(&fixture->loop, is_done, fixture, PATIENCE_MS));
        assert_int_equal(fixture->code, NVML_SUCCESS);
        wait_hang(fixture, false);
}

static void test_a_thread_that_cannot_be_started_is_an_error(void **state)
{
        struct fixture *fixture = *state;
        struct rlimit before;
        struct rlimit beyond;
        struct nvml_queue *queue;
        struct error err;
        int rc;

        assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
        beyond = before;
        beyond.rlim_cur = (rlim_t)1 << 48; /* no process has that much address space */
        if (setrlimit(RLIMIT_STACK, &beyond) < 0)
                skip();
        rc = nvml_queue_new(&queue, &fixture->loop, scenario_library(), "", 100, &err);
        assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
        assert_int_equal(rc, -1);
        assert_non_null(strstr(err.text, "start the thread for NVML"));
}

static void test_a_start_that_does_not_return_is_named_as_well(void **state)
{
        struct fixture *fixture = *state;
        struct call_info call;

        scenario_write("init: {delay: 600s}\n" GPU(""));
        nvml_queue_add(fixture->queue, &fixture->job);
        wait_hang(fixture, true);
        assert_true(nvml_queue_hang(fixture->queue, &call));
        assert_string_equal(call.call, "nvmlInit_v2");
        assert_int_equal(call.subject, CALL_TO_OPEN);
        scenario_write(GPU(""));
        assert_true(loop_run_until(&fixture->loop, is_done, fixture, PATIENCE_MS));
        wait_hang(fixture, false);
}

static bool is_library_gone(void *data UNUSED)
{
        void *library = dlopen(scenario_library(), RTLD_LAZY | RTLD_NOLOAD);

        if (library)
                dlclose(library);
        return !library;
}

/* No event of the loop tells it. */
static void wait_library_gone(struct fixture *fixture)
{
        for (unsigned int ms = 0; ms < PATIENCE_MS && !is_library_gone(NULL); ms += 50)
                (void)loop_run_until(&fixture->loop, is_library_gone, NULL, 50);
        assert_true(is_library_gone(NULL));
}

static bool is_done_twice(void *data)
{
        return ((struct fixture *)data)->n_done == 2;
}

/* A GPU that somebody has opened cannot be reset. */
static void test_nvml_is_closed_when_nothing_is_asked_and_opened_for_the_next_job(void **state)
{
        struct fixture *fixture = *state;

        scenario_write(GPU(""));
        nvml_queue_add(fixture->queue, &fixture->job);
        assert_true(loop_run_until(&fixture->loop, is_done, fixture, PATIENCE_MS));
        assert_false(is_library_gone(NULL));
        wait_library_gone(fixture);
        fixture->code = NVML_ERROR_UNKNOWN;
        nvml_queue_add(fixture->queue, &fixture->job);
        assert_true(loop_run_until(&fixture->loop, is_done_twice, fixture, PATIENCE_MS));
        assert_int_equal(fixture->code, NVML_SUCCESS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_a_call_that_does_not_return_is_named_until_it_does, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_thread_that_cannot_be_started_is_an_error, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_start_that_does_not_return_is_named_as_well, setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_nvml_is_closed_when_nothing_is_asked_and_opened_for_the_next_job, setup, teardown),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
