/*
 * Computes the usable memory of a unit that is shared by MPS, and the part of k of its N replicas. Pure.
 *
 * Pinned device memory limits count everything that a client allocates, with CUDA's own context (MPS manual), so
 * contexts are part of the share and need no reserve. The reserve is memory that no client is charged for: the driver's
 * part of the total, which NVML reports (struct gpu), and the server's own context, for which the manual has one
 * example of 60 MiB on a MIG device. A MIG device has memory of its own, of which the driver takes almost nothing.
 * Users can set memoryReserve instead.
 *
 * Under uniform nothing is reserved: total / N is NVIDIA's formula.
 */
#pragma once

#include <stdint.h>

#include "plan/plan.h"

/*
 * memoryReserve: auto. The driver's part is rounded up to whole steps, so that slightly different readings of NVML, by
 * two processes or after a restart, give the same shares.
 */
#define BUDGET_SERVER_MIB UINT64_C(64)
#define BUDGET_DRIVER_STEP_MIB UINT64_C(64)

/* An ESTIMATE of the driver's part, for drivers that do not report it: about 300 to 700 MiB on data centre GPUs. */
#define BUDGET_DRIVER_MIB UINT64_C(704)

/*
 * Less than this is too small for a context with a program. The manual's example of a client has 326 MiB; small GPUs
 * need less, so this, also an estimate, is the size below which a share is useless on any GPU.
 */
#define BUDGET_LEAST_SHARE_MIB UINT64_C(256)

/* The reserve of memoryReserve: auto for |gpu|, or for a MIG device of it. */
uint64_t budget_estimated_reserve_mib(const struct gpu *gpu, bool is_mig);

/* The reserve of |unit|, which is shared by MPS. */
uint64_t budget_reserve_mib(const struct unit *unit);

/* The usable memory in whole MiB; 0: nothing is left, or the unit's memory is unknown. */
uint64_t budget_usable_mib(const struct unit *unit);

/*
 * The memory of |k| replicas: k/N of the usable memory, rounded down once. So the shares of a unit never exceed it,
 * however its replicas are distributed, and each loses less than 1 MiB.
 */
uint64_t budget_share_mib(const struct unit *unit, unsigned int k);

/* The largest number of replicas that each get BUDGET_LEAST_SHARE_MIB; UINT_MAX if the memory is unknown. */
unsigned int budget_most_replicas(const struct unit *unit);
