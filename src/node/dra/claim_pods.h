/*
 * Asks the API server which pods use the prepared claims, and gives the answers to the ledger: once when the driver has
 * begun, and again when a process belongs to no known pod of a claim.
 */
#pragma once

#include "node/dra/node.h"

/*
 * If dra_claim_pods_refresh() is called again and again, requests are sent after DRA_PODS_MS, then after twice that,
 * and so on up to DRA_PODS_MAX_MS: for a process that belongs to no claim it would be called for ever. The first
 * pause comes again when it was not called for DRA_PODS_QUIET_MS, since the last answer was enough then.
 */
#define DRA_PODS_MS UINT64_C(1000)
#define DRA_PODS_MAX_MS UINT64_C(60000)
#define DRA_PODS_QUIET_MS UINT64_C(5000)

struct dra_claim_pods;

/* |on_known| is called from the loop after each answer, when dra_claim_pods_is_asking() may have become false. */
struct dra_claim_pods *dra_claim_pods_new(const struct dra_node *node, void (*on_known)(void *data), void *data);

/* Cancels the requests. Accepts NULL, returns NULL. */
struct dra_claim_pods *dra_claim_pods_free(struct dra_claim_pods *pods);

/* Asks for the pods of each prepared claim, at once. */
void dra_claim_pods_ask(struct dra_claim_pods *pods);

void dra_claim_pods_refresh(struct dra_claim_pods *pods);
bool dra_claim_pods_is_asking(const struct dra_claim_pods *pods);
