// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "describe.h"

/*
 * What a node is made of: a MIG-enabled GPU for each text, its MIG devices by profile; "" has none, "-" is not
 * MIG-enabled.
 */
struct node_case {
        enum mig_strategy strategy;
        const char *gpus[4];
        const char *plan; /* or the error */
        const char *warnings;
};

#define NONE MIG_STRATEGY_NONE
#define SINGLE MIG_STRATEGY_SINGLE
#define MIXED MIG_STRATEGY_MIXED

static struct node make_node(const struct node_case *made)
{
        size_t n_gpus = 0;
        struct node node;

        while (n_gpus < ARRAY_SIZE(made->gpus) && made->gpus[n_gpus])
                n_gpus++;
        node = node_new(n_gpus);
        node.config.mig_strategy = made->strategy;
        for (size_t i = 0; i < n_gpus; i++) {
                char *profiles = arena_strdup(&node.arena, made->gpus[i]);
                char *rest = NULL;

                if (strcmp(profiles, "-") == 0)
                        continue;
                node.inventory.gpus[i].mig_enabled = true;
                for (char *one = strtok_r(profiles, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
                        node_add_mig(&node, i, strcmp(one, "?") == 0 ? NULL : one);
        }
        return node;
}

#define EMPTY_1                                                                                                        \
        "GPU 1 (GPU-1) is in MIG mode but has no MIG devices, so it is not advertised: create some, or disable MIG\n"
#define A_PATTERN "; a pattern in resources.mig can give it a name\n"

static void test_units_follow_the_mig_strategy(void **state UNUSED)
{
        static const struct node_case table[] = {
                {NONE, {"-", "-"}, "nvidia.com/gpu none: GPU-0 GPU-1", ""},
                {NONE, {"1g.5gb 1g.5gb", ""}, "nvidia.com/gpu none: GPU-0 GPU-1", ""},
                {SINGLE, {"-", "-"}, "nvidia.com/gpu none: GPU-0 GPU-1", ""},
                {SINGLE, {"1g.5gb 1g.5gb", "1g.5gb"}, "nvidia.com/gpu none: MIG-0-0 MIG-0-1 MIG-1-0", ""},
                {SINGLE, {"1c.3g.20gb 1c.3g.20gb"}, "nvidia.com/gpu none: MIG-0-0 MIG-0-1", ""},
                {SINGLE, {"? ?"}, "nvidia.com/gpu none: MIG-0-0 MIG-0-1", ""},
                {SINGLE, {"1g.5gb", ""}, "nvidia.com/gpu none: MIG-0-0", EMPTY_1},
                {SINGLE, {"-", ""}, "nvidia.com/gpu none: GPU-0", EMPTY_1},
                {MIXED, {"-", "-"}, "nvidia.com/gpu none: GPU-0 GPU-1", ""},
                {MIXED, {"-", ""}, "nvidia.com/gpu none: GPU-0", EMPTY_1},
                /* NVIDIA's A100 with three small and one large */
                {MIXED, {"1g.5gb 1g.5gb 3g.20gb 1g.5gb"},
                        "nvidia.com/mig-1g.5gb none: MIG-0-0 MIG-0-1 MIG-0-3; nvidia.com/mig-3g.20gb none: MIG-0-2",
                        ""},
                {MIXED, {"2g.10gb", "-", "2g.10gb", "-"},
                        "nvidia.com/gpu none: GPU-1 GPU-3; nvidia.com/mig-2g.10gb none: MIG-0-0 MIG-2-0", ""},
                {MIXED, {"1g.10gb+me", "1g.10gb+me.all", "1g.24gb+gfx", "1g.24gb-me"},
                        "nvidia.com/mig-1g.10gb.me none: MIG-0-0; nvidia.com/mig-1g.10gb.me.all none: MIG-1-0; "
                        "nvidia.com/mig-1g.24gb-me none: MIG-3-0; nvidia.com/mig-1g.24gb.gfx none: MIG-2-0",
                        ""},
                {MIXED, {"1c.3g.20gb 3g.20gb"}, "nvidia.com/mig-3g.20gb none: MIG-0-1",
                        "MIG device 0:0 (MIG-0-0) of profile '1c.3g.20gb' is left out: it does not have all compute slices of "
                        "its GPU instance" A_PATTERN},
                {MIXED, {"? 1g.5gb"}, "nvidia.com/mig-1g.5gb none: MIG-0-1",
                        "MIG device 0:0 (MIG-0-0) is left out: its profile is unknown; run the agent privileged if NVML refuses "
                        "it the permission" A_PATTERN},
                {MIXED, {"1G.5gb 1g.5gb"}, "nvidia.com/mig-1g.5gb none: MIG-0-1",
                        "MIG device 0:0 (MIG-0-0) of profile '1G.5gb' is left out: 'nvidia.com/mig-1G.5gb' is not a "
                        "resource name: use lower-case letters, digits, '-' and '.', a letter or digit first and "
                        "last" A_PATTERN},
                {MIXED, {"1c.3g.20gb"}, "",
                        "MIG device 0:0 (MIG-0-0) of profile '1c.3g.20gb' is left out: it does not have all compute slices of "
                        "its GPU instance" A_PATTERN},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = make_node(&table[i]);

                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), table[i].plan);
                assert_string_equal(node.warnings.data, table[i].warnings);
        }
}

