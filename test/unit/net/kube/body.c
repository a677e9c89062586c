// SPDX-License-Identifier: Apache-2.0
/*
 * The text of a JSON value: jansson's own is what it has to be.
 */
#include "unit.h"

#include <string.h>

#include "net/kube/body.h"

static void test_the_text_is_what_jansson_makes(void **state UNUSED)
{
        static const char *const texts[] = {"{}", "[]",
                "{\"a\": {}, \"b\": [], \"c\": [1, [2, {}], -9223372036854775808]}",
                "[9223372036854775807, 0, 1.5, -1e300, 1.0, true, false, null]",
                "[\"\", \"plain\", \"\\u00fc \\u20ac \\ud83d\\ude00\", \"/\", \"\\u007f\", \"\\\"quoted\\\" \\\\ back\"]",
                "[\"\\b\\f\\n\\r\\t\", \"\\u0001\\u001f end\", \"\\n\"]", "{\"a \\\"key\\\"\\n\": \"z\", \"\": 1}"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                json_error_t error;
                json_t *value = json_loads(texts[i], 0, &error);
                _free_ char *expected = NULL;
                _free_ char *text = NULL;

                if (!value)
                        fail_msg("%s: %s", texts[i], error.text);
                expected = json_dumps(value, JSON_COMPACT);
                text = body_print(value);
                json_decref(value);
                assert_string_equal(text, expected);
        }
}

static void test_every_character_is_as_jansson_has_it(void **state UNUSED)
{
        for (unsigned int c = 1; c < 128; c++) {
                const char bytes[] = {'a', (char)c, 'b', '\0'};
                json_t *value = json_pack("{s: s}", bytes, bytes);
                _free_ char *expected = json_dumps(value, JSON_COMPACT);
                _free_ char *text = body_print(value);

                json_decref(value);
                assert_string_equal(text, expected);
        }
}

/* Never less: what is let in by the count is what memory has room for. */
static void test_what_a_text_holds_is_counted_without_reading_it(void **state UNUSED)
{
        static const struct {
                const char *text;
                size_t count;
        } cases[] = {
                {"", 0},
                {"1", 0},
                {"{}", 1},
                {"[[],[]]", 4},
                {"{\"a\":1,\"b\":[\"x\",\"y\"]}", 4},
                {"[\"a,[{\\\",\\\\\",\"\\\"[\"]", 2},
                {"{\"<,\":{\"{\":{}}}", 3},
                {"[\"unfinished \\", 1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(body_count(cases[i].text, strlen(cases[i].text)), cases[i].count);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_text_is_what_jansson_makes),
                cmocka_unit_test(test_every_character_is_as_jansson_has_it),
                cmocka_unit_test(test_what_a_text_holds_is_counted_without_reading_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
