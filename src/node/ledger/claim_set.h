// SPDX-License-Identifier: Apache-2.0
/*
 * The DRA claims of the ledger: the inside of node/ledger/claims.h, which explains them. A claim waits for MPS daemons:
 * the caller that changes the claims updates the wanted daemons and calls claim_set_advance().
 */
#pragma once

#include "node/ledger/claims.h"
#include "node/ledger/core.h"

struct claim_set {
        const struct ledger_core *core;
        struct list claims; /* from the oldest to the newest */
        bool is_known;      /* claim_set_keep() was called */
        uv_timer_t timer;   /* runs while a claim waits */
};

void claim_set_init(struct claim_set *set, const struct ledger_core *core);
void claim_set_close(struct claim_set *set, struct closing *closing);
/* Drops all claims: those that wait are not answered, and what was made for the claims stays. */
void claim_set_forget(struct claim_set *set);

/* Answers the claims whose daemons are ready, or whose wait has timed out. */
void claim_set_advance(struct claim_set *set);

/* Implement the functions of claims.h. True: the wanted daemons may have changed. */
bool claim_set_add(struct claim_set *set, const struct ledger_claim *claim, ledger_claimed_fn *done, void *data);
bool claim_set_remove(struct claim_set *set, const char *uid);
void claim_set_keep(struct claim_set *set, const struct ledger_claim *claims, size_t n_claims);
void claim_set_name_pods(struct claim_set *set, const char *uid, const struct ledger_claim_pod *pods, size_t n_pods);
int claim_set_check_fit(const struct claim_set *set, const struct ledger_claim *claim, ledger_claim_over_fn *is_over,
        void *data, struct error *err) MUST_USE;
size_t claim_set_all(const struct claim_set *set, struct arena *arena, const struct ledger_claim_state **ret);

/*
 * Adds what the supervisor has made for claims; false: this is not known yet. |ret| has room for
 * claim_set_count_devices() more.
 */
bool claim_set_add_made(
        const struct claim_set *set, struct arena *arena, struct mps_allocation_request *ret, size_t *count);
size_t claim_set_count_devices(const struct claim_set *set);
/* An MPS client is of a pod that no claim on its unit is known to be used by. */
bool claim_set_has_unknown_pods(const struct claim_set *set);

/*
 * ---- claim_daemons.c ----
 *
 * The MPS daemons of claims. Normally each unit has its own as long as a claim has a share of it. With one daemon for
 * all GPUs (dra.daemonScope: resource) that one runs as long as a claim has a share of any; MIG devices have their own
 * there, too.
 *
 * A daemon is not replaced below containers that use it. So a claim keeps the daemon that it was prepared with, even if
 * the configuration has changed since, and two that would serve the same GPU do not run at the same time: the new one
 * is wanted when the last claim with the other has ended, and so is one for all GPUs when the last claim without MPS
 * has.
 */

/* The name of the daemon that the share was prepared with, or would be now; NULL: claims cannot have the unit. */
const char *claim_daemon_name(
        const struct ledger_core *core, struct arena *arena, const struct ledger_claim_device *device);
/* The supervisor's report of that daemon, or NULL. */
const struct mps_daemon_status *claim_daemon_find(
        const struct ledger_core *core, const struct ledger_claim_device *device);

/* Adds the daemons that claims need. */
void claim_daemons_want(const struct claim_set *set, struct arena *arena, struct mps_wanted *wanted);

/*
 * All daemons that the claim needs are ready, and those that it excludes have ended; else an error says what is
 * missing.
 */
int claim_daemons_check(const struct claim_set *set, const struct ledger_claim *claim, struct error *err) MUST_USE;
