// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "agent/metrics.h"

#define MIB (UINT64_C(1) << 20)

static struct mig_device mig = {.uuid = "MIG-1", .index = 0, .gpu_instance = 2, .profile = "3g.20gb"};
static struct gpu gpus[] = {{.uuid = "GPU-1", .index = 3, .minor = 5, .bus = "0000:3b:00.0", .name = "NVIDIA H100"},
        {.uuid = "GPU-2", .index = 4, .minor = -1, .name = "NVIDIA A100", .mig_devices = &mig, .n_mig_devices = 1}};
static const struct inventory inventory = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus), .driver_version = "580.105.08"};
static struct gpu_sample units[] = {{.uuid = "GPU-1"}, {.uuid = "GPU-2"}, {.uuid = "MIG-1", .is_mig = true}};
static const struct gpu_xid xids[] = {
        {.gpu = "GPU-1", .xid = 31, .count = 9, .last = 100}, {.gpu = "GPU-1", .xid = 48, .count = 1, .last = 200}};
static struct gpu_samples samples = {.units = units, .n_units = 3, .xids = xids, .n_xids = 2};
static const struct usage_row rows[] = {
        {.unit = "GPU-1", .pod_uid = "u1", .pod_namespace = "ns", .pod = "a", .container = "main"},
        {.unit = "GPU-1", .pod_uid = "u2", .pod_namespace = "ns", .pod = "b", .container = "main"},
};

static char *write_page(size_t n_rows, const char *host)
{
        const struct node_usage_view view = {
                .samples = &samples, .inventory = &inventory, .rows = rows, .n_rows = n_rows};
        struct exposition exposition = EXPOSITION_INIT;

        dcgm_metrics_put(&exposition, &view, host);
        return exposition_take(&exposition);
}

static int set_up(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                for (size_t value = 0; value < GPU_VALUES; value++)
                        units[i].values[value] = GPU_VALUE_UNKNOWN;
                units[i].values[GPU_MEMORY_TOTAL] = 1000 * MIB;
                units[i].values[GPU_MEMORY_USED] = 300 * MIB + 1;
        }
        units[0].values[GPU_MEMORY_RESERVED] = 99 * MIB;
        units[0].values[GPU_POWER] = 123456;
        units[0].values[GPU_ENERGY] = 7;
        units[0].values[GPU_BUSY] = 71;
        units[0].values[GPU_NVLINK_REPLAY] = 9;
        return 0;
}

static void expect_lines(const char *page, const char *const *lines, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _free_ char *line = xasprintf("\n%s\n", lines[i]);

                if (!strstr(page, line))
                        fail_msg("'%s' is not in:\n%s", lines[i], page);
        }
}

#define FIRST                                                                                                          \
        "gpu=\"3\",UUID=\"GPU-1\",pci_bus_id=\"00000000:3B:00.0\",device=\"nvidia5\",modelName=\"NVIDIA H100\","       \
        "Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"580.105.08\""
#define MIG                                                                                                            \
        "gpu=\"4\",UUID=\"GPU-2\",modelName=\"NVIDIA A100\",GPU_I_PROFILE=\"3g.20gb\",GPU_I_ID=\"2\","                 \
        "Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"580.105.08\""

static void test_names_labels_and_units_are_those_of_dcgm_exporter(void **state UNUSED)
{
        static const char *const lines[] = {
                "# TYPE DCGM_FI_DEV_GPU_UTIL gauge",
                "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter",
                "DCGM_FI_DEV_GPU_UTIL{" FIRST "} 71",
                "DCGM_FI_DEV_POWER_USAGE{" FIRST "} 123.456",
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{" FIRST "} 7",
                "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{" FIRST "} 9",
                "DCGM_FI_DEV_FB_USED{" FIRST "} 300",
                "DCGM_FI_DEV_FB_RESERVED{" FIRST "} 99",
                "DCGM_FI_DEV_FB_FREE{" FIRST "} 600",
                "DCGM_FI_DEV_FB_FREE{" MIG "} 699",
                "DCGM_FI_DEV_XID_ERRORS{" FIRST "} 48",
        };
        _free_ char *page = write_page(0, "node-1");

        expect_lines(page, lines, ARRAY_SIZE(lines));
        assert_null(strstr(page, "DCGM_FI_DEV_FB_RESERVED{" MIG));
        assert_null(strstr(page, "DCGM_FI_DEV_GPU_UTIL{gpu=\"4\""));
}

