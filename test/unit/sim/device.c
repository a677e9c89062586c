// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB(n) ((unsigned long long)(n) << 20)

static void test_models_answer_as_the_hardware_does(void **state)
{
        static const struct {
                const char *scenario;
                const char *name;
                unsigned int architecture;
                int major;
                int minor;
                unsigned int memory_mib;
                unsigned int pci;
        } table[] = {
                {"gpus: [{model: V100-32GB}]", "Tesla V100-SXM2-32GB", NVML_DEVICE_ARCH_VOLTA, 7, 0, 32605, 0x1db510de},
                {"gpus: [{model: T4}]", "Tesla T4", NVML_DEVICE_ARCH_TURING, 7, 5, 15360, 0x1eb810de},
                {"gpus: [{model: A30}]", "NVIDIA A30", NVML_DEVICE_ARCH_AMPERE, 8, 0, 24576, 0x20b710de},
                {"gpus: [{model: A100-40GB}]", "NVIDIA A100-SXM4-40GB", NVML_DEVICE_ARCH_AMPERE, 8, 0, 40960,
                        0x20b010de},
                {"gpus: [{model: A100-80GB}]", "NVIDIA A100-SXM4-80GB", NVML_DEVICE_ARCH_AMPERE, 8, 0, 81920,
                        0x20b210de},
                {"gpus: [{model: L40S}]", "NVIDIA L40S", NVML_DEVICE_ARCH_ADA, 8, 9, 46068, 0x26b910de},
                {"gpus: [{model: H100-80GB}]", "NVIDIA H100 80GB HBM3", NVML_DEVICE_ARCH_HOPPER, 9, 0, 81559,
                        0x233010de},
                {"gpus: [{model: H200}]", "NVIDIA H200", NVML_DEVICE_ARCH_HOPPER, 9, 0, 143771, 0x233510de},
                {"gpus: [{model: RTX-PRO-6000}]", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                        NVML_DEVICE_ARCH_BLACKWELL, 12, 0, 97887, 0x2bb510de},
                {"gpus: [{model: GB200}]", "NVIDIA GB200", NVML_DEVICE_ARCH_BLACKWELL, 10, 0, 189471, 0x294110de},
        };
        struct sim *sim = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                nvmlDevice_t gpu;
                nvmlPciInfo_t pci;
                nvmlMemory_t memory;
                unsigned int number;
                int major;
                int minor;
                char name[64];

                sim_start(sim, table[i].scenario);
                gpu = sim_gpu(sim, 0);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetName(gpu, name, sizeof(name)));
                assert_string_equal(name, table[i].name);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetArchitecture(gpu, &number));
                assert_int_equal(number, table[i].architecture);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCudaComputeCapability(gpu, &major, &minor));
                assert_int_equal(major, table[i].major);
                assert_int_equal(minor, table[i].minor);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(gpu, &memory));
                assert_int_equal(memory.total, MIB(table[i].memory_mib));
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetPciInfo_v3(gpu, &pci));
                assert_int_equal(pci.pciDeviceId, table[i].pci);
        }
}

/* 31.84 GiB, of which each of twenty replicas gets 1,630 MiB. */
static void test_a_twentieth_of_a_v100_is_1630_mib(void **state)
{
        struct sim *sim = *state;
        nvmlMemory_t memory;

        sim_start(sim, "gpus: [{model: V100-32GB}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(sim_gpu(sim, 0), &memory));
        assert_int_equal(memory.total / MIB(1) / 20, 1630);
        assert_int_equal(memory.total * 100 / MIB(1024), 3184);
}

static void test_gpus_are_found_by_every_key(void **state)
{
        struct sim *sim = *state;
        nvmlDevice_t device;
        nvmlDevice_t second;
        nvmlPciInfo_t pci;
        nvmlUUID_v1_t typed = {.version = NVML_UUID_V1, .type = NVML_UUID_TYPE_ASCII};
        char uuid[80];
        unsigned int number;

        sim_start(sim,
                "gpus:\n- {model: T4}\n- {model: T4, uuid: GPU-0a0b, bus: '0001:af:01.0', minor: 7, serial: 42}\n");
        second = sim_gpu(sim, 1);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleByUUID("GPU-0a0b", &device));
        assert_ptr_equal(device, second);
        strcpy(typed.value.str, "GPU-0a0b");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleByUUIDV(&typed, &device));
        assert_ptr_equal(device, second);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleByPciBusId_v2("00000001:AF:01.0", &device));
        assert_ptr_equal(device, second);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleBySerial("42", &device));
        assert_ptr_equal(device, second);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMinorNumber(second, &number));
        assert_int_equal(number, 7);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetPciInfo_v3(second, &pci));
        assert_string_equal(pci.busId, "00000001:AF:01.0");
        assert_string_equal(pci.busIdLegacy, "0001:AF:01.0");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(second, uuid, sizeof(uuid)));
        assert_string_equal(uuid, "GPU-0a0b");
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetHandleByUUID("GPU-nobody", &device));
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceGetHandleByPciBusId_v2("0000:ff:00.0", &device));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetHandleByIndex_v2(2, &device));
}