static const struct device_ref refs_1[] = {{.gpu = 1, .mig = -1}};
static const struct device_ref refs_uuid[] = {{.uuid = "GPU-0"}, {.uuid = "GPU-9", .line = 7}, {.gpu = 8, .mig = -1}};

static void test_gpus_for_dra_and_their_mig_devices_are_no_units(void **state UNUSED)
{
        static const struct {
                struct node_case made;
                struct device_selector devices;
        } table[] = {
                {{NONE, {"-", "-"}, "", ""}, {.kind = SELECT_ALL}},
                {{NONE, {"-", "-", "-"}, "nvidia.com/gpu none: GPU-0 GPU-2", ""},
                        {.kind = SELECT_LIST, .refs = refs_1, .n_refs = 1}},
                {{MIXED, {"1g.5gb", "1g.5gb", "-"}, "nvidia.com/gpu none: GPU-2; nvidia.com/mig-1g.5gb none: MIG-0-0",
                         ""},
                        {.kind = SELECT_LIST, .refs = refs_1, .n_refs = 1}},
                {{SINGLE, {"1g.5gb", "-"}, "nvidia.com/gpu none: MIG-0-0", ""},
                        {.kind = SELECT_LIST, .refs = refs_1, .n_refs = 1}},
                {{NONE, {"-", "-"}, "nvidia.com/gpu none: GPU-1",
                         "config '/config/config.yaml' line 7: dra.devices: 'GPU-9' means no GPU of this node\n"},
                        {.kind = SELECT_LIST, .refs = refs_uuid, .n_refs = 3}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = make_node(&table[i].made);

                node.config.dra = (struct config_dra){.enabled = true, .devices = table[i].devices};
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), table[i].made.plan);
                assert_string_equal(node.warnings.data, table[i].made.warnings);
        }
}

/* While the MIG geometry changes. */
static void test_what_is_withdrawn_is_no_unit_and_the_rest_is(void **state UNUSED)
{
        static const struct node_case table[] = {
                {NONE, {"1g.5gb 1g.5gb", "-"}, "nvidia.com/gpu none: GPU-1", ""},
                {MIXED, {"-", "-"}, "nvidia.com/gpu none: GPU-1", ""},
                {MIXED, {"1g.5gb 1g.5gb 2g.10gb", "-"},
                        "nvidia.com/gpu none: GPU-1; nvidia.com/mig-1g.5gb none: MIG-0-0", ""},
                {MIXED, {"", "-"}, "nvidia.com/gpu none: GPU-1", ""}, /* it has none at this moment */
                {SINGLE, {"1g.5gb 2g.10gb", "1g.5gb"}, "nvidia.com/gpu none: MIG-0-0 MIG-1-0", ""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = make_node(&table[i]);
                struct gpu *gpu = &node.inventory.gpus[0];
                struct mig_device *devices = ARENA_ARRAY(&node.arena, struct mig_device, gpu->n_mig_devices + 1);

                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        devices[j] = gpu->mig_devices[j];
                        devices[j].is_withdrawn = j > 0;
                }
                gpu->mig_devices = devices;
                gpu->is_withdrawn = true;
                assert_ok(node_plan(&node), &node.err);
                assert_string_equal(describe(&node), table[i].plan);
                assert_string_equal(node.warnings.data, table[i].warnings);
        }
}

