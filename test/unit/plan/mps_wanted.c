// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/mps_wanted.h"

/*
 * "GPU-0 nvidia.com/gpu 100 GPU-0/2457", one line a daemon: its name, resource, permille, units with their limits, and
 * "-GPU-1": a unit that is away.
 */
static const char *describe(struct node *node)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mps_wanted wanted;

        mps_wanted_of(&wanted, &node->arena, node->plan);
        for (size_t i = 0; i < wanted.n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted.daemons[i];

                strbuf_printf(&text, "%s %s %u", daemon->name, daemon->resource, daemon->threads_permille);
                for (size_t j = 0; j < daemon->n_units; j++)
                        strbuf_printf(&text, " %s/%llu", daemon->units[j].uuid,
                                (unsigned long long)daemon->units[j].limit_mib);
                for (size_t j = 0; j < daemon->n_away; j++)
                        strbuf_printf(&text, " -%s", daemon->away[j]);
                strbuf_putc(&text, '\n');
        }
        return arena_strdup(&node->arena, text.data ? text.data : "");
}

static void share(struct node *node, enum provisioning provisioning, unsigned int replicas)
{
        node_share(node, SHARING_MPS, replicas);
        node->section.provisioning = provisioning;
        node->section.has_memory_reserve = true;
        node->config.placement = PLACEMENT_SAME_GPU;
}

static void test_each_shared_unit_has_a_daemon_with_the_most_that_a_container_may_get(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                unsigned int replicas;
                bool fail;
                unsigned int max_per_request;
                const char *expected; /* permille and limit */
        } table[] = {
                {PROVISIONING_UNIFORM, 10, true, 0, "100 GPU-0/2457"}, /* NVIDIA's example */
                {PROVISIONING_UNIFORM, 3, true, 0, "330 GPU-0/8192"},
                {PROVISIONING_UNIFORM, 3, false, 0, "330 GPU-0/8192"},
                {PROVISIONING_WEIGHTED, 20, false, 0, "1000 GPU-0/24576"},
                {PROVISIONING_WEIGHTED, 20, false, 5, "250 GPU-0/6144"},
                {PROVISIONING_WEIGHTED, 20, true, 0, "50 GPU-0/1228"},
                {PROVISIONING_HALF, 20, false, 5, "500 GPU-0/6144"},
                {PROVISIONING_HALF, 20, false, 15, "1000 GPU-0/18432"},
                {PROVISIONING_SM, 20, false, 5, "250 GPU-0/6144"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(1);

                node.inventory.gpus[0].multiprocessors = 80;
                share(&node, table[i].provisioning, table[i].replicas);
                node.section.fail_requests_greater_than_one = table[i].fail;
                node.section.max_per_request = table[i].max_per_request;
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(
                        describe(&node), arena_printf(&node.arena, "GPU-0 nvidia.com/gpu %s\n", table[i].expected));
        }
}

static void test_a_unit_that_could_not_be_read_yet_has_no_daemon_of_its_own(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);

        node.inventory.gpus[0].memory = 0;
        node.inventory.gpus[0].failure = node.inventory.gpus[1].failure = "nvmlDeviceGetMemoryInfo: Unknown Error";
        share(&node, PROVISIONING_WEIGHTED, 20);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "GPU-1 nvidia.com/gpu 500 GPU-1/12288\n"); /* it was read before */
}

static void test_what_has_failed_is_away_in_a_daemon_for_several_and_changes_nothing_for_the_others(void **state UNUSED)
{
        static const struct {
                enum daemon_scope scope;
                enum provisioning provisioning;
                bool has_failed[3], is_unread[3];
                const char *expected; /* name and resource before it */
        } table[] = {
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM, {0}, {0}, "100 GPU-0/2457 GPU-1/2457 GPU-2/2457"},
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM, {1}, {0}, "100 GPU-1/2457 GPU-2/2457 -GPU-0"},
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM, {1, 0, 1}, {0, 0, 1}, "100 GPU-1/2457 -GPU-0 -GPU-2"},
                {DAEMON_SCOPE_NODE, PROVISIONING_WEIGHTED, {0, 1}, {0, 1}, "500 GPU-0/12288 GPU-2/12288 -GPU-1"},
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_SM, {0, 1}, {0, 1}, "500 GPU-0/12288 GPU-2/12288 -GPU-1"},
                /* which of them is to serve then? One that runs goes on. */
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM, {1, 1, 1}, {0, 1}, "100 GPU-0/2457 GPU-2/2457 -GPU-1"},
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM, {1, 1, 1}, {1, 1, 1}, NULL},
                /* a memory that NVML does not report is no failure */
                {DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM, {0}, {0, 1}, "100 GPU-0/2457 GPU-1/0 GPU-2/2457"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);
                const char *name = table[i].scope == DAEMON_SCOPE_NODE ? "node" : "nvidia.com/gpu";

                for (size_t j = 0; j < 3; j++) {
                        struct gpu *gpu = &node.inventory.gpus[j];

                        gpu->failure = table[i].has_failed[j] ? "nvmlDeviceGetMemoryInfo: Unknown Error" : NULL;
                        gpu->memory = table[i].is_unread[j] ? 0 : gpu->memory;
                        gpu->multiprocessors = table[i].is_unread[j] ? 0 : 80;
                }
                share(&node, table[i].provisioning, 10);
                node.section.daemon_scope = table[i].scope;
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node),
                        !table[i].expected
                                ? ""
                                : arena_printf(&node.arena, "%s nvidia.com/gpu %s\n", name, table[i].expected));
        }
}

