// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "describe.h"
#include "plan/allocations.h"

static void test_whole_gpus_are_devices_by_their_uuid(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(3);
        const struct resource *resource;

        node.inventory.gpus[1].mig_enabled = true; /* a whole GPU under the MIG strategy none */
        node.inventory.gpus[2].failure = "it is gone";
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->n_resources, 1);
        resource = plan_find(node.plan, "nvidia.com/gpu");
        assert_non_null(resource);
        assert_null(plan_find(node.plan, "nvidia.com/gpu.shared"));
        assert_string_equal(resource->base_name, "nvidia.com/gpu");
        assert_int_equal(resource->strategy, SHARING_NONE);
        assert_int_equal(resource->n_units, 3);
        assert_int_equal(resource->n_devices, 3);
        for (size_t i = 0; i < 3; i++) {
                assert_string_equal(resource->devices[i].id, node.inventory.gpus[i].uuid);
                assert_int_equal(resource->devices[i].unit, i);
                assert_int_equal(resource->devices[i].replica, 0);
                assert_ptr_equal(map_find(&resource->by_id, resource->devices[i].id), &resource->devices[i]);
                assert_ptr_equal(resource->units[i].gpu, &node.inventory.gpus[i]);
                assert_int_equal(resource->units[i].replicas, 1);
                assert_int_equal(resource->units[i].first_device, i);
                assert_int_equal(resource->units[i].position, i);
                assert_true(resource->units[i].memory == 24 * GIB);
        }
        assert_string_equal(resource->units[2].index, "2");
        assert_string_equal(node.warnings.data, "");
}

static void test_replicas_are_numbered_below_their_unit(void **state UNUSED)
{
        static const char *const ids[] = {"GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-1::0", "GPU-1::1", "GPU-1::2"};
        _cleanup_(node_done) struct node node = node_new(2);
        const struct resource *resource;

        node_share(&node, SHARING_TIME_SLICING, 3);
        node.shared.rename = "nvidia.com/gpu.shared";
        assert_ok(node_plan(&node), &node.err);
        resource = plan_find(node.plan, "nvidia.com/gpu.shared");
        assert_non_null(resource);
        assert_null(plan_find(node.plan, "nvidia.com/gpu"));
        assert_string_equal(resource->base_name, "nvidia.com/gpu");
        assert_int_equal(resource->strategy, SHARING_TIME_SLICING);
        assert_int_equal(resource->n_devices, ARRAY_SIZE(ids));
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                assert_string_equal(resource->devices[i].id, ids[i]);
                assert_int_equal(resource->devices[i].unit, i / 3);
                assert_int_equal(resource->devices[i].replica, i % 3);
        }
        assert_int_equal(resource->units[1].first_device, 3);
        assert_int_equal(resource->units[1].replicas, 3);
}

static void test_one_replica_is_a_share_too(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 1);
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->resources[0].strategy, SHARING_MPS);
        assert_string_equal(node.plan->resources[0].devices[0].id, "GPU-0::0");
}

/* One file is made for many nodes: NVIDIA's plugin skips them, too. */
static void test_sharing_of_resources_that_are_not_here_is_skipped_with_a_warning(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 4);
        node.shared.name = "nvidia.com/mig-1g.10gb";
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->resources[0].strategy, SHARING_NONE);
        assert_string_equal(node.plan->resources[0].devices[0].id, "GPU-0");
        assert_string_equal(node.warnings.data,
                "config '/config/config.yaml' line 12: sharing.mps.resources[0]: shares nothing here: this node has no "
                "'nvidia.com/mig-1g.10gb', only nvidia.com/gpu; MIG devices have such names with migStrategy: mixed, and "
                "it is none\n");
}

