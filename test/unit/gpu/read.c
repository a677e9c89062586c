// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <glob.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "reading.h"

static void test_the_node_and_its_versions_are_read(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory =
                read_scenario("driverVersion: 580.105.08\ncudaVersion: \"13.0\"\ngpus: []\n");

        assert_string_equal(inventory->driver_version, "580.105.08");
        assert_string_equal(inventory->nvml_version, "13.580.105.08");
        assert_int_equal(inventory->cuda_major, 13);
        assert_int_equal(inventory->cuda_minor, 0);
        assert_int_equal(inventory->n_gpus, 0);
        assert_int_equal(inventory->n_unnamed_failures, 0);
}

static void test_each_model_has_its_properties(void **state UNUSED)
{
        static const struct {
                const char *model;
                const char *name;
                int major;
                int minor;
                enum gpu_architecture architecture;
                int brand;
                unsigned int multiprocessors;
                bool mig_capable;
                bool coherent;
        } table[] = {
                {"V100-32GB", "Tesla V100-SXM2-32GB", 7, 0, GPU_ARCHITECTURE_VOLTA, NVML_BRAND_TESLA, 80, false},
                {"T4", "Tesla T4", 7, 5, GPU_ARCHITECTURE_TURING, NVML_BRAND_TESLA, 40, false},
                {"A30", "NVIDIA A30", 8, 0, GPU_ARCHITECTURE_AMPERE, NVML_BRAND_NVIDIA, 56, true},
                {"A100-40GB", "NVIDIA A100-SXM4-40GB", 8, 0, GPU_ARCHITECTURE_AMPERE, NVML_BRAND_NVIDIA, 108, true},
                {"L40S", "NVIDIA L40S", 8, 9, GPU_ARCHITECTURE_ADA, NVML_BRAND_NVIDIA, 142, false},
                {"H100-80GB", "NVIDIA H100 80GB HBM3", 9, 0, GPU_ARCHITECTURE_HOPPER, NVML_BRAND_NVIDIA, 132, true},
                {"H200", "NVIDIA H200", 9, 0, GPU_ARCHITECTURE_HOPPER, NVML_BRAND_NVIDIA, 132, true},
                {"GB200", "NVIDIA GB200", 10, 0, GPU_ARCHITECTURE_BLACKWELL, NVML_BRAND_NVIDIA, 152, true, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = xasprintf("gpus: [{model: %s, bus: \"0000:3B:00.0\"}]\n", table[i].model);
                _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(text);
                const struct gpu *gpu = inventory->gpus;

                assert_int_equal(inventory->n_gpus, 1);
                assert_null(gpu->failure);
                assert_string_equal(gpu->name, table[i].name);
                assert_string_equal(gpu->bus, "0000:3b:00.0");
                assert_int_equal(gpu->index, 0);
                assert_int_equal(gpu->minor, 0);
                assert_int_equal(gpu->compute_major, table[i].major);
                assert_int_equal(gpu->compute_minor, table[i].minor);
                assert_int_equal(gpu->architecture, table[i].architecture);
                assert_int_equal(gpu->brand, table[i].brand);
                assert_int_equal(gpu->multiprocessors, table[i].multiprocessors);
                assert_int_equal(gpu->mig_capable, table[i].mig_capable);
                assert_int_equal(gpu->coherent, table[i].coherent);
                assert_false(gpu->mig_enabled);
                assert_int_equal(gpu->n_mig_devices, 0);
                assert_true(gpu->memory > UINT64_C(14) << 30);
                assert_in_range(gpu->memory_reserved, 1, gpu->memory - 1);
                assert_int_equal(strncmp(gpu->uuid, "GPU-", 4), 0);
        }
}

static void test_one_gpu_that_fails_leaves_the_others_alone(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- {model: T4}\n"
                "- {model: T4, errors: {nvmlDeviceGetMemoryInfo: UNKNOWN}}\n"
                "- {model: T4}\n");

        assert_int_equal(inventory->n_gpus, 3);
        assert_null(inventory->gpus[0].failure);
        assert_non_null(inventory->gpus[1].failure);
        assert_non_null(strstr(inventory->gpus[1].failure, "nvmlDeviceGetMemoryInfo: "));
        assert_non_null(strstr(inventory->gpus[1].failure, "UNKNOWN"));
        assert_string_equal(inventory->gpus[1].name, "Tesla T4");
        assert_int_equal(inventory->gpus[1].minor, 1);
        assert_int_equal(inventory->gpus[1].memory, 0);
        assert_int_equal(inventory->gpus[1].compute_major, GPU_UNKNOWN_INT);
        assert_null(inventory->gpus[2].failure);
        assert_int_equal(inventory->gpus[2].index, 2);
        assert_int_equal(inventory->gpus[0].links[1].level, GPU_UNKNOWN_INT);
        assert_int_not_equal(inventory->gpus[0].links[2].level, GPU_UNKNOWN_INT);
}

