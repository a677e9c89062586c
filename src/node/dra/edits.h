/*
 * What a container gets with a share of a claim, or with all that it uses together. The GPU or MIG device itself is not
 * here: it is the unit's own CDI device (node/cdi/cdi.h). Pure.
 *
 * 10 GiB and 30 % of GPU-A, in tier verified:
 *
 *   CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-A/pipe           <MPS root>/GPU-A/pipe is mounted there
 *   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M         a client of this daemon sees one unit, which is number 0; not in
 *                                                     tier namespace, whose own limit the variable could only lift
 *   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30
 *   WARPSHARE_GRANT, …_MEMORY_LIMIT_MIB, …_THREAD_PERCENTAGE, …_TIER     for the limit monitor, and for frameworks
 *   /dev/shm                                          that of the daemon: <MPS root>/shm or <MPS root>/GPU-A/shm
 *
 * With shares of several GPUs of one daemon, by their index, which is CUDA's order with CUDA_DEVICE_ORDER=PCI_BUS_ID:
 *
 *   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M,1=5120M
 *   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20              the least: one number counts for the whole process
 *
 * and no WARPSHARE_MEMORY_LIMIT_MIB, since it differs from GPU to GPU.
 *
 * Every device also sets NVIDIA_VISIBLE_DEVICES=void, so that NVIDIA's container runtime does not add the GPUs that the
 * image requests.
 */
#pragma once

#include "config/config.h"
#include "node/dra/prepared_record.h"
#include "node/ledger/claims.h"

/*
 * |devices|: at least one, of the same daemon; several are of different GPUs, by their index. |claimed->daemon| NULL:
 * the unit without MPS. The result is in |arena|, with copies of all texts.
 */
struct dra_edits dra_edits_of(struct arena *arena, const struct config *config,
        const struct ledger_claim_device *const *devices, size_t n_devices, const struct ledger_claimed *claimed);
