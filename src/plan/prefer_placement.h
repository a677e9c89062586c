/*
 * Chooses the replicas of a request: the placement policies for shared units and MIG devices, used by plan/prefer.h.
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

struct prefer_placement {
        const struct resource *resource;
        const bool *is_candidate; /* by position of the device */
        const uint32_t *required; /* units of the devices that are in the answer already, one per device */
        size_t n_required;
};

/* Appends |needed| ids to |ids|; there are that many candidates. O(devices + needed · log pools). */
void prefer_placement(const struct prefer_placement *placement, struct arena *scratch, size_t needed, const char **ids);
