// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/share.h"

static struct sharing_section section;
static const struct shared_resource entry = {.section = &section};

/* Without a reserve: what it takes is in budget.c. What section and entry say the resource says, too. */
static struct resource resource_of(enum sharing_strategy strategy, enum provisioning provisioning)
{
        section = (struct sharing_section){
                .strategy = strategy, .provisioning = provisioning, .has_memory_reserve = true};
        return (struct resource){.strategy = strategy, .provisioning = provisioning, .tier_limit = MPS_TIER_NAMESPACE};
}

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
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 3, {7372, 600}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 5, {12288, 1000}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 10, 7, {17203, 1000}},
                {SHARING_MPS, PROVISIONING_HALF, 24 * GIB, 3, 1, {8192, 666}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 20, 7, {8601, 350}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 10, 3,
                        {7372, 300}}, /* 7372.8: rounded once, not thrice */
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 40, 21, {12902, 525}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 60, 1, {409, 16}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 24 * GIB, 10, 10, {24576, 1000}},
                {SHARING_MPS, PROVISIONING_WEIGHTED, 0, 10, 10, {0, 1000}},
                {SHARING_MPS, PROVISIONING_DECLARED, 24 * GIB, 20, 7, {8601, 350}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct resource resource = resource_of(table[i].strategy, table[i].provisioning);
                struct unit unit = {.shared = &entry, .memory = table[i].memory, .replicas = table[i].replicas};
                struct share share = share_of(&resource, &unit, table[i].k);

                assert_int_equal(share.memory_mib, table[i].share.memory_mib);
                assert_int_equal(share.threads_permille, table[i].share.threads_permille);
        }
}

/* Deals the |n| replicas out to containers at random, and adds up what they get. */
static void deal(const struct resource *resource, const struct unit *unit, unsigned int *seed)
{
        unsigned int left = unit->replicas;
        uint64_t memory = 0;
        unsigned int threads = 0;
        unsigned int shares = 0;

        while (left > 0) {
                unsigned int k = 1 + (unsigned int)rand_r(seed) % left;
                struct share share = share_of(resource, unit, k);

                memory += share.memory_mib;
                threads += share.threads_permille;
                shares++;
                left -= k;
        }
        /* never more than there is, and less than one MiB and one permille lost by each */
        assert_true(memory <= unit->memory / 1024 / 1024);
        assert_true(memory + shares > unit->memory / 1024 / 1024);
        assert_true(threads <= 1000);
        assert_true(threads + shares > 1000);
}

static void test_all_shares_of_a_unit_together_fit_on_it_and_lose_next_to_nothing(void **state UNUSED)
{
        struct resource resource = resource_of(SHARING_MPS, PROVISIONING_WEIGHTED);
        unsigned int seed = 4711;

        for (unsigned int n = 1; n <= 60; n++) {
                struct unit unit = {.shared = &entry, .memory = 141 * GIB - 12345, .replicas = n};

                for (unsigned int round = 0; round < 50; round++)
                        deal(&resource, &unit, &seed);
        }
}

static void test_a_whole_unit_beside_shared_ones_has_no_limit(void **state UNUSED)
{
        struct resource resource = resource_of(SHARING_MPS, PROVISIONING_UNIFORM);
        struct unit unit = {.memory = 24 * GIB, .replicas = 1};
        struct share share = share_of(&resource, &unit, 1);

        assert_int_equal(share.memory_mib, 0);
        assert_int_equal(share.threads_permille, 1000);
        assert_int_equal(share.sms, 0);
}

static void test_shares_by_sms_are_whole_chunks_and_the_percentage_that_gives_them(void **state UNUSED)
{
        static const struct {
                int compute_major;
                unsigned int total;
                unsigned int sms; /* of the entry */
                unsigned int replicas;
                unsigned int k;
                unsigned int expected;
                unsigned int permille;
        } table[] = {
                /* 132 SMs are 15 chunks of 8, as recorded */
                {9, 132, 0, 15, 1, 8, 61}, {9, 132, 0, 15, 15, 120, 910}, {9, 132, 0, 5, 2, 48, 364},
                {9, 132, 0, 8, 1, 8, 61}, {9, 132, 16, 8, 1, 16, 122}, /* who writes sms may know better */
                {9, 132, 16, 3, 2, 32, 243}, {8, 108, 0, 27, 1, 4, 38}, {8, 108, 0, 10, 7, 56, 519},
                {7, 80, 0, 20, 7, 28, 350}, {7, 80, 0, 1, 1, 80, 1000},
                {-1, 132, 0, 3, 1, 40, 304}, /* unknown: the larger chunk, which is right for both */
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct resource resource = resource_of(SHARING_MPS, PROVISIONING_SM);
                struct shared_resource with_sms = {.section = &section, .sms = table[i].sms};
                struct gpu gpu = {.compute_major = table[i].compute_major, .multiprocessors = table[i].total};
                struct unit unit = {
                        .shared = &with_sms, .gpu = &gpu, .memory = 24 * GIB, .replicas = table[i].replicas};
                struct share share = share_of(&resource, &unit, table[i].k);

                assert_int_equal(share.sms, table[i].expected);
                assert_int_equal(share.threads_permille, table[i].permille);
                assert_true(share.threads_permille * table[i].total / 1000 >= share.sms);
                assert_true((share.threads_permille - 1) * table[i].total / 1000 < share.sms);
                assert_int_equal(share.memory_mib, 24576 * table[i].k / table[i].replicas);
        }
}

