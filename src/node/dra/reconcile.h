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

enum dra_step { DRA_STEP_NONE, DRA_STEP_DELETE, DRA_STEP_REPLACE, DRA_STEP_CREATE };

struct dra_action {
        enum dra_step step;
        const char *name; /* of the slice; points into |wanted| or |there| */
        json_t *spec;     /* wanted, borrowed; NULL for DELETE */
        json_int_t generation;
        size_t n_writes; /* until all is right, this one included, if nobody else writes */
};

struct dra_pool {
        const json_t *wanted; /* of dra_slices_build() */
        json_t *there;        /* {name: ResourceSlice} */
        const json_t *
                /* {name: {"sent": spec, "kept": spec}}: what the server has changed in a spec is no difference */
                accepted;
        const char *owner_uid; /* of the Node that owns the slices */
};

struct dra_action dra_reconcile(const struct dra_pool *pool);