static void test_a_derived_uuid_is_always_the_same_and_never_twice(void **state)
{
        struct sim *sim = *state;
        char uuids[3][80];

        sim_start(sim, "gpus: [{model: T4, count: 2}]");
        for (unsigned int i = 0; i < 2; i++)
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_gpu(sim, i), uuids[i], sizeof(uuids[i])));
        sim_write(sim, "gpus: [{model: T4}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetUUID(sim_gpu(sim, 0), uuids[2], sizeof(uuids[2])));
        assert_string_not_equal(uuids[0], uuids[1]);
        assert_string_equal(uuids[0], uuids[2]);
        assert_int_equal(strlen(uuids[0]), 40);
}

static void test_memory_adds_up(void **state)
{
        struct sim *sim = *state;
        nvmlMemory_v2_t second = {.version = NVML_MEMORY_V2};
        nvmlMemory_t first;

        sim_start(sim,
                "gpus:\n- model: T4\n  memory: 8GiB\n  processes:\n  - {pid: 1, memory: 1GiB}\n  - {pid: 2, memory: "
                "512MiB}\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo_v2(sim_gpu(sim, 0), &second));
        assert_int_equal(second.total, MIB(8192));
        assert_int_equal(second.used, MIB(1536));
        assert_int_equal(second.reserved + second.used + second.free, second.total);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(sim_gpu(sim, 0), &first));
        assert_int_equal(first.used, second.used + second.reserved);
        assert_int_equal(first.used + first.free, first.total);
        second.version = NVML_MEMORY_V2 - 1;
        assert_nvml(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, sim->nvmlDeviceGetMemoryInfo_v2(sim_gpu(sim, 0), &second));
}

static void test_a_compute_mode_that_was_set_outlives_shutdown(void **state)
{
        struct sim *sim = *state;
        nvmlComputeMode_t mode;

        sim_start(sim, "gpus: [{model: T4, count: 2}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetComputeMode(sim_gpu(sim, 1), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS));
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT,
                sim->nvmlDeviceSetComputeMode(sim_gpu(sim, 1), NVML_COMPUTEMODE_EXCLUSIVE_THREAD));
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(sim_gpu(sim, 1), &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(sim_gpu(sim, 0), &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_DEFAULT);
}

static void test_a_compute_mode_is_shared_by_a_folder_until_the_scenario_has_another(void **state)
{
        struct sim *sim = *state;
        char folder[] = "/tmp/warpshare-modes-XXXXXX";
        char scenario[200];
        nvmlComputeMode_t mode;

        assert_non_null(mkdtemp(folder));
        snprintf(scenario, sizeof(scenario), "computeModeDirectory: %s\ngpus: [{model: T4, uuid: GPU-1}]", folder);
        sim_start(sim, scenario);
        if (fork() == 0)
                _exit((int)sim->nvmlDeviceSetComputeMode(sim_gpu(sim, 0), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS));
        assert_true(wait(&(int){0}) > 0);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(sim_gpu(sim, 0), &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
        snprintf(scenario, sizeof(scenario),
                "computeModeDirectory: %s\ngpus: [{model: T4, uuid: GPU-1, computeMode: prohibited}]", folder);
        sim_start(sim, scenario);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(sim_gpu(sim, 0), &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_PROHIBITED);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetComputeMode(sim_gpu(sim, 0), NVML_COMPUTEMODE_DEFAULT));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeMode(sim_gpu(sim, 0), &mode));
        assert_int_equal(mode, NVML_COMPUTEMODE_DEFAULT);
        snprintf(scenario, sizeof(scenario), "%s/GPU-1", folder);
        assert_int_equal(unlink(scenario), 0);
        assert_int_equal(rmdir(folder), 0);
}

