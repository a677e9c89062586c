#include "unit.h"

#include "base/macro.h"
#include "mps/supervisor/observe.h"

static void test_memory_that_was_read_too_long_ago_is_not_known(void **state UNUSED)
{
        struct mps_usage_process process = {.pid = 7, .memory = 4711};
        struct mps_usage_unit unit = {.uuid = "GPU-1", .processes = &process, .n_processes = 1};
        const struct mps_usage usage = {.asked_at = 1000, .units = &unit, .n_units = 1};

        assert_int_equal(mps_usage_of(&usage, 1000 + MPS_USAGE_FRESH_MS, "GPU-1", 7), 4711);
        assert_int_equal(mps_usage_of(&usage, 1000 + MPS_USAGE_FRESH_MS, NULL, 8), UINT64_MAX);
        assert_int_equal(mps_usage_of(&usage, 1001 + MPS_USAGE_FRESH_MS, "GPU-1", 7), UINT64_MAX);
        assert_int_equal(mps_usage_of(NULL, 1000, "GPU-1", 7), UINT64_MAX);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_memory_that_was_read_too_long_ago_is_not_known),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