static void test_a_driver_that_does_not_report_its_reserve_is_no_failure(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- {model: V100-32GB}\n"
                "- {model: V100-32GB, errors: {nvmlDeviceGetMemoryInfo_v2: FUNCTION_NOT_FOUND}}\n");

        assert_int_equal(inventory->gpus[0].memory_reserved, UINT64_C(256) << 20);
        assert_null(inventory->gpus[1].failure);
        assert_int_equal(inventory->gpus[1].memory, inventory->gpus[0].memory);
        assert_int_equal(inventory->gpus[1].memory_reserved, 0);
}

static void test_a_gpu_without_a_uuid_is_reported_unnamed(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- {model: T4, errors: {nvmlDeviceGetUUID: GPU_IS_LOST}}\n"
                "- {model: T4}\n"
                "- {model: T4, errors: {nvmlDeviceGetHandleByIndex: GPU_IS_LOST}}\n");

        assert_int_equal(inventory->n_gpus, 1);
        assert_int_equal(inventory->gpus[0].index, 1);
        assert_int_equal(inventory->n_unnamed_failures, 2);
        assert_non_null(strstr(inventory->unnamed_failures[0], "GPU 0: nvmlDeviceGetUUID: "));
        assert_non_null(strstr(inventory->unnamed_failures[1], "GPU 2: nvmlDeviceGetHandleByIndex: "));
        assert_non_null(strstr(inventory->unnamed_failures[1], "GPU_IS_LOST"));
}

static void test_what_a_board_does_not_report_is_unknown_and_no_failure(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- model: A100-40GB\n"
                "  errors:\n"
                "    nvmlDeviceGetMemoryInfo: NOT_SUPPORTED\n"
                "    nvmlDeviceGetMinorNumber: NOT_SUPPORTED\n"
                "    nvmlDeviceGetPciInfo: NOT_SUPPORTED\n"
                "    nvmlDeviceGetBrand: NOT_SUPPORTED\n"
                "    nvmlDeviceGetArchitecture: FUNCTION_NOT_FOUND\n"
                "    nvmlDeviceGetCudaComputeCapability: NOT_SUPPORTED\n"
                "    nvmlDeviceGetMigMode: NOT_SUPPORTED\n"
                "    nvmlDeviceGetMemoryAffinity: NOT_SUPPORTED\n"
                "    nvmlDeviceGetNumGpuCores: FUNCTION_NOT_FOUND\n");
        const struct gpu *gpu = inventory->gpus;

        assert_null(gpu->failure);
        assert_int_equal(gpu->memory, 0);
        assert_int_equal(gpu->memory_reserved, 0);
        assert_int_equal(gpu->minor, GPU_UNKNOWN_INT);
        assert_null(gpu->bus);
        assert_int_equal(gpu->brand, GPU_UNKNOWN_INT);
        assert_int_equal(gpu->architecture, GPU_ARCHITECTURE_UNKNOWN);
        assert_int_equal(gpu->compute_major, GPU_UNKNOWN_INT);
        assert_int_equal(gpu->numa_node, GPU_UNKNOWN_INT);
        assert_int_equal(gpu->multiprocessors, 0);
        assert_false(gpu->mig_capable);
}

static void test_display_gpus_are_left_out(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus: [{model: A100-40GB}, {model: T4, name: NVIDIA DGX Display}, {model: A100-40GB}]\n");

        assert_int_equal(inventory->n_gpus, 2);
        assert_int_equal(inventory->gpus[1].index, 2);
}

