// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "mig/node.h"
#include "../gpu/scenario.h"

static void node_read(struct mig_node *ret, struct arena *arena, struct nvml **nvml, const char *scenario)
{
        struct error err;

        scenario_write(scenario);
        assert_ok(nvml_open(nvml, scenario_library(), "", &err), &err);
        assert_ok(mig_node_read(ret, arena, *nvml, &err), &err);
}

static void test_a_node_has_all_gpus_that_nvml_counts_with_what_a_device_filter_asks_for(void **state UNUSED)
{
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node node;

        node_read(&node, &arena, &nvml,
                "driverVersion: 550.163.01\ngpus:\n- {model: T4, uuid: GPU-t4}\n"
                "- {model: H100-80GB, uuid: GPU-h100, bus: '0000:3b:00.0', mig: {devices: [{profile: 3g.40gb}]}}\n"
                "- {model: A30, uuid: GPU-a30}\n");
        assert_string_equal(node.driver_version, "550.163.01");
        assert_int_equal(node.n_gpus, 3);
        assert_string_equal(node.gpus[0].uuid, "GPU-t4");
        assert_false(node.gpus[0].is_capable);
        assert_null(node.gpus[0].problem);
        assert_int_equal(node.gpus[1].index, 1);
        assert_string_equal(node.gpus[1].uuid, "GPU-h100");
        assert_string_equal(node.gpus[1].name, "NVIDIA H100 80GB HBM3");
        assert_string_equal(node.gpus[1].bus_id, "00000000:3B:00.0");
        assert_int_equal(node.gpus[1].pci_device, 0x233010DE);
        assert_int_equal(node.gpus[1].pci_subsystem & 0xffff, 0x10DE);
        assert_true(node.gpus[1].is_capable);
        assert_true(node.gpus[1].geometry.is_enabled);
        assert_int_equal(node.gpus[1].geometry.n_instances, 1);
        assert_true(node.gpus[2].is_capable);
        assert_false(node.gpus[2].geometry.is_enabled);
        assert_int_equal(node.gpus[2].geometry.n_profiles, 5);
}

static void test_a_gpu_that_cannot_be_read_keeps_its_place_and_says_why(void **state UNUSED)
{
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node node;

        node_read(&node, &arena, &nvml,
                "gpus:\n- {model: A30, uuid: GPU-lost, lost: true}\n"
                "- {model: A30, uuid: GPU-bad, mig: {enabled: true}, errors: {nvmlDeviceGetGpuInstances: TIMEOUT}}\n"
                "- {model: A30, uuid: GPU-good}\n");
        assert_int_equal(node.n_gpus, 3);
        assert_string_equal(node.gpus[0].uuid, "");
        assert_non_null(strstr(node.gpus[0].problem, "(GPU_IS_LOST)"));
        assert_false(node.gpus[0].is_capable);
        assert_true(node.gpus[1].is_capable);
        assert_string_equal(node.gpus[1].uuid, "GPU-bad");
        assert_non_null(strstr(node.gpus[1].problem, "nvmlDeviceGetGpuInstances"));
        assert_int_equal(node.gpus[2].index, 2);
        assert_null(node.gpus[2].problem);
}

static void test_a_driver_without_mig_has_gpus_without_mig(void **state UNUSED)
{
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_node node;

        node_read(&node, &arena, &nvml,
                "gpus: [{model: A30, uuid: GPU-a30, errors: {nvmlDeviceGetMigMode: FUNCTION_NOT_FOUND}}]");
        assert_false(node.gpus[0].is_capable);
        assert_null(node.gpus[0].problem);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_node_has_all_gpus_that_nvml_counts_with_what_a_device_filter_asks_for),
                cmocka_unit_test(test_a_gpu_that_cannot_be_read_keeps_its_place_and_says_why),
                cmocka_unit_test(test_a_driver_without_mig_has_gpus_without_mig),
        };

        return cmocka_run_group_tests_name("mig/node", tests, scenario_setup, scenario_teardown);
}
