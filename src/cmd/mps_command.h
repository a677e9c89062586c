/*
 * The commands below `warpshare mps`. argv[0] is the word of the command.
 */
#pragma once

int mps_command_status(int argc, char **argv);
int mps_command_uninstall(int argc, char **argv);
/* Also `mps-control-daemon mount-shm`: |program| is what comes before the word. */
int mps_command_mount_shm(const char *program, int argc, char **argv);
