// SPDX-License-Identifier: Apache-2.0
/* The units of a node while its layout is built, and the MIG candidates among them; private to node/dra/layout.c. */
#pragma once

#include "node/dra/layout.h"

/* A GPU, a MIG device that exists, or a candidate; each is offered in one or several forms. */
struct dra_unit {
        struct dra_device whole; /* without capacities: name, uuid, GPU, and what it consumes */
        unsigned int rank;       /* of a candidate among the starts of its profile */
        uint64_t total_mib;
        struct mig_attributes attributes; /* of MIG devices and candidates */
};

struct dra_units {
        struct arena *arena;
        struct dra_unit *items;
        size_t count;
        size_t room;
};

struct dra_unit *dra_units_add(struct dra_units *units, struct dra_unit unit);

/* "1g-10gb-no-me" of "1g.10gb-me"; in |arena|. */
const char *dra_profile_name(struct arena *arena, const char *profile);

struct dra_counters {
        struct dra_counter items[DRA_MAX_COUNTERS];
        size_t count;
};

/* A value of 0 adds no counter. False: |counters| is full. */
bool dra_counters_add(struct dra_counters *counters, const char *name, uint64_t value);
const struct dra_counter *dra_counters_keep(struct arena *arena, const struct dra_counters *counters);

/*
 * Whether Prepare has made the GPU instance at a place of |gpu|: by its placement, and, if that is known, its MIG
 * device. NULL: it has not.
 */
const struct dra_instance *dra_instance_placed(
        const struct dra_options *options, const struct gpu *gpu, const struct mig_placed *placed);

/*
 * Adds all candidates that |gpu| can have, with names that begin with |gpu_name|, and to the empty |counters| the
 * totals of the GPU: never more than 23.
 */
void dra_candidates(struct dra_units *units, struct dra_counters *counters, const struct dra_options *options,
        const struct gpu *gpu, const char *gpu_name);