static void test_a_daemon_of_a_resource_has_nvidias_defaults(void **state UNUSED)
{
        static const struct {
                unsigned int replicas[2];
                enum provisioning provisioning;
                const char *expected;
        } table[] = {
                {{10, 10}, PROVISIONING_UNIFORM, "nvidia.com/gpu nvidia.com/gpu 100 GPU-0/2457 GPU-1/2457\n"},
                {{3, 3}, PROVISIONING_UNIFORM, "nvidia.com/gpu nvidia.com/gpu 330 GPU-0/8192 GPU-1/8192\n"},
                /* 13 devices of two units are 6 of each, and 100 / 6 is 16 */
                {{10, 3}, PROVISIONING_UNIFORM, "nvidia.com/gpu nvidia.com/gpu 160 GPU-0/2457 GPU-1/8192\n"},
                {{10, 4}, PROVISIONING_WEIGHTED, "nvidia.com/gpu nvidia.com/gpu 1000 GPU-0/24576 GPU-1/24576\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                static const struct device_ref refs[2] = {{.gpu = 0, .mig = -1}, {.gpu = 1, .mig = -1}};
                _cleanup_(node_done) struct node node = node_new(2);

                for (size_t j = 0; j < 2; j++) {
                        struct shared_resource *entry =
                                node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", table[i].replicas[j]);

                        entry->devices = (struct device_selector){SELECT_LIST, .refs = &refs[j], .n_refs = 1};
                }
                node.sections[SHARING_MPS]->daemon_scope = DAEMON_SCOPE_RESOURCE;
                node.sections[SHARING_MPS]->provisioning = table[i].provisioning;
                node.sections[SHARING_MPS]->has_memory_reserve = true;
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), table[i].expected);
        }
}

static void test_a_daemon_of_the_node_has_the_gpus_of_all_resources_by_index(void **state UNUSED)
{
        static const struct device_ref refs[2] = {{.gpu = 1, .mig = -1}, {.gpu = 0, .mig = -1}};
        _cleanup_(node_done) struct node node = node_new(3);

        for (size_t i = 0; i < 2; i++) {
                struct shared_resource *entry = node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", i == 0 ? 4 : 8);

                entry->devices = (struct device_selector){SELECT_LIST, .refs = &refs[i], .n_refs = 1};
                entry->rename = i == 0 ? "nvidia.com/a" : "nvidia.com/b";
        }
        node.sections[SHARING_MPS]->daemon_scope = DAEMON_SCOPE_NODE;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "node nvidia.com/b,nvidia.com/a 160 GPU-0/3072 GPU-1/6144\n");
        plan_done(node.plan);
        node.sections[SHARING_MPS]->provisioning = PROVISIONING_WEIGHTED;
        node.sections[SHARING_MPS]->has_memory_reserve = true;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "node nvidia.com/b,nvidia.com/a 1000 GPU-0/24576 GPU-1/24576\n");
}

static void test_beside_a_daemon_of_the_node_mig_devices_have_their_own(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);

        node_add_mig(&node, 1, "3g.20gb")->uuid = "MIG-1";
        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", 4);
        node_add_entry(&node, SHARING_MPS, "nvidia.com/mig-3g.20gb", 4);
        node.sections[SHARING_MPS]->daemon_scope = DAEMON_SCOPE_NODE;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "MIG-1 nvidia.com/mig-3g.20gb 250 MIG-1/3840\n"
                                             "node nvidia.com/gpu 250 GPU-0/6144\n");
}

static void test_only_what_mps_shares_has_a_daemon(void **state UNUSED)
{
        static const struct device_ref ref = {.gpu = 1, .mig = -1};
        _cleanup_(node_done) struct node node = node_new(3);
        struct shared_resource *entry = node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", 4);

        entry->devices = (struct device_selector){SELECT_LIST, .refs = &ref, .n_refs = 1};
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "GPU-1 nvidia.com/gpu 250 GPU-1/6144\n");
        plan_done(node.plan);
        node.plan = NULL;
        node_share(&node, SHARING_TIME_SLICING, 4);
        node.config.sharing.mps = NULL;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "");
}

