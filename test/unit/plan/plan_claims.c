// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "describe.h"

static const struct device_ref refs_0[] = {{.gpu = 0, .mig = -1}};
static const struct device_ref refs_1[] = {{.gpu = 1, .mig = -1}};
static const struct device_ref refs_2_0[] = {{.gpu = 2, .mig = -1}, {.gpu = 0, .mig = -1}};
static const struct device_ref refs_same[] = {{.gpu = 1, .mig = -1}, {.uuid = "GPU-1"}};
static const struct device_ref refs_uuid[] = {{.uuid = "GPU-1"}, {.uuid = "GPU-9"}, {.gpu = 8, .mig = -1}};
static const struct device_ref refs_mig[] = {{.gpu = 0, .mig = 1}, {.uuid = "MIG-0-2"}, {.uuid = "MIG-GPU-0/7/0"}};
static const struct device_ref refs_mig_uuid[] = {{.uuid = "MIG-0-2"}};
static const struct device_ref refs_for_dra[] = {{.gpu = 0, .mig = -1}, {.uuid = "GPU-1"}};
static const struct device_ref refs_no_mig[] = {{.gpu = 0, .mig = 9}, {.gpu = 0, .mig = -1}, {.uuid = "MIG-GPU-0/7/1"}};

#define SELECT_REFS(array)                                                                                             \
        {                                                                                                              \
                .kind = SELECT_LIST, .refs = (array), .n_refs = ARRAY_SIZE(array)                                      \
        }

struct entry {
        enum sharing_strategy strategy; /* NONE: the end */
        unsigned int replicas;
        struct device_selector devices;
        const char *rename;
        const char *name;
};

static void add_entries(struct node *node, const struct entry *entries)
{
        for (const struct entry *entry = entries; entry->strategy != SHARING_NONE; entry++) {
                struct shared_resource *added = node_add_entry(
                        node, entry->strategy, entry->name ? entry->name : "nvidia.com/gpu", entry->replicas);

                added->devices = entry->devices;
                added->rename = entry->rename;
        }
}

struct case_of_entries {
        struct entry entries[5];
        const char *plan; /* or the error */
        const char *warnings;
};

#define TS SHARING_TIME_SLICING
#define MPS SHARING_MPS
#define CONFIG "config '/config/config.yaml' line "

