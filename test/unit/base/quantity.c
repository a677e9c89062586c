// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/macro.h"
#include "base/text.h"

static void test_a_quantity_is_a_whole_number_rounded_up(void **state UNUSED)
{
        static const struct {
                const char *text;
                uint64_t value;
        } cases[] = {{"0", 0}, {"30", 30}, {"+30", 30}, {"007", 7}, {"10Gi", UINT64_C(10) << 30},
                {"10240Mi", UINT64_C(10) << 30}, {"1.5Gi", UINT64_C(3) << 29}, {".5Ki", 512}, {"5.", 5}, {"1e3", 1000},
                {"1E3", 1000}, {"1e+3", 1000}, {"12e-1", 2}, {"1E", UINT64_C(1000000000000000000)}, {"1k", 1000},
                {"2M", 2000000}, {"3G", UINT64_C(3000000000)}, {"100m", 1}, {"1000m", 1}, {"1001m", 2}, {"0m", 0},
                {"1n", 1}, {"5000000u", 5}, {"0.000000000000000001", 1}, {"7Ei", UINT64_C(7) << 60},
                {"9223372036854775807", INT64_MAX}, {"999999999999999999", UINT64_C(999999999999999999)},
                {"000000000000000000000000000001", 1}};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t value = 0;

                if (!quantity_value(cases[i].text, &value) || value != cases[i].value)
                        fail_msg("%s is %" PRIu64, cases[i].text, value);
        }
}

static void test_what_is_no_quantity_or_too_much_is_refused(void **state UNUSED)
{
        static const char *const texts[] = {"", " 1", "1 ", "-1", "-0", "+", "++1", ".", "Gi", "1gi", "1KI", "1kI",
                "1 Gi", "1..5", "1.2.3", "0x10", "1e", "1e1.5", "1e19", "1e-19", "1e--1", "1e3Gi", "8Ei",
                "9223372036854775808", "10E", "1GiB", "NaN", "inf", "9999999999999999999", "0.00000000000000000001",
                "1.0000000000000000000", "1\n"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                uint64_t value = 0;

                if (quantity_value(texts[i], &value))
                        fail_msg("'%s' is %" PRIu64, texts[i], value);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_quantity_is_a_whole_number_rounded_up),
                cmocka_unit_test(test_what_is_no_quantity_or_too_much_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
