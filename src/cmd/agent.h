/*
 * The agent as a process, from a command line that was understood to the exit status.
 */
#pragma once

#include "config/option.h"

int agent_run(const struct option_set *options);
