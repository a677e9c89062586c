// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/strbuf.h"

static void test_the_first_names_are_written_and_all_are_counted(void **state UNUSED)
{
        static const char *const expected[] = {"pod a", "pod a, pod b", "pod a, pod b, …", "pod a, pod b, …"};
        _cleanup_(names_done) struct names names = NAMES_INIT(2);

        assert_string_equal(names.text.data, "");
        for (unsigned int i = 0; i < ARRAY_SIZE(expected); i++) {
                names_add(&names, "pod %c", 'a' + (char)i);
                assert_string_equal(names.text.data, expected[i]);
                assert_int_equal(names.count, i + 1);
        }
}

/* Whoever has no room for more says so in the middle. */
static void test_the_bound_may_come_later(void **state UNUSED)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(9);

        names_add(&names, "a");
        names.max = names.count;
        names_add(&names, "b");
        names_add(&names, "c");
        assert_string_equal(names.text.data, "a, …");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_first_names_are_written_and_all_are_counted),
                cmocka_unit_test(test_the_bound_may_come_later),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
