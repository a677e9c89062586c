// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

static nvmlReturn_t init(struct sim *sim)
{
        return sim->nvmlInit_v2();
}

static nvmlReturn_t count(struct sim *sim)
{
        unsigned int number;

        return sim->nvmlDeviceGetCount_v2(&number);
}

/* The text after the name of the file. */
static const char *complaint(struct sim *sim, const char *scenario)
{
        const char *text;
        const char *found;

        sim_write(sim, scenario);
        text = sim_stderr(sim, init, NVML_ERROR_UNKNOWN);
        found = strstr(text, "scenario.yaml'");
        return found ? found + strlen("scenario.yaml'") : text;
}

static void test_a_bad_scenario_is_refused_with_line_path_and_reason(void **state)
{
        static const struct {
                const char *scenario;
                const char *complaint;
        } table[] = {
                {"gpu: []\n", " line 1: gpu: unknown key, did you mean 'gpus'?\n"},
                {"\n- a\n", " line 2: must be a map\n"},
                {"gpus:\n- model: T4\n- model: V200\n",
                        " line 3: gpus[1].model: must be one of V100-32GB, T4, A30, A100-40GB, A100-80GB, L40S, H100-80GB, H200, GB200, RTX-PRO-6000, V100-16GB, A2, A10, A10G, A16, A40, A6000, A800-80GB, L4, L40, RTX-4090, H100-NVL, H20, GH200, B200, B300, GB300, RTX-5090, GB10, Thor\n"},
                {"gpus:\n- T4\n", " line 2: gpus[0]: must be a map\n"},
                {"gpus:\n- model: T4\n  temprature: 3\n",
                        " line 3: gpus[0].temprature: unknown key, did you mean 'temperature'?\n"},
                {"gpus:\n- model: T4\n  temperature: hot\n",
                        " line 3: gpus[0].temperature: must be a whole number from 0 to 200\n"},
                {"gpus:\n- model: T4\n  memory: 4GB\n",
                        " line 3: gpus[0].memory: must be bytes, or a number with KiB, MiB, GiB or TiB\n"},
                {"gpus:\n- model: T4\n  mig: {enabled: true}\n", " line 3: gpus[0].mig: T4 has no MIG\n"},
                {"gpus:\n- model: T4\n  nvlink: all\n", " line 3: gpus[0].nvlink: T4 has no NVLink\n"},
                {"gpus:\n- model: T4\n  count: 2\n  uuid: GPU-1\n",
                        " line 4: gpus[0].uuid: cannot be the same for 2 GPUs\n"},
                {"gpus:\n- {model: T4, uuid: GPU-1}\n- {model: T4, uuid: GPU-1}\n",
                        " line 3: gpus[1]: the uuid of GPU 1 is that of GPU 0\n"},
                {"gpus:\n- {model: T4, count: 65}\n", " line 2: gpus[0].count: must be a whole number from 0 to 64\n"},
                {"gpus:\n- {model: T4, count: 2, numa: [0]}\n", " line 2: gpus[0].numa: has 1 nodes for 2 GPUs\n"},
                {"gpus:\n- model: T4\n  errors:\n    nvmlDeviceGetNmae: UNKNOWN\n",
                        " line 4: gpus[0].errors.nvmlDeviceGetNmae: no NVML function, did you mean 'nvmlDeviceGetName'?\n"},
                {"errors:\n  nvmlInit: OOPS\ngpus: []\n", " line 2: errors.nvmlInit: no NVML error: 'OOPS'\n"},
                {"delays:\n  nvmlInit: 5\ngpus: []\n",
                        " line 2: delays.nvmlInit: must be a time such as 200ms or 2s, at most 600s\n"},
                {"gpus:\n- model: A100-40GB\n  mig:\n    devices:\n    - {profile: 1g.10gb+me}\n",
                        " line 5: gpus[0].mig.devices[0].profile: A100-40GB has no profile '1g.10gb+me'\n"},
                {"gpus:\n- model: A100-40GB\n  mig:\n    devices:\n    - {profile: 4g.20gb}\n    - {profile: 4g.20gb}\n",
                        " line 6: gpus[0].mig.devices[1].profile: no room for 4g.20gb\n"},
                {"gpus:\n- model: A100-40GB\n  mig:\n    devices:\n    - {profile: 2g.10gb, start: 1}\n",
                        " line 5: gpus[0].mig.devices[0].start: 2g.10gb cannot be at 1 here\n"},
                {"gpus: [{model: T4}]\nevents:\n- {gpu: 1, xid: 79}\n",
                        " line 3: events[0].gpu: must be a GPU, by position or uuid\n"},
                {"gpus: [{model: T4}]\nevents:\n- {gpu: 0}\n",
                        " line 3: events[0].xid: must be there for type xid, and only then\n"},
                {"gpus: [{model: T4}]\ntopology:\n- {gpus: [0, 0], level: SYS}\n",
                        " line 3: topology[0].gpus: must be two GPUs, by position or uuid\n"},
                {"gpus: []\ncudaVersion: \"12\"\n", " line 2: cudaVersion: must be quoted and like \"12.2\"\n"},
                {"gpus: []\ngpus: []\n", " line 2: key 'gpus' is there already (line 1); the last one counts\n"},
        };
        struct sim *sim = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_string_equal(complaint(sim, table[i].scenario), table[i].complaint);
}

