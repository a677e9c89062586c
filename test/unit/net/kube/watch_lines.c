// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "net/kube/client.h"
#include "net/kube/watch_lines.h"

#define LIMIT ((size_t)64)

static struct watch_lines lines;

static int start(void **state UNUSED)
{
        watch_lines_init(&lines, LIMIT);
        return 0;
}

static int end(void **state UNUSED)
{
        watch_lines_done(&lines);
        return 0;
}

static void add(const char *text)
{
        watch_lines_add(&lines, text, strlen(text));
}

static void expect_event(enum watch_event_type type, const char *object)
{
        struct watch_event event;
        struct error err;
        char *text;

        assert_ok(watch_lines_next(&lines, &event, &err), &err);
        assert_int_equal(event.type, type);
        text = json_dumps(event.object, JSON_COMPACT);
        assert_string_equal(text, object);
        free(text);
        json_decref(event.object);
}

static void expect_none(void)
{
        struct watch_event event;
        struct error err;

        assert_int_equal(watch_lines_next(&lines, &event, &err), 0);
}

static void expect_error(const char *text)
{
        struct watch_event event;
        struct error err;

        assert_int_equal(watch_lines_next(&lines, &event, &err), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_string_equal(err.text, text);
}

static void test_every_type_is_told_apart(void **state UNUSED)
{
        add("{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"type\":\"MODIFIED\",\"object\":{\"a\":2}}\r\n\n\r\n");
        add("{\"type\":\"DELETED\",\"object\":{}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n{\"object\":{},\"type\":\"ERROR\"}\n");
        expect_event(WATCH_ADDED, "{\"a\":1}");
        expect_event(WATCH_MODIFIED, "{\"a\":2}");
        expect_event(WATCH_DELETED, "{}");
        expect_event(WATCH_BOOKMARK, "{}");
        expect_event(WATCH_ERROR, "{}");
        expect_none();
}

static void test_half_a_line_is_no_event(void **state UNUSED)
{
        add("{\"type\":\"ADDED\",\"obj");
        expect_none();
        add("ect\":{}}");
        expect_none();
        add("\n{");
        expect_event(WATCH_ADDED, "{}");
        expect_none();
}

/* An annotation may hold anything: it must not make its object unreadable. */
static void test_a_zero_in_a_text_is_no_rubbish(void **state UNUSED)
{
        struct watch_event event;
        struct error err;

        add("{\"type\":\"ADDED\",\"object\":{\"a\":\"x\\u0000y\"}}\n");
        assert_int_equal(watch_lines_next(&lines, &event, &err), 1);
        assert_int_equal(json_string_length(json_object_get(event.object, "a")), 3);
        json_decref(event.object);
}

static void test_what_is_no_event_is_an_error(void **state UNUSED)
{
        static const struct {
                const char *line;
                const char *text;
        } table[] = {
                {"{\"type\":\"ADDED\"}\n",
                        "an event of type 'ADDED' without an object, must be one of Kubernetes' with an object"},
                {"{\"type\":\"ADDED\",\"object\":[]}\n",
                        "an event of type 'ADDED' without an object, must be one of Kubernetes' with an object"},
                {"{\"type\":\"MOVED\",\"object\":{}}\n",
                        "an event of type 'MOVED', must be one of Kubernetes' with an object"},
                {"{\"type\":7,\"object\":{}}\n", "an event of type '', must be one of Kubernetes' with an object"},
                {"[]\n", "an event of type '' without an object, must be one of Kubernetes' with an object"},
                {"{}}\n", "an event that is no JSON: end of file expected near '}'"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                watch_lines_done(&lines);
                watch_lines_init(&lines, LIMIT);
                add(table[i].line);
                expect_error(table[i].text);
        }
}

static void test_a_line_that_is_too_long_is_known_before_its_end(void **state UNUSED)
{
        char text[LIMIT + 2];

        memset(text, ' ', sizeof(text));
        watch_lines_add(&lines, text, LIMIT);
        expect_none();
        watch_lines_add(&lines, text, 1);
        expect_error("an event longer than the limit of 64 bytes");
}

static void test_a_whole_line_that_is_too_long_is_an_error(void **state UNUSED)
{
        char text[LIMIT + 2];

        memset(text, ' ', sizeof(text));
        text[LIMIT + 1] = '\n';
        watch_lines_add(&lines, text, sizeof(text));
        expect_error("an event longer than the limit of 64 bytes");
}

/* Each costs memory, and little of the line. */
static void test_a_line_of_too_many_values_is_an_error(void **state UNUSED)
{
        static const char begin[] = "{\"type\":\"ADDED\",\"object\":{\"list\":[";
        struct strbuf text = STRBUF_INIT;

        watch_lines_done(&lines);
        watch_lines_init(&lines, 4 * KUBE_ANSWER_VALUES);
        strbuf_puts(&text, begin);
        for (size_t i = 0; i < KUBE_ANSWER_VALUES; i++)
                strbuf_puts(&text, "1,");
        strbuf_puts(&text, "1]}}\n");
        watch_lines_add(&lines, text.data, text.size);
        strbuf_done(&text);
        expect_error("an event of more than 200000 values");
}

#define LINES_TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
        const struct CMUnitTest tests[] = {
                LINES_TEST(test_every_type_is_told_apart),
                LINES_TEST(test_half_a_line_is_no_event),
                LINES_TEST(test_a_zero_in_a_text_is_no_rubbish),
                LINES_TEST(test_what_is_no_event_is_an_error),
                LINES_TEST(test_a_line_that_is_too_long_is_known_before_its_end),
                LINES_TEST(test_a_whole_line_that_is_too_long_is_an_error),
                LINES_TEST(test_a_line_of_too_many_values_is_an_error),
        };

        return cmocka_run_group_tests_name("watch_lines", tests, NULL, NULL);
}
