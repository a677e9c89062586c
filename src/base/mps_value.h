/*
 * The values of the variables by which an MPS client limits itself, as NVIDIA's MPS manual has them. Pure.
 *
 *         CUDA_MPS_ACTIVE_THREAD_PERCENTAGE   "35", "33.3"
 *         CUDA_MPS_PINNED_DEVICE_MEM_LIMIT    "0=11411M", "0=8G,1=512MB", "GPU-…=8G"; a number without a unit is megabytes
 *
 * It is here since those who grant shares and those who measure them know nothing of each other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Above 0 and at most 100 percent, in permille, at least 1; digits after the first decimal count for nothing. */
bool mps_value_threads(const char *text, unsigned int *ret_permille);

/*
 * The limit of the GPU that has this ordinal, or this UUID (with "GPU-" or "MIG-" before it, or without; "" for none). |*ret_mib| stays as it was where the list has
 * none for it. False: it is no such list.
 */
bool mps_value_memory(const char *text, int ordinal, const char *uuid, uint64_t *ret_mib);
