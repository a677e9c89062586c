// SPDX-License-Identifier: Apache-2.0
/* Computes the limits for k of N replicas of a unit. Pure arithmetic. */
#pragma once

#include "plan/plan.h"

struct share {
        uint64_t memory_mib;           /* pinned device memory limit; 0: none (time-slicing, unknown memory) */
        unsigned int threads_permille; /* active thread percentage × 10; 1000: no limit */
        unsigned int sms;              /* provisioning sm: whole SM chunks; 0: not by SMs */
};

/*
 * |k| replicas of |unit| held by one container, 1 ≤ k ≤ unit->replicas. A whole unit has no limit, though others of its
 * resource be shared.
 *
 * uniform:  memory total/N in MiB, truncated, and 100/N percent for any k: the control daemon's defaults, NVIDIA's
 *           formula, which no client can raise.
 * half:     k/N of the usable memory, min(100, 200·k/N) percent.
 * weighted: k/N of the usable memory, k·100/N percent.
 * declared: as weighted, but no more than the ceilings maxMemory and maxThreads: what a container has that declares
 * nothing
 *           (plan/declared.h).
 * sm:       k/N of the usable memory, k times the SMs of a replica, and the percentage that gives as many.
 */
struct share share_of(const struct resource *resource, const struct unit *unit, unsigned int k);

/*
 * Bytes of memory of a unit: by NVML, else by the configuration; 0: unknown. The configuration does not count for a
 * unit that cannot be read now, since it may be another kind of GPU. |mig| NULL: the whole GPU.
 */
uint64_t share_memory_of(uint64_t configured_mib, const struct gpu *gpu, const struct mig_device *mig);

/* |share| of |unit|, but not more than maxMemory and maxThreads allow. */
struct share share_below_ceilings(const struct unit *unit, struct share share);

/* The most replicas of |unit| that one container may hold. */
unsigned int share_most(const struct resource *resource, const struct unit *unit);

/*
 * The SMs of |share|: its own, or from its percentage, rounded down as the driver does; 0: the number of SMs is
 * unknown.
 */
unsigned int share_sms(const struct unit *unit, const struct share *share);

/*
 * The largest share of |unit| that one container may get, which the control daemon must allow every client. Under
 * declared: the ceilings, or everything.
 */
struct share share_largest(const struct resource *resource, const struct unit *unit);

/*
 * The expected tier of |unit|'s shares, from its GPU, the driver and the configuration's limit: default for uniform,
 * partition for sm, namespace for the rest; verified if the driver or the limit does not allow that, for declared, and
 * with daemonScope node. The daemon reports the real one.
 */
enum mps_tier share_tier(const struct plan *plan, const struct resource *resource, const struct unit *unit);

/*
 * False: the memory of |unit| is unknown to NVML and to the configuration, so its shares have no memory limit in any
 * tier. A unit that cannot be read now counts as one with limits, since its limits stay as they were.
 */
bool share_limits_memory(const struct unit *unit);

/* mps_tier_promise() of share_tier(). */
const char *share_promise(const struct plan *plan, const struct resource *resource, const struct unit *unit);

/* ---- memory ---- */

/*
 * The usable memory of a unit that is shared by MPS.
 *
 * Pinned device memory limits count everything that a client allocates, with CUDA's own context (MPS manual), so
 * contexts are part of the share and need no reserve. The reserve is memory that no client is charged for: the driver's
 * part of the total, which NVML reports (struct gpu), and the server's own context, for which the manual has one
 * example of 60 MiB on a MIG device. A MIG device has memory of its own, of which the driver takes almost nothing.
 * Users can set memoryReserve instead.
 *
 * Under uniform nothing is reserved: total / N is NVIDIA's formula.
 */

/*
 * memoryReserve: auto. The driver's part is rounded up to whole steps, so that slightly different readings of NVML, by
 * two processes or after a restart, give the same shares.
 */
#define SHARE_SERVER_MIB UINT64_C(64)
#define SHARE_DRIVER_STEP_MIB UINT64_C(64)

/* An ESTIMATE of the driver's part, for drivers that do not report it: about 300 to 700 MiB on data centre GPUs. */
#define SHARE_DRIVER_MIB UINT64_C(704)

/*
 * Less than this is too small for a context with a program. The manual's example of a client has 326 MiB; small GPUs
 * need less, so this, also an estimate, is the size below which a share is useless on any GPU.
 */
#define SHARE_LEAST_MIB UINT64_C(256)

/* The reserve of memoryReserve: auto for |gpu|, or for a MIG device of it. */
uint64_t share_estimated_reserve_mib(const struct gpu *gpu, bool is_mig);

/* The reserve of |unit|, which is shared by MPS. */
uint64_t share_reserve_mib(const struct unit *unit);

/* The usable memory in whole MiB; 0: nothing is left, or the unit's memory is unknown. */
uint64_t share_usable_mib(const struct unit *unit);

/*
 * The memory of |k| replicas: k/N of the usable memory, rounded down once. So the shares of a unit never exceed it,
 * however its replicas are distributed, and each loses less than 1 MiB.
 */
uint64_t share_memory_mib(const struct unit *unit, unsigned int k);

/* The largest number of replicas that each get SHARE_LEAST_MIB; UINT_MAX if the memory is unknown. */
unsigned int share_most_replicas(const struct unit *unit);

/* ---- streaming multiprocessors ---- */

/*
 * Static partitions are made of whole chunks (MPS manual, r590): 8 SMs from compute capability 9.0 on, 4 before. SMs
 * beyond the last chunk are not used. Shares are the same where the driver cannot make partitions and percentages
 * stand in.
 */

/*
 * SMs of one chunk. A GPU that does not report its compute capability has the larger one, which is a multiple of the
 * other.
 */
unsigned int sm_chunk(const struct gpu *gpu);

/* SMs of the GPU or MIG device; 0 unknown. */
unsigned int sm_count(const struct unit *unit);

/*
 * The chunks on which a plan may count. How many a GPU has does not follow from its SMs, probably since those of a
 * chunk have to be neighbours and each GPU lacks others: of 132 SMs were 15 chunks of 8 recorded, though 16 would fit,
 * and NVIDIA's manual shows 10 of 92. So of chunks of 8 it is one fewer than fit; those of 4 fill an A10, as recorded.
 * What the daemon says of its GPU is compared with it (mps/supervisor). Percentages of a MIG device lack none.
 */
unsigned int sm_chunks(const struct unit *unit);

/* The chunks that all replicas of |unit|, which is shared by SMs, need together; 0: it has no partitions. */
unsigned int sm_chunks_needed(const struct resource *resource, const struct unit *unit);
