/* Makes the options of the layout from the configuration. Pure. */
#pragma once

#include "node/dra/layout.h"

/*
 * With all features. Lists are in |arena| and borrow from the inventory and from |instances|, which claims have; where
 * DRA is off, the one of GPUs is empty. An instance that is there is one of these if it has the placement, and, where
 * that is known, the MIG device.
 */
struct dra_options dra_options_from(const struct config *config, const struct inventory *inventory,
        const struct dra_instance *instances, size_t n_instances, struct arena *arena);
