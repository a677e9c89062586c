/*
 * The agent's copy of the ResourceSlices that are on the API server, from its answers and the watch. While it is not
 * used it is kept as JSON text, a tenth of the size of the parsed objects: 250 KiB for a GPU in MIG mode, whose slices
 * have each MIG device that could be made.
 */
#pragma once

#include <jansson.h>

#include "net/kube/watch.h"

struct slice_cache {
        json_t *slices; /* NULL: see |text| */
        char *text;
};

/*
 * {name: ResourceSlice}, to be read and changed until the next slice_cache_compact(). Of a zeroed struct it is empty.
 */
json_t *slice_cache_slices(struct slice_cache *cache);

enum slice_cache_news {
        SLICE_CACHE_SAME, /* spec and owners are as known; or it is older than an answer to a write of the agent */
        SLICE_CACHE_CHANGED,
        SLICE_CACHE_GONE,
};

/* Takes what the watch reports. */
enum slice_cache_news slice_cache_follow(struct slice_cache *cache, enum kube_change what, json_t *object);

/* To be called when the slices were compared and match. */
void slice_cache_compact(struct slice_cache *cache);
void slice_cache_clear(struct slice_cache *cache);