static void test_entries_share_the_units_they_select(void **state UNUSED)
{
        static const struct case_of_entries table[] = {
                {{{TS, 2}}, "nvidia.com/gpu time-slicing: GPU-0*2 GPU-1*2 GPU-2*2", ""},
                {{{MPS, 2}}, "nvidia.com/gpu mps: GPU-0*2 GPU-1*2 GPU-2*2", ""},
                {{{MPS, 1}}, "nvidia.com/gpu mps: GPU-0*1 GPU-1*1 GPU-2*1", ""},
                {{{MPS, 4, SELECT_REFS(refs_1), "nvidia.com/gpu.small"}},
                        "nvidia.com/gpu none: GPU-0 GPU-2; nvidia.com/gpu.small mps: GPU-1*4", ""},
                /* the order of a list means nothing */
                {{{TS, 4, SELECT_REFS(refs_2_0), "nvidia.com/x"}},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/x time-slicing: GPU-0*4 GPU-2*4", ""},
                {{{TS, 4, SELECT_REFS(refs_same), "nvidia.com/x"}},
                        "nvidia.com/gpu none: GPU-0 GPU-2; nvidia.com/x time-slicing: GPU-1*4", ""},
                {{{TS, 4, {SELECT_COUNT, 2}, "nvidia.com/x"}},
                        "nvidia.com/gpu none: GPU-2; nvidia.com/x time-slicing: GPU-0*4 GPU-1*4", ""},
                /* lists come first, then counts, then the rest, wherever they stand */
                {{{TS, 3, {SELECT_ALL}, "nvidia.com/rest"}, {TS, 4, {SELECT_COUNT, 1}, "nvidia.com/one"},
                         {TS, 5, SELECT_REFS(refs_0), "nvidia.com/listed"}},
                        "nvidia.com/listed time-slicing: GPU-0*5; nvidia.com/one time-slicing: GPU-1*4; "
                        "nvidia.com/rest time-slicing: GPU-2*3",
                        ""},
                {{{TS, 3, {SELECT_COUNT, 1}, "nvidia.com/b"}, {TS, 4, {SELECT_COUNT, 1}, "nvidia.com/a"}},
                        "nvidia.com/gpu none: GPU-2; nvidia.com/a time-slicing: GPU-1*4; nvidia.com/b "
                        "time-slicing: GPU-0*3",
                        ""},
                /* two sections beside each other; what is left stays whole */
                {{{TS, 10, SELECT_REFS(refs_1), "nvidia.com/gpu.shared"},
                         {MPS, 4, SELECT_REFS(refs_0), "nvidia.com/gpu.mps"}},
                        "nvidia.com/gpu none: GPU-2; nvidia.com/gpu.mps mps: GPU-0*4; nvidia.com/gpu.shared "
                        "time-slicing: GPU-1*10",
                        ""},
                /* under one name with different numbers of replicas */
                {{{MPS, 4, SELECT_REFS(refs_1)}, {MPS, 2}}, "nvidia.com/gpu mps: GPU-0*2 GPU-1*4 GPU-2*2", ""},
                {{{MPS, 4, SELECT_REFS(refs_1), "nvidia.com/x"}, {MPS, 2, {SELECT_COUNT, 1}, "nvidia.com/x"}},
                        "nvidia.com/gpu none: GPU-2; nvidia.com/x mps: GPU-0*2 GPU-1*4", ""},
                /* whole and shared under one name */
                {{{MPS, 4, SELECT_REFS(refs_1)}}, "nvidia.com/gpu mps: GPU-0 GPU-1*4 GPU-2",
                        CONFIG "10: sharing.mps.resources[0]: 'nvidia.com/gpu' mixes shared and whole units (1 and 2), "
                               "and pods cannot say which they want: give the shared ones a name of their own with "
                               "rename\n"},
                /* other nodes have other units */
                {{{TS, 4, SELECT_REFS(refs_uuid), "nvidia.com/x"}},
                        "nvidia.com/gpu none: GPU-0 GPU-2; nvidia.com/x time-slicing: GPU-1*4",
                        CONFIG "10: sharing.timeSlicing.resources[0].devices: 2 of 3 mean no unit of nvidia.com/gpu on "
                               "this node; the first is 'GPU-9'\n"},
                {{{TS, 4, {SELECT_COUNT, 5}}}, "nvidia.com/gpu time-slicing: GPU-0*4 GPU-1*4 GPU-2*4",
                        CONFIG "10: sharing.timeSlicing.resources[0].devices: 5, but this node has only 3 of "
                               "nvidia.com/gpu left for it\n"},
                {{{TS, 4, SELECT_REFS(refs_mig), NULL, "nvidia.com/mig-1g.5gb"}},
                        "nvidia.com/gpu none: GPU-0 GPU-1 GPU-2",
                        CONFIG "10: sharing.timeSlicing.resources[0]: shares nothing here: this node has no "
                               "'nvidia.com/mig-1g.5gb', only nvidia.com/gpu; MIG devices have such names with "
                               "migStrategy: mixed, and it is none\n"},
                /* an entry is for a name before renaming */
                {{{TS, 4, SELECT_REFS(refs_1), "nvidia.com/x"}, {TS, 2, {SELECT_ALL}, NULL, "nvidia.com/x"}},
                        "nvidia.com/gpu none: GPU-0 GPU-2; nvidia.com/x time-slicing: GPU-1*4",
                        CONFIG "11: sharing.timeSlicing.resources[1]: shares nothing: no GPU and no MIG device has the "
                               "name 'nvidia.com/x'; this node has nvidia.com/gpu\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);

                add_entries(&node, table[i].entries);
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), table[i].plan);
                assert_string_equal(node.warnings.data, table[i].warnings);
        }
}

