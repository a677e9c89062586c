// SPDX-License-Identifier: Apache-2.0
/*
 * What accounting costs without a driver: a reading added up, and the whole page of the agent's metrics, for 8 GPUs
 * with 48 shares each. bench/run knows the budgets.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metrics.h"
#include "node/pages/page.h"
#include "bench/figure.h"

#define GPUS 8U
#define SHARES 48U
#define ALL (GPUS * SHARES)
#define TIMES 200U

struct bench_names {
        char gpus[GPUS][48];
        char indices[GPUS][4];
        char pods[ALL][40];
        char names[ALL][16];
        struct usage_owner owners[ALL];
        struct unit units[GPUS];
        struct resource resource;
        bool healthy[GPUS];
        const char *daemon_units[GPUS];
        struct mps_server servers[GPUS];
        struct mps_daemon_status daemons[GPUS];
        struct mps_status mps;
        struct gpu gpus_known[GPUS];
        struct inventory inventory;
        struct mps_faults faults;
};

static void make_names(struct bench_names *names)
{
        for (unsigned int i = 0; i < GPUS; i++) {
                snprintf(names->gpus[i], sizeof(names->gpus[i]), "GPU-%08x-1111-2222-3333-444444444444", i);
                snprintf(names->indices[i], sizeof(names->indices[i]), "%u", i);
        }
        for (unsigned int i = 0; i < ALL; i++) {
                snprintf(names->pods[i], sizeof(names->pods[i]), "%08x-5c6d-7e8f-9a0b-1c2d3e4f5a6b", i);
                snprintf(names->names[i], sizeof(names->names[i]), "inference-%u", i);
                names->owners[i] = (struct usage_owner){.unit = names->gpus[i % GPUS],
                        .pod_uid = names->pods[i],
                        .pod_namespace = "team-a",
                        .pod = names->names[i],
                        .container = "main",
                        .resource = "nvidia.com/gpu.shared",
                        .tier = "verified",
                        .is_granted = true,
                        .limit = UINT64_C(1699) << 20,
                        .replicas = 1,
                        .threads_permille = 20};
        }
}

/* A node that has these GPUs, each with an MPS daemon. */
static void make_node(struct bench_names *names)
{
        for (unsigned int i = 0; i < GPUS; i++) {
                names->units[i] = (struct unit){.uuid = names->gpus[i],
                        .index = names->indices[i],
                        .memory = UINT64_C(80) << 30,
                        .replicas = 48};
                names->gpus_known[i] = (struct gpu){.uuid = names->gpus[i], .name = "", .index = i};
                names->healthy[i] = true;
                names->daemon_units[i] = names->gpus[i];
                names->servers[i] = (struct mps_server){.pid = (pid_t)(100 + i), .status = "ACTIVE"};
                names->daemons[i] = (struct mps_daemon_status){.name = names->gpus[i],
                        .resource = "nvidia.com/gpu.shared",
                        .units = &names->daemon_units[i],
                        .n_units = 1,
                        .state = MPS_READY,
                        .since = 1763769600,
                        .servers = &names->servers[i],
                        .n_servers = 1};
        }
        names->resource = (struct resource){
                .name = "nvidia.com/gpu.shared", .strategy = SHARING_MPS, .units = names->units, .n_units = GPUS};
        names->mps = (struct mps_status){.daemons = names->daemons, .n_daemons = GPUS};
        names->inventory =
                (struct inventory){.driver_version = "580.105.08", .gpus = names->gpus_known, .n_gpus = GPUS};
        mps_faults_follow(&names->faults, &names->mps);
}

/* Of time-sliced shares the pod and its replica are known. */
static void make_time_sliced(struct bench_names *names)
{
        for (unsigned int i = 0; i < ALL; i++)
                names->owners[i] = (struct usage_owner){.unit = names->gpus[i % GPUS],
                        .pod_uid = names->pods[i],
                        .is_granted = true,
                        .replicas = 1,
                        .threads_permille = 1000,
                        .resource = "nvidia.com/gpu.shared",
                        .tier = "default",
                        .pod_namespace = "team-a",
                        .pod = names->names[i],
                        .container = "main"};
        names->mps.n_daemons = 0;
}

/* |n_processes| in turn on the GPUs, each of a pod of its own. */
static struct gpu_samples *make_samples(
        const struct bench_names *names, unsigned int n_processes, bool is_mps, uint64_t at_ms)
{
        struct gpu_samples *samples = gpu_samples_new();

        samples->units = xcalloc(GPUS, sizeof(*samples->units));
        samples->n_units = GPUS;
        for (unsigned int i = 0; i < GPUS; i++) {
                struct gpu_sample *unit = &samples->units[i];
                struct gpu_process *processes = ARENA_ARRAY(&samples->arena, struct gpu_process, n_processes);

                *unit = (struct gpu_sample){.uuid = arena_strdup(&samples->arena, names->gpus[i]),
                        .gpu = names->gpus[i],
                        .at_ms = at_ms,
                        .has_processes = true,
                        .processes = processes};
                for (unsigned int value = 0; value < GPU_VALUES; value++)
                        unit->values[value] = at_ms + value;
                for (unsigned int j = i; j < n_processes; j += GPUS)
                        processes[unit->n_processes++] = (struct gpu_process){.pid = (pid_t)(1000 + j),
                                .memory = UINT64_C(1200) << 20,
                                .sm_percent = is_mps ? GPU_PERCENT_UNKNOWN : 2,
                                .memory_percent = is_mps ? GPU_PERCENT_UNKNOWN : 1,
                                .is_visible = true,
                                .pod_uid = names->pods[j]};
        }
        return samples;
}

