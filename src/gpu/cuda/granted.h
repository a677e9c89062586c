// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the limits that a container was promised from its environment, and checks whether the measured values keep
 * them. Pure.
 *
 *         CUDA_MPS_ACTIVE_THREAD_PERCENTAGE   "35", "33.3"; read by the driver
 *         CUDA_MPS_PINNED_DEVICE_MEM_LIMIT    "0=11411M", "GPU-…=8G", "8G"; read by the driver
 *         WARPSHARE_THREAD_PERCENTAGE, WARPSHARE_MEMORY_LIMIT_MIB, WARPSHARE_SMS, WARPSHARE_TIER, WARPSHARE_REPLICAS
 *         ("7/20"), WARPSHARE_FRACTION ("0.3465"): what the agent granted, for information
 *
 * A container may lower its own limits, so the promise is the lower of the two. Device metadata (KEP-5304), files that
 * the agent mounts, have memory and threads, too; the lower counts, and a difference is a remark. What "holds" means:
 *
 *   MPS      is in use, where anything of the above or CUDA_MPS_PIPE_DIRECTORY is set.
 *   memory   no more than the limit could be allocated, and no less than the limit without GRANTED_CONTEXT_MIB: CUDA's
 *            own context counts, and its size depends on GPU and driver.
 *   SMs      no more than the granted number and GRANTED_SM_TOLERANCE more at one time, and no less than as many fewer:
 *            the hardware gives SMs by the TPC, which are two, and drivers round up or down. A neighbour that holds an
 *            SM at the moment of measuring does not break the promise, since percentages are limits, not reservations:
 *            for the lower bound it is enough that the driver reports the number.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gpu/cuda/measure.h"

#define GRANTED_SM_TOLERANCE 2U
#define GRANTED_CONTEXT_MIB UINT64_C(768)

struct granted {
        bool mps;                      /* something says that MPS has to be in use */
        unsigned int threads_permille; /* 0: no limit known */
        uint64_t memory_mib;           /* 0: no limit known */
        unsigned int sms;              /* 0: not said */
        char tier[32];                 /* these as they stand; "" not said */
        char replicas[16];
        char fraction[16];
        char pipe[112];                    /* CUDA_MPS_PIPE_DIRECTORY */
        uint64_t told_memory_mib;          /* by device metadata; 0: it does not say */
        unsigned int told_threads_percent; /* likewise */
        bool differs;                      /* the environment says something else than device metadata */
};

typedef const char *granted_env_fn(const char *name, void *data);

/*
 * Reads the promise for the GPU of that ordinal and UUID ("1e2f3a4b-…"). ERROR_INVALID: a variable that cannot be
 * understood; the text names it with its value.
 */
int granted_read(struct granted *ret, granted_env_fn *env, void *data, int ordinal, const char *uuid,
        struct error *err) MUST_USE;

/*
 * Takes what a file of device metadata says of the device of that UUID ("1e2f3a4b-…"): a stream of JSON objects, of
 * which the first counts whose version is known. ERROR_INVALID: there is none, or it is not JSON.
 */
int granted_read_metadata(
        struct granted *granted, const char *text, size_t size, const char *uuid, struct error *err) MUST_USE;

struct granted_finding {
        bool broken; /* else it is a remark */
        char text[240];
};

#define GRANTED_FINDINGS_MAX 8U

struct granted_outcome {
        bool holds;
        unsigned int sms; /* that the promise comes to on this GPU; 0 unknown */
        unsigned int n_findings;
        struct granted_finding findings[GRANTED_FINDINGS_MAX];
};

struct granted_measured {
        const struct measure_facts *facts;
        const struct measure_places *places;
        const struct measure_memory *memory; /* NULL: not tried */
        unsigned int unit_sms;               /* of the whole unit, as NVML says; 0 unknown */
        bool socket;                         /* there is a control daemon's socket in the pipe directory */
};

void granted_check(struct granted_outcome *ret, const struct granted *granted, const struct granted_measured *measured);

/*
 * How much memory it is enough to try: some more than the limit, so that a limit that is not in force is seen. 0: no
 * limit.
 */
uint64_t granted_memory_ceiling(const struct granted *granted);
