// SPDX-License-Identifier: Apache-2.0
/* The MIG geometry as programs change it: mode, resets, and what several processes of one node see. */
#include "sim.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

#define SMALL 19U /* 1g.5gb */
#define LARGE 9U  /* 3g.20gb */

static void assert_mode(struct sim *sim, unsigned int gpu, unsigned int current, unsigned int pending)
{
        unsigned int is_current;
        unsigned int is_pending;

        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMigMode(sim_gpu(sim, gpu), &is_current, &is_pending));
        assert_int_equal(is_current, current);
        assert_int_equal(is_pending, pending);
}

static void set_mode(struct sim *sim, unsigned int gpu, unsigned int mode, nvmlReturn_t expected)
{
        nvmlReturn_t activation;

        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetMigMode(sim_gpu(sim, gpu), mode, &activation));
        assert_nvml(expected, activation);
}

/* An instance of all its slices: a MIG device. */
static nvmlReturn_t create(struct sim *sim, nvmlDevice_t gpu, unsigned int profile, unsigned int compute)
{
        nvmlComputeInstance_t made;
        nvmlGpuInstance_t instance;
        nvmlReturn_t result = sim->nvmlDeviceCreateGpuInstance(gpu, profile, &instance);

        return result ? result : sim->nvmlGpuInstanceCreateComputeInstance(instance, compute, &made);
}

static void write_shared(struct sim *sim, const char *gpus)
{
        _free_ char *text = xasprintf("geometryFile: %s\n%s", sim->geometry, gpus);

        sim_write(sim, text);
}

static void start_shared(struct sim *sim, const char *gpus)
{
        _free_ char *text = xasprintf("geometryFile: %s\n%s", sim->geometry, gpus);

        sim_start(sim, text);
}

/* Runs |act| in a process of its own, which sees the node as any program does; its result. */
static pid_t begin_process(struct sim *sim, nvmlReturn_t (*act)(struct sim *sim, nvmlDevice_t gpu))
{
        pid_t pid = fork();

        if (pid == 0) {
                nvmlDevice_t gpu;
                nvmlReturn_t result = sim->nvmlDeviceGetHandleByIndex_v2(0, &gpu);

                _exit(result ? (int)result : (int)act(sim, gpu));
        }
        assert_true(pid > 0);
        return pid;
}

static int end_process(pid_t pid)
{
        int status;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void test_a_reset_makes_the_pending_mode_current_and_ends_all_instances(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t device;

        sim_start(sim, "gpus: [{model: A100-40GB}]");
        set_mode(sim, 0, NVML_DEVICE_MIG_ENABLE, NVML_ERROR_RESET_REQUIRED);
        assert_mode(sim, 0, 0, 1);
        sim_write(sim, "gpus: [{model: A100-40GB, resets: 1}]");
        assert_mode(sim, 0, 1, 1);
        assert_nvml(NVML_SUCCESS, create(sim, sim_gpu(sim, 0), LARGE, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE));
        assert_non_null(sim_mig(sim, 0, 0));
        sim_write(sim, "gpus: [{model: A100-40GB, resets: 2}]");
        assert_mode(sim, 0, 1, 1);
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 0, &device));
}

