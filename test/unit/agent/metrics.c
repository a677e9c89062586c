// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/metrics.h"

/* ---- a node with one of everything ---- */

static const struct unit units[] = {
        {.uuid = "GPU-1", .index = "0", .memory = UINT64_C(32) << 30, .replicas = 4},
        {.uuid = "GPU-2", .index = "1", .memory = UINT64_C(32) << 30, .replicas = 4},
};
static const struct resource resource = {
        .name = "nvidia.com/gpu", .strategy = SHARING_MPS, .units = units, .n_units = ARRAY_SIZE(units)};

static const char *const devices[] = {"GPU-1::0", "GPU-1::1"};
static const struct allocation bound = {
        .id = "g1a", .unit = "GPU-1", .devices = devices, .n_devices = 2, .since = 1763769600};
static const struct allocation second = {.id = "g1b", .unit = "GPU-1", .devices = devices, .n_devices = 1, .since = 0};
static const struct allocation free_one = {.id = "g1c", .devices = devices, .n_devices = 1};
static const struct holder holder = {.pod_namespace = "team-a", .pod = "train", .container = "main", .pod_uid = "u1"};
static const struct holder sidecar = {.pod_namespace = "team-a", .pod = "train", .container = "side", .pod_uid = "u1"};
static const struct holder init = {.pod_uid = "u2"};
static const struct ledger_allocation allocations[] = {
        {.allocation = &bound,
                .holder = &holder,
                .tier = MPS_TIER_VERIFIED,
                .limit_mib = 15000,
                .threads_permille = 500},
        {.allocation = &second, .holder = &sidecar, .threads_permille = 250},
        {.allocation = &free_one, .threads_permille = 1000},
        {.allocation = &second, .holder = &init, .threads_permille = 250},
};

static const bool healthy[] = {true, false};
static const struct agent_metrics_resource resources[] = {
        {.resource = &resource,
                .devices = {.healthy = 3, .reserved = 1, .unhealthy = 4},
                .healthy = healthy,
                .allocations = allocations,
                .n_allocations = 3},
};

static const char *const first_unit[] = {"GPU-1"};
static struct mps_daemon_status daemon_status = {
        .name = "GPU-1", .resource = "nvidia.com/gpu", .units = first_unit, .n_units = 1, .state = MPS_READY};
static const struct mps_status mps = {.daemons = &daemon_status, .n_daemons = 1};

static const struct limit_violation memory = {.kind = LIMIT_VIOLATION_MEMORY,
        .daemon = "GPU-1",
        .unit = "GPU-1",
        .client = 4711,
        .pod_uid = "u1",
        .pod = "team-a/train",
        .container_id = "c0ffee"};
static const struct limit_violation limit = {.kind = LIMIT_VIOLATION_LIMIT,
        .daemon = "GPU-1",
        .unit = "GPU-1",
        .client = 4711,
        .pod_uid = "u1",
        .pod = "team-a/train",
        .container_id = "c0ffee"};
static const struct limit_violation unknown = {.kind = LIMIT_VIOLATION_UNKNOWN, .daemon = "GPU-1", .measured = 3};
static const struct limit_violation *const standing[] = {&memory, &limit, &unknown, &limit};

static struct mps_faults faults;

static const struct node_usage_view no_usage;

static struct agent_metrics node(void)
{
        return (struct agent_metrics){
                .version = "0.1.0",
                .commit = "0123abc",
                .driver_version = "580.105.08",
                .resources = resources,
                .n_resources = ARRAY_SIZE(resources),
                .usage = &no_usage,
                .ledger = {.mps = &mps,
                        .faults = &faults,
                        .standing = standing,
                        .n_standing = ARRAY_SIZE(standing),
                        .violations_total = {[LIMIT_VIOLATION_MEMORY] = 2, [LIMIT_VIOLATION_LIMIT] = 5},
                        .clients_ended_total = 3,
                        .n_twice = 2},
                .events = {.sent = 7, .dropped = 2},
        };
}

static int set_up(void **state UNUSED)
{
        daemon_status.state = MPS_FAULT;
        mps_faults_follow(&faults, &mps);
        return 0;
}

static int tear_down(void **state UNUSED)
{
        mps_faults_done(&faults);
        return 0;
}

/* ---- what is written ---- */

