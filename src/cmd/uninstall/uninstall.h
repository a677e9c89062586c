/*
 * The parts of `warpshare uninstall`. Each searches one place for what the agent left, removes it unless it is a dry
 * run, and adds the result to the list. All may be run again.
 */
#pragma once

#include "cli/removal.h"
#include "config/config.h"
#include "node/visit.h"

/* ---- files.c: on this machine ---- */

/* Our sockets in kubelet's directory. */
void uninstall_sockets(struct removals *removals, const char *kubelet_directory);

/*
 * CDI specifications. They stay while a container holds a device, since its runtime needs them to start it again, and
 * while NVIDIA's own plugin serves here, which has files of the same names; |is_forced|: they are removed anyway. The
 * holders come from kubelet, or, if it does not answer, from its own record, which may still contain pods that have
 * ended.
 */
void uninstall_cdi(
        struct removals *removals, const struct config *config, const char *kubelet_directory, bool is_forced);

/* ---- node.c: in the API ---- */

/* Our taint, condition and annotations of that node's object. Takes a minute at most. */
void uninstall_node(struct removals *removals, struct api_visit *visit, const char *node);
