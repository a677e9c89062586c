/* The commands below `warpshare mps` that have a file each. argv[0] is the word of the command. */
#pragma once

#include "cmd/cli/command_line.h"

int mps_command_ping(int argc, char **argv);
int mps_command_status(int argc, char **argv);
int mps_command_uninstall(int argc, char **argv);

extern const struct command_line mps_command_ping_line;
extern const struct command_line mps_command_status_line;
extern const struct command_line mps_command_uninstall_line;