static void test_a_mig_device_has_a_daemon_of_its_own_with_a_name_that_is_a_path(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct mps_wanted wanted;
        const struct mps_unit *unit;

        node_add_mig(&node, 0, "3g.20gb")->uuid = "MIG-GPU-1234/1/0"; /* as drivers before 470 name it */
        node.inventory.gpus[0].compute_major = 8;
        node.config.mig_strategy = MIG_STRATEGY_SINGLE;
        node_share(&node, SHARING_MPS, 5);
        assert_ok(node_plan(&node), &node.err);
        mps_wanted_of(&wanted, &node.arena, node.plan);
        assert_int_equal(wanted.n_daemons, 1);
        assert_string_equal(wanted.daemons[0].name, "MIG-GPU-1234-1-0");
        unit = wanted.daemons[0].units;
        assert_string_equal(unit->uuid, "MIG-GPU-1234/1/0");
        assert_string_equal(unit->gpu_uuid, "GPU-0");
        assert_string_equal(unit->index, "0:0");
        assert_true(unit->is_mig);
        assert_int_equal(unit->sms, 42);
        assert_int_equal(unit->chunk_sms, 4);
        assert_int_equal(unit->chunks_needed, 0);
        assert_int_equal(unit->clients, 48);
        assert_int_equal(unit->limit_mib, 3072);
        assert_int_equal(unit->replica_mib, 3072);
}

static void test_a_daemon_with_partitions_knows_how_many_chunks_they_need(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct mps_wanted wanted;

        node.inventory.gpus[0].compute_major = 9;
        node.inventory.gpus[0].multiprocessors = 132;
        share(&node, PROVISIONING_SM, 4);
        assert_ok(node_plan(&node), &node.err);
        mps_wanted_of(&wanted, &node.arena, node.plan);
        assert_int_equal(wanted.daemons[0].units[0].chunk_sms, 8);
        assert_int_equal(wanted.daemons[0].units[0].chunks_needed, 12); /* four times three of 15 */
        plan_done(node.plan);
        node.plan = NULL;
        share(&node, PROVISIONING_WEIGHTED, 4);
        assert_ok(node_plan(&node), &node.err);
        mps_wanted_of(&wanted, &node.arena, node.plan);
        assert_int_equal(wanted.daemons[0].units[0].chunks_needed, 0);
}

static void test_with_scope_individual_each_resource_has_its_own(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);

        share(&node, PROVISIONING_UNIFORM, 10);
        node.section.scope = SCOPE_INDIVIDUAL;
        node.section.daemon_scope = DAEMON_SCOPE_RESOURCE;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node),
                "nvidia.com/gpu0 nvidia.com/gpu0 100 GPU-0/2457\nnvidia.com/gpu1 nvidia.com/gpu1 100 GPU-1/2457\n");
}

static void test_a_daemon_is_touched_only_for_what_it_knows_of(void **state UNUSED)
{
        static const struct mps_unit unit = {.uuid = "GPU-0", .limit_mib = 100, .replicas = 4};
        static const struct mps_unit other_unit = {.uuid = "GPU-1", .limit_mib = 100, .replicas = 4};
        static const struct mps_unit other_limit = {.uuid = "GPU-0", .limit_mib = 101, .replicas = 4};
        static const struct mps_unit other_replicas = {.uuid = "GPU-0", .limit_mib = 100, .replicas = 5};
        const struct mps_daemon_wanted daemon = {.name = "GPU-0",
                .resource = "nvidia.com/gpu",
                .provisioning = PROVISIONING_WEIGHTED,
                .tier_limit = MPS_TIER_NAMESPACE,
                .threads_permille = 1000,
                .units = &unit,
                .n_units = 1};
        struct mps_daemon_wanted others[] = {
                daemon, daemon, daemon, daemon, daemon, daemon, daemon, daemon, daemon, daemon};

        others[0].resource = "nvidia.com/gpu.small";
        others[1].units = &other_replicas;
        others[2].provisioning = PROVISIONING_HALF;
        others[3].name = "GPU-1";
        others[4].units = &other_unit;
        others[5].units = &other_limit;
        others[6].provisioning = PROVISIONING_SM;
        others[7].tier_limit = MPS_TIER_VERIFIED;
        others[8].threads_permille = 999;
        others[9].n_units = 0;
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                assert_int_equal(mps_daemon_is_same(&daemon, &others[i]), i < 3);
                assert_int_equal(mps_daemon_is_same(&others[i], &daemon), i < 3);
                assert_int_equal(mps_daemon_digest(&others[i]) == mps_daemon_digest(&daemon), i < 3);
                assert_in_range(mps_daemon_digest(&others[i]), 1, INT64_MAX);
        }
        others[0].provisioning = PROVISIONING_UNIFORM;
        assert_false(mps_daemon_is_same(&daemon, &others[0]));
        assert_false(mps_daemon_digest(&daemon) == mps_daemon_digest(&others[0]));
}

