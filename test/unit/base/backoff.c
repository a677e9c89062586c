// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/clock.h"

/* Chance 0 is the whole wait, UINT32_MAX half of it. */
static void test_waits_double_up_to_their_limit(void **state UNUSED)
{
        static const uint64_t expected[] = {1000, 2000, 4000, 8000, 16000, 20000, 20000};
        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000};

        for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
                assert_int_equal(backoff_next(&backoff, 0, 0), expected[i]);
}

static void test_chance_takes_half_of_a_wait_at_most(void **state UNUSED)
{
        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000};

        assert_int_equal(backoff_next(&backoff, 0, UINT32_MAX), 500);
        assert_int_equal(backoff_next(&backoff, 0, UINT32_MAX / 2), 1501);
        backoff.failures = 100;
        assert_int_equal(backoff_next(&backoff, 0, UINT32_MAX), 10000);
}

static void test_what_the_server_asks_is_the_least(void **state UNUSED)
{
        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000};

        assert_int_equal(backoff_next(&backoff, 30000, UINT32_MAX), 30000);
        assert_int_equal(backoff_next(&backoff, 10, 0), 2000);
}

/* The server says the same to everybody whom it refuses at that moment: they must not come back at one moment. */
static void test_who_is_asked_to_wait_comes_later_by_chance(void **state UNUSED)
{
        static const struct {
                uint64_t asked_ms;
                unsigned int failures;
                uint64_t earliest_ms;
                uint64_t latest_ms;
        } cases[] = {
                {1000, 0, 1000, 1500},    /* as priority and fairness asks */
                {1000, 4, 8000, 16000},   /* the server has been busy for long: our own wait is longer */
                {30000, 0, 30000, 45000}, /* that of the server is longer */
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t least = UINT64_MAX;
                uint64_t most = 0;

                for (uint64_t random = 0; random <= UINT32_MAX; random += UINT32_MAX / 15) {
                        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000, .failures = cases[i].failures};
                        uint64_t wait = backoff_next(&backoff, cases[i].asked_ms, (uint32_t)random);

                        least = MIN(least, wait);
                        most = MAX(most, wait);
                }
                assert_int_equal(least, cases[i].earliest_ms);
                assert_int_equal(most, cases[i].latest_ms);
        }
}

/* A proxy in front of the server may say anything: nobody is silent for a day because of it. */
static void test_a_wait_of_a_day_is_not_believed(void **state UNUSED)
{
        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000};

        assert_int_equal(backoff_next(&backoff, UINT64_C(86400000), UINT32_MAX), 600000);
}

static void test_after_a_success_the_backoff_begins_again(void **state UNUSED)
{
        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000, .failures = 7};

        backoff.failures = 0;
        assert_int_equal(backoff_next(&backoff, 0, 0), 1000);
        assert_int_equal(backoff.failures, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_waits_double_up_to_their_limit),
                cmocka_unit_test(test_chance_takes_half_of_a_wait_at_most),
                cmocka_unit_test(test_what_the_server_asks_is_the_least),
                cmocka_unit_test(test_who_is_asked_to_wait_comes_later_by_chance),
                cmocka_unit_test(test_a_wait_of_a_day_is_not_believed),
                cmocka_unit_test(test_after_a_success_the_backoff_begins_again),
        };

        return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
