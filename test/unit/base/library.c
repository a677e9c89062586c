// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/library.h"

struct maths {
        double (*cosine)(double);
        double (*newer)(double);
        double (*sine)(double);
};

static const struct library_symbol symbols[] = {
        LIBRARY_SYMBOL(struct maths, cosine, "cos"),
        {.offset = offsetof(struct maths, newer), .names = {"no_such_function"}, .is_optional = true},
        LIBRARY_SYMBOL(struct maths, sine, "sin_of_version_2", "sin"),
};

static const struct library maths_library = {
        .files = {"libno-such-library.so.1", "libm.so.6"},
        .needs = "libm 3",
        .remedy = "install libm",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

static void test_the_first_file_and_the_first_name_that_there_are_count(void **state UNUSED)
{
        struct maths maths;
        struct error err;

        maths.newer = maths.sine = NULL;
        assert_int_equal(library_load(&maths_library, &maths, &err), 0);
        assert_true(maths.cosine(0.0) == 1.0);
        assert_true(maths.sine(0.0) == 0.0);
        assert_null(maths.newer);
}

static void test_a_missing_library_is_named_with_the_remedy(void **state UNUSED)
{
        struct library library = maths_library;
        struct maths maths;
        struct error err;

        library.files[1] = NULL;
        assert_int_equal(library_load(&library, &maths, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_non_null(strstr(err.text, "libno-such-library.so.1"));
        assert_non_null(strstr(err.text, ": install libm"));
}

static void test_a_missing_symbol_is_named_with_the_version_that_has_it(void **state UNUSED)
{
        static const struct library_symbol missing[] = {LIBRARY_SYMBOL(struct maths, newer, "no_such_function")};
        struct library library = maths_library;
        struct maths maths;
        struct error err;

        library.files[0] = "libm.so.6";
        library.symbols = missing;
        library.n_symbols = ARRAY_SIZE(missing);
        assert_int_equal(library_load(&library, &maths, &err), -1);
        assert_int_equal(err.kind, ERROR_UNSUPPORTED);
        assert_string_equal(err.text, "libm.so.6 has no no_such_function: libm 3 does");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_first_file_and_the_first_name_that_there_are_count),
                cmocka_unit_test(test_a_missing_library_is_named_with_the_remedy),
                cmocka_unit_test(test_a_missing_symbol_is_named_with_the_version_that_has_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
