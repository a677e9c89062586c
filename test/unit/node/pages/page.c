// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/pages/page.h"
#include "base/file.h"
#include "base/text.h"

#define GIB (UINT64_C(1) << 30)
#define NONE GPU_VALUE_UNKNOWN

/* ---- a node with a shared GPU, a GPU with a MIG device, and one for DRA ---- */

static struct mig_device mig = {.uuid = "MIG-1", .index = 2, .profile = "1g.10gb", .memory = 10 * GIB};
static struct gpu gpus[] = {
        {.uuid = "GPU-0", .index = 0, .name = "NVIDIA H100", .memory = 80 * GIB},
        {.uuid = "GPU-1",
                .index = 1,
                .name = "",
                .memory = 80 * GIB,
                .mig_enabled = true,
                .mig_devices = &mig,
                .n_mig_devices = 1},
        {.uuid = "GPU-2", .index = 2, .name = "NVIDIA H100", .failure = "no answer"},
};
static const struct inventory inventory = {.driver_version = "570.86", .gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};

static const struct shared_resource shared;
static const struct unit shared_units[] = {{.uuid = "GPU-0", .shared = &shared, .replicas = 4}};
static const struct unit mig_units[] = {{.uuid = "MIG-1", .replicas = 1}};
static const struct unit claimable_units_of_node[] = {{.uuid = "GPU-2", .replicas = 1}};
static const struct device devices[] = {{"GPU-0::0", 0, 0}, {"GPU-0::1", 0, 1}, {"GPU-0::2", 0, 2}, {"GPU-0::3", 0, 3}};
static struct resource resources[] = {
        {.name = "nvidia.com/gpu.shared",
                .strategy = SHARING_MPS,
                .units = shared_units,
                .n_units = 1,
                .devices = devices,
                .n_devices = 4},
        {.name = "nvidia.com/mig-1g.10gb", .units = mig_units, .n_units = 1},
};
static const struct resource claimable = {.units = claimable_units_of_node, .n_units = 1};
static const struct plan plan = {.resources = resources, .n_resources = 2, .claimable = &claimable};

static bool healthy[] = {true};
static bool usable[] = {true, true, true, false};
static const struct device_list list = {.resource = &resources[0], .healthy = healthy, .usable = usable};
static const struct device_list *const lists[] = {&list, NULL};

static const struct ledger_claim_device claim_devices[] = {{.unit = "GPU-2", .is_shared = true}};
static const struct ledger_claim claim = {.devices = claim_devices, .n_devices = 1};
static const struct ledger_claim_state claims[] = {{&claim, true}};

static const pid_t servers[] = {900};
static struct usage_past past;
static const struct usage_share shares[] = {
        {.unit = "GPU-0",
                .kind = USAGE_POD,
                .pod_uid = "u1",
                .n_processes = 1,
                .memory = 5 * GIB,
                .memory_peak = 6 * GIB,
                .sm_percent = 40,
                .memory_percent = GPU_PERCENT_UNKNOWN,
                .idle_ms = 5000,
                .seconds = 12.5,
                .sm_seconds = -1,
                .energy = -1,
                .past = &past},
        {.unit = "GPU-0", .kind = USAGE_MPS_SERVER, .n_processes = 1, .memory = GIB, .sm_percent = 7},
        {.unit = "GPU-0", .kind = USAGE_HOST},
};
static const struct usage_row rows[] = {
        {.unit = "GPU-0",
                .pod_uid = "u1",
                .pod_namespace = "ns",
                .pod = "train",
                .container = "main",
                .is_granted = true,
                .limit = 8 * GIB,
                .threads_permille = 255,
                .replicas = 2,
                .share = &shares[0]},
        {.unit = "GPU-0", .is_granted = true, .replicas = 1, .threads_permille = 1000}, /* kubelet has not said whose */
        {.unit = "GPU-2", .pod_uid = "u3", .pod_namespace = "ns", .claim = "gpu", .is_granted = true},
        {.unit = "MIG-1", .pod_uid = "u4", .pod = "idle", .is_granted = true, .replicas = 1},
};

static const struct gpu_process processes[] = {
        {.pid = 4711, .memory = 5 * GIB, .sm_percent = 40, .is_visible = true, .pod_uid = "u1"},
        {.pid = 900, .memory = GIB, .sm_percent = 7, .is_visible = true},
};
static struct gpu_sample units[] = {
        {.uuid = "GPU-0",
                .gpu = "GPU-0",
                .at_ms = 9000,
                .has_processes = true,
                .processes = processes,
                .n_processes = 2},
        {.uuid = "MIG-1", .gpu = "GPU-1", .is_mig = true, .at_ms = 9500, .has_processes = true},
};
static struct gpu_samples samples = {.units = units, .n_units = ARRAY_SIZE(units)};

