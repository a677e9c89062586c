/* The commands below `warpshare mps` that have a file each. */
#pragma once

#include "cmd/cli/command.h"

extern const struct command mps_command_ping;
extern const struct command mps_command_status;
extern const struct command mps_command_uninstall;
extern const struct command mps_command_drop_in_mount_shm; /* of mps-control-daemon */