static void test_an_empty_file_is_no_scenario(void **state)
{
        struct sim *sim = *state;

        assert_string_equal(complaint(sim, ""), ": must be a map\n");
}

static void test_a_bad_edit_keeps_the_last_good_scenario_and_is_reported_once(void **state)
{
        struct sim *sim = *state;
        unsigned int number;
        const char *text;

        sim_start(sim, "gpus: [{model: T4, count: 3}]\n");
        assert_nvml(NVML_SUCCESS, count(sim));
        sim_write(sim, "gpus: [{model: T5}]\n");
        text = sim_stderr(sim, count, NVML_SUCCESS);
        assert_non_null(strstr(text, "line 1: gpus[0].model: must be one of"));
        assert_non_null(strstr(text, "; the last good scenario stays\n"));
        assert_string_equal(sim_stderr(sim, count, NVML_SUCCESS), "");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCount_v2(&number));
        assert_int_equal(number, 3);
        sim_write(sim, "gpus: [{model: T4, minor: 9}]\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMinorNumber(sim_gpu(sim, 0), &number));
        assert_int_equal(number, 9);
        sim_write(sim, "gpus: [{model: T5}]\n");
        assert_string_not_equal(sim_stderr(sim, count, NVML_SUCCESS), "");
}

static void test_a_gpu_keeps_handle_and_mode_when_the_file_changes(void **state)
{
        struct sim *sim = *state;
        nvmlComputeMode_t mode;
        nvmlDevice_t first;
        nvmlDevice_t found;
        char name[64];

        sim_start(sim, "gpus: [{model: T4, uuid: GPU-a}, {model: T4, uuid: GPU-b}]");
        first = sim_gpu(sim, 0);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetComputeMode(first, NVML_COMPUTEMODE_PROHIBITED));
        sim_write(sim, "gpus: [{model: T4, uuid: GPU-b}, {model: T4, uuid: GPU-a, name: Renamed}]");
        assert_ptr_equal(sim_gpu(sim, 0), first);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetName(first, name, sizeof(name)));
        assert_string_equal(name, "Renamed");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(first, &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_PROHIBITED);
        sim_write(sim, "gpus: [{model: T4, uuid: GPU-b}, {model: T4, uuid: GPU-a, present: false}]");
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetName(first, name, sizeof(name)));
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetHandleByUUID("GPU-a", &found));
        sim_write(sim, "gpus: [{model: T4, uuid: GPU-b}]");
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetName(first, name, sizeof(name)));
        sim_write(sim, "gpus: [{model: T4, uuid: GPU-a, computeMode: default}]");
        assert_ptr_equal(sim_gpu(sim, 0), first);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(first, &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_DEFAULT);
}

