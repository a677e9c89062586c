// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "agent/metrics.h"

#define GIB (UINT64_C(1) << 30)
#define NONE GPU_VALUE_UNKNOWN

/* ---- a node with a GPU, a MIG device and three pods ---- */

static struct mig_device mig = {.uuid = "MIG-1", .index = 2};
static struct gpu gpus[] = {
        {.uuid = "GPU-1", .index = 3}, {.uuid = "GPU-2", .index = 4, .mig_devices = &mig, .n_mig_devices = 1}};
static const struct inventory inventory = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};

static const struct gpu_process processes[] = {{.pid = 1, .memory = 5 * GIB}, {.pid = 2, .memory = 2 * GIB}};
static struct gpu_sample units[] = {
        {.uuid = "GPU-1", .gpu = "GPU-1", .has_processes = true, .processes = processes, .n_processes = 2},
        {.uuid = "GPU-2", .gpu = "GPU-2"},
        {.uuid = "MIG-1", .gpu = "GPU-2", .is_mig = true},
};
static const struct gpu_xid xids[] = {{.gpu = "GPU-2", .xid = 48, .count = 2, .last = 1763769600}};
static struct gpu_samples samples = {.units = units, .n_units = ARRAY_SIZE(units), .xids = xids, .n_xids = 1};

static const struct usage_share shares[] = {
        {.unit = "GPU-1",
                .kind = USAGE_POD,
                .pod_uid = "u1",
                .n_processes = 2,
                .memory = 5 * GIB,
                .memory_peak = 6 * GIB,
                .sm_percent = 40,
                .memory_percent = 7,
                .seconds = 12.5,
                .sm_seconds = 5,
                .energy = 321.5},
        {.unit = "GPU-1",
                .kind = USAGE_MPS_SERVER,
                .n_processes = 1,
                .memory = 2 * GIB,
                .sm_seconds = -1,
                .energy = -1},
        {.unit = "MIG-1",
                .kind = USAGE_POD,
                .pod_uid = "u2",
                .n_processes = 1,
                .memory = NONE,
                .sm_percent = GPU_PERCENT_UNKNOWN,
                .memory_percent = GPU_PERCENT_UNKNOWN,
                .sm_seconds = -1,
                .energy = -1},
};
static const struct usage_row rows[] = {
        {.id = "unknown",
                .unit = "",
                .resource = "nvidia.com/gpu",
                .tier = "default",
                .is_granted = true,
                .replicas = 1,
                .threads_permille = 1000},
        {.id = "train",
                .unit = "GPU-1",
                .pod_uid = "u1",
                .pod_namespace = "ns",
                .pod = "train",
                .container = "main",
                .resource = "nvidia.com/gpu",
                .tier = "verified",
                .is_granted = true,
                .limit = 8 * GIB,
                .replicas = 2,
                .threads_permille = 125,
                .share = &shares[0]},
        {.id = "claim", .unit = "GPU-1", .pod_uid = "u3", .pod_namespace = "ns", .claim = "gpu", .is_granted = true},
        {.id = "idle", .unit = "GPU-2", .pod_uid = "u4", .pod_namespace = "ns", .pod = "idle", .is_granted = true},
        {.id = "mig", .unit = "MIG-1", .pod_uid = "u2", .share = &shares[2]},
};

/* A process that is not visible here. */
static const struct usage_share hidden[] = {{.unit = "GPU-1",
        .kind = USAGE_HIDDEN,
        .n_processes = 1,
        .memory = GIB,
        .sm_percent = GPU_PERCENT_UNKNOWN,
        .memory_percent = GPU_PERCENT_UNKNOWN,
        .sm_seconds = -1,
        .energy = -1}};

static char *write_page_of(const struct usage_share *its_shares, size_t n_shares)
{
        const struct node_usage_view view = {.samples = &samples,
                .inventory = &inventory,
                .rows = rows,
                .n_rows = ARRAY_SIZE(rows),
                .shares = its_shares,
                .n_shares = n_shares};
        struct exposition exposition = EXPOSITION_INIT;

        usage_metrics_put(&exposition, &view);
        return exposition_take(&exposition);
}

static char *write_page(void)
{
        return write_page_of(shares, ARRAY_SIZE(shares));
}

