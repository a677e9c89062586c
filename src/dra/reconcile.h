/*
 * What to do next so that the slices of a pool become those that are wanted: one step at a time, looked at anew after each. Pure.
 *
 * Consumers use the slices of a pool's highest generation, and those only when they are as many as each of them says. So a change of more
 * than one slice gets the next generation, of which nobody takes anything until its last slice is there; what is obsolete is deleted first,
 * then the others are replaced, then the missing ones made. The change of one slice in place keeps the generation, and so does what
 * completes one that is not complete: a slice that somebody deleted, the rest of a change that was interrupted.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

enum dra_step { DRA_STEP_NONE, DRA_STEP_DELETE, DRA_STEP_REPLACE, DRA_STEP_CREATE };

struct dra_action {
        enum dra_step step;
        const char *name; /* of the slice; borrowed from what was given */
        json_t *spec;     /* wanted, borrowed; NULL for DELETE */
        json_int_t generation;
};

struct dra_pool {
        const json_t *wanted; /* of dra_slices_build() */
        json_t *there;        /* {name: ResourceSlice} */
        const json_t *
                accepted; /* {name: {"sent": spec, "kept": spec}}: what the server makes of a spec is not written again */
        const char *owner_uid; /* of the Node that owns them */
};

struct dra_action dra_reconcile(const struct dra_pool *pool);
