/*
 * GetPreferredAllocation: which of the available devices a container should get. Pure. The time is linear in the number
 * of devices, times a logarithm of the number of units.
 *
 * Replicas and MIG devices go where the resource's placement says (plan/prefer_placement.h); a whole GPU among them is
 * a unit with one replica. If only whole GPUs are available and required, their links decide for any placement
 * (plan/prefer_links.h), as in NVIDIA's k8s-device-plugin. If all available devices are wanted, there is nothing to
 * choose. kubelet lists ids in any order; the answer depends on their set alone. Ids that the resource does not have
 * are ignored.
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
