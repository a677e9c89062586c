/*
 * Which ResourceClaims the containers of a pod use, as the API server has the pod. Pure.
 *
 *   spec.resourceClaims               name "gpu", resourceClaimName "train"; or a template, whose claim stands in
 *   status.resourceClaimStatuses      name "gpu", resourceClaimName "pod-1-gpu-x7k2p"
 *   status.extendedResourceClaimStatus   resourceClaimName, for the containers in requestMappings
 *   spec.containers, initContainers   resources.claims: name "gpu"
 *
 * A process can use one MPS daemon, and has one limit of each kind. So a container with shares of two claims has those of one of them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "ledger/claims.h"

/* Other claims than |uid| that have a share by MPS, and that the pod uses as well, as far as their pods are known. */
bool dra_claim_is_beside(const struct ledger_claim *other, const char *uid, const char *pod_uid);

/*
 * The first entry of status.reservedFor of |claim|, from |*position| on, that is a pod which also uses another claim with a share by MPS;
 * |*position| is the one after it. NULL: no further one.
 */
const json_t *dra_pod_with_others(const json_t *claim, const char *uid, const struct ledger_claim_state *states,
        size_t n_states, size_t *position);

/* The first container that uses both claims; borrowed from |pod|. NULL: none does. */
const char *dra_pod_container_of_both(const json_t *pod, const char *claim, const char *other);
