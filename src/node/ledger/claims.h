// SPDX-License-Identifier: Apache-2.0
/*
 * The shares and units that DRA claims hold: shares by MPS with limits of their own, and whole units. A part of the
 * ledger (node/ledger/ledger.h).
 *
 *            ledger_claim()                     all that it needs is there
 *   nothing ───────────────► waiting ──────────────────────────────► making ──────► held
 *      │ does not fit           │ LEDGER_CLAIM_WAIT_MS passed           │ refused     ▲
 *      └───► refused            └──────────► failed ◄───────────────────┘             │ ledger_keep_claims(): prepared earlier
 *
 * Example: a claim has 10 GiB and 30 % of GPU-A. No claim has a share of GPU-A yet, so its MPS daemon does not run: it
 * is wanted from now on, and the claim waits until the supervisor reports it as ready. With driver r615 the supervisor
 * then makes an MPS namespace for the claim; with older ones the limits are in the container's environment. When the
 * last claim on GPU-A ends, the daemon is no longer wanted, and a claim of the whole GPU-A waits until it has ended.
 *
 * A claim that failed holds what it asked for until ledger_unclaim(): something may have been made for it. The
 * scheduler gives out no more than there is, but a pod can be forced past it; so a claim that does not fit beside the
 * others is refused. A refused claim holds nothing and affects no daemon.
 *
 * Claims are not written here: node/dra/prepared_record.h has them, and ledger_keep_claims() says which there are.
 */
#pragma once

#include "node/ledger/ledger.h"

/*
 * How long a claim waits for its daemons, and how long if no supervisor is connected: less than the timeout of
 * node/dra/service.h (40 s), so that kubelet gets the reason. Kubelet asks again in any case.
 */
#define LEDGER_CLAIM_WAIT_MS INT64_C(35000)
#define LEDGER_CLAIM_ALONE_MS INT64_C(5000)

#define LEDGER_CLAIM_DEVICES_MAX ((size_t)32)

/* One unit that a claim has, or a share of it. */
struct ledger_claim_device {
        const char *id;     /* of the allocation (plan/allocations.h): the same whenever this claim has this device */
        const char *unit;   /* UUID */
        bool is_shared;     /* by MPS; else the claim has the unit, and no MPS daemon may run there */
        bool is_alone;      /* no other claim may have the unit; false: others may, by time-slicing */
        uint64_t limit_mib; /* 0: none */
        unsigned int threads_permille; /* 1000: no limit */
        enum mps_tier tier;            /* of a claim that is held: the one it was prepared with */
        const char *daemon; /* the same: name of the MPS daemon; NULL: as is configured now, or it is without MPS */
};

/* A pod that uses a claim, and is in its namespace. */
struct ledger_claim_pod {
        const char *uid;
        const char *name;
};

struct ledger_claim {
        const char *uid;
        const char *name; /* "namespace/name", for people */
        const struct ledger_claim_device *devices;
        size_t n_devices;                    /* at most LEDGER_CLAIM_DEVICES_MAX */
        const struct ledger_claim_pod *pods; /* that use it, as far as they are known */
        size_t n_pods;
};

/* The daemon and directories that a container with the device needs; for a unit without MPS all are NULL. */
struct ledger_claimed {
        enum mps_tier tier;
        const char *daemon; /* name of the MPS daemon */
        const char *pipe;   /* directory below the MPS root, to mount at /mps/<daemon>/pipe */
        const char *shm;    /* directory below the MPS root, to mount at /dev/shm */
};

/* |err| is NULL on success, and |claimed| has one entry for each device; borrowed during the call. */
typedef void ledger_claimed_fn(const struct error *err, const struct ledger_claimed *claimed, void *data);

/*
 * Copies |claim|, which replaces what the same claim asked for before. |done| is called once, perhaps before this
 * returns, unless ledger_unclaim() or ledger_close() comes first. ERROR_EXHAUSTED: it does not fit beside other claims.
 * ERROR_UNAVAILABLE, ERROR_TIMEOUT: the text says what it waited for.
 */
void ledger_claim(struct ledger *ledger, const struct ledger_claim *claim, ledger_claimed_fn *done, void *data);

/*
 * Whether |claim| fits beside all others, but for those of which |is_over| is true (NULL: of none). ERROR_EXHAUSTED
 * says what is in its way.
 */
typedef bool ledger_claim_over_fn(const char *uid, void *data);
int ledger_claim_fits(const struct ledger *ledger, const struct ledger_claim *claim, ledger_claim_over_fn *is_over,
        void *data, struct error *err) MUST_USE;

/* The claim, if it is known, holds nothing any more. */
void ledger_unclaim(struct ledger *ledger, const char *uid);

/*
 * Exactly these claims are held from now on; those that wait are forgotten. To be called before the first plan that has
 * claimable units.
 */
void ledger_keep_claims(struct ledger *ledger, const struct ledger_claim *claims, size_t n_claims);

/* All pods that use the claim, if it is known. */
void ledger_set_claim_pods(struct ledger *ledger, const char *uid, const struct ledger_claim_pod *pods, size_t n_pods);

/* A claim, and whether it has what it asked for. */
struct ledger_claim_state {
        const struct ledger_claim *claim;
        bool is_held;
        bool is_refused; /* it does not fit beside the others: it holds nothing */
};

/* From the oldest to the newest, in |arena|. Valid until the caller returns to the loop. */
size_t ledger_claims(const struct ledger *ledger, struct arena *arena, const struct ledger_claim_state **ret);
