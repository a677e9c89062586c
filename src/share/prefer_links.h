/*
 * Which whole units belong together: the choice by links behind share/prefer.h.
 *
 * A pair scores what NVIDIA's go-gpuallocator gives it: 10 to 60 by how close the two are on the PCI tree, and 100 for each
 * NVLink between them. Of all sets of the wanted size, the one with the highest sum over its pairs is chosen; among equals, the
 * one that leaves the highest sum among those that stay; then the lowest positions.
 */
#pragma once

#include "base/alloc.h"
#include "share/plan.h"

/*
 * Appends |wanted| of the |n_candidates| units to |picked|, whose first |n_picked| are already decided. Candidates are
 * positions in resource->units, ascending, and none of them is among the picked; wanted ≤ n_candidates.
 */
void prefer_links(const struct resource *resource, struct arena *scratch, const uint32_t *candidates,
        size_t n_candidates, size_t wanted, uint32_t *picked, size_t n_picked);
