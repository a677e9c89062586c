/*
 * The agent as a process, from a command line that was understood to the exit status.
 */
#pragma once

#include "cli/keeper.h"
#include "config/option.h"

/* Before the first line. */
void agent_setup_log(const struct option_set *options);

/* |crashes|: what has become of the agents before it in this container. */
int agent_run(const struct option_set *options, const struct keeper_crashes *crashes);
