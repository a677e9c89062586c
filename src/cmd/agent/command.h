/* The agent as a command, under either name. */
#pragma once

#include "cmd/cli/command.h"

#define AGENT_COMMAND_PRECEDENCE "Precedence: command line, environment, file, default.\n\n"
extern const char agent_command_more_help[];

int agent_command_run(struct command_call *call, struct error *err);
