// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/macro.h"
#include "mps/supervisor/shm.h"

/* A plain folder belongs to a larger filesystem, whose figures would mislead. */
static void test_what_is_no_tmpfs_of_its_own_has_no_size(void **state UNUSED)
{
        struct mps_shm shm = {.size = 1};
        struct error err;

        assert_int_equal(mps_shm_poll(&shm, "/nonexistent", &err), 0);
        assert_int_equal(shm.size, 0);
        assert_int_equal(mps_shm_count(&shm, "/nonexistent", &err), 0);
        assert_int_equal(shm.n_owners, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_no_tmpfs_of_its_own_has_no_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