static int set_up(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                for (size_t value = 0; value < GPU_VALUES; value++)
                        units[i].values[value] = NONE;
        units[0].values[GPU_MEMORY_TOTAL] = 40 * GIB;
        units[0].values[GPU_MEMORY_USED] = 10 * GIB;
        units[0].values[GPU_BUSY] = 71;
        units[0].values[GPU_TEMPERATURE] = 50;
        units[0].values[GPU_MEMORY_TEMPERATURE] = 60;
        units[0].values[GPU_POWER] = 123456;
        units[0].values[GPU_ENERGY] = 5000;
        units[0].values[GPU_SM_CLOCK] = 1980;
        units[0].values[GPU_CLOCK_REASONS] = NVML_CLOCKS_EVENT_REASON_SW_POWER_CAP;
        units[0].values[GPU_THERMAL_THROTTLED] = 2500000000;
        units[0].values[GPU_NVLINK_SENT] = 3;
        units[0].values[GPU_NVLINK_RECOVERY] = 8;
        units[0].values[GPU_RETIRED_UNCORRECTED] = 2;
        units[1].values[GPU_TEMPERATURE] = 0;
        units[2].values[GPU_MEMORY_USED] = GIB;
        units[2].values[GPU_TEMPERATURE] = 99; /* not a value of its own */
        return 0;
}

/* ---- what is written ---- */

#define TRAIN "{share=\"train\"}"

static void test_what_is_known_has_a_sample_in_base_units(void **state UNUSED)
{
        static const char *const lines[] = {
                "warpshare_gpu_utilization_ratio{gpu=\"GPU-1\",index=\"3\"} 0.71",
                "warpshare_gpu_temperature_celsius{gpu=\"GPU-1\",index=\"3\",sensor=\"gpu\"} 50",
                "warpshare_gpu_temperature_celsius{gpu=\"GPU-1\",index=\"3\",sensor=\"memory\"} 60",
                "warpshare_gpu_temperature_celsius{gpu=\"GPU-2\",index=\"4\",sensor=\"gpu\"} 0",
                "warpshare_gpu_power_watts{gpu=\"GPU-1\",index=\"3\"} 123.456",
                "warpshare_gpu_energy_joules_total{gpu=\"GPU-1\",index=\"3\"} 5",
                "warpshare_gpu_clock_hertz{gpu=\"GPU-1\",index=\"3\",domain=\"sm\"} 1980000000",
                "warpshare_gpu_clock_reason{gpu=\"GPU-1\",index=\"3\",reason=\"sw_power_cap\"} 1",
                "warpshare_gpu_clock_reason{gpu=\"GPU-1\",index=\"3\",reason=\"hw_slowdown\"} 0",
                "warpshare_gpu_throttled_seconds_total{gpu=\"GPU-1\",index=\"3\",reason=\"thermal\"} 2.5",
                "warpshare_gpu_nvlink_bytes_total{gpu=\"GPU-1\",index=\"3\",direction=\"sent\"} 3072",
                "warpshare_gpu_nvlink_errors_total{gpu=\"GPU-1\",index=\"3\",type=\"recovery\"} 8",
                "warpshare_gpu_retired_pages_total{gpu=\"GPU-1\",index=\"3\",type=\"uncorrected\"} 2",
                "warpshare_gpu_xid_errors_total{gpu=\"GPU-2\",index=\"4\",xid=\"48\"} 2",
                "warpshare_gpu_xid_last_timestamp_seconds{gpu=\"GPU-2\",index=\"4\",xid=\"48\"} 1763769600",
                "warpshare_unit_memory_capacity_bytes{unit=\"GPU-1\",index=\"3\"} 42949672960",
                "warpshare_unit_memory_used_bytes{unit=\"GPU-1\",index=\"3\"} 10737418240",
                "warpshare_unit_memory_used_bytes{unit=\"MIG-1\",index=\"4:2\"} 1073741824",
                "warpshare_unit_other_memory_bytes{unit=\"GPU-1\",index=\"3\",by=\"mps-server\"} 2147483648",
                "warpshare_unit_other_memory_bytes{unit=\"GPU-1\",index=\"3\",by=\"unattributed\"} 3221225472",
                "warpshare_container_info{share=\"train\",unit=\"GPU-1\",resource=\"nvidia.com/gpu\",namespace=\"ns\","
                "pod=\"train\",container=\"main\",tier=\"verified\"} 1",
                "warpshare_container_info{share=\"claim\",unit=\"GPU-1\",namespace=\"ns\",claim=\"gpu\",pod_uid=\"u3\"} 1",
                "warpshare_container_info{share=\"mig\",unit=\"MIG-1\",pod_uid=\"u2\"} 1",
                "warpshare_container_info{share=\"unknown\",resource=\"nvidia.com/gpu\"} 1",
                "warpshare_container_replicas" TRAIN " 2",
                "warpshare_container_replicas{share=\"unknown\"} 1",
                "warpshare_container_active_thread_ratio" TRAIN " 0.125",
                "warpshare_container_memory_limit_bytes" TRAIN " 8589934592",
                "warpshare_container_memory_used_bytes" TRAIN " 5368709120",
                "warpshare_container_memory_peak_bytes" TRAIN " 6442450944",
                "warpshare_container_sm_ratio" TRAIN " 0.4",
                "warpshare_container_gpu_seconds_total" TRAIN " 12.5",
                "warpshare_container_sm_seconds_total" TRAIN " 5",
                "warpshare_container_energy_estimated_joules_total" TRAIN " 321.5",
                /* by a claim, without processes */
                "warpshare_container_memory_used_bytes{share=\"claim\"} 0",
        };
        _free_ char *page = write_page();

        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
                _free_ char *line = xasprintf("\n%s\n", lines[i]);

                if (!strstr(page, line))
                        fail_msg("'%s' is not in:\n%s", lines[i], page);
        }
}

