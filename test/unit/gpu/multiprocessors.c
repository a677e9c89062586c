// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "gpu/nvml_read.h"

static void test_cores_become_sms_of_the_compute_capability(void **state UNUSED)
{
        /* CUDA cores and SMs as NVIDIA's data sheets and white papers have them. */
        static const struct {
                const char *model;
                int major;
                int minor;
                unsigned int cores;
                unsigned int sms;
        } table[] = {
                {"P100", 6, 0, 3584, 56},
                {"V100", 7, 0, 5120, 80},
                {"T4", 7, 5, 2560, 40},
                {"A100", 8, 0, 6912, 108},
                {"A30", 8, 0, 3584, 56},
                {"A10", 8, 6, 9216, 72},
                {"L4", 8, 9, 7424, 58},
                {"L40S", 8, 9, 18176, 142},
                {"H100 PCIe", 9, 0, 14592, 114},
                {"H100 SXM, H200", 9, 0, 16896, 132},
                {"B200", 10, 0, 18944, 148},
                {"RTX PRO 6000", 12, 0, 24064, 188},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_int_equal(multiprocessors_of(table[i].cores, table[i].major, table[i].minor), table[i].sms);
}

static void test_what_is_not_known_or_not_even_is_no_number(void **state UNUSED)
{
        assert_int_equal(multiprocessors_of(16896, 99, 0), 0);
        assert_int_equal(multiprocessors_of(16896, -1, -1), 0);
        assert_int_equal(multiprocessors_of(16897, 9, 0), 0);
        assert_int_equal(multiprocessors_of(0, 9, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cores_become_sms_of_the_compute_capability),
                cmocka_unit_test(test_what_is_not_known_or_not_even_is_no_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
