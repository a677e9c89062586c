// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "plan/trace.h"

static void load(struct trace *trace, const char *name)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/%s", TRACE_FIXTURES, name);
        struct error err;

        assert_ok(file_read(path, TRACE_MAX_TEXT, &content, &err), &err);
        assert_ok(trace_read(trace, name, content.data, content.size, &err), &err);
        assert_ok(trace_end(trace, &err), &err);
}

struct expected {
        int64_t start;
        int64_t duration;
        unsigned int gpus;
        unsigned int part;
};

static void check(
        const char *name, const char *form, const struct expected *expected, size_t n, size_t without, size_t bad)
{
        _cleanup_(trace_done) struct trace trace = {0};

        load(&trace, name);
        assert_string_equal(trace.form, form);
        assert_int_equal(trace.n_requests, n);
        assert_int_equal(trace.n_without_gpu, without);
        assert_int_equal(trace.n_bad, bad);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(trace.requests[i].start, expected[i].start);
                assert_int_equal(trace.requests[i].duration, expected[i].duration);
                assert_int_equal(trace.requests[i].gpus, expected[i].gpus);
                assert_int_equal(trace.requests[i].part_permille, expected[i].part);
        }
}

static void test_the_columns_of_public_traces_are_known(void **state UNUSED)
{
        check("openb.csv", "openb", (const struct expected[]){{100, 590, 0, 250}, {150, 740, 2, 0}, {200, 690, 1, 0}},
                3, 1, 0);
        check("pai.csv", "pai", (const struct expected[]){{100, 300, 0, 500}, {100, 300, 0, 500}, {300, 100, 2, 0}}, 3,
                1, 0);
        check("helios.csv", "helios",
                (const struct expected[]){{1591728061, 600, 1, 0}, {1591728120, 600, 2, 0}, {1591728120, 600, 2, 0}}, 3,
                1, 0);
        check("philly.json", "philly", (const struct expected[]){{1507338699, 660, 1, 0}, {1507338699, 660, 2, 0}}, 2,
                0, 1);
}

static void test_our_columns_say_what_was_granted_and_used(void **state UNUSED)
{
        _cleanup_(trace_done) struct trace trace = {0};
        static const char text[] = "end,unknown,start,replicas,memory_mib,threads_percent,memory_peak_mib,"
                                   "sm_mean_percent,sm_peak_percent\r\n"
                                   "500,\"a,\"\"b\",100,3,4096,30,3000,12.5,29\r\n"
                                   ",,200,1,,,,,\r\n";
        const struct trace_request *first;
        struct error err;

        assert_ok(trace_read(&trace, "t", text, strlen(text), &err), &err);
        assert_ok(trace_end(&trace, &err), &err);
        assert_int_equal(trace.n_requests, 2);
        first = &trace.requests[0];
        assert_int_equal(first->duration, 400);
        assert_int_equal(first->replicas, 3);
        assert_int_equal(first->memory_mib, 4096);
        assert_int_equal(first->threads_permille, 300);
        assert_int_equal(first->peak_mib, 3000);
        assert_int_equal(first->sm_mean_permille, 125);
        assert_int_equal(first->sm_peak_permille, 290);
        assert_int_equal(trace.requests[1].duration, 300); /* until the trace ends */
}

#define HEAD "start,end,replicas,memory_mib,threads_percent\n"

static void test_a_line_with_a_mistake_is_left_out_and_named(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *why;
        } rows[] = {
                {HEAD "1,2,1,x,\n", "trace 't' line 2, column memory_mib: 'x' is not a number from 0 to 16777216"},
                {HEAD "\n1,2,1,,101\n",
                        "trace 't' line 3, column threads_percent: '101' is not a number from 0 to 100"},
                {HEAD "1,2,-1,,\n", "trace 't' line 2, column replicas: '-1' is not a number from 0 to 50000"},
                {HEAD "1,2,nan,,\n7,6,1,,\n", "trace 't' line 3, column end: '6' is not at or after its start"},
                {HEAD ",6,1,,\n",
                        "trace 't' line 2, column start: '' is not a time, and without it the line has no place"},
                {HEAD "soon,6,1,,\n", "trace 't' line 2, column start: 'soon' is not a time in seconds or a date"},
                {HEAD "1e300,,1,,\n", "trace 't' line 2, column start: '1e300' is not a time in seconds or a date"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_(trace_done) struct trace trace = {0};
                struct error err;

                assert_ok(trace_read(&trace, "t", rows[i].text, strlen(rows[i].text), &err), &err);
                assert_int_equal(trace.n_bad, 1);
                assert_string_equal(trace.first_bad, rows[i].why);
        }
}

static void test_what_is_no_trace_is_an_error(void **state UNUSED)
{
        static const char *const texts[] = {"", "a,b\n1,2\n", "[{]", "start,end\n1,2\n"};
        _cleanup_(trace_done) struct trace trace = {0};
        _free_ char *wide = xcalloc(1, 100000);
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                assert_int_equal(trace_read(&trace, "t", texts[i], strlen(texts[i]), &err), -1);
        assert_int_equal(trace_end(&trace, &err), -1);
        memset(wide, ',', 99999);
        assert_int_equal(trace_read(&trace, "t", wide, 99999, &err), -1);
        for (size_t i = 4000; i < 4200; i++) { /* a cell as long as there is room, and empty ones behind it */
                memset(wide, ',', 99999);
                memset(wide, 'x', i);
                assert_int_equal(trace_read(&trace, "t", wide, i + 70, &err), -1);
        }
        memset(wide, '"', 99999);
        assert_int_equal(trace_read(&trace, "t", wide, 99999, &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_columns_of_public_traces_are_known),
                cmocka_unit_test(test_our_columns_say_what_was_granted_and_used),
                cmocka_unit_test(test_a_line_with_a_mistake_is_left_out_and_named),
                cmocka_unit_test(test_what_is_no_trace_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
