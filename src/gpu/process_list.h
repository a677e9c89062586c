// SPDX-License-Identifier: Apache-2.0
/*
 * NVML's lists of the processes on a GPU or MIG device, in the form of any driver. It calls the driver and blocks.
 *
 * Drivers before R470 have the oldest form of the records, and some of 535 write a field more than the header has: the
 * records are read as long ones if only that makes sense, and always into room for long ones.
 */
#pragma once

#include <stdint.h>

#include "gpu/nvml.h"

enum { GPU_PROCESS_COMPUTE = 1, GPU_PROCESS_GRAPHICS = 2, GPU_PROCESS_MPS = 4 };

struct gpu_listed_process {
        unsigned int pid; /* in the PID namespace of this process, or of the host */
        uint64_t memory;  /* bytes; UINT64_MAX: the driver keeps it back */
};

/*
 * The list of one |kind|. |*count| is the room in |ret|, and then how many there are. Other codes are NVML's, with
 * nothing written: INSUFFICIENT_SIZE for more than there is room for, and UNKNOWN for records that make no sense.
 */
nvmlReturn_t gpu_process_list(const struct nvml *nvml, nvmlDevice_t device, unsigned int kind,
        struct gpu_listed_process *ret, unsigned int *count);

/* NVML's name of the call, for messages. */
const char *gpu_process_list_call(unsigned int kind);

/* Fills in the processes of |sample|, with the pod and the container of each: see gpu/sample.h. */
struct gpu_sample;
void gpu_sample_processes(struct gpu_sample *sample, struct arena *arena, const struct nvml *nvml, nvmlDevice_t device,
        const char *root, uint64_t since_ms);
