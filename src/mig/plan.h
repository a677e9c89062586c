// SPDX-License-Identifier: Apache-2.0
/*
 * Plans what a MIG configuration changes on a node: which instances of each GPU stay, which go, and which are made
 * where. Pure.
 *
 * An instance stays if it is wanted with the compute instances that it has: one of all its slices, or those of devices
 * that share it (mig/geometry.h). As many stay as can (mig/geometry.h). While MIG is disabled, drivers before R550 list
 * no profiles; then what is made has no placement yet, and whether it fits shows when MIG is enabled. It knows nothing
 * of processes: who uses what goes is asked by mig/change.h.
 */
#pragma once

#include "mig/node.h"
#include "mig/geometry.h"

#define MIG_START_UNKNOWN (~0U)

struct mig_plan_made {
        const char *profile;
        unsigned int start;     /* or MIG_START_UNKNOWN */
        unsigned int size;      /* memory slices; 0: unknown */
        struct mig_shape shape; /* its compute instances; none: one of all its slices */
};

struct mig_plan_gpu {
        const struct mig_node_gpu *gpu;
        const struct mig_wanted *wanted;
        const char *problem; /* why it cannot have what is wanted, and what would fit; NULL: it can */
        bool changes;
        bool changes_mode; /* MIG mode, current or pending */
        bool needs_reset;  /* for that */
        const struct mig_gpu_instance **stays;
        size_t n_stays;
        const struct mig_gpu_instance **goes;
        size_t n_goes;
        struct mig_plan_made *made;
        size_t n_made;
};

struct mig_plan {
        const struct mig_plan_gpu
                *gpus; /* as in the node: those that are not named have all that they have in |stays| */
        size_t n_gpus;
        bool fits; /* no GPU has a problem */
        bool changes;
};

/* |wanted| has an item for each GPU of |node|. Both outlive |ret|, which is in |arena|. */
void mig_plan_build(
        struct mig_plan *ret, struct arena *arena, const struct mig_node *node, const struct mig_wanted *wanted);

/*
 * For the makers of plans. mig_plan_init() makes lists with room for all instances, and for |n_made| new ones.
 * mig_plan_keep_all() lets all instances stay. mig_plan_settle() sets whether the GPU changes, by what goes, is made
 * and is wanted.
 */
void mig_plan_init(struct mig_plan_gpu *ret, struct arena *arena, const struct mig_node_gpu *gpu,
        const struct mig_wanted *wanted, size_t n_made);
void mig_plan_keep_all(struct mig_plan_gpu *plan);
void mig_plan_settle(struct mig_plan_gpu *plan);

/* "3g.20gb", or "3g.20gb 2c 1c" with the compute instances of |shape|, in |arena|. */
const char *mig_plan_label(struct arena *arena, const char *profile, const struct mig_shape *shape);

/* The compute instances of |instance|; none if it has one of all its slices. */
struct mig_shape mig_plan_shape(const struct mig_gpu_instance *instance);

/*
 * Checks that the node has all of |gpus|, UUIDs separated by commas, and that the plan changes no other GPU. An index
 * means another GPU while one before it is missing: so a caller that has withdrawn GPUs changes these, or none.
 */
int mig_plan_check_only(const struct mig_plan *plan, const char *gpus, struct error *err) MUST_USE;

/* "GPU 0 (GPU-…): " and the first problem. |plan| does not fit. */
const char *mig_plan_reason(const struct mig_plan *plan, struct arena *arena);
