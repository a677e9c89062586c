/*
 * The ResourceSlices that the API server has, as its answers and its watch have brought them. While nobody looks at
 * them they are one text, a tenth as large as the tree: a GPU in MIG mode, with each of its possible devices, has
 * 250 KiB of it.
 */
#pragma once

#include <jansson.h>

struct dra_there {
        json_t *slices; /* NULL: see |text| */
        char *text;
};

/* {name: ResourceSlice}, to be read and changed until the next dra_there_rest(). Of a zeroed struct it is empty. */
json_t *dra_there_slices(struct dra_there *there);

/* To be called when they were looked at and are as they should be. */
void dra_there_rest(struct dra_there *there);
void dra_there_clear(struct dra_there *there);
