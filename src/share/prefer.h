/*
 * GetPreferredAllocation: which of the available devices a container should get. Pure, and linear in the devices named, but
 * for a logarithm of the units.
 *
 * Shared units: packed fills the fullest unit first, distributed the emptiest; a unit's fill counts every replica that is not
 * available, and what this request already took breaks ties, as in NVIDIA's k8s-device-plugin; then the position of the unit.
 * Whole units: the set with the best links (share/prefer_links.h), found exhaustively among up to 16 units and grown from each
 * of the first 64 among more; a single one is taken where it leaves the best links. Ids that the resource does not have are
 * ignored.
 */
#pragma once

#include "share/plan.h"

struct prefer_request {
        const char *const *available;
        size_t n_available;
        const char *const *required; /* must be in the answer */
        size_t n_required;
        size_t size; /* of the answer, required ones included */
};

/* *ret_ids has room for request->size ids; they point into the plan. ERROR_INVALID if the request cannot be met. */
int prefer(const struct resource *resource, enum placement policy, const struct prefer_request *request,
        struct arena *scratch, const char **ret_ids, size_t *ret_n_ids, struct error *err) MUST_USE;
