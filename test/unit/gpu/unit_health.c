// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/strbuf.h"
#include "gpu/units.h"

/* "GPU-0: fell, GPU-1: burns": of the units that the tests name, in this order. */
static void assert_unhealthy(const struct unit_health *health, const char *expected)
{
        static const char *const uuids[] = {"GPU-0", "GPU-1", "MIG-0"};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t n = 0;

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; i < ARRAY_SIZE(uuids); i++) {
                const struct unhealthy_unit *unit = unit_health_find(health, uuids[i]);

                if (unit)
                        strbuf_printf(&text, "%s%s: %s", n++ ? ", " : "", unit->uuid, unit->reason);
        }
        assert_string_equal(text.data, expected);
        assert_int_equal(health->n_unhealthy, n);
}

static void test_what_was_never_named_is_healthy(void **state UNUSED)
{
        struct unit_health health = UNIT_HEALTH_INIT;

        assert_unhealthy(&health, "");
        unit_health_set(&health, "GPU-0", true, "");
        assert_unhealthy(&health, "");
        unit_health_clear(&health);
}

static void test_a_unit_is_unhealthy_until_it_is_said_to_be_healthy(void **state UNUSED)
{
        struct unit_health health = UNIT_HEALTH_INIT;

        unit_health_set(&health, "GPU-0", false, "Xid 79");
        unit_health_set(&health, "GPU-1", false, "Xid 48");
        unit_health_set(&health, "MIG-0", false, "Xid 94");
        assert_unhealthy(&health, "GPU-0: Xid 79, GPU-1: Xid 48, MIG-0: Xid 94");
        unit_health_set(&health, "GPU-0", true, "");
        assert_unhealthy(&health, "GPU-1: Xid 48, MIG-0: Xid 94");
        unit_health_set(&health, "MIG-0", true, "");
        assert_unhealthy(&health, "GPU-1: Xid 48");
        unit_health_set(&health, "GPU-0", false, "lost");
        assert_unhealthy(&health, "GPU-0: lost, GPU-1: Xid 48");
        unit_health_clear(&health);
}

static void test_the_latest_reason_counts(void **state UNUSED)
{
        struct unit_health health = UNIT_HEALTH_INIT;

        unit_health_set(&health, "GPU-0", false, "Xid 79");
        unit_health_set(&health, "GPU-0", false, "GPU is lost");
        assert_unhealthy(&health, "GPU-0: GPU is lost");
        unit_health_clear(&health);
}

static void test_after_it_is_cleared_all_are_healthy_and_it_is_filled_again(void **state UNUSED)
{
        struct unit_health health = UNIT_HEALTH_INIT;

        unit_health_set(&health, "GPU-0", false, "Xid 79");
        unit_health_set(&health, "GPU-1", false, "Xid 48");
        unit_health_clear(&health);
        assert_unhealthy(&health, "");
        unit_health_set(&health, "GPU-1", false, "Xid 48");
        assert_unhealthy(&health, "GPU-1: Xid 48");
        unit_health_clear(&health);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_was_never_named_is_healthy),
                cmocka_unit_test(test_a_unit_is_unhealthy_until_it_is_said_to_be_healthy),
                cmocka_unit_test(test_the_latest_reason_counts),
                cmocka_unit_test(test_after_it_is_cleared_all_are_healthy_and_it_is_filled_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
