// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include <string.h>

static const char split[] = "gpus:\n- model: A100-40GB\n  mig:\n    devices:\n    - {profile: 1c.3g.20gb, gi: 2}\n"
                            "    - {profile: 2c.3g.20gb, gi: 2}\n    - {profile: 1g.5gb, uuid: MIG-mine}\n"
                            "  processes: [{pid: 5, memory: 1GiB, gi: 2, ci: 1}]\n";

static void test_a_mig_device_reports_its_share(void **state)
{
        struct sim *sim = *state;
        nvmlDeviceAttributes_t attributes;
        nvmlMemory_t memory;
        nvmlDevice_t device;
        nvmlDevice_t parent;
        unsigned int number;
        char text[96];

        sim_start(sim, split);
        device = sim_mig(sim, 0, 1);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetName(device, text, sizeof(text)));
        assert_string_equal(text, "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceId(device, &number));
        assert_int_equal(number, 2);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeInstanceId(device, &number));
        assert_int_equal(number, 1);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetAttributes_v2(device, &attributes));
        assert_int_equal(attributes.multiprocessorCount, 28);
        assert_int_equal(attributes.gpuInstanceSliceCount, 3);
        assert_int_equal(attributes.computeInstanceSliceCount, 2);
        assert_int_equal(attributes.memorySizeMB, 20096);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(device, &memory));
        assert_int_equal(memory.total >> 20, 20096);
        assert_int_equal(memory.used >> 20, 1024);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, &parent));
        assert_ptr_equal(parent, sim_gpu(sim, 0));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceIsMigDeviceHandle(device, &number));
        assert_int_equal(number, 1);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleByUUID("MIG-mine", &device));
        assert_ptr_equal(device, sim_mig(sim, 0, 2));
}

static void test_a_mig_device_refuses_what_only_a_gpu_has(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t device;
        nvmlEventSet_t set;
        nvmlPciInfo_t pci;
        unsigned int number;

        sim_start(sim, split);
        device = sim_mig(sim, 0, 0);
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetMinorNumber(device, &number));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetPciInfo_v3(device, &pci));
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetCreate(&set));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT,
                sim->nvmlDeviceRegisterEvents(device, NVML_EVENT_TYPE_XID_CRITICAL_ERROR, set));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetGpuInstanceId(sim_gpu(sim, 0), &number));
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 3, &device));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 7, &device));
}

static void test_processes_belong_to_their_compute_instance(void **state)
{
        struct sim *sim = *state;
        nvmlProcessInfo_t infos[2];
        unsigned int count = 2;

        sim_start(sim, split);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_mig(sim, 0, 0), &count, infos));
        assert_int_equal(count, 0);
        count = 2;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_mig(sim, 0, 1), &count, infos));
        assert_int_equal(count, 1);
        assert_int_equal(infos[0].gpuInstanceId, 2);
        assert_int_equal(infos[0].computeInstanceId, 1);
}

/* The order that the MIG user guide shows for `nvidia-smi mig -cgi 19,19,…`. */
static void test_seven_small_instances_fill_a_gpu_from_its_odd_end(void **state)
{
        static const unsigned int starts[] = {6, 4, 5, 0, 1, 2, 3};
        struct sim *sim = *state;
        nvmlGpuInstance_t instance;
        nvmlGpuInstanceInfo_t info;
        unsigned int room;

        sim_start(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}]");
        for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceRemainingCapacity(sim_gpu(sim, 0), 19, &room));
                assert_int_equal(room, 7 - i);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 19, &instance));
                assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceGetInfo(instance, &info));
                assert_int_equal(info.placement.start, starts[i]);
                assert_int_equal(info.id, 7 + starts[i]);
        }
        assert_nvml(
                NVML_ERROR_INSUFFICIENT_RESOURCES, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 19, &instance));
}

