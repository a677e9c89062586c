// SPDX-License-Identifier: Apache-2.0
/*
 * GetPreferredAllocation: which of the available devices a container should get. Pure. The time is linear in the number
 * of devices, and in the number of chosen devices times that of the units.
 *
 * Replicas and MIG devices go where the resource's placement says; a whole GPU among them is a unit with one replica.
 * If only whole GPUs are available and required, their links decide for any placement (plan/prefer_links.h), as in
 * NVIDIA's k8s-device-plugin. If all available devices are wanted, there is nothing to choose. kubelet lists ids in any
 * order; the answer depends on their set alone. Ids that the resource does not have are ignored.
 *
 * A pool is what a placement fills: a shared unit with its replicas, a whole GPU, or all MIG devices of one GPU that
 * are not shared. A pool counts as fuller the more of its devices are gone (not available, required, or taken by this
 * request). The number counts, not the fraction, as in NVIDIA's k8s-device-plugin. So if units have different numbers
 * of replicas, packed prefers the unit with the most gone, even if a smaller unit is nearer to being full, and
 * distributed the one with the fewest.
 *
 * Example: GPU-0 has 10 replicas of which 6 are gone, GPU-1 has 10 of which 2 are gone, and a container wants 4.
 * distributed takes all 4 of GPU-1, where 2, 3, 4, 5 are gone before each choice. packed and same-gpu take the 4 that
 * GPU-0 has left. distinct takes one in turn of each GPU: 2 and 2.
 *
 * distributed: the pool with the fewest gone, then the fewest taken by this request.
 * packed:      the pool with the most gone, then the fewest taken.
 * distinct:    the pool of which this request has the fewest, required ones included, then the one with the fewest
 *              gone.
 * same-gpu:    the whole request in one pool: the one with the fewest left that still fits it. Where none does, as few
 *              pools as possible: those that the required devices opened, then the largest; the last piece again where
 *              it fits tightest. That a request fits is plan/allocations.h's promise, not ours.
 * prefer-same-gpu: the same, without that promise.
 *
 * Ties: the pool whose GPU has the most gone (distributed, distinct: the least), summed over its pools of this
 * resource; this distinguishes MIG devices of different parents. Then the first in the plan. Within a pool: the plan's
 * order.
 */
#pragma once

#include "plan/plan.h"

struct prefer_request {
        const char *const *available;
        size_t n_available;
        const char *const *required; /* must be in the answer */
        size_t n_required;
        size_t size; /* size of the answer, including required ids */
};

/* *ret_ids has room for request->size ids; they point into the plan. ERROR_INVALID if the request cannot be met. */
int prefer(const struct resource *resource, const struct prefer_request *request, struct arena *scratch,
        const char **ret_ids, size_t *ret_n_ids, struct error *err) MUST_USE;
