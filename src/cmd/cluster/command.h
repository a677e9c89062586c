/* The commands of kubectl-warpshare, each in a file of this folder. */
#pragma once

#include "cmd/cli/command.h"

int kubectl_doctor(int argc, char **argv);
int kubectl_nodes(int argc, char **argv);
int kubectl_shares(int argc, char **argv);
int kubectl_top(int argc, char **argv);
int kubectl_why(int argc, char **argv);

extern const struct command_line kubectl_doctor_line;
extern const struct command_line kubectl_nodes_line;
extern const struct command_line kubectl_shares_line;
extern const struct command_line kubectl_top_line;
extern const struct command_line kubectl_why_line;