static const struct node_event_record events[] = {
        {1000500, NODE_EVENT_GPU_UNHEALTHY, true, "MIG device 1:2 (MIG-1) is unhealthy"},
        {1001000, NODE_EVENT_CONFIG_APPLIED, false, "another"}};

static struct node_usage_view usage = {.samples = &samples,
        .servers = servers,
        .n_servers = 1,
        .is_listed = true,
        .rows = rows,
        .n_rows = ARRAY_SIZE(rows),
        .shares = shares,
        .n_shares = ARRAY_SIZE(shares)};

static struct node_facts facts;

static void make(struct node_page *ret, struct arena *arena)
{
        node_page_make(ret, arena, &facts);
}

static int set_up(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                for (size_t j = 0; j < GPU_VALUES; j++)
                        units[i].values[j] = NONE;
        units[0].values[GPU_MEMORY_TOTAL] = 79 * GIB;
        units[0].values[GPU_MEMORY_USED] = 7 * GIB;
        units[0].values[GPU_BUSY] = 62;
        units[0].values[GPU_POWER] = 212500;
        units[0].has_processes = units[1].has_processes = true;
        past = (struct usage_past){0};
        usage.usage = NULL;
        usage.samples = &samples;
        usage.is_listed = true;
        facts = (struct node_facts){.node = "node-a",
                .agent = "0.1.0",
                .configuration = "default",
                .inventory = &inventory,
                .plan = &plan,
                .lists = lists,
                .usage = &usage,
                .claims = claims,
                .n_claims = 1,
                .events = events,
                .n_events = ARRAY_SIZE(events),
                .is_serving = true,
                .now_ms = 1700000001000,
                .monotonic_ms = 10000,
                .system_root = "/nonexistent"};
        return 0;
}

static void test_a_page_has_what_the_agent_knows(void **state UNUSED)
{
        static struct unhealthy_unit unhealthy[] = {{(char *)(uintptr_t) "MIG-1", (char *)(uintptr_t) "Xid 79"}};
        static const struct unit_health health = {unhealthy, 1};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        struct node_page page;

        facts.health = &health;
        make(&page, &arena);
        text = node_page_write(&page, false);
        assert_string_equal(text,
                "{\"version\":1,\"node\":\"node-a\",\"agent\":\"0.1.0\",\"time\":1700000000.5,\"driver\":\"570.86\","
                "\"configuration\":\"default\",\"gpus\":["
                "{\"uuid\":\"GPU-0\",\"index\":\"0\",\"model\":\"NVIDIA H100\",\"memory\":85899345920,"
                "\"memoryUsed\":7516192768,\"utilization\":0.62,\"power\":212.5,\"units\":["
                "{\"uuid\":\"GPU-0\",\"index\":\"0\",\"resource\":\"nvidia.com/gpu.shared\",\"sharing\":\"mps\","
                "\"by\":\"device-plugin\",\"replicas\":4,\"granted\":3,\"reserved\":1,\"memory\":84825604096,"
                "\"memoryUsed\":7516192768,\"utilization\":0.62,\"healthy\":true,\"shares\":["
                "{\"namespace\":\"ns\",\"pod\":\"train\",\"container\":\"main\",\"podUid\":\"u1\",\"replicas\":2,"
                "\"memoryLimit\":8589934592,\"threadPercent\":25.5,\"memoryUsed\":5368709120,\"memoryPeak\":6442450944,"
                "\"sm\":0.4,\"idleSince\":1699999996,\"seconds\":12.5},{\"replicas\":1,\"memoryUsed\":0,\"memoryPeak\":0,\"seconds\":0}],"
                "\"others\":[{\"by\":\"mps-server\",\"memoryUsed\":1073741824,\"sm\":0.07},"
                "{\"by\":\"unattributed\",\"memoryUsed\":1073741824}]}]},"
                "{\"uuid\":\"GPU-1\",\"index\":\"1\",\"memory\":85899345920,\"units\":["
                "{\"uuid\":\"MIG-1\",\"index\":\"1:2\",\"profile\":\"1g.10gb\",\"resource\":\"nvidia.com/mig-1g.10gb\","
                "\"sharing\":\"none\",\"by\":\"device-plugin\",\"replicas\":1,\"granted\":1,\"memory\":10737418240,\"healthy\":false,"
                "\"reason\":\"Xid 79\",\"shares\":[{\"pod\":\"idle\",\"podUid\":\"u4\",\"replicas\":1,\"memoryUsed\":0,"
                "\"memoryPeak\":0,\"seconds\":0}]}]},"
                "{\"uuid\":\"GPU-2\",\"index\":\"2\",\"model\":\"NVIDIA H100\",\"units\":["
                "{\"uuid\":\"GPU-2\",\"index\":\"2\",\"sharing\":\"mps\",\"by\":\"dra\",\"healthy\":false,"
                "\"reason\":\"no answer\",\"shares\":[{\"namespace\":\"ns\",\"claim\":\"gpu\",\"podUid\":\"u3\","
                "\"memoryPeak\":0,\"seconds\":0}]}]}],"
                "\"events\":[{\"time\":1000.5,\"kind\":\"Warning\",\"reason\":\"GPUUnhealthy\",\"unit\":\"MIG-1\","
                "\"text\":\"MIG device 1:2 (MIG-1) is unhealthy\"},"
                "{\"time\":1001,\"kind\":\"Normal\",\"reason\":\"ConfigApplied\",\"text\":\"another\"}]}\n");
}