static void assert_lines(const char *text, const char *const *lines, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _free_ char *line = xasprintf("\n%s\n", lines[i]);

                if (!strstr(text, line))
                        fail_msg("'%s' is not in:\n%s", lines[i], text);
        }
}

static unsigned int count_lines(const char *text, const char *beginning)
{
        _free_ char *line = xasprintf("\n%s", beginning);
        unsigned int count = 0;

        for (const char *at = text; (at = strstr(at, line)); at++)
                count++;
        return count;
}

#define CLIENT                                                                                                         \
        "daemon=\"GPU-1\",unit=\"GPU-1\",namespace=\"team-a\",pod=\"train\",pod_uid=\"u1\","                           \
        "container_id=\"c0ffee\",pid=\"4711\"}"

static const char *const expected[] = {
        "warpshare_build_info{version=\"0.1.0\",commit=\"0123abc\",driver_version=\"580.105.08\"} 1",
        "warpshare_resource_devices{resource=\"nvidia.com/gpu\",health=\"healthy\"} 3",
        "warpshare_resource_devices{resource=\"nvidia.com/gpu\",health=\"reserved\"} 1",
        "warpshare_resource_devices{resource=\"nvidia.com/gpu\",health=\"unhealthy\"} 4",
        "warpshare_resource_units{resource=\"nvidia.com/gpu\",strategy=\"mps\"} 2",
        "warpshare_unit_healthy{resource=\"nvidia.com/gpu\",unit=\"GPU-1\",index=\"0\"} 1",
        "warpshare_unit_healthy{resource=\"nvidia.com/gpu\",unit=\"GPU-2\",index=\"1\"} 0",
        "warpshare_unit_replicas{resource=\"nvidia.com/gpu\",unit=\"GPU-2\",index=\"1\"} 4",
        "warpshare_unit_memory_bytes{resource=\"nvidia.com/gpu\",unit=\"GPU-1\",index=\"0\"} 34359738368",
        "warpshare_mps_supervisor_up 1",
        "warpshare_mps_daemon_state{daemon=\"GPU-1\",resource=\"nvidia.com/gpu\",state=\"fault\"} 1",
        "warpshare_mps_faults_total{daemon=\"GPU-1\",resource=\"nvidia.com/gpu\",unit=\"GPU-1\",kind=\"gone\"} 1",
        "warpshare_mps_faults_total{daemon=\"GPU-1\",resource=\"nvidia.com/gpu\",unit=\"GPU-1\",kind=\"server\"} 0",
        "warpshare_mps_fault_pod{daemon=\"GPU-1\",unit=\"GPU-1\",namespace=\"team-a\",pod=\"train\"} 1",
        "warpshare_limit_violations{kind=\"memory\"," CLIENT " 1",
        "warpshare_limit_violations{kind=\"limit\"," CLIENT " 2",
        "warpshare_mps_unknown_clients{daemon=\"GPU-1\"} 3",
        "warpshare_limit_violations_total{kind=\"memory\"} 2",
        "warpshare_limit_violations_total{kind=\"limit\"} 5",
        "warpshare_limit_violations_total{kind=\"unallocated\"} 0",
        "warpshare_mps_clients_terminated_total 3",
        "warpshare_devices_held_twice 2",
        "warpshare_events_sent_total 7",
        "warpshare_events_dropped_total 2",
};

static void test_the_page_has_everything_about_the_node(void **state UNUSED)
{
        const struct agent_metrics metrics = node();
        _free_ char *text = agent_metrics_write(&metrics);

        assert_lines(text, expected, ARRAY_SIZE(expected));
}

/* A pod has several containers on the unit, and of some its name is not known. */
static void test_a_pod_is_listed_once_while_its_daemon_is_at_fault(void **state UNUSED)
{
        struct agent_metrics_resource all = resources[0];
        struct agent_metrics metrics = node();
        _free_ char *at_fault = NULL;
        _free_ char *well = NULL;

        all.n_allocations = ARRAY_SIZE(allocations);
        metrics.resources = &all;
        at_fault = agent_metrics_write(&metrics);
        assert_int_equal(count_lines(at_fault, "warpshare_mps_fault_pod{"), 1);
        daemon_status.state = MPS_READY;
        well = agent_metrics_write(&metrics);
        assert_int_equal(count_lines(well, "warpshare_mps_fault_pod{"), 0);
}