/* It is the name that pods use where renameByDefault is on. */
static void test_sharing_under_the_name_that_it_makes_is_a_mistake(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_TIME_SLICING, 4);
        node.shared.name = "nvidia.com/gpu.shared";
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->resources[0].strategy, SHARING_NONE);
        assert_non_null(strstr(node.warnings.data,
                ": shares nothing: 'nvidia.com/gpu.shared' is the name that renameByDefault gives to 'nvidia.com/gpu': name "
                "that one to share it\n"));
        plan_done(node.plan);
        node.plan = NULL;
        strbuf_clear(&node.warnings);
        node.shared.name = "nvidia.com/mig-1g.10gb.shared";
        assert_ok(node_plan(&node), &node.err);
        assert_non_null(
                strstr(node.warnings.data, ": shares nothing here: this node has no 'nvidia.com/mig-1g.10gb.shared'"));
}

static void test_a_node_without_gpus_has_no_resource(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(0);

        node_share(&node, SHARING_TIME_SLICING, 10);
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->n_resources, 0);
}

static void test_mps_replicas_are_bounded_by_architecture_and_driver(void **state UNUSED)
{
        static const struct {
                enum gpu_architecture architecture;
                int compute_major;
                const char *driver;
                unsigned int most;
        } table[] = {
                {GPU_ARCHITECTURE_PASCAL, 6, "580.105.08", 16},
                {GPU_ARCHITECTURE_PASCAL, 6, "595.58", 16},
                {GPU_ARCHITECTURE_VOLTA, 7, "580.105.08", 48}, /* NVIDIA's plugin takes 7.0 for older */
                {GPU_ARCHITECTURE_TURING, 7, "470.57.02", 48},
                {GPU_ARCHITECTURE_HOPPER, 9, "589.99", 48},
                {GPU_ARCHITECTURE_HOPPER, 9, "590.10", 60},
                {GPU_ARCHITECTURE_HOPPER, 9, "595.58", 60},
                {GPU_ARCHITECTURE_HOPPER, 9, NULL, 48},
                {GPU_ARCHITECTURE_HOPPER, 9, "unknown", 48},
                {GPU_ARCHITECTURE_UNKNOWN, 6, "595.58", 16},
                {GPU_ARCHITECTURE_UNKNOWN, 9, "595.58", 60},
                {GPU_ARCHITECTURE_UNKNOWN, -1, "595.58", 60},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node fits = node_new(1);
                _cleanup_(node_done) struct node exceeds = node_new(1);

                fits.inventory.gpus[0].architecture = exceeds.inventory.gpus[0].architecture = table[i].architecture;
                fits.inventory.gpus[0].compute_major = exceeds.inventory.gpus[0].compute_major = table[i].compute_major;
                fits.inventory.driver_version = exceeds.inventory.driver_version = table[i].driver;
                node_share(&fits, SHARING_MPS, table[i].most);
                node_share(&exceeds, SHARING_MPS, table[i].most + 1);
                assert_ok(node_plan(&fits), &fits.err);
                assert_int_equal(node_plan(&exceeds), -1);
                assert_int_equal(exceeds.err.kind, ERROR_INVALID);
                /* Time-slicing knows no such bound. */
                node_share(&exceeds, SHARING_TIME_SLICING, table[i].most + 1);
                assert_ok(node_plan(&exceeds), &exceeds.err);
        }
}

static void test_too_many_mps_replicas_are_named_with_their_bound(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);

        node.inventory.gpus[1].name = "NVIDIA H200";
        node.inventory.driver_version = "595.58";
        node_share(&node, SHARING_MPS, 61);
        node.inventory.gpus[0].name = "NVIDIA H200";
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                "config '/config/config.yaml' line 12: sharing.mps.resources[0].replicas: 61, at most 60 for this GPU and "
                "driver (NVIDIA H200, 595.58)");
}

static void test_the_number_of_devices_is_bounded(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(64);

        node_share(&node, SHARING_TIME_SLICING, 1000);
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                "config '/config/config.yaml' line 12: sharing.timeSlicing.resources[0].replicas: 1000, which makes 64000 "
                "devices of the 64 units of 'nvidia.com/gpu', at most 50000 (kubelet takes a list of at most 4 MiB): use "
                "at most 781");
        node_share(&node, SHARING_TIME_SLICING, 781);
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->resources[0].n_devices, 64 * 781);
        for (size_t i = 0; i < node.plan->resources[0].n_devices; i += 997) {
                const struct device *device = &node.plan->resources[0].devices[i];

                assert_ptr_equal(map_find(&node.plan->resources[0].by_id, device->id), device);
        }
}

