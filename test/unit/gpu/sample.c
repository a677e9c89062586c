// SPDX-License-Identifier: Apache-2.0
/* What one reading of a GPU says, on the simulated NVML, with a /proc of the test's own. */
#include "unit.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "gpu/nvml_read.h"
#include "gpu/sample.h"
#include "scenario.h"

#define A "GPU-00000000-0000-4000-8000-00000000000a"
#define MIG_1 "MIG-00000000-0000-4000-8000-000000000001"
#define POD "1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OWN "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define CGROUP "0::/kubepods/burstable/pod" POD "/" ID "\n"
#define GIB (UINT64_C(1) << 30)

static char root[64];

/* A process of that PID, or "self". */
static void put_process(const char *pid, const char *cgroup)
{
        _free_ char *folder = xasprintf("%s/proc/%s", root, pid);
        _free_ char *path = xasprintf("%s/cgroup", folder);
        struct error err;

        assert_true(mkdir(folder, 0700) == 0 || errno == EEXIST);
        assert_ok(file_write(path, cgroup, strlen(cgroup), &err), &err);
}

static struct gpu_samples *read_all(const char *scenario)
{
        const struct gpu_paths paths = {.system_root = root, .driver_root = ""};
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct gpu_samples *samples = gpu_samples_new();
        struct error err;

        scenario_write(scenario);
        assert_ok(nvml_open(&nvml, scenario_library(), "", &err), &err);
        assert_ok(nvml_read(&inventory, nvml, &paths, NULL, &err), &err);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                gpu_samples_add(samples, nvml, &inventory->gpus[i], root, 5000);
        return samples;
}

static const struct gpu_process *find_process(const struct gpu_sample *sample, pid_t pid)
{
        size_t i = 0;

        while (i < sample->n_processes && sample->processes[i].pid != pid)
                i++;
        if (i == sample->n_processes)
                fail_msg("no process %d among %zu", (int)pid, i);
        return &sample->processes[i];
}

static void expect_process(const struct gpu_sample *sample, pid_t pid, unsigned int kinds, uint64_t memory,
        unsigned int sm_percent, unsigned int memory_percent)
{
        const struct gpu_process *process = find_process(sample, pid);

        if (process->kinds != kinds || process->memory != memory || process->sm_percent != sm_percent ||
                process->memory_percent != memory_percent)
                fail_msg("process %d: kinds %u, %llu bytes, SMs %u, memory %u", (int)pid, process->kinds,
                        (unsigned long long)process->memory, process->sm_percent, process->memory_percent);
}

/* The columns of the recorded GB10: name, driver, total memory, reserved memory, ... */
static void test_a_gpu_whose_memory_nvml_does_not_report_keeps_all_else(void **state UNUSED)
{
        FILE *file = fopen(RECORDED "/gpu/gpus.csv", "re");
        char line[512] = "";
        char memory[32];
        char reserved[32];
        _free_ char *scenario = NULL;
        struct gpu_samples *samples;
        const struct gpu_sample *sample;

        assert_non_null(file);
        while (strncmp(line, "NVIDIA GB10,", 12) != 0)
                assert_non_null(fgets(line, sizeof(line), file));
        fclose(file);
        assert_int_equal(sscanf(line, "NVIDIA GB10,%*[^,],%31[^,],%31[^,],", memory, reserved), 2);
        put_process("101", CGROUP);
        scenario = xasprintf("gpus:\n- model: T4\n  name: NVIDIA GB10\n  uuid: " A "\n"
                             "  errors: {nvmlDeviceGetMemoryInfo: %s, nvmlDeviceGetMemoryInfo_v2: %s}\n"
                             "  processes:\n"
                             "  - {pid: 101, memory: 1GiB, type: C, utilization: 40, memoryUtilization: 7}\n",
                memory, reserved);
        samples = read_all(scenario);
        assert_int_equal(samples->n_units, 1);
        sample = &samples->units[0];
        assert_true(sample->values[GPU_MEMORY_TOTAL] == GPU_VALUE_UNKNOWN);
        assert_true(sample->values[GPU_MEMORY_USED] == GPU_VALUE_UNKNOWN);
        assert_true(sample->values[GPU_MEMORY_RESERVED] == GPU_VALUE_UNKNOWN);
        assert_true(sample->values[GPU_TEMPERATURE] != GPU_VALUE_UNKNOWN);
        assert_true(sample->values[GPU_POWER] != GPU_VALUE_UNKNOWN);
        assert_int_equal(sample->n_processes, 1);
        expect_process(sample, 101, GPU_PROCESS_COMPUTE, GIB, 40, 7);
        gpu_samples_free(samples);
}