/* Two threads in the same call are one series: that of the one that has been there for longer. */
static void test_calls_that_hang_have_metrics_with_their_gpu(void **state UNUSED)
{
        const struct gpu_hang hangs[] = {
                {.call = {.call = "nvmlDeviceGetMemoryInfo",
                         .subject = CALL_ON_GPU,
                         .index = 2,
                         .name = "GPU-2",
                         .since_ms = 1000}},
                {.call = {.call = "nvmlSystemGetDriverVersion", .since_ms = 30000}},
                {.call = {.call = "nvmlSystemGetDriverVersion", .since_ms = 20000}},
        };
        const struct agent_metrics metrics = {.version = "0.1.0",
                .commit = "unknown",
                .hangs = hangs,
                .n_hangs = ARRAY_SIZE(hangs),
                .hangs_total = 4,
                .n_left = 2,
                .usage = &no_usage,
                .now_ms = 61000};
        _free_ char *text = agent_metrics_write(&metrics);
        static const char *const lines[] = {
                "warpshare_nvml_call_hanging_seconds{call=\"nvmlDeviceGetMemoryInfo\",gpu=\"GPU-2\",index=\"2\"} 60",
                "warpshare_nvml_call_hanging_seconds{call=\"nvmlSystemGetDriverVersion\"} 41",
                "warpshare_nvml_hangs_total 4", "warpshare_processes_left_behind 2"};

        assert_lines(text, lines, ARRAY_SIZE(lines));
        assert_int_equal(count_lines(text, "warpshare_nvml_call_hanging_seconds{"), 2);
}

static const struct dra_device dra_devices[] = {
        {.name = "gpu-0", .kind = DRA_DEVICE_WHOLE},
        {.name = "gpu-0-shared", .kind = DRA_DEVICE_SHARED},
        {.name = "gpu-1-shared", .kind = DRA_DEVICE_SHARED},
};
static const struct dra_layout dra_layout = {.devices = dra_devices, .n_devices = ARRAY_SIZE(dra_devices)};
static const struct dra_measures dra = {.is_registered = true,
        .knows_features = true,
        .features = {.consumable_capacity = true},
        .layout = &dra_layout,
        .calls = {.prepared = 5, .prepare_refused = 1, .unprepared = 3}};
static const struct ledger_claim one_claim = {.uid = "u1", .name = "team-a/train"};
static const struct ledger_claim_state claim_states[] = {{&one_claim, true}, {&one_claim, true}, {&one_claim, false}};

static void test_dra_has_metrics_of_its_own(void **state UNUSED)
{
        struct agent_metrics metrics = node();
        static const char *const lines[] = {"warpshare_dra_registered 1", "warpshare_dra_slices_ready 0",
                "warpshare_dra_devices{kind=\"whole\"} 1", "warpshare_dra_devices{kind=\"shared\"} 2",
                "warpshare_dra_feature{gate=\"DRAConsumableCapacity\"} 1",
                "warpshare_dra_feature{gate=\"DRAPartitionableDevices\"} 0",
                "warpshare_dra_calls_total{call=\"prepare\",outcome=\"done\"} 5",
                "warpshare_dra_calls_total{call=\"prepare\",outcome=\"refused\"} 1",
                "warpshare_dra_calls_total{call=\"unprepare\",outcome=\"done\"} 3",
                "warpshare_dra_claims{state=\"held\"} 2", "warpshare_dra_claims{state=\"waiting\"} 1"};
        _free_ char *text = NULL;
        _free_ char *without = NULL;

        without = agent_metrics_write(&metrics);
        assert_int_equal(count_lines(without, "warpshare_dra_"), 0);
        metrics.dra = &dra;
        metrics.claims = claim_states;
        metrics.n_claims = ARRAY_SIZE(claim_states);
        text = agent_metrics_write(&metrics);
        assert_lines(text, lines, ARRAY_SIZE(lines));
}

static const struct mig_manager mig_manager = {.phase = MIG_WAITING,
        .state = MIG_STATE_PENDING,
        .config = "all-1g.10gb",
        .reason = "team-a/train/main (GPU-1) has it",
        .results = {[MIG_RESULT_APPLIED] = 3, [MIG_RESULT_REFUSED] = 2}};