static void test_a_mig_device_has_sms_of_its_own(void **state UNUSED)
{
        struct resource resource = resource_of(SHARING_MPS, PROVISIONING_SM);
        struct gpu gpu = {.compute_major = 8, .multiprocessors = 108};
        struct mig_device mig = {.attributes = {.multiprocessors = 42}};
        struct unit unit = {.shared = &entry, .gpu = &gpu, .mig = &mig, .memory = 20 * GIB, .replicas = 2};

        assert_int_equal(share_of(&resource, &unit, 1).sms, 20);
        assert_int_equal(share_of(&resource, &unit, 2).threads_permille, 953);
}

static void test_the_largest_share_is_what_a_request_may_be(void **state UNUSED)
{
        static const struct {
                bool fail;
                unsigned int max_per_request;
                uint64_t memory_mib;
        } table[] = {{false, 0, 24576}, {false, 5, 6144}, {false, 30, 24576}, {true, 0, 1228}, {true, 5, 1228}};
        struct unit unit = {.shared = &entry, .memory = 24 * GIB, .replicas = 20};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct resource resource = resource_of(SHARING_MPS, PROVISIONING_WEIGHTED);

                resource.fail_requests_greater_than_one = table[i].fail;
                resource.max_per_request = table[i].max_per_request;
                assert_int_equal(share_largest(&resource, &unit).memory_mib, table[i].memory_mib);
        }
}

static void test_the_tier_is_the_best_that_gpu_driver_and_configuration_have(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                const char *driver;
                int compute_major;
                enum mps_tier limit;
                enum mps_tier tier;
        } table[] = {
                {PROVISIONING_UNIFORM, "615.10", 9, MPS_TIER_NAMESPACE, MPS_TIER_DEFAULT},
                {PROVISIONING_HALF, "580.105.08", 9, MPS_TIER_NAMESPACE, MPS_TIER_VERIFIED},
                {PROVISIONING_HALF, "614.99", 9, MPS_TIER_NAMESPACE, MPS_TIER_VERIFIED},
                {PROVISIONING_HALF, "615.10", 9, MPS_TIER_NAMESPACE, MPS_TIER_NAMESPACE},
                {PROVISIONING_WEIGHTED, "615.10", 9, MPS_TIER_PARTITION, MPS_TIER_VERIFIED},
                {PROVISIONING_WEIGHTED, NULL, 9, MPS_TIER_NAMESPACE, MPS_TIER_VERIFIED},
                {PROVISIONING_SM, "589.99", 9, MPS_TIER_NAMESPACE, MPS_TIER_VERIFIED},
                {PROVISIONING_SM, "590.44", 9, MPS_TIER_NAMESPACE, MPS_TIER_PARTITION},
                {PROVISIONING_SM, "590.44", 8, MPS_TIER_PARTITION, MPS_TIER_PARTITION},
                {PROVISIONING_SM, "590.44", 8, MPS_TIER_VERIFIED, MPS_TIER_VERIFIED},
                {PROVISIONING_SM, "590.44", 7, MPS_TIER_NAMESPACE, MPS_TIER_VERIFIED},
                {PROVISIONING_SM, "590.44", -1, MPS_TIER_NAMESPACE, MPS_TIER_VERIFIED},
                {PROVISIONING_SM, "615.10", 9, MPS_TIER_NAMESPACE, MPS_TIER_PARTITION},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct resource resource = resource_of(SHARING_MPS, table[i].provisioning);
                const struct inventory inventory = {.driver_version = table[i].driver};
                const struct plan plan = {.inventory = &inventory};
                struct gpu gpu = {.compute_major = table[i].compute_major};
                struct unit unit = {.shared = &entry, .gpu = &gpu, .replicas = 2};

                resource.tier_limit = table[i].limit;
                assert_int_equal(share_tier(&plan, &resource, &unit), table[i].tier);
        }
}

static void test_a_promise_says_where_no_memory_is_limited(void **state UNUSED)
{
        static const struct {
                uint64_t memory;
                const char *failure;
                const char *mig_failure;
                const char *promise;
        } table[] = {{GIB, NULL, NULL, "verified"}, {0, NULL, NULL, "verified-no-memory-limit"},
                {0, "it is gone", NULL, "verified"}, {0, NULL, "it is gone", "verified"}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct resource resource = resource_of(SHARING_MPS, PROVISIONING_WEIGHTED);
                struct inventory inventory = {.driver_version = "580.65"};
                const struct plan plan = {.inventory = &inventory};
                struct gpu gpu = {.failure = table[i].failure};
                struct mig_device mig = {.failure = table[i].mig_failure};
                struct unit unit = {
                        .shared = &entry, .gpu = &gpu, .mig = &mig, .memory = table[i].memory, .replicas = 2};

                assert_string_equal(share_promise(&plan, &resource, &unit), table[i].promise);
        }
        for (enum mps_tier tier = MPS_TIER_DEFAULT; tier <= MPS_TIER_NAMESPACE; tier++) {
                const char *name = mps_tier_name(tier);
                const char *promise = mps_tier_promise(tier, false);

                assert_string_equal(mps_tier_promise(tier, true), name);
                assert_memory_equal(promise, name, strlen(name));
                assert_string_equal(promise + strlen(name), "-no-memory-limit");
                assert_true(strlen(promise) <= 63); /* a label's value */
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shares_follow_their_provisioning),
                cmocka_unit_test(test_all_shares_of_a_unit_together_fit_on_it_and_lose_next_to_nothing),
                cmocka_unit_test(test_a_whole_unit_beside_shared_ones_has_no_limit),
                cmocka_unit_test(test_shares_by_sms_are_whole_chunks_and_the_percentage_that_gives_them),
                cmocka_unit_test(test_a_mig_device_has_sms_of_its_own),
                cmocka_unit_test(test_the_largest_share_is_what_a_request_may_be),
                cmocka_unit_test(test_the_tier_is_the_best_that_gpu_driver_and_configuration_have),
                cmocka_unit_test(test_a_promise_says_where_no_memory_is_limited),
        };

        return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