static void test_a_badly_placed_small_instance_keeps_a_large_one_out(void **state)
{
        struct sim *sim = *state;
        nvmlGpuInstancePlacement_t place = {.start = 0, .size = 1};
        nvmlGpuInstance_t small;
        nvmlGpuInstance_t large;

        sim_start(sim, "gpus: [{model: H100-80GB, mig: {enabled: true}}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstanceWithPlacement(sim_gpu(sim, 0), 19, &place, &small));
        assert_nvml(NVML_ERROR_INSUFFICIENT_RESOURCES, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 5, &large));
        assert_nvml(NVML_ERROR_INSUFFICIENT_RESOURCES,
                sim->nvmlDeviceCreateGpuInstanceWithPlacement(sim_gpu(sim, 0), 19, &place, &large));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 9, &large));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceDestroy(small));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlGpuInstanceDestroy(small));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 5, &large));
}

static void test_a_compute_instance_is_a_mig_device(void **state)
{
        struct sim *sim = *state;
        nvmlComputeInstance_t computes[3];
        nvmlComputeInstanceInfo_t info;
        nvmlGpuInstance_t instance;
        nvmlDevice_t device;
        nvmlDevice_t gpu;
        char uuid[80];

        sim_start(sim, "gpus: [{model: A30, mig: {enabled: true}}]");
        gpu = sim_gpu(sim, 0);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(gpu, 5, &instance));
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &device));
        for (size_t i = 0; i < 2; i++)
                assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceCreateComputeInstance(instance, 0, &computes[i]));
        assert_nvml(NVML_ERROR_INSUFFICIENT_RESOURCES,
                sim->nvmlGpuInstanceCreateComputeInstance(instance, 0, &computes[2]));
        device = sim_mig(sim, 0, 1);
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceGetInfo_v2(computes[1], &info));
        assert_int_equal(info.id, 1);
        assert_ptr_equal(info.device, gpu);
        assert_nvml(NVML_ERROR_IN_USE, sim->nvmlGpuInstanceDestroy(instance));
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceDestroy(computes[0]));
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceDestroy(computes[1]));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceDestroy(instance));
}

static void test_profiles_end_and_have_gaps(void **state)
{
        struct sim *sim = *state;
        nvmlGpuInstanceProfileInfo_v2_t second = {.version = NVML_GPU_INSTANCE_PROFILE_INFO_V2};
        nvmlGpuInstanceProfileInfo_v3_t third = {.version = NVML_GPU_INSTANCE_PROFILE_INFO_V3};
        nvmlGpuInstanceProfileInfo_v2_t *argument = (nvmlGpuInstanceProfileInfo_v2_t *)(void *)&third;
        nvmlGpuInstancePlacement_t placements[8];
        unsigned int count = 0;
        nvmlDevice_t gpu;

        sim_start(sim, "gpus: [{model: H100-80GB, mig: {enabled: true}}, {model: T4}]");
        gpu = sim_gpu(sim, 0);
        assert_nvml(NVML_SUCCESS,
                sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, &second));
        assert_string_equal(second.name, "MIG 1g.10gb+me");
        assert_int_equal(second.id, 20);
        assert_int_equal(second.instanceCount, 1);
        assert_nvml(NVML_SUCCESS,
                sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, NVML_GPU_INSTANCE_PROFILE_3_SLICE, argument));
        assert_string_equal(third.name, "MIG 3g.40gb");
        assert_int_equal(third.multiprocessorCount, 60);
        assert_int_equal(third.memorySizeMB, 40448); /* test/fixtures/recorded/mig/sizes.csv */
        assert_nvml(NVML_ERROR_NOT_SUPPORTED,
                sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, NVML_GPU_INSTANCE_PROFILE_8_SLICE, &second));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT,
                sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, NVML_GPU_INSTANCE_PROFILE_COUNT, &second));
        second.version = 1;
        assert_nvml(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 0, &second));
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceGetGpuInstanceProfileInfoV(sim_gpu(sim, 1), 0, &second));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, 14, NULL, &count));
        assert_int_equal(count, 3);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, 14, placements, &count));
        assert_int_equal(placements[2].start, 4);
        assert_int_equal(placements[2].size, 2);
}