static const struct agent_mig_measures mig = {
        .manager = &mig_manager, .since = 1763769600, .n_withdrawn = 2, .n_holders = 1};

static void test_the_mig_manager_says_what_is_wanted_and_what_it_waits_for(void **state UNUSED)
{
        struct agent_metrics metrics = node();
        static const char *const lines[] = {"warpshare_mig_config_state{config=\"all-1g.10gb\",state=\"pending\"} 1",
                "warpshare_mig_config_state{config=\"all-1g.10gb\",state=\"failed\"} 0",
                "warpshare_mig_config_state_since_seconds{config=\"all-1g.10gb\"} 1763769600",
                "warpshare_mig_phase{phase=\"waiting\"} 1", "warpshare_mig_phase{phase=\"applying\"} 0",
                "warpshare_mig_changes_total{result=\"applied\"} 3",
                "warpshare_mig_changes_total{result=\"refused\"} 2", "warpshare_mig_withdrawn_gpus 2",
                "warpshare_mig_holders 1"};
        _free_ char *text = NULL;
        _free_ char *without = agent_metrics_write(&metrics);

        assert_int_equal(count_lines(without, "warpshare_mig_"), 0);
        metrics.mig = &mig;
        text = agent_metrics_write(&metrics);
        assert_lines(text, lines, ARRAY_SIZE(lines));
        assert_int_equal(count_lines(text, "warpshare_mig_config_state{"), 4);
}

static void test_a_node_without_a_mig_configuration_has_no_state(void **state UNUSED)
{
        static const struct mig_manager idle = {.phase = MIG_IDLE};
        static const struct agent_mig_measures nothing = {.manager = &idle};
        struct agent_metrics metrics = node();
        static const char *const lines[] = {"warpshare_mig_config_state{state=\"success\"} 0",
                "warpshare_mig_phase{phase=\"idle\"} 1", "warpshare_mig_withdrawn_gpus 0"};
        _free_ char *text = NULL;

        metrics.mig = &nothing;
        text = agent_metrics_write(&metrics);
        assert_lines(text, lines, ARRAY_SIZE(lines));
        assert_int_equal(count_lines(text, "warpshare_mig_config_state_since_seconds"), 0);
}

static void test_nothing_is_a_page_too(void **state UNUSED)
{
        const struct agent_metrics metrics = {.version = "0.1.0", .commit = "unknown", .usage = &no_usage};
        _free_ char *text = agent_metrics_write(&metrics);
        static const char *const lines[] = {
                "warpshare_build_info{version=\"0.1.0\",commit=\"unknown\"} 1", "warpshare_mps_supervisor_up 0"};

        assert_lines(text, lines, ARRAY_SIZE(lines));
        assert_int_equal(count_lines(text, "warpshare_mps_daemon_state{"), 0);
}

/* ---- the judgement of Prometheus ---- */

static void check_with_promtool(const struct agent_metrics *metrics)
{
        _free_ char *text = agent_metrics_write(metrics);
        FILE *promtool = popen("promtool check metrics >&2", "we");
        int status;

        assert_non_null(promtool);
        assert_true(fputs(text, promtool) >= 0);
        status = pclose(promtool);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("promtool check metrics: status %d for:\n%s", status, text);
}

static void test_prometheus_finds_no_fault_with_it(void **state UNUSED)
{
        const struct agent_metrics empty = {.version = "0.1.0", .commit = "unknown", .usage = &no_usage};
        struct agent_metrics metrics = node();

        metrics.mig = &mig;
        if (system("command -v promtool >/dev/null") != 0) {
                print_message("promtool is not installed (Debian: prometheus)\n");
                skip();
        }
        check_with_promtool(&metrics);
        check_with_promtool(&empty);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_page_has_everything_about_the_node, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_pod_is_listed_once_while_its_daemon_is_at_fault, set_up, tear_down),
                cmocka_unit_test(test_calls_that_hang_have_metrics_with_their_gpu),
                cmocka_unit_test(test_dra_has_metrics_of_its_own),
                cmocka_unit_test(test_the_mig_manager_says_what_is_wanted_and_what_it_waits_for),
                cmocka_unit_test(test_a_node_without_a_mig_configuration_has_no_state),
                cmocka_unit_test(test_nothing_is_a_page_too),
                cmocka_unit_test_setup_teardown(test_prometheus_finds_no_fault_with_it, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
