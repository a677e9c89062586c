// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

static void test_what_is_base64_becomes_bytes_and_nothing_else_does(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *bytes; /* NULL: refused */
        } table[] = {
                {"", ""},
                {"aGVsbG8=", "hello"},
                {"aGVs\nbG8=\r\n", "hello"},
                {"aGVsbG8h", "hello!"},
                {"aGVsbG8", NULL},
                {"aGVsbG8==", NULL},
                {"aGVs bG8=", NULL},
                {"aGVsbG8=x", NULL},
                {"\xff\xff\xff\xff", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                unsigned char bytes[32];
                size_t size = 0;
                bool is_good = base64_decode(table[i].text, strlen(table[i].text), bytes, &size);

                assert_int_equal(is_good, table[i].bytes != NULL);
                if (!is_good)
                        continue;
                assert_int_equal(size, strlen(table[i].bytes));
                assert_memory_equal(bytes, table[i].bytes, size);
        }
}

static void test_only_so_many_bytes_are_read(void **state UNUSED)
{
        unsigned char bytes[8];
        size_t size;

        assert_true(base64_decode("aGVsbG8=and more", 8, bytes, &size));
        assert_int_equal(size, 5);
        assert_memory_equal(bytes, "hello", 5);
}

static void test_bytes_become_base64_and_are_the_same_after_it(void **state UNUSED)
{
        static const char *const texts[] = {"", "aA==", "aGU=", "aGVs", "aGVsbG8=", "AP//+/8="};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _free_ char *encoded = NULL;
                unsigned char bytes[16];
                size_t size;

                assert_true(base64_decode(texts[i], strlen(texts[i]), bytes, &size));
                encoded = base64_encode(bytes, size);
                assert_string_equal(encoded, texts[i]);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_base64_becomes_bytes_and_nothing_else_does),
                cmocka_unit_test(test_only_so_many_bytes_are_read),
                cmocka_unit_test(test_bytes_become_base64_and_are_the_same_after_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
