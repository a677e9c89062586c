// SPDX-License-Identifier: Apache-2.0
/* NVML in processes of its own: who is answered when a GPU does not answer, and what is told of it. */
#include "unit.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/hangs.h"
#include "base/clock.h"
#include "gpu/nvml_pool.h"
#include "base/io/loop.h"
#include "base/io/worker.h"
#include "scenario.h"

#define A "GPU-00000000-0000-4000-8000-00000000000a"
#define B "GPU-00000000-0000-4000-8000-00000000000b"
#define C "GPU-00000000-0000-4000-8000-00000000000c"
#define THREE(a, b, c)                                                                                                 \
        "gpus:\n- {model: T4, uuid: " A a "}\n- {model: T4, uuid: " B b "}\n- {model: T4, uuid: " C c "}\n"
#define MEMORY_HANGS ", delays: {nvmlDeviceGetMemoryInfo: 600s}"
#define MEMORY_KILLS ", errors: {nvmlDeviceGetMemoryInfo: {kills: before}}"
#define PATIENCE_MS 30000
#define LONG_MS 600000 /* for a call that returns when the test says so */
#define SHORT_MS 1000  /* for one that hangs; others return in time even where the machine stands still for a moment */
#define ASKED_MAX 24

static bool ends_nobody;

__attribute__((visibility("default"))) pid_t waitpid(pid_t pid, int *status, int options)
{
        return ends_nobody && options & WNOHANG ? 0 : (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

/* ---- in the process ---- */

/* What each of the functions answers. */
struct seen {
        int pid;
        bool was_open; /* before this request */
        uint64_t memory;
        unsigned int number; /* of the question */
};

static int serve_nothing(
        struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err UNUSED)
{
        struct seen seen = {.pid = getpid(), .was_open = serving->nvml};

        PACK(question, seen.number);
        PACK(answer, seen);
        return 0;
}

/* Reads the memory of the GPU that the question names. */
static int serve_memory(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct seen seen = {.pid = getpid(), .was_open = serving->nvml};
        const struct nvml *nvml;
        nvmlDevice_t device;
        nvmlMemory_t memory;
        const char *uuid;

        PACK(question, seen.number);
        pack_text(question, &uuid);
        if (!pack_end(question))
                return error_set(err, ERROR_INTERNAL, "the question is cut");
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        PACK(answer, seen); /* dropped with an error */
        if (NVML_CALL(nvml, device_get_by_uuid, uuid, &device) != NVML_SUCCESS)
                return error_set(err, ERROR_NOT_FOUND, "GPU %s: not there", uuid);
        if (NVML_CALL(nvml, device_get_memory, device, &memory) != NVML_SUCCESS)
                return error_set(err, ERROR_UNAVAILABLE, "GPU %s: no memory", uuid);
        seen.memory = memory.total;
        strbuf_clear(answer->to);
        PACK(answer, seen);
        return 0;
}

static int serve_and_close(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        serving->must_close = true;
        return serve_memory(serving, question, answer, err);
}

static int serve_never(struct nvml_serving *serving UNUSED, struct pack *question UNUSED, struct pack *answer UNUSED,
        struct error *err UNUSED)
{
        return pause(); /* no signal is handled */
}

/* ---- who asks ---- */

struct fixture {
        uv_loop_t loop;
        struct nvml_pool *pool;
        struct asked {
                struct nvml_request request;
                struct fixture *fixture;
                bool is_done;
                struct error err;
                struct seen seen;
                size_t place;          /* which of all answers it was */
                struct asked *cancels; /* when it is told */
                bool closes;
        } asked[ASKED_MAX];
        size_t n_asked;
        size_t n_answers;
        char told[1000]; /* of hangs */
};

static void on_done(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct asked *asked = container_of(request, struct asked, request);
        struct fixture *f = asked->fixture;

        assert_false(asked->is_done);
        asked->is_done = true;
        asked->place = f->n_answers++;
        if (err)
                asked->err = *err;
        if (!err)
                PACK(answer, asked->seen);
        assert_true(pack_end(answer));
        if (asked->cancels)
                nvml_pool_cancel(f->pool, &asked->cancels->request);
        if (asked->closes)
                f->pool = nvml_pool_close(f->pool);
}

static void on_hang(const struct worker_call *call, bool is_over, void *data)
{
        struct fixture *f = data;
        char text[200];

        hang_print(call, text, sizeof(text));
        snprintf(f->told + strlen(f->told), sizeof(f->told) - strlen(f->told), "%s %s\n",
                is_over ? "over:" : "hangs:", text);
}

static void begin_with(struct fixture *f, uint64_t hang_ms, const char *library)
{
        const struct nvml_pool_options options = {.loop = &f->loop,
                .name = "test-nvml",
                .library = library,
                .hang_ms = hang_ms,
                .on_hang = on_hang,
                .data = f};

        f->pool = nvml_pool_new(&options);
}

static void begin(struct fixture *f, uint64_t hang_ms)
{
        begin_with(f, hang_ms, scenario_library());
}

static struct asked *ask_with(struct fixture *f, nvml_serve_fn *serve, const char *about, const char *uuid)
{
        struct asked *asked = &f->asked[f->n_asked];
        unsigned int number = (unsigned int)f->n_asked++;
        struct pack pack;

        assert_true(number < ASKED_MAX);
        asked->fixture = f;
        nvml_request_init(&asked->request, serve, about, on_done);
        pack = pack_writer(&asked->request.question);
        PACK(&pack, number);
        if (uuid)
                pack_text(&pack, &uuid);
        nvml_pool_ask(f->pool, &asked->request);
        assert_false(asked->is_done);
        return asked;
}

static struct asked *ask(struct fixture *f, const char *uuid)
{
        return ask_with(f, serve_memory, uuid, uuid);
}

static bool is_answered(void *data)
{
        return ((const struct asked *)data)->is_done;
}

static void wait_for(struct fixture *f, struct asked *asked)
{
        assert_true(loop_run_until(&f->loop, is_answered, asked, PATIENCE_MS));
}

static bool never(void *data UNUSED)
{
        return false;
}

static void run_for(struct fixture *f, uint64_t time_ms)
{
        (void)loop_run_until(&f->loop, never, NULL, time_ms);
}

static bool has_ended(void *data)
{
        return nvml_pool_has_ended(((struct fixture *)data)->pool);
}

static void expect_answer(const struct asked *asked)
{
        assert_string_equal(asked->err.kind == ERROR_NONE ? "" : asked->err.text, "");
        assert_true(asked->seen.memory > 0);
        assert_int_equal(asked->seen.number, asked - asked->fixture->asked);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        loop_init(&f->loop);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        ends_nobody = false;
        f->pool = nvml_pool_close(f->pool);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(syscall(SYS_wait4, -1, NULL, WNOHANG, NULL), -1); /* no process is left */
        assert_null(dlopen(scenario_library(), RTLD_LAZY | RTLD_NOLOAD));  /* nor was it ever loaded here */
        free(f);
        return 0;
}

/* ---- answers ---- */

static void test_one_process_answers_about_all_gpus_and_opens_nvml_once(void **state)
{
        struct fixture *f = *state;
        struct asked *first;
        struct asked *second;
        struct asked *none;

        scenario_write(THREE("", "", ""));
        begin(f, 0);
        first = ask(f, A);
        second = ask(f, B);
        none = ask_with(f, serve_nothing, NULL, NULL);
        wait_for(f, none);
        expect_answer(first);
        expect_answer(second);
        assert_int_not_equal(first->seen.pid, getpid());
        assert_int_equal(first->seen.pid, second->seen.pid);
        assert_int_equal(first->seen.pid, none->seen.pid);
        assert_false(first->seen.was_open);
        assert_true(second->seen.was_open);
        assert_int_equal(none->seen.number, 2);
        assert_int_equal(first->place, 0);
        assert_int_equal(second->place, 1);
}

static void test_an_error_of_the_function_arrives_as_it_is_and_without_an_answer(void **state)
{
        struct fixture *f = *state;
        struct asked *fails;
        struct asked *after;

        scenario_write(THREE("", "", ""));
        begin(f, 0);
        fails = ask(f, "GPU-of-nobody");
        after = ask(f, A);
        wait_for(f, after);
        assert_string_equal(fails->err.text, "GPU GPU-of-nobody: not there");
        assert_int_equal(fails->err.kind, ERROR_NOT_FOUND);
        assert_string_equal(fails->request.lost.call, "");
        expect_answer(after);
}

static void test_a_library_that_is_missing_is_an_error_of_each_request(void **state)
{
        struct fixture *f = *state;
        struct asked *fails;
        struct asked *again;
        struct asked *needs_none;

        begin_with(f, 0, "/nonexistent/libnvidia-ml.so.1");
        fails = ask(f, A);
        again = ask(f, A);
        needs_none = ask_with(f, serve_nothing, NULL, NULL);
        wait_for(f, needs_none);
        assert_non_null(strstr(fails->err.text, "/nonexistent/libnvidia-ml.so.1"));
        assert_string_equal(fails->err.text, again->err.text);
        assert_int_equal(needs_none->err.kind, ERROR_NONE);
}

static void test_who_sees_that_the_library_is_out_of_date_has_it_opened_again(void **state)
{
        struct fixture *f = *state;
        struct asked *closes;
        struct asked *after;

        scenario_write(THREE("", "", ""));
        begin(f, 0);
        closes = ask_with(f, serve_and_close, A, A);
        after = ask(f, A);
        wait_for(f, after);
        expect_answer(closes);
        expect_answer(after);
        assert_int_equal(closes->seen.pid, after->seen.pid);
        assert_false(after->seen.was_open);
}

/* ---- GPUs that do not answer ---- */

static void test_a_gpu_that_hangs_delays_another_by_little_and_its_own_requests_keep_their_order(void **state)
{
        struct fixture *f = *state;
        struct asked *hangs;
        struct asked *behind;
        struct asked *other;
        struct asked *third;
        uint64_t before_ms;
        uint64_t took_ms;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, LONG_MS);
        before_ms = clock_now_ms();
        hangs = ask(f, A);
        behind = ask_with(f, serve_nothing, A, NULL);
        other = ask(f, B);
        third = ask(f, C);
        wait_for(f, third);
        took_ms = clock_now_ms() - before_ms;
        assert_true(took_ms >= NVML_POOL_SLOW_MS);
        assert_true(took_ms < NVML_POOL_SLOW_MS + 10000); /* it would be LONG_MS */
        expect_answer(other);
        expect_answer(third);
        assert_int_equal(other->seen.pid, third->seen.pid);
        assert_false(hangs->is_done);
        assert_false(behind->is_done);
        scenario_write(THREE("", "", ""));
        wait_for(f, behind);
        expect_answer(hangs);
        assert_true(hangs->place < behind->place);
        assert_int_not_equal(hangs->seen.pid, other->seen.pid);
        assert_string_equal(f->told, "");
}

static void test_requests_about_no_gpu_keep_their_order_as_well(void **state)
{
        struct fixture *f = *state;
        struct asked *hangs;
        struct asked *behind;
        struct asked *other;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, LONG_MS);
        hangs = ask_with(f, serve_memory, "", A);
        behind = ask_with(f, serve_nothing, NULL, NULL);
        other = ask(f, B);
        wait_for(f, other);
        assert_false(hangs->is_done);
        assert_false(behind->is_done);
        scenario_write(THREE("", "", ""));
        wait_for(f, behind);
        assert_true(hangs->place < behind->place);
}

