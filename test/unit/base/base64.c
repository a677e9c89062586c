#include "unit.h"

#include <string.h>

#include "base/base64.h"

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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_base64_becomes_bytes_and_nothing_else_does),
                cmocka_unit_test(test_only_so_many_bytes_are_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
