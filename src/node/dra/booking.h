/*
 * Makes what a claim books in the ledger: a device for each of its results, but one for all shares of a unit that the same
 * containers use. Pure.
 *
 * A claim with 10 GiB and 30 % of GPU-A by request "a", 5 GiB and 20 % of GPU-A by request "b", and GPU-B as a whole: a
 * process has one limit of each kind on a GPU, so a container with the claim has 15 GiB and 50 % of GPU-A, in one
 * allocation:
 *
 *   result 0 ──┬──► c15eb…_0   GPU-A   15 GiB, 50 %
 *   result 1 ──┘
 *   result 2 ─────► c15eb…_2   GPU-B   alone
 */
#pragma once

#include "node/dra/prepared_record.h"
#include "node/dra/wanted.h"
#include "node/ledger/claims.h"

#define DRA_NOT_BOOKED SIZE_MAX /* by admin access: others have it */

struct dra_booking {
        struct ledger_claim_device *devices;
        size_t n_devices;
        size_t *of; /* one for each result: its device, or DRA_NOT_BOOKED */
};

/* In |arena|, with copies of all texts. |wanted|: one for each result of the claim. */
void dra_booking_make(
        struct dra_booking *ret, struct arena *arena, const struct dra_claim *claim, const struct dra_wanted *wanted);

/* The same of a claim that is prepared; borrows from |recorded|. */
void dra_booking_keep(struct ledger_claim *ret, struct arena *arena, const struct dra_prepared_claim *recorded);

/* "c15ebfed7…_0": of the claim and the position of a result in it, of the characters of an allocation's id. */
const char *dra_booking_id(struct arena *arena, const char *uid, size_t position);
