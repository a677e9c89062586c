/*
 * The units that DRA claims can have: all GPUs that belong to DRA, or their MIG devices. Pure.
 *
 * They are one resource under MPS, named after the DRA driver, so that daemons, tiers and budgets are computed for them
 * as for any other. It has no devices: kubelet counts none, and the scheduler accounts memory and threads by itself.
 * Each unit has a daemon of its own, or all GPUs have one (dra.daemonScope), that lets a client have all of the unit; a
 * claim's limits are its container's.
 */
#pragma once

#include "plan/plan.h"

/* In |arena|, borrowing from config and inventory; NULL: DRA is off, and no claim has anything any more. */
const struct resource *claimable_units(
        struct arena *arena, const struct config *config, const struct inventory *inventory);