static void test_a_daemon_goes_on_without_a_change_for_what_is_away_or_was(void **state UNUSED)
{
        static const struct mps_unit first = {.uuid = "GPU-0", .limit_mib = 100};
        static const struct mps_unit both[] = {
                {.uuid = "GPU-0", .limit_mib = 100}, {.uuid = "GPU-1", .limit_mib = 100}};
        static const struct mps_unit others[] = {
                {.uuid = "GPU-0", .limit_mib = 100}, {.uuid = "GPU-1", .limit_mib = 9}};
        static const char *const away = "GPU-1";
        const struct mps_daemon_wanted with = {.name = "node", .units = both, .n_units = 2};
        const struct mps_daemon_wanted other = {.name = "node", .units = others, .n_units = 2};
        const struct mps_daemon_wanted without = {
                .name = "node", .units = &first, .n_units = 1, .away = &away, .n_away = 1};
        const struct mps_daemon_wanted alone = {.name = "node", .units = &first, .n_units = 1};
        struct mps_daemon_wanted changed = without;

        assert_true(mps_daemon_serves(&with, &with));
        assert_true(mps_daemon_serves(&with, &without));
        assert_true(mps_daemon_serves(&without, &with));
        assert_true(mps_daemon_serves(&without, &alone));
        assert_true(mps_daemon_serves(&alone, &without));
        assert_false(mps_daemon_serves(&with, &other));
        assert_false(mps_daemon_serves(&with, &alone)); /* another one may want that unit */
        assert_false(mps_daemon_serves(&alone, &with));
        changed.threads_permille = 50;
        assert_false(mps_daemon_serves(&with, &changed));
        assert_string_equal(mps_daemon_lacks(&without, &with), "GPU-1");
        assert_null(mps_daemon_lacks(&with, &without));
        assert_null(mps_daemon_lacks(&without, &without));
        assert_false(mps_daemon_is_same(&without, &alone));
        assert_false(mps_daemon_is_same(&without, &with));
        assert_false(mps_daemon_digest(&without) == mps_daemon_digest(&alone));
}

static void test_the_line_that_admins_look_for_is_as_it_was(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(node_done) struct node node = node_new(1);
        struct mps_wanted wanted;

        node.inventory.gpus[0].memory = 34190917632; /* V100-32GB */
        node_share(&node, SHARING_MPS, 20);
        assert_ok(node_plan(&node), &node.err);
        mps_wanted_of(&wanted, &node.arena, node.plan);
        mps_limit_line(&text, wanted.daemons[0].units);
        assert_string_equal(text.data,
                "Set device pinned memory limit: device=0, total_memory_gb=31.84, replicas=20, limit_per_replica_mib=1630");
        strbuf_clear(&text);
        mps_limit_line(&text, &(struct mps_unit){.index = "0", .replicas = 20});
        assert_int_equal(text.size, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_shared_unit_has_a_daemon_with_the_most_that_a_container_may_get),
                cmocka_unit_test(test_a_unit_that_could_not_be_read_yet_has_no_daemon_of_its_own),
                cmocka_unit_test(
                        test_what_has_failed_is_away_in_a_daemon_for_several_and_changes_nothing_for_the_others),
                cmocka_unit_test(test_a_daemon_of_a_resource_has_nvidias_defaults),
                cmocka_unit_test(test_a_daemon_of_the_node_has_the_gpus_of_all_resources_by_index),
                cmocka_unit_test(test_beside_a_daemon_of_the_node_mig_devices_have_their_own),
                cmocka_unit_test(test_only_what_mps_shares_has_a_daemon),
                cmocka_unit_test(test_a_mig_device_has_a_daemon_of_its_own_with_a_name_that_is_a_path),
                cmocka_unit_test(test_a_daemon_with_partitions_knows_how_many_chunks_they_need),
                cmocka_unit_test(test_with_scope_individual_each_resource_has_its_own),
                cmocka_unit_test(test_a_daemon_is_touched_only_for_what_it_knows_of),
                cmocka_unit_test(test_a_daemon_goes_on_without_a_change_for_what_is_away_or_was),
                cmocka_unit_test(test_the_line_that_admins_look_for_is_as_it_was),
        };

        return cmocka_run_group_tests_name("mps_wanted", tests, NULL, NULL);
}