static void test_memory_limits_belong_to_the_folder_of_a_cgroup_from_driver_615_on(void **state)
{
        struct sim *sim = *state;
        char folder[] = "/tmp/warpshare-cgroup-XXXXXX";
        nvmlSetMemoryLimits_v1_t wanted = {.nameSpace = mkdtemp(folder), .softLimit = MIB(1), .hardLimit = MIB(2048)};
        nvmlGetMemoryLimits_v1_t limits = {.nameSpace = folder};

        assert_non_null(wanted.nameSpace);
        sim_start(sim, "driverVersion: 610.10.01\ngpus: [{model: A100-40GB, count: 2}]");
        assert_nvml(NVML_ERROR_FUNCTION_NOT_FOUND, sim->nvmlDeviceSetMemoryLimits_v1(sim_gpu(sim, 0), &wanted));
        sim_start(sim, "driverVersion: 615.10.01\ngpus: [{model: A100-40GB, count: 2}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetMemoryLimits_v1(sim_gpu(sim, 0), &wanted));
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown()); /* it is the cgroup's, not the program's */
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryLimits_v1(sim_gpu(sim, 0), &limits));
        assert_true(limits.softLimit == MIB(1) && limits.hardLimit == MIB(2048));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryLimits_v1(sim_gpu(sim, 1), &limits));
        assert_true(limits.softLimit == 0 && limits.hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX);
        wanted.softLimit = MIB(4096);
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceSetMemoryLimits_v1(sim_gpu(sim, 0), &wanted));
        wanted.softLimit = 0;
        wanted.hardLimit = NVML_DEVICE_MEMORY_LIMIT_MAX;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceSetMemoryLimits_v1(sim_gpu(sim, 0), &wanted));
        assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlDeviceSetMemoryLimits_v1(sim_gpu(sim, 0), &wanted));
        sim_start(sim, "driverVersion: 615.10.01\ngpus:\n- model: A100-40GB\n  mig: {devices: [{profile: 3g.20gb}]}\n");
        assert_nvml(NVML_SUCCESS, mkdir(folder, 0700));
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceSetMemoryLimits_v1(sim_mig(sim, 0, 0), &wanted));
        assert_int_equal(rmdir(folder), 0);
}

static void test_process_lists_ask_for_room(void **state)
{
        struct sim *sim = *state;
        nvmlProcessInfo_t infos[4];
        nvmlProcessInfo_v1_t old[2];
        unsigned int count = 0;
        char name[8];

        sim_start(sim,
                "gpus:\n- model: T4\n  processes:\n  - {pid: 10, name: /bin/server, memory: 60MiB}\n"
                "  - {pid: 11, memory: 1GiB, type: M+C}\n  - {pid: 12, memory: 2GiB, type: MPS}\n  - {pid: 13, type: G}\n");
        assert_nvml(NVML_ERROR_INSUFFICIENT_SIZE,
                sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, NULL));
        assert_int_equal(count, 2);
        count = 4;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(count, 2);
        assert_int_equal(infos[0].pid, 10);
        assert_int_equal(infos[0].usedGpuMemory, MIB(60));
        assert_int_equal(infos[0].gpuInstanceId, NVML_NO_INSTANCE);
        assert_int_equal(infos[1].pid, 11);
        count = 4;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMPSComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(count, 2);
        assert_int_equal(infos[1].pid, 12);
        count = 2;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMPSComputeRunningProcesses(sim_gpu(sim, 0), &count, old));
        assert_int_equal(old[1].pid, 12);
        assert_int_equal(old[1].usedGpuMemory, MIB(2048));
        count = 1;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGraphicsRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(infos[0].pid, 13);
        assert_nvml(NVML_SUCCESS, sim->nvmlSystemGetProcessName(10, name, sizeof(name)));
        assert_string_equal(name, "/bin/se");
        assert_nvml(NVML_ERROR_NOT_FOUND, sim->nvmlSystemGetProcessName(99, name, sizeof(name)));
}

static void write_process(const char *folder, const char *name, const char *line)
{
        char path[128];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(line, file);
        fclose(file);
}

