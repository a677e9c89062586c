// SPDX-License-Identifier: Apache-2.0
/*
 * libcuda.so.1, loaded at run time: one table of functions, and errors that say what to do. It knows no measurement.
 *
 * Every call of it may take for ever: under MPS cuInit waits, without an error, while the daemon serves another user.
 * So it is used only in a process of its own, which base/io/worker.h watches.
 */
#pragma once

#include "base/error.h"
#include "gpu/cuda/abi.h"

#define CUDA_LIBRARY "libcuda.so.1"

struct cuda {
        void *library;
        CUresult failed; /* of the call that failed last: what an error's text was made of */
        const char *failed_call;
#define CUDA_MEMBER(member, arguments, ...) CUresult(*member) arguments;
        CUDA_FUNCTIONS(CUDA_MEMBER, CUDA_MEMBER)
#undef CUDA_MEMBER
};

/*
 * Loads |library|, or CUDA_LIBRARY as the dynamic linker finds it where that is "" or NULL; does not initialise it.
 * NOT_FOUND: no library; INVALID: not CUDA's. It stays loaded until the process ends: CUDA has threads of its own.
 */
int cuda_open(struct cuda *ret, const char *library, struct error *err) MUST_USE;

/* 0 on success, else raises "cuInit: error 805, CUDA_ERROR_MPS_CONNECTION_FAILED: <what it means>; <what to do>". */
int cuda_check(struct cuda *cuda, CUresult code, const char *call, struct error *err) MUST_USE;

/* ---- trouble ---- */

/*
 * Explains CUDA's errors to a container that shares a GPU: their meaning, and what to do about them. Pure.
 *
 * Meanings: CUDA driver API, CUresult; NVIDIA's MPS manual, "Troubleshooting". CUDA gives an application the number
 * only.
 */

struct cuda_trouble {
        CUresult code;
        const char *name;    /* "CUDA_ERROR_MPS_CONNECTION_FAILED" */
        const char *meaning; /* one sentence */
        const char *remedy;  /* what to do, one or two sentences */
};

/* NULL: not in the table. */
const struct cuda_trouble *cuda_trouble(CUresult code);
