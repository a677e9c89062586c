// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "gpu/units.h"

static const struct mig_device mig_devices[] = {
        {.uuid = "MIG-a", .gpu_instance = 1, .compute_instance = 0},
        {.uuid = "MIG-b", .gpu_instance = 2, .compute_instance = 0},
        {.uuid = "MIG-c", .gpu_instance = 2, .compute_instance = 1},
};

static void make(struct inventory *inventory, struct gpu gpus[2])
{
        gpus[0] = (struct gpu){.uuid = "GPU-0"};
        gpus[1] = (struct gpu){.uuid = "GPU-1", .mig_devices = mig_devices, .n_mig_devices = ARRAY_SIZE(mig_devices)};
        *inventory = (struct inventory){.gpus = gpus, .n_gpus = 2};
}

/* Which units are suspect, in order GPU-0 GPU-1 MIG-a MIG-b MIG-c. */
static const char *picture(const struct units *units, char text[16])
{
        size_t n = 0;

        for (size_t g = 0; g < units->n_groups; g++)
                for (size_t u = 0; u < units->groups[g].n_units; u++)
                        text[n++] = units->groups[g].units[u].health.unhealthy ? 'x' : '.';
        text[n] = '\0';
        return text;
}

static void test_an_xid_hits_the_units_it_names(void **state UNUSED)
{
        static const struct {
                size_t group;
                unsigned int gi;
                unsigned int ci;
                unsigned int xid;
                bool found;
                const char *after;
        } table[] = {
                {0, UNIT_NO_INSTANCE, UNIT_NO_INSTANCE, 79, true, "x...."},
                {1, UNIT_NO_INSTANCE, UNIT_NO_INSTANCE, 79, true, ".xxxx"},
                {1, 1, 0, 79, true, "..x.."},
                {1, 2, 1, 79, true, "....x"},
                {1, 2, UNIT_NO_INSTANCE, 79, true, "...xx"},
                {1, 7, 0, 79, false, "....."},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct units units = UNITS_INIT;
                struct inventory inventory;
                struct gpu gpus[2];
                char text[16];

                make(&inventory, gpus);
                units_update(&units, &inventory, 100, 0);
                assert_int_equal(
                        units_xid(&units, table[i].group, table[i].gi, table[i].ci, table[i].xid, 5), table[i].found);
                assert_string_equal(picture(&units, text), table[i].after);
                units_done(&units);
        }
}

static void test_a_failed_gpu_falls_with_its_mig_devices(void **state UNUSED)
{
        struct units units = UNITS_INIT;
        struct inventory inventory;
        struct gpu gpus[2];
        char text[16];

        make(&inventory, gpus);
        gpus[1].failure = "nvmlDeviceGetName: GPU is lost";
        units_update(&units, &inventory, 100, 7);
        assert_string_equal(picture(&units, text), ".xxxx");
        assert_true(units.groups[1].units[2].is_news);
        assert_string_equal(units.groups[1].units[2].health.reason, "nvmlDeviceGetName: GPU is lost");
        assert_int_equal(units_probe_at(&units.groups[0]), HEALTH_NEVER);
        assert_int_equal(units_probe_at(&units.groups[1]), 107);

        /* Reading it again, with the same outcome, must not push the probes away. */
        units_update(&units, &inventory, 100, 90);
        assert_int_equal(units_probe_at(&units.groups[1]), 107);
        units_done(&units);
}

static void test_health_follows_the_uuid_through_a_new_inventory(void **state UNUSED)
{
        struct units units = UNITS_INIT;
        struct inventory inventory;
        struct gpu gpus[2];
        struct gpu other[2];
        char text[16];

        make(&inventory, gpus);
        units_update(&units, &inventory, 100, 0);
        assert_true(units_xid(&units, 0, UNIT_NO_INSTANCE, UNIT_NO_INSTANCE, 79, 0));
        assert_true(units_xid(&units, 1, 2, 0, 79, 0));
        /* The GPUs change places, and the first MIG device is destroyed. */
        other[0] = gpus[1];
        other[0].mig_devices++;
        other[0].n_mig_devices--;
        other[1] = gpus[0];
        inventory.gpus = other;
        units_update(&units, &inventory, 100, 0);
        assert_string_equal(picture(&units, text), ".x.x");
        units_done(&units);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_xid_hits_the_units_it_names),
                cmocka_unit_test(test_a_failed_gpu_falls_with_its_mig_devices),
                cmocka_unit_test(test_health_follows_the_uuid_through_a_new_inventory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
