/*
 * What a container gets with one device of a claim, beside the unit itself, which the CDI device of the unit carries (cdi/cdi.h). Pure.
 *
 * 10 GiB and 30 % of GPU-A, in tier verified:
 *
 *   CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-A/pipe           <MPS root>/GPU-A/pipe is mounted there
 *   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M         the MPS server lets a client of this daemon see one unit: number 0
 *   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30
 *   WARPSHARE_GRANT, …_MEMORY_LIMIT_MIB, …_THREAD_PERCENTAGE, …_TIER     for the limit monitor, and for frameworks
 *   /dev/shm                                          that of the daemon: <MPS root>/shm or <MPS root>/GPU-A/shm
 *
 * Every device says NVIDIA_VISIBLE_DEVICES=void, so that NVIDIA's container runtime adds nothing of what the image asks for.
 */
#pragma once

#include "config/config.h"
#include "dra/prepared_record.h"
#include "ledger/claims.h"

/* |claimed->daemon| NULL: the unit without MPS. In |arena|, borrowing nothing. */
struct dra_edits dra_edits_of(struct arena *arena, const struct config *config,
        const struct ledger_claim_device *device, const struct ledger_claimed *claimed);
