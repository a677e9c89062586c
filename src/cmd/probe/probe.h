/*
 * warpshare probe in parts: the work, which a child process does (work.c), and what is said of it (print.c).
 */
#pragma once

#include <stdbool.h>

#include "cuda/granted.h"
#include "cuda/measure.h"
#include "cuda/worker.h"

enum probe_kind {
        PROBE_ALL,   /* measure, and compare with what was granted */
        PROBE_LOAD,  /* be a load */
        PROBE_FAULT, /* be a neighbour that faults */
};

enum { PROBE_MEMORY_NONE, PROBE_MEMORY_CAREFUL, PROBE_MEMORY_CEILING, PROBE_MEMORY_ALL };

struct probe_options {
        enum probe_kind kind;
        const char *cuda_library; /* NULL: found by the linker */
        const char *nvml_library;
        unsigned int device;
        int memory;
        unsigned int memory_mib; /* PROBE_MEMORY_CEILING */
        double seconds;          /* of work */
        double window;           /* length of one sample of it */
        double begin_at;
        unsigned int timeout_s; /* of one step, beside the time that it works */
        bool json;
};

enum probe_step {
        PROBE_STEP_LIBRARY,
        PROBE_STEP_INIT,
        PROBE_STEP_CONTEXT,
        PROBE_STEP_PROGRAM,
        PROBE_STEP_SMS,
        PROBE_STEP_MEMORY,
        PROBE_STEP_BANDWIDTH,
        PROBE_STEP_WORK,
        PROBE_STEP_FAULT,
        PROBE_STEP_END,
        PROBE_STEP_NVML, /* after all that matters: it can hang, too */
};
#define PROBE_STEPS (PROBE_STEP_NVML + 1)

/* Lives in memory that both processes share: no pointers. */
struct probe_result {
        bool complete; /* CUDA's part went through */
        bool failed;
        struct error error;
        int code; /* of CUDA, 0: the error is none of CUDA's */
        char call[40];
        bool promise_is_unclear; /* |error| is about a variable of the environment */
        struct granted granted;
        struct measure_facts facts;
        struct measure_places places;
        bool has_memory;
        struct measure_memory memory;
        double bandwidth;
        struct measure_rate rate;
        unsigned int unit_sms;
        bool socket;
        char fault[508]; /* PROBE_FAULT: what the driver said */
};

/* In the child: |worker->shared| is a probe_result. */
void probe_work(struct worker *worker, void *options);

struct probe_report {
        const struct probe_options *options;
        const struct probe_result *result;
        struct granted_verdict verdict;
        struct measure_spread spread; /* of the samples of |result->rate| */
        const char *failure;          /* why there is no verdict, or NULL */
};

void probe_print(const struct probe_report *report);
