/* The commands of kubectl-warpshare, each in a file of this folder. */
#pragma once

#include "cmd/cli/command.h"

extern const struct command kubectl_doctor;
extern const struct command kubectl_nodes;
extern const struct command kubectl_shares;
extern const struct command kubectl_top;
extern const struct command kubectl_why;