static void test_dra_that_is_off_or_cannot_be_takes_no_gpu(void **state UNUSED)
{
        _cleanup_(node_done) struct node off = node_new(1);
        _cleanup_(node_done) struct node tegra = node_new(1);

        assert_ok(node_plan(&off), &off.err);
        assert_string_equal(describe(&off), "nvidia.com/gpu none: GPU-0");
        tegra.config.dra.enabled = true;
        tegra.inventory.platform = PLATFORM_TEGRA;
        assert_ok(node_plan(&tegra), &tegra.err);
        assert_string_equal(describe(&tegra), "nvidia.com/gpu none: GPU-0");
}

static void test_single_refuses_devices_that_pods_could_not_tell_apart(void **state UNUSED)
{
        static const struct node_case table[] = {
                {SINGLE, {"1g.5gb", "-"},
                        "migStrategy single: GPU 1 (GPU-1) is not in MIG mode, but there is MIG device 0:0 (MIG-0-0): "
                        "enable MIG on all GPUs or on none, or use migStrategy mixed"},
                {SINGLE, {"-", "1g.5gb"},
                        "migStrategy single: GPU 0 (GPU-0) is not in MIG mode, but there is MIG device 1:0 (MIG-1-0): "
                        "enable MIG on all GPUs or on none, or use migStrategy mixed"},
                {SINGLE, {"1g.5gb", "1g.5gb 2g.10gb"},
                        "migStrategy single: all MIG devices must be alike, but MIG device 0:0 (MIG-0-0) and MIG device "
                        "1:1 (MIG-1-1) differ in GPU slices (1 and 2): create equal ones, or use migStrategy mixed"},
                {SINGLE, {"1c.3g.20gb 3g.20gb"},
                        "migStrategy single: all MIG devices must be alike, but MIG device 0:0 (MIG-0-0) and MIG device "
                        "0:1 (MIG-0-1) differ in compute slices (1 and 3): create equal ones, or use migStrategy mixed"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = make_node(&table[i]);

                assert_fails(node_plan(&node), &node.err, ERROR_INVALID, table[i].plan);
        }
}

static void test_single_compares_every_attribute(void **state UNUSED)
{
        static const struct node_case made = {SINGLE, {"1g.5gb 1g.5gb"}};

        for (size_t i = 0; i < 9; i++) {
                _cleanup_(node_done) struct node node = make_node(&made);
                /* The device is in the node's arena; it is const for everybody else. */
                struct mig_attributes *attributes =
                        (struct mig_attributes *)(uintptr_t)&node.inventory.gpus[0].mig_devices[1].attributes;

                assert_ok(node_plan(&node), &node.err);
                plan_done(node.plan);
                node.plan = NULL;
                switch (i) {
                case 0:
                        attributes->gpu_slices++;
                        break;
                case 1:
                        attributes->compute_slices++;
                        break;
                case 2:
                        attributes->multiprocessors++;
                        break;
                case 3:
                        attributes->copy_engines++;
                        break;
                case 4:
                        attributes->decoders++;
                        break;
                case 5:
                        attributes->encoders++;
                        break;
                case 6:
                        attributes->jpegs++;
                        break;
                case 7:
                        attributes->ofas++;
                        break;
                default:
                        attributes->memory_mib++;
                }
                assert_int_equal(node_plan(&node), -1);
        }
}

static void test_a_failing_gpu_stops_no_other(void **state UNUSED)
{
        static const struct node_case beside_mig = {SINGLE, {"1g.5gb", "-", "1g.5gb"}};
        static const struct node_case empty = {MIXED, {"-", ""}};
        _cleanup_(node_done) struct node a = make_node(&beside_mig);
        _cleanup_(node_done) struct node b = make_node(&beside_mig);
        _cleanup_(node_done) struct node c = make_node(&empty);

        /* It has its MIG devices from before, and nothing was read now. */
        a.inventory.gpus[1].failure = a.inventory.gpus[2].failure = "GPU is lost";
        ((struct mig_device *)(uintptr_t)a.inventory.gpus[2].mig_devices)->attributes = (struct mig_attributes){0};
        assert_ok(node_plan(&a), &a.err);
        assert_string_equal(describe(&a), "nvidia.com/gpu none: MIG-0-0 MIG-2-0");
        assert_string_equal(a.warnings.data, "GPU 1 (GPU-1) is left out: it fails, and the others have MIG devices\n");

        b.config.mig_strategy = MIG_STRATEGY_MIXED;
        b.inventory.gpus[1].failure = "GPU is lost";
        assert_ok(node_plan(&b), &b.err);
        assert_string_equal(describe(&b), "nvidia.com/gpu none: GPU-1; nvidia.com/mig-1g.5gb none: MIG-0-0 MIG-2-0");

        c.inventory.gpus[1].failure = "GPU is lost";
        assert_ok(node_plan(&c), &c.err);
        assert_string_equal(c.warnings.data, "");
}

static void test_a_mig_device_brings_what_requests_need(void **state UNUSED)
{
        static const struct node_case made = {MIXED, {"-", "1g.5gb 2g.10gb"}};
        _cleanup_(node_done) struct node node = make_node(&made);
        const struct unit *unit;

        node.inventory.gpus[1].index = 3;
        assert_ok(node_plan(&node), &node.err);
        unit = plan_find(node.plan, "nvidia.com/mig-2g.10gb")->units;
        assert_string_equal(unit->uuid, "MIG-1-1");
        assert_string_equal(unit->index, "3:1");
        assert_ptr_equal(unit->gpu, &node.inventory.gpus[1]);
        assert_ptr_equal(unit->mig, &node.inventory.gpus[1].mig_devices[1]);
        assert_int_equal(unit->position, 1);
        assert_true(unit->memory == 10 * GIB);
        assert_null(plan_find(node.plan, "nvidia.com/gpu")->units[0].mig);
}

static void test_mig_devices_are_in_the_order_of_their_indices(void **state UNUSED)
{
        static const struct node_case made = {SINGLE, {"1g.5gb 1g.5gb 1g.5gb"}};
        _cleanup_(node_done) struct node node = make_node(&made);
        struct mig_device *devices = (struct mig_device *)(uintptr_t)node.inventory.gpus[0].mig_devices;

        devices[0].index = 9;
        devices[2].index = 0;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/gpu none: MIG-0-2 MIG-0-1 MIG-0-0");
}

static void test_patterns_name_what_they_match_first(void **state UNUSED)
{
        static const struct resource_pattern gpus[] = {
                {.pattern = "NVIDIA H100", .name = "nvidia.com/exact"},
                {.pattern = "*H100*", .name = "nvidia.com/h100"},
                {.pattern = "*", .name = "nvidia.com/other"},
        };
        static const struct resource_pattern migs[] = {
                {.pattern = "1g.24gb", .name = "nvidia.com/small"},
                {.pattern = "*gb", .name = "nvidia.com/large"},
                {.pattern = "", .name = "nvidia.com/unknown"},
        };
        static const struct node_case made = {MIXED, {"-", "-", "-", "1g.24gb 2g.48gb 1c.2g.48gb 1g.24gb-me ?"}};
        _cleanup_(node_done) struct node node = make_node(&made);

        node.inventory.gpus[0].name = "NVIDIA H100 80GB HBM3";
        node.inventory.gpus[1].name = "NVIDIA H100";
        node.inventory.gpus[2].name = NULL;
        node.config.patterns.gpu = gpus;
        node.config.patterns.n_gpu = ARRAY_SIZE(gpus);
        node.config.patterns.mig = migs;
        node.config.patterns.n_mig = ARRAY_SIZE(migs);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node),
                "nvidia.com/exact none: GPU-1; nvidia.com/h100 none: GPU-0; nvidia.com/large none: MIG-3-1 MIG-3-2; "
                "nvidia.com/mig-1g.24gb-me none: MIG-3-3; nvidia.com/other none: GPU-2; nvidia.com/small none: MIG-3-0; "
                "nvidia.com/unknown none: MIG-3-4");
        assert_string_equal(node.warnings.data, "");
        /* What no pattern matches has its usual name. */
        plan_done(node.plan);
        node.config.patterns.n_gpu = 2;
        node.config.mig_strategy = MIG_STRATEGY_NONE;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node),
                "nvidia.com/gpu none: GPU-2 GPU-3; nvidia.com/exact none: GPU-1; nvidia.com/h100 none: GPU-0");
}