static void test_an_old_driver_reports_profiles_only_while_mig_is_on(void **state)
{
        struct sim *sim = *state;
        nvmlGpuInstanceProfileInfo_t info;
        nvmlFieldValue_t value = {.fieldId = NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE};

        sim_start(sim, "driverVersion: 535.261.03\ngpus: [{model: A30}, {model: A30, mig: {enabled: true}}]");
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceGetGpuInstanceProfileInfo(sim_gpu(sim, 0), 0, &info));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceProfileInfo(sim_gpu(sim, 1), 0, &info));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetFieldValues(sim_gpu(sim, 0), 1, &value));
        assert_int_equal(value.value.uiVal, 0);
        sim_start(sim, "driverVersion: 550.163.01\ngpus: [{model: A30}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceProfileInfo(sim_gpu(sim, 0), 0, &info));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetFieldValues(sim_gpu(sim, 0), 1, &value));
        assert_int_equal(value.value.uiVal, 1);
}

static void test_all_media_engines_in_one_instance_leave_none_for_others(void **state)
{
        struct sim *sim = *state;
        nvmlGpuInstanceProfileInfo_v3_t graphics = {.version = NVML_GPU_INSTANCE_PROFILE_INFO_V3};
        nvmlDeviceAttributes_t attributes;
        nvmlGpuInstance_t instance;
        unsigned int room;
        nvmlDevice_t gpu;

        sim_start(sim, "gpus: [{model: RTX-PRO-6000, mig: {devices: [{profile: 1g.24gb+me.all}]}}]");
        gpu = sim_gpu(sim, 0);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetAttributes_v2(sim_mig(sim, 0, 0), &attributes));
        assert_int_equal(attributes.sharedEncoderCount, 4);
        assert_int_equal(attributes.sharedDecoderCount, 4);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 14, &room));
        assert_int_equal(room, 0);
        assert_nvml(NVML_ERROR_INSUFFICIENT_RESOURCES, sim->nvmlDeviceCreateGpuInstance(gpu, 14, &instance));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 67, &room));
        assert_int_equal(room, 3);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(gpu, 67, &instance));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX,
                                          (nvmlGpuInstanceProfileInfo_v2_t *)(void *)&graphics));
        assert_string_equal(graphics.name, "MIG 4g.96gb+gfx");
        assert_int_equal(graphics.id, 32);
        assert_int_equal(graphics.capabilities, NVML_GPU_INSTANCE_PROFILE_CAPS_GFX);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceProfileInfoV(gpu, NVML_GPU_INSTANCE_PROFILE_4_SLICE,
                                          (nvmlGpuInstanceProfileInfo_v2_t *)(void *)&graphics));
        assert_int_equal(graphics.capabilities, 0);
}

static void test_the_profile_with_twice_the_memory_has_a_compute_profile_of_its_own(void **state)
{
        struct sim *sim = *state;
        nvmlComputeInstanceProfileInfo_t info;
        nvmlComputeInstance_t compute;
        nvmlComputeInstanceInfo_t what;
        nvmlGpuInstance_t instance;

        sim_start(sim, "gpus: [{model: H100-80GB, mig: {enabled: true}}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 15, &instance));
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlGpuInstanceGetComputeInstanceProfileInfo(
                                                      instance, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE, 0, &info));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceGetComputeInstanceProfileInfo(
                                          instance, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1, 0, &info));
        assert_int_equal(info.multiprocessorCount, 26);
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceCreateComputeInstance(instance, info.id, &compute));
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceGetInfo_v2(compute, &what));
        assert_int_equal(what.profileId, info.id);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), 19, &instance));
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlGpuInstanceGetComputeInstanceProfileInfo(
                                                      instance, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1, 0, &info));
}