static void test_entries_under_one_name_share_the_bound_of_devices(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(100);
        struct shared_resource *first = node_add_entry(&node, SHARING_TIME_SLICING, "nvidia.com/gpu", 500);
        struct shared_resource *rest = node_add_entry(&node, SHARING_TIME_SLICING, "nvidia.com/gpu", 501);

        /* The resource before it stands already, and goes without a trace. */
        node_add_mig(&node, 0, "1g.5gb");
        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        first->rename = rest->rename = "nvidia.com/small";
        first->devices.kind = SELECT_COUNT;
        first->devices.count = 1;
        node_add_entry(&node, SHARING_TIME_SLICING, "nvidia.com/mig-1g.5gb", 1000);
        rest->replicas = 600;
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                "config '/config/config.yaml' line 11: sharing.timeSlicing.resources[1].replicas: 600, which makes 59300 "
                "devices of the 99 units of 'nvidia.com/small', at most 50000 (kubelet takes a list of at most 4 MiB): "
                "use at most 505");
        rest->replicas = 505;
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(plan_find(node.plan, "nvidia.com/small")->n_devices, 500 + 98 * 505);
}

static void test_too_many_gpus_are_refused(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);
        struct gpu *gpus = ARENA_ARRAY(&node.arena, struct gpu, PLAN_MAX_DEVICES + 1);

        for (size_t i = 0; i <= PLAN_MAX_DEVICES; i++)
                gpus[i] = (struct gpu){.uuid = arena_printf(&node.arena, "GPU-%zu", i)};
        node.inventory.gpus = gpus;
        node.inventory.n_gpus = PLAN_MAX_DEVICES + 1;
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                "'nvidia.com/gpu': 50001 units, at most 50000 (kubelet takes a list of at most 4 MiB)");
}

static void test_the_number_of_resources_is_bounded(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(PLAN_MAX_RESOURCES + 1);

        for (unsigned int i = 0; i <= PLAN_MAX_RESOURCES; i++) {
                struct shared_resource *entry = node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", 2);

                entry->devices.kind = SELECT_COUNT;
                entry->devices.count = 1;
                entry->rename = arena_printf(&node.arena, "nvidia.com/gpu%u", i);
        }
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                "config '/config/config.yaml': more than 64 resources on this node: let resources.gpus, resources.mig and "
                "rename give some of them the same name, or share them with scope aggregate");
        node.inventory.n_gpus--;
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->n_resources, PLAN_MAX_RESOURCES);
}

static void test_resources_are_in_order(void **state UNUSED)
{
        static const struct resource_pattern patterns[] = {
                {.pattern = "z", .name = "nvidia.com/a"}, {.pattern = "y", .name = "nvidia.com/aa"}};
        _cleanup_(node_done) struct node node = node_new(4);

        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        node.config.patterns.gpu = patterns;
        node.config.patterns.n_gpu = ARRAY_SIZE(patterns);
        node.inventory.gpus[0].name = "y";
        node_add_mig(&node, 1, "1g.5gb");
        node.inventory.gpus[2].name = "z";
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node),
                "nvidia.com/gpu none: GPU-3; nvidia.com/a none: GPU-2; nvidia.com/aa none: GPU-0; nvidia.com/mig-1g.5gb "
                "none: MIG-1-0");
}

