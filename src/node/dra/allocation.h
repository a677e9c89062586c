/*
 * Allocates what a claim was given, once the claim is read: has the MIG devices of candidates made, books all of it in
 * the ledger, and waits until the ledger has it, as until its MPS daemon is ready. And the way back.
 *
 *   allocate ──► MIG devices made, where there are candidates ──► ledger: daemon ready, namespace made ──► done
 *   release ───► the ledger forgets the claim ──► MIG devices destroyed ──► done
 */
#pragma once

#include "node/dra/mig_changes.h"
#include "node/dra/node.h"
#include "node/dra/wanted.h"

struct dra_allocator;

/* |on_released|: a claim holds nothing any more, and its call was answered. */
struct dra_allocator *dra_allocator_new(
        const struct dra_node *node, struct dra_changes *changes, void (*on_released)(void *data), void *data);

/* No call may be open. Accepts NULL, returns NULL. */
struct dra_allocator *dra_allocator_free(struct dra_allocator *allocator);

/* |err| NULL: it succeeded. */
typedef void dra_allocator_done_fn(const struct error *err, void *data);

/*
 * Allocates |wanted|, one for each result of |claim|. What has admin access is not booked. What the claim had before is
 * replaced. |made| is the claim as it is recorded; its results get what was allocated, in |arena|. Both are borrowed
 * until |done|, which is called exactly once, perhaps before the function returns. After an error something may be
 * held: dra_release() has to follow.
 */
void dra_allocate(struct dra_allocator *allocator, const struct dra_claim *claim, const struct dra_wanted *wanted,
        struct dra_prepared_claim *made, struct arena *arena, dra_allocator_done_fn *done, void *data);

/* Frees what is held for the claim with that UID, perhaps nothing, and destroys the instances in the record. */
void dra_release(struct dra_allocator *allocator, const char *uid, dra_allocator_done_fn *done, void *data);

int dra_allocator_write_cdi(
        const struct dra_allocator *allocator, const struct dra_prepared_claim *claim, struct error *err) MUST_USE;
int dra_allocator_remove_cdi(const struct dra_allocator *allocator, const char *uid, struct error *err) MUST_USE;

/* Refuses what waits for the ledger, because the driver closes; dra_changes_refuse() does so for MIG devices. */
void dra_allocator_refuse(struct dra_allocator *allocator);
