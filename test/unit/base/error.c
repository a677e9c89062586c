// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <string.h>

static void test_a_raised_error_carries_kind_and_text(void **state UNUSED)
{
        struct error err;

        assert_int_equal(error_set(&err, ERROR_INVALID, "replicas: %u, must be at least %u", 0U, 1U), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_string_equal(err.text, "replicas: 0, must be at least 1");
}

static void test_each_layer_adds_where_it_was(void **state UNUSED)
{
        struct error err;

        error_set(&err, ERROR_INVALID, "replicas: 0");
        error_prefix(&err, "line %d", 7);
        error_prefix(&err, "config '%s'", "/c.yaml");
        assert_string_equal(err.text, "config '/c.yaml': line 7: replicas: 0");
        assert_int_equal(err.kind, ERROR_INVALID);
}

static void test_errno_becomes_kind_and_words(void **state UNUSED)
{
        struct error err;

        error_errno(&err, ENOENT, "open '%s'", "/nowhere");
        assert_string_equal(err.text, "open '/nowhere': No such file or directory");
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        error_errno(&err, EACCES, "x");
        assert_int_equal(err.kind, ERROR_DENIED);
        error_errno(&err, EIO, "x");
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
}

static void test_a_text_too_long_is_cut_not_overrun(void **state UNUSED)
{
        char longer[2000];
        struct error err;

        memset(longer, 'x', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = '\0';
        error_set(&err, ERROR_INTERNAL, "%s", longer);
        assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
        error_prefix(&err, "%s", longer);
        assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_raised_error_carries_kind_and_text),
                cmocka_unit_test(test_each_layer_adds_where_it_was),
                cmocka_unit_test(test_errno_becomes_kind_and_words),
                cmocka_unit_test(test_a_text_too_long_is_cut_not_overrun),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