static void test_wsl_has_one_unit_for_all(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node.inventory.platform = PLATFORM_WSL;
        node.inventory.gpus[0].uuid = "all";
        node.inventory.gpus[0].memory = 0;
        node_share(&node, SHARING_TIME_SLICING, 2);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/gpu time-slicing: all*2");
        assert_string_equal(node.plan->resources[0].units[0].index, "all");
}

static void test_tegra_goes_by_its_platform(void **state UNUSED)
{
        static const struct resource_pattern patterns[] = {{.pattern = "tegra", .name = "nvidia.com/soc"}};
        _cleanup_(node_done) struct node node = node_new(1);

        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        node.inventory.platform = PLATFORM_TEGRA;
        node.inventory.gpus[0].uuid = "tegra";
        node.inventory.gpus[0].name = "Orin";
        node_share(&node, SHARING_TIME_SLICING, 2);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/gpu time-slicing: tegra*2");
        assert_string_equal(node.plan->resources[0].units[0].index, "0");
        plan_done(node.plan);
        node.config.patterns.gpu = patterns;
        node.config.patterns.n_gpu = ARRAY_SIZE(patterns);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/soc none: tegra");
}

static void test_what_the_inventory_could_not_read_is_warned_about(void **state UNUSED)
{
        static const char *gpus[] = {"nvmlDeviceGetHandleByIndex(3): GPU is lost"};
        static const char *const migs[] = {"MIG device 3: not found"};
        static const struct node_case made = {MIXED, {"-", ""}};
        _cleanup_(node_done) struct node node = make_node(&made);

        node.inventory.unnamed_failures = gpus;
        node.inventory.n_unnamed_failures = 1;
        node.inventory.gpus[1].mig_failures = migs;
        node.inventory.gpus[1].n_mig_failures = 1;
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/gpu none: GPU-0");
        assert_string_equal(node.warnings.data,
                "a GPU is left out, since NVML does not report its UUID: nvmlDeviceGetHandleByIndex(3): GPU is lost\n"
                "left out of GPU 1 (GPU-1): MIG device 3: not found\n");
}

