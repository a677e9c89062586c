// SPDX-License-Identifier: Apache-2.0
/*
 * A supervisor that takes its daemons from the configuration and the GPUs of this node, instead of from the agent:
 * NVIDIA's mps-control-daemon, and `warpshare mps --standalone`. It follows the configuration file, SIGHUP and the
 * GPUs; a configuration that cannot be used leaves the daemons in force as they are.
 */
#pragma once

#include "base/log.h"
#include "cmd/mps/process.h"
#include "config/option.h"
#include "plan/mps_wanted.h"

struct own_plan_options {
        const struct option_set *options;
        const struct config_text *text;     /* the configuration where the options name no file; NULL: their defaults */
        struct mps_process_options process; /* root, programs, own signals and |data| are set here */
        bool writes_units;                  /* for `warpshare run`: cmd/run/shares.h */
};

/* Runs until a signal to stop, and returns the exit status; -1: it could not be started. */
int own_plan_run(const struct own_plan_options *options, struct error *err) MUST_USE;

/*
 * `warpshare mps --standalone`: shares the GPUs of a machine without Kubernetes among programs that `warpshare run`
 * starts. The configuration is the usual one; without one every GPU and MIG device is shared, and a program may have as
 * much as is left.
 */
/* Sets what the command line leaves open as it is on a machine itself, outside of containers. */
void standalone_set_defaults(struct option_set *set);

/* As own_plan_run(). */
int standalone_run(const struct option_set *set, const struct mps_process_options *process, struct error *err) MUST_USE;
