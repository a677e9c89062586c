// SPDX-License-Identifier: Apache-2.0
/*
 * Measures what a CUDA program finds on its GPU: what the library reports, and what the program really gets. It uses
 * one context on one device; every measurement gives back what it took. To be called in a process of its own
 * (base/io/worker.h), since each call may hang.
 */
#pragma once

#include <stdbool.h>

#include "gpu/cuda/cuda.h"

#define MEASURE_SAMPLES_MAX 14400U

/* Facts that the library reports. The last three need a context. */
struct measure_facts {
        char name[256];
        char uuid[40];      /* "1e2f3a4b-…", without GPU- or MIG-; "" unknown */
        int driver_version; /* of CUDA: 12040 */
        int devices;        /* visible to this process */
        int compute_major;
        int compute_minor;
        int mps;                   /* 1 in use, 0 not, -1 this driver does not say */
        unsigned int sms;          /* under MPS those that the limit leaves */
        unsigned int affinity_sms; /* execution affinity of the context; 0 unknown */
        uint64_t memory;
        uint64_t memory_free;
};

/* The SMs that the program really gets. */
struct measure_places {
        unsigned int at_once; /* SMs that were ours at one time */
        unsigned int seen;    /* different SMs over all blocks */
};

struct measure_memory {
        uint64_t ceiling; /* no more than this was tried */
        uint64_t granted; /* allocated until refusal or ceiling */
        bool refused;
        uint64_t held_us; /* for so long neighbours could not have it */
};

/* Work of one kind, in windows of equal length. */
struct measure_rate {
        double work;    /* 10^9 multiply-adds and additions, completed */
        double seconds; /* between the first and the last completion */
        unsigned int launches;
        unsigned int n_samples;
        double samples[MEASURE_SAMPLES_MAX]; /* 10^9 operations a second */
};

struct measure {
        struct cuda *cuda;
        CUdevice device;
        CUcontext context;
        CUmodule module;
        unsigned int sms;
};

/* cuInit and what can be asked without a context; the context and its facts; the program. In this order. */
int measure_init(
        struct measure *measure, struct cuda *cuda, int ordinal, struct measure_facts *ret, struct error *err) MUST_USE;
int measure_create_context(struct measure *measure, struct measure_facts *facts, struct error *err) MUST_USE;
int measure_load(struct measure *measure, struct error *err) MUST_USE;

int measure_find_places(struct measure *measure, struct measure_places *ret, struct error *err) MUST_USE;

/*
 * Allocates in halving steps, from |ceiling| down to 2 MiB, until no step fits any more or |ceiling| is reached, and
 * frees all of it at once. Refusal is the answer, not an error.
 */
int measure_try_memory(
        struct measure *measure, uint64_t ceiling, struct measure_memory *ret, struct error *err) MUST_USE;

/* GB/s, what is read and what is written counted; 0 where not even 32 MiB could be had. */
int measure_bandwidth(struct measure *measure, double *ret, struct error *err) MUST_USE;

/*
 * Works for |seconds|, in windows of |window_seconds| (0: one). With |begin_at| (seconds since the epoch, 0: now) the
 * work begins then, so that several programs can be measured over the same time; ERROR_INVALID where that is past.
 */
int measure_work(struct measure *measure, double seconds, double window_seconds, double begin_at,
        struct measure_rate *ret, struct error *err) MUST_USE;

/*
 * Each load of a table for |seconds|, one after another, MEASURE_SWEEP_PAUSE_S apart: compute is the work above, memory
 * copies 64 MiB, launch is so little work that a launch is waited for before the next. A small grid has a block for
 * each eighth SM, a medium one two on each, a large one 32. |begin_at| as above.
 */
#define MEASURE_SWEEP_LOADS 9U
#define MEASURE_SWEEP_PAUSE_S 0.5
struct measure_sweep {
        struct {
                const char *kernel; /* "compute", "memory", "launch" */
                const char *grid;   /* "small", "medium", "large" */
                const char *unit;   /* "GFLOP/s", "GB/s", "launches/s" */
                double rate;
                unsigned int launches;
        } loads[MEASURE_SWEEP_LOADS];
};
int measure_sweep(struct measure *measure, double seconds, double begin_at, struct measure_sweep *ret,
        struct error *err) MUST_USE;

/* Breaks the context, and under MPS those of the neighbours. Always an error: the one that the driver gives. */
int measure_fault(struct measure *measure, struct error *err) MUST_USE;

int measure_destroy_context(struct measure *measure, struct error *err) MUST_USE;

/* Least, middle and largest of |count| values, which are sorted. All 0 where there are none. */
struct measure_spread {
        double least;
        double median;
        double most;
};
struct measure_spread measure_spread_of(double *values, unsigned int count);

/* From the records of kernel_place(); pure. An SM number above 1,023 is not counted. */
struct kernel_place;
struct measure_places measure_count_places(const struct kernel_place *records, size_t count);