static void test_a_call_that_is_given_up_is_named_until_its_gpu_answers_again(void **state)
{
        struct fixture *f = *state;
        struct worker_call hangs[NVML_POOL_MAX];
        struct asked *asked;
        struct asked *other;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, SHORT_MS);
        assert_int_equal(nvml_pool_hangs(f->pool, hangs), 0);
        asked = ask(f, A);
        wait_for(f, asked);
        assert_non_null(
                strstr(asked->err.text, "nvmlDeviceGetMemoryInfo of " A " does not return: it was given up after "));
        assert_int_equal(asked->err.kind, ERROR_TIMEOUT);
        assert_string_equal(asked->request.lost.call, "nvmlDeviceGetMemoryInfo");
        assert_string_equal(asked->request.lost.name, A);
        assert_int_equal(nvml_pool_hangs(f->pool, hangs), 1);
        assert_string_equal(hangs[0].call, "nvmlDeviceGetMemoryInfo");
        assert_string_equal(hangs[0].name, A);
        assert_int_equal(hangs[0].subject, CALL_ON_GPU);
        asked = ask(f, A);
        other = ask(f, B);
        wait_for(f, asked);
        wait_for(f, other);
        expect_answer(other);
        assert_int_equal(asked->err.kind, ERROR_TIMEOUT);
        assert_int_equal(nvml_pool_hangs(f->pool, hangs), 1);
        scenario_write(THREE("", "", ""));
        asked = ask(f, A);
        wait_for(f, asked);
        expect_answer(asked);
        assert_int_equal(nvml_pool_hangs(f->pool, hangs), 0);
        assert_string_equal(f->told, "hangs: nvmlDeviceGetMemoryInfo of " A "\n"
                                     "over: nvmlDeviceGetMemoryInfo of " A "\n");
}