static void test_nvlinks_are_counted_by_their_other_end(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus:\n"
                "- {model: A100-40GB, nvlink: {peers: [1]}}\n"
                "- {model: A100-40GB, nvlink: {peers: [0]}}\n"
                "- {model: A100-40GB}\n"
                "topology:\n"
                "- {gpus: [0, 1], level: PIX}\n"
                "- {gpus: [0, 2], level: SYS}\n");
        const struct gpu *gpus = inventory->gpus;

        assert_int_equal(gpus[0].links[1].level, NVML_TOPOLOGY_SINGLE);
        assert_int_equal(gpus[1].links[0].level, NVML_TOPOLOGY_SINGLE);
        assert_int_equal(gpus[0].links[2].level, NVML_TOPOLOGY_SYSTEM);
        assert_true(gpus[0].links[1].nvlinks > 0);
        assert_int_equal(gpus[0].links[1].nvlinks, gpus[1].links[0].nvlinks);
        assert_int_equal(gpus[0].links[2].nvlinks, 0);
        assert_int_equal(gpus[0].links[0].level, 0);
        assert_int_equal(gpus[0].links[0].nvlinks, 0);
        assert_true(gpus[0].links[1].p2p);
}

static void test_behind_a_switch_all_links_lead_to_every_peer(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory =
                read_scenario("gpus: [{model: A100-80GB, count: 4, nvlink: switch}]\n");

        for (size_t i = 0; i < 4; i++)
                for (size_t j = 0; j < 4; j++)
                        assert_int_equal(inventory->gpus[i].links[j].nvlinks, i == j ? 0 : 12);
}

static void test_p2p_that_is_switched_off_is_none(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus: [{model: T4, count: 2}]\n"
                "p2p: [{gpus: [0, 1], status: CHIPSET_NOT_SUPPORTED}]\n");

        assert_false(inventory->gpus[0].links[1].p2p);
        assert_false(inventory->gpus[1].links[0].p2p);
}

static void test_a_link_that_cannot_be_read_is_unknown(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory = read_scenario( //
                "gpus: [{model: T4, count: 2}]\n"
                "errors: {nvmlDeviceGetTopologyCommonAncestor: UNKNOWN, nvmlDeviceGetP2PStatus: UNKNOWN}\n");

        assert_null(inventory->gpus[0].failure);
        assert_int_equal(inventory->gpus[0].links[1].level, GPU_UNKNOWN_INT);
        assert_false(inventory->gpus[0].links[1].p2p);
}

static void test_numa_comes_from_nvml_where_sysfs_has_nothing(void **state UNUSED)
{
        _cleanup_(inventory_freep) struct inventory *inventory =
                read_scenario("gpus: [{model: T4, count: 3, numa: [0, 1, -1]}]\n");

        assert_int_equal(inventory->gpus[0].numa_node, 0);
        assert_int_equal(inventory->gpus[1].numa_node, 1);
        assert_int_equal(inventory->gpus[2].numa_node, GPU_UNKNOWN_INT);
}

static void test_what_sysfs_says_of_numa_is_final(void **state UNUSED)
{
        static const struct {
                const char *file;
                int node;
        } table[] = {{"3\n", 3}, {"-1\n", -1}, {"", -1}, {"many\n", -1}, {"99999999999\n", -1}};
        char root[] = "/tmp/warpshare-sysfs-XXXXXX";
        _free_ char *make = NULL;
        _free_ char *path = NULL;
        _free_ char *clear = NULL;
        struct error err;

        assert_non_null(mkdtemp(root));
        make = xasprintf("mkdir -p %s/sys/bus/pci/devices/0000:3b:00.0", root);
        path = xasprintf("%s/sys/bus/pci/devices/0000:3b:00.0/numa_node", root);
        clear = xasprintf("rm -r %s", root);
        assert_int_equal(system(make), 0);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct inventory *inventory;

                assert_ok(file_write(path, table[i].file, strlen(table[i].file), &err), &err);
                inventory = read_below("gpus: [{model: T4, bus: \"0000:3B:00.0\", numa: 1}]\n", root);
                assert_int_equal(inventory->gpus[0].numa_node, table[i].node);
                inventory_free(inventory);
        }
        assert_int_equal(system(clear), 0);
}

