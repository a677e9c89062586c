/*
 * The agent as a command, under whatever name.
 */
#pragma once

#include "cli/command_line.h"

#define AGENT_COMMAND_PRECEDENCE "Precedence: command line, environment, file, default.\n\n"
extern const char agent_command_more_help[];

/* Its exit status. */
int agent_command_run(const struct command_line *line, int argc, char **argv);
