// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "node/usage/usage.h"

static void test_nothing_has_no_peak(void **state UNUSED)
{
        const struct usage_ring ring = {0};

        assert_int_equal(usage_ring_peak(&ring, 0), 0);
        assert_int_equal(usage_ring_peak(&ring, 1000000), 0);
}

static void test_the_peak_is_that_of_sixty_minutes(void **state UNUSED)
{
        struct usage_ring ring = {0};

        usage_ring_put(&ring, 1000, 7);
        usage_ring_put(&ring, 1000, 5);
        assert_int_equal(usage_ring_peak(&ring, 1000), 7);
        usage_ring_put(&ring, 1001, 6);
        assert_int_equal(usage_ring_peak(&ring, 1059), 7);
        assert_int_equal(usage_ring_peak(&ring, 1060), 6);
        assert_int_equal(usage_ring_peak(&ring, 1061), 0);
}

/* Against the list of all that was put. */
static void test_any_sequence_has_the_peak_of_its_last_hour(void **state UNUSED)
{
        static const unsigned int steps[] = {0, 0, 0, 1, 1, 2, 7, 30, 59, 60, 61, 500};
        unsigned int seed = 4711;

        for (unsigned int round = 0; round < 200; round++) {
                struct usage_ring ring = {0};
                uint64_t minutes[50];
                uint32_t values[ARRAY_SIZE(minutes)];
                uint64_t minute = 100;

                for (size_t i = 0; i < ARRAY_SIZE(minutes); i++) {
                        uint32_t peak = 0;

                        minute += steps[(size_t)rand_r(&seed) % ARRAY_SIZE(steps)];
                        minutes[i] = minute;
                        values[i] = (uint32_t)rand_r(&seed);
                        usage_ring_put(&ring, minute, values[i]);
                        minute += (uint64_t)rand_r(&seed) % 3;
                        for (size_t j = 0; j <= i; j++)
                                if (minutes[j] + 60 > minute)
                                        peak = MAX(peak, values[j]);
                        assert_int_equal(usage_ring_peak(&ring, minute), MIN(peak, USAGE_RING_NONE - 1));
                }
        }
}

static void assert_read(const struct usage_ring *ring, uint64_t minute, const uint32_t *expected, size_t count)
{
        uint32_t values[USAGE_RING_MINUTES];

        assert_int_equal(usage_ring_read(ring, minute, values), count);
        for (size_t i = 0; i < count; i++)
                assert_int_equal(values[i], expected[i]);
}

static void test_the_past_begins_with_the_first_value(void **state UNUSED)
{
        uint32_t hour[USAGE_RING_MINUTES];
        struct usage_ring ring = {0};

        assert_read(&ring, 0, NULL, 0);
        assert_read(&ring, 1000, NULL, 0);
        usage_ring_put(&ring, 1000, 0);
        usage_ring_put(&ring, 1000, 5);
        usage_ring_put(&ring, 1002, 0);
        assert_read(&ring, 1003, (const uint32_t[]){5, USAGE_RING_NONE, 0, USAGE_RING_NONE}, 4);
        for (size_t i = 0; i < ARRAY_SIZE(hour); i++)
                hour[i] = USAGE_RING_NONE;
        hour[0] = 0;
        assert_read(&ring, 1061, hour, 60);
        assert_read(&ring, 1062, NULL, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_has_no_peak),
                cmocka_unit_test(test_the_peak_is_that_of_sixty_minutes),
                cmocka_unit_test(test_the_past_begins_with_the_first_value),
                cmocka_unit_test(test_any_sequence_has_the_peak_of_its_last_hour),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