static void test_a_mode_outlives_a_reboot_where_it_needs_a_reset(void **state)
{
        struct sim *sim = *state;

        sim_start(sim, "gpus: [{model: A100-40GB}, {model: H100-80GB}]");
        set_mode(sim, 0, NVML_DEVICE_MIG_ENABLE, NVML_ERROR_RESET_REQUIRED);
        set_mode(sim, 1, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
        assert_mode(sim, 1, 1, 1);
        sim_write(sim, "boots: 1\ngpus: [{model: A100-40GB}, {model: H100-80GB}]");
        assert_mode(sim, 0, 1, 1);
        assert_mode(sim, 1, 0, 0);
}

static void test_a_mode_is_pending_while_the_gpu_is_in_use(void **state)
{
        struct sim *sim = *state;

        sim_start(sim, "gpus: [{model: H100-80GB, processes: [{pid: 5, memory: 1GiB}]}]");
        set_mode(sim, 0, NVML_DEVICE_MIG_ENABLE, NVML_ERROR_IN_USE);
        assert_mode(sim, 0, 0, 1);
        sim_write(sim, "gpus: [{model: H100-80GB}]");
        set_mode(sim, 0, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
        assert_mode(sim, 0, 1, 1);
        assert_nvml(NVML_SUCCESS, create(sim, sim_gpu(sim, 0), SMALL, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE));
        set_mode(sim, 0, NVML_DEVICE_MIG_ENABLE, NVML_SUCCESS);
        set_mode(sim, 0, NVML_DEVICE_MIG_DISABLE, NVML_ERROR_IN_USE);
        assert_mode(sim, 0, 1, 0);
}

static void test_a_process_keeps_its_instance(void **state)
{
        struct sim *sim = *state;
        nvmlComputeInstance_t compute;
        nvmlGpuInstance_t instance;

        sim_start(sim, "gpus:\n- model: A100-40GB\n  mig: {devices: [{profile: 3g.20gb, gi: 2}]}\n"
                       "  processes: [{pid: 5, memory: 1GiB, gi: 2, ci: 0}]\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceById(sim_gpu(sim, 0), 2, &instance));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute));
        assert_nvml(NVML_ERROR_IN_USE, sim->nvmlComputeInstanceDestroy(compute));
        assert_nvml(NVML_ERROR_IN_USE, sim->nvmlGpuInstanceDestroy(instance));
        sim_write(sim, "gpus:\n- model: A100-40GB\n  mig: {devices: [{profile: 3g.20gb, gi: 2}]}\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceDestroy(compute));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceDestroy(instance));
}

static void test_a_mig_device_that_is_made_again_has_another_uuid(void **state)
{
        struct sim *sim = *state;
        nvmlComputeInstance_t compute;
        nvmlGpuInstance_t instance;
        char before[96];
        char after[96];

        sim_start(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceCreateGpuInstance(sim_gpu(sim, 0), LARGE, &instance));
        assert_nvml(NVML_SUCCESS,
                sim->nvmlGpuInstanceCreateComputeInstance(instance, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE, &compute));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_mig(sim, 0, 0), before, sizeof(before)));
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceDestroy(compute));
        assert_nvml(NVML_SUCCESS,
                sim->nvmlGpuInstanceCreateComputeInstance(instance, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE, &compute));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_mig(sim, 0, 0), after, sizeof(after)));
        assert_string_not_equal(before, after);
}

static nvmlReturn_t make_large(struct sim *sim, nvmlDevice_t gpu)
{
        return create(sim, gpu, LARGE, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
}

/* The device that another program made is this one's: known by the same UUID, and to be destroyed. */
static void test_one_process_sees_what_another_made(void **state)
{
        struct sim *sim = *state;
        nvmlComputeInstance_t compute;
        nvmlGpuInstance_t instance;
        char uuid[96];
        char same[96];
        unsigned int id;

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}]");
        assert_int_equal(end_process(begin_process(sim, make_large)), NVML_SUCCESS);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_mig(sim, 0, 0), uuid, sizeof(uuid)));
        assert_int_equal(end_process(begin_process(sim, make_large)), NVML_SUCCESS);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_mig(sim, 0, 0), same, sizeof(same)));
        assert_string_equal(uuid, same);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_mig(sim, 0, 1), same, sizeof(same)));
        assert_string_not_equal(uuid, same);
        assert_int_equal(end_process(begin_process(sim, make_large)), NVML_ERROR_INSUFFICIENT_RESOURCES);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceId(sim_mig(sim, 0, 0), &id));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstanceById(sim_gpu(sim, 0), id, &instance));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute));
        assert_nvml(NVML_SUCCESS, sim->nvmlComputeInstanceDestroy(compute));
        assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceDestroy(instance));
        assert_int_equal(end_process(begin_process(sim, make_large)), NVML_SUCCESS);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_mig(sim, 0, 0), same, sizeof(same)));
        assert_string_not_equal(uuid, same);
}

