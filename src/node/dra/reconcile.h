// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the next step that makes the slices of a pool those that are wanted: one write at a time, after which it is
 * called again. Pure.
 *
 * The scheduler uses only the slices of a pool's highest generation, and only if there are as many as each of them
 * says. So a change of more than one slice gets the next generation, which the scheduler does not use until its last
 * slice is there: obsolete slices are deleted first, then the others replaced, then the missing ones created. The
 * change of a single slice keeps the generation. So does completing an incomplete one: a slice that was deleted, the
 * rest of a change that was interrupted.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "net/kube/watch.h"
#include "node/dra/layout.h"

enum dra_step { DRA_STEP_NONE, DRA_STEP_DELETE, DRA_STEP_REPLACE, DRA_STEP_CREATE };

struct dra_action {
        enum dra_step step;
        const char *name; /* of the slice; points into |wanted| or |there| */
        json_t *spec;     /* wanted, borrowed; NULL for DELETE */
        json_int_t generation;
        size_t n_writes; /* until the slices match, this one included, if other clients do not write */
};

struct dra_pool {
        const json_t *wanted; /* of dra_slices_build() */
        json_t *there;        /* {name: ResourceSlice} */
        const json_t *
                /* {name: {"sent": spec, "kept": spec}}: the server's own changes of a spec are not repaired */
                accepted;
        const char *owner_uid; /* of the Node that owns the slices */
};

struct dra_action dra_reconcile(const struct dra_pool *pool);

/* ---- the slices as the server has them ---- */

/* Clears in |features| those whose fields are in |spec| and that the server dropped: they are not in |answered|. */
void dra_slices_dropped(struct dra_features *features, const json_t *spec, const json_t *answered);

/*
 * Whether |there| is the same as |wanted|: quantities are compared by value ("80Gi" is "81920Mi"), taints without the
 * time that the server adds, and the pool's generation is ignored.
 */
bool dra_slices_are_same(const json_t *wanted, const json_t *there);

/*
 * The agent's copy of the ResourceSlices that are on the API server, from its answers and the watch. While it is not
 * used it is kept as JSON text, a tenth of the size of the parsed objects: 250 KiB for a GPU in MIG mode, whose slices
 * have each MIG device that could be made.
 */
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

/* ---- when it is repaired ---- */

/*
 * When slices that another client has deleted, changed or added are repaired: the first time at once, since kubelet
 * deletes them when it starts, and later with pauses between the repairs that grow, because another client may undo
 * them for ever and would make each node write as fast as it can. After a quiet time the next repair is the first
 * again. What the agent itself wants to be different never waits. The caller passes the time and the random number.
 *
 *   at rest ──dra_repair_next()──► writing ──dra_repair_rest()──► at rest
 *                                     └──more writes than are needed: another client undoes them──► at rest
 *
 * The helper of Kubernetes' own drivers waits 30 s before each repair, the first one too (DefaultSyncDelay in
 * k8s.io/dynamic-resource-allocation/resourceslice, 1.36).
 */
#define DRA_REPAIR_QUIET_MS UINT64_C(60000) /* after the last pause */

struct dra_repair_pace {
        struct backoff pauses; /* between the beginnings of two repairs; set by the user */
        uint64_t next_ms;      /* no repair begins before that */
        size_t n_writes;       /* that belong to what has begun, at most; 0: at rest */
};

/* Other slices are wanted: |n_writes| make them, and repair all other differences, too. */
void dra_repair_allow(struct dra_repair_pace *pace, size_t n_writes);

/*
 * How long the next write has to wait, in milliseconds; 0: not at all. If nothing is under way, a repair of at most
 * |n_writes| begins with it.
 */
uint64_t dra_repair_next(struct dra_repair_pace *pace, size_t n_writes, uint64_t now_ms, uint32_t random);

/* A write has been done. */
void dra_repair_written(struct dra_repair_pace *pace);

/* The slices match: later differences are by another client. */
void dra_repair_rest(struct dra_repair_pace *pace);
