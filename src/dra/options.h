/*
 * What the configuration says of DRA, as the layout takes it. Pure.
 */
#pragma once

#include "dra/layout.h"

/* An instance that Prepare makes or has made of a candidate. */
struct dra_made {
        const char *gpu; /* UUID */
        unsigned int profile_id;
        unsigned int start;
        const char *uuid; /* of its MIG device; NULL: it is being made, and may be there or not */
};

/*
 * With all features. Lists are in |arena| and borrow from the inventory and from |made|; where DRA is off, the one of GPUs is empty. An
 * instance is ours where |made| has its placement, and, if that is known, its MIG device.
 */
struct dra_options dra_options_from(const struct config *config, const struct inventory *inventory,
        const struct dra_made *made, size_t n_made, struct arena *arena);