/* The memory of a GPU and that of its MIG devices are the same. */
static void test_memory_is_that_of_mig_devices_where_a_gpu_has_some_and_else_of_the_gpu(void **state UNUSED)
{
        static const char whole[] = "DCGM_FI_DEV_FB_USED{gpu=\"4\",UUID=\"GPU-2\",modelName=\"NVIDIA A100\",Hostname";
        _free_ char *divided = write_page(0, "node-1");
        _free_ char *empty = NULL;

        assert_non_null(strstr(divided, "DCGM_FI_DEV_FB_USED{" MIG "} 300\n"));
        assert_null(strstr(divided, whole));
        samples.n_units--; /* its MIG device is not sampled, or there is none */
        empty = write_page(0, "node-1");
        samples.n_units++;
        assert_non_null(strstr(empty, whole));
}

/* As of a GB10: dcgm-exporter leaves out what DCGM calls blank. */
static void test_a_gpu_whose_memory_is_unknown_has_no_memory_and_all_else(void **state UNUSED)
{
        static const char *const lines[] = {
                "DCGM_FI_DEV_GPU_UTIL{" FIRST "} 71",
                "DCGM_FI_DEV_POWER_USAGE{" FIRST "} 123.456",
                "DCGM_FI_DEV_FB_USED{" MIG "} 300",
                "DCGM_FI_DEV_FB_FREE{" MIG "} 699",
        };
        static const enum gpu_value memory[] = {GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_MEMORY_RESERVED};

        for (size_t known = 0; known <= ARRAY_SIZE(memory); known++) { /* one of them alone, or at last none */
                _free_ char *page = NULL;

                set_up(NULL);
                for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
                        if (i != known)
                                units[0].values[memory[i]] = GPU_VALUE_UNKNOWN;
                page = write_page(0, "node-1");
                expect_lines(page, lines, ARRAY_SIZE(lines));
                assert_null(strstr(page, "DCGM_FI_DEV_FB_FREE{" FIRST));
                assert_int_equal(strstr(page, "DCGM_FI_DEV_FB_USED{" FIRST) != NULL, known == 1);
                assert_int_equal(strstr(page, "DCGM_FI_DEV_FB_RESERVED{" FIRST) != NULL, known == 2);
        }
        set_up(NULL);
}

static void test_a_shared_gpu_has_one_series_and_a_pod_that_has_it_alone_is_named(void **state UNUSED)
{
        static const char *const alone[] = {
                "DCGM_FI_DEV_GPU_UTIL{" FIRST ",container=\"main\",namespace=\"ns\",pod=\"a\"} 71"};
        static const char *const shared[] = {"DCGM_FI_DEV_GPU_UTIL{" FIRST "} 71"};
        _free_ char *one = write_page(1, "node-1");
        _free_ char *two = write_page(2, "node-1");
        _free_ char *nameless = write_page(0, "");

        expect_lines(one, alone, 1);
        expect_lines(two, shared, 1);
        assert_null(strstr(two, "pod="));
        assert_null(strstr(nameless, "Hostname="));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_labels_and_units_are_those_of_dcgm_exporter),
                cmocka_unit_test(test_memory_is_that_of_mig_devices_where_a_gpu_has_some_and_else_of_the_gpu),
                cmocka_unit_test(test_a_gpu_whose_memory_is_unknown_has_no_memory_and_all_else),
                cmocka_unit_test(test_a_shared_gpu_has_one_series_and_a_pod_that_has_it_alone_is_named),
        };

        return cmocka_run_group_tests(tests, set_up, NULL);
}
