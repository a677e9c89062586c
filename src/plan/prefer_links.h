// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses whole units by their links, for plan/prefer.h.
 *
 * A pair scores what NVIDIA's go-gpuallocator gives it: 10 to 60 by how close the two are on the PCI tree, and 100 for
 * each NVLink between them, up to 18. An unknown level scores 0. If the two ends disagree, the lower score counts: a
 * link that only one of them reports does not count, and does not fail the request. With NVSwitch a unit's active links
 * count for every peer (struct gpu_link), where NVIDIA counts none: that is the same for all pairs and changes no
 * choice, except that a GPU which has lost links comes last.
 *
 * Among up to 16 units, required ones included, the set is NVIDIA's: the best one of the partition of all of them that
 * has the highest score, so that what a request leaves is as good as it can be. Ties, which
 * NVIDIA's plugin leaves to chance: the set that breaks the fewest links to those that stay, then the one on the fewest
 * NUMA nodes, then the lowest positions. Among more than 16, a set is grown from each of the first 64, always by the
 * unit with the best links to it.
 *
 * One single unit: the one without which the others have the highest score; then the fewest NVLinks, then from the NUMA
 * node with the fewest units available, then the lowest position.
 */
#pragma once

#include "base/alloc.h"
#include "plan/plan.h"

/*
 * Appends |wanted| of the |n_candidates| units to |picked|, whose first |n_picked| are the required ones. Candidates
 * are positions in resource->units, ascending, and none of them is required; 1 ≤ wanted ≤ n_candidates.
 */
void prefer_links(const struct resource *resource, struct arena *scratch, const uint32_t *candidates,
        size_t n_candidates, size_t wanted, uint32_t *picked, size_t n_picked);
