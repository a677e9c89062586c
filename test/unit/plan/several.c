// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/several.h"

#define CDI                                                                                                                   \
        "set deviceListStrategy: cdi-cri; the container runtime has to know CDI: CRI-O, containerd from 2.0 on, or 1.7 with " \
        "enable_cdi = true"
#define SEES                                                                                                           \
        "it has devices of nvidia.com/gpu0 and nvidia.com/gpu1 but sees only those of one of them: an environment "    \
        "variable names them, and kubelet passes on only one value of it: " CDI ", or use volume-mounts"
#define DAEMONS                                                                                                        \
        "it has devices of nvidia.com/gpu0 and nvidia.com/gpu1, but a program that uses CUDA there sees only the "     \
        "devices of one MPS control daemon, and no daemon serves all of them: "
#define LIMITS                                                                                                         \
        "it has shares of nvidia.com/gpu0 and nvidia.com/gpu1 but the limits of only one of them: environment "        \
        "variables carry the limits, and kubelet passes on only one value of each: " CDI

static void share_each(struct node *node, enum sharing_strategy strategy, unsigned int lists)
{
        node->config.devices.lists = lists;
        node_share(node, strategy, 4);
        node->section.scope = SCOPE_INDIVIDUAL;
        node->section.provisioning = PROVISIONING_WEIGHTED;
}

/* Of a container that has each of |names|; "": nothing. */
static const char *fault(struct node *node, const char *const *names, size_t n)
{
        static const char *const device = "x";
        struct checkpoint_entry *entries = ARENA_ARRAY(&node->arena, struct checkpoint_entry, n);
        struct checkpoint record = {.entries = entries, .n_entries = n};
        struct several_fault *faults;

        assert_ok(node_plan(node), &node->err);
        for (size_t i = 0; i < n; i++)
                entries[i] = (struct checkpoint_entry){
                        .pod_uid = "p", .container = "c", .resource = names[i], .devices = &device, .n_devices = 1};
        if (several_faults(&faults, &node->arena, node->plan, &record) == 0)
                return "";
        assert_ptr_equal(faults[0].entry, &entries[0]);
        return faults[0].text;
}

static const char *const pair[] = {"nvidia.com/gpu0", "nvidia.com/gpu1"};

static void test_what_a_container_of_two_resources_does_not_get_is_said(void **state UNUSED)
{
        static const struct {
                enum sharing_strategy strategy;
                unsigned int lists;
                enum daemon_scope scope;
                enum provisioning provisioning;
                const char *fault;
        } table[] = {
                {SHARING_TIME_SLICING, DEVICE_LIST_ENVVAR, 0, 0, SEES},
                {SHARING_TIME_SLICING, DEVICE_LIST_CDI_CRI, 0, 0, ""},
                {SHARING_TIME_SLICING, DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_ANNOTATIONS, 0, 0, ""},
                {SHARING_TIME_SLICING, DEVICE_LIST_VOLUME_MOUNTS, 0, 0, ""},
                {SHARING_MPS, DEVICE_LIST_ENVVAR, DAEMON_SCOPE_NODE, PROVISIONING_UNIFORM, SEES},
                {SHARING_MPS, DEVICE_LIST_CDI_CRI, DAEMON_SCOPE_GPU, PROVISIONING_UNIFORM,
                        DAEMONS "set sharing.mps.daemonScope: node"},
                {SHARING_MPS, DEVICE_LIST_CDI_CRI, DAEMON_SCOPE_RESOURCE, PROVISIONING_UNIFORM,
                        DAEMONS "set sharing.mps.daemonScope: node"},
                {SHARING_MPS, DEVICE_LIST_CDI_CRI, DAEMON_SCOPE_NODE, PROVISIONING_UNIFORM, ""},
                {SHARING_MPS, DEVICE_LIST_CDI_CRI, DAEMON_SCOPE_NODE, PROVISIONING_WEIGHTED, ""},
                {SHARING_MPS, DEVICE_LIST_VOLUME_MOUNTS, DAEMON_SCOPE_NODE, PROVISIONING_UNIFORM, ""},
                {SHARING_MPS, DEVICE_LIST_VOLUME_MOUNTS, DAEMON_SCOPE_NODE, PROVISIONING_WEIGHTED, LIMITS},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);

                share_each(&node, table[i].strategy, table[i].lists);
                node.section.daemon_scope = table[i].scope;
                node.section.provisioning = table[i].provisioning;
                assert_string_equal(fault(&node, pair, 2), table[i].fault);
                plan_done(node.plan);
                assert_string_equal(fault(&node, pair, 1), "");
        }
}