/* PCI domains of more than four digits, as behind Intel's VMD: NVIDIA's plugin finds no node for them. */
static void test_a_long_pci_domain_has_its_numa_node(void **state UNUSED)
{
        static const char *const addresses[][2] = {
                {"00010000:3B:00.0", "10000:3b:00.0"}, {"0001F400:3B:00.0", "1f400:3b:00.0"}};

        for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
                _free_ char *scenario = xasprintf("gpus: [{model: T4, bus: \"%s\"}]\n", addresses[i][0]);
                char root[] = "/tmp/warpshare-sysfs-XXXXXX";
                _cleanup_(inventory_freep) struct inventory *inventory = NULL;
                _free_ char *make = NULL;
                _free_ char *clear = NULL;

                assert_non_null(mkdtemp(root));
                make = xasprintf("mkdir -p %s/sys/bus/pci/devices/%s && echo 2 > %s/sys/bus/pci/devices/%s/numa_node",
                        root, addresses[i][1], root, addresses[i][1]);
                clear = xasprintf("rm -r %s", root);
                assert_int_equal(system(make), 0);
                inventory = read_below(scenario, root);
                assert_int_equal(system(clear), 0);
                assert_string_equal(inventory->gpus[0].bus, addresses[i][1]);
                assert_int_equal(inventory->gpus[0].numa_node, 2);
        }
}

static void test_the_pci_class_is_what_sysfs_says(void **state UNUSED)
{
        static const struct {
                const char *file;
                unsigned int pci_class;
        } table[] = {{"0x030200\n", 0x030200}, {"0x030000", 0x030000}, {"", 0}, {"rubbish\n", 0}};
        char root[] = "/tmp/warpshare-sysfs-XXXXXX";
        _free_ char *make = NULL;
        _free_ char *path = NULL;
        _free_ char *clear = NULL;
        struct error err;

        assert_non_null(mkdtemp(root));
        make = xasprintf("mkdir -p %s/sys/bus/pci/devices/0000:3b:00.0", root);
        path = xasprintf("%s/sys/bus/pci/devices/0000:3b:00.0/class", root);
        clear = xasprintf("rm -r %s", root);
        assert_int_equal(system(make), 0);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct inventory *inventory;

                assert_ok(file_write(path, table[i].file, strlen(table[i].file), &err), &err);
                inventory = read_below("gpus: [{model: T4, bus: \"0000:3B:00.0\"}, {model: T4}]\n", root);
                assert_int_equal(inventory->gpus[0].pci_class, table[i].pci_class);
                assert_int_equal(inventory->gpus[1].pci_class, 0);
                inventory_free(inventory);
        }
        assert_int_equal(system(clear), 0);
}

