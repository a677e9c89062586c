/*
 * The agent as a process, from a command line that was understood to the exit status.
 */
#pragma once

#include "base/log.h"
#include "config/option.h"

/* The form of log lines where neither command line nor environment names one. */
int agent_run(const struct option_set *options, enum log_format log_format);