static void test_what_is_unknown_has_none(void **state UNUSED)
{
        static const char *const absent[] = {
                "warpshare_gpu_power_watts{gpu=\"GPU-2\"",
                "warpshare_gpu_temperature_celsius{gpu=\"MIG-1\"",
                "warpshare_gpu_clock_reason{gpu=\"GPU-2\"",
                "warpshare_unit_other_memory_bytes{unit=\"MIG-1\"",       /* its processes are not listed */
                "warpshare_container_memory_limit_bytes{share=\"claim\"", /* no limit */
                "warpshare_container_replicas{share=\"claim\"",
                "warpshare_container_active_thread_ratio{share=\"claim\"",
                "warpshare_container_memory_used_bytes{share=\"unknown\"",
                "warpshare_container_active_thread_ratio{share=\"unknown\"",
                "warpshare_container_memory_used_bytes{share=\"idle\"", /* its processes are not listed */
                "warpshare_container_memory_used_bytes{share=\"mig\"",
                "warpshare_container_sm_ratio{share=\"mig\"",
                "warpshare_container_sm_seconds_total{share=\"mig\"",
                "warpshare_container_energy_estimated_joules_total{share=\"mig\"",
                "warpshare_container_sm_ratio{share=\"claim\"",
        };
        _free_ char *page = write_page();

        for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
                if (strstr(page, absent[i]))
                        fail_msg("'%s' is in:\n%s", absent[i], page);
}

static void test_before_the_first_reading_there_is_what_was_given(void **state UNUSED)
{
        const struct node_usage_view view = {.rows = rows, .n_rows = ARRAY_SIZE(rows)};
        struct exposition exposition = EXPOSITION_INIT;
        _free_ char *page = NULL;

        usage_metrics_put(&exposition, &view);
        page = exposition_take(&exposition);
        assert_non_null(strstr(page, "\nwarpshare_container_info{share=\"train\""));
        assert_non_null(strstr(page, "\nwarpshare_container_memory_limit_bytes" TRAIN));
        assert_null(strstr(page, "\nwarpshare_container_memory_used_bytes{"));
        assert_null(strstr(page, "\nwarpshare_container_sm_seconds_total{"));
        assert_null(strstr(page, "\nwarpshare_gpu"));
}

#define CLAIMED "{share=\"claim\"} 0\n"

static void test_a_pod_without_processes_uses_nothing_unless_some_are_hidden(void **state UNUSED)
{
        static const char *const families[] = {"memory_used_bytes", "memory_peak_bytes", "gpu_seconds_total"};
        _free_ char *all = write_page();
        _free_ char *some = write_page_of(hidden, ARRAY_SIZE(hidden));

        for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
                _free_ char *line = xasprintf("warpshare_container_%s" CLAIMED, families[i]);

                assert_non_null(strstr(all, line));
                assert_null(strstr(some, line));
        }
        assert_non_null(strstr(some, "warpshare_container_memory_used_bytes" TRAIN));
        assert_non_null(strstr(some, "warpshare_container_memory_limit_bytes" TRAIN));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_known_has_a_sample_in_base_units),
                cmocka_unit_test(test_what_is_unknown_has_none),
                cmocka_unit_test(test_a_pod_without_processes_uses_nothing_unless_some_are_hidden),
                cmocka_unit_test(test_before_the_first_reading_there_is_what_was_given),
        };

        return cmocka_run_group_tests(tests, set_up, NULL);
}
