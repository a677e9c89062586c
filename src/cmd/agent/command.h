/* The agent as a command, under either name. */
#pragma once

#include "cmd/cli/command_line.h"

#define AGENT_COMMAND_PRECEDENCE "Precedence: command line, environment, file, default.\n\n"
extern const char agent_command_more_help[];

/* Returns the exit status. */
int agent_command_run(const struct command_line *line, int argc, char **argv);
