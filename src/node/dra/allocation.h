// SPDX-License-Identifier: Apache-2.0
/*
 * Allocates what a claim was given, once the claim is read: has the MIG devices of candidates made, books all of it in
 * the ledger, and waits until the ledger has it, as until its MPS daemon is ready. And the way back.
 *
 *   dra_allocate ──┬── candidates ──► LOOKING ──► recorded ──► MAKING ──► recorded ──► WAITING ──► BOOKING ──► done
 *                  │                     └─────────── all is there ─────────────────────┘            ▲
 *                  └─────────────────────────────────────────────────────────────────────────────────┘
 *   dra_release ───► the ledger forgets the claim ──┬── MIG devices ──► DESTROYING ──► WAITING ──► done
 *                                                   └──────────────────────────────────────────────▲
 *
 * The GPU instances are made and destroyed by requests to processes that have NVML (gpu/nvml_pool.h): one for each GPU,
 * all at once, so that changes of one GPU are made in the order in which they were asked for. What was made or
 * destroyed is waited for in the inventory: only then do plan, CDI and ResourceSlices agree with the GPU. A process
 * that hangs is killed, and its claim's call fails. What it may have made stays recorded as being made.
 */
#pragma once

#include "config/config.h"
#include "node/dra/claim.h"
#include "node/dra/node.h"

struct dra_allocator;

/* |on_released|: a claim holds nothing any more, and its call was answered. |config| is not kept. */
struct dra_allocator *dra_allocator_new(
        const struct dra_node *node, const struct config *config, void (*on_released)(void *data), void *data);

/* |closed| is called when all calls of NVML have ended, perhaps at once; none may begin from now on. */
void dra_allocator_close(struct dra_allocator *allocator, void (*closed)(void *data), void *data);

/* It is closed, and no call is open. Accepts NULL, returns NULL. */
struct dra_allocator *dra_allocator_free(struct dra_allocator *allocator);

/* |err| NULL: it succeeded. */
typedef void dra_allocator_done_fn(const struct error *err, void *data);

/*
 * Allocates what the results of |claim| want. What the claim had before is replaced. The results, which are recorded,
 * get what was allocated, in |arena|. Both are borrowed until |done|, which is called exactly once, perhaps before the
 * function returns. After an error something may be held: dra_release() has to follow.
 */
void dra_allocate(struct dra_allocator *allocator, struct dra_claim *claim, struct arena *arena,
        dra_allocator_done_fn *done, void *data);

/*
 * Frees what is held for the claim with that UID, perhaps nothing, and destroys the instances in the record.
 * |arena| is borrowed until |done|.
 */
void dra_release(
        struct dra_allocator *allocator, const char *uid, struct arena *arena, dra_allocator_done_fn *done, void *data);

/* To be called after each new plan: what waits for MIG devices in it continues. */
void dra_allocator_go_on(struct dra_allocator *allocator);

/* True if none of the processes that make MIG devices has NVML open. */
bool dra_allocator_has_closed_nvml(const struct dra_allocator *allocator);

int dra_allocator_write_cdi(
        const struct dra_allocator *allocator, const struct dra_claim *claim, struct error *err) MUST_USE;
int dra_allocator_remove_cdi(const struct dra_allocator *allocator, const char *uid, struct error *err) MUST_USE;

/*
 * Refuses what waits for the ledger or for a plan, because the driver closes; what NVML works on is refused when it has
 * answered.
 */
void dra_allocator_refuse(struct dra_allocator *allocator);
