/* The agent as a process, from the parsed command line to the exit status. */
#pragma once

#include "base/io/keeper.h"
#include "config/option.h"

/* Sets up the log; to be called before the first line is logged. */
void agent_setup_log(const struct option_set *options);

/* |crashes|: how often an agent in this container has crashed, and how. */
int agent_run(const struct option_set *options, const struct keeper_crashes *crashes);
