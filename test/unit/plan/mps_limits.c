// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/mps_limits.h"

static void share_each(struct node *node, enum provisioning provisioning)
{
        node_share(node, SHARING_MPS, 10);
        node->section.scope = SCOPE_INDIVIDUAL;
        node->section.provisioning = provisioning;
        node->section.daemon_scope = DAEMON_SCOPE_NODE;
        node->section.has_memory_reserve = true;
}

/* "NAME=value", one a line; of |gpus| by position in the plan, with so many replicas of each. */
static const char *describe(struct node *node, const unsigned int *gpus, const unsigned int *replicas, size_t n)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mps_part *parts = ARENA_ARRAY(&node->arena, struct mps_part, n);
        const char **variables;
        size_t count;

        assert_ok(node_plan(node), &node->err);
        for (size_t i = 0; i < n; i++) {
                const struct resource *resource = &node->plan->resources[gpus[i]];

                parts[i] = (struct mps_part){resource, &resource->units[0], replicas[i],
                        share_of(resource, &resource->units[0], replicas[i])};
        }
        mps_parts_sort(parts, n);
        count = mps_limits_variables(&node->arena, parts, n, 0, &variables);
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s\n", variables[i]);
        return arena_strdup(&node->arena, text.data);
}

static void test_memory_is_by_ordinal_and_threads_are_the_least(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                unsigned int gpus[2], replicas[2];
                size_t n;
                const char *expected;
        } table[] = {
                {PROVISIONING_WEIGHTED, {2}, {3}, 1,
                        "CUDA_MPS_PIPE_DIRECTORY=/mps/node/pipe\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\n"
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=7372M\n"},
                /* The container's first GPU is the one with the least index, in whatever order it was given them. */
                {PROVISIONING_WEIGHTED, {2, 0}, {5, 2}, 2,
                        "CUDA_MPS_PIPE_DIRECTORY=/mps/node/pipe\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20\n"
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4915M,1=12288M\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"},
                /* Equal limits have no ordinals, which a process may not see. */
                {PROVISIONING_WEIGHTED, {0, 1}, {5, 5}, 2,
                        "CUDA_MPS_PIPE_DIRECTORY=/mps/node/pipe\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\n"
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=12288M\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"},
                {PROVISIONING_HALF, {0, 1}, {5, 2}, 2,
                        "CUDA_MPS_PIPE_DIRECTORY=/mps/node/pipe\nCUDA_MPS_ACTIVE_THREAD_PERCENTAGE=40\n"
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=12288M,1=4915M\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);

                share_each(&node, table[i].provisioning);
                assert_string_equal(describe(&node, table[i].gpus, table[i].replicas, table[i].n), table[i].expected);
        }
}

static void test_a_gpu_of_unknown_memory_has_no_limit_and_keeps_its_ordinal(void **state UNUSED)
{
        static const unsigned int gpus[] = {0, 1}, replicas[] = {5, 5};
        _cleanup_(node_done) struct node node = node_new(3);

        share_each(&node, PROVISIONING_WEIGHTED);
        node.inventory.gpus[0].memory = 0;
        assert_non_null(strstr(describe(&node, gpus, replicas, 2), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=12288M\n"));
}

static void test_kubelet_is_to_ask_only_where_limits_depend_on_what_a_container_has_or_declares(void **state UNUSED)
{
        static const struct {
                enum provisioning provisioning;
                enum daemon_scope scope;
                unsigned int lists;
                bool asks;
        } table[] = {
                {PROVISIONING_WEIGHTED, DAEMON_SCOPE_NODE, DEVICE_LIST_CDI_CRI, true},
                {PROVISIONING_HALF, DAEMON_SCOPE_NODE, DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_ANNOTATIONS, true},
                {PROVISIONING_UNIFORM, DAEMON_SCOPE_NODE, DEVICE_LIST_CDI_CRI, false},
                {PROVISIONING_WEIGHTED, DAEMON_SCOPE_GPU, DEVICE_LIST_CDI_CRI, false},
                {PROVISIONING_WEIGHTED, DAEMON_SCOPE_RESOURCE, DEVICE_LIST_CDI_CRI, false},
                {PROVISIONING_WEIGHTED, DAEMON_SCOPE_NODE, DEVICE_LIST_ENVVAR, false},
                /* What a container declares is known when it starts. */
                {PROVISIONING_DECLARED, DAEMON_SCOPE_GPU, DEVICE_LIST_CDI_CRI, true},
                {PROVISIONING_DECLARED, DAEMON_SCOPE_RESOURCE, DEVICE_LIST_CDI_CRI, true},
                {PROVISIONING_DECLARED, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);

                share_each(&node, table[i].provisioning);
                node.section.daemon_scope = table[i].scope;
                node.config.devices.lists = table[i].lists;
                assert_ok(node_plan(&node), &node.err);
                assert_int_equal(mps_limits_at_start(node.plan, &node.plan->resources[0]), table[i].asks);
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_memory_is_by_ordinal_and_threads_are_the_least),
                cmocka_unit_test(test_a_gpu_of_unknown_memory_has_no_limit_and_keeps_its_ordinal),
                cmocka_unit_test(test_kubelet_is_to_ask_only_where_limits_depend_on_what_a_container_has_or_declares),
        };

        return cmocka_run_group_tests_name("mps_limits", tests, NULL, NULL);
}
