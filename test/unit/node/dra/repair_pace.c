// SPDX-License-Identifier: Apache-2.0
/* When what others undo is put right: no clock, no slices. */
#include "unit.h"

#include "base/macro.h"
#include "node/dra/reconcile.h"

#define WRITES 3 /* of a repair */
#define MOST_MS UINT64_C(60000)
#define LONGEST 0 /* the random number of the longest pauses */

static struct dra_repair_pace pace_new(void)
{
        return (struct dra_repair_pace){.pauses = {1000, MOST_MS, 0}};
}

/* A whole repair, after which somebody undoes it at once. */
static void repair(struct dra_repair_pace *pace, uint64_t now)
{
        assert_int_equal(dra_repair_next(pace, WRITES, now, LONGEST), 0);
        dra_repair_written(pace);
        dra_repair_rest(pace);
}

static uint64_t wait_at(const struct dra_repair_pace *pace, uint64_t now)
{
        struct dra_repair_pace copy = *pace;

        return dra_repair_next(&copy, WRITES, now, LONGEST);
}

static void test_the_first_repair_is_at_once_and_the_pauses_double_up_to_a_limit(void **state UNUSED)
{
        static const uint64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
        struct dra_repair_pace pace = pace_new();
        uint64_t now = 5000;

        for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
                repair(&pace, now);
                assert_int_equal(wait_at(&pace, now), pauses[i]);
                assert_int_equal(wait_at(&pace, now + pauses[i] - 1), 1);
                now += pauses[i];
        }
}

static void test_pauses_begin_anew_after_a_quiet_time_and_not_before(void **state UNUSED)
{
        struct dra_repair_pace pace = pace_new();
        struct dra_repair_pace restless;

        repair(&pace, 0);
        repair(&pace, 1000);
        repair(&pace, 3000);
        restless = pace; /* until 7000 nothing is repaired */
        repair(&restless, 7000 + DRA_REPAIR_QUIET_MS - 1);
        assert_int_equal(wait_at(&restless, 7000 + DRA_REPAIR_QUIET_MS - 1), 8000);
        repair(&pace, 7000 + DRA_REPAIR_QUIET_MS);
        assert_int_equal(wait_at(&pace, 7000 + DRA_REPAIR_QUIET_MS), 1000);
}

static void test_a_repair_has_the_writes_it_needs_and_no_more(void **state UNUSED)
{
        struct dra_repair_pace pace = pace_new();

        for (unsigned int i = 0; i < WRITES; i++) {
                assert_int_equal(dra_repair_next(&pace, WRITES, i, LONGEST), 0);
                assert_int_equal(wait_at(&pace, i), 0); /* one that fails is tried again */
                dra_repair_written(&pace);
        }
        assert_int_equal(dra_repair_next(&pace, WRITES, WRITES, LONGEST), 1000 - WRITES);
}

static void test_what_the_agent_wants_does_not_wait_and_ends_no_pause(void **state UNUSED)
{
        struct dra_repair_pace pace = pace_new();

        repair(&pace, 0);
        repair(&pace, 1000);
        dra_repair_allow(&pace, WRITES);
        assert_int_equal(dra_repair_next(&pace, WRITES, 1001, LONGEST), 0);
        dra_repair_written(&pace);
        assert_int_equal(dra_repair_next(&pace, WRITES, 1002, LONGEST), 0);
        dra_repair_rest(&pace);
        assert_int_equal(wait_at(&pace, 1003), 1997);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_first_repair_is_at_once_and_the_pauses_double_up_to_a_limit),
                cmocka_unit_test(test_pauses_begin_anew_after_a_quiet_time_and_not_before),
                cmocka_unit_test(test_a_repair_has_the_writes_it_needs_and_no_more),
                cmocka_unit_test(test_what_the_agent_wants_does_not_wait_and_ends_no_pause),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