static void test_entries_that_exclude_each_other_are_both_named(void **state UNUSED)
{
        static const struct case_of_entries table[] = {
                {{{MPS, 4, SELECT_REFS(refs_2_0), "nvidia.com/x"}, {TS, 2, SELECT_REFS(refs_0)}},
                        CONFIG "11: sharing.timeSlicing.resources[0].devices: GPU 0 (GPU-0) is shared already by "
                               "sharing.mps.resources[0] (line 10): let only one of them name it"},
                {{{TS, 2, SELECT_REFS(refs_same)}, {TS, 4, SELECT_REFS(refs_1)}},
                        CONFIG "11: sharing.timeSlicing.resources[1].devices: GPU 1 (GPU-1) is shared already by "
                               "sharing.timeSlicing.resources[0] (line 10): let only one of them name it"},
                {{{MPS, 2, {SELECT_ALL}, "nvidia.com/x"}, {MPS, 2}},
                        CONFIG "11: sharing.mps.resources[1].devices: GPU 0 (GPU-0) is shared already by "
                               "sharing.mps.resources[0] (line 10): let only one of them name it"},
                {{{MPS, 4, SELECT_REFS(refs_1)}, {TS, 2, SELECT_REFS(refs_0)}}, CONFIG
                        "10: sharing.mps.resources[0]: its strategy differs from the one of "
                        "sharing.timeSlicing.resources[0] (line 11), and both are named 'nvidia.com/gpu': give one "
                        "of them a rename of its own"},
                {{{MPS, 4, SELECT_REFS(refs_2_0), "nvidia.com/x"}, {TS, 2, {SELECT_COUNT, 1}, "nvidia.com/x"}}, CONFIG
                        "11: sharing.timeSlicing.resources[0]: its strategy differs from the one of "
                        "sharing.mps.resources[0] (line 10), and both are named 'nvidia.com/x': give one of them a "
                        "rename of its own"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);

                add_entries(&node, table[i].entries);
                assert_fails(node_plan(&node), &node.err, ERROR_INVALID, table[i].plan);
                assert_null(node.plan);
        }
}

static void test_mig_devices_are_selected_by_index_and_uuid(void **state UNUSED)
{
        static const struct case_of_entries table[] = {
                {{{TS, 2, {SELECT_ALL}, NULL, "nvidia.com/mig-1g.5gb"}},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/mig-1g.5gb time-slicing: MIG-0-0*2 MIG-0-1*2 "
                        "MIG-0-2*2; nvidia.com/mig-3g.20gb none: MIG-0-3",
                        ""},
                {{{TS, 2, SELECT_REFS(refs_mig), "nvidia.com/x", "nvidia.com/mig-1g.5gb"}},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/mig-3g.20gb none: MIG-0-3; nvidia.com/x "
                        "time-slicing: MIG-0-0*2 MIG-0-1*2 MIG-0-2*2",
                        ""},
                {{{TS, 2, {SELECT_COUNT, 1}, "nvidia.com/x", "nvidia.com/mig-1g.5gb"}, {MPS, 3}},
                        "nvidia.com/gpu mps: GPU-1*3; nvidia.com/mig-1g.5gb none: MIG-0-1 MIG-0-2; "
                        "nvidia.com/mig-3g.20gb none: MIG-0-3; nvidia.com/x time-slicing: MIG-0-0*2",
                        ""},
                /* whole GPUs and MIG devices under one name */
                {{{MPS, 3, {SELECT_ALL}, "nvidia.com/x"},
                         {MPS, 2, {SELECT_ALL}, "nvidia.com/x", "nvidia.com/mig-3g.20gb"}},
                        "nvidia.com/mig-1g.5gb none: MIG-0-0 MIG-0-1 MIG-0-2; nvidia.com/x mps: MIG-0-3*2 "
                        "GPU-1*3",
                        ""},
                /* MPS is as good on a MIG device */
                {{{MPS, 6, {SELECT_ALL}, "nvidia.com/mig-1g.5gb.shared", "nvidia.com/mig-1g.5gb"}},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/mig-1g.5gb.shared mps: MIG-0-0*6 MIG-0-1*6 "
                        "MIG-0-2*6; nvidia.com/mig-3g.20gb none: MIG-0-3",
                        ""},
                {{{MPS, 2, SELECT_REFS(refs_no_mig), NULL, "nvidia.com/mig-1g.5gb"}},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/mig-1g.5gb none: MIG-0-0 MIG-0-1 MIG-0-2; "
                        "nvidia.com/mig-3g.20gb none: MIG-0-3",
                        CONFIG "10: sharing.mps.resources[0].devices: 3 of 3 mean no unit of nvidia.com/mig-1g.5gb on "
                               "this node; the first is '0:9'\n"},
                {{{MPS, 2, SELECT_REFS(refs_mig)}},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/mig-1g.5gb none: MIG-0-0 MIG-0-1 MIG-0-2; "
                        "nvidia.com/mig-3g.20gb none: MIG-0-3",
                        CONFIG "10: sharing.mps.resources[0].devices: 3 of 3 mean no unit of nvidia.com/gpu on this "
                               "node; the first is '0:1'\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(2);

                node.config.mig_strategy = MIG_STRATEGY_MIXED;
                node_add_mig(&node, 0, "1g.5gb");
                node_add_mig(&node, 0, "1g.5gb");
                node_add_mig(&node, 0, "1g.5gb");
                node_add_mig(&node, 0, "3g.20gb");
                add_entries(&node, table[i].entries);
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), table[i].plan);
                assert_string_equal(node.warnings.data, table[i].warnings);
        }
}

