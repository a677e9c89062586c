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
        struct dra_service_backend backend;
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

/* ---- the node ---- */

static void read_claim(struct dra_preparing *preparing, const struct dra_service_claim *claim, void *data)
{
        json_t *object = json_pack("{s:{s:s, s:s, s:s}, s:{s:{s:{s:[{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s}}]}}}}",
                "metadata", "namespace", claim->namespace, "name", claim->name, "uid", claim->uid, "status",
                "allocation", "devices", "results", "request", "main", "driver", DRIVER, "pool", NODE, "device",
                "gpu-0-shared", "shareID", claim->uid, "consumedCapacity", "memory", "1Gi", "threadPercentage", "2",
                "clients", "1");

        (void)data;
        dra_prepare_read(preparing, object);
        json_decref(object);
}

static void make_allocation(
        struct dra_preparing *preparing, const struct dra_claim *claim, const struct dra_wanted *wanted, void *data)
{
        static const char *const env[] = {"NVIDIA_VISIBLE_DEVICES=void", "CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-0/pipe",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=2", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1024M"};
        static const struct dra_edit_mount mounts[] = {
                {.host_path = "/run/nvidia/mps/GPU-0/pipe", .path = "/mps/GPU-0/pipe"},
                {.host_path = "/run/nvidia/mps/shm", .path = "/dev/shm", .is_writable = true}};
        const struct dra_allocated allocated = {.memory_bytes = GIB,
                .thread_percentage = 2,
                .tier = "verified",
                .daemon = "GPU-0",
                .unit_cdi_id = "k8s.device-plugin.nvidia.com/gpu=GPU-0",
                .edits = {.env = env, .n_env = 4, .mounts = mounts, .n_mounts = 2}};

        (void)claim;
        (void)wanted;
        (void)data;
        dra_prepare_allocated(preparing, &allocated);
}

static void release(struct dra_preparing *preparing, const char *uid, void *data)
{
        (void)uid;
        (void)data;
        dra_prepare_released(preparing);
}

static int write_cdi(const struct dra_prepared_claim *claim, void *data, struct error *err)
{
        return dra_claim_cdi_write(NULL, ((struct bench *)data)->cdi, DRIVER, claim, err);
}

static int remove_cdi(const char *uid, void *data, struct error *err)
{
        return dra_claim_cdi_remove(NULL, ((struct bench *)data)->cdi, DRIVER, uid, err);
}

static void show_prepared(const struct dra_prepared_claim *claim, void *data)
{
        (void)claim;
        (void)data;
}

static void show_unprepared(const struct dra_service_claim *claim, void *data)
{
        (void)claim;
        (void)data;
}

/* ---- one request ---- */

static void on_done(const struct dra_service_device *devices, size_t n_devices, const struct error *err, void *data)
{
        struct bench *bench = data;

        (void)devices;
        (void)n_devices;
        if (err) {
                fprintf(stderr, "bench-prepare: %s\n", err->text);
                exit(1);
        }
        bench->n_done++;
        if (bench->figure)
                figure_add(bench->figure, (double)(clock_ns() - bench->started) / 1000);
}

static struct dra_service_claim claim_of(size_t i)
{
        return (struct dra_service_claim){.namespace = "team", .uid = uid_of(i), .name = "train"};
}

static void prepare(struct bench *bench, size_t count)
{
        bench->started = clock_ns();
        for (size_t i = 0; i < count; i++) {
                struct dra_service_claim claim = claim_of(i);

                dra_prepare_claim(bench->prepare, &claim, on_done, bench);
        }
        bench->backend.idle(bench->backend.data); /* as node/dra/service.h does after all of them */
}

static void unprepare(struct bench *bench, size_t count)
{
        struct figure *figure = bench->figure;

        bench->figure = NULL;
        for (size_t i = 0; i < count; i++) {
                struct dra_service_claim claim = claim_of(i);

                dra_unprepare_claim(bench->prepare, &claim, on_done, bench);
        }
        bench->backend.idle(bench->backend.data);
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

static const struct dra_layout *make_layout(struct arena *arena)
{
        static const struct dra_capacity capacities[] = {
                {.name = DRA_CAPACITY_MEMORY, .value = 79 * GIB, .has_policy = true},
                {.name = DRA_CAPACITY_THREADS, .value = 100, .has_policy = true},
                {.name = DRA_CAPACITY_CLIENTS, .value = 60, .has_policy = true}};
        static struct gpu gpu = {.uuid = "GPU-0"};
        static const struct dra_device device = {.name = "gpu-0-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "GPU-0",
                .gpu = &gpu,
                .allows_multiple = true,
                .capacities = capacities,
                .n_capacities = 3};
        struct dra_layout *layout = ARENA_NEW(arena, struct dra_layout);

        *layout = (struct dra_layout){.devices = &device, .n_devices = 1};
        return layout;
}

int main(void)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct figure together = {.name = "prepare_50_claims", .unit = "us"};
        struct figure alone = {.name = "prepare_1_claim", .unit = "us"};
        struct bench bench = {.figure = NULL};
        struct dra_prepare_options options = {.driver = DRIVER,
                .pool = NODE,
                .node = {.read_claim = read_claim,
                        .allocate = make_allocation,
                        .release = release,
                        .write_cdi = write_cdi,
                        .remove_cdi = remove_cdi,
                        .prepared = show_prepared,
                        .unprepared = show_unprepared,
                        .data = &bench}};
        const struct dra_wanted_rules rules = {
                .layout = make_layout(&arena), .kinds = 1U << DRA_DEVICE_SHARED, .driver = DRIVER};
        double before;

        strcpy(bench.folder, "/var/tmp/ws-bench-XXXXXX");
        strcpy(bench.cdi, "/dev/shm/ws-bench-XXXXXX");
        if (!mkdtemp(bench.folder) || !mkdtemp(bench.cdi)) {
                perror("bench-prepare: mkdtemp");
                return 1;
        }
        snprintf(bench.record, sizeof(bench.record), "%s/prepared.json", bench.folder);
        options.record = dra_record_new(bench.record, "a-boot");
        bench.prepare = dra_prepare_new(&options);
        bench.backend = dra_prepare_backend(bench.prepare);
        dra_prepare_set_rules(bench.prepare, &rules);
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
        dra_record_free(options.record);
        unlink(bench.record);
        rmdir(bench.folder);
        rmdir(bench.cdi);
        return 0;
}
