// SPDX-License-Identifier: Apache-2.0
/*
 * Prepare and Unprepare of claims: the order of the steps. If the agent is killed between any two of them, the next
 * agent finishes or undoes the claim.
 *
 *                      prepared in the record                             ┌──────────► CDI file ──► answer
 *   Prepare ──► refresh ──┬───────────────────────────────────────────────┤
 *                         └──► READING ──► check ──► CDI file removed ──► recorded as started ──► ALLOCATING ──► recorded as prepared
 *                                 │ error    │ error                                                 │ refused        │ no CDI file
 *                                 ▼          ▼                                                       ▼                ▼
 *                               answer     answer                                                 take back: the same as Unprepare
 *
 *   Unprepare ──► refresh ──► recorded as started ──► CDI file removed ──► RELEASING ──► removed from the record ──► answer
 *
 * A claim is in the record before anything is made for it, until everything has been removed. It is recorded as
 * prepared only while everything is allocated: its CDI file is made from the record, so it can be written again with
 * the same content. For a claim that is recorded as started, kubelet has had no answer yet, so no container uses its
 * CDI file. If a claim is not in the record, Unprepare still removes what may exist, as after a reboot or if the record
 * was lost.
 *
 * The GPU instance of a MIG candidate is recorded as being made before it is, so a Prepare that comes again
 * continues with it, and Unprepare destroys it. If the claim was allocated again in between, what was made is taken
 * back, and kubelet asks again.
 *
 * Claims are independent of each other. For one claim one call runs at a time: node/dra/service.h sees to that. It does
 * not know HTTP, the ledger, the supervisor, or how CDI files are written: node/dra/reading.h and node/dra/allocation.h
 * do the steps. Its tests are linked with steps of their own.
 */
#pragma once

#include <stddef.h>

#include "node/dra/allocation.h"
#include "node/dra/prepared_record.h"
#include "node/dra/reading.h"
#include "node/dra/service.h"
#include "node/dra/status.h"

struct dra_prepare;

/* All arguments outlive it. |status|: for users to see. */
struct dra_prepare *dra_prepare_new(const struct dra_node *node, struct dra_readings *readings,
        struct dra_allocator *allocator, struct dra_status_sender *status);

/* Drops calls without an answer, which their steps must not end any more. Accepts NULL, returns NULL. */
struct dra_prepare *dra_prepare_free(struct dra_prepare *prepare);

/*
 * |err| NULL: it succeeded. |claim|: prepared; NULL after an Unprepare or an error. Valid until the function returns.
 */
typedef void dra_prepare_done_fn(const struct dra_claim *claim, const struct error *err, void *data);

/* |done| is called exactly once, perhaps before the function returns. The texts of |claim| are borrowed until then. */
void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data);
void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data);

/* No request waits for the Prepare of the claim any more: it fails now unless something may have been made already. */
void dra_prepare_abandon(struct dra_prepare *prepare, const struct dra_claim *claim);

/* To be called when no call is open, and before another process may change the record. */
void dra_prepare_settle(struct dra_prepare *prepare);

/* How many calls were answered, by kind and outcome. */
struct dra_prepare_counts {
        uint64_t prepared;
        uint64_t prepare_refused;
        uint64_t unprepared;
        uint64_t unprepare_refused;
};
struct dra_prepare_counts dra_prepare_counts(const struct dra_prepare *prepare);