#define NOWHERE(name)                                                                                                  \
        "sharing.timeSlicing.resources[0]: shares nothing: no GPU and no MIG device has the name '" name "'"
#define NOT_HERE(name)                                                                                                 \
        "sharing.timeSlicing.resources[0]: shares nothing here: this node has no '" name                               \
        "', only nvidia.com/gpu, nvidia.com/mig-1g.5gb, nvidia.com/mig-3g.20gb"

/* A name with a slip is told from one that another node has, and the nearest of this node's names is offered. */
static void test_a_name_that_shares_nothing_is_named_with_what_the_node_has(void **state UNUSED)
{
        static const struct {
                const char *name;
                const char *expected; /* "": no warning */
        } table[] = {
                {"nvidia.com/gpu", ""},
                {"nvidia.com/mig-3g.20gb", ""},
                {"nvidia.com/gqu", NOWHERE("nvidia.com/gqu") ", did you mean 'nvidia.com/gpu'?; this node has"},
                {"nvidia.com/gpus", NOWHERE("nvidia.com/gpus") ", did you mean 'nvidia.com/gpu'?; this node has"},
                {"nvidia.com/mig-3g.20g", NOWHERE("nvidia.com/mig-3g.20g") ", did you mean 'nvidia.com/mig-3g.20gb'?"},
                {"nvidia.com/mig-123g.5gb", NOWHERE("nvidia.com/mig-123g.5gb")},
                {"nvidia.com/mig-1g.5gbs", NOWHERE("nvidia.com/mig-1g.5gbs")},
                {"nvidia.com/something.else", NOWHERE("nvidia.com/something.else") "; this node has nvidia.com/gpu, "},
                {"nvidia.com/mig-2g.10gb",
                        NOT_HERE("nvidia.com/mig-2g.10gb") ", did you mean 'nvidia.com/mig-3g.20gb'?\n"},
                {"nvidia.com/mig-1g.5gb.me", NOT_HERE("nvidia.com/mig-1g.5gb.me")},
                {"nvidia.com/mig-1g.24gb-me", NOT_HERE("nvidia.com/mig-1g.24gb-me")},
                {"nvidia.com/big", NOT_HERE("nvidia.com/big")}, /* a pattern's, for GPUs that this node does not have */
                {"nvidia.com/mig-1g.5gb.shared",
                        "'nvidia.com/mig-1g.5gb.shared' is the name that renameByDefault gives"},
        };
        static const struct resource_pattern big = {.pattern = "*H200*", .name = "nvidia.com/big"};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct entry entries[] = {{.strategy = TS, .replicas = 2, .name = table[i].name}, {0}};
                _cleanup_(node_done) struct node node = node_new(2);

                node.config.mig_strategy = MIG_STRATEGY_MIXED;
                node.config.patterns = (struct config_patterns){.gpu = &big, .n_gpu = 1};
                node_add_mig(&node, 1, "1g.5gb");
                node_add_mig(&node, 1, "3g.20gb");
                add_entries(&node, entries);
                assert_ok(node_plan(&node), &node.err);
                if (!strstr(node.warnings.data, table[i].expected) || !*table[i].expected != !node.warnings.size)
                        fail_msg("%s: %s", table[i].name, node.warnings.data);
        }
}

