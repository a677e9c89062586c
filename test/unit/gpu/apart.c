// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "gpu/apart.h"
#include "gpu/hangs.h"

static int answer_it(const void *data, struct strbuf *answer, struct error *err UNUSED)
{
        strbuf_printf(answer, "from %s", getpid() == *(const pid_t *)data ? "here" : "there");
        return 0;
}

static int refuse(const void *data, struct strbuf *answer, struct error *err)
{
        strbuf_puts(answer, "half");
        return error_set(err, ERROR_DENIED, "%s is denied", (const char *)data);
}

static int die(const void *data UNUSED, struct strbuf *answer UNUSED, struct error *err UNUSED)
{
        gpu_call_about(CALL_ON_GPU, 3, "GPU-x");
        gpu_call_begin("nvmlDeviceGetName", 0);
        return raise(SIGKILL);
}

static void test_its_answer_is_here(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        const pid_t here = getpid();
        struct error err;

        strbuf_puts(&answer, "it: ");
        assert_int_equal(apart_run(answer_it, &here, &answer, &err), 0);
        assert_string_equal(answer.data, "it: from there");
        assert_int_equal(apart_run(answer_it, &here, NULL, &err), 0);
}

static void test_its_error_is_here_and_no_answer(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        struct error err;

        assert_int_equal(apart_run(refuse, "it", &answer, &err), -1);
        assert_int_equal(err.kind, ERROR_DENIED);
        assert_string_equal(err.text, "it is denied");
        assert_int_equal(answer.size, 0);
}

static void test_one_that_dies_is_known_by_its_call(void **state UNUSED)
{
        struct error err;

        assert_int_equal(apart_run(die, NULL, NULL, &err), APART_LOST);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_non_null(strstr(err.text, "nvmlDeviceGetName of GPU 3 (GPU-x) has not returned: no answer: process "));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_its_answer_is_here),
                cmocka_unit_test(test_its_error_is_here_and_no_answer),
                cmocka_unit_test(test_one_that_dies_is_known_by_its_call),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
