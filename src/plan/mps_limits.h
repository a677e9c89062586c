// SPDX-License-Identifier: Apache-2.0
/*
 * The limits of a container as the variables that MPS clients read, and the CDI devices that carry them. Pure.
 *
 * In kubelet the variables of a pod have precedence over those of a device plugin's answer, so a pod can set one of
 * these itself; and of several answers for one container the first one processed counts. The container runtime applies
 * the edits of a CDI device after all that. So if devices are allocated by CDI, the variables are also in devices of
 * kind CDI_KIND_MPS (plan/allocate.h):
 *
 *   "<daemon>"    CUDA_MPS_PIPE_DIRECTORY alone, the '/' of a resource name written '_'
 *   "<uuid>-<k>"  with the limits of k replicas of that unit, where limits are the container's and its daemon serves
 *                 that unit only: not under provisioning uniform, whose limits no client can raise
 *   "<allocation>"     one for each allocation, where the container may have other allocations at the same daemon
 *                      (daemonScope node), or where it declares its limits itself (plan/declared.h): its file is
 *                      written when the container starts, with the limits of all that it holds. Its name is new, so no
 *                      runtime has read an older one.
 *
 * Two allocations of one container, 5 of 10 of an 80 GiB GPU 0 and 2 of 10 of GPU 1, weighted: both devices say
 *
 *   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=40448M,1=16179M   each its own, by CUDA's ordinals
 *   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20                 the least: one number counts for the whole process
 *   CUDA_DEVICE_ORDER=PCI_BUS_ID                         so that ordinal 0 is the one with the least index
 *
 * With 5 of each both limits are equal, and the value has no ordinals: "40448M". An entry for a GPU that the process does
 * not see lifts every limit of the process (recorded, 615.71.09: test/fixtures/recorded/mps/615-v3.txt), and launchers
 * narrow CUDA_VISIBLE_DEVICES for each rank. Whether the form without ordinals keeps the limit is inferred
 * (docs/hardware-notes.md); unequal limits need the list, and a narrowed process is then limited by nothing but the
 * limit monitor.
 */
#pragma once

#include "plan/plan.h"
#include "plan/share.h"

/* The part of one unit shared by MPS that a container holds. */
struct mps_part {
        const struct resource *resource;
        const struct unit *unit;
        unsigned int replicas;
        struct share share; /* its value: share_of(), or what the container declares */
};

/* Variables that mps_limits_variables() leaves out. */
enum {
        MPS_LIMITS_NO_THREADS = 1U << 0,
        MPS_LIMITS_NO_MEMORY = 1U << 1,
};

/*
 * The limits of |resource|'s containers depend on what else a container holds, so they are known only when it starts;
 * the CDI devices are named after the allocations.
 */
bool mps_limits_at_start(const struct plan *plan, const struct resource *resource);

/* Sorts the parts as the container sees them: the position is CUDA's ordinal. */
void mps_parts_sort(struct mps_part *parts, size_t n_parts);

/*
 * The limits for all parts together: the lowest threads of any, and the list of mps_limits_memory() in their order, or
 * NULL.
 */
unsigned int mps_parts_threads(const struct mps_part *parts, size_t n_parts);
const char *mps_parts_memory(struct arena *arena, const struct mps_part *parts, size_t n_parts);

/*
 * The variables for a container that holds |parts|, sorted, all of one daemon and at least one; without those in
 * |omits|. "NAME=value", in |arena|.
 */
size_t mps_limits_variables(
        struct arena *arena, const struct mps_part *parts, size_t n_parts, unsigned int omits, const char ***ret);

/* CUDA_MPS_PIPE_DIRECTORY of the containers that hold |unit|: "/mps/<daemon>/pipe". */
const char *mps_limits_pipe(struct arena *arena, const struct resource *resource, const struct unit *unit);

/* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: "35", "2.5". */
const char *mps_limits_threads(struct arena *arena, unsigned int permille);

/*
 * CUDA_MPS_PINNED_DEVICE_MEM_LIMIT by CUDA's ordinals, one per unit, in order: "0=5952M,1=3072M"; an unknown limit, 0,
 * is left out. Of several units with equal limits: "5952M". NULL if all are unknown.
 */
const char *mps_limits_memory(struct arena *arena, const uint64_t *mib, size_t n_units);

/* The largest k for which |unit|, which is shared by MPS, has a CDI device "<uuid>-<k>"; 0: none. */
unsigned int mps_limits_most(const struct resource *resource, const struct unit *unit);

/* The name of the CDI device for |k| replicas of |unit|; the daemon's if k is 0 or more than mps_limits_most(). */
const char *mps_limits_device(
        struct arena *arena, const struct resource *resource, const struct unit *unit, unsigned int k);

/* ---- the share, for the container ---- */

/*
 * Variables that describe the share of an MPS container, so that frameworks can adapt to it: CUDA shows them the whole
 * GPU.
 *
 *   WARPSHARE_REPLICAS           "7/20"
 *   WARPSHARE_FRACTION           "0.3465": mps_limits_fraction()
 *   WARPSHARE_MEMORY_LIMIT_MIB   "11299", where the memory is known
 *   WARPSHARE_THREAD_PERCENTAGE  "35.0"
 *   WARPSHARE_SMS                "24", where the unit reports how many it has
 *   WARPSHARE_TIER               "verified", "verified-no-memory-limit": mps_tier_promise()
 *
 * A container that holds parts of several units gets WARPSHARE_FRACTION alone, since the others would not describe any
 * single unit.
 */

#define MPS_FACTS_MAX ((size_t)6)

struct mps_fact {
        const char *name;
        const char *value;
};

/*
 * WARPSHARE_FRACTION: the memory limit as a part of the memory that NVML reports of the whole unit, rounded down to
 * four decimals. A program that uses this part of what CUDA reports as the total stays within its limit, since CUDA
 * reports no more than NVML (docs/evidence.md). NULL without a limit (|mib| 0), if the part is less than 0.0001,
 * or if NVML does not report the unit's memory (|memory|, in bytes, 0): how a configured size compares with what CUDA
 * reports is unknown.
 */
const char *mps_limits_fraction(struct arena *arena, uint64_t mib, uint64_t memory);

/*
 * The same of several units: the least, since frameworks have one number for all GPUs. Of each part, |unit| and
 * |share.memory_mib| are read.
 */
const char *mps_parts_fraction(struct arena *arena, const struct mps_part *parts, size_t n_parts);

/*
 * At most MPS_FACTS_MAX of them, in |arena|. |tier|: of the first part; |sms|: of the container's partition; 0: from
 * the share.
 */
size_t mps_facts(struct mps_fact *ret, struct arena *arena, const struct mps_part *parts, size_t n_parts,
        enum mps_tier tier, unsigned int sms);
