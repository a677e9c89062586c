// SPDX-License-Identifier: Apache-2.0
/* The process that reads is real; what it finds is said here. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/io/loop.h"
#include "mps/supervisor/environment.h"
#include "mps/supervisor/process.h"

#define POD_A "aaaaaaaa-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define POD_B "bbbbbbbb-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define HANGS 666 /* a PID */

static const char *content;
static size_t content_size;

/* Taken before that of the library. */
void process_read_environment(struct strbuf *ret, const char *root UNUSED, pid_t pid, uint64_t start_time UNUSED)
{
        while (pid == HANGS)
                pause();
        strbuf_append(ret, content, content_size);
}

struct fixture {
        uv_loop_t loop;
        struct environments *environments;
        size_t n_answers;
};

static struct environment read_it(const char *bytes, size_t size)
{
        struct environment environment;

        content = bytes;
        content_size = size;
        environment_read(&environment, "", 1, 1);
        return environment;
}

static void allocation_is(const char *bytes, size_t size, const char *expected)
{
        assert_string_equal(read_it(bytes, size).allocation, expected);
}

static void threads_are(const char *bytes, size_t size, bool is_known, unsigned int expected)
{
        const struct environment environment = read_it(bytes, size);

        assert_int_equal(environment.is_known, is_known);
        assert_int_equal(environment.asked_permille, expected);
}

static void test_the_thread_variable_is_read_as_cuda_reads_it(void **state UNUSED)
{
        threads_are("A=1\0CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=35\0", 41, true, 350);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33.3", 38, true, 333);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=0.01", 38, true, 1);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20\0CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=90", 73, true, 200);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=", 34, true, 0);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=101", 37, true, 0);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=-5", 36, true, 0);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=nan", 37, true, 0);
        threads_are("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=5 %", 37, true, 0);
        threads_are("PATH=/bin", 9, true, 0);
        threads_are("", 0, false, 0); /* not to be read is not the same as not there */
}

static void test_an_allocation_id_has_its_own_form_or_is_none(void **state UNUSED)
{
        char *large = xcalloc(1, PROCESS_ENVIRONMENT_MAX);

        allocation_is("PATH=/bin\0WARPSHARE_GRANT=g1a2b\0HOME=/\0", 39, "g1a2b");
        allocation_is("WARPSHARE_GRANT=g1", 18, "g1"); /* without the last NUL */
        allocation_is("WARPSHARE_GRANT=", 16, "");
        allocation_is("WARPSHARE_GRANT=../x", 20, "");
        allocation_is("WARPSHARE_GRANT=g 1", 19, "");
        allocation_is("WARPSHARE_GRANT=\"\n", 18, "");
        allocation_is("XWARPSHARE_GRANT=g1", 19, "");
        allocation_is("WARPSHARE_GRANTS=g1", 19, "");
        allocation_is("WARPSHARE_GRANT=0123456789012345678901234567890123456789012345678901234567890123", 80,
                "0123456789012345678901234567890123456789012345678901234567890123");
        allocation_is("WARPSHARE_GRANT=01234567890123456789012345678901234567890123456789012345678901234", 81, "");
        allocation_is("", 0, "");
        /* A longer one was cut: what is not there may have been. */
        memset(large, 'x', PROCESS_ENVIRONMENT_MAX);
        threads_are(large, PROCESS_ENVIRONMENT_MAX, false, 0);
        free(large);
}

/* ---- asking ---- */

struct asked {
        struct environment_question question;
        struct fixture *fixture;
        struct environment environment;
        bool is_done;
        size_t place;
        struct asked *cancels;
};

static void on_environment(struct environment_question *question, const struct environment *environment)
{
        struct asked *asked = container_of(question, struct asked, question);

        assert_false(asked->is_done);
        asked->is_done = true;
        asked->environment = *environment;
        asked->place = asked->fixture->n_answers++;
        if (asked->cancels)
                environments_cancel(&asked->cancels->question);
}

static bool ask(struct fixture *f, struct asked *ret, pid_t pid, const char *pod, uid_t uid)
{
        *ret = (struct asked){
                .fixture = f, .question = {.process = {pid, 1}, .pod_uid = pod, .uid = uid, .done = on_environment}};
        return environments_ask(f->environments, &ret->question);
}

static void test_one_that_hangs_takes_its_pod_with_it_and_nobody_else(void **state)
{
        struct fixture *f = *state;
        struct asked hung;
        struct asked other;
        struct asked same;
        struct asked cancelled;
        struct asked again;

        assert_true(ask(f, &hung, HANGS, POD_A, 0));
        assert_true(ask(f, &other, 2, POD_B, 0));
        assert_true(ask(f, &same, 3, POD_A, 0));
        assert_true(ask(f, &cancelled, 4, POD_A, 0));
        same.cancels = &cancelled;
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(hung.is_done);
        assert_false(hung.environment.is_known);
        assert_true(same.is_done);
        assert_false(same.environment.is_known);
        assert_int_equal(same.place, 1); /* without another reading */
        assert_false(cancelled.is_done);
        assert_true(other.environment.is_known);
        assert_string_equal(other.environment.allocation, "g1");
        /* Later ones of that pod are not read for a while; who has no pod, or another one, is. */
        assert_false(ask(f, &again, 5, POD_A, 0));
        assert_true(ask(f, &again, 5, POD_B, 0));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(again.environment.is_known);
        assert_true(ask(f, &again, 5, NULL, 0));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(again.environment.is_known);
}

static void test_without_a_pod_it_is_the_user_who_is_left_out(void **state)
{
        struct fixture *f = *state;
        struct asked hung;
        struct asked again;

        assert_true(ask(f, &hung, HANGS, NULL, 1000));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_false(ask(f, &again, 5, NULL, 1000));
        assert_true(ask(f, &again, 5, POD_A, 1000));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(again.environment.is_known);
        assert_true(ask(f, &again, 5, NULL, 1001));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_true(again.environment.is_known);
}

static int set_up(void **state)
{
        struct fixture *f = xcalloc(1, sizeof(*f));

        content = "WARPSHARE_GRANT=g1";
        content_size = strlen(content);
        loop_init(&f->loop);
        f->environments = environments_new(&f->loop, "");
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        f->environments = environments_close(f->environments);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_the_thread_variable_is_read_as_cuda_reads_it),
                TEST(test_an_allocation_id_has_its_own_form_or_is_none),
                TEST(test_one_that_hangs_takes_its_pod_with_it_and_nobody_else),
                TEST(test_without_a_pod_it_is_the_user_who_is_left_out),
        };

        log_setup(LOG_ERROR, LOG_TEXT);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