static void test_a_start_that_hangs_is_named(void **state)
{
        struct fixture *f = *state;
        struct asked *asked;

        scenario_write("init: {delay: 600s}\n" THREE("", "", ""));
        begin(f, SHORT_MS);
        asked = ask(f, A);
        wait_for(f, asked);
        assert_non_null(strstr(asked->err.text, "nvmlInit_v2 does not return: it was given up after "));
        assert_int_equal(asked->request.lost.subject, CALL_TO_OPEN);
}

static void test_what_hangs_outside_of_nvml_is_told_as_well(void **state)
{
        struct fixture *f = *state;
        struct worker_call hangs[NVML_POOL_MAX];
        struct asked *asked;

        begin(f, SHORT_MS);
        asked = ask_with(f, serve_never, A, NULL);
        wait_for(f, asked);
        assert_non_null(strstr(asked->err.text, "('test-nvml') hung and was killed"));
        assert_int_equal(asked->err.kind, ERROR_TIMEOUT);
        assert_string_equal(asked->request.lost.call, "");
        assert_int_equal(nvml_pool_hangs(f->pool, hangs), 1);
        assert_string_equal(hangs[0].name, A);
        assert_true(hang_seconds(&hangs[0], clock_now_ms()) < PATIENCE_MS / 1000);
        assert_string_equal(f->told, "hangs: what is done between two calls\n");
}

