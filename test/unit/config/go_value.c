// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "config/go_value.h"

static void test_integers_have_the_prefixes_of_go(void **state UNUSED)
{
        static const struct {
                const char *text;
                int64_t value;
        } good[] = {
                {"0", 0},
                {"-0", 0},
                {"00", 0},
                {"+7", 7},
                {"-12", -12},
                {"017", 15},
                {"0o17", 15},
                {"0O17", 15},
                {"0x1F", 31},
                {"-0Xff", -255},
                {"0b101", 5},
                {"1_000", 1000},
                {"0x_1f", 31},
                {"0_7", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"0x7fffffffffffffff", INT64_MAX},
        };
        static const char *const bad[] = {"", "-", "+", " 1", "1 ", "1.0", "1e3", "x", "0x", "0b", "0o", "08", "0b2",
                "0xg", "_1", "1_", "1__0", "0x1_", "--1", "+-1", "9223372036854775808", "-9223372036854775809",
                "99999999999999999999", "0x10000000000000000"};
        int64_t value;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                value = 99;
                if (!go_int_parse(good[i].text, strlen(good[i].text), &value) || value != good[i].value)
                        fail_msg("'%s' became %lld", good[i].text, (long long)value);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (go_int_parse(bad[i], strlen(bad[i]), &value))
                        fail_msg("'%s' became %lld", bad[i], (long long)value);
        assert_true(go_int_parse("12,x", 2, &value)); /* no byte beyond the length counts */
        assert_int_equal(value, 12);
        assert_false(go_int_parse("0x1", 2, &value));
}

static void test_durations_have_the_units_of_go(void **state UNUSED)
{
        static const struct {
                const char *text;
                int64_t ns;
        } good[] = {
                {"0", 0},
                {"-0", 0},
                {"0s", 0},
                {"5ns", 5},
                {"5s", 5000000000},
                {"+5s", 5000000000},
                {"-1.5h", -5400000000000},
                {"1m30s", 90000000000},
                {"1h1m1s1ms1us1ns", 3661001001001},
                {"3\xc2\xb5s", 3000},
                {"3\xce\xbcs", 3000},
                {".5s", 500000000},
                {"1.s", 1000000000},
                {"0.1s", 100000000},
                {"0.000000001s", 1},
                {"0.3333333333333333333h", 1200000000000}, /* as Go has it */
                {"0.9223372036854775807h", 3320413933267},
                {"1.9223372036854775808123s", 1922337203},
                {"9223372036854775807ns", INT64_MAX},
                {"-9223372036854775808ns", INT64_MIN},
                {"2562047h47m16.854775807s", INT64_MAX},
                {"infinite", INT64_MAX},
        };
        static const char *const bad[] = {"", "-", "3", "s", ".s", "1", "1h0", "0h1", "1 s", " 1s", "1s ", "1d", "1sm",
                "1S", "--1s", "1-s", "Infinite", "-infinite", "9223372036854775808ns", "2562048h",
                "99999999999999999999s", "1e3s", "0x1s"};
        int64_t ns;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                ns = 99;
                if (!go_duration_parse(good[i].text, &ns) || ns != good[i].ns)
                        fail_msg("'%s' became %lld", good[i].text, (long long)ns);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (go_duration_parse(bad[i], &ns))
                        fail_msg("'%s' became %lld", bad[i], (long long)ns);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_integers_have_the_prefixes_of_go),
                cmocka_unit_test(test_durations_have_the_units_of_go),
        };

        return cmocka_run_group_tests_name("go_value", tests, NULL, NULL);
}