static void test_a_process_is_there_once_with_the_pod_of_its_cgroup(void **state UNUSED)
{
        struct gpu_samples *samples;
        const struct gpu_sample *sample;

        put_process("101", CGROUP);
        put_process("102", "0::/user.slice/user-1000.slice/session-1.scope\n");
        samples = read_all("gpus:\n- model: T4\n  uuid: " A "\n  processes:\n"
                           "  - {pid: 101, memory: 1GiB, type: C+G, utilization: 40, memoryUtilization: 7}\n"
                           "  - {pid: 102, memory: 2GiB, type: C}\n"
                           "  - {pid: 103, memory: 3GiB, type: G, utilization: 5}\n");
        assert_int_equal(samples->n_units, 1);
        sample = &samples->units[0];
        assert_string_equal(sample->uuid, A);
        assert_true(sample->has_processes);
        assert_int_equal(sample->n_processes, 3);
        expect_process(sample, 101, GPU_PROCESS_COMPUTE | GPU_PROCESS_GRAPHICS, GIB, 40, 7);
        expect_process(sample, 102, GPU_PROCESS_COMPUTE, 2 * GIB, 0, 0); /* without a sample: idle */
        expect_process(sample, 103, GPU_PROCESS_GRAPHICS, 3 * GIB, 5, 0);
        assert_string_equal(find_process(sample, 101)->pod_uid, POD);
        assert_string_equal(find_process(sample, 101)->container_id, ID);
        assert_true(find_process(sample, 102)->is_visible);
        assert_null(find_process(sample, 102)->pod_uid);
        assert_false(find_process(sample, 103)->is_visible); /* in no /proc of ours */
        gpu_samples_free(samples);
}

static void test_the_activity_of_a_client_of_mps_is_unknown_and_that_of_its_server_is_not(void **state UNUSED)
{
        struct gpu_samples *samples =
                read_all("gpus:\n- model: T4\n  uuid: " A "\n  processes:\n"
                         "  - {pid: 101, memory: 1GiB, type: M+C}\n  - {pid: 110, memory: 28MiB, utilization: 90}\n");

        expect_process(&samples->units[0], 101, GPU_PROCESS_COMPUTE | GPU_PROCESS_MPS, GIB, GPU_PERCENT_UNKNOWN,
                GPU_PERCENT_UNKNOWN);
        expect_process(&samples->units[0], 110, GPU_PROCESS_COMPUTE, UINT64_C(28) << 20, 90, 0);
        gpu_samples_free(samples);
}

#define BUSY(errors)                                                                                                   \
        "gpus:\n- model: T4\n  uuid: " A "\n  processes: [{pid: 101, memory: 1GiB, utilization: 40}]\n"                \
        "  errors: {" errors "}\n"

static void test_activity_comes_from_the_call_that_works(void **state UNUSED)
{
        static const struct {
                const char *scenario;
                unsigned int percent;
        } table[] = {
                {BUSY("nvmlDeviceGetProcessUtilization: NOT_SUPPORTED"), 40},
                {BUSY("nvmlDeviceGetProcessesUtilizationInfo: NOT_SUPPORTED"), 40},
                {BUSY("nvmlDeviceGetProcessesUtilizationInfo: FUNCTION_NOT_FOUND"), 40},
                {BUSY("nvmlDeviceGetProcessesUtilizationInfo: NOT_FOUND"), 0}, /* nothing ran */
                {BUSY("nvmlDeviceGetProcessesUtilizationInfo: UNKNOWN, nvmlDeviceGetProcessUtilization: NO_PERMISSION"),
                        GPU_PERCENT_UNKNOWN},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct gpu_samples *samples = read_all(table[i].scenario);

                expect_process(&samples->units[0], 101, GPU_PROCESS_COMPUTE, GIB, table[i].percent,
                        table[i].percent == GPU_PERCENT_UNKNOWN ? GPU_PERCENT_UNKNOWN : 0);
                gpu_samples_free(samples);
        }
}

