/*
 * How compute instances are divided among GPU instances of one profile. Pure.
 *
 * "1c.3g.20gb: 2" and "2c.3g.20gb: 1" are three MIG devices. The first two and the third do not fit into one GPU
 * instance of three slices, so they take two: one of 2 and 1 slices, and one of 1 slice. A whole device, "3g.20gb", is
 * not looked at here: it has a GPU instance of its own.
 *
 * The driver decides where a compute instance is in its GPU instance. The largest are made first, which leaves the
 * others their places; where the driver finds none all the same, it refuses the last, and the change is taken back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
