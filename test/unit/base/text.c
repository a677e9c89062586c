// SPDX-License-Identifier: Apache-2.0
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

static void test_what_is_not_seen_or_no_text_is_replaced_where_it_can_be_seen(void **state UNUSED)
{
        static const struct {
                const char *before;
                const char *after;
        } table[] = {
                {"", ""},
                {"Tesla V100", "Tesla V100"},
                {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \xc2\xa0", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \xc2\xa0"},
                {"a\xff"
                 "b",
                        "a?b"},
                {"\xc3", "?"},
                {"\xc0\xaf", "??"},           /* overlong */
                {"\xed\xa0\x80", "???"},      /* surrogate */
                {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
                {"\xe2\x82", "??"},
                {"a\tb\n\v\f\rc", "a b    c"},
                {"\033[31m", "?[31m"},
                {"\177\001", "??"},
                {"\xc2\x80 \xc2\x9f\xc2\x85", "? ? "},
                {"a\xe2\x80\xa8\xe2\x80\xa9z", "a  z"},
                {"team-a/\xe2\x80\xaeniart", "team-a/?niart"},
                {"\xef\xbb\xbftrain\xe2\x80\x8b", "?train?"},
                {"\xf3\xa0\x81\xa1!", "?!"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char text[64];

                strcpy(text, table[i].before);
                assert_int_equal(text_is_clean(text), strcmp(table[i].before, table[i].after) == 0);
                text_clean(text);
                assert_string_equal(text, table[i].after);
                assert_true(text_is_clean(text));
        }
}

/* As the Unicode Character Database has them: categories Cc, Zl and Zp, and Default_Ignorable_Code_Point. */
static const uint32_t hidden[][2] = {{0x1, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c},
        {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
        {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

static size_t encode(uint32_t code, char text[static 5])
{
        const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};

        for (size_t i = length; i-- > 1; code >>= 6)
                text[i] = (char)(0x80 | (code & 0x3f));
        text[0] = (char)(heads[length] | code);
        text[length] = '\0';
        return length;
}

static void test_each_character_of_unicode_is_hidden_or_not(void **state UNUSED)
{
        for (uint32_t code = 1; code <= 0x10ffff; code++) {
                bool is_hidden = false;
                uint32_t found = 0;
                char text[5];
                size_t length;

                if (code >= 0xd800 && code <= 0xdfff)
                        continue;
                for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
                        is_hidden |= code >= hidden[i][0] && code <= hidden[i][1];
                length = encode(code, text);
                if (text_hidden_length(text, &found) != (is_hidden ? length : 0) || (is_hidden && found != code))
                        fail_msg("U+%04X", code);
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers_are_whole_strings_within_bounds),
                cmocka_unit_test(test_bools_are_spelled_as_in_go),
                cmocka_unit_test(test_the_nearest_word_is_suggested_if_near),
                cmocka_unit_test(test_what_is_not_seen_or_no_text_is_replaced_where_it_can_be_seen),
                cmocka_unit_test(test_each_character_of_unicode_is_hidden_or_not),
                cmocka_unit_test(test_a_text_that_is_missing_is_the_same_as_none_only),
                cmocka_unit_test(test_texts_are_sorted_by_their_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