static void test_without_an_agent_there_is_neither_plan_nor_health(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page;

        facts = (struct node_facts){.inventory = &inventory, .usage = &usage, .system_root = "/"};
        make(&page, &arena);
        assert_null(page.agent);
        assert_null(page.gpus[0].units[0].resource);
        assert_true(isnan(page.gpus[0].units[0].replicas) && isnan(page.gpus[0].units[0].granted));
        assert_false(page.gpus[0].units[0].has_health);
}

static void test_what_nobody_said_is_unknown(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page;

        facts.inventory = NULL;
        make(&page, &arena);
        assert_int_equal(page.n_gpus, 0);
        assert_null(page.driver);
        facts.inventory = &inventory;
        facts.lists = NULL;
        usage.is_listed = false;
        usage.samples = NULL;
        make(&page, &arena);
        assert_true(isnan(page.time));
        assert_true(isnan(page.gpus[0].units[0].reserved));
        assert_true(page.gpus[0].units[0].granted == 3); /* the ledger knows without kubelet */
        assert_true(isnan(page.gpus[1].units[0].granted));
        assert_true(isnan(page.gpus[0].units[0].shares[0].memory_used));
        assert_int_equal(page.gpus[0].units[0].n_others, 0);
}

static void test_a_unit_whose_containers_keep_the_plan_before_is_shown_as_they_have_it(void **state UNUSED)
{
        static const struct unit draining_units[] = {{.uuid = "GPU-1", .shared = &shared, .replicas = 9},
                {.uuid = "GPU-0", .shared = &shared, .replicas = 10}};
        static const struct resource draining = {.name = "nvidia.com/gpu.old",
                .strategy = SHARING_MPS,
                .units = draining_units,
                .n_units = ARRAY_SIZE(draining_units)};
        static const struct unit kept_units[] = {{.uuid = "MIG-1", .replicas = 1, .is_kept = true}};
        static struct resource old[] = {{.name = "nvidia.com/gpu.old", .draining = &draining, .n_draining = 1},
                {.name = "nvidia.com/mig-1g.10gb", .units = kept_units, .n_units = 1}};
        static const struct plan rollout = {.resources = old, .n_resources = ARRAY_SIZE(old), .claimable = &claimable};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct report_unit *unit;
        struct node_page page;

        facts.plan = &rollout;
        facts.lists = NULL;
        make(&page, &arena);
        unit = &page.gpus[0].units[0];
        assert_true(unit->draining);
        assert_string_equal(unit->by, "device-plugin");
        assert_string_equal(unit->resource, "nvidia.com/gpu.old");
        assert_string_equal(unit->sharing, "mps");
        assert_true(unit->replicas == 10 && unit->granted == 3 && isnan(unit->reserved));
        assert_true(page.gpus[1].units[0].draining && page.gpus[1].units[0].granted == 1);
        assert_false(page.gpus[2].units[0].draining);
}