static bool is_one_left(void *data UNUSED)
{
        return worker_count_left() == 1;
}

static bool is_none_left(void *data UNUSED)
{
        return worker_count_left() == 0;
}

static void test_while_a_process_cannot_be_ended_requests_about_its_gpu_fail_at_once(void **state)
{
        struct fixture *f = *state;
        struct asked *asked;
        struct asked *first;
        struct asked *second;
        struct asked *other;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, SHORT_MS);
        ends_nobody = true;
        asked = ask(f, A);
        wait_for(f, asked);
        assert_true(loop_run_until(&f->loop, is_one_left, NULL, PATIENCE_MS));
        assert_false(nvml_pool_has_ended(f->pool));
        first = ask(f, A);
        second = ask(f, A);
        other = ask(f, B);
        first->cancels = second; /* who is told may do anything */
        wait_for(f, other);
        assert_string_equal(first->err.text,
                "nvmlDeviceGetMemoryInfo of " A " does not return, and its process cannot be ended: reboot the node");
        assert_int_equal(first->err.kind, ERROR_TIMEOUT);
        assert_string_equal(first->request.lost.call, "nvmlDeviceGetMemoryInfo");
        assert_false(second->is_done);
        expect_answer(other);
        ends_nobody = false;
        scenario_write(THREE("", "", ""));
        assert_true(loop_run_until(&f->loop, is_none_left, NULL, PATIENCE_MS));
        asked = ask(f, A);
        wait_for(f, asked);
        expect_answer(asked);
}