static void test_a_list_that_fails_is_no_empty_list(void **state UNUSED)
{
        static const struct {
                const char *scenario;
                bool has_processes;
        } table[] = {
                {BUSY("nvmlDeviceGetComputeRunningProcesses: UNKNOWN"), false},
                {BUSY("nvmlDeviceGetMPSComputeRunningProcesses: UNKNOWN"), false},
                {BUSY("nvmlDeviceGetMPSComputeRunningProcesses: NOT_SUPPORTED"), true},
                {BUSY("nvmlDeviceGetGraphicsRunningProcesses: NOT_SUPPORTED"), true},
                {BUSY("nvmlDeviceGetComputeRunningProcesses: NOT_SUPPORTED, nvmlDeviceGetMPSComputeRunningProcesses: "
                      "NOT_SUPPORTED, nvmlDeviceGetGraphicsRunningProcesses: NOT_SUPPORTED"),
                        false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct gpu_samples *samples = read_all(table[i].scenario);

                if (samples->units[0].has_processes != table[i].has_processes)
                        fail_msg("row %zu", i);
                assert_int_equal(samples->units[0].n_processes, table[i].has_processes ? 1 : 0);
                gpu_samples_free(samples);
        }
}

static void test_a_process_in_our_own_container_is_a_pid_of_another_namespace(void **state UNUSED)
{
        struct gpu_samples *samples;

        put_process("101", CGROUP);
        put_process("102", "0::/kubepods/burstable/pod" POD "/" OWN "\n");
        put_process("self", "0::/kubepods/burstable/pod" POD "/" OWN "\n");
        samples = read_all("gpus: [{model: T4, uuid: " A ", processes: [{pid: 101}, {pid: 102}]}]\n");
        assert_true(find_process(&samples->units[0], 101)->is_visible);
        assert_false(find_process(&samples->units[0], 102)->is_visible);
        assert_null(find_process(&samples->units[0], 102)->pod_uid);
        gpu_samples_free(samples);
}

/* ---- values ---- */

static void test_each_value_comes_from_its_call(void **state UNUSED)
{
        static const struct {
                enum gpu_value value;
                uint64_t expected;
        } table[] = {
                {GPU_MEMORY_TOTAL, UINT64_C(81559) << 20},
                {GPU_MEMORY_USED, 5 * GIB},
                {GPU_BUSY, 71},
                {GPU_MEMORY_BUSY, 22},
                {GPU_ENCODER_BUSY, 0},
                {GPU_TEMPERATURE, 50},
                {GPU_MEMORY_TEMPERATURE, 56},
                {GPU_POWER, 400000},
                {GPU_POWER_LIMIT, 700000},
                {GPU_ENERGY, 123456789012},
                {GPU_SM_CLOCK, 1980},
                {GPU_CLOCK_REASONS, 4},
                {GPU_POWER_THROTTLED, UINT64_C(7000000000)},
                {GPU_THERMAL_THROTTLED, UINT64_C(9000000)},
                {GPU_ECC_CORRECTED, 1},
                {GPU_ECC_CORRECTED_AGGREGATE, 2},
                {GPU_ECC_UNCORRECTED, 3},
                {GPU_ECC_UNCORRECTED_AGGREGATE, 4},
                {GPU_REMAPPED_CORRECTED, 5},
                {GPU_REMAPPED_UNCORRECTED, 6},
                {GPU_REMAP_PENDING, 1},
                {GPU_REMAP_FAILED, 0},
                {GPU_PCIE_REPLAYS, 0},
                {GPU_PCIE_SENT, 10},
                {GPU_PCIE_RECEIVED, 20},
                {GPU_NVLINK_SENT, 30},
                {GPU_NVLINK_RECEIVED, 40},
                {GPU_NVLINK_CRC_FLIT, 1},
                {GPU_NVLINK_CRC_DATA, 2},
                {GPU_NVLINK_REPLAY, 3},
                {GPU_NVLINK_RECOVERY, 4},
                {GPU_NVLINK_ECC, 5},
                {GPU_RETIRED_CORRECTED, GPU_VALUE_UNKNOWN},
        };
        struct gpu_samples *samples = read_all(
                "gpus:\n- model: H100-80GB\n  uuid: " A "\n  memoryUsed: 5GiB\n  utilization: {gpu: 71, memory: 22}\n"
                "  temperature: 50\n  power: 400\n  energy: 123456789012\n  clock: 1980\n  clockReasons: 4\n"
                "  throttled: {power: 7000, thermal: 9}\n  pcie: {sent: 10, received: 20}\n"
                "  nvlinkTraffic: {sent: 30, received: 40}\n"
                "  nvlinkErrors: {crcFlit: 1, crcData: 2, replay: 3, recovery: 4, ecc: 5}\n"
                "  ecc: {corrected: {volatile: 1, aggregate: 2}, uncorrected: {volatile: 3, aggregate: 4}}\n"
                "  remappedRows: {corrected: 5, uncorrected: 6, pending: true}\n");

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (samples->units[0].values[table[i].value] != table[i].expected)
                        fail_msg("value %d: %llu", (int)table[i].value,
                                (unsigned long long)samples->units[0].values[table[i].value]);
        gpu_samples_free(samples);
}

static void test_what_a_board_does_not_have_is_unknown(void **state UNUSED)
{
        static const enum gpu_value unknown[] = {GPU_MEMORY_TEMPERATURE, GPU_REMAPPED_CORRECTED, GPU_NVLINK_SENT,
                GPU_NVLINK_RECEIVED, GPU_NVLINK_REPLAY, GPU_NVLINK_ECC};
        struct gpu_samples *samples = read_all("gpus: [{model: T4, uuid: " A "}]\n");

        for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
                if (samples->units[0].values[unknown[i]] != GPU_VALUE_UNKNOWN)
                        fail_msg("value %d is known", (int)unknown[i]);
        assert_true(samples->units[0].values[GPU_TEMPERATURE] != GPU_VALUE_UNKNOWN);
        assert_int_equal(samples->units[0].values[GPU_RETIRED_CORRECTED], 0); /* it retires pages and remaps no rows */
        gpu_samples_free(samples);
}

static void test_processes_of_a_mig_device_are_its_own_and_their_activity_is_unknown(void **state UNUSED)
{
        struct gpu_samples *samples =
                read_all("gpus:\n- model: A100-40GB\n  uuid: " A "\n  utilization: 50\n"
                         "  mig:\n    devices:\n    - {profile: 3g.20gb, gi: 1, ci: 0, uuid: " MIG_1
                         "}\n    - {profile: 3g.20gb, gi: 2, ci: 0}\n"
                         "  processes:\n  - {pid: 101, memory: 1GiB, gi: 1, ci: 0, utilization: 9}\n"
                         "  - {pid: 102, memory: 1GiB, gi: 2, ci: 0}\n");

        assert_int_equal(samples->n_units, 3);
        assert_false(samples->units[0].has_processes);
        assert_true(samples->units[0].values[GPU_BUSY] == GPU_VALUE_UNKNOWN);
        assert_true(samples->units[1].is_mig && samples->units[1].has_processes);
        assert_string_equal(samples->units[1].uuid, MIG_1);
        assert_string_equal(samples->units[1].gpu, A);
        assert_int_equal(samples->units[1].n_processes, 1);
        expect_process(&samples->units[1], 101, GPU_PROCESS_COMPUTE, GIB, GPU_PERCENT_UNKNOWN, GPU_PERCENT_UNKNOWN);
        assert_true(samples->units[1].values[GPU_MEMORY_USED] != GPU_VALUE_UNKNOWN);
        gpu_samples_free(samples);
}

static void test_a_lost_gpu_is_left_out(void **state UNUSED)
{
        struct gpu_samples *samples = read_all("gpus: [{model: T4, lost: true}, {model: T4, uuid: " A "}]\n");

        assert_int_equal(samples->n_units, 1);
        assert_string_equal(samples->units[0].uuid, A);
        gpu_samples_free(samples);
}

/* ---- drivers that do otherwise ---- */

struct long_record {
        nvmlProcessInfo_t info;
        unsigned long long more;
};

static nvmlReturn_t list_long(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_t *processes)
{
        const struct long_record records[] = {{{101, GIB, NVML_NO_INSTANCE, NVML_NO_INSTANCE}, 0},
                {{102, 2 * GIB, NVML_NO_INSTANCE, NVML_NO_INSTANCE}, 0}};

        memcpy(processes, records, sizeof(records));
        *count = 2;
        return NVML_SUCCESS;
}

static nvmlReturn_t list_rubbish(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_t *processes)
{
        processes[0] = (nvmlProcessInfo_t){101, GIB, NVML_NO_INSTANCE, NVML_NO_INSTANCE};
        processes[1] = (nvmlProcessInfo_t){0x7fffffff, GIB, 12345, 67890};
        *count = 2;
        return NVML_SUCCESS;
}

static nvmlReturn_t list_many(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_t *processes UNUSED)
{
        *count = 100000;
        return NVML_ERROR_INSUFFICIENT_SIZE;
}

static nvmlReturn_t list_old(nvmlDevice_t device UNUSED, unsigned int *count, nvmlProcessInfo_v1_t *processes)
{
        processes[0] = (nvmlProcessInfo_v1_t){101, GIB};
        processes[1] = (nvmlProcessInfo_v1_t){102, NVML_VALUE_NOT_AVAILABLE_ULL};
        *count = 2;
        return NVML_SUCCESS;
}

static unsigned long long now_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* Of a process that is in no list, above 100 %, from long ago; and one that is good, after an older one. */
static nvmlReturn_t sample_rubbish(nvmlDevice_t device UNUSED, nvmlProcessUtilizationSample_t *samples,
        unsigned int *count, unsigned long long since UNUSED)
{
        const nvmlProcessUtilizationSample_t all[] = {{.pid = 999, .timeStamp = now_us(), .smUtil = 50},
                {.pid = 101, .timeStamp = now_us(), .smUtil = 3000000000U},
                {.pid = 101, .timeStamp = now_us() - 60000000, .smUtil = 60},
                {.pid = 102, .timeStamp = now_us() - 1000, .smUtil = 30},
                {.pid = 102, .timeStamp = now_us() - 2000, .smUtil = 20}};

        memcpy(samples, all, sizeof(all));
        *count = ARRAY_SIZE(all);
        return NVML_SUCCESS;
}

static struct gpu_sample read_with(const struct nvml *nvml, struct arena *arena)
{
        struct gpu_sample sample = {.has_processes = false};

        gpu_sample_processes(&sample, arena, nvml, NULL, root, 5000);
        return sample;
}

static void test_records_of_another_size_are_recognised(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct nvml nvml = {.functions = {.device_get_processes = list_long}};
        struct gpu_sample sample = read_with(&nvml, &arena);

        assert_int_equal(sample.n_processes, 2);
        expect_process(&sample, 102, GPU_PROCESS_COMPUTE, 2 * GIB, GPU_PERCENT_UNKNOWN, GPU_PERCENT_UNKNOWN);
        nvml.functions.device_get_processes = list_rubbish;
        sample = read_with(&nvml, &arena);
        assert_false(sample.has_processes);
        nvml.functions.device_get_processes = list_many;
        sample = read_with(&nvml, &arena);
        assert_false(sample.has_processes);
}

static void test_an_old_driver_has_the_first_list(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct nvml nvml = {.functions = {.device_get_processes_v1 = list_old}};
        const struct gpu_sample sample = read_with(&nvml, &arena);

        assert_int_equal(sample.n_processes, 2);
        expect_process(&sample, 101, GPU_PROCESS_COMPUTE, GIB, GPU_PERCENT_UNKNOWN, GPU_PERCENT_UNKNOWN);
        assert_true(find_process(&sample, 102)->memory == GPU_VALUE_UNKNOWN);
}

static void test_samples_that_cannot_be_are_dropped(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct nvml nvml = {
                .functions = {.device_get_processes_v1 = list_old, .device_get_process_utilization = sample_rubbish}};
        const struct gpu_sample sample = read_with(&nvml, &arena);

        assert_int_equal(sample.n_processes, 2);
        assert_int_equal(find_process(&sample, 101)->sm_percent, 0);
        assert_int_equal(find_process(&sample, 102)->sm_percent, 30); /* the newest */
}

static int begin(void **state)
{
        _free_ char *proc = NULL;

        strcpy(root, "/tmp/warpshare-sample-XXXXXX");
        if (!mkdtemp(root))
                return -1;
        proc = xasprintf("%s/proc", root);
        return mkdir(proc, 0700) < 0 ? -1 : scenario_setup(state);
}

static int end(void **state)
{
        _free_ char *command = xasprintf("rm -r %s", root);

        return system(command) != 0 ? -1 : scenario_teardown(state);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_gpu_whose_memory_nvml_does_not_report_keeps_all_else),
                cmocka_unit_test(test_a_process_is_there_once_with_the_pod_of_its_cgroup),
                cmocka_unit_test(test_the_activity_of_a_client_of_mps_is_unknown_and_that_of_its_server_is_not),
                cmocka_unit_test(test_activity_comes_from_the_call_that_works),
                cmocka_unit_test(test_a_list_that_fails_is_no_empty_list),
                cmocka_unit_test(test_a_process_in_our_own_container_is_a_pid_of_another_namespace),
                cmocka_unit_test(test_each_value_comes_from_its_call),
                cmocka_unit_test(test_what_a_board_does_not_have_is_unknown),
                cmocka_unit_test(test_processes_of_a_mig_device_are_its_own_and_their_activity_is_unknown),
                cmocka_unit_test(test_a_lost_gpu_is_left_out),
                cmocka_unit_test(test_records_of_another_size_are_recognised),
                cmocka_unit_test(test_an_old_driver_has_the_first_list),
                cmocka_unit_test(test_samples_that_cannot_be_are_dropped),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