/* It would say of a GPU that is full that nobody has anything of it. */
static void test_an_agent_that_waits_for_another_does_not_know_what_is_granted(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page;

        facts.is_serving = false;
        make(&page, &arena);
        for (size_t i = 0; i < 2; i++) {
                const struct report_unit *unit = &page.gpus[i].units[0];

                assert_true(!isnan(unit->replicas) && isnan(unit->granted));
        }
}

/* Processes of another PID namespace may be those of any pod. */
static struct mps_client clients[] = {
        {.pid = 81, .unit = "GPU-0", .pod_uid = "u1", .memory = 3 * GIB},
        {.pid = 82, .unit = "GPU-0", .pod_uid = "u2", .memory = UINT64_MAX},
        {.pid = 83, .unit = "GPU-9", .pod_uid = "u3", .memory = GIB},
        {.pid = 0, .unit = "GPU-0", .memory = GIB},
};
static const char *const served[] = {"GPU-0", "GPU-9"};
static struct mps_daemon_status mps = {
        .units = served, .n_units = 2, .state = MPS_READY, .clients = clients, .n_clients = ARRAY_SIZE(clients)};
static const struct mps_status status = {.daemons = &mps, .n_daemons = 1};

/* GPU-0 as the agent sees it, with |n| of |listed| on it. */
static const struct gpu_sample *name_clients(struct gpu_samples *of, const struct gpu_process *listed, size_t n)
{
        static struct gpu_sample unit;

        unit = (struct gpu_sample){.uuid = "GPU-0", .has_processes = true, .processes = listed, .n_processes = n};
        *of = (struct gpu_samples){.units = &unit, .n_units = 1};
        node_usage_name_clients(of, &status);
        return &unit;
}

static void test_where_no_process_is_visible_the_supervisor_names_its_clients(void **state UNUSED)
{
        static const struct gpu_process unseen[] = {{.pid = 5, .memory = GIB}, {.pid = 81, .memory = GIB}};
        static const struct gpu_process seen[] = {
                {.pid = 5, .memory = GIB}, {.pid = 6, .memory = GIB, .is_visible = true}};
        struct gpu_samples of;
        const struct gpu_sample *unit = name_clients(&of, unseen, 2);

        assert_int_equal(unit->n_processes, 3); /* that of GPU-9 is not among them */
        assert_string_equal(unit->processes[0].pod_uid, "u1");
        assert_true(unit->processes[0].memory == 3 * GIB);
        assert_int_equal(unit->processes[0].sm_percent, GPU_PERCENT_UNKNOWN);
        assert_true(unit->processes[1].memory == GPU_VALUE_UNKNOWN);
        assert_int_equal(usage_kind_of(&unit->processes[2], NULL, 0), USAGE_HIDDEN); /* to the supervisor, too */
        assert_false(unit->processes[0].is_visible);
        arena_done(&of.arena);
        unit = name_clients(&of, NULL, 0);
        assert_int_equal(unit->n_processes, 2); /* one without memory has no context there */
        arena_done(&of.arena);
        assert_ptr_equal(name_clients(&of, seen, 2)->processes, seen);
        mps.state = MPS_FAULT;
        assert_ptr_equal(name_clients(&of, unseen, 2)->processes, unseen);
        mps.state = MPS_READY;
}

static void test_it_is_said_why_use_is_not_known(void **state UNUSED)
{
        static const struct usage_share hidden[] = {{.unit = "GPU-0", .kind = USAGE_HIDDEN, .n_processes = 1}};
        static const char *const all[] = {"GPU-0", "GPU-2", "MIG-1"};
        struct mps_daemon_status daemons = {.units = all, .n_units = 3, .state = MPS_READY};
        const struct mps_status of_all = {.daemons = &daemons, .n_daemons = 1};
        struct node_usage_view view = usage;
        struct node_facts apart = facts;
        struct arena arena = ARENA_INIT;
        struct node_page page;

        node_page_make(&page, &arena, &apart);
        assert_null(page.owners_unknown);
        apart.is_apart = true;
        node_page_make(&page, &arena, &apart);
        assert_string_equal(
                page.owners_unknown, "Without hostPID the agent sees who uses MPS only (chart: usage.hostPID=true)");
        apart.usage = &view;
        view.mps = &of_all;
        node_page_make(&page, &arena, &apart);
        assert_null(page.owners_unknown); /* all units that have shares are served */
        view.shares = hidden;
        view.n_shares = 1;
        node_page_make(&page, &arena, &apart);
        assert_string_equal(
                page.owners_unknown, "Without hostPID the agent cannot see who uses a GPU (chart: usage.hostPID=true)");
        view.samples = NULL;
        node_page_make(&page, &arena, &apart);
        assert_null(page.owners_unknown); /* nothing is read at all */
        arena_done(&arena);
}

