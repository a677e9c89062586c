#include "unit.h"

#include "base/macro.h"
#include "mps/supervisor/usage.h"

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

static void test_figures_are_the_same_whenever_they_were_read(void **state UNUSED)
{
        struct mps_usage_process processes[] = {{.pid = 7, .memory = 4711}, {.pid = 8, .memory = UINT64_MAX}};
        struct mps_usage_process others[] = {{.pid = 7, .memory = 4711}, {.pid = 8, .memory = 1}};
        struct mps_usage_unit unit = {.uuid = "GPU-1", .processes = processes, .n_processes = 2};
        const struct mps_usage usage = {.asked_at = 1000, .units = &unit, .n_units = 1};
        struct mps_usage_unit other = unit;
        const struct mps_usage later = {.asked_at = 3000, .units = &other, .n_units = 1};

        assert_true(mps_usage_is_same(&usage, &later));
        other.processes = others;
        assert_false(mps_usage_is_same(&usage, &later));
        other.processes = processes;
        other.n_processes = 1;
        assert_false(mps_usage_is_same(&usage, &later));
        other = unit;
        other.lost = "it has fallen off the bus";
        assert_false(mps_usage_is_same(&usage, &later));
        other = unit;
        other.uuid = "GPU-2";
        assert_false(mps_usage_is_same(&usage, &later));
        assert_false(mps_usage_is_same(&usage, &(struct mps_usage){.asked_at = 3000}));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_figures_are_the_same_whenever_they_were_read),
                cmocka_unit_test(test_memory_that_was_read_too_long_ago_is_not_known),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
