/*
 * Records which driver call a process is in, about which GPU, and since when: NVML_CALL (gpu/nvml.h) and other code
 * that can block in the driver records it step by step (base/io/worker.h), so that the program that ends a hanging
 * process can name the call. It costs no system call but one of the clock. In other programs it is not read.
 */
#pragma once

#include <stdint.h>

#include "base/io/worker.h"

/* The subject of a call. */
enum call_subject {
        CALL_ON_DRIVER, /* no GPU in particular */
        CALL_ON_GPU,
        CALL_ON_PAIR, /* two GPUs: either may be the one that does not answer */
        CALL_TO_OPEN, /* the library is being loaded or initialised, with three times the usual deadline: without
                       * persistence mode this initialises each GPU of the node, for some seconds */
        CALL_TO_WAIT, /* the process waits for events */
};

#define CALL_NO_INDEX UINT32_MAX
#define CALL_GPU_SIZE 96U /* as NVML_DEVICE_UUID_V2_BUFFER_SIZE */

struct call_info {
        char call[WORKER_CALL_SIZE]; /* "nvmlDeviceGetMemoryInfo"; "": none */
        enum call_subject subject;
        unsigned int index;      /* the GPU's index in NVML, or CALL_NO_INDEX */
        char gpu[CALL_GPU_SIZE]; /* its UUID; "": not known yet */
        uint64_t since_ms;       /* CLOCK_MONOTONIC */
};

/* Sets what the following calls are about. |uuid| may be "" or NULL. */
void gpu_call_about(enum call_subject subject, unsigned int index, const char *uuid);

/* |call|: its name, of WORKER_CALL_SIZE characters at most. |extra_ms|: how long it waits by design. */
void gpu_call_begin(const char *call, uint64_t extra_ms);
void gpu_call_end(void);

struct call_info gpu_call_of_worker(const struct worker_call *step);

uint64_t gpu_call_now_ms(void);
