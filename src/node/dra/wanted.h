/*
 * Finds the device of the layout, and its limits, for each result of a claim. Pure; knows neither ledger nor
 * supervisor.
 *
 * "gpu-0-shared" with consumedCapacity memory 10Gi, threadPercentage 30 is GPU 0 by MPS with these limits. A static
 * share has the limits of its device. Whole GPUs, MIG devices and time-sliced ones have no limits, and can be given
 * with admin access, too, in addition to the claims that have them. A share by MPS cannot: its memory and threads would
 * be missing elsewhere.
 *
 * A process can use only one MPS daemon, and has one limit of each kind on a GPU, which its container's environment
 * says by CUDA's numbers of the GPUs that it sees. So
 *
 *   - shares of two units need a daemon that serves both, and containers that use all shares of the claim;
 *   - several shares of one unit are one share for a container that uses them all: |together| says which. They stay
 *     apart for containers that each use another one. What cannot be said so is refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "node/dra/claim.h"
#include "node/dra/layout.h"
#include "node/dra/prepared_record.h"
#include "node/ledger/claims.h"

struct dra_wanted {
        const struct dra_claim_result *result;
        const struct dra_device *device;
        uint64_t memory_bytes;          /* 0: no limit */
        unsigned int thread_percentage; /* 0: no limit */
        unsigned int clients;           /* 0: no limit */
        enum dra_unenforced unenforced;
        uint32_t together; /* by MPS: bit i for the result i that the same containers use, and for itself; else 0 */
};

/* The use of a claim by a container: these requests, or all (none is named). */
struct dra_use {
        const char *const *requests;
        size_t n_requests;
};

struct dra_wanted_rules {
        const struct dra_layout *layout; /* NULL: not known yet */
        const char *driver;              /* its name */
        enum dra_unenforced unenforced;  /* the default if neither claim nor class has it: node/dra/parameters.h */
        bool is_multi_user;              /* MPS daemons serve several users at the same time: node/dra/parameters.h */
        bool one_daemon;                 /* one MPS daemon serves all GPUs, though not MIG devices */
        const struct dra_use *uses;      /* by containers of the claim's pods, as far as they are known */
        size_t n_uses;
        bool knows_uses; /* of all its pods */
};

/*
 * Returns an entry for each result, in their order, in |arena|; entries point into claim and layout. ERROR_UNAVAILABLE:
 * the layout does not have the device, or is not known yet. ERROR_UNSUPPORTED: these rules do not allow it.
 * ERROR_INVALID: no scheduler with this layout could have allocated the claim.
 */
int dra_wanted_read(const struct dra_wanted **ret, struct arena *arena, const struct dra_claim *claim,
        const struct dra_wanted_rules *rules, struct error *err) MUST_USE;

/* ---- booking ---- */

#define DRA_NOT_BOOKED SIZE_MAX /* by admin access: others have it */

struct dra_booking {
        struct ledger_claim_device *devices;
        size_t n_devices;
        size_t *of; /* one for each result: its device, or DRA_NOT_BOOKED */
};

/*
 * Makes the ledger's entry of a claim: a device for each of its results, but only one for all shares of a unit that the
 * same containers use. Pure.
 *
 * A claim with 10 GiB and 30 % of GPU-A by request "a", 5 GiB and 20 % of GPU-A by request "b", and GPU-B as a whole: a
 * process has one limit of each kind on a GPU, so a container with the claim has 15 GiB and 50 % of GPU-A, in one
 * allocation:
 *
 *   result 0 ──┬──► c15eb…_0   GPU-A   15 GiB, 50 %
 *   result 1 ──┘
 *   result 2 ─────► c15eb…_2   GPU-B   alone
 *
 * In |arena|, with copies of all texts. |wanted|: one for each result of the claim.
 */
void dra_booking_make(
        struct dra_booking *ret, struct arena *arena, const struct dra_claim *claim, const struct dra_wanted *wanted);

/* Like dra_booking_make(), for a prepared claim; borrows from |recorded|. */
void dra_booking_keep(struct ledger_claim *ret, struct arena *arena, const struct dra_prepared_claim *recorded);

/* "c15ebfed7…_0": of the claim and the position of a result in it, of the characters of an allocation's id. */
const char *dra_booking_id(struct arena *arena, const char *uid, size_t position);
