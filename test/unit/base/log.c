// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <jansson.h>
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

/* They turn the direction of what follows, or make a name look like another. */
static void test_characters_that_are_not_seen_are_seen_in_a_line(void **state UNUSED)
{
        const struct log_field fields[] = {
                LOG_STR("pod", "team-a/\xe2\x80\xaeniart"), LOG_STR("image", "a\xe2\x80\x8b\xf3\xa0\x81\xa1"), {NULL}};

        assert_string_equal(format_one(LOG_TEXT, "m\xef\xbb\xbf", fields),
                "2026-11-20T10:06:03.123Z info  m\\ufeff pod=\"team-a/\\u202eniart\" image=\"a\\u200b\\udb40\\udc61\"\n");
        assert_string_equal(format_one(LOG_KLOG, "m\xef\xbb\xbf", fields),
                "I1120 10:06:03.123456      42 agent.c:98] \"m\\ufeff\" pod=\"team-a/\\u202eniart\" "
                "image=\"a\\u200b\\udb40\\udc61\"\n");
        assert_string_equal(format_one(LOG_JSON, "m\xef\xbb\xbf", fields),
                "{\"time\":\"2026-11-20T10:06:03.123Z\",\"level\":\"info\",\"msg\":\"m\\ufeff\",\"pod\":\"team-a/"
                "\\u202eniart\",\"image\":\"a\\u200b\\udb40\\udc61\"}\n");
}

static void test_what_is_no_utf8_is_written_byte_by_byte(void **state UNUSED)
{
        const struct log_field fields[] = {
                LOG_STR("v", "a\xff\xc3(\xe2\x82"), LOG_STR("w", "\xc3\xa9\xc2\x9b"), {NULL}};

        assert_string_equal(format_one(LOG_TEXT, "m\xfe", fields),
                "2026-11-20T10:06:03.123Z info  m\\xfe v=\"a\\xff\\xc3(\\xe2\\x82\" w=\"\xc3\xa9\\u009b\"\n");
        assert_string_equal(format_one(LOG_KLOG, "m\xfe", fields),
                "I1120 10:06:03.123456      42 agent.c:98] \"m\\xfe\" v=\"a\\xff\\xc3(\\xe2\\x82\" "
                "w=\"\xc3\xa9\\u009b\"\n");
        assert_string_equal(format_one(LOG_JSON, "m\xfe", fields),
                "{\"time\":\"2026-11-20T10:06:03.123Z\",\"level\":\"info\",\"msg\":\"m\\\\xfe\","
                "\"v\":\"a\\\\xff\\\\xc3(\\\\xe2\\\\x82\",\"w\":\"\xc3\xa9\\u009b\"}\n");
}

static void test_a_long_line_is_cut_and_still_ends(void **state UNUSED)
{
        static const enum log_format formats[] = {LOG_TEXT, LOG_KLOG};
        char huge[1000];

        memset(huge, 'x', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
                const char *line =
                        format_one(formats[i], huge, (struct log_field[]){LOG_STR("v", huge), LOG_INT("n", 1), {NULL}});

                assert_true(strlen(line) < 256 && strlen(line) > 200);
                assert_non_null(strstr(line, "x\xe2\x80\xa6"));
                assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        }
}

/* Wherever it is cut: between fields, in a key, a number, a character of several bytes, an escape, the last quote. */
static void test_a_json_line_is_json_wherever_it_is_cut(void **state UNUSED)
{
        const struct log_field fields[] = {LOG_STR("one", "\xc3\xa9\"\\\n\x1b\xff\xf0\x9f\x98\x80 and more of it"),
                LOG_INT("number", INT64_MIN), LOG_STR("two", "\xe2\x82\xac"), LOG_STR("three", ""), {NULL}};
        char line[512];
        const struct log_event event = {.place = {"a.c", 1},
                .unix_us = TIME_US,
                .message = "so \"long\" a message\t\xf0\x9f\x98\x80",
                .fields = fields};
        char whole[512];
        size_t n_cut = 0;

        log_format_line(whole, sizeof(whole), LOG_JSON, &event);
        for (size_t size = LOG_LINE_LEAST; size <= sizeof(line); size++) {
                size_t length = log_format_line(line, size, LOG_JSON, &event);
                json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
                bool is_cut = json_is_true(json_object_get(json, "cut"));

                assert_true(length < size && length == strlen(line) && line[length - 1] == '\n');
                assert_non_null(json);
                assert_int_equal(is_cut, strcmp(line, whole) != 0);
                n_cut += is_cut;
                json_decref(json);
        }
        assert_true(n_cut > 0);
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

/* Such as the configuration: in JSON form it is one line, and whole. */
static void test_a_block_is_whole_in_json_however_long_it_is(void **state UNUSED)
{
        static char block[9000];
        int ends[2];
        int saved = dup(STDERR_FILENO);
        json_t *json;

        for (size_t i = 0; i + 1 < sizeof(block); i++)
                block[i] = "a\"\n"[i % 3];
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        dup2(ends[1], STDERR_FILENO);
        log_setup(LOG_INFO, LOG_JSON);
        log_block(LOG_INFO, "block", block);
        log_setup(LOG_INFO, LOG_TEXT);
        dup2(saved, STDERR_FILENO);
        close(saved);
        close(ends[1]);
        json = json_loads(written(ends[0]), 0, NULL);
        assert_non_null(json);
        assert_string_equal(json_string_value(json_object_get(json, "text")), block);
        json_decref(json);
        close(ends[0]);
}

/* A line that lost its end is not the beginning of the next, and a notice in a JSON log is JSON. */
static void test_lost_bytes_are_reported_in_the_form_of_the_log(void **state UNUSED)
{
        static char block[8000];
        int ends[2];
        int saved = dup(STDERR_FILENO);
        const char *text;
        const char *notice;
        json_t *json;

        memset(block, 'x', sizeof(block) - 1);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        dup2(ends[1], STDERR_FILENO);
        log_setup(LOG_INFO, LOG_JSON);
        for (int i = 0; i < 100; i++)
                log_block(LOG_INFO, "block", block);
        while (*written(ends[0]))
                ;
        log_info("somebody is there again");
        log_setup(LOG_INFO, LOG_TEXT);
        dup2(saved, STDERR_FILENO);
        close(saved);
        close(ends[1]);
        text = written(ends[0]);
        notice = strchr(text, '{');
        assert_non_null(notice);
        assert_true(notice == text || notice[-1] == '\n');
        json = json_loads(notice, JSON_DISABLE_EOF_CHECK, NULL);
        assert_string_equal(json_string_value(json_object_get(json, "msg")), "log lines were lost: nobody read them");
        assert_true(json_integer_value(json_object_get(json, "bytes")) > 0);
        json_decref(json);
        json = json_loads(strchr(notice, '\n'), 0, NULL);
        assert_string_equal(json_string_value(json_object_get(json, "msg")), "somebody is there again");
        json_decref(json);
        close(ends[0]);
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
                cmocka_unit_test(test_characters_that_are_not_seen_are_seen_in_a_line),
                cmocka_unit_test(test_what_is_no_utf8_is_written_byte_by_byte),
                cmocka_unit_test(test_a_long_line_is_cut_and_still_ends),
                cmocka_unit_test(test_a_json_line_is_json_wherever_it_is_cut),
                cmocka_unit_test(test_a_block_is_whole_in_json_however_long_it_is),
                cmocka_unit_test(test_lost_bytes_are_reported_in_the_form_of_the_log),
                cmocka_unit_test(test_a_reader_that_stalls_costs_lines_not_time),
        };

        setenv("TZ", "UTC", 1); /* klog's times are local */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
