// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <limits.h>

#include "node.h"
#include "plan/share.h"

static const struct mig_device mig;

struct budgeted {
        struct gpu gpu;
        struct sharing_section section;
        struct shared_resource entry;
        struct unit unit;
};

/* |reserve|: -1 for auto. */
static void make(struct budgeted *budgeted, enum provisioning provisioning, uint64_t memory, bool is_mig, int reserve)
{
        budgeted->section = (struct sharing_section){
                .strategy = SHARING_MPS,
                .provisioning = provisioning,
                .has_memory_reserve = reserve >= 0,
                .memory_reserve_mib = reserve >= 0 ? (uint64_t)reserve : 0,
        };
        budgeted->entry = (struct shared_resource){.section = &budgeted->section};
        budgeted->gpu = (struct gpu){.memory = memory};
        budgeted->unit = (struct unit){.gpu = &budgeted->gpu,
                .shared = &budgeted->entry,
                .mig = is_mig ? &mig : NULL,
                .memory = memory,
                .replicas = 20};
}

static void test_what_is_usable_is_the_total_less_the_reserve(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                uint64_t memory;
                bool is_mig;
                int reserve;
                uint64_t usable;
                unsigned int most;
        } table[] = {
                {PROVISIONING_UNIFORM, 24 * GIB, false, -1, 24576, 96},
                {PROVISIONING_UNIFORM, 24 * GIB, false, 1024, 24576, 96},
                {PROVISIONING_WEIGHTED, 24 * GIB, false, -1, 23808, 93},
                {PROVISIONING_HALF, 24 * GIB, false, 0, 24576, 96},
                {PROVISIONING_SM, 24 * GIB, false, 1024, 23552, 92},
                {PROVISIONING_WEIGHTED, 5 * GIB, true, -1, 5056, 19},
                {PROVISIONING_WEIGHTED, 5 * GIB, true, 100, 5020, 19},
                {PROVISIONING_WEIGHTED, GIB, false, 1024, 0, 0},
                {PROVISIONING_WEIGHTED, GIB, false, 2048, 0, 0},
                {PROVISIONING_WEIGHTED, GIB, false, 769, 255, 0},
                {PROVISIONING_WEIGHTED, 0, false, -1, 0, UINT_MAX},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct budgeted budgeted;

                make(&budgeted, table[i].provisioning, table[i].memory, table[i].is_mig, table[i].reserve);
                assert_int_equal(share_usable_mib(&budgeted.unit), table[i].usable);
                assert_int_equal(share_most_replicas(&budgeted.unit), table[i].most);
        }
}

/* With 64 MiB for the server. */
static void test_the_reserve_that_the_driver_reports_replaces_the_estimate(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                bool is_mig;
                int reserve;
                uint64_t reported; /* bytes */
                uint64_t unavailable;
        } table[] = {
                {PROVISIONING_WEIGHTED, false, -1, 0, 768},
                {PROVISIONING_WEIGHTED, false, -1, UINT64_C(512) << 20, 576},
                {PROVISIONING_WEIGHTED, false, -1, 1, 128},
                /* Readings that differ a little make the same shares. */
                {PROVISIONING_WEIGHTED, false, -1, UINT64_C(551) << 20, 640},
                {PROVISIONING_WEIGHTED, false, -1, UINT64_C(566) << 20, 640},
                {PROVISIONING_HALF, false, 100, UINT64_C(512) << 20, 100},
                {PROVISIONING_SM, true, -1, UINT64_C(512) << 20, 64},
                {PROVISIONING_UNIFORM, false, -1, UINT64_C(512) << 20, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct budgeted budgeted;

                make(&budgeted, table[i].provisioning, 24 * GIB, table[i].is_mig, table[i].reserve);
                budgeted.gpu.memory_reserved = table[i].reported;
                assert_int_equal(share_reserve_mib(&budgeted.unit), table[i].unavailable);
                assert_int_equal(share_usable_mib(&budgeted.unit), 24576 - table[i].unavailable);
        }
}

static void test_shares_add_up_to_what_is_usable(void **state UNUSED)
{
        struct budgeted budgeted;

        make(&budgeted, PROVISIONING_WEIGHTED, 34190917632, false, -1); /* V100-32GB: 32,607 MiB */
        assert_int_equal(share_memory_mib(&budgeted.unit, 1), 1591);
        assert_int_equal(share_memory_mib(&budgeted.unit, 7), 11143);
        assert_int_equal(share_memory_mib(&budgeted.unit, 20), 32607 - 768);
        for (unsigned int k = 1; k < 20; k++) {
                uint64_t both = share_memory_mib(&budgeted.unit, k) + share_memory_mib(&budgeted.unit, 20 - k);

                assert_in_range(both, 32607 - 768 - 1, 32607 - 768);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_usable_is_the_total_less_the_reserve),
                cmocka_unit_test(test_the_reserve_that_the_driver_reports_replaces_the_estimate),
                cmocka_unit_test(test_shares_add_up_to_what_is_usable),
        };

        return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
