// SPDX-License-Identifier: Apache-2.0
/*
 * The units that DRA claims can have.
 */
#include "node.h"
#include "unit.h"

#include "plan/plan_build.h"
#include "plan/mps_wanted.h"
#include "plan/share.h"

static struct node dra_node(size_t n_gpus)
{
        struct node node = node_new(n_gpus);

        node.config.dra = (struct config_dra){.enabled = true, .driver_name = "gpu.warpshare.dev", .mps = true};
        return node;
}

/* "GPU-0 MIG-1" */
static const char *units(struct node *node)
{
        const struct resource *resource = plan_claimable(&node->arena, &node->config, &node->inventory);
        const char *text = "";

        if (!resource)
                return NULL;
        for (size_t i = 0; i < resource->n_units; i++)
                text = arena_printf(&node->arena, "%s%s%s", text, *text ? " " : "", resource->units[i].uuid);
        return text;
}

static void test_they_are_those_that_are_for_dra(void **state UNUSED)
{
        const struct device_ref second = {.gpu = 1, .mig = -1};
        struct node node = dra_node(3);

        assert_string_equal(units(&node), "GPU-0 GPU-1 GPU-2");
        node.config.dra.devices = (struct device_selector){.kind = SELECT_LIST, .refs = &second, .n_refs = 1};
        assert_string_equal(units(&node), "GPU-1");
        node.inventory.gpus[2].is_claimed = true;
        assert_string_equal(units(&node), "GPU-1 GPU-2");
        node.config.dra.enabled = false;
        assert_string_equal(units(&node), "GPU-2");
        node.inventory.gpus[2].is_claimed = false;
        assert_null(units(&node));
        node_done(&node);
}

static void test_a_gpu_in_mig_mode_has_its_mig_devices_instead(void **state UNUSED)
{
        struct mig_device devices[] = {
                {.uuid = "MIG-0", .index = 0, .memory = 10 * GIB}, {.uuid = "MIG-1", .index = 1, .memory = 10 * GIB}};
        struct node node = dra_node(2);
        const struct resource *resource;

        node.inventory.gpus[0].mig_enabled = true;
        node.inventory.gpus[0].mig_devices = devices;
        node.inventory.gpus[0].n_mig_devices = 2;
        assert_string_equal(units(&node), "MIG-0 MIG-1 GPU-1");
        resource = plan_claimable(&node.arena, &node.config, &node.inventory);
        assert_string_equal(resource->units[1].index, "0:1");
        assert_int_equal(resource->units[1].memory, 10 * GIB);
        node_done(&node);
}

/* A client may have all that is not reserved; its claim lowers that for its container. */
static void test_a_unit_with_a_share_has_a_daemon_that_lets_a_client_have_all(void **state UNUSED)
{
        struct node node = dra_node(2);
        struct mps_wanted wanted;
        const struct unit *unit;

        node.config.dra.has_memory_reserve = true;
        node.config.dra.memory_reserve_mib = 1024;
        assert_ok(node_plan(&node), &node.err);
        mps_wanted_of(&wanted, &node.arena, node.plan);
        assert_int_equal(wanted.n_daemons, 0);
        unit = &node.plan->claimable->units[1];
        mps_wanted_add_claimed(&wanted, &node.arena, node.plan, &unit, 1, DAEMON_SCOPE_GPU);
        mps_wanted_add_claimed(&wanted, &node.arena, node.plan, &unit, 1, DAEMON_SCOPE_GPU); /* it has one already */
        assert_int_equal(wanted.n_daemons, 1);
        assert_string_equal(wanted.daemons[0].name, "GPU-1");
        assert_string_equal(wanted.daemons[0].resource, "gpu.warpshare.dev");
        assert_int_equal(wanted.daemons[0].threads_permille, 1000);
        assert_int_equal(wanted.daemons[0].units[0].limit_mib, 23 * 1024);
        assert_int_equal(share_tier(node.plan, node.plan->claimable, unit), MPS_TIER_VERIFIED);
        node_done(&node);
}

static void test_the_configuration_says_the_memory_that_nvml_does_not_report(void **state UNUSED)
{
        struct node node = dra_node(3);
        struct mps_wanted wanted;
        const struct unit *units[2];

        node.config.dra.memory_mib = 65536;
        node.config.dra.has_memory_reserve = true;
        node.config.dra.memory_reserve_mib = 1024;
        node.inventory.gpus[0].memory = 0;
        node.inventory.gpus[2].memory = 0;
        node.inventory.gpus[2].failure = "nvmlDeviceGetMemoryInfo: Unknown Error"; /* it may be any GPU */
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->claimable->units[0].memory, 64 * GIB);
        assert_int_equal(node.plan->claimable->units[1].memory, 24 * GIB);
        assert_int_equal(node.plan->claimable->units[2].memory, 0);
        units[0] = &node.plan->claimable->units[0];
        units[1] = &node.plan->claimable->units[1];
        mps_wanted_of(&wanted, &node.arena, node.plan);
        mps_wanted_add_claimed(&wanted, &node.arena, node.plan, units, 2, DAEMON_SCOPE_GPU);
        assert_int_equal(wanted.daemons[0].units[0].limit_mib, 63 * 1024);
        assert_int_equal(wanted.daemons[1].units[0].limit_mib, 23 * 1024);
        node_done(&node);
}

