// SPDX-License-Identifier: Apache-2.0
/*
 * The layout as ResourceSlices: JSON for each version of the API, and the comparison with the API server's answers.
 * Pure.
 *
 * All slices of one node are a pool. The scheduler reads slices in the order of their names,
 * so their names are "00000-<driver>-<node>-<hash>", "00001-…" and so on; the devices in a slice have the order of the
 * layout. A slice has at most 8 counter sets, and at most 64 devices, or 128 if none of them consumes counters or can
 * have a taint.
 *
 *   from 1.35 on   slices with counter sets, then slices with devices
 *   before         both in one slice, because its devices can only use counter sets of the same slice, with 32 counters
 *                  together. So a slice has a few GPUs, by number, and the order that packs applies within a slice only
 */
#pragma once

#include <jansson.h>

#include "node/dra/layout.h"
#include "plan/plan.h"

#define DRA_DRIVER "gpu.warpshare.dev"
#define DRA_SLICE_SETS ((size_t)8)
#define DRA_SLICE_COUNTERS ((size_t)32) /* of all sets in a slice, before 1.35 */
#define DRA_SLICE_DEVICES ((size_t)128)
#define DRA_SLICE_RICH_DEVICES ((size_t)64) /* with counters or taints */

#define DRA_API_GROUP "/apis/resource.k8s.io"

enum dra_api { DRA_API_V1, DRA_API_V1BETA2, DRA_API_V1BETA1 };

/* "v1", "v1beta2", "v1beta1". */
const char *dra_api_name(enum dra_api api);

/* The newest version that is in |group|, the answer to DRA_API_GROUP; false: none is. */
bool dra_api_of(enum dra_api *ret, const json_t *group);

/* "/apis/resource.k8s.io/v1/resourceslices", for the caller to free. */
char *dra_api_slices(enum dra_api api);

enum dra_effect { DRA_EFFECT_NONE, DRA_EFFECT_NO_SCHEDULE, DRA_EFFECT_NO_EXECUTE };

/* A taint of a GPU with all its devices, or of a MIG device. */
struct dra_taint {
        const char *uuid;
        const char *key;   /* "gpu.warpshare.dev/xid" */
        const char *value; /* "79"; "" for none */
        enum dra_effect effect;
};

/* At most so many bytes, in the API. */
#define DRA_POOL_MAX ((size_t)253)

/*
 * The name of a node's pool: "n1/gpu.warpshare.dev", since schedulers before 1.36.3 mix up the counters of two drivers
 * whose pools have one name, and others call theirs as the node. Where that is too long, it is the node's name. For the
 * caller to free.
 */
char *dra_pool_name(const char *driver, const char *node);

struct dra_slices_options {
        const char *driver; /* DRA_DRIVER */
        const char *node;
        const char *pool;
        enum dra_api api;
        bool counters_apart; /* 1.35 and later */
        bool has_taints;     /* else devices that must not be allocated are left out */
        const struct dra_taint *taints;
        size_t n_taints;
};

/*
 * [{"name": …, "spec": …}] in the order in which they are to be created. pool.generation is 0; node/dra/reconcile.h sets it.
 * A layout without devices has no slices.
 */
json_t *dra_slices_build(const struct dra_layout *layout, const struct dra_slices_options *options);

/* A slice for a dry run, with a field of each feature, as {"name": …, "spec": …}; no claim could get its device. */
json_t *dra_slices_probe(const struct dra_slices_options *options);

/*
 * Makes |object| a ResourceSlice to be sent: with that name and |spec|, owned by the Node of |owner_uid|. It may be
 * empty, or as the API server has it.
 */
void dra_slices_set_object(json_t *object, const struct dra_slices_options *options, const char *name,
        const char *owner_uid, json_t *spec);
