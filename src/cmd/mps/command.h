// SPDX-License-Identifier: Apache-2.0
/* The commands below `warpshare mps` that have a file each. */
#pragma once

#include "cmd/cli/command.h"

#define STANDALONE_ROOT "/run/nvidia/mps" /* of a machine itself, unless --mps-directory names another */

/*
 * The MPS root as this process sees it: |directory|, which is mounted in containers; where that is not there, as on the
 * host itself, |mps_root| below |system_root|, or STANDALONE_ROOT if |directory| is the default. "" is a valid
 * |mps_root|. |directory| if none of them is there. The caller frees.
 */
char *mps_find_root(const char *directory, const char *mps_root, const char *system_root);

extern const struct command mps_command_ping;
extern const struct command mps_command_status;
extern const struct command mps_command_uninstall;
extern const struct command mps_command_drop_in_mount_shm; /* of mps-control-daemon */
