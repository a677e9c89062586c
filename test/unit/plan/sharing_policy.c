// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/sharing_policy.h"

static struct node make_node(enum provisioning provisioning, unsigned int replicas)
{
        struct node node = node_new(2);

        for (size_t i = 0; i < node.inventory.n_gpus; i++)
                node.inventory.gpus[i].multiprocessors = 72;
        node.inventory.gpus[1].memory = 0; /* NVML does not report it */
        node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", replicas)->memory_mib = 16384;
        node.sections[SHARING_MPS]->provisioning = provisioning;
        node.sections[SHARING_MPS]->guard = GUARD_REPORT;
        node.sections[SHARING_MPS]->has_memory_reserve = true;
        node.sections[SHARING_MPS]->memory_reserve_mib = 700;
        node.sections[SHARING_MPS]->max_threads = 40;
        node.sections[SHARING_MPS]->max_memory_mib = 5000;
        return node;
}

static void test_a_resource_comes_back_from_the_file_as_it_was(void **state UNUSED)
{
        static const enum provisioning all[] = {
                PROVISIONING_UNIFORM, PROVISIONING_HALF, PROVISIONING_WEIGHTED, PROVISIONING_SM, PROVISIONING_DECLARED};
        static const char *const names[] = {"nvidia.com/gpu", "nvidia.com/other"};

        for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
                _cleanup_(node_done) struct node node = make_node(all[i], 4);
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                _free_ char *text = NULL;
                struct sharing_policy_list written;
                struct sharing_policy_list list;
                const char *const *read_names;
                const struct sharing_policy *policy[2];
                struct resource resource;
                size_t n_names;

                assert_ok(node_plan(&node), &node.err);
                sharing_policy_of(&written, &arena, node.plan);
                text = sharing_policy_write(&written, names, ARRAY_SIZE(names));
                assert_ok(sharing_policy_read(&list, &read_names, &n_names, &arena, text, strlen(text), &node.err),
                        &node.err);
                assert_int_equal(n_names, 2);
                assert_string_equal(read_names[1], "nvidia.com/other");
                assert_int_equal(list.count, 2);
                /* In the wrong order: a plan has but one. */
                policy[0] = sharing_policy_find(&list, "nvidia.com/gpu", "GPU-1");
                policy[1] = sharing_policy_find(&list, "nvidia.com/gpu", "GPU-0");
                assert_true(sharing_policy_agrees(policy[0], policy[1]));
                sharing_policy_resource(&resource, &arena, &node.inventory, policy, 2);
                assert_true(resource_is_same(&resource, &node.plan->resources[0]));
                for (size_t j = 0; j < resource.n_devices; j++)
                        assert_string_equal(resource.devices[j].id, node.plan->resources[0].devices[j].id);
                assert_int_equal(resource.units[0].shared->section->guard, GUARD_REPORT);
                assert_int_equal(resource.units[0].shared->section->max_threads, 40);
                assert_int_equal(resource.units[0].shared->section->max_memory_mib, 5000);
                assert_int_equal(resource.units[0].memory, 24 * GIB);
                assert_int_equal(resource.units[1].memory, 16 * GIB);
                map_done(&resource.by_id);
        }
}

