// SPDX-License-Identifier: Apache-2.0
/* The measurements of warpshare probe, made in a process of its own (command.c), and its output (print.c). */
#pragma once

#include <stdbool.h>

#include "gpu/cuda/granted.h"
#include "gpu/cuda/measure.h"
#include "base/io/worker.h"

enum probe_kind {
        PROBE_ALL,   /* measure, and compare with the granted share */
        PROBE_LOAD,  /* create load */
        PROBE_SWEEP, /* several loads, one after another */
        PROBE_FAULT, /* cause a fault, as a bad neighbour would */
};

enum { PROBE_MEMORY_NONE, PROBE_MEMORY_CAREFUL, PROBE_MEMORY_CEILING, PROBE_MEMORY_ALL };

struct probe_options {
        enum probe_kind kind;
        const char *cuda_library; /* NULL: the linker finds it */
        const char *nvml_library;
        const char *metadata; /* the folder of device metadata */
        unsigned int device;
        int memory;
        unsigned int memory_mib; /* PROBE_MEMORY_CEILING */
        double seconds;          /* of work */
        double window;           /* length of one sample */
        double begin_at;
        unsigned int timeout_s; /* of one step, in addition to its working time */
        uint64_t work_ms;       /* of PROBE_STEP_WORK, with the wait before it */
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
        PROBE_STEP_NVML, /* after all measurements, since it can hang */
};
#define PROBE_STEPS (PROBE_STEP_NVML + 1)

/* In memory that both processes share, so without pointers. */
struct probe_result {
        bool complete; /* all CUDA calls succeeded */
        bool failed;
        struct error error;
        int code; /* of CUDA; 0: the error is not CUDA's */
        char call[40];
        bool promise_is_unclear; /* |error| is about an environment variable */
        struct granted granted;
        struct measure_facts facts;
        struct measure_places places;
        bool has_memory;
        struct measure_memory memory;
        double bandwidth;
        struct measure_rate rate;
        struct measure_sweep sweep; /* its texts are constants of the program, which the child is, too */
        unsigned int unit_sms;
        bool socket;
        char fault[508]; /* PROBE_FAULT: the driver's message */
};

struct probe_report {
        const struct probe_options *options;
        const struct probe_result *result;
        struct granted_outcome outcome;
        struct measure_spread spread; /* from the samples of |result->rate| */
        const char *failure;          /* why the measurement failed, or NULL */
};

void probe_print(const struct probe_report *report);
