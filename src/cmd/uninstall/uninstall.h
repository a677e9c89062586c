/*
 * The parts of `warpshare uninstall`. Each searches one place for what the agent left, removes it unless it is a dry
 * run, and adds the result to the list. All may be run again.
 */
#pragma once

#include "cmd/cli/removal.h"
#include "config/config.h"
#include "node/status/api.h"

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