static void test_terms_are_kept_where_no_limit_is_another_one(void **state UNUSED)
{
        _cleanup_(node_done) struct node before = make_node(PROVISIONING_WEIGHTED, 4);
        _cleanup_(node_done) struct node same = make_node(PROVISIONING_WEIGHTED, 4);
        _cleanup_(node_done) struct node more = make_node(PROVISIONING_WEIGHTED, 5);
        _cleanup_(node_done) struct node half = make_node(PROVISIONING_HALF, 4);
        _cleanup_(node_done) struct node reserve = make_node(PROVISIONING_WEIGHTED, 4);
        _cleanup_(node_done) struct node single = make_node(PROVISIONING_WEIGHTED, 4);
        const struct node *others[] = {&more, &half, &reserve, &single};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct sharing_policy_list list;

        same.sections[SHARING_MPS]->guard = GUARD_TERMINATE;
        reserve.sections[SHARING_MPS]->memory_reserve_mib = 900;
        single.sections[SHARING_MPS]->fail_requests_greater_than_one = true; /* the daemon's own limit is lower then */
        assert_ok(node_plan(&before), &before.err);
        assert_ok(node_plan(&same), &same.err);
        sharing_policy_of(&list, &arena, before.plan);
        assert_true(
                sharing_policy_is_kept(&list.items[0], &same.plan->resources[0], &same.plan->resources[0].units[0]));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                struct node *other = (struct node *)(uintptr_t)others[i];

                assert_ok(node_plan(other), &other->err);
                assert_false(sharing_policy_is_kept(
                        &list.items[0], &other->plan->resources[0], &other->plan->resources[0].units[0]));
        }
}

static void test_what_is_malformed_is_left_out(void **state UNUSED)
{
        static const char *const whole[] = {"", "[]", "{}", "{\"mps\":[]}", "{\"mps\":{},\"resources\":[]}", "no"};
        static const char parts[] =
                "{\"resources\":[\"\",7,\"nvidia.com/gpu\"],\"mps\":[7,{},{\"resource\":\"a\",\"baseName\":\"a\",\"unit\":\"u\","
                "\"replicas\":0,\"sms\":0,\"provisioning\":0,\"placement\":0,\"daemonScope\":0,\"tierLimit\":0,\"guard\":0,"
                "\"maxPerRequest\":0,\"memoryReserveMiB\":0},{\"resource\":\"a\",\"baseName\":\"a\",\"unit\":\"u\",\"replicas\":3,"
                "\"sms\":0,\"provisioning\":9,\"placement\":0,\"daemonScope\":0,\"tierLimit\":0,\"guard\":0,\"maxPerRequest\":0,"
                "\"memoryReserveMiB\":0},{\"resource\":\"a\",\"baseName\":\"a\",\"unit\":\"u\",\"replicas\":3,\"sms\":0,"
                "\"provisioning\":0,\"placement\":0,\"daemonScope\":0,\"tierLimit\":0,\"guard\":0,\"maxPerRequest\":0,"
                "\"memoryReserveMiB\":0}]}";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct sharing_policy_list list;
        const char *const *names;
        size_t n_names;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(whole); i++) {
                assert_int_equal(
                        sharing_policy_read(&list, &names, &n_names, &arena, whole[i], strlen(whole[i]), &err), -1);
                assert_string_equal(err.text, "no record of sharing policies: it has no lists 'mps' and 'resources'");
        }
        assert_ok(sharing_policy_read(&list, &names, &n_names, &arena, parts, strlen(parts), &err), &err);
        assert_int_equal(list.count, 1);
        assert_int_equal(list.items[0].replicas, 3);
        assert_int_equal(n_names, 1);
        assert_string_equal(names[0], "nvidia.com/gpu");
}

static void test_ids_are_split_at_their_colons(void **state UNUSED)
{
        static const struct {
                const char *id;
                size_t length;
                int64_t replica;
        } ids[] = {{"GPU-0", 5, -1}, {"GPU-0::3", 5, 3}, {"MIG-GPU-0/1/0::12", 13, 12}, {"GPU-0::", 7, -1},
                {"GPU-0::x", 8, -1}, {"::1", 3, -1}, {"GPU-0::99999999999", 18, -1}, {"", 0, -1}};

        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                int64_t replica;

                assert_int_equal(device_id_split(ids[i].id, &replica), ids[i].length);
                assert_int_equal(replica, ids[i].replica);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_resource_comes_back_from_the_file_as_it_was),
                cmocka_unit_test(test_terms_are_kept_where_no_limit_is_another_one),
                cmocka_unit_test(test_what_is_malformed_is_left_out),
                cmocka_unit_test(test_ids_are_split_at_their_colons),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
