/*
 * Finds which ResourceClaims the containers of a pod use, from the pod in the API server. Pure.
 *
 *   spec.resourceClaims               name "gpu", resourceClaimName "train"; or a template, whose claim is in
 *   status.resourceClaimStatuses      name "gpu", resourceClaimName "pod-1-gpu-x7k2p"
 *   status.extendedResourceClaimStatus   resourceClaimName, for the containers in requestMappings
 *   spec.containers, initContainers   resources.claims: name "gpu", and perhaps request "main": only that request of
 *                                     the claim
 *
 * A process can use only one MPS daemon, and has only one limit of each kind. So a container with shares of two claims
 * would get those of only one of them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "node/dra/wanted.h"
#include "node/ledger/claims.h"

#define DRA_USES_MAX ((size_t)128)

/* The uses of a claim by the containers of its pods. */
struct dra_uses {
        struct dra_use all[DRA_USES_MAX];
        size_t count;
        bool is_whole; /* none is missing */
};

/* Adds those of the pod; texts are copied to |arena|. */
void dra_pod_add_uses(const json_t *pod, const char *claim, struct arena *arena, struct dra_uses *uses);

/* A claim, and its requests that have shares by MPS. */
struct dra_pod_claim {
        const char *name;
        const char *const *requests;
        size_t n_requests; /* 0: not known; any may be */
};

/*
 * Whether |other| is another claim than |uid|, has a share by MPS, and is used by the pod as well, as far as its pods
 * are known.
 */
bool dra_claim_is_beside(const struct ledger_claim *other, const char *uid, const char *pod_uid);

/*
 * The next pod of |claim|, from |*position| on, that also uses another claim with a share by MPS; |*position| becomes
 * the position after it. NULL: there is none.
 */
const struct ledger_claim_pod *dra_pod_with_others(
        const struct dra_claim *claim, const struct ledger_claim_state *states, size_t n_states, size_t *position);

/* The first container that uses shares by MPS of both claims; the name points into |pod|. NULL: none does. */
const char *dra_pod_container_of_both(
        const json_t *pod, const struct dra_pod_claim *claim, const struct dra_pod_claim *other);