/* The simulated MPS server keeps one file a process; one whose process is dead does not count. */
static void test_processes_come_from_a_directory_too(void **state)
{
        struct sim *sim = *state;
        char folder[] = "/tmp/warpshare-processes-XXXXXX";
        char scenario[512];
        char line[128];
        nvmlProcessInfo_t infos[4];
        nvmlMemory_t memory;
        unsigned int count = 4;

        assert_non_null(mkdtemp(folder));
        snprintf(scenario, sizeof(scenario),
                "processDirectory: %s\ngpus:\n- model: T4\n  uuid: GPU-a\n  processes: [{pid: 10, memory: 1GiB}]\n",
                folder);
        sim_start(sim, scenario);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(count, 1);

        snprintf(line, sizeof(line), "GPU-a %d 1073741824 M+C\n", (int)getpid());
        write_process(folder, "alive", line);
        write_process(folder, "dead", "GPU-a 2147483646 1073741824 C\n");
        write_process(folder, "wrong", "GPU-a\n");
        count = 4;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMPSComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(count, 1);
        assert_int_equal(infos[0].pid, getpid());
        assert_int_equal(infos[0].usedGpuMemory, MIB(1024));
        count = 4;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(count, 2);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryInfo(sim_gpu(sim, 0), &memory));
        assert_true(memory.used >= MIB(2048) && memory.used < MIB(3072));

        for (size_t i = 0; i < 3; i++) {
                snprintf(scenario, sizeof(scenario), "%s/%s", folder,
                        (const char *const[]){"alive", "dead", "wrong"}[i]);
                unlink(scenario);
        }
        count = 4;
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetComputeRunningProcesses_v3(sim_gpu(sim, 0), &count, infos));
        assert_int_equal(count, 1);
        rmdir(folder);
}

static void test_topology_follows_numa_unless_the_scenario_sets_it(void **state)
{
        struct sim *sim = *state;
        nvmlGpuTopologyLevel_t level;
        nvmlGpuP2PStatus_t status;
        unsigned long set[2];

        sim_start(sim, "cpusPerNumaNode: 70\ngpus: [{model: T4, count: 3, numa: [0, 0, 1]}]\n"
                       "topology: [{gpus: [2, 1], level: PIX}]\np2p: [{gpus: [0, 1], status: DISABLED_BY_REGKEY}]\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetTopologyCommonAncestor(sim_gpu(sim, 0), sim_gpu(sim, 1), &level));
        assert_int_equal(level, NVML_TOPOLOGY_NODE);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetTopologyCommonAncestor(sim_gpu(sim, 0), sim_gpu(sim, 2), &level));
        assert_int_equal(level, NVML_TOPOLOGY_SYSTEM);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetTopologyCommonAncestor(sim_gpu(sim, 1), sim_gpu(sim, 2), &level));
        assert_int_equal(level, NVML_TOPOLOGY_SINGLE);
        assert_nvml(NVML_SUCCESS,
                sim->nvmlDeviceGetP2PStatus(sim_gpu(sim, 1), sim_gpu(sim, 0), NVML_P2P_CAPS_INDEX_READ, &status));
        assert_int_equal(status, NVML_P2P_STATUS_DISABLED_BY_REGKEY);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetCpuAffinity(sim_gpu(sim, 2), 2, set));
        assert_int_equal(set[0], 0);
        assert_int_equal(set[1], ~0UL << 6);
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMemoryAffinity(sim_gpu(sim, 2), 1, set, NVML_AFFINITY_SCOPE_NODE));
        assert_int_equal(set[0], 2);
}

static void test_nvlinks_go_round_the_peers(void **state)
{
        struct sim *sim = *state;
        unsigned int links[4] = {0};
        nvmlPciInfo_t pci;
        nvmlIntNvLinkDeviceType_t type;
        nvmlEnableState_t active;
        nvmlDevice_t peer;
        unsigned int index;

        sim_start(sim, "gpus: [{model: V100-32GB, count: 4, nvlink: all}]");
        for (unsigned int link = 0; link < 6; link++) {
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetNvLinkState(sim_gpu(sim, 1), link, &active));
                assert_int_equal(active, NVML_FEATURE_ENABLED);
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetNvLinkRemotePciInfo_v2(sim_gpu(sim, 1), link, &pci));
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &peer));
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetIndex(peer, &index));
                links[index]++;
        }
        assert_int_equal(links[0], 2);
        assert_int_equal(links[1], 0);
        assert_int_equal(links[2], 2);
        assert_int_equal(links[3], 2);
        assert_nvml(NVML_ERROR_INVALID_ARGUMENT, sim->nvmlDeviceGetNvLinkState(sim_gpu(sim, 1), 6, &active));
        sim_start(sim, "gpus: [{model: H100-80GB, count: 2, nvlink: switch}, {model: T4}]");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetNvLinkRemoteDeviceType(sim_gpu(sim, 0), 17, &type));
        assert_int_equal(type, NVML_NVLINK_DEVICE_TYPE_SWITCH);
        assert_nvml(NVML_ERROR_NOT_SUPPORTED, sim->nvmlDeviceGetNvLinkState(sim_gpu(sim, 2), 0, &active));
}

