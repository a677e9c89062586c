// SPDX-License-Identifier: Apache-2.0
/*
 * Values of the environment variables that limit an MPS client, as NVIDIA's MPS manual defines them. Pure.
 *
 *         CUDA_MPS_ACTIVE_THREAD_PERCENTAGE   "35", "33.3"
 *         CUDA_MPS_PINNED_DEVICE_MEM_LIMIT    "0=11411M", "0=8G,1=512MB", "GPU-…=8G"; a number without a unit is
 *                                             megabytes. "8G" for every GPU: inferred, docs/hardware-notes.md
 *
 * It is in base because both the code that grants shares and the code that measures them need it, and neither may
 * include the other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A percentage above 0 and at most 100, in permille, at least 1; only the first decimal is read: "33.39" gives 333. */
bool mps_value_threads(const char *text, unsigned int *ret_permille);

/*
 * The limit in the list |text| for the GPU with this ordinal or this UUID (with or without "GPU-" or "MIG-"; "" for
 * none). "0=8G,1=512MB" gives 512 for ordinal 1. |*ret_mib| is unchanged if the list has no limit for the GPU. False:
 * |text| is not such a list.
 */
bool mps_value_memory(const char *text, int ordinal, const char *uuid, uint64_t *ret_mib);

/* The one limit of every GPU, "8G". False: |text| is not such a value. */
bool mps_value_memory_of_each(const char *text, uint64_t *ret_mib);
