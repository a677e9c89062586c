#include "unit.h"

#include <string.h>

#include "base/text.h"

static void test_numbers_are_whole_strings_within_bounds(void **state UNUSED)
{
        static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x1", "1e3", "18446744073709551616", "101"};
        uint64_t value;

        assert_true(text_to_uint("0", 100, &value));
        assert_int_equal(value, 0);
        assert_true(text_to_uint("0100", 100, &value));
        assert_int_equal(value, 100);
        assert_true(text_to_uint("18446744073709551615", UINT64_MAX, &value));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(text_to_uint(bad[i], 100, &value));
}

static void test_bools_are_spelled_as_in_go(void **state UNUSED)
{
        static const char *const bad[] = {"", "yes", "on", "tRUE", "2", "true "};
        bool value = false;

        assert_true(text_to_bool("True", &value));
        assert_true(value);
        assert_true(text_to_bool("F", &value));
        assert_false(value);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(text_to_bool(bad[i], &value));
}

static void test_the_nearest_word_is_suggested_if_near(void **state UNUSED)
{
        static const char *const words[] = {"replicas", "rename", "resources"};

        assert_string_equal(text_nearest("replica", words, 3), "replicas");
        assert_string_equal(text_nearest("relicas", words, 3), "replicas");
        assert_string_equal(text_nearest("Rename", words, 3), "rename");
        assert_string_equal(text_nearest("ername", words, 3), "rename");
        assert_null(text_nearest("devices", words, 3));
        assert_null(text_nearest("", words, 3));
}

static void test_broken_utf8_becomes_question_marks(void **state UNUSED)
{
        static const struct {
                const char *before;
                const char *after;
        } table[] = {
                {"Tesla V100", "Tesla V100"},
                {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
                {"a\xff"
                 "b",
                        "a?b"},
                {"\xc3", "?"},
                {"\xc0\xaf", "??"},           /* overlong */
                {"\xed\xa0\x80", "???"},      /* surrogate */
                {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
                {"\xe2\x82", "??"},
        };
        char text[32];

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                strcpy(text, table[i].before);
                text_make_utf8(text);
                assert_string_equal(text, table[i].after);
        }
}

static void test_a_text_that_is_missing_is_the_same_as_none_only(void **state UNUSED)
{
        char other[] = "text";

        assert_true(text_is_same("text", other));
        assert_false(text_is_same("text", "texts"));
        assert_true(text_is_same(NULL, NULL));
        assert_false(text_is_same(NULL, ""));
        assert_false(text_is_same("", NULL));
}

static void test_texts_are_sorted_by_their_bytes(void **state UNUSED)
{
        const char *texts[] = {"gpu10", "gpu1", "", "Z", "\xc3\xa4"};

        qsort(texts, ARRAY_SIZE(texts), sizeof(*texts), text_compare);
        assert_string_equal(texts[0], "");
        assert_string_equal(texts[1], "Z");
        assert_string_equal(texts[2], "gpu1");
        assert_string_equal(texts[3], "gpu10");
        assert_string_equal(texts[4], "\xc3\xa4");
}

static void test_control_characters_are_found_and_replaced(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *replaced;
        } cases[] = {
                {"", ""}, {"plain, \xc3\xa9 and \xc2\xa0", "plain, \xc3\xa9 and \xc2\xa0"}, {"a\tb\n", "a?b?"},
                {"\033[31m", "?[31m"}, {"\177", "?"}, {"\xc2\x80 \xc2\x9f", "?? ??"},
                {"\xc2", "\xc2"}, /* cut in the middle of a character */
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char text[32];

                strcpy(text, cases[i].text);
                assert_int_equal(text_has_controls(text), strcmp(cases[i].text, cases[i].replaced) != 0);
                text_replace_controls(text, '?');
                assert_string_equal(text, cases[i].replaced);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers_are_whole_strings_within_bounds),
                cmocka_unit_test(test_bools_are_spelled_as_in_go),
                cmocka_unit_test(test_the_nearest_word_is_suggested_if_near),
                cmocka_unit_test(test_broken_utf8_becomes_question_marks),
                cmocka_unit_test(test_a_text_that_is_missing_is_the_same_as_none_only),
                cmocka_unit_test(test_control_characters_are_found_and_replaced),
                cmocka_unit_test(test_texts_are_sorted_by_their_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