static void test_mps_replicas_of_a_mig_device_shrink_with_it(void **state UNUSED)
{
        static const char *const of_seven[] = {"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", "1g.5gb+me"};
        static const char *const of_four[] = {"1g.6gb", "2g.12gb", "4g.24gb"};
        static const struct {
                const char *profile;
                const char *const *possible;
                size_t n_possible;
                const char *driver;
                unsigned int most;
        } table[] = {
                {"1g.5gb", of_seven, ARRAY_SIZE(of_seven), "580.105.08", 6},
                {"2g.10gb", of_seven, ARRAY_SIZE(of_seven), "580.105.08", 13},
                {"3g.20gb", of_seven, ARRAY_SIZE(of_seven), "580.105.08", 20},
                {"1c.3g.20gb", of_seven, ARRAY_SIZE(of_seven), "580.105.08", 6},
                {"7g.40gb", of_seven, ARRAY_SIZE(of_seven), "580.105.08", 48},
                {"1g.5gb", of_seven, ARRAY_SIZE(of_seven), "590.10", 8},
                {"1g.6gb", of_four, ARRAY_SIZE(of_four), "580.105.08", 12},
                {"1g.5gb", NULL, 0, "580.105.08", 48}, /* nobody knows of how many */
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(1);
                struct shared_resource *entry = node_add_entry(&node, SHARING_MPS, "nvidia.com/gpu", table[i].most + 1);
                const char *text = arena_printf(&node.arena,
                        "config '/config/config.yaml' line 10: sharing.mps.resources[0].replicas: %u, at most %u for this "
                        "MIG device and driver (0:0 of NVIDIA A10, %s)",
                        table[i].most + 1, table[i].most, table[i].driver);

                node.config.mig_strategy = MIG_STRATEGY_SINGLE;
                node.inventory.driver_version = table[i].driver;
                node_add_mig(&node, 0, table[i].profile);
                node.inventory.gpus[0].mig_profiles = table[i].possible;
                node.inventory.gpus[0].n_mig_profiles = table[i].n_possible;
                assert_fails(node_plan(&node), &node.err, ERROR_INVALID, text);
                entry->replicas = table[i].most;
                assert_ok(node_plan(&node), &node.err);
        }
}

static void make_memory_differ(struct node *node)
{
        node->inventory.gpus[1].memory++;
}

static void make_node_differ(struct node *node)
{
        node->inventory.gpus[1].numa_node = 1;
}

static void make_uuid_differ(struct node *node)
{
        node->inventory.gpus[1].uuid = "GPU-x";
}

static void make_index_differ(struct node *node)
{
        node->inventory.gpus[1].index = 7;
}

static void make_count_differ(struct node *node)
{
        node->inventory.n_gpus = 1;
}

static void make_name_differ(struct node *node)
{
        node->shared.rename = "nvidia.com/gpu.shared";
}

static void make_replicas_differ(struct node *node)
{
        node->shared.replicas = 5;
}

static void make_strategy_differ(struct node *node)
{
        node_share(node, SHARING_TIME_SLICING, node->shared.replicas);
}

static void make_provisioning_differ(struct node *node)
{
        node->section.provisioning = PROVISIONING_HALF;
}

static void make_limit_differ(struct node *node)
{
        node->section.fail_requests_greater_than_one = true;
}

static void make_placement_differ(struct node *node)
{
        node->config.placement = PLACEMENT_PACKED;
}

static void make_minor_differ(struct node *node)
{
        node->inventory.gpus[1].minor = 5;
}

static void make_nothing_visible_differ(struct node *node)
{
        node->inventory.gpus[1].name = "another";
        node->inventory.driver_version = "590.1";
}

static void make_daemons_differ(struct node *node)
{
        node->section.daemon_scope = DAEMON_SCOPE_RESOURCE;
}

static void make_tier_differ(struct node *node)
{
        node->section.tier_limit = MPS_TIER_VERIFIED;
}

