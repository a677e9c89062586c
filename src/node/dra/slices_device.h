/* One device of a ResourceSlice, or one counter set, as JSON; private to node/dra/slices.c. */
#pragma once

#include "node/dra/slices.h"

/*
 * JSON that is the same for many devices is made once, and stands in the tree several times: the parts of a GPU that
 * MIG can make are the same on each GPU of a model, and its attributes on each of its places. It must not be changed
 * after that.
 */
struct dra_slices_alike {
        const struct dra_device *device; /* the first that has it */
        json_t *json;
};

struct dra_slices_memory {
        struct dra_slices_alike *capacities;
        struct dra_slices_alike *counters;
        size_t n_capacities;
        size_t n_counters;
        struct dra_slices_alike attributes; /* of the newest device */
};

void dra_slices_memory_done(struct dra_slices_memory *memory);

/* The attributes that all devices of |gpu| have in common. */
json_t *dra_slices_attributes(const struct inventory *inventory, const struct gpu *gpu);
json_t *dra_slices_device(const struct dra_slices_options *options, struct dra_slices_memory *memory,
        const struct dra_device *device, json_t *of_gpu);
json_t *dra_slices_set(const struct dra_counter_set *set);

/* Whether a device is left out because it needs a taint and the API server has none: it must not be allocated. */
bool dra_slices_leaves_out(const struct dra_slices_options *options, const struct dra_device *device);
