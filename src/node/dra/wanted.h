// SPDX-License-Identifier: Apache-2.0
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

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/dra/claim.h"
#include "node/ledger/claims.h"

/* ---- what containers use ---- */

/* The use of a claim by a container: these requests, or all (none is named). */
struct dra_use {
        const char *const *requests;
        size_t n_requests;
};

/*
 * The ResourceClaims that the containers of a pod use are found in the pod, as the API server has it:
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

/* ---- what a claim wants ---- */

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
 * Sets what each result of |claim| wants. ERROR_UNAVAILABLE: the layout does not have the device, or is not known yet.
 * ERROR_UNSUPPORTED: these rules do not allow it. ERROR_INVALID: no scheduler with this layout could have allocated the
 * claim.
 */
int dra_wanted_read(struct dra_claim *claim, const struct dra_wanted_rules *rules, struct error *err) MUST_USE;

/* ---- booking ---- */

/*
 * Makes the ledger's entry of a claim that wants something or is recorded: a device for each of its results, but only
 * one for all shares of a unit that the same containers use. What has admin access is not booked. Pure.
 *
 * A claim with 10 GiB and 30 % of GPU-A by request "a", 5 GiB and 20 % of GPU-A by request "b", and GPU-B as a whole: a
 * process has one limit of each kind on a GPU, so a container with the claim has 15 GiB and 50 % of GPU-A, in one
 * allocation:
 *
 *   result 0 ──┬──► c15eb…_0   GPU-A   15 GiB, 50 %
 *   result 1 ──┘
 *   result 2 ─────► c15eb…_2   GPU-B   alone
 *
 * In |arena|; borrows from |claim|, and has no pods.
 */
void dra_booking_make(struct ledger_claim *ret, struct arena *arena, const struct dra_claim *claim);

/*
 * "c15ebfed7…_0": of the claim and the position of the first result that is booked with result |i|, of the characters
 * of an allocation's id. NULL: it is not booked.
 */
const char *dra_booking_id(struct arena *arena, const struct dra_claim *claim, size_t i);

/* The device of that booking with this id; NULL: none, as |id| may be. */
struct ledger_claim_device *dra_booking_find(const struct ledger_claim *booking, const char *id);