static void test_a_resource_is_the_same_if_pods_see_no_difference(void **state UNUSED)
{
        static const struct {
                void (*change)(struct node *node);
                bool same;
        } table[] = {
                {make_nothing_visible_differ, true},
                {make_memory_differ, false},
                {make_node_differ, false},
                {make_uuid_differ, false},
                {make_index_differ, false},
                {make_count_differ, false},
                {make_name_differ, false},
                {make_replicas_differ, false},
                {make_strategy_differ, false},
                {make_provisioning_differ, false},
                {make_limit_differ, false},
                {make_placement_differ, false},
                {make_minor_differ, false},
                {make_daemons_differ, false},
                {make_tier_differ, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node a = node_new(2);
                _cleanup_(node_done) struct node b = node_new(2);

                node_share(&a, SHARING_MPS, 4);
                node_share(&b, SHARING_MPS, 4);
                table[i].change(&b);
                assert_ok(node_plan(&a), &a.err);
                assert_ok(node_plan(&b), &b.err);
                assert_int_equal(resource_is_same(&a.plan->resources[0], &b.plan->resources[0]), table[i].same);
        }
}

static void test_shares_of_another_size_make_another_resource(void **state UNUSED)
{
        for (unsigned int i = 0; i < 5; i++) {
                _cleanup_(node_done) struct node a = node_new(2);
                _cleanup_(node_done) struct node b = node_new(2);
                struct node *nodes[] = {&a, &b};

                for (size_t j = 0; j < ARRAY_SIZE(nodes); j++) {
                        node_share(nodes[j], SHARING_MPS, 4);
                        nodes[j]->section.provisioning = PROVISIONING_SM;
                        nodes[j]->config.placement = PLACEMENT_SAME_GPU;
                        nodes[j]->inventory.gpus[0].multiprocessors = nodes[j]->inventory.gpus[1].multiprocessors = 80;
                }
                b.section.has_memory_reserve = i == 1;
                b.section.memory_reserve_mib = 767;
                b.shared.sms = i == 2 ? 16 : 0;
                b.inventory.gpus[1].multiprocessors += i == 3;
                b.section.max_per_request = i == 4 ? 3 : 0;
                assert_ok(node_plan(&a), &a.err);
                assert_ok(node_plan(&b), &b.err);
                assert_int_equal(resource_is_same(&a.plan->resources[0], &b.plan->resources[0]), i == 0);
        }
}

static void test_a_mig_resource_is_the_same_if_pods_see_no_difference(void **state UNUSED)
{
        for (unsigned int i = 0; i <= 6; i++) {
                _cleanup_(node_done) struct node a = node_new(1);
                _cleanup_(node_done) struct node b = node_new(1);
                struct mig_device *mig;

                node_add_mig(&a, 0, "1g.5gb");
                mig = node_add_mig(&b, 0, "1g.5gb");
                a.config.mig_strategy = b.config.mig_strategy = MIG_STRATEGY_SINGLE;
                switch (i) {
                case 0: /* neither is to be seen */
                        mig->attributes.multiprocessors++;
                        mig->failure = "lost";
                        break;
                case 1:
                        mig->profile = "1g.5gb+me";
                        break;
                case 2:
                        mig->gpu_instance_cap++;
                        break;
                case 3:
                        mig->compute_instance_cap++;
                        break;
                case 4:
                        mig->memory++;
                        break;
                case 5:
                        mig->index++;
                        break;
                default:
                        b.inventory.gpus[0].mig_enabled = false;
                        b.inventory.gpus[0].uuid = mig->uuid;
                }
                assert_ok(node_plan(&a), &a.err);
                assert_ok(node_plan(&b), &b.err);
                assert_int_equal(resource_is_same(&a.plan->resources[0], &b.plan->resources[0]), i == 0);
        }
}

static void test_units_of_one_resource_may_be_shared_differently(void **state UNUSED)
{
        _cleanup_(node_done) struct node a = node_new(2);
        _cleanup_(node_done) struct node b = node_new(2);
        struct shared_resource *entry = node_add_entry(&a, SHARING_MPS, "nvidia.com/gpu", 1);

        entry->devices.kind = SELECT_COUNT;
        entry->devices.count = 1;
        assert_ok(node_plan(&a), &a.err);
        assert_string_equal(describe(&a), "nvidia.com/gpu mps: GPU-0*1 GPU-1");
        node_add_entry(&b, SHARING_MPS, "nvidia.com/gpu", 1);
        assert_ok(node_plan(&b), &b.err);
        assert_string_equal(describe(&b), "nvidia.com/gpu mps: GPU-0*1 GPU-1*1");
        assert_false(resource_is_same(&a.plan->resources[0], &b.plan->resources[0]));
}

/* ---- scope individual ---- */

static void test_each_unit_can_be_a_resource_of_its_own(void **state UNUSED)
{
        static const struct {
                const char *rename;
                bool is_suffixed;
                const char *expected;
        } table[] = {
                {NULL, false, "nvidia.com/gpu: GPU-2; nvidia.com/gpu0: GPU-0; nvidia.com/gpu3: GPU-1"},
                {"nvidia.com/gpu.small", false,
                        "nvidia.com/gpu: GPU-2; nvidia.com/gpu.small0: GPU-0; nvidia.com/gpu.small3: GPU-1"},
                {"nvidia.com/gpu.shared", true,
                        "nvidia.com/gpu: GPU-2; nvidia.com/gpu0.shared: GPU-0; nvidia.com/gpu3.shared: GPU-1"},
        };
        static const struct device_ref refs[] = {{.gpu = 0, .mig = -1}, {.gpu = 3, .mig = -1}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(3);
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

                node.inventory.gpus[1].index = 3; /* as NVML counts, not by position */
                node_share(&node, SHARING_MPS, 4);
                node.section.scope = SCOPE_INDIVIDUAL;
                node.shared.rename = table[i].rename;
                node.shared.is_suffixed = table[i].is_suffixed;
                node.shared.devices = (struct device_selector){SELECT_LIST, .refs = refs, .n_refs = 2};
                assert_ok(node_plan(&node), &node.err);
                for (size_t r = 0; r < node.plan->n_resources; r++) {
                        const struct resource *resource = &node.plan->resources[r];

                        assert_int_equal(resource->n_units, 1);
                        strbuf_printf(&text, "%s%s: %s", r ? "; " : "", resource->name, resource->units[0].uuid);
                }
                assert_string_equal(text.data, table[i].expected);
        }
}

static void test_a_mig_device_of_its_own_has_both_indices_in_its_name(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(2);

        node_add_mig(&node, 1, "1g.5gb");
        node_add_mig(&node, 1, "1g.5gb");
        node.config.mig_strategy = MIG_STRATEGY_MIXED;
        node_share(&node, SHARING_TIME_SLICING, 2);
        node.section.scope = SCOPE_INDIVIDUAL;
        node.shared.name = "nvidia.com/mig-1g.5gb";
        assert_ok(node_plan(&node), &node.err);
        assert_string_equal(describe(&node),
                "nvidia.com/gpu none: GPU-0; nvidia.com/mig-1g.5gb1-0 time-slicing: MIG-1-0*2; nvidia.com/mig-1g.5gb1-1 "
                "time-slicing: MIG-1-1*2");
}

static void test_names_that_cannot_be_given_are_refused(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(11);

        node_share(&node, SHARING_MPS, 2);
        node.section.scope = SCOPE_INDIVIDUAL;
        node.shared.rename = arena_printf(&node.arena, "nvidia.com/%051d", 0);
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                arena_printf(&node.arena,
                        "config '/config/config.yaml' line 12: sharing.mps.resources[0]: scope individual: "
                        "'nvidia.com/%051d10' is not a resource name: 64 characters with nvidia.com/, at most 63",
                        0));
}