static void test_the_pcie_root_is_the_first_device_on_the_way_to_the_gpu(void **state UNUSED)
{
        static const struct {
                const char *link;
                const char *root;
        } table[] = {
                {"../../../devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0", "pci0000:3a"},
                {"../../../devices/pci10000:00/10000:00:02.0/0000:3b:00.0", "pci10000:00"},
                {"../../../devices/platform/soc/0000:3b:00.0", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char root[] = "/tmp/warpshare-sysfs-XXXXXX";
                _cleanup_(inventory_freep) struct inventory *inventory = NULL;
                _free_ char *make = NULL;
                _free_ char *clear = NULL;

                assert_non_null(mkdtemp(root));
                make = xasprintf("mkdir -p %s/sys/bus/pci/devices && ln -s %s %s/sys/bus/pci/devices/0000:3b:00.0",
                        root, table[i].link, root);
                clear = xasprintf("rm -r %s", root);
                assert_int_equal(system(make), 0);
                inventory = read_below("gpus: [{model: T4, bus: \"0000:3B:00.0\"}]\n", root);
                assert_int_equal(system(clear), 0);
                assert_true(text_is_same(inventory->gpus[0].pcie_root, table[i].root));
        }
}

#define CLUSTER "6d0a1f2e-0123-4567-89ab-cdef01234567"

static void test_a_gpu_is_in_a_fabric_once_it_has_registered(void **state UNUSED)
{
        static const struct {
                const char *fabric;
                int state;
        } table[] = {
                {"fabric: {cluster: " CLUSTER ", clique: 7}", GPU_FABRIC_ATTACHED},
                {"fabric: {cluster: " CLUSTER ", clique: 7}, errors: {nvmlDeviceGetGpuFabricInfo: FUNCTION_NOT_FOUND}",
                        GPU_FABRIC_ATTACHED},
                {"fabric: {cluster: " CLUSTER ", clique: 7}, errors: {nvmlDeviceGetGpuFabricInfo: FUNCTION_NOT_FOUND, "
                 "nvmlDeviceGetGpuFabricInfoV: FUNCTION_NOT_FOUND}",
                        GPU_FABRIC_NONE},
                {"fabric: {cluster: " CLUSTER ", status: UNKNOWN}", GPU_FABRIC_NONE},
                {"fabric: {cluster: 00000000-0000-0000-0000-000000000000, clique: 7}", GPU_FABRIC_NONE},
                {"fabric: {cluster: " CLUSTER ", state: in-progress}", GPU_FABRIC_PENDING},
                {"fabric: {state: not-started}", GPU_FABRIC_PENDING},
                {"fabric: {state: not-supported}", GPU_FABRIC_NONE},
                {"serial: '1'", GPU_FABRIC_NONE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = xasprintf("gpus: [{model: GB200, %s}, {model: GB200}]\n", table[i].fabric);
                _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(text);
                _cleanup_(inventory_freep) struct inventory *copy = inventory_copy(inventory);
                const struct gpu *gpu = inventory->gpus;

                assert_int_equal(gpu->fabric.state, table[i].state);
                assert_true(inventory_is_same(inventory, copy));
                copy->gpus[0].fabric.state = GPU_FABRIC_ATTACHED + 1;
                assert_false(inventory_is_same(inventory, copy));
                assert_int_equal(inventory->gpus[1].fabric.state, GPU_FABRIC_NONE);
                if (table[i].state != GPU_FABRIC_ATTACHED) {
                        assert_null(gpu->fabric.cluster);
                        continue;
                }
                assert_string_equal(gpu->fabric.cluster, CLUSTER);
                assert_int_equal(gpu->fabric.clique, 7);
                assert_string_equal(copy->gpus[0].fabric.cluster, CLUSTER);
        }
}

/* Machines with NVSwitch inside are in no fabric beyond: NVML names no cluster. */
static void test_recorded_fabrics_and_pci_domains_are_read(void **state UNUSED)
{
        static const struct {
                const char *recorded;
                const char *gpu;
                int state;
                const char *bus;
        } table[] = {
                {"\nfabric of NVSwitch machines (B200, H100): state Completed, status Success, cliqueId 0, clusterUuid "
                 "all zeros\n",
                        "model: B200, fabric: {cluster: 00000000-0000-0000-0000-000000000000, clique: 0, "
                        "state: completed}, bus: \"0000:1b:00.0\"",
                        GPU_FABRIC_NONE, "0000:1b:00.0"},
                {"\nfabric of PCIe GPUs and A100: N/A\n",
                        "model: A100-40GB, fabric: {state: not-supported}, bus: \"0000:0f:00.0\"", GPU_FABRIC_NONE,
                        "0000:0f:00.0"},
                {" PCI domains 0008 0009\n",
                        "model: GB300, fabric: {cluster: " CLUSTER ", clique: 388}, bus: \"0008:01:00.0\"",
                        GPU_FABRIC_ATTACHED, "0008:01:00.0"},
                {" PCI domains 0008 0009\n",
                        "model: GB300, fabric: {cluster: " CLUSTER ", clique: 32766}, bus: \"0009:01:00.0\"",
                        GPU_FABRIC_ATTACHED, "0009:01:00.0"},
        };
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(RECORDED "/gpu/labels-vgpu-and-fabric.txt", 1 << 20, &text, &err), &err);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *scenario = xasprintf("gpus: [{%s}]\n", table[i].gpu);
                _cleanup_(inventory_freep) struct inventory *inventory = read_scenario(scenario);

                assert_non_null(strstr(text.data, table[i].recorded));
                assert_int_equal(inventory->gpus->fabric.state, table[i].state);
                assert_string_equal(inventory->gpus->bus, table[i].bus);
        }
}

static void test_a_count_that_fails_is_nvmls_failure(void **state UNUSED)
{
        const struct gpu_paths paths = {.system_root = NO_SYSTEM, .driver_root = ""};
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        struct inventory *inventory = NULL;
        struct error err;

        scenario_write("gpus: [{model: T4}]\nerrors: {nvmlDeviceGetCount: UNKNOWN}\n");
        assert_ok(nvml_open(&nvml, scenario_library(), "", &err), &err);
        assert_int_equal(nvml_read(&inventory, nvml, &paths, NULL, &err), -1);
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_non_null(strstr(err.text, "nvmlDeviceGetCount: "));
        assert_null(inventory);
}

