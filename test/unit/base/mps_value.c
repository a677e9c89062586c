// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mps_value.h"

static void test_percentages_are_above_0_and_at_most_100(void **state UNUSED)
{
        static const struct {
                const char *text;
                unsigned int permille; /* 0: none */
        } table[] = {
                {"35", 350},
                {"33.3", 333},
                {"12.3456", 123},
                {"100", 1000},
                {"0.04", 1},
                {"0", 1},
                {"100.1", 0},
                {"101", 0},
                {"", 0},
                {"5.", 0},
                {"-5", 0},
                {"1e1", 0},
                {"10 ", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                unsigned int permille = 7;

                assert_int_equal(mps_value_threads(table[i].text, &permille), table[i].permille > 0);
                if (table[i].permille)
                        assert_int_equal(permille, table[i].permille);
        }
}

static void test_a_limit_is_found_by_ordinal_and_by_uuid_with_its_prefix_or_without(void **state UNUSED)
{
        static const struct {
                const char *text;
                int ordinal;
                const char *uuid;
                uint64_t mib; /* 7: the list has none for it */
        } table[] = {
                {"0=1630M", 0, "", 1630},
                {"0=1630M,1=8G", 1, "", 8192},
                {"0=512MB", 0, "", 512},
                {"0=1024", 0, "", 1024},
                {"0=2048K", 0, "", 2},
                {"1=1G", 0, "", 7},
                {"GPU-ab=1G", 0, "ab", 1024},
                {"GPU-ab=1G", 0, "GPU-ab", 1024},
                {"MIG-ab=1G", 0, "MIG-AB", 1024},
                {"GPU-ab=1G", 0, "GPU-cd", 7},
                {"", 0, "", 7},
        };
        static const char *const bad[] = {"1G", "0=", "0=G", "0=1X", "0=1G,,1=1G", "0=99999999999999999999M"};
        uint64_t mib;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                mib = 7;
                assert_true(mps_value_memory(table[i].text, table[i].ordinal, table[i].uuid, &mib));
                assert_int_equal(mib, table[i].mib);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(mps_value_memory(bad[i], 0, "", &mib));
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_percentages_are_above_0_and_at_most_100),
                cmocka_unit_test(test_a_limit_is_found_by_ordinal_and_by_uuid_with_its_prefix_or_without),
        };

        return cmocka_run_group_tests_name("base/mps_value", tests, NULL, NULL);
}
