// SPDX-License-Identifier: Apache-2.0
/*
 * The time from kubelet's request to its answer when it asks for 50 claims at once, and that of one alone: Prepare with
 * the record and the CDI files where they are on a node: on disk, and in memory as /run is. API server, ledger and MPS
 * daemon answer at once; what they take comes on top. Then what 1,000 cycles leave behind.
 * usage: bench-prepare
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/figure.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/prepare.h"

#define CLAIMS 50
#define ROUNDS 11
#define CYCLES 1000
#define DRIVER "gpu.warpshare.dev"
#define NODE "n1"
#define GIB (UINT64_C(1) << 30)

struct bench {
        char folder[64];
        char cdi[64];
        char record[96];
        struct dra_prepare *prepare;
        struct figure *figure; /* NULL: nothing is measured */
        int64_t started;
        size_t n_done;
};

static const char *uid_of(size_t i)
{
        static char uid[40];

        snprintf(uid, sizeof(uid), "00000000-0000-0000-0000-%012zu", i);
        return uid;
}

/* ---- the steps, in place of those of the node ---- */

static const struct dra_layout *layout(void)
{
        static const struct dra_capacity capacities[] = {
                {.name = DRA_CAPACITY_MEMORY, .value = 79 * GIB, .has_policy = true},
                {.name = DRA_CAPACITY_THREADS, .value = 100, .has_policy = true},
                {.name = DRA_CAPACITY_CLIENTS, .value = 60, .has_policy = true}};
        static const struct gpu gpu = {.uuid = "GPU-0"};
        static const struct dra_device device = {.name = "gpu-0-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "GPU-0",
                .gpu = &gpu,
                .allows_multiple = true,
                .capacities = capacities,
                .n_capacities = 3};
        static const struct dra_layout all = {.devices = &device, .n_devices = 1};

        return &all;
}

void dra_reading_begin(struct dra_readings *readings, struct dra_claim *claim, struct arena *arena,
        dra_reading_done_fn *done, void *data)
{
        const struct dra_wanted_rules rules = {.layout = layout(), .driver = DRIVER};
        struct error err;
        json_t *object = json_pack("{s:{s:s, s:s, s:s}, s:{s:{s:{s:[{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s}}]}}}}",
                "metadata", "namespace", claim->namespace, "name", claim->name, "uid", claim->uid, "status",
                "allocation", "devices", "results", "request", "main", "driver", DRIVER, "pool", NODE, "device",
                "gpu-0-shared", "shareID", claim->uid, "consumedCapacity", "memory", "1Gi", "threadPercentage", "2",
                "clients", "1");

        (void)readings;
        if (dra_claim_read(claim, arena, object, DRIVER, NODE, &err) < 0 || dra_wanted_read(claim, &rules, &err) < 0)
                done(&err, data);
        else
                done(NULL, data);
        json_decref(object);
}

void dra_reading_abandon(struct dra_readings *readings, const void *data)
{
        (void)readings;
        (void)data;
}

void dra_allocate(struct dra_allocator *allocator, struct dra_claim *claim, struct arena *arena,
        dra_allocator_done_fn *done, void *data)
{
        static const char *const env[] = {"NVIDIA_VISIBLE_DEVICES=void", "CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-0/pipe",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=2", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1024M"};
        static const struct dra_edit_mount mounts[] = {
                {.host_path = "/run/nvidia/mps/GPU-0/pipe", .path = "/mps/GPU-0/pipe"},
                {.host_path = "/run/nvidia/mps/shm", .path = "/dev/shm", .is_writable = true}};

        (void)allocator;
        (void)arena;
        claim->results->tier = "verified";
        claim->results->daemon = "GPU-0";
        claim->results->unit_cdi_id = "k8s.device-plugin.nvidia.com/gpu=GPU-0";
        claim->results->edits = (struct dra_edits){.env = env, .n_env = 4, .mounts = mounts, .n_mounts = 2};
        done(NULL, data);
}

void dra_release(
        struct dra_allocator *allocator, const char *uid, struct arena *arena, dra_allocator_done_fn *done, void *data)
{
        (void)allocator;
        (void)uid;
        (void)arena;
        done(NULL, data);
}

