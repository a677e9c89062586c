// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>

#include "base/strbuf.h"

static void test_an_empty_buffer_is_a_string(void **state UNUSED)
{
        struct strbuf buf = STRBUF_INIT;

        assert_string_equal(buf.data, "");
        strbuf_done(&buf);
}

static void test_appending_grows_and_terminates(void **state UNUSED)
{
        struct strbuf buf = STRBUF_INIT;

        for (int i = 0; i < 1000; i++)
                strbuf_printf(&buf, "%d,", i % 10);
        assert_int_equal(buf.size, 2000);
        assert_int_equal(buf.data[buf.size], 0);
        strbuf_consume(&buf, 1996);
        assert_string_equal(buf.data, "8,9,");
        strbuf_clear(&buf);
        strbuf_append(&buf, "a\0b", 3);
        assert_int_equal(buf.size, 3);
        strbuf_done(&buf);
        assert_string_equal(buf.data, "");
}

static void test_the_text_can_be_taken(void **state UNUSED)
{
        struct strbuf buf = STRBUF_INIT;
        char *text = strbuf_take(&buf);

        assert_string_equal(text, "");
        free(text);
        strbuf_puts(&buf, "hello");
        strbuf_putc(&buf, '!');
        text = strbuf_take(&buf);
        assert_string_equal(text, "hello!");
        assert_string_equal(buf.data, "");
        free(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_empty_buffer_is_a_string),
                cmocka_unit_test(test_appending_grows_and_terminates),
                cmocka_unit_test(test_the_text_can_be_taken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
