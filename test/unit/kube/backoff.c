#include "unit.h"

#include "kube/backoff.h"

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

/* A proxy in front of the server may say anything: nobody is silent for a day because of it. */
static void test_a_wait_of_a_day_is_not_believed(void **state UNUSED)
{
        struct backoff backoff = {.least_ms = 1000, .most_ms = 20000};

        assert_int_equal(backoff_next(&backoff, UINT64_C(86400000), 0), 600000);
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
                cmocka_unit_test(test_a_wait_of_a_day_is_not_believed),
                cmocka_unit_test(test_after_a_success_the_backoff_begins_again),
        };

        return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