/* A program need not be told: mode and layout are the file's, while it runs. */
static void test_mode_and_layout_follow_the_file(void **state)
{
        struct sim *sim = *state;
        unsigned int current;
        unsigned int pending;
        nvmlDevice_t device;
        char uuid[80];

        sim_start(sim, "gpus: [{model: A100-40GB}]");
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 0, &device));
        sim_write(sim, "gpus: [{model: A100-40GB, mig: {devices: [{profile: 3g.20gb}, {profile: 1g.5gb}]}}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMigMode(sim_gpu(sim, 0), &current, &pending));
        assert_int_equal(current, NVML_DEVICE_MIG_ENABLE);
        device = sim_mig(sim, 0, 1);
        sim_write(sim, "gpus: [{model: A100-40GB, mig: {devices: [{profile: 3g.20gb}]}}]");
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
        device = sim_mig(sim, 0, 0);
        sim_write(sim, "gpus: [{model: A100-40GB}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMigMode(sim_gpu(sim, 0), &current, &pending));
        assert_int_equal(current, NVML_DEVICE_MIG_DISABLE);
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
}

static void test_ampere_needs_a_reset_for_mig_and_hopper_none(void **state)
{
        struct sim *sim = *state;
        nvmlReturn_t activation;
        unsigned int current;
        unsigned int pending;

        sim_start(sim, "gpus: [{model: A100-80GB}, {model: H100-80GB}, {model: T4}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetMigMode(sim_gpu(sim, 0), NVML_DEVICE_MIG_ENABLE, &activation));
        assert_int_equal(activation, NVML_ERROR_RESET_REQUIRED);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMigMode(sim_gpu(sim, 0), &current, &pending));
        assert_int_equal(current, NVML_DEVICE_MIG_DISABLE);
        assert_int_equal(pending, NVML_DEVICE_MIG_ENABLE);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetMigMode(sim_gpu(sim, 1), NVML_DEVICE_MIG_ENABLE, &activation));
        assert_int_equal(activation, NVML_SUCCESS);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMigMode(sim_gpu(sim, 1), &current, &pending));
        assert_int_equal(current, NVML_DEVICE_MIG_ENABLE);
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceGetMigMode(sim_gpu(sim, 2), &current, &pending));
}

/* "Returns zero if MIG is not supported or enabled" (nvml.h). */
static void test_a_gpu_with_mig_off_has_no_mig_devices_at_most(void **state)
{
        static const struct {
                const char *scenario;
                unsigned int most;
        } table[] = {
                {"gpus: [{model: T4}]", 0},
                {"gpus: [{model: A100-40GB}]", 0},
                {"gpus: [{model: A100-40GB, mig: {enabled: false, pending: true}}]", 0},
                {"gpus: [{model: A100-40GB, mig: {enabled: true}}]", 7},
                {"gpus: [{model: A30, mig: {enabled: true}}]", 4},
        };
        struct sim *sim = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                unsigned int most;

                sim_start(sim, table[i].scenario);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMaxMigDeviceCount(sim_gpu(sim, 0), &most));
                assert_int_equal(most, table[i].most);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                SIM_TEST(test_a_mig_device_reports_its_share),
                SIM_TEST(test_a_mig_device_refuses_what_only_a_gpu_has),
                SIM_TEST(test_processes_belong_to_their_compute_instance),
                SIM_TEST(test_seven_small_instances_fill_a_gpu_from_its_odd_end),
                SIM_TEST(test_a_badly_placed_small_instance_keeps_a_large_one_out),
                SIM_TEST(test_a_compute_instance_is_a_mig_device),
                SIM_TEST(test_profiles_end_and_have_gaps),
                SIM_TEST(test_an_old_driver_reports_profiles_only_while_mig_is_on),
                SIM_TEST(test_all_media_engines_in_one_instance_leave_none_for_others),
                SIM_TEST(test_the_profile_with_twice_the_memory_has_a_compute_profile_of_its_own),
                SIM_TEST(test_a_gpu_with_mig_off_has_no_mig_devices_at_most),
                SIM_TEST(test_mode_and_layout_follow_the_file),
                SIM_TEST(test_ampere_needs_a_reset_for_mig_and_hopper_none),
        };

        return cmocka_run_group_tests_name("sim/mig", tests, sim_setup, sim_teardown);
}
