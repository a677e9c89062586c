// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/hash.h"

/* The vectors of its authors. Daemons on record, and names of shares in metrics, are known by such sums. */
static void test_sums_are_those_of_fnv_1a(void **state UNUSED)
{
        uint64_t sum = HASH_INIT;

        hash_add(&sum, "", 0);
        assert_int_equal(sum, UINT64_C(0xcbf29ce484222325));
        hash_add(&sum, "foo", 3);
        hash_add(&sum, "bar", 3);
        assert_int_equal(sum, UINT64_C(0x85944171f73967e8));
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_are_those_of_fnv_1a)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
