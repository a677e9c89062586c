#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define TIME_US INT64_C(1795169163123456) /* 2026-11-20T10:06:03.123456Z */

static const char *format_at(
        enum log_level level, enum log_format format, const char *message, const struct log_field *fields)
{
        static char line[256];
        const struct log_event event = {
                .level = level,
                .place = {"../src/cmd/agent.c", 98},
                .unix_us = TIME_US,
                .pid = 42,
                .message = message,
                .fields = fields,
        };

        size_t length = log_format_line(line, sizeof(line), format, &event);

        assert_int_equal(length, strlen(line));
        return line;
}

static const char *format_one(enum log_format format, const char *message, const struct log_field *fields)
{
        return format_at(LOG_INFO, format, message, fields);
}

static void test_a_text_line_is_message_then_pairs(void **state UNUSED)
{
        assert_string_equal(
                format_one(LOG_TEXT, "registered",
                        (struct log_field[]){LOG_STR("resource", "nvidia.com/gpu"), LOG_UINT("devices", 80U), {NULL}}),
                "2026-11-20T10:06:03.123Z info  registered resource=nvidia.com/gpu devices=80\n");
}

static void test_a_json_line_is_one_object(void **state UNUSED)
{
        assert_string_equal(format_one(LOG_JSON, "lost \"it\"", (struct log_field[]){LOG_INT("xid", -79), {NULL}}),
                "{\"time\":\"2026-11-20T10:06:03.123Z\",\"level\":\"info\",\"msg\":\"lost \\\"it\\\"\",\"xid\":-79}\n");
}

static void test_a_klog_line_has_the_header_of_klog(void **state UNUSED)
{
        static const struct {
                enum log_level level;
                const char *line;
        } cases[] = {
                {LOG_DEBUG, "I1120 10:06:03.123456      42 agent.c:98] Starting to serve 'a' on /b\n"},
                {LOG_INFO, "I1120 10:06:03.123456      42 agent.c:98] Starting to serve 'a' on /b\n"},
                {LOG_WARN, "W1120 10:06:03.123456      42 agent.c:98] Starting to serve 'a' on /b\n"},
                {LOG_ERROR, "E1120 10:06:03.123456      42 agent.c:98] Starting to serve 'a' on /b\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_string_equal(format_at(cases[i].level, LOG_KLOG, "Starting to serve 'a' on /b",
                                            (struct log_field[]){{NULL}}),
                        cases[i].line);
}

static void test_a_klog_line_with_fields_is_structured(void **state UNUSED)
{
        assert_string_equal(
                format_one(LOG_KLOG, "GPU \"x\"",
                        (struct log_field[]){LOG_STR("gpu", "GPU-1"), LOG_INT("numa", -1), LOG_STR("n", ""), {NULL}}),
                "I1120 10:06:03.123456      42 agent.c:98] \"GPU \\\"x\\\"\" gpu=\"GPU-1\" numa=-1 n=\"\"\n");
}

static void test_a_klog_value_of_many_lines_is_an_indented_block(void **state UNUSED)
{
        assert_string_equal(format_one(LOG_KLOG, "m",
                                    (struct log_field[]){LOG_STR("version", "1.2\ncommit: \x1b\nE1120 forged"),
                                            LOG_INT("n", 1), {NULL}}),
                "I1120 10:06:03.123456      42 agent.c:98] \"m\" version=<\n\t1.2\n\tcommit: \\u001b\n\tE1120 forged\n > "
                "n=1\n");
}

static void test_a_hostile_message_cannot_forge_a_line(void **state UNUSED)
{
        const struct log_field none[] = {{NULL}};

        assert_string_equal(format_one(LOG_TEXT, "key 'a\nb'", none), "2026-11-20T10:06:03.123Z info  key 'a\\nb'\n");
        assert_string_equal(
                format_one(LOG_KLOG, "key 'a\nb'", none), "I1120 10:06:03.123456      42 agent.c:98] key 'a\\nb'\n");
}

static void test_a_hostile_value_cannot_forge_a_line(void **state UNUSED)
{
        assert_string_equal(
                format_one(LOG_TEXT, "m", (struct log_field[]){LOG_STR("v", "a\nerror forged=\"x\"\x1b"), {NULL}}),
                "2026-11-20T10:06:03.123Z info  m v=\"a\\nerror forged=\\\"x\\\"\\u001b\"\n");
        assert_string_equal(
                format_one(LOG_TEXT, "m", (struct log_field[]){LOG_STR("v", ""), LOG_STR("w", NULL), {NULL}}),
                "2026-11-20T10:06:03.123Z info  m v=\"\" w=-\n");
}

static void test_a_long_line_is_cut_and_still_ends(void **state UNUSED)
{
        char huge[1000];
        const char *line;

        memset(huge, 'x', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        line = format_one(LOG_TEXT, huge, (struct log_field[]){LOG_STR("v", huge), {NULL}});
        assert_int_equal(strlen(line), 255);
        assert_int_equal(line[254], '\n');
}

/* What standard error got since the last call, by a pipe in its place. */
static const char *written(int pipe_end)
{
        static char text[16384];
        ssize_t size = read(pipe_end, text, sizeof(text) - 1);

        text[size > 0 ? size : 0] = '\0';
        return text;
}

static void test_a_reader_that_stalls_costs_lines_not_time(void **state UNUSED)
{
        int ends[2];
        int saved = dup(STDERR_FILENO);
        const char *text = "";

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0); /* one that blocks, as a container's standard error does */
        dup2(ends[1], STDERR_FILENO);
        for (int i = 0; i < 10000; i++)
                log_info("a line that nobody reads");
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        assert_non_null(strstr(written(ends[0]), "a line that nobody reads"));
        while (*written(ends[0]))
                ;
        log_info("somebody is there again");
        text = written(ends[0]);
        assert_non_null(strstr(text, " bytes of log were lost: nobody read them)\n"));
        assert_non_null(strstr(text, "somebody is there again\n"));
        dup2(saved, STDERR_FILENO);
        close(saved);
        close(ends[0]);
        close(ends[1]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_text_line_is_message_then_pairs),
                cmocka_unit_test(test_a_json_line_is_one_object),
                cmocka_unit_test(test_a_klog_line_has_the_header_of_klog),
                cmocka_unit_test(test_a_klog_line_with_fields_is_structured),
                cmocka_unit_test(test_a_klog_value_of_many_lines_is_an_indented_block),
                cmocka_unit_test(test_a_hostile_message_cannot_forge_a_line),
                cmocka_unit_test(test_a_hostile_value_cannot_forge_a_line),
                cmocka_unit_test(test_a_long_line_is_cut_and_still_ends),
                cmocka_unit_test(test_a_reader_that_stalls_costs_lines_not_time),
        };

        setenv("TZ", "UTC", 1); /* klog's times are local */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