/* The nodes of a cluster share a file, so it may list all that any of them has: that is one line, not twenty. */
static void test_names_of_other_nodes_are_one_warning(void **state UNUSED)
{
        static const struct entry entries[] = {{.strategy = TS, .replicas = 2, .name = "nvidia.com/mig-1g.5gb"},
                {TS, 2, {SELECT_ALL}, NULL, "nvidia.com/mig-2g.10gb"}, {TS, 2, {SELECT_ALL}, NULL, "nvidia.com/gpu"},
                {MPS, 2, {SELECT_ALL}, NULL, "nvidia.com/mig-3g.20gb"}, {0}};
        _cleanup_(node_done) struct node node = node_new(1);

        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        add_entries(&node, entries);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(node.warnings.data, CONFIG
                "13: sharing.mps.resources[0]: shares nothing here: this node has no 'nvidia.com/mig-3g.20gb', and no "
                "'nvidia.com/mig-1g.5gb', and no 'nvidia.com/mig-2g.10gb', only nvidia.com/gpu\n");
}

/* As in a check of a file, which is made on no node. */
static void test_without_a_node_only_names_that_no_node_has_are_warned_about(void **state UNUSED)
{
        static const struct entry entries[] = {{.strategy = TS, .replicas = 2, .name = "nvidia.com/mig-1g.5gb"},
                {TS, 2, {SELECT_ALL}, NULL, "nvidia.com/gqu"}, {0}};
        _cleanup_(node_done) struct node node = node_new(0);

        add_entries(&node, entries);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(node.warnings.data, CONFIG
                "11: sharing.timeSlicing.resources[1]: shares nothing: no GPU and no MIG device has the name "
                "'nvidia.com/gqu', did you mean 'nvidia.com/gpu'?; GPUs are nvidia.com/gpu, MIG devices "
                "nvidia.com/mig-1g.10gb and the like with migStrategy: mixed, unless patterns below resources name "
                "them\n");
}

static void test_mig_devices_called_gpus_are_selected_too(void **state UNUSED)
{
        static const struct entry entries[] = {
                {TS, 2, SELECT_REFS(refs_mig), "nvidia.com/x"}, {MPS, 3, {SELECT_COUNT, 2}, "nvidia.com/y"}, {0}};
        _cleanup_(node_done) struct node node = node_new(1);

        node.config.mig_strategy = MIG_STRATEGY_SINGLE;
        for (unsigned int i = 0; i < 6; i++)
                node_add_mig(&node, 0, "1g.5gb");
        add_entries(&node, entries);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node),
                "nvidia.com/gpu none: MIG-0-5; nvidia.com/x time-slicing: MIG-0-0*2 MIG-0-1*2 MIG-0-2*2; nvidia.com/y mps: "
                "MIG-0-3*3 MIG-0-4*3");
        assert_string_equal(node.warnings.data, "");
}

static void change_provisioning(struct node *node)
{
        node->sections[MPS]->provisioning = PROVISIONING_HALF;
}

static void change_limit(struct node *node)
{
        node->sections[TS]->fail_requests_greater_than_one = true;
}

static void change_placement(struct node *node)
{
        struct shared_resource *entry = (struct shared_resource *)(uintptr_t)node->sections[TS]->resources;

        entry->has_placement = true;
        entry->placement = PLACEMENT_PACKED;
}

/*
 * To differ in what their sections say, entries would have to be of two strategies: so both sections pretend to be one.
 */
static void test_entries_under_one_name_must_agree(void **state UNUSED)
{
        static const struct {
                void (*change)(struct node *node);
                const char *difference;
        } table[] = {
                {change_provisioning, "provisioning"},
                {change_limit, "failRequestsGreaterThanOne"},
                {change_placement, "placement"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                static const struct entry entries[] = {{MPS, 4, SELECT_REFS(refs_0), "nvidia.com/x"},
                        {TS, 2, SELECT_REFS(refs_1), "nvidia.com/x"}, {0}};
                _cleanup_(node_done) struct node node = node_new(2);
                const char *text = arena_printf(&node.arena,
                        CONFIG
                        "11: sharing.timeSlicing.resources[0]: its %s differs from the one of "
                        "sharing.mps.resources[0] (line 10), and both are named 'nvidia.com/x': give one of them a "
                        "rename of its own",
                        table[i].difference);

                add_entries(&node, entries);
                node.sections[TS]->strategy = SHARING_MPS;
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), "nvidia.com/x mps: GPU-0*4 GPU-1*2");
                plan_done(node.plan);
                node.plan = NULL;
                table[i].change(&node);
                assert_fails(node_plan(&node), &node.err, ERROR_INVALID, text);
        }
}

