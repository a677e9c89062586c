/* A command that asks NVML, as a whole in a process of its own (gpu/apart.h). */
#pragma once

#include "cmd/cli/command.h"

/*
 * Runs it there with these arguments and returns its status, or |lost_status| where the driver or its library let it
 * not come to its end: then standard error says in which call.
 */
int command_run_apart(const struct command *command, int argc, char **argv, int lost_status);