static void test_gpus_are_counted_when_the_library_is_initialised(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t device;
        unsigned int number;
        char uuid[80];

        sim_start(sim, "gpus: [{model: T4, uuid: GPU-a}, {model: T4, uuid: GPU-b}]");
        device = sim_gpu(sim, 0);
        sim_write(sim, "gpus: [{model: T4, uuid: GPU-c}, {model: T4, uuid: GPU-b}]");
        /* Another nvmlInit of the same process changes nothing while the first one lasts. */
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCount_v2(&number));
        assert_int_equal(number, 2);
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetHandleByIndex_v2(0, &device));
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetHandleByUUID("GPU-c", &device));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetHandleByIndex_v2(2, &device));
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCount_v2(&number));
        assert_int_equal(number, 2);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_gpu(sim, 0), uuid, sizeof(uuid)));
        assert_string_equal(uuid, "GPU-c");
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetHandleByUUID("GPU-a", &device));
}

static void test_mig_devices_that_stay_keep_their_handles(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t stays;
        nvmlDevice_t goes;
        char uuid[80];

        sim_start(sim,
                "gpus:\n- model: A30\n  mig:\n    devices: [{profile: 2g.12gb, start: 0}, {profile: 1g.6gb, start: 2}]\n");
        stays = sim_mig(sim, 0, 0);
        goes = sim_mig(sim, 0, 1);
        sim_write(sim,
                "gpus:\n- model: A30\n  mig:\n    devices: [{profile: 1g.6gb, start: 3}, {profile: 2g.12gb, start: 0}]\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(stays, uuid, sizeof(uuid)));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetUUID(goes, uuid, sizeof(uuid)));
        assert_ptr_equal(sim_mig(sim, 0, 0), stays);
        assert_ptr_not_equal(sim_mig(sim, 0, 1), goes);
}

static void test_a_lost_gpu_answers_nothing_else(void **state)
{
        struct sim *sim = *state;
        nvmlMemory_t memory;
        nvmlDevice_t gpu;
        unsigned int number;

        sim_start(sim, "gpus: [{model: T4, count: 2}]");
        gpu = sim_gpu(sim, 1);
        sim_write(sim, "gpus: [{model: T4}, {model: T4, lost: true}]");
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetMemoryInfo(gpu, &memory));
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetIndex(gpu, &number));
        assert_nvml(NVML_ERROR_GPU_IS_LOST, sim->nvmlDeviceGetHandleByIndex_v2(1, &gpu));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCount_v2(&number));
        assert_int_equal(number, 2);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(sim_gpu(sim, 0), &memory));
}

static void test_errors_come_after_and_so_many_times(void **state)
{
        static const nvmlReturn_t expected[] = {
                NVML_SUCCESS, NVML_SUCCESS, NVML_ERROR_TIMEOUT, NVML_ERROR_TIMEOUT, NVML_SUCCESS, NVML_SUCCESS};
        struct sim *sim = *state;
        nvmlMemory_v2_t second = {.version = NVML_MEMORY_V2};
        nvmlMemory_t memory;
        unsigned int number;

        sim_start(sim, "gpus:\n- {model: T4}\n- model: T4\n  errors:\n"
                       "    nvmlDeviceGetMinorNumber: {error: TIMEOUT, after: 2, times: 2}\n"
                       "    nvmlDeviceGetMemoryInfo: NVML_ERROR_UNKNOWN\n");
        for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
                assert_nvml(expected[i], sim->nvmlDeviceGetMinorNumber(sim_gpu(sim, 1), &number));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(sim_gpu(sim, 0), &memory));
        assert_nvml(NVML_ERROR_UNKNOWN, sim->nvmlDeviceGetMemoryInfo(sim_gpu(sim, 1), &memory));
        assert_nvml(NVML_ERROR_UNKNOWN, sim->nvmlDeviceGetMemoryInfo_v2(sim_gpu(sim, 1), &second));
}

static int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void test_a_delay_is_taken_by_its_call_alone(void **state)
{
        struct sim *sim = *state;
        int64_t start;
        char text[80];

        sim_start(sim, "gpus:\n- model: T4\n  delays: {nvmlDeviceGetName: 1s}\n");
        start = now_ms();
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_gpu(sim, 0), text, sizeof(text)));
        assert_in_range(now_ms() - start, 0, 900);
        start = now_ms();
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetName(sim_gpu(sim, 0), text, sizeof(text)));
        assert_in_range(now_ms() - start, 999, 60000);
}

