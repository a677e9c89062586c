// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of plan_build(), in their order, and their shared declarations. Private to plan/plan*.c.
 *
 *         plan_units.c    what there is to share, and under which names before any renaming; and what DRA claims can have
 *         plan_claims.c   which entry of the configuration shares which unit, and whether a unit has as much as its
 *                         replicas need
 *         plan.c          units to resources, resources to devices
 */
#pragma once

#include "plan/plan.h"

#define PLAN_GPU_RESOURCE "nvidia.com/gpu"
#define PLAN_MIG_RESOURCE "nvidia.com/mig-" /* before the profile */

struct plan_builder {
        struct arena *arena;
        const struct config *config;
        const struct inventory *inventory;
        config_warn_fn *warn;
        void *warn_data;
        struct error *err;
        struct unit *units; /* of the node, by position of the GPU, then by MIG index */
        size_t n_units;
        size_t n_for_dra; /* GPUs */
};

void plan_warn(const struct plan_builder *builder, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Patterns of the configuration: '*' matches any run of characters, everything else matches itself; the whole text must
 * match. Linear in |text| for each '*'.
 */
bool plan_pattern_matches(const char *pattern, const char *text);

/* Finds the units, under their base names; none of them is shared yet. */
int plan_find_units(struct plan_builder *builder) MUST_USE;

/*
 * The units that DRA claims can have: all GPUs that belong to DRA, or their MIG devices. In |arena|, borrowing from
 * config and inventory; NULL: DRA is off, and no claim has anything any more.
 *
 * They are one resource under MPS, named after the DRA driver, so that daemons, tiers and budgets are computed for them
 * as for any other. It has no devices: kubelet counts none, and the scheduler accounts memory and threads by itself.
 * Each unit has a daemon of its own, or all GPUs have one (dra.daemonScope), that lets a client have all of the unit; a
 * claim's limits are its container's.
 */
const struct resource *plan_claimable(
        struct arena *arena, const struct config *config, const struct inventory *inventory);

/* Sets |shared| and |replicas| of the units that an entry of the configuration selects. */
int plan_claim_units(const struct plan_builder *builder) MUST_USE;

/* Checks that every replica gets a useful part of its unit. */
int plan_check_shares(const struct plan_builder *builder) MUST_USE;

/* "config '/config.yaml' line 12: sharing.mps.resources[0]", in the arena: errors and warnings append ".key: …". */
const char *plan_entry_place(const struct plan_builder *builder, const struct shared_resource *entry);

/* "GPU 0 (GPU-…)" or "MIG device 0:1 (MIG-…)", in the arena. */
const char *plan_unit_text(const struct plan_builder *builder, const struct unit *unit);
