/*
 * The memory of a unit that is shared by MPS, and what k of its N replicas get of it. Pure.
 *
 * Pinned device memory limits count all that a client allocates, CUDA's own context included (MPS manual), so a context is
 * nothing to reserve: it is part of the share. Reserved is what no client is charged with: what the driver reserves of the
 * total, which NVML tells (struct gpu), and the server's own context, for which the manual has one example of 60 MiB on a MIG
 * device. A MIG device has its own memory, of which the driver takes next to nothing. Whoever knows better writes memoryReserve.
 *
 * Under uniform nothing is reserved: total / N is NVIDIA's formula.
 */
#pragma once

#include <stdint.h>

#include "share/plan.h"

/*
 * memoryReserve: auto. The driver's part is rounded up to whole steps, so that readings of NVML that differ a little, by two
 * processes or after a restart, make the same shares.
 */
#define BUDGET_SERVER_MIB UINT64_C(64)
#define BUDGET_DRIVER_STEP_MIB UINT64_C(64)

/* An ESTIMATE of the driver's part, for drivers that do not tell it: of data centre GPUs it is some 300 to 700 MiB. */
#define BUDGET_DRIVER_MIB UINT64_C(704)

/*
 * Less than this holds no context with a program in it. The manual's example of a client has 326 MiB; small GPUs need
 * less, so this, an estimate too, is where a share is useless on any.
 */
#define BUDGET_LEAST_SHARE_MIB UINT64_C(256)

/* Reserved of |unit|, which is shared by MPS. */
uint64_t budget_reserve_mib(const struct unit *unit);

/* The rest, in whole MiB; 0: nothing is left, or the unit's memory is unknown. */
uint64_t budget_usable_mib(const struct unit *unit);

/*
 * Of |k| replicas: k/N of what is usable, rounded down once. So the shares of a unit, however its replicas are dealt out,
 * are never more than there is, and each loses less than 1 MiB.
 */
uint64_t budget_share_mib(const struct unit *unit, unsigned int k);

/* The most replicas that each get BUDGET_LEAST_SHARE_MIB; UINT_MAX where the memory is unknown. */
unsigned int budget_most_replicas(const struct unit *unit);