static void test_a_uuid_that_is_there_twice_is_one_unit(void **state UNUSED)
{
        static const struct node_case made = {MIXED, {"1g.5gb 2g.10gb"}};
        _cleanup_(node_done) struct node node = make_node(&made);

        ((struct mig_device *)(uintptr_t)node.inventory.gpus[0].mig_devices)[1].uuid = "MIG-0-0";
        node_add_entry(&node, SHARING_TIME_SLICING, "nvidia.com/mig-1g.5gb", 2);
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node), "nvidia.com/mig-1g.5gb time-slicing: MIG-0-0*2");
        assert_string_equal(
                node.warnings.data, "MIG device 0:1 (MIG-0-0) is left out: another GPU has the same UUID\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_units_follow_the_mig_strategy),
                cmocka_unit_test(test_gpus_for_dra_and_their_mig_devices_are_no_units),
                cmocka_unit_test(test_what_is_withdrawn_is_no_unit_and_the_rest_is),
                cmocka_unit_test(test_dra_that_is_off_or_cannot_be_takes_no_gpu),
                cmocka_unit_test(test_single_refuses_devices_that_pods_could_not_tell_apart),
                cmocka_unit_test(test_single_compares_every_attribute),
                cmocka_unit_test(test_a_failing_gpu_stops_no_other),
                cmocka_unit_test(test_a_mig_device_brings_what_requests_need),
                cmocka_unit_test(test_mig_devices_are_in_the_order_of_their_indices),
                cmocka_unit_test(test_patterns_name_what_they_match_first),
                cmocka_unit_test(test_wsl_has_one_unit_for_all),
                cmocka_unit_test(test_tegra_goes_by_its_platform),
                cmocka_unit_test(test_a_uuid_that_is_there_twice_is_one_unit),
                cmocka_unit_test(test_what_the_inventory_could_not_read_is_warned_about),
        };

        return cmocka_run_group_tests_name("plan_units", tests, NULL, NULL);
}