static void test_each_way_that_nvml_does_not_start_is_explained(void **state UNUSED)
{
        static const struct {
                const char *code;
                enum error_kind kind;
                const char *words;
        } table[] = {
                {"DRIVER_NOT_LOADED", ERROR_UNAVAILABLE, "the NVIDIA driver is not loaded"},
                {"LIB_RM_VERSION_MISMATCH", ERROR_UNAVAILABLE, "reload the kernel modules or reboot the node"},
                {"NO_PERMISSION", ERROR_DENIED, "denies access (NO_PERMISSION)"},
                {"OPERATING_SYSTEM", ERROR_DENIED, "Run it privileged or with the NVIDIA runtime"},
                {"UNKNOWN", ERROR_UNAVAILABLE, "nvmlInit: "},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = xasprintf("init: {error: %s}\ngpus: [{model: T4}]\n", table[i].code);
                struct nvml *nvml = NULL;
                struct error err;

                scenario_write(text);
                assert_int_equal(nvml_open(&nvml, scenario_library(), "", &err), -1);
                assert_int_equal(err.kind, table[i].kind);
                if (!strstr(err.text, table[i].words))
                        fail_msg("'%s' lacks '%s'", err.text, table[i].words);
        }
}

/* What the simulator ships: every GPU of every scenario is readable, but for those that are broken on purpose. */
static void test_every_shipped_scenario_is_read(void **state UNUSED)
{
        const char *folder = getenv("WARPSHARE_SCENARIOS");
        size_t n_read = 0;
        _free_ char *pattern = NULL;
        glob_t found;

        assert_non_null(folder);
        pattern = xasprintf("%s/*.yaml", folder);
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        for (size_t i = 0; i < found.gl_pathc; i++) {
                bool is_broken = strstr(found.gl_pathv[i], "/broken.yaml") != NULL;
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                _cleanup_(inventory_freep) struct inventory *inventory = NULL;
                size_t n_failures;
                struct error err;

                assert_ok(file_read(found.gl_pathv[i], 1 << 20, &text, &err), &err);
                inventory = read_scenario(text.data);
                n_failures = inventory->n_unnamed_failures;
                for (size_t g = 0; g < inventory->n_gpus; g++)
                        n_failures += inventory->gpus[g].failure != NULL;
                if (inventory->n_gpus == 0 || (n_failures > 0) != is_broken)
                        fail_msg("%s: %zu GPUs, %zu failures", found.gl_pathv[i], inventory->n_gpus, n_failures);
                n_read++;
        }
        globfree(&found);
        assert_true(n_read > 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_node_and_its_versions_are_read),
                cmocka_unit_test(test_each_model_has_its_properties),
                cmocka_unit_test(test_one_gpu_that_fails_leaves_the_others_alone),
                cmocka_unit_test(test_a_driver_that_does_not_report_its_reserve_is_no_failure),
                cmocka_unit_test(test_a_gpu_without_a_uuid_is_reported_unnamed),
                cmocka_unit_test(test_what_a_board_does_not_report_is_unknown_and_no_failure),
                cmocka_unit_test(test_display_gpus_are_left_out),
                cmocka_unit_test(test_nvlinks_are_counted_by_their_other_end),
                cmocka_unit_test(test_behind_a_switch_all_links_lead_to_every_peer),
                cmocka_unit_test(test_p2p_that_is_switched_off_is_none),
                cmocka_unit_test(test_a_link_that_cannot_be_read_is_unknown),
                cmocka_unit_test(test_numa_comes_from_nvml_where_sysfs_has_nothing),
                cmocka_unit_test(test_what_sysfs_says_of_numa_is_final),
                cmocka_unit_test(test_a_long_pci_domain_has_its_numa_node),
                cmocka_unit_test(test_the_pci_class_is_what_sysfs_says),
                cmocka_unit_test(test_the_pcie_root_is_the_first_device_on_the_way_to_the_gpu),
                cmocka_unit_test(test_a_gpu_is_in_a_fabric_once_it_has_registered),
                cmocka_unit_test(test_recorded_fabrics_and_pci_domains_are_read),
                cmocka_unit_test(test_a_count_that_fails_is_nvmls_failure),
                cmocka_unit_test(test_each_way_that_nvml_does_not_start_is_explained),
                cmocka_unit_test(test_every_shipped_scenario_is_read),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