static void test_a_unit_that_could_not_be_read_yet_has_no_daemon(void **state UNUSED)
{
        struct node node = dra_node(2);
        struct mps_wanted wanted;
        const struct unit *units[2];

        node.inventory.gpus[0].memory = 0;
        node.inventory.gpus[0].failure = node.inventory.gpus[1].failure = "nvmlDeviceGetMemoryInfo: Unknown Error";
        assert_ok(node_plan(&node), &node.err);
        units[0] = &node.plan->claimable->units[0];
        units[1] = &node.plan->claimable->units[1];
        mps_wanted_of(&wanted, &node.arena, node.plan);
        mps_wanted_add_claimed(&wanted, &node.arena, node.plan, units, 2, DAEMON_SCOPE_GPU);
        assert_int_equal(wanted.n_daemons, 1);
        assert_string_equal(wanted.daemons[0].name, "GPU-1"); /* its memory was read before */
        node_done(&node);
}

/* Neither MIG devices nor what MPS holds no limits on is one of all GPUs. */
static void test_one_daemon_for_all_gpus_leaves_mig_devices_their_own(void **state UNUSED)
{
        struct mig_device mig = {.uuid = "MIG-0", .index = 0, .memory = 10 * GIB};
        struct node node = dra_node(4);
        const struct resource *claimable;
        const struct unit *all[4];
        struct mps_wanted wanted;
        size_t n_all = 0;

        node.config.dra.daemon_scope = DAEMON_SCOPE_RESOURCE;
        node.inventory.gpus[0].mig_enabled = true;
        node.inventory.gpus[0].mig_devices = &mig;
        node.inventory.gpus[0].n_mig_devices = 1;
        node.inventory.gpus[2].architecture = GPU_ARCHITECTURE_PASCAL;
        assert_ok(node_plan(&node), &node.err);
        claimable = node.plan->claimable;
        for (size_t i = 0; i < claimable->n_units; i++)
                if (mps_claimed_is_of_all(&claimable->units[i]))
                        all[n_all++] = &claimable->units[i];
        assert_int_equal(n_all, 2);
        assert_string_equal(mps_claimed_daemon_name(&node.arena, claimable, &claimable->units[0]), "MIG-0");
        assert_string_equal(mps_claimed_daemon_name(&node.arena, claimable, all[0]), "gpu.warpshare.dev");
        mps_wanted_of(&wanted, &node.arena, node.plan);
        mps_wanted_add_claimed(&wanted, &node.arena, node.plan, all, n_all, DAEMON_SCOPE_RESOURCE);
        assert_int_equal(wanted.n_daemons, 1);
        assert_string_equal(wanted.daemons[0].name, "gpu.warpshare.dev");
        assert_int_equal(wanted.daemons[0].n_units, 2);
        assert_string_equal(wanted.daemons[0].units[0].uuid, "GPU-1");
        assert_string_equal(wanted.daemons[0].units[1].uuid, "GPU-3");
        assert_int_equal(wanted.daemons[0].threads_permille, 1000);
        assert_int_equal(wanted.daemons[0].tier_limit, MPS_TIER_VERIFIED);
        node_done(&node);
}

static void test_one_daemon_for_all_gpus_serves_the_others_while_one_cannot_be_read(void **state UNUSED)
{
        struct node node = dra_node(2);
        const struct unit *all[2];
        struct mps_wanted wanted;

        node.config.dra.daemon_scope = DAEMON_SCOPE_RESOURCE;
        node.inventory.gpus[0].memory = 0;
        node.inventory.gpus[0].failure = "nvmlDeviceGetMemoryInfo: Unknown Error";
        assert_ok(node_plan(&node), &node.err);
        for (size_t i = 0; i < 2; i++) {
                all[i] = &node.plan->claimable->units[i];
                assert_true(mps_claimed_is_of_all(all[i]));
        }
        mps_wanted_of(&wanted, &node.arena, node.plan);
        mps_wanted_add_claimed(&wanted, &node.arena, node.plan, all, 2, DAEMON_SCOPE_RESOURCE);
        assert_int_equal(wanted.n_daemons, 1);
        assert_int_equal(wanted.daemons[0].n_units, 1);
        assert_string_equal(wanted.daemons[0].units[0].uuid, "GPU-1");
        assert_int_equal(wanted.daemons[0].n_away, 1);
        assert_string_equal(wanted.daemons[0].away[0], "GPU-0");
        node_done(&node);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_they_are_those_that_are_for_dra),
                cmocka_unit_test(test_a_gpu_in_mig_mode_has_its_mig_devices_instead),
                cmocka_unit_test(test_a_unit_with_a_share_has_a_daemon_that_lets_a_client_have_all),
                cmocka_unit_test(test_the_configuration_says_the_memory_that_nvml_does_not_report),
                cmocka_unit_test(test_a_unit_that_could_not_be_read_yet_has_no_daemon),
                cmocka_unit_test(test_one_daemon_for_all_gpus_leaves_mig_devices_their_own),
                cmocka_unit_test(test_one_daemon_for_all_gpus_serves_the_others_while_one_cannot_be_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