/* They are failed when one before them is given up, whose owner may do anything to them. */
static void test_those_that_fail_at_once_are_told_after_those_before_them(void **state)
{
        struct fixture *f = *state;
        struct asked *asked[8];

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, SHORT_MS);
        ends_nobody = true;
        for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
                asked[i] = ask(f, A);
        wait_for(f, asked[ARRAY_SIZE(asked) - 1]);
        for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
                assert_int_equal(asked[i]->place, i);
        assert_non_null(strstr(asked[0]->err.text, "it was given up"));
        for (size_t i = 1; i < ARRAY_SIZE(asked); i++) /* none was begun before its end was known */
                assert_non_null(strstr(asked[i]->err.text, "reboot the node"));
        ends_nobody = false;
        assert_true(loop_run_until(&f->loop, is_none_left, NULL, PATIENCE_MS));
}

static void test_a_crash_inside_nvml_fails_its_request_only(void **state)
{
        struct fixture *f = *state;
        struct worker_call hangs[NVML_POOL_MAX];
        struct asked *crashes;
        struct asked *after;

        scenario_write(THREE(MEMORY_KILLS, "", ""));
        begin(f, 0);
        crashes = ask(f, A);
        after = ask(f, B);
        wait_for(f, after);
        assert_int_equal(crashes->err.kind, ERROR_UNAVAILABLE);
        assert_non_null(
                strstr(crashes->err.text, "nvmlDeviceGetMemoryInfo of " A " has not returned: no answer: process "));
        assert_string_equal(crashes->request.lost.call, "nvmlDeviceGetMemoryInfo");
        expect_answer(after);
        assert_int_equal(nvml_pool_hangs(f->pool, hangs), 0);
}

/* ---- beginnings and ends ---- */

static void test_after_a_renewal_the_library_is_loaded_anew(void **state)
{
        struct fixture *f = *state;
        struct asked *first;
        struct asked *under_way;
        struct asked *next;

        scenario_write(THREE("", MEMORY_HANGS, ""));
        begin(f, LONG_MS);
        first = ask(f, A);
        wait_for(f, first);
        nvml_pool_renew(f->pool);
        under_way = ask(f, B);
        run_for(f, 100);
        assert_false(under_way->is_done);
        nvml_pool_renew(f->pool);
        next = ask(f, B);
        scenario_write(THREE("", "", ""));
        wait_for(f, next);
        expect_answer(under_way);
        expect_answer(next);
        assert_int_not_equal(first->seen.pid, under_way->seen.pid);
        assert_int_not_equal(under_way->seen.pid, next->seen.pid);
        assert_false(next->seen.was_open);
}

static void test_it_has_ended_when_none_of_its_processes_is_left(void **state)
{
        struct fixture *f = *state;
        struct asked *hangs;
        struct asked *other;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, LONG_MS);
        assert_true(nvml_pool_has_ended(f->pool));
        hangs = ask(f, A);
        other = ask(f, B);
        wait_for(f, other);
        nvml_pool_renew(f->pool);
        run_for(f, 100);
        assert_false(nvml_pool_has_ended(f->pool)); /* one hangs */
        scenario_write(THREE("", "", ""));
        wait_for(f, hangs);
        assert_true(loop_run_until(&f->loop, has_ended, f, PATIENCE_MS));
        assert_int_equal(kill(hangs->seen.pid, 0), -1);
        assert_int_equal(kill(other->seen.pid, 0), -1);
}