static void test_an_entry_of_its_own_placement_may_agree_with_the_default(void **state UNUSED)
{
        static const struct entry entries[] = {
                {TS, 4, SELECT_REFS(refs_0), "nvidia.com/x"}, {TS, 2, SELECT_REFS(refs_1), "nvidia.com/x"}, {0}};
        _cleanup_(node_done) struct node node = node_new(2);

        add_entries(&node, entries);
        node.config.placement = PLACEMENT_PACKED;
        change_placement(&node);
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->resources[0].placement, PLACEMENT_PACKED);
}

#define FOR_DRA(text, gpu)                                                                                             \
        CONFIG "10: sharing.mps.resources[0].devices: '" text "': GPU " gpu " (GPU-" gpu                               \
               ") belongs to DRA: remove it here, or list only other GPUs in dra.devices"

static void test_what_belongs_to_dra_cannot_be_listed(void **state UNUSED)
{
        static const struct case_of_entries table[] = {
                {{{MPS, 2, SELECT_REFS(refs_1)}}, FOR_DRA("1", "1"), ""},
                {{{MPS, 2, SELECT_REFS(refs_uuid)}}, FOR_DRA("GPU-1", "1"), ""},
                {{{MPS, 2, SELECT_REFS(refs_mig)}}, FOR_DRA("0:1", "0"), ""},
                {{{MPS, 2, SELECT_REFS(refs_mig_uuid)}}, FOR_DRA("MIG-0-2", "0"), ""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);

                for (size_t mig = 0; mig < 3; mig++)
                        node_add_mig(&node, 0, "1g.5gb");
                node.config.mig_strategy = MIG_STRATEGY_MIXED;
                node.config.dra = (struct config_dra){.enabled = true, .devices = SELECT_REFS(refs_for_dra)};
                add_entries(&node, table[i].entries);
                assert_fails(node_plan(&node), &node.err, ERROR_INVALID, table[i].plan);
        }
}

static void test_the_rest_of_the_gpus_is_shared_beside_dra(void **state UNUSED)
{
        static const struct entry entries[] = {{TS, 4}, {0}};
        _cleanup_(node_done) struct node node = node_new(3);

        node.config.dra = (struct config_dra){.enabled = true, .devices = SELECT_REFS(refs_for_dra)};
        add_entries(&node, entries);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/gpu time-slicing: GPU-2*4");
        assert_string_equal(node.warnings.data, "");
        plan_done(node.plan);
        node.plan = NULL;
        node.config.dra.devices = (struct device_selector){.kind = SELECT_ALL};
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "");
        assert_string_equal(node.warnings.data, CONFIG
                "10: sharing.timeSlicing.resources[0]: shares nothing, since all GPUs of this node belong to DRA: "
                "dra.devices\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_entries_share_the_units_they_select),
                cmocka_unit_test(test_entries_that_exclude_each_other_are_both_named),
                cmocka_unit_test(test_mig_devices_are_selected_by_index_and_uuid),
                cmocka_unit_test(test_a_name_that_shares_nothing_is_named_with_what_the_node_has),
                cmocka_unit_test(test_names_of_other_nodes_are_one_warning),
                cmocka_unit_test(test_without_a_node_only_names_that_no_node_has_are_warned_about),
                cmocka_unit_test(test_mig_devices_called_gpus_are_selected_too),
                cmocka_unit_test(test_entries_under_one_name_must_agree),
                cmocka_unit_test(test_what_belongs_to_dra_cannot_be_listed),
                cmocka_unit_test(test_the_rest_of_the_gpus_is_shared_beside_dra),
                cmocka_unit_test(test_an_entry_of_its_own_placement_may_agree_with_the_default),
        };

        return cmocka_run_group_tests_name("plan_claims", tests, NULL, NULL);
}