static void measure_rounds(const struct bench_names *names, unsigned int n_processes, const char *name)
{
        struct figure figure = {.name = name, .unit = "us"};
        struct usage *usage = usage_new();

        for (unsigned int i = 1; i <= TIMES; i++) {
                struct gpu_samples *samples = make_samples(names, n_processes, false, i * UINT64_C(5000));
                const int64_t started = clock_ns();

                usage_add(usage, samples, NULL, 0);
                figure_add(&figure, (double)(clock_ns() - started) / 1000);
        }
        usage_free(usage);
        figure_print(&figure);
        free(figure.samples);
}

static char *write_page(const struct usage *usage, const struct bench_names *names)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_usage_view view = {.samples = usage_samples(usage), .inventory = &names->inventory};
        const struct agent_metrics_resource resource = {
                .resource = &names->resource, .devices = {.healthy = ALL}, .healthy = names->healthy};
        const struct agent_metrics metrics = {.version = "0.1.0",
                .commit = "0123abc",
                .driver_version = "580.105.08",
                .resources = &resource,
                .n_resources = 1,
                .ledger = {.mps = names->mps.n_daemons ? &names->mps : NULL, .faults = &names->faults},
                .usage = &view};

        view.n_shares = usage_shares(usage, &arena, &view.shares);
        view.n_rows = usage_rows(names->owners, ALL, view.shares, view.n_shares, &arena, &view.rows);
        return agent_metrics_write(&metrics);
}

/* Of all shares, each with a process. */
static void measure_page(const struct bench_names *names, bool is_mps, const char *name, const char *size_name)
{
        struct figure figure = {.name = name, .unit = "ms"};
        struct usage *usage = usage_new();
        size_t size = 0;

        for (unsigned int i = 1; i <= 3; i++)
                usage_add(usage, make_samples(names, ALL, is_mps, i * UINT64_C(5000)), NULL, 0);
        for (unsigned int i = 0; i < TIMES; i++) {
                const int64_t started = clock_ns();
                char *page = write_page(usage, names);

                figure_add(&figure, (double)(clock_ns() - started) / 1e6);
                size = strlen(page);
                free(page);
        }
        usage_free(usage);
        figure_print(&figure);
        figure_print_one(size_name, "KiB", (double)size / 1024);
        free(figure.samples);
}

/* GET /node, without its HTTP. */
static void measure_node_page(
        const struct bench_names *names, bool has_history, const char *name, const char *size_name)
{
        struct figure figure = {.name = name, .unit = "ms"};
        struct usage *usage = usage_new();
        size_t size = 0;

        for (unsigned int i = 1; i <= USAGE_RING_MINUTES; i++)
                usage_add(usage, make_samples(names, ALL, false, i * UINT64_C(60000)), NULL, 0);
        for (unsigned int i = 0; i < TIMES; i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct node_usage_view view = {.usage = usage, .samples = usage_samples(usage)};
                const struct node_facts facts = {
                        .inventory = &names->inventory, .usage = &view, .has_history = has_history};
                const int64_t started = clock_ns();
                struct node_page page;
                char *text;

                view.n_shares = usage_shares(usage, &arena, &view.shares);
                view.n_rows = usage_rows(names->owners, ALL, view.shares, view.n_shares, &arena, &view.rows);
                node_page_make(&page, &arena, &facts);
                text = node_page_write(&page, false);
                figure_add(&figure, (double)(clock_ns() - started) / 1e6);
                size = strlen(text);
                free(text);
        }
        usage_free(usage);
        figure_print(&figure);
        figure_print_one(size_name, "KiB", (double)size / 1024);
        free(figure.samples);
}

static void measure_memory(const struct bench_names *names)
{
        const size_t before = mallinfo2().uordblks;
        struct usage *usage = usage_new();

        for (unsigned int i = 1; i <= 3; i++)
                usage_add(usage, make_samples(names, ALL, false, i * UINT64_C(5000)), NULL, 0);
        figure_print_one("usage_memory", "KiB", (double)(mallinfo2().uordblks - before) / 1024);
        usage_free(usage);
}

int main(void)
{
        struct bench_names *names = xcalloc(1, sizeof(*names));

        make_names(names);
        measure_memory(names);
        measure_rounds(names, 100, "usage_round");
        make_node(names);
        measure_page(names, true, "usage_page_mps", "usage_size_mps");
        make_time_sliced(names);
        measure_page(names, false, "usage_page", "usage_size");
        measure_node_page(names, false, "node_page", "node_page_size");
        measure_node_page(names, true, "node_page_hour", "node_page_size_hour");
        mps_faults_done(&names->faults);
        free(names);
        return 0;
}
