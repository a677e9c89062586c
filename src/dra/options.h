/* Makes the options of the layout from the configuration. Pure. */
#pragma once

#include "dra/layout.h"

/*
 * With all features, and without a geometry of MIG that may change. The list of GPUs is in |arena| and borrows from the inventory; where DRA is
 * off, it has none.
 */
struct dra_options dra_options_from(
        const struct config *config, const struct inventory *inventory, struct arena *arena);
