/*
 * The Prometheus metrics of the DRA driver (agent/metrics.h): offered devices, kubelet's requests, and what each claim
 * holds. Pure.
 */
#pragma once

#include "node/dra/driver.h"
#include "node/ledger/claims.h"
#include "net/metrics/exposition.h"

void dra_metrics_put(struct exposition *to, const struct dra_measures *dra, const struct ledger_claim_state *claims,
        size_t n_claims);
