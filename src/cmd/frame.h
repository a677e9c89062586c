/* How each command is carried out: its line is read, its function called, and what failed is printed. */
#pragma once

#include "cmd/cli/command.h"

/* |argv| begins with the name of |command|, or the word that follows it. Returns the exit status. */
int command_run(const struct command *command, int argc, char **argv);
