// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include <string.h>

static const char one_t4[] = "gpus: [{model: T4}]\n";

static nvmlReturn_t init(struct sim *sim)
{
        return sim->nvmlInit_v2();
}

static void test_no_variable_is_no_driver_and_says_so(void **state)
{
        struct sim *sim = *state;

        unsetenv("WARPSHARE_SIM_SCENARIO");
        assert_string_equal(sim_stderr(sim, init, NVML_ERROR_DRIVER_NOT_LOADED),
                "warpshare-nvml-sim: set WARPSHARE_SIM_SCENARIO to the path of a scenario; until then there is no driver\n");
        assert_string_equal(sim_stderr(sim, init, NVML_ERROR_DRIVER_NOT_LOADED), "");
        setenv("WARPSHARE_SIM_SCENARIO", sim->path, 1);
}

static void test_a_missing_file_fails_init_with_its_name(void **state)
{
        struct sim *sim = *state;

        unlink(sim->path);
        assert_non_null(
                strstr(sim_stderr(sim, init, NVML_ERROR_UNKNOWN), "scenario.yaml': No such file or directory\n"));
}

static void test_init_is_counted(void **state)
{
        struct sim *sim = *state;
        unsigned int count = 0;

        sim_start(sim, one_t4);
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS));
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCount_v2(&count));
        assert_int_equal(count, 1);
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_ERROR_UNINITIALIZED, sim->nvmlShutdown());
}

static void test_nothing_answers_before_init(void **state)
{
        struct sim *sim = *state;
        unsigned int number;
        nvmlDevice_t device;
        char text[80];

        assert_nvml(NVML_ERROR_UNINITIALIZED, sim->nvmlDeviceGetCount_v2(&number));
        assert_nvml(NVML_ERROR_UNINITIALIZED, sim->nvmlDeviceGetHandleByIndex_v2(0, &device));
        assert_nvml(NVML_ERROR_UNINITIALIZED, sim->nvmlSystemGetDriverVersion(text, sizeof(text)));
        assert_string_equal(sim->nvmlErrorString(NVML_ERROR_UNINITIALIZED), "Uninitialized");
}

static void test_versions_are_the_scenarios(void **state)
{
        struct sim *sim = *state;
        char text[80];
        int cuda;

        sim_start(sim, "driverVersion: 580.95.05\ncudaVersion: \"13.1\"\ngpus: []\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetDriverVersion(text, sizeof(text)));
        assert_string_equal(text, "580.95.05");
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetNVMLVersion(text, sizeof(text)));
        assert_string_equal(text, "13.580.95.05");
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetCudaDriverVersion_v2(&cuda));
        assert_int_equal(cuda, 13010);
        assert_nvml(NVML_ERROR_INSUFFICIENT_SIZE, sim->nvmlSystemGetDriverVersion(text, 9));
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetDriverVersion(text, 10));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlSystemGetDriverVersion(NULL, 80));
}

static void test_the_driver_is_the_one_that_was_initialised_until_shutdown(void **state)
{
        struct sim *sim = *state;
        char text[80];

        sim_start(sim, "driverVersion: 550.163.01\ngpus: []\n");
        sim_write(sim, "driverVersion: 580.95.05\ngpus: []\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetDriverVersion(text, sizeof(text)));
        assert_string_equal(text, "550.163.01");
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetNVMLVersion(text, sizeof(text)));
        assert_string_equal(text, "12.550.163.01");
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetDriverVersion(text, sizeof(text)));
        assert_string_equal(text, "580.95.05");
}

static void test_init_fails_as_often_as_the_scenario_says(void **state)
{
        struct sim *sim = *state;

        sim_write(sim, "init: {error: LIB_RM_VERSION_MISMATCH}\ngpus: []\n");
        assert_nvml(NVML_ERROR_LIB_RM_VERSION_MISMATCH, sim->nvmlInit_v2());
        sim_write(sim, "errors: {nvmlInit: {error: DRIVER_NOT_LOADED, times: 2}}\ngpus: []\n");
        assert_nvml(NVML_ERROR_DRIVER_NOT_LOADED, sim->nvmlInit_v2());
        assert_nvml(NVML_ERROR_DRIVER_NOT_LOADED, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
}

static void test_an_unknown_handle_is_refused_not_followed(void **state)
{
        struct sim *sim = *state;
        char text[80];

        sim_start(sim, one_t4);
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetName(NULL, text, sizeof(text)));
        assert_nvml(
                NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetName((nvmlDevice_t)(void *)text, text, sizeof(text)));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlGpuInstanceDestroy((nvmlGpuInstance_t)(void *)text));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlEventSetFree((nvmlEventSet_t)(void *)text));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                SIM_TEST(test_no_variable_is_no_driver_and_says_so),
                SIM_TEST(test_a_missing_file_fails_init_with_its_name),
                SIM_TEST(test_init_is_counted),
                SIM_TEST(test_nothing_answers_before_init),
                SIM_TEST(test_versions_are_the_scenarios),
                SIM_TEST(test_the_driver_is_the_one_that_was_initialised_until_shutdown),
                SIM_TEST(test_init_fails_as_often_as_the_scenario_says),
                SIM_TEST(test_an_unknown_handle_is_refused_not_followed),
        };

        return cmocka_run_group_tests_name("sim/library", tests, sim_setup, sim_teardown);
}
