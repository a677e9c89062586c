/*
 * The agent's copy of the ResourceSlices that are on the API server, from its answers and the watch. While it is not
 * used it is kept as JSON text, a tenth of the size of the parsed objects: 250 KiB for a GPU in MIG mode, whose slices
 * have each MIG device that could be made.
 */
#pragma once

#include <jansson.h>

#include "net/kube/watch.h"

struct dra_there {
        json_t *slices; /* NULL: see |text| */
        char *text;
};

/* {name: ResourceSlice}, to be read and changed until the next dra_there_rest(). Of a zeroed struct it is empty. */
json_t *dra_there_slices(struct dra_there *there);

enum dra_there_news {
        DRA_THERE_SAME, /* spec and owners are as known; or it is older than an answer to a write of the agent */
        DRA_THERE_CHANGED,
        DRA_THERE_GONE,
};

/* Takes what the watch reports. */
enum dra_there_news dra_there_follow(struct dra_there *there, enum kube_change what, json_t *object);

/* To be called when they were looked at and are as they should be. */
void dra_there_rest(struct dra_there *there);
void dra_there_clear(struct dra_there *there);
