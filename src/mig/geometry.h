// SPDX-License-Identifier: Apache-2.0
/*
 * The geometry of one GPU: which of its GPU instances can stay and where the others are made, so that it has what is
 * wanted. Pure and exact: where any arrangement does it, one that keeps the most instances is found. An instance never
 * moves.
 *
 * Beside slices, instances share out the GPU's engines (decoders and the like; the media extension of "+me" is one).
 * NVML does not say how many of a kind a GPU has, only how many an instance of each profile has, and how many such
 * instances fit at most. So a GPU is taken to have as many as the greatest product of the two; where the driver has
 * fewer for a mixture, it refuses to create the last instance. Copy engines do not count: on Thor the full instance has
 * one, and so has each of two beside each other (MIG user guide).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEOMETRY_MAX_PROFILES ((size_t)64)
#define GEOMETRY_MAX_INSTANCES ((size_t)32)

enum { GEOMETRY_DECODERS, GEOMETRY_ENCODERS, GEOMETRY_JPEGS, GEOMETRY_OFAS, GEOMETRY_ENGINES };

struct geometry_profile {
        unsigned int slices;                    /* compute slices */
        unsigned int size;                      /* memory slices */
        unsigned int count;                     /* most that fit on an empty GPU */
        uint32_t starts;                        /* bit n: may begin at memory slice n */
        unsigned int engines[GEOMETRY_ENGINES]; /* of one instance */
};

struct geometry_gpu {
        const struct geometry_profile *profiles; /* at most GEOMETRY_MAX_PROFILES */
        size_t n_profiles;
        unsigned int slices; /* compute slices of the whole GPU */
};

struct geometry_instance {
        size_t profile; /* index */
        unsigned int start;
};

struct geometry_change {
        uint32_t stays; /* bit n: the n-th instance that is there; the others go */
        struct geometry_instance made[GEOMETRY_MAX_INSTANCES];
        size_t n_made;
};

/* How many of a kind of engine the GPU has, as said above; 0: instances have none. */
uint64_t geometry_engines(const struct geometry_gpu *gpu, size_t engine);

/*
 * |wanted| has a count for each profile; |present| has at most GEOMETRY_MAX_INSTANCES. False: it does not fit, even on
 * the empty GPU, and |ret| is as it was.
 */
bool geometry_search(struct geometry_change *ret, const struct geometry_gpu *gpu, const unsigned int *wanted,
        const struct geometry_instance *present, size_t n_present);

/* ---- how compute instances are divided among GPU instances of one profile ---- */

/*
 * "1c.3g.20gb: 2" and "2c.3g.20gb: 1" are three MIG devices. The first two and the third do not fit into one GPU
 * instance of three slices, so they take two: one of 2 and 1 slices, and one of 1 slice. A whole device, "3g.20gb", is
 * not looked at here: it has a GPU instance of its own.
 *
 * The driver decides where a compute instance is in its GPU instance. The largest are made first, which leaves the
 * others their places; where the driver finds none all the same, it refuses the last, and the change is taken back.
 */
#define MIG_SHAPE_SLICES 8U /* of the largest GPU instance */

struct mig_shape {
        unsigned int computes[MIG_SHAPE_SLICES]; /* slices of each compute instance, the largest first */
        size_t n_computes;
};

/* How many compute instances there are of each number of slices; that of 0 is not used. */
struct mig_shape_counts {
        unsigned int of[MIG_SHAPE_SLICES + 1];
};

/* Sorts it. */
void mig_shape_add(struct mig_shape *shape, unsigned int slices);
bool mig_shape_is_same(const struct mig_shape *a, const struct mig_shape *b);

/* Takes the shape's compute instances from |counts|; false: they are not all in it, and it stays as it is. */
bool mig_shape_take(struct mig_shape_counts *counts, const struct mig_shape *shape);

/*
 * The least number of GPU instances of |slices| that hold |counts|; |ret|, unless it is NULL, gets the first |max| of
 * these.
 */
size_t mig_shape_pack(struct mig_shape *ret, size_t max, unsigned int slices, const struct mig_shape_counts *counts);
