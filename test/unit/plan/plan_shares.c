// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "describe.h"

#include "plan/capability.h"

#define PLACE "config '/config/config.yaml' line 12: sharing.mps.resources[0]"

/* One GPU of 24 GiB and |sms| SMs. */
static struct node make_node(unsigned int sms)
{
        struct node node = node_new(1);

        node.inventory.gpus[0].multiprocessors = sms;
        return node;
}

static void share(struct node *node, enum provisioning provisioning, unsigned int replicas)
{
        node_share(node, SHARING_MPS, replicas);
        node->section.provisioning = provisioning;
}

static void test_a_share_too_small_for_any_program_is_refused_with_the_bound(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        share(&node, PROVISIONING_WEIGHTED, 48);
        assert_ok(node_plan(&node), &node.err);
        plan_done(node.plan);
        node.plan = NULL;
        node.inventory.gpus[0].memory = 8 * GIB;
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                PLACE
                ".replicas: 48, at most 29 for GPU 0 (GPU-0) (NVIDIA A10): each needs at least 256 MiB of the 7424 that "
                "are left of it beyond the reserve");
        node.section.has_memory_reserve = true;
        node.section.memory_reserve_mib = 8000;
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                PLACE
                ": GPU 0 (GPU-0) (NVIDIA A10) has 192 MiB beyond the reserve of 8000 MiB, and a replica needs at least "
                "256: lower memoryReserve, or leave it out by devices");
        /* NVIDIA's formula asks no such thing, and unknown memory is no reason. */
        node.section.provisioning = PROVISIONING_UNIFORM;
        assert_ok(node_plan(&node), &node.err);
        plan_done(node.plan);
        node.section.provisioning = PROVISIONING_WEIGHTED;
        node.inventory.gpus[0].memory = 0;
        assert_ok(node_plan(&node), &node.err);
}

static void test_shares_by_sms_have_whole_chunks_or_are_refused(void **state UNUSED)
{
        static const struct {
                int compute_major;
                unsigned int total;
                unsigned int replicas;
                unsigned int sms;
                const char *expected; /* NULL: it can be had */
        } table[] = {
                {9, 132, 15, 0, NULL},
                {9, 132, 15, 8, NULL},
                {9, 132, 5, 24, NULL},
                {8, 108, 27, 4, NULL},
                {9, 132, 16, 0,
                        ".replicas: 16, at most 15 for GPU 0 (GPU-0) (NVIDIA A10), which has 132 SMs in whole chunks of 8, of "
                        "which it may lack one"},
                {9, 132, 17, 8,
                        ".replicas: 17, at most 16 for GPU 0 (GPU-0) (NVIDIA A10), which has 132 SMs in whole chunks of 8"},
                {8, 108, 28, 0,
                        ".replicas: 28, at most 27 for GPU 0 (GPU-0) (NVIDIA A10), which has 108 SMs in whole chunks of 4"},
                {9, 132, 5, 12,
                        ".sms: 12, must be a multiple of 8, the SMs of one chunk of GPU 0 (GPU-0) (NVIDIA A10)"},
                {9, 132, 5, 32,
                        ".sms: 32, at most 24 for each of 5 replicas of GPU 0 (GPU-0) (NVIDIA A10), which has 128 SMs in whole "
                        "chunks of 8"},
                {9, 7, 1, 0,
                        ": provisioning sm: GPU 0 (GPU-0) (NVIDIA A10) has 7 SMs, less than the 8 of one chunk: leave it out by "
                        "devices, or use provisioning weighted"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = make_node(table[i].total);

                node.inventory.driver_version = "595.58";
                node.inventory.gpus[0].compute_major = table[i].compute_major;
                share(&node, PROVISIONING_SM, table[i].replicas);
                node.shared.sms = table[i].sms;
                if (table[i].expected)
                        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                                arena_printf(&node.arena, PLACE "%s", table[i].expected));
                else
                        assert_ok(node_plan(&node), &node.err);
                assert_string_equal(node.warnings.data, "");
        }
}

