// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/measure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "gpu/cuda/kernels.h"

#define MIB (UINT64_C(1) << 20)

/* So many blocks that two on each SM of any GPU leave some waiting. */
#define PLACE_BLOCKS 1024U
#define PLACE_CYCLES UINT64_C(2000000) /* a millisecond or two: all free SMs are filled by then, within microseconds */
#define SM_MAX 1024U

#define ALLOCATION_GRANULARITY (2 * MIB)
#define ALLOCATIONS_MAX 512U

#define COPY_LARGEST (256 * MIB)
#define COPY_SMALLEST (16 * MIB)
#define COPY_PASSES 8U

/* On a whole GPU a launch takes a few milliseconds: long against the launch itself, short against a window. */
#define WORK_BLOCKS_PER_SM 32U
#define WORK_THREADS 256U
#define WORK_ROUNDS 4096U
#define WORK_IN_FLIGHT 4U

#define SWEEP_COPY (64 * MIB)   /* more than the caches of any GPU, together with what it is copied to */
#define SWEEP_LAUNCH_ROUNDS 16U /* some microseconds */

#define CHECK(call, name) cuda_check(measure->cuda, (call), (name), err)

static double now_on(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- what the library says ---- */

static void read_uuid(const struct cuda *cuda, CUdevice device, char text[40])
{
        const unsigned char *b;
        CUuuid uuid = {{0}};

        text[0] = '\0';
        if (!cuda->device_get_uuid || cuda->device_get_uuid(&uuid, device) != CUDA_SUCCESS)
                return;
        b = (const unsigned char *)uuid.bytes;
        snprintf(text, 40, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
                b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* |missing| where the driver does not know the attribute. */
static int attribute(const struct measure *measure, int number, int missing)
{
        int value = missing;

        return measure->cuda->device_get_attribute(&value, number, measure->device) == CUDA_SUCCESS ? value : missing;
}

int measure_init(struct measure *measure, struct cuda *cuda, int ordinal, struct measure_facts *ret, struct error *err)
{
        struct measure_facts facts = {0};
        size_t total = 0;

        *measure = (struct measure){.cuda = cuda};
        if (CHECK(cuda->init(0), "cuInit") < 0 ||
                CHECK(cuda->driver_get_version(&facts.driver_version), "cuDriverGetVersion") < 0 ||
                CHECK(cuda->device_get_count(&facts.devices), "cuDeviceGetCount") < 0)
                return -1;
        if (facts.devices == 0)
                return CHECK(CUDA_ERROR_NO_DEVICE, "cuDeviceGetCount");
        if (CHECK(cuda->device_get(&measure->device, ordinal), "cuDeviceGet") < 0 ||
                CHECK(cuda->device_get_name(facts.name, sizeof(facts.name), measure->device), "cuDeviceGetName") < 0 ||
                CHECK(cuda->device_total_mem(&total, measure->device), "cuDeviceTotalMem") < 0)
                return -1;
        facts.name[sizeof(facts.name) - 1] = '\0';
        text_clean(facts.name);
        read_uuid(cuda, measure->device, facts.uuid);
        facts.memory = total;
        facts.mps = attribute(measure, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, -1);
        facts.compute_major = attribute(measure, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
        facts.compute_minor = attribute(measure, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
        *ret = facts;
        return 0;
}

int measure_create_context(struct measure *measure, struct measure_facts *facts, struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        CUexecAffinityParam affinity = {.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT};
        size_t available = 0;
        size_t total = 0;
        int sms;

        if (CHECK(cuda->ctx_create(&measure->context, CU_CTX_SCHED_BLOCKING_SYNC, measure->device), "cuCtxCreate") <
                        0 ||
                CHECK(cuda->mem_get_info(&available, &total), "cuMemGetInfo") < 0)
                return -1;
        facts->memory_free = available;
        /* Asked again with the context: only now is it certain under which limits the process is. */
        sms = attribute(measure, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
        facts->sms = measure->sms = sms > 0 ? (unsigned int)sms : 1;
        if (cuda->ctx_get_exec_affinity &&
                cuda->ctx_get_exec_affinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT) == CUDA_SUCCESS)
                facts->affinity_sms = affinity.sm_count;
        return 0;
}

int measure_load(struct measure *measure, struct error *err)
{
        return CHECK(measure->cuda->module_load(&measure->module, kernels_ptx), "cuModuleLoadData");
}

int measure_destroy_context(struct measure *measure, struct error *err)
{
        return CHECK(measure->cuda->ctx_destroy(measure->context), "cuCtxDestroy");
}

/* ---- SMs ---- */

struct measure_places measure_count_places(const struct kernel_place *records, size_t count)
{
        struct measure_places places = {0};
        bool seen[SM_MAX] = {false};
        bool first[SM_MAX] = {false};

        for (size_t i = 0; i < count; i++) {
                uint32_t sm = records[i].sm;

                if (sm >= SM_MAX)
                        continue;
                places.seen += !seen[sm];
                seen[sm] = true;
                if (records[i].left == 0) {
                        places.at_once += !first[sm];
                        first[sm] = true;
                }
        }
        return places;
}

static int launch(const struct measure *measure, const char *name, unsigned int blocks, unsigned int threads,
        void **arguments, struct error *err)
{
        CUfunction function = NULL;

        if (CHECK(measure->cuda->module_get_function(&function, measure->module, name), "cuModuleGetFunction") < 0)
                return -1;
        return CHECK(measure->cuda->launch(function, blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL),
                "cuLaunchKernel");
}

static int run_place(const struct measure *measure, CUdeviceptr records, CUdeviceptr counters, void *to, size_t size,
        struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        uint64_t cycles = PLACE_CYCLES;
        void *arguments[] = {&records, &counters, &cycles};

        /* A record that no block wrote says an SM that does not exist. */
        if (CHECK(cuda->memset_d32(records, UINT32_MAX, size / 4), "cuMemsetD32") < 0 ||
                CHECK(cuda->memset_d32(counters, 0, 2), "cuMemsetD32") < 0 ||
                launch(measure, KERNEL_PLACE, PLACE_BLOCKS, KERNEL_PLACE_THREADS, arguments, err) < 0 ||
                CHECK(cuda->ctx_synchronize(), "cuCtxSynchronize") < 0)
                return -1;
        return CHECK(cuda->memcpy_from(to, records, size), "cuMemcpyDtoH");
}

/* Neighbours may hold an SM at the moment of a launch, so it is the best of three. */
int measure_find_places(struct measure *measure, struct measure_places *ret, struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        struct kernel_place table[PLACE_BLOCKS];
        struct measure_places best = {0};
        CUdeviceptr memory = 0;
        int result = 0;

        if (CHECK(cuda->mem_alloc(&memory, sizeof(table) + 8), "cuMemAlloc") < 0)
                return -1;
        for (unsigned int i = 0; i < 3 && result == 0; i++) {
                result = run_place(measure, memory, memory + sizeof(table), table, sizeof(table), err);
                if (result == 0) {
                        struct measure_places places = measure_count_places(table, PLACE_BLOCKS);

                        best.at_once = MAX(best.at_once, places.at_once);
                        best.seen = MAX(best.seen, places.seen);
                }
        }
        if (result < 0)
                return -1; /* the context is broken, and takes its memory with it */
        *ret = best;
        return CHECK(cuda->mem_free(memory), "cuMemFree");
}

/* ---- memory ---- */

int measure_try_memory(struct measure *measure, uint64_t ceiling, struct measure_memory *ret, struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        struct measure_memory trial = {.ceiling = ceiling};
        CUdeviceptr addresses[ALLOCATIONS_MAX];
        uint64_t step = ceiling & ~(ALLOCATION_GRANULARITY - 1);
        double begin = now_on(CLOCK_MONOTONIC);
        unsigned int count = 0;
        int result = 0;

        while (step >= ALLOCATION_GRANULARITY && count < ALLOCATIONS_MAX) {
                CUresult code;

                if (trial.granted + step > ceiling) {
                        step = (ceiling - trial.granted) & ~(ALLOCATION_GRANULARITY - 1);
                        continue;
                }
                code = cuda->mem_alloc(&addresses[count], step);
                if (code == CUDA_ERROR_OUT_OF_MEMORY) {
                        trial.refused = true;
                        step = step / 2 & ~(ALLOCATION_GRANULARITY - 1);
                        continue;
                }
                result = CHECK(code, "cuMemAlloc");
                if (result < 0)
                        break;
                trial.granted += step;
                count++;
        }
        while (count > 0 && result == 0)
                result = CHECK(cuda->mem_free(addresses[--count]), "cuMemFree");
        trial.held_us = (uint64_t)((now_on(CLOCK_MONOTONIC) - begin) * 1e6);
        if (result < 0)
                return -1;
        *ret = trial;
        return 0;
}

/* ---- bandwidth ---- */

struct copy {
        CUdeviceptr from;
        CUdeviceptr to;
        CUevent begin;
        CUevent end;
        uint64_t size;
};

/* The largest pair of buffers that fits. |copy->size| 0: none did. */
static int allocate_pair(const struct measure *measure, struct copy *copy, struct error *err)
{
        const struct cuda *cuda = measure->cuda;

        for (uint64_t size = COPY_LARGEST; size >= COPY_SMALLEST; size /= 2) {
                CUresult code = cuda->mem_alloc(&copy->from, size);

                if (code == CUDA_SUCCESS) {
                        code = cuda->mem_alloc(&copy->to, size);
                        if (code != CUDA_SUCCESS && CHECK(cuda->mem_free(copy->from), "cuMemFree") < 0)
                                return -1;
                }
                if (code == CUDA_SUCCESS) {
                        copy->size = size;
                        return 0;
                }
                if (code != CUDA_ERROR_OUT_OF_MEMORY)
                        return CHECK(code, "cuMemAlloc");
        }
        return 0;
}

static int time_copies(const struct measure *measure, struct copy *copy, double *ret, struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        uint64_t count = copy->size / 16;
        void *arguments[] = {&copy->to, &copy->from, &count};
        unsigned int blocks = measure->sms * 8;
        float milliseconds = 0;

        /* The first pass warms up. */
        for (unsigned int i = 0; i <= COPY_PASSES; i++) {
                if (launch(measure, KERNEL_COPY, blocks, WORK_THREADS, arguments, err) < 0)
                        return -1;
                if (i == 0 && CHECK(cuda->event_record(copy->begin, NULL), "cuEventRecord") < 0)
                        return -1;
        }
        if (CHECK(cuda->event_record(copy->end, NULL), "cuEventRecord") < 0 ||
                CHECK(cuda->event_synchronize(copy->end), "cuEventSynchronize") < 0 ||
                CHECK(cuda->event_elapsed(&milliseconds, copy->begin, copy->end), "cuEventElapsedTime") < 0)
                return -1;
        *ret = milliseconds > 0 ? 2.0 * (double)copy->size * COPY_PASSES / (double)milliseconds / 1e6 : 0;
        return 0;
}

int measure_bandwidth(struct measure *measure, double *ret, struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        struct copy copy = {0};
        double rate = 0;

        if (allocate_pair(measure, &copy, err) < 0)
                return -1;
        if (copy.size) {
                if (CHECK(cuda->event_create(&copy.begin, 0), "cuEventCreate") < 0 ||
                        CHECK(cuda->event_create(&copy.end, 0), "cuEventCreate") < 0 ||
                        CHECK(cuda->memset_d32(copy.from, 1, copy.size / 4), "cuMemsetD32") < 0 ||
                        time_copies(measure, &copy, &rate, err) < 0 ||
                        CHECK(cuda->event_destroy(copy.begin), "cuEventDestroy") < 0 ||
                        CHECK(cuda->event_destroy(copy.end), "cuEventDestroy") < 0 ||
                        CHECK(cuda->mem_free(copy.from), "cuMemFree") < 0 ||
                        CHECK(cuda->mem_free(copy.to), "cuMemFree") < 0)
                        return -1;
        }
        *ret = rate;
        return 0;
}

/* ---- work ---- */

/* Launches in flight: a ring, so that the GPU always has the next one. */
struct work {
        const struct measure *measure;
        CUdeviceptr out;
        CUdeviceptr from; /* 0: multiply-adds instead of a copy */
        unsigned int blocks;
        uint32_t rounds;
        unsigned int in_flight;
        double each; /* 10^9 operations a launch, or what else is counted */
        CUevent events[WORK_IN_FLIGHT];
        unsigned int launched;
        unsigned int completed;
};

static int launch_work(struct work *work, struct error *err)
{
        const struct measure *measure = work->measure;
        uint64_t count = SWEEP_COPY / 16;
        void *operations[] = {&work->out, &work->rounds};
        void *copy[] = {&work->out, &work->from, &count};

        if (launch(measure, work->from ? KERNEL_COPY : KERNEL_WORK, work->blocks, WORK_THREADS,
                    work->from ? copy : operations, err) < 0)
                return -1;
        return CHECK(
                measure->cuda->event_record(work->events[work->launched++ % work->in_flight], NULL), "cuEventRecord");
}

static int await_work(struct work *work, struct error *err)
{
        const struct measure *measure = work->measure;

        return CHECK(measure->cuda->event_synchronize(work->events[work->completed++ % work->in_flight]),
                "cuEventSynchronize");
}

static int wait_until(double begin_at, struct error *err)
{
        const time_t second = (time_t)begin_at;
        struct timespec until = {.tv_sec = second, .tv_nsec = (long)((begin_at - (double)second) * 1e9)};

        if (begin_at <= 0)
                return 0;
        if (now_on(CLOCK_REALTIME) > begin_at)
                return error_set(err, ERROR_INVALID, "--begin-at: the time was over before the GPU was ready");
        while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
                ;
        return 0;
}

static void take_sample(struct measure_rate *rate, double work, double seconds)
{
        if (rate->n_samples < MEASURE_SAMPLES_MAX && seconds > 0)
                rate->samples[rate->n_samples++] = work / seconds;
}

/*
 * Only launches that complete between the first completion and the last one before the end count. So neither starting
 * nor finishing is measured, and launches of several programs are compared over the time that they share.
 */
static int run_work(struct work *work, double seconds, double window, struct measure_rate *rate, struct error *err)
{
        double begin = now_on(CLOCK_MONOTONIC);
        double end = begin + seconds;
        double first = 0;
        double last = 0;
        double mark = 0; /* where the window began */
        double in_window = 0;

        while (work->launched < work->in_flight)
                if (launch_work(work, err) < 0)
                        return -1;
        while (work->completed < work->launched) {
                double now;

                if (await_work(work, err) < 0)
                        return -1;
                now = now_on(CLOCK_MONOTONIC);
                if (first == 0) {
                        first = last = mark = now;
                } else if (now <= end) {
                        rate->launches++;
                        rate->work += work->each;
                        in_window += work->each;
                        last = now;
                        if (window > 0 && now - mark >= window) {
                                take_sample(rate, in_window, now - mark);
                                mark = now;
                                in_window = 0;
                        }
                }
                if (now < end && launch_work(work, err) < 0)
                        return -1;
        }
        rate->seconds = last - first;
        if (window <= 0)
                take_sample(rate, rate->work, rate->seconds);
        return 0;
}

/* With a launch to warm up. */
static int begin_work(struct work *work, double seconds, double window_seconds, double begin_at,
        struct measure_rate *ret, struct error *err)
{
        const struct measure *measure = work->measure;
        const struct cuda *cuda = measure->cuda;
        struct work warm;

        for (unsigned int i = 0; i < work->in_flight; i++)
                if (CHECK(cuda->event_create(&work->events[i], CU_EVENT_BLOCKING_SYNC), "cuEventCreate") < 0)
                        return -1;
        warm = *work;
        if (launch_work(&warm, err) < 0 || await_work(&warm, err) < 0 || wait_until(begin_at, err) < 0 ||
                run_work(work, seconds, window_seconds, ret, err) < 0)
                return -1;
        for (unsigned int i = 0; i < work->in_flight; i++)
                if (CHECK(cuda->event_destroy(work->events[i]), "cuEventDestroy") < 0)
                        return -1;
        return 0;
}

int measure_work(struct measure *measure, double seconds, double window_seconds, double begin_at,
        struct measure_rate *ret, struct error *err)
{
        const struct cuda *cuda = measure->cuda;
        struct work work = {.measure = measure,
                .blocks = measure->sms * WORK_BLOCKS_PER_SM,
                .rounds = WORK_ROUNDS,
                .in_flight = WORK_IN_FLIGHT};

        work.each = (double)work.blocks * WORK_THREADS * WORK_ROUNDS * KERNEL_WORK_FLOPS / 1e9;
        ret->work = ret->seconds = 0;
        ret->launches = ret->n_samples = 0;
        if (CHECK(cuda->mem_alloc(&work.out, 4), "cuMemAlloc") < 0 ||
                begin_work(&work, seconds, window_seconds, begin_at, ret, err) < 0)
                return -1;
        return CHECK(cuda->mem_free(work.out), "cuMemFree");
}

/* ---- several loads ---- */

static int run_load(struct work *work, double seconds, double begin_at, struct measure_rate *rate, struct error *err)
{
        *rate = (struct measure_rate){0};
        return begin_work(work, seconds, 0, begin_at, rate, err);
}

int measure_sweep(
        struct measure *measure, double seconds, double begin_at, struct measure_sweep *ret, struct error *err)
{
        static const struct {
                const char *name;
                const char *unit;
                uint32_t rounds;
                unsigned int in_flight;
        } kernels[] = {{"compute", "GFLOP/s", WORK_ROUNDS, WORK_IN_FLIGHT}, {"memory", "GB/s", 0, WORK_IN_FLIGHT},
                {"launch", "launches/s", SWEEP_LAUNCH_ROUNDS, 1}};
        static const char *const grids[] = {"small", "medium", "large"};
        const unsigned int blocks[] = {MAX(measure->sms / 8, 1U), measure->sms * 2, measure->sms * WORK_BLOCKS_PER_SM};
        const struct cuda *cuda = measure->cuda;
        struct measure_rate *rate = xcalloc(1, sizeof(*rate));
        CUdeviceptr from = 0;
        CUdeviceptr to = 0;
        int result = -1;

        if (CHECK(cuda->mem_alloc(&from, SWEEP_COPY), "cuMemAlloc") < 0 ||
                CHECK(cuda->mem_alloc(&to, SWEEP_COPY), "cuMemAlloc") < 0 ||
                CHECK(cuda->memset_d32(from, 1, SWEEP_COPY / 4), "cuMemsetD32") < 0)
                goto finish;
        for (unsigned int i = 0; i < MEASURE_SWEEP_LOADS; i++) {
                const unsigned int kernel = i / ARRAY_SIZE(grids);
                const unsigned int grid = i % ARRAY_SIZE(grids);
                double begin = begin_at > 0 ? begin_at + i * (seconds + MEASURE_SWEEP_PAUSE_S) : 0;
                struct work work = {.measure = measure,
                        .out = to,
                        .from = kernels[kernel].rounds ? 0 : from,
                        .blocks = blocks[grid],
                        .rounds = kernels[kernel].rounds,
                        .in_flight = kernels[kernel].in_flight};

                work.each = work.from ? 2.0 * (double)SWEEP_COPY / 1e9
                                      : (double)work.blocks * WORK_THREADS * work.rounds * KERNEL_WORK_FLOPS / 1e9;
                if (kernels[kernel].in_flight == 1)
                        work.each = 1;
                /*
                 * On a busy machine a load may begin late, except the first one, which waits for the contexts of all
                 * programs.
                 */
                if (i > 0 && begin < now_on(CLOCK_REALTIME))
                        begin = 0;
                if (run_load(&work, seconds, begin, rate, err) < 0)
                        goto finish;
                ret->loads[i].kernel = kernels[kernel].name;
                ret->loads[i].grid = grids[grid];
                ret->loads[i].unit = kernels[kernel].unit;
                ret->loads[i].rate = rate->seconds > 0 ? rate->work / rate->seconds : 0;
                ret->loads[i].launches = rate->launches;
        }
        result = CHECK(cuda->mem_free(from), "cuMemFree") < 0 || CHECK(cuda->mem_free(to), "cuMemFree") < 0 ? -1 : 0;
finish:
        free(rate);
        return result;
}

int measure_fault(struct measure *measure, struct error *err)
{
        if (launch(measure, KERNEL_FAULT, 1, 1, NULL, err) < 0 ||
                CHECK(measure->cuda->ctx_synchronize(), "cuCtxSynchronize") < 0)
                return -1;
        return error_set(err, ERROR_INTERNAL, "a write to address 0 was no error: this GPU has no memory protection");
}

/* ---- figures ---- */

static int measure_compare(const void *a, const void *b)
{
        double x = *(const double *)a;
        double y = *(const double *)b;

        return (x > y) - (x < y);
}

struct measure_spread measure_spread_of(double *values, unsigned int count)
{
        struct measure_spread spread = {0};

        if (count == 0)
                return spread;
        qsort(values, count, sizeof(*values), measure_compare);
        spread.least = values[0];
        spread.most = values[count - 1];
        spread.median = (values[(count - 1) / 2] + values[count / 2]) / 2;
        return spread;
}
