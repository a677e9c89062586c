// SPDX-License-Identifier: Apache-2.0
/*
 * The GPU of a simulated libcuda.so.1, as a YAML file describes it; all keys are optional.
 *
 *         name: NVIDIA H100 80GB HBM3
 *         uuid: GPU-5c89852c-d268-4c3f-9b07-0022ad3fdd14
 *         devices: 1                 # 0 to 16, all alike
 *         multiprocessors: 132
 *         computeCapability: 9       # its first number
 *         memory: 81559              # MiB
 *         context: 300               # MiB that a context takes
 *         neighbourMemory: 0         # MiB that others hold
 *         busyMultiprocessors: 0     # that others hold at every launch
 *         neighbours: 0              # programs that share the GPU by time-slicing where MPS is not in use
 *         mps: auto                  # auto: if a control daemon of sim/mps answers; always; never; unknown: the driver
 *                                    does not say
 *         limits: kept               # kept: as the CUDA_MPS_* variables say; ignored: more is given than allowed
 *         gflops: 400                # 10^9 operations a second of one SM
 *         bandwidth: 2000            # GB/s
 *         calls:                     # what a call does instead; for the name without _v2
 *           cuInit: {error: 805}
 *           cuCtxCreate: {hang: true}
 *           cuMemAlloc: {error: 2, after: 3}     # three times it works
 *           cuLaunchKernel: {crash: true}
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"

enum scenario_mps { SCENARIO_MPS_AUTO, SCENARIO_MPS_ALWAYS, SCENARIO_MPS_NEVER, SCENARIO_MPS_UNTOLD };

struct scenario_call {
        const char *name;
        unsigned int error;
        unsigned int after;
        bool hang;
        bool crash;
};

#define SCENARIO_CALLS_MAX 16U

struct scenario {
        struct arena arena;
        const char *name;
        const char *uuid;
        unsigned int devices;
        unsigned int multiprocessors;
        unsigned int compute_capability;
        unsigned int memory_mib;
        unsigned int context_mib;
        unsigned int neighbour_mib;
        unsigned int busy;
        unsigned int neighbours;
        enum scenario_mps mps;
        bool ignores_limits;
        unsigned int gflops;
        unsigned int bandwidth;
        struct scenario_call calls[SCENARIO_CALLS_MAX];
        size_t n_calls;
};

int scenario_read(struct scenario *ret, const char *path, struct error *err) MUST_USE;
