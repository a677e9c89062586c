/*
 * Removes what MPS left on a node: daemons of an ended supervisor, compute modes, memory limits of containers, files
 * and folders below the MPS root, and shared memory. A supervisor without wanted daemons does this for daemons and
 * modes: it adopts what is on record, or runs and is not, then closes. May be run again.
 */
#pragma once

#include "base/error.h"
#include "cmd/cli/removal.h"

/* The name of the daemons in the list of removals. */
#define MPS_REMOVAL_DAEMONS "MPS daemons"
/* The name of the memory limits in that list. */
#define MPS_REMOVAL_LIMITS "memory limits of containers"

struct mps_removal_options {
        const char *root; /* the MPS directory as mounted here */
        const char *control;
        const char *driver_root;
        const char *nvml_library;
};

#define MPS_REMOVAL_BUSY 1    /* a supervisor runs with that root: nothing was checked */
#define MPS_REMOVAL_NOTHING 2 /* the directory does not exist */

/* Fills |removals|; in a dry run nothing is changed. Files that MPS did not create stay, and are not listed. */
int mps_removal_run(struct removals *removals, const struct mps_removal_options *options, struct error *err) MUST_USE;
