/*
 * The MPS daemons of claims. Normally each unit has its own as long as a claim has a share of it. With one daemon for
 * all GPUs (dra.daemonScope: resource) that one runs as long as a claim has a share of any; MIG devices have their own
 * there, too.
 *
 * A daemon is not replaced below containers that use it. So a claim keeps the daemon that it was prepared with, even if
 * the configuration has changed since, and two that would serve the same GPU do not run at the same time: the new one
 * is wanted when the last claim with the other has ended, and so is one for all GPUs when the last claim without MPS
 * has.
 */
#pragma once

#include "node/ledger/claim_set.h"

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