static void test_beside_hidden_processes_nobody_counts_as_idle(void **state UNUSED)
{
        static const struct usage_share hidden[] = {{.unit = "MIG-1", .kind = USAGE_HIDDEN, .n_processes = 1}};
        const struct node_usage_view view = {
                .samples = &samples, .rows = rows, .n_rows = ARRAY_SIZE(rows), .shares = hidden, .n_shares = 1};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page;

        facts.usage = &view;
        make(&page, &arena);
        assert_true(isnan(page.gpus[1].units[0].shares[0].memory_used));
        assert_true(isnan(page.gpus[1].units[0].shares[0].seconds));
        assert_string_equal(page.gpus[1].units[0].others[0].by, "hidden");
}

static void test_processes_are_listed_where_they_are_asked_for(void **state UNUSED)
{
        char root[] = "/tmp/warpshare-node-page-XXXXXX";
        _free_ char *proc = NULL;
        _free_ char *folder = NULL;
        _free_ char *comm = NULL;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct report_unit *unit;
        struct node_page page;
        struct error err;

        assert_non_null(mkdtemp(root));
        proc = xasprintf("%s/proc", root);
        folder = xasprintf("%s/4711", proc);
        comm = xasprintf("%s/comm", folder);
        mkdir(proc, 0700);
        mkdir(folder, 0700);
        assert_ok(file_write(comm, "python3\n", 8, &err), &err);
        facts.system_root = root;
        make(&page, &arena);
        assert_int_equal(page.gpus[0].units[0].shares[0].n_processes, 0);
        facts.has_processes = true;
        make(&page, &arena);
        unit = &page.gpus[0].units[0];
        assert_int_equal(unit->shares[0].n_processes, 1);
        assert_string_equal(unit->shares[0].processes[0].name, "python3");
        assert_true(unit->shares[0].processes[0].pid == 4711 && unit->shares[0].processes[0].sm == 0.4);
        assert_int_equal(unit->others[0].n_processes, 1);
        assert_true(unit->others[0].processes[0].pid == 900);
        assert_null(unit->others[0].processes[0].name); /* it has ended */
        unlink(comm);
        rmdir(folder);
        rmdir(proc);
        rmdir(root);
}

static void test_the_past_is_there_where_it_is_asked_for(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct usage *real = usage_new();
        const struct report_unit *unit;
        struct node_page page;
        struct gpu_samples *first = gpu_samples_new();
        struct gpu_sample one = units[0];

        one.at_ms = 120000;
        first->units = xcalloc(1, sizeof(one));
        first->units[0] = one;
        first->n_units = 1;
        usage_add(real, first, servers, 1);
        usage.usage = real;
        usage_ring_put(&past.sm_percent, 1, 30);
        usage_ring_put(&past.memory_kib, 2, 1 << 20);
        make(&page, &arena);
        assert_int_equal(page.gpus[0].units[0].sm_history.n_values, 0);
        facts.has_history = true;
        make(&page, &arena);
        unit = &page.gpus[0].units[0];
        assert_int_equal(unit->sm_history.n_values, 1);
        assert_true(unit->sm_history.values[0] == 0.62);
        assert_true(unit->memory_history.values[0] == 7.0 * GIB);
        assert_int_equal(unit->shares[0].sm_history.n_values, 2);
        assert_true(unit->shares[0].sm_history.values[0] == 0.3 && isnan(unit->shares[0].sm_history.values[1]));
        assert_true(unit->shares[0].memory_history.values[0] == 1.0 * GIB);
        usage_free(real);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_page_has_what_the_agent_knows),
                TEST(test_without_an_agent_there_is_neither_plan_nor_health),
                TEST(test_what_nobody_said_is_unknown),
                TEST(test_a_unit_whose_containers_keep_the_plan_before_is_shown_as_they_have_it),
                TEST(test_an_agent_that_waits_for_another_does_not_know_what_is_granted),
                TEST(test_where_no_process_is_visible_the_supervisor_names_its_clients),
                TEST(test_it_is_said_why_use_is_not_known),
                TEST(test_beside_hidden_processes_nobody_counts_as_idle),
                TEST(test_processes_are_listed_where_they_are_asked_for),
                TEST(test_the_past_is_there_where_it_is_asked_for),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
