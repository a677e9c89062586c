#include "mig/shape.h"

#include <string.h>

#include "base/macro.h"

void mig_shape_add(struct mig_shape *shape, unsigned int slices)
{
        size_t at = shape->n_computes;

        if (at == MIG_SHAPE_SLICES)
                return;
        for (; at > 0 && shape->computes[at - 1] < slices; at--)
                shape->computes[at] = shape->computes[at - 1];
        shape->computes[at] = slices;
        shape->n_computes++;
}

bool mig_shape_is_same(const struct mig_shape *a, const struct mig_shape *b)
{
        return a->n_computes == b->n_computes &&
               memcmp(a->computes, b->computes, a->n_computes * sizeof(*a->computes)) == 0;
}

bool mig_shape_take(struct mig_shape_counts *counts, const struct mig_shape *shape)
{
        struct mig_shape_counts left = *counts;

        for (size_t i = 0; i < shape->n_computes; i++) {
                if (shape->computes[i] > MIG_SHAPE_SLICES || left.of[shape->computes[i]] == 0)
                        return false;
                left.of[shape->computes[i]]--;
        }
        *counts = left;
        return true;
}

/* The largest that has room comes next, until none has. */
static struct mig_shape fill_one(struct mig_shape_counts *counts, unsigned int slices)
{
        struct mig_shape shape = {.n_computes = 0};
        unsigned int room = slices;

        for (unsigned int size = MIN(slices, MIG_SHAPE_SLICES); size > 0; size--)
                for (; counts->of[size] > 0 && size <= room && shape.n_computes < MIG_SHAPE_SLICES; room -= size) {
                        shape.computes[shape.n_computes++] = size;
                        counts->of[size]--;
                }
        return shape;
}

size_t mig_shape_pack(struct mig_shape *ret, size_t max, unsigned int slices, const struct mig_shape_counts *counts)
{
        struct mig_shape_counts left = *counts;
        size_t count = 0;

        for (;;) {
                struct mig_shape shape = fill_one(&left, slices);

                if (shape.n_computes == 0)
                        return count;
                if (ret && count < max)
                        ret[count] = shape;
                count++;
        }
}