static void test_a_resource_that_is_not_ours_counts_for_nothing(void **state UNUSED)
{
        static const char *const names[] = {"nvidia.com/gpu0", "example.com/nic"};
        _cleanup_(node_done) struct node node = node_new(3);

        share_each(&node, SHARING_TIME_SLICING, DEVICE_LIST_ENVVAR);
        assert_string_equal(fault(&node, names, 2), "");
}

static void test_two_mig_devices_have_a_daemon_each(void **state UNUSED)
{
        static const char *const names[] = {"nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"};
        _cleanup_(node_done) struct node node = node_new(1);

        node.config.devices.lists = DEVICE_LIST_CDI_CRI;
        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        node_add_mig(&node, 0, "1g.5gb")->uuid = "MIG-1";
        node_add_mig(&node, 0, "3g.20gb")->uuid = "MIG-2";
        for (size_t i = 0; i < 2; i++)
                node_add_entry(&node, SHARING_MPS, names[i], 2);
        node.sections[SHARING_MPS]->daemon_scope = DAEMON_SCOPE_NODE;
        assert_string_equal(fault(&node, names, 2),
                "it has devices of nvidia.com/mig-1g.5gb and nvidia.com/mig-3g.20gb, but a program that uses CUDA "
                "there sees only the devices of one MPS control daemon, and no daemon serves all of them: MPS has a "
                "daemon for each MIG device; ask for one in a container");
}

static void test_a_whole_gpu_beside_a_share_is_not_seen_through_mps(void **state UNUSED)
{
        static const char *const names[] = {"nvidia.com/gpu", "nvidia.com/gpu.small"};
        static const struct device_ref ref = {.gpu = 1, .mig = -1};
        _cleanup_(node_done) struct node node = node_new(2);
        struct shared_resource *entry = node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", 4);

        entry->devices = (struct device_selector){SELECT_LIST, .refs = &ref, .n_refs = 1};
        entry->rename = "nvidia.com/gpu.small";
        node.config.devices.lists = DEVICE_LIST_CDI_CRI;
        node.sections[SHARING_MPS]->daemon_scope = DAEMON_SCOPE_NODE;
        assert_non_null(
                strstr(fault(&node, names, 2), "share all of them by MPS, or none that one container asks for"));
}

static void test_each_container_is_judged_by_itself(void **state UNUSED)
{
        static const char *const device = "x";
        const struct checkpoint_entry entries[] = {
                {.pod_uid = "p", .container = "a", .resource = pair[0], .devices = &device, .n_devices = 1},
                {.pod_uid = "p", .container = "b", .resource = pair[1], .devices = &device, .n_devices = 1},
                {.pod_uid = "q", .container = "a", .resource = pair[1], .devices = &device, .n_devices = 1},
                {.pod_uid = "q", .container = "a", .resource = pair[0], .devices = &device, .n_devices = 1},
        };
        const struct checkpoint record = {.entries = entries, .n_entries = ARRAY_SIZE(entries)};
        _cleanup_(node_done) struct node node = node_new(3);
        struct several_fault *faults;

        share_each(&node, SHARING_TIME_SLICING, DEVICE_LIST_ENVVAR);
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(several_faults(&faults, &node.arena, node.plan, &record), 1);
        assert_ptr_equal(faults[0].entry, &entries[2]);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_a_container_of_two_resources_does_not_get_is_said),
                cmocka_unit_test(test_a_resource_that_is_not_ours_counts_for_nothing),
                cmocka_unit_test(test_two_mig_devices_have_a_daemon_each),
                cmocka_unit_test(test_a_whole_gpu_beside_a_share_is_not_seen_through_mps),
                cmocka_unit_test(test_each_container_is_judged_by_itself),
        };

        return cmocka_run_group_tests_name("several", tests, NULL, NULL);
}
