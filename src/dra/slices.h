/*
 * The layout as ResourceSlices: JSON for each version of the API, and what an answer of the API server says of them. Pure.
 *
 * A pool is all slices of one node, named after it. Their order is that of their names, "00000-<driver>-<node>-<hash>" and so on, since the
 * scheduler reads them by name; inside, that of the layout. A slice holds 8 counter sets at most, and 64 devices, or 128 where none of
 * them consumes counters or could be tainted.
 *
 *   from 1.35 on   slices with counter sets, then slices with devices
 *   before         both in one slice, since its devices consume from its own sets only, which have 32 counters together: a few GPUs a
 *                  slice, by number. So devices pack within a slice only
 */
#pragma once

#include <jansson.h>

#include "dra/layout.h"

#define DRA_DRIVER "gpu.warpshare.dev"
#define DRA_SLICE_SETS ((size_t)8)
#define DRA_SLICE_COUNTERS ((size_t)32) /* of all sets of a slice, before 1.35 */
#define DRA_SLICE_DEVICES ((size_t)128)
#define DRA_SLICE_RICH_DEVICES ((size_t)64) /* with counters or taints */

#define DRA_API_GROUP "/apis/resource.k8s.io"

enum dra_api { DRA_API_V1, DRA_API_V1BETA2, DRA_API_V1BETA1 };

/* "v1", "v1beta2", "v1beta1". */
const char *dra_api_name(enum dra_api api);

/* The newest of them that is in |group|, the answer to DRA_API_GROUP; false: none is. */
bool dra_api_of(enum dra_api *ret, const json_t *group);

/* "/apis/resource.k8s.io/v1/resourceslices", for the caller to free. */
char *dra_api_slices(enum dra_api api);

enum dra_effect { DRA_EFFECT_NONE, DRA_EFFECT_NO_SCHEDULE, DRA_EFFECT_NO_EXECUTE };

/* Of a GPU and of all that is on it, or of a MIG device. */
struct dra_taint {
        const char *uuid;
        const char *key;   /* "gpu.warpshare.dev/xid" */
        const char *value; /* "79"; "" for none */
        enum dra_effect effect;
};

struct dra_slices_options {
        const char *driver; /* DRA_DRIVER */
        const char *node;
        enum dra_api api;
        bool counters_apart; /* 1.35 and later */
        bool has_taints;     /* else devices that nobody may be given are left out */
        const struct dra_taint *taints;
        size_t n_taints;
};

/*
 * [{"name": …, "spec": …}] in the order in which they are to be made. pool.generation is 0: who writes them knows it. A layout without
 * devices has no slices.
 */
json_t *dra_slices_build(const struct dra_layout *layout, const struct dra_slices_options *options);

/*
 * A slice that nobody would be given anything of, with a field of each feature: for a dry run, in form of {"name": …, "spec": …}.
 */
json_t *dra_slices_probe(const struct dra_slices_options *options);

/* Takes from |features| what the server dropped of |spec| when it answered |answered|. */
void dra_slices_dropped(struct dra_features *features, const json_t *spec, const json_t *answered);

/*
 * |there| says what |wanted| says: quantities by value ("80Gi" is "81920Mi"), taints without the time that the server adds, and whatever the
 * pool's generation is.
 */
bool dra_slices_are_same(const json_t *wanted, const json_t *there);