/* main() gives the bench as the allocator. */
static const struct bench *bench_of(const struct dra_allocator *allocator)
{
        return (const struct bench *)(const void *)allocator;
}

int dra_allocator_write_cdi(const struct dra_allocator *allocator, const struct dra_claim *claim, struct error *err)
{
        return dra_claim_cdi_write(NULL, bench_of(allocator)->cdi, DRIVER, claim, err);
}

int dra_allocator_remove_cdi(const struct dra_allocator *allocator, const char *uid, struct error *err)
{
        return dra_claim_cdi_remove(NULL, bench_of(allocator)->cdi, DRIVER, uid, err);
}

void dra_status_send(struct dra_status_sender *sender, const struct dra_claim *claim, bool is_prepared)
{
        (void)sender;
        (void)claim;
        (void)is_prepared;
}

/* ---- one request ---- */

static void on_done(const struct dra_claim *claim, const struct error *err, void *data)
{
        struct bench *bench = data;

        (void)claim;
        if (err) {
                fprintf(stderr, "bench-prepare: %s\n", err->text);
                exit(1);
        }
        bench->n_done++;
        if (bench->figure)
                figure_add(bench->figure, (double)(clock_ns() - bench->started) / 1000);
}

static struct dra_claim claim_of(size_t i)
{
        return (struct dra_claim){.namespace = "team", .uid = uid_of(i), .name = "train"};
}

static void prepare(struct bench *bench, size_t count)
{
        bench->started = clock_ns();
        for (size_t i = 0; i < count; i++) {
                struct dra_claim claim = claim_of(i);

                dra_prepare_claim(bench->prepare, &claim, on_done, bench);
        }
        dra_prepare_settle(bench->prepare); /* as node/dra/service.h does after all of them */
}

static void unprepare(struct bench *bench, size_t count)
{
        struct figure *figure = bench->figure;

        bench->figure = NULL;
        for (size_t i = 0; i < count; i++) {
                struct dra_claim claim = claim_of(i);

                dra_unprepare_claim(bench->prepare, &claim, on_done, bench);
        }
        dra_prepare_settle(bench->prepare);
        bench->figure = figure;
}

static double resident_kib(void)
{
        FILE *file = fopen("/proc/self/statm", "r");
        long pages = 0;

        if (file && fscanf(file, "%*d %ld", &pages) != 1)
                pages = 0;
        if (file)
                fclose(file);
        return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* ---- all ---- */

int main(void)
{
        struct figure together = {.name = "prepare_50_claims", .unit = "us"};
        struct figure alone = {.name = "prepare_1_claim", .unit = "us"};
        struct bench bench = {.figure = NULL};
        struct dra_node node = {.driver = DRIVER};
        double before;

        strcpy(bench.folder, "/var/tmp/ws-bench-XXXXXX");
        strcpy(bench.cdi, "/dev/shm/ws-bench-XXXXXX");
        if (!mkdtemp(bench.folder) || !mkdtemp(bench.cdi)) {
                perror("bench-prepare: mkdtemp");
                return 1;
        }
        snprintf(bench.record, sizeof(bench.record), "%s/prepared.json", bench.folder);
        node.record = dra_record_new(bench.record, "a-boot");
        bench.prepare = dra_prepare_new(&node, NULL, (struct dra_allocator *)&bench, NULL);
        for (unsigned int round = 0; round < ROUNDS; round++) {
                bench.figure = &together;
                prepare(&bench, CLAIMS);
                unprepare(&bench, CLAIMS);
                bench.figure = &alone;
                prepare(&bench, 1);
                unprepare(&bench, 1);
        }
        bench.figure = NULL;
        before = resident_kib();
        for (unsigned int cycle = 0; cycle < CYCLES; cycle++) {
                prepare(&bench, 1);
                unprepare(&bench, 1);
        }
        figure_print(&together);
        figure_print(&alone);
        figure_print_one("prepare_1000_cycles_growth", "KiB", resident_kib() - before);
        dra_prepare_free(bench.prepare);
        dra_record_free(node.record);
        unlink(bench.record);
        rmdir(bench.folder);
        rmdir(bench.cdi);
        return 0;
}
