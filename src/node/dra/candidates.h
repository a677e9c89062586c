/* The units of a node while its layout is built, and the MIG candidates among them; private to node/dra/layout.c. */
#pragma once

#include "node/dra/layout.h"

/* A GPU, a MIG device that exists, or a candidate; each is offered in one or several forms. */
struct dra_unit {
        const struct gpu *gpu;
        size_t position;
        const struct mig_device *mig;
        const struct mig_instance_profile *profile;
        unsigned int start;
        const char *made;  /* of a candidate: the MIG device that is made of it */
        unsigned int rank; /* of a candidate among the starts of its profile */
        const char *name;  /* of the unit as a whole: "gpu-0" */
        uint64_t total_mib;
        struct mig_attributes attributes; /* of MIG devices and candidates */
        const struct dra_counter_set *set;
        const struct dra_counter *consumes; /* counters of |set|; set if the unit needs them */
        size_t n_consumes;
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
 * Adds all candidates that |geometry| allows on |gpu|, with names that begin with |gpu_name|, and to the empty
 * |counters| the totals of the GPU: never more than 23.
 */
void dra_candidates(struct dra_units *units, struct dra_counters *counters, const struct dra_mig_gpu *geometry,
        const struct gpu *gpu, size_t position, const char *gpu_name);
