/*
 * Explains CUDA's errors to a container that shares a GPU: their meaning, and what to do about them. Pure.
 *
 * Meanings: CUDA driver API, CUresult; NVIDIA's MPS manual, "Troubleshooting". CUDA gives an application the number
 * only.
 */
#pragma once

#include "gpu/cuda/abi.h"

struct cuda_trouble {
        CUresult code;
        const char *name;    /* "CUDA_ERROR_MPS_CONNECTION_FAILED" */
        const char *meaning; /* one sentence */
        const char *remedy;  /* what to do, one or two sentences */
};

/* NULL: not in the table. */
const struct cuda_trouble *cuda_trouble(CUresult code);
