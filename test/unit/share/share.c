#include "unit.h"

#include "node.h"
#include "share/share.h"

static const struct shared_resource entry; /* what it says the resource says too */

static void test_shares_follow_their_provisioning(void **state UNUSED)
{
        static const struct {
                enum sharing_strategy strategy;
                enum provisioning provisioning;
                uint64_t memory;
                unsigned int replicas;
                unsigned int k;
                struct share share;
        } table[] = {
                /* no limit without MPS */
                {SHARING_NONE, PROVISIONING_UNIFORM, 24 * GIB, 1, 1, {0, 1000}},
                {SHARING_TIME_SLICING, PROVISIONING_UNIFORM, 24 * GIB, 10, 3, {0, 1000}},
                /* NVIDIA's worked example: 25,769,803,776 bytes, ten replicas, 2457M and 10 percent */
                {SHARING_MPS, PROVISIONING_UNIFORM, 24 * GIB, 10, 1, {2457, 100}},
                {SHARING_MPS, PROVISIONING_UNIFORM, 24 * GIB, 10, 5, {2457, 100}},
                {SHARING_MPS, PROVISIONING_UNIFORM, 24 * GIB, 3, 1, {8192, 330}},
                {SHARING_MPS, PROVISIONING_UNIFORM, 24 * GIB, 1, 1, {24576, 1000}},
                {SHARING_MPS, PROVISIONING_UNIFORM, 24 * GIB, 60, 1, {409, 10}},
                {SHARING_MPS, PROVISIONING_UNIFORM, 0, 10, 1, {0, 100}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 1, {2457, 200}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 3, {7371, 600}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 5, {12285, 1000}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 7, {17199, 1000}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 3, 1, {8192, 666}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 20, 7, {8601, 350}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 10, 3,
                        {7372, 300}}, /* 7372.8: rounded once, not thrice */
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 40, 21, {12902, 525}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 60, 1, {409, 16}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 10, 10, {24576, 1000}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 0, 10, 10, {0, 1000}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct resource resource = {.strategy = table[i].strategy, .provisioning = table[i].provisioning};
                struct unit unit = {.shared = &entry, .memory = table[i].memory, .replicas = table[i].replicas};
                struct share share = share_of(&resource, &unit, table[i].k);

                assert_int_equal(share.memory_mib, table[i].share.memory_mib);
                assert_int_equal(share.threads_permille, table[i].share.threads_permille);
        }
}

static void test_all_shares_of_a_unit_together_fit_on_it(void **state UNUSED)
{
        for (unsigned int n = 1; n <= 60; n++) {
                struct resource resource = {.strategy = SHARING_MPS, .provisioning = PROVISIONING_WEIGHTED};
                struct unit unit = {.shared = &entry, .memory = 141 * GIB - 12345, .replicas = n};

                for (unsigned int k = 1; k < n; k++) {
                        struct share one = share_of(&resource, &unit, k);
                        struct share other = share_of(&resource, &unit, n - k);

                        assert_true((one.memory_mib + other.memory_mib) * 1024 * 1024 <= unit.memory);
                        assert_in_range(one.threads_permille + other.threads_permille, 999, 1000);
                }
        }
}

static void test_a_whole_unit_beside_shared_ones_has_no_limit(void **state UNUSED)
{
        struct resource resource = {.strategy = SHARING_MPS, .provisioning = PROVISIONING_UNIFORM};
        struct unit unit = {.memory = 24 * GIB, .replicas = 1};
        struct share share = share_of(&resource, &unit, 1);

        assert_int_equal(share.memory_mib, 0);
        assert_int_equal(share.threads_permille, 1000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shares_follow_their_provisioning),
                cmocka_unit_test(test_all_shares_of_a_unit_together_fit_on_it),
                cmocka_unit_test(test_a_whole_unit_beside_shared_ones_has_no_limit),
        };

        return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
