#include "unit.h"

#include "node.h"

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

static void test_sharing_of_resources_that_are_not_here_is_skipped(void **state UNUSED)
{
        _cleanup_(node_done) struct node node = node_new(1);

        node_share(&node, SHARING_MPS, 4);
        node.shared.name = "nvidia.com/mig-1g.10gb";
        assert_ok(node_plan(&node), &node.err);
        assert_int_equal(node.plan->resources[0].strategy, SHARING_NONE);
        assert_string_equal(node.plan->resources[0].devices[0].id, "GPU-0");
        assert_string_equal(node.warnings.data, "");
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

static void make_nothing_visible_differ(struct node *node)
{
        node->inventory.gpus[1].name = "another";
        node->inventory.driver_version = "590.1";
}

static void test_a_resource_is_the_same_if_nobody_can_tell(void **state UNUSED)
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_gpus_are_devices_by_their_uuid),
                cmocka_unit_test(test_replicas_are_numbered_below_their_unit),
                cmocka_unit_test(test_one_replica_is_a_share_too),
                cmocka_unit_test(test_sharing_of_resources_that_are_not_here_is_skipped),
                cmocka_unit_test(test_a_node_without_gpus_has_no_resource),
                cmocka_unit_test(test_mps_replicas_are_bounded_by_architecture_and_driver),
                cmocka_unit_test(test_too_many_mps_replicas_are_named_with_their_bound),
                cmocka_unit_test(test_the_number_of_devices_is_bounded),
                cmocka_unit_test(test_a_resource_is_the_same_if_nobody_can_tell),
        };

        return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
