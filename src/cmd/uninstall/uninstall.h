// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of `warpshare uninstall`. Each searches one place for what the agent left, removes it unless it is a dry
 * run, and adds the result to the list. All may be run again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "mps/supervisor/supervisor.h"
#include "node/status/api.h"

/* ---- what was found, and whether it was removed (command.c) ---- */

enum removal_outcome {
        REMOVAL_DONE,   /* it was there, and is gone; where |is_dry|: it would be */
        REMOVAL_LEFT,   /* it is there, and stays, for a reason that is said */
        REMOVAL_ABSENT, /* it was not there */
        REMOVAL_UNSEEN, /* it was not looked for; the note says why */
};

struct removal {
        const char *what;  /* "CDI specification" */
        const char *where; /* a path, or the name of an object */
        enum removal_outcome outcome;
        const char *note; /* "" : nothing to add */
};

struct removals {
        bool is_dry; /* nothing is to be changed */
        struct arena arena;
        struct removal *rows;
        size_t n_rows;
};

/* Copies the strings; |note| is a format. */
void removals_add(struct removals *removals, enum removal_outcome outcome, const char *what, const char *where,
        const char *note, ...) PRINTF_LIKE(5, 6);

/*
 * Adds the outcome of an attempt to remove something: it is gone, or stays for the reason |err|, if that is not NULL.
 */
void removals_end(struct removals *removals, const char *what, const char *where, const struct error *err);

/* Removes the file at |path|, unless |left| says why it stays. */
void removals_unlink(struct removals *removals, const char *what, const char *path, const char *left);

size_t removals_count(const struct removals *removals, enum removal_outcome outcome);

/* ---- files.c: on this machine ---- */

/* Our sockets in kubelet's directory. */
void uninstall_sockets(struct removals *removals, const char *kubelet_directory);

/*
 * CDI specifications. They stay while a container holds a device or a claim is prepared, since its runtime needs them
 * to start it again, and while NVIDIA's own plugin serves here, which has files of the same names; |is_forced|: they go
 * all the same. kubelet is asked who holds what, or else its own record is read, which may still have pods that have
 * ended.
 */
void uninstall_cdi(
        struct removals *removals, const struct config *config, const char *kubelet_directory, bool is_forced);

/*
 * Where DRA is enabled: sockets of the driver, which stay where |agent| says that one runs (else NULL), and CDI
 * specifications of claims. These are there as long as a claim is prepared, so they stay unless |is_forced|, and the
 * record of what is prepared with them.
 */
void uninstall_dra(struct removals *removals, const struct config *config, const char *agent, bool is_forced);

/*
 * The records of the MIG manager and of `warpshare mig` in |folder|, and the folder, if nothing else is in it. An
 * unfinished change stays, unless |is_forced|. The geometry stays in any case.
 */
void uninstall_mig(struct removals *removals, const char *folder, bool is_forced);

/* ---- api.c ---- */

/* The label by which our MIG manager reports its state. It takes two minutes at most. */
void uninstall_mig_state(struct removals *removals, struct api_visit *visit, const char *node);

/* Our taint, condition and annotations of that node's object. Takes a minute at most. */
void uninstall_node(struct removals *removals, struct api_visit *visit, const char *node);

/* The driver's ResourceSlices of this node. It takes a minute at most for each. */
void uninstall_slices(struct removals *removals, struct api_visit *visit, const struct config *config);

/* ---- mps.c ---- */

/* The name of the daemons in the list of removals. */
#define MPS_REMOVAL_DAEMONS "MPS daemons"
/* The name of the memory limits in that list. */
#define MPS_REMOVAL_LIMITS "memory limits of containers"

#define MPS_REMOVAL_BUSY 1    /* a supervisor runs with that root: nothing was checked */
#define MPS_REMOVAL_NOTHING 2 /* the directory does not exist */

/*
 * Removes what MPS left on a node: daemons of an ended supervisor, compute modes, memory limits of containers, files
 * and folders below the MPS root, and shared memory. A supervisor without wanted daemons does this for daemons and
 * modes: it adopts what is on record, or runs and is not, then closes. May be run again.
 *
 * Fills |removals|. Of |options| the root, the control program, the driver root and the NVML library count. In a dry
 * run nothing is changed. Files that MPS did not create stay, and are not listed.
 */
int mps_removal_run(
        struct removals *removals, const struct mps_supervisor_options *options, struct error *err) MUST_USE;