/* As the driver tells every program that has registered for it. */
static void test_every_process_hears_of_a_change_of_mig(void **state)
{
        struct sim *sim = *state;
        nvmlEventSet_t set = NULL;
        nvmlEventData_t event;
        pid_t maker;

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}, {model: V100-32GB}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetCreate(&set));
        assert_nvml(
                NVML_SUCCESS, sim->nvmlDeviceRegisterEvents(sim_gpu(sim, 0), NVML_EVENT_TYPE_MIG_CONFIG_CHANGE, set));
        assert_nvml(NVML_ERROR_TIMEOUT, sim->nvmlEventSetWait_v2(set, &event, 1));
        maker = begin_process(sim, make_large);
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetWait_v2(set, &event, 10000));
        assert_int_equal(end_process(maker), NVML_SUCCESS);
        assert_int_equal(event.eventType, NVML_EVENT_TYPE_MIG_CONFIG_CHANGE);
        assert_ptr_equal(event.device, sim_gpu(sim, 0));
        assert_int_equal(event.gpuInstanceId, NVML_NO_INSTANCE);
        while (sim->nvmlEventSetWait_v2(set, &event, 1) ==
                NVML_SUCCESS) /* the GPU instance, and its compute instance */
                ;
        assert_nvml(NVML_SUCCESS, make_large(sim, sim_gpu(sim, 0)));
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetWait_v2(set, &event, 0));
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetFree(set));
}

static nvmlReturn_t destroy_first(struct sim *sim, nvmlDevice_t gpu)
{
        nvmlComputeInstance_t compute;
        nvmlGpuInstance_t instance;
        nvmlDevice_t device;
        nvmlReturn_t result;
        unsigned int id;

        result = sim->nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &device);
        result = result ? result : sim->nvmlDeviceGetGpuInstanceId(device, &id);
        result = result ? result : sim->nvmlDeviceGetGpuInstanceById(gpu, id, &instance);
        result = result ? result : sim->nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute);
        result = result ? result : sim->nvmlComputeInstanceDestroy(compute);
        return result ? result : sim->nvmlGpuInstanceDestroy(instance);
}

static void test_a_handle_ends_with_what_another_process_destroyed(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t first;
        nvmlDevice_t second;
        char uuid[96];

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {devices: [{profile: 3g.20gb, count: 2}]}}]");
        first = sim_mig(sim, 0, 0);
        second = sim_mig(sim, 0, 1);
        assert_int_equal(end_process(begin_process(sim, destroy_first)), NVML_SUCCESS);
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetUUID(first, uuid, sizeof(uuid)));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(second, uuid, sizeof(uuid)));
        assert_ptr_equal(sim_mig(sim, 0, 1), second);
}

static void test_a_mig_device_has_one_index_in_all_processes(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t device;

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}]");
        for (size_t i = 0; i < 2; i++)
                assert_int_equal(end_process(begin_process(sim, make_large)), NVML_SUCCESS);
        assert_int_equal(end_process(begin_process(sim, destroy_first)), NVML_SUCCESS);
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 0, &device));
        assert_non_null(sim_mig(sim, 0, 1));
}

static nvmlReturn_t make_small_ones(struct sim *sim, nvmlDevice_t gpu)
{
        nvmlReturn_t result;

        do {
                result = create(sim, gpu, SMALL, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE);
        } while (result == NVML_SUCCESS);
        return result;
}

static void test_processes_that_create_at_once_share_no_placement(void **state)
{
        struct sim *sim = *state;
        nvmlGpuInstance_t instances[7];
        unsigned int taken = 0;
        unsigned int count = 0;
        pid_t pids[4];

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}]");
        for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
                pids[i] = begin_process(sim, make_small_ones);
        for (size_t i = 0; i < ARRAY_SIZE(pids); i++)
                assert_int_equal(end_process(pids[i]), NVML_ERROR_INSUFFICIENT_RESOURCES);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuInstances(sim_gpu(sim, 0), SMALL, instances, &count));
        assert_int_equal(count, 7);
        for (unsigned int i = 0; i < count; i++) {
                nvmlGpuInstanceInfo_t info;

                assert_nvml(NVML_SUCCESS, sim->nvmlGpuInstanceGetInfo(instances[i], &info));
                assert_int_equal(taken >> info.placement.start & 1, 0);
                taken |= 1U << info.placement.start;
                assert_non_null(sim_mig(sim, 0, i));
        }
}

static nvmlReturn_t count_no_device(struct sim *sim, nvmlDevice_t gpu)
{
        nvmlDevice_t device;

        return sim->nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &device);
}

/* A reset that one program has seen is none any more to the next. */
static void test_a_reset_happens_once_to_all_processes(void **state)
{
        struct sim *sim = *state;

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {devices: [{profile: 3g.20gb}]}}]");
        assert_non_null(sim_mig(sim, 0, 0));
        write_shared(sim, "gpus: [{model: A100-40GB, resets: 1, mig: {devices: [{profile: 3g.20gb}]}}]");
        assert_int_equal(end_process(begin_process(sim, count_no_device)), NVML_ERROR_NOT_FOUND);
        assert_int_equal(end_process(begin_process(sim, make_large)), NVML_SUCCESS);
        assert_non_null(sim_mig(sim, 0, 0));
}

