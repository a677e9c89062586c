/*
 * How long what was taken away waits. That it comes back is in test/e2e: node_state, agent_config, labels.
 */
#include "unit.h"

#include "base/macro.h"
#include "node/reconcile.h"

#define NOW UINT64_C(1000000000)

static void test_a_first_time_is_mended_in_a_moment(void **state UNUSED)
{
        const struct node_reconcile_pace pace = {0};

        assert_int_equal(node_reconcile_wait(&pace, NOW, 0), NODE_RECONCILE_MS);
        assert_int_equal(
                node_reconcile_wait(&pace, NOW, UINT32_MAX), NODE_RECONCILE_MS / 2); /* nodes do not come in step */
        assert_int_equal(node_reconcile_wait(&pace, 0, 0), NODE_RECONCILE_MS);
}

/* Somebody changes it back each time at once. */
static void test_who_always_changes_it_back_is_not_fought(void **state UNUSED)
{
        static const unsigned int seconds[] = {2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600};
        struct node_reconcile_pace pace = {0};
        uint64_t now = NOW;

        for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
                uint64_t wait = node_reconcile_wait(&pace, now, 0);

                assert_int_equal(wait, seconds[i] * 1000);
                now += wait;
                node_reconcile_count(&pace, now);
        }
}

static void test_after_a_calm_it_is_mended_in_a_moment_again(void **state UNUSED)
{
        static const struct {
                uint64_t after_ms;
                uint64_t wait_ms;
                uint64_t next_ms;
        } cases[] = {
                {0, 16000, 32000},
                {NODE_RECONCILE_CALM_MS - 1, 16000, 32000},
                {NODE_RECONCILE_CALM_MS, 2000, 4000},
                {100 * NODE_RECONCILE_CALM_MS, 2000, 4000},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct node_reconcile_pace pace = {.count = 3, .last_ms = NOW};
                uint64_t now = NOW + cases[i].after_ms;

                assert_int_equal(node_reconcile_wait(&pace, now, 0), cases[i].wait_ms);
                node_reconcile_count(&pace, now);
                assert_int_equal(node_reconcile_wait(&pace, now, 0), cases[i].next_ms);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_first_time_is_mended_in_a_moment),
                cmocka_unit_test(test_who_always_changes_it_back_is_not_fought),
                cmocka_unit_test(test_after_a_calm_it_is_mended_in_a_moment_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
