// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/macro.h"
#include "mps/wire/status.h"

static void test_a_unit_is_found_in_the_daemon_that_serves_it(void **state UNUSED)
{
        static const char *const first[] = {"GPU-1", "GPU-2"};
        static const char *const second[] = {"MIG-3"};
        struct mps_daemon_status daemons[] = {
                {.name = "nvidia.com/gpu", .units = first, .n_units = 2},
                {.name = "MIG-3", .units = second, .n_units = 1},
        };
        const struct mps_status status = {.daemons = daemons, .n_daemons = ARRAY_SIZE(daemons)};

        assert_ptr_equal(mps_status_find_unit(&status, "GPU-2"), &daemons[0]);
        assert_ptr_equal(mps_status_find_unit(&status, "MIG-3"), &daemons[1]);
        assert_null(mps_status_find_unit(&status, "nvidia.com/gpu"));
        assert_ptr_equal(mps_status_find(&status, "nvidia.com/gpu"), &daemons[0]);
        assert_null(mps_status_find(&status, "GPU-2"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_unit_is_found_in_the_daemon_that_serves_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