static void test_two_units_cannot_have_one_name_of_their_own(void **state UNUSED)
{
        static const struct resource_pattern patterns[] = {
                {.pattern = "NVIDIA A10", .name = "nvidia.com/gpu"}, {.pattern = "*", .name = "nvidia.com/gpu1"}};
        _cleanup_(node_done) struct node node = node_new(12);

        node.inventory.gpus[0].name = "another";
        node.config.patterns.gpu = patterns;
        node.config.patterns.n_gpu = ARRAY_SIZE(patterns);
        node_share(&node, SHARING_MPS, 2);
        node.section.scope = SCOPE_INDIVIDUAL;
        assert_fails(node_plan(&node), &node.err, ERROR_INVALID,
                "config '/config/config.yaml' line 12: sharing.mps.resources[0]: scope individual: 'nvidia.com/gpu1' would be "
                "GPU 0 (GPU-0) and GPU 1 (GPU-1): give one of them a rename of its own");
}

static void test_the_largest_request_is_promised_only_where_it_can_be_kept(void **state UNUSED)
{
        static const struct {
                unsigned int units;
                enum provisioning provisioning;
                enum reserve reserve;
                enum placement placement;
                bool fail;
                unsigned int max_per_request;
                unsigned int expected;
                unsigned int reserved;
        } table[] = {
                /* Several replicas mean more: half of a unit, and what that takes is reserved. */
                {4, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 0, 10, 27},
                {4, PROVISIONING_HALF, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 0, 10, 27},
                {4, PROVISIONING_WEIGHTED, RESERVE_STRICT, PLACEMENT_SAME_GPU, false, 0, 10, 27},
                {4, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 20, 20, 57},
                {4, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 5, 5, 12},
                {4, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 30, 20, 57},
                {4, PROVISIONING_WEIGHTED, RESERVE_NONE, PLACEMENT_SAME_GPU, false, 0, 20, 0},
                {4, PROVISIONING_WEIGHTED, RESERVE_NONE, PLACEMENT_SAME_GPU, false, 5, 5, 0},
                /* One unit costs nothing. */
                {1, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 0, 20, 0},
                /* Several replicas are worth no more than one. */
                {4, PROVISIONING_UNIFORM, RESERVE_AUTO, PLACEMENT_SAME_GPU, false, 0, 20, 0},
                {4, PROVISIONING_UNIFORM, RESERVE_STRICT, PLACEMENT_SAME_GPU, false, 0, 10, 27},
                {4, PROVISIONING_UNIFORM, RESERVE_AUTO, PLACEMENT_SAME_GPU, true, 0, 0, 0},
                {4, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_PREFER_SAME_GPU, false, 0, 0, 0},
                {4, PROVISIONING_WEIGHTED, RESERVE_AUTO, PLACEMENT_DISTRIBUTED, false, 0, 0, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(table[i].units);

                node_share(&node, SHARING_MPS, 20);
                node.section.provisioning = table[i].provisioning;
                node.section.reserve = table[i].reserve;
                node.config.placement = table[i].placement;
                node.section.fail_requests_greater_than_one = table[i].fail;
                node.section.max_per_request = table[i].max_per_request;
                assert_ok(node_plan(&node), &node.err);
                if (node.plan->resources[0].max_per_request != table[i].expected ||
                        allocations_n_reserved(&node.plan->resources[0]) != (size_t)table[i].reserved)
                        fail_msg("row %zu: %u, %zu reserved", i, node.plan->resources[0].max_per_request,
                                allocations_n_reserved(&node.plan->resources[0]));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_gpus_are_devices_by_their_uuid),
                cmocka_unit_test(test_replicas_are_numbered_below_their_unit),
                cmocka_unit_test(test_one_replica_is_a_share_too),
                cmocka_unit_test(test_sharing_of_resources_that_are_not_here_is_skipped_with_a_warning),
                cmocka_unit_test(test_sharing_under_the_name_that_it_makes_is_a_mistake),
                cmocka_unit_test(test_a_node_without_gpus_has_no_resource),
                cmocka_unit_test(test_mps_replicas_are_bounded_by_architecture_and_driver),
                cmocka_unit_test(test_too_many_mps_replicas_are_named_with_their_bound),
                cmocka_unit_test(test_the_number_of_devices_is_bounded),
                cmocka_unit_test(test_entries_under_one_name_share_the_bound_of_devices),
                cmocka_unit_test(test_too_many_gpus_are_refused),
                cmocka_unit_test(test_the_number_of_resources_is_bounded),
                cmocka_unit_test(test_resources_are_in_order),
                cmocka_unit_test(test_mps_replicas_of_a_mig_device_shrink_with_it),
                cmocka_unit_test(test_a_resource_is_the_same_if_pods_see_no_difference),
                cmocka_unit_test(test_shares_of_another_size_make_another_resource),
                cmocka_unit_test(test_a_mig_resource_is_the_same_if_pods_see_no_difference),
                cmocka_unit_test(test_units_of_one_resource_may_be_shared_differently),
                cmocka_unit_test(test_each_unit_can_be_a_resource_of_its_own),
                cmocka_unit_test(test_a_mig_device_of_its_own_has_both_indices_in_its_name),
                cmocka_unit_test(test_names_that_cannot_be_given_are_refused),
                cmocka_unit_test(test_two_units_cannot_have_one_name_of_their_own),
                cmocka_unit_test(test_the_largest_request_is_promised_only_where_it_can_be_kept),
        };

        return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