static void test_an_edit_of_the_scenario_counts_for_all_processes(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t device;

        start_shared(sim, "gpus: [{model: A100-40GB, mig: {enabled: true}}, {model: A30, mig: {enabled: true}}]");
        assert_int_equal(end_process(begin_process(sim, make_large)), NVML_SUCCESS);
        assert_nvml(NVML_SUCCESS, create(sim, sim_gpu(sim, 1), 0, NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE));
        write_shared(sim, "gpus: [{model: A100-40GB}, {model: A30, mig: {enabled: true}}]");
        assert_int_equal(end_process(begin_process(sim, count_no_device)), NVML_ERROR_NOT_SUPPORTED);
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 0, &device));
        assert_non_null(sim_mig(sim, 1, 0));
}

static nvmlReturn_t initialise(struct sim *sim)
{
        return sim->nvmlInit_v2();
}

static void test_a_geometry_file_without_a_folder_is_an_error_until_there_is_one(void **state)
{
        struct sim *sim = *state;
        _free_ char *folder = xasprintf("%s/folder", sim->folder);
        _free_ char *file = xasprintf("%s/geometry", folder);
        _free_ char *text = xasprintf("geometryFile: %s\ngpus: [{model: A30, mig: {enabled: true}}]", file);
        _free_ char *told = xasprintf("warpshare-nvml-sim: lock '%s': No such file or directory\n", folder);

        while (sim->nvmlShutdown() == NVML_SUCCESS)
                ;
        sim_write(sim, text);
        assert_string_equal(sim_stderr(sim, initialise, NVML_ERROR_UNKNOWN), told);
        assert_int_equal(mkdir(folder, 0755), 0);
        assert_nvml(NVML_SUCCESS, initialise(sim));
        assert_nvml(NVML_SUCCESS, create(sim, sim_gpu(sim, 0), 0, NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE));
        assert_int_equal(unlink(file), 0);
        assert_int_equal(rmdir(folder), 0);
}

static void test_a_call_kills_its_process_before_or_after_its_work(void **state)
{
        static const char *const words[] = {"before", "after"};
        struct sim *sim = *state;

        for (unsigned int i = 0; i < ARRAY_SIZE(words); i++) {
                _free_ char *gpus = xasprintf("gpus:\n- model: A100-40GB\n  mig: {enabled: true}\n"
                                              "  errors: {nvmlGpuInstanceCreateComputeInstance: {kills: %s}}\n",
                        words[i]);
                nvmlDevice_t device;
                int status;

                start_shared(sim, gpus);
                assert_int_equal(waitpid(begin_process(sim, make_large), &status, 0) > 0, 1);
                assert_true(WIFSIGNALED(status));
                assert_int_equal(WTERMSIG(status), SIGKILL);
                assert_nvml(i ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND,
                        sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, 0), 0, &device));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                SIM_TEST(test_a_reset_makes_the_pending_mode_current_and_ends_all_instances),
                SIM_TEST(test_a_mode_outlives_a_reboot_where_it_needs_a_reset),
                SIM_TEST(test_a_mode_is_pending_while_the_gpu_is_in_use),
                SIM_TEST(test_a_process_keeps_its_instance),
                SIM_TEST(test_a_mig_device_that_is_made_again_has_another_uuid),
                SIM_TEST(test_one_process_sees_what_another_made),
                SIM_TEST(test_every_process_hears_of_a_change_of_mig),
                SIM_TEST(test_a_handle_ends_with_what_another_process_destroyed),
                SIM_TEST(test_a_mig_device_has_one_index_in_all_processes),
                SIM_TEST(test_processes_that_create_at_once_share_no_placement),
                SIM_TEST(test_a_reset_happens_once_to_all_processes),
                SIM_TEST(test_an_edit_of_the_scenario_counts_for_all_processes),
                SIM_TEST(test_a_call_kills_its_process_before_or_after_its_work),
                SIM_TEST(test_a_geometry_file_without_a_folder_is_an_error_until_there_is_one),
        };

        return cmocka_run_group_tests_name("sim/mig_geometry", tests, sim_setup, sim_teardown);
}
