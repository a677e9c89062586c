// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "mig/view.h"

#define GIB (1ULL << 30)

/* As some drivers of 535 write it. */
struct long_record {
        nvmlProcessInfo_t info;
        unsigned long long more;
};

static nvmlReturn_t find_device(const char *uuid, nvmlDevice_t *ret)
{
        *ret = (nvmlDevice_t)(uintptr_t)uuid;
        return NVML_SUCCESS;
}

static nvmlReturn_t list_long(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_t *processes)
{
        const struct long_record records[] = {{{101, GIB, NVML_NO_INSTANCE, NVML_NO_INSTANCE}, 0},
                {{102, GIB, NVML_NO_INSTANCE, NVML_NO_INSTANCE}, 0}};

        memcpy(processes, records, sizeof(records));
        *count = 2;
        return NVML_SUCCESS;
}

static nvmlReturn_t list_old(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_v1_t *processes)
{
        processes[0] = (nvmlProcessInfo_v1_t){103, GIB};
        *count = 1;
        return NVML_SUCCESS;
}

static nvmlReturn_t list_nonsense(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_t *processes)
{
        memset(processes, 0xa5, sizeof(*processes));
        *count = 1;
        return NVML_SUCCESS;
}

/* The error of a change of the GPU's MIG mode; "": there is none. */
static const char *check(const struct nvml *nvml, struct error *err)
{
        const struct mig_node_gpu gpu = {.uuid = "GPU-1", .is_capable = true};
        const struct mig_wanted wanted = {.is_named = true, .is_enabled = true};
        const struct mig_plan_gpu planned = {.gpu = &gpu, .wanted = &wanted, .changes = true, .changes_mode = true};
        const struct mig_plan plan = {.gpus = &planned, .n_gpus = 1, .fits = true, .changes = true};

        return mig_users_check(nvml, &plan, err) < 0 ? err->text : "";
}

static void test_users_are_found_in_the_records_of_any_driver(void **state UNUSED)
{
        const struct nvml with_long = {
                .functions = {.device_get_by_uuid = find_device, .device_get_processes = list_long}};
        const struct nvml old = {.functions = {.device_get_by_uuid = find_device, .device_get_processes_v1 = list_old}};
        struct error err;

        assert_string_equal(check(&with_long, &err), "GPU 0 (GPU-1): its MIG mode changes: used by processes 101, 102");
        assert_string_equal(check(&old, &err), "GPU 0 (GPU-1): its MIG mode changes: used by process 103");
}

static void test_a_driver_without_lists_has_no_users_that_could_be_seen(void **state UNUSED)
{
        const struct nvml nvml = {.functions = {.device_get_by_uuid = find_device}};
        struct error err;

        assert_string_equal(check(&nvml, &err), "");
}

static void test_records_that_make_no_sense_are_no_proof_of_an_idle_gpu(void **state UNUSED)
{
        const struct nvml nvml = {
                .functions = {.device_get_by_uuid = find_device, .device_get_processes = list_nonsense}};
        struct error err;

        assert_non_null(strstr(check(&nvml, &err), "nvmlDeviceGetComputeRunningProcesses"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_users_are_found_in_the_records_of_any_driver),
                cmocka_unit_test(test_a_driver_without_lists_has_no_users_that_could_be_seen),
                cmocka_unit_test(test_records_that_make_no_sense_are_no_proof_of_an_idle_gpu),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