static void test_what_is_cancelled_is_not_told_and_others_are(void **state)
{
        struct fixture *f = *state;
        struct asked *at_once;
        struct asked *hangs;
        struct asked *waits;
        struct asked *last;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, LONG_MS);
        at_once = ask(f, A);
        nvml_pool_cancel(f->pool, &at_once->request);
        hangs = ask(f, A);
        waits = ask(f, A);
        last = ask_with(f, serve_nothing, A, NULL);
        run_for(f, 100);
        nvml_pool_cancel(f->pool, &waits->request);
        nvml_pool_cancel(f->pool, &hangs->request);
        wait_for(f, last);
        assert_int_equal(last->err.kind, ERROR_NONE);
        assert_false(at_once->is_done);
        assert_false(hangs->is_done);
        assert_false(waits->is_done);
}

static void test_one_about_a_gpu_waits_until_the_process_of_the_one_before_has_ended(void **state)
{
        struct fixture *f = *state;
        struct asked *hangs;
        struct asked *next;
        struct asked *other;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, LONG_MS);
        hangs = ask(f, A);
        run_for(f, 100);
        ends_nobody = true;
        nvml_pool_cancel(f->pool, &hangs->request);
        next = ask_with(f, serve_nothing, A, NULL);
        other = ask(f, B);
        wait_for(f, other);
        expect_answer(other);
        assert_false(next->is_done);
        ends_nobody = false;
        wait_for(f, next);
        assert_int_equal(next->err.kind, ERROR_NONE);
}

static void test_requests_that_are_open_fail_when_it_is_closed(void **state)
{
        struct fixture *f = *state;
        struct asked *hangs;
        struct asked *waits;

        scenario_write(THREE(MEMORY_HANGS, "", ""));
        begin(f, LONG_MS);
        hangs = ask(f, A);
        waits = ask(f, A);
        run_for(f, 100);
        f->pool = nvml_pool_close(f->pool);
        assert_string_equal(hangs->err.text, "NVML was not asked: the program ends");
        assert_int_equal(hangs->err.kind, ERROR_UNAVAILABLE);
        assert_string_equal(waits->err.text, hangs->err.text);
        assert_null(nvml_pool_close(NULL));
}

static void test_who_is_told_may_close_it(void **state)
{
        struct fixture *f = *state;
        struct asked *closes;
        struct asked *waits;

        scenario_write(THREE("", "", ""));
        begin(f, 0);
        closes = ask(f, A);
        waits = ask(f, A);
        closes->closes = true;
        wait_for(f, closes);
        assert_null(f->pool);
        assert_int_equal(waits->err.kind, ERROR_UNAVAILABLE);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_one_process_answers_about_all_gpus_and_opens_nvml_once),
                TEST(test_an_error_of_the_function_arrives_as_it_is_and_without_an_answer),
                TEST(test_a_library_that_is_missing_is_an_error_of_each_request),
                TEST(test_who_sees_that_the_library_is_out_of_date_has_it_opened_again),
                TEST(test_a_gpu_that_hangs_delays_another_by_little_and_its_own_requests_keep_their_order),
                TEST(test_requests_about_no_gpu_keep_their_order_as_well),
                TEST(test_a_call_that_is_given_up_is_named_until_its_gpu_answers_again),
                TEST(test_a_start_that_hangs_is_named),
                TEST(test_what_hangs_outside_of_nvml_is_told_as_well),
                TEST(test_while_a_process_cannot_be_ended_requests_about_its_gpu_fail_at_once),
                TEST(test_those_that_fail_at_once_are_told_after_those_before_them),
                TEST(test_a_crash_inside_nvml_fails_its_request_only),
                TEST(test_after_a_renewal_the_library_is_loaded_anew),
                TEST(test_it_has_ended_when_none_of_its_processes_is_left),
                TEST(test_what_is_cancelled_is_not_told_and_others_are),
                TEST(test_one_about_a_gpu_waits_until_the_process_of_the_one_before_has_ended),
                TEST(test_requests_that_are_open_fail_when_it_is_closed),
                TEST(test_who_is_told_may_close_it),
        };

        log_setup(LOG_ERROR, LOG_TEXT);
        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