static void test_health_fields_say_what_the_scenario_says(void **state)
{
        struct sim *sim = *state;
        nvmlFieldValue_t values[] = {{.fieldId = NVML_FI_DEV_REMAPPED_UNC}, {.fieldId = NVML_FI_DEV_REMAPPED_FAILURE},
                {.fieldId = NVML_FI_DEV_GET_GPU_RECOVERY_ACTION}, {.fieldId = 9999}};
        unsigned int rows[4];
        unsigned long long count;

        sim_start(sim,
                "driverVersion: 550.163.01\ngpus:\n- model: A30\n  remappedRows: {uncorrected: 3, failure: true}\n  recoveryAction: reset\n"
                "  ecc: {uncorrected: {volatile: 1, aggregate: 5}}\n- {model: T4}\n"
                "- {model: A30, mig: {enabled: true}, remappedRows: {uncorrected: 3}}\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetFieldValues(sim_gpu(sim, 0), 4, values));
        assert_int_equal(values[0].value.uiVal, 3);
        assert_int_equal(values[1].value.uiVal, 1);
        assert_int_equal(values[2].value.uiVal, NVML_GPU_RECOVERY_ACTION_GPU_RESET);
        assert_int_equal(values[3].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
        assert_nvml(
                NVML_SUCCESS, sim->nvmlDeviceGetRemappedRows(sim_gpu(sim, 0), &rows[0], &rows[1], &rows[2], &rows[3]));
        assert_int_equal(rows[1], 3);
        assert_nvml(NVML_ERROR_NOT_SUPPORTED,
                sim->nvmlDeviceGetRemappedRows(sim_gpu(sim, 1), &rows[0], &rows[1], &rows[2], &rows[3]));
        /* In MIG mode NVML does not speak of them. */
        assert_nvml(NVML_ERROR_NOT_SUPPORTED,
                sim->nvmlDeviceGetRemappedRows(sim_gpu(sim, 2), &rows[0], &rows[1], &rows[2], &rows[3]));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetTotalEccErrors(sim_gpu(sim, 0), NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                          NVML_AGGREGATE_ECC, &count));
        assert_int_equal(count, 5);
}

static void test_the_fabric_reports_cluster_and_clique(void **state)
{
        struct sim *sim = *state;
        nvmlGpuFabricInfo_v3_t info = {.version = NVML_GPU_FABRIC_INFO_V3};
        nvmlGpuFabricInfo_v2_t *argument = (nvmlGpuFabricInfo_v2_t *)(void *)&info;

        sim_start(sim, "gpus:\n- model: GB200\n  fabric: {cluster: 01020304-0506-0708-090a-0b0c0d0e0f10, clique: 5}\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetGpuFabricInfoV(sim_gpu(sim, 0), argument));
        assert_int_equal(info.clusterUuid[0], 1);
        assert_int_equal(info.clusterUuid[15], 16);
        assert_int_equal(info.cliqueId, 5);
        assert_int_equal(info.state, NVML_GPU_FABRIC_STATE_COMPLETED);
        info.version = 1;
        assert_nvml(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, sim->nvmlDeviceGetGpuFabricInfoV(sim_gpu(sim, 0), argument));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                SIM_TEST(test_models_answer_as_the_hardware_does),
                SIM_TEST(test_a_twentieth_of_a_v100_is_1630_mib),
                SIM_TEST(test_gpus_are_found_by_every_key),
                SIM_TEST(test_a_derived_uuid_is_always_the_same_and_never_twice),
                SIM_TEST(test_memory_adds_up),
                SIM_TEST(test_a_compute_mode_that_was_set_outlives_shutdown),
                SIM_TEST(test_a_compute_mode_is_shared_by_a_folder_until_the_scenario_has_another),
                SIM_TEST(test_memory_limits_belong_to_the_folder_of_a_cgroup_from_driver_615_on),
                SIM_TEST(test_process_lists_ask_for_room),
                SIM_TEST(test_processes_come_from_a_directory_too),
                SIM_TEST(test_topology_follows_numa_unless_the_scenario_sets_it),
                SIM_TEST(test_nvlinks_go_round_the_peers),
                SIM_TEST(test_health_fields_say_what_the_scenario_says),
                SIM_TEST(test_the_fabric_reports_cluster_and_clique),
        };

        return cmocka_run_group_tests_name("sim/device", tests, sim_setup, sim_teardown);
}
