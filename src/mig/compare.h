/*
 * Whether a GPU has what a configuration wants of it. Pure. Placements do not count, and a GPU that is not named has
 * what is wanted.
 */
#pragma once

#include "mig/node.h"
#include "mig/wanted.h"

/*
 * NULL: it has. Otherwise how it differs, in |arena|: "GPU 0 has 7 of 1g.5gb, wanted are 2". With |is_mode_only| the
 * mode counts alone. A mode that waits for a reset is not there yet.
 */
const char *mig_compare(
        struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted, bool is_mode_only);
