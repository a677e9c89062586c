/*
 * What MPS leaves on a node, and its end: daemons that a supervisor left, compute modes, memory limits of containers, files and
 * folders below the MPS root, and its shared memory. Daemons and modes are a supervisor's work: one that wants nothing adopts what is on record, and closes. May
 * be run again.
 */
#pragma once

#include "base/error.h"
#include "cli/removal.h"

/* What becomes of the daemons stands in the list under this name. */
#define MPS_REMOVAL_DAEMONS "MPS daemons"
/* And of the memory limits that containers were given. */
#define MPS_REMOVAL_LIMITS "memory limits of containers"

struct mps_removal_options {
        const char *root; /* the MPS directory as mounted here */
        const char *control;
        const char *driver_root;
        const char *nvml_library;
};

#define MPS_REMOVAL_BUSY 1    /* a supervisor runs with that root: nothing was looked at */
#define MPS_REMOVAL_NOTHING 2 /* there is no such directory */

/* Fills |removals|, and changes nothing where that is a dry run. Files that nothing of MPS has made stay, and are not told. */
int mps_removal_run(struct removals *removals, const struct mps_removal_options *options, struct error *err) MUST_USE;