static void test_sms_that_may_be_one_chunk_too_many_are_warned_about(void **state UNUSED)
{
        static const struct {
                unsigned int replicas;
                unsigned int sms;
                bool is_mig;
                const char *driver;
                bool is_warned;
        } table[] = {{16, 8, false, "595.58", true}, {8, 16, false, "595.58", true}, {5, 24, false, "595.58", false},
                {15, 8, false, "595.58", false}, {5, 8, true, "595.58", false},
                {16, 8, false, "580.65", false} /* by percentages */};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = make_node(132);

                node.inventory.driver_version = table[i].driver;
                node.inventory.gpus[0].compute_major = 9;
                if (table[i].is_mig) {
                        node_add_mig(&node, 0, "3g.40gb");
                        node.config.mig_strategy = MIG_STRATEGY_SINGLE;
                }
                share(&node, PROVISIONING_SM, table[i].replicas);
                node.shared.sms = table[i].sms;
                assert_ok(node_plan(&node), &node.err);
                if (table[i].is_warned)
                        assert_string_equal(node.warnings.data, PLACE
                                ": 'nvidia.com/gpu' needs 16 chunks of 8 SMs on GPU 0 (GPU-0), of which it may lack one: then "
                                "the last partition is refused; warpshare mps status says how many there are\n");
                else
                        assert_null(strstr(node.warnings.data, "may lack one"));
        }
}

static void test_sms_of_unknown_number_cannot_be_shared(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = make_node(0);

        share(&node, PROVISIONING_SM, 2);
        assert_fails(node_plan(&node), &node.err, ERROR_UNSUPPORTED,
                PLACE
                ": provisioning sm: GPU 0 (GPU-0) (NVIDIA A10) does not report how many SMs it has: use provisioning "
                "weighted, or leave it out by devices");
        /* A GPU that fails tells nothing; the others are served. */
        node.inventory.gpus[0].failure = "it is gone";
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/gpu mps: GPU-0*2");
}

static void test_sms_by_percentage_are_warned_about_with_their_tier(void **state UNUSED)
{
        static const char text[] = PLACE
                ": 'nvidia.com/gpu' gets its SMs by percentages that a container can drop (tier verified): partitions "
                "need driver 590, compute capability 8.0, a whole GPU and tier partition or better, and GPU 0 (GPU-0) does not have "
                "them all\n";

        for (int i = 0; i < 4; i++) {
                _cleanup_(node_done) struct node node = make_node(80);

                node.inventory.driver_version = i == 0 ? "589.10" : "590.10";
                node.inventory.gpus[0].compute_major = i == 1 ? 7 : 8;
                share(&node, PROVISIONING_SM, 2);
                node.section.tier_limit = i == 2 ? MPS_TIER_VERIFIED : MPS_TIER_PARTITION;
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(node.warnings.data, i == 3 ? "" : text);
        }
}

static void test_a_mig_device_has_no_partitions(void **state UNUSED)
{
        struct gpu gpu = {.compute_major = 9};
        struct mig_device mig = {.uuid = "MIG-0"};
        struct unit unit = {.gpu = &gpu};

        assert_true(capability_partitions(&unit, "595.58"));
        unit.mig = &mig;
        assert_false(capability_partitions(&unit, "595.58"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_share_too_small_for_any_program_is_refused_with_the_bound),
                cmocka_unit_test(test_sms_that_may_be_one_chunk_too_many_are_warned_about),
                cmocka_unit_test(test_shares_by_sms_have_whole_chunks_or_are_refused),
                cmocka_unit_test(test_sms_of_unknown_number_cannot_be_shared),
                cmocka_unit_test(test_sms_by_percentage_are_warned_about_with_their_tier),
                cmocka_unit_test(test_a_mig_device_has_no_partitions),
        };

        return cmocka_run_group_tests_name("plan_shares", tests, NULL, NULL);
}