static void *get_name(void *data)
{
        struct sim *sim = data;
        char text[80];

        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetName(sim_gpu(sim, 0), text, sizeof(text)));
        return NULL;
}

static void test_a_delay_ends_when_the_file_does_not_want_it_any_more(void **state)
{
        struct sim *sim = *state;
        pthread_t thread;

        sim_start(sim, "gpus:\n- model: T4\n  delays: {nvmlDeviceGetName: 600s}\n");
        assert_int_equal(pthread_create(&thread, NULL, get_name, sim), 0);
        usleep(100000);
        /* Another edit leaves it alone. */
        sim_write(sim, "gpus:\n- model: T4\n  temperature: 50\n  delays: {nvmlDeviceGetName: 600s}\n");
        usleep(200000);
        assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
        sim_write(sim, "gpus:\n- model: T4\n");
        assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_a_delay_may_block_every_other_call(void **state)
{
        struct sim *sim = *state;
        int64_t longest = 0;
        char text[80];
        pthread_t thread;

        sim_start(sim, "gpus:\n- model: T4\n  delays: {nvmlDeviceGetName: {time: 1s, blocks: true}}\n");
        assert_int_equal(pthread_create(&thread, NULL, get_name, sim), 0);
        while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
                int64_t start = now_ms();

                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_gpu(sim, 0), text, sizeof(text)));
                longest = MAX(longest, now_ms() - start);
        }
        assert_in_range(longest, 500, 60000);
}

/* Two writes of one size within one tick of the file system's clock, in place: only the content tells them apart. */
static void test_a_quick_second_edit_of_the_same_size_is_seen(void **state)
{
        struct sim *sim = *state;

        for (unsigned int i = 0; i < 20; i++) {
                unsigned int minor;
                FILE *file = fopen(sim->path, "r+");

                assert_non_null(file);
                fprintf(file, "gpus: [{model: T4, minor: %u}]", 100 + i);
                fclose(file);
                if (i == 0)
                        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMinorNumber(sim_gpu(sim, 0), &minor));
                assert_int_equal(minor, 100 + i);
        }
}

static void test_every_scenario_that_is_shipped_loads(void **state)
{
        static const struct {
                const char *name;
                unsigned int gpus;
        } table[] = {{"v100x4", 4}, {"a100-mig", 2}, {"h100x8-nvswitch", 8}, {"h200", 1}, {"mixed", 3}, {"gb200x4", 4},
                {"broken", 4}};
        const char *folder = getenv("SIM_SCENARIOS");
        struct sim *sim = *state;

        assert_non_null(folder);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *path = xasprintf("%s/%s.yaml", folder, table[i].name);
                unsigned int number = 0;

                setenv("WARPSHARE_SIM_SCENARIO", path, 1);
                assert_string_equal(sim_stderr(sim, init, NVML_SUCCESS), "");
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCount_v2(&number));
                assert_int_equal(number, table[i].gpus);
                assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        }
        setenv("WARPSHARE_SIM_SCENARIO", sim->path, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                SIM_TEST(test_a_bad_scenario_is_refused_with_line_path_and_reason),
                SIM_TEST(test_an_empty_file_is_no_scenario),
                SIM_TEST(test_a_bad_edit_keeps_the_last_good_scenario_and_is_reported_once),
                SIM_TEST(test_a_gpu_keeps_handle_and_mode_when_the_file_changes),
                SIM_TEST(test_gpus_are_counted_when_the_library_is_initialised),
                SIM_TEST(test_mig_devices_that_stay_keep_their_handles),
                SIM_TEST(test_a_lost_gpu_answers_nothing_else),
                SIM_TEST(test_errors_come_after_and_so_many_times),
                SIM_TEST(test_a_delay_is_taken_by_its_call_alone),
                SIM_TEST(test_a_delay_ends_when_the_file_does_not_want_it_any_more),
                SIM_TEST(test_a_delay_may_block_every_other_call),
                SIM_TEST(test_a_quick_second_edit_of_the_same_size_is_seen),
                SIM_TEST(test_every_scenario_that_is_shipped_loads),
        };

        return cmocka_run_group_tests_name("sim/scenario", tests, sim_setup, sim_teardown);
}
