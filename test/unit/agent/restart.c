#include "unit.h"

#include <stdlib.h>

#include "agent/restart.h"

static void test_a_mark_is_read_as_it_was_written(void **state UNUSED)
{
        const struct restart first = {0};
        char *mark = restart_mark(&first, 1234);
        struct restart second = restart_read(mark);

        assert_int_equal(second.count, 1);
        assert_int_equal(second.at_s, 1234);
        free(mark);
        mark = restart_mark(&second, 1300);
        assert_int_equal(restart_read(mark).count, 2);
        free(mark);
}

static void test_a_mark_that_is_none_is_a_first_start(void **state UNUSED)
{
        static const char *const marks[] = {NULL, "", "x", "1", "1@", "1@x", "@5", "1@5x"};

        for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
                struct restart last = restart_read(marks[i]);

                assert_int_equal(last.count, 0);
                assert_int_equal(restart_wait(&last, 100), 0);
        }
}

static void test_the_wait_doubles_to_an_hour_and_ends_with_the_row(void **state UNUSED)
{
        static const struct {
                struct restart last;
                int64_t now_s;
                int64_t wait_s;
        } cases[] = {
                {{0, 0}, 5, 0}, {{1, 1000}, 1000, 60}, {{1, 1000}, 1059, 1}, {{1, 1000}, 1060, 0},
                {{2, 1000}, 1000, 120}, {{3, 1000}, 1000, 240}, {{6, 1000}, 1000, 1920}, {{7, 1000}, 1000, 3600},
                {{4000000000, 1000}, 1000, 3600}, {{7, 1000}, 1000 + 7199, 0},
                {{7, 1000}, 999, 0}, /* the clock of another boot */
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(restart_wait(&cases[i].last, cases[i].now_s), cases[i].wait_s);
}

static void test_a_restart_long_after_the_last_one_is_the_first_of_its_row(void **state UNUSED)
{
        const struct restart last = {7, 1000};
        char *mark = restart_mark(&last, 1000 + 7199);

        assert_int_equal(restart_read(mark).count, 8);
        free(mark);
        mark = restart_mark(&last, 1000 + 7200);
        assert_int_equal(restart_read(mark).count, 1);
        free(mark);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_mark_is_read_as_it_was_written),
                cmocka_unit_test(test_a_mark_that_is_none_is_a_first_start),
                cmocka_unit_test(test_the_wait_doubles_to_an_hour_and_ends_with_the_row),
                cmocka_unit_test(test_a_restart_long_after_the_last_one_is_the_first_of_its_row),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
