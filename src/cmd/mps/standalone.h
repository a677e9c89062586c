/*
 * `warpshare mps --standalone`: shares the GPUs of a machine without Kubernetes among programs that `warpshare run`
 * starts. The configuration is the usual one; without one every GPU and MIG device is shared, and a program may have as
 * much as is left.
 */
#pragma once

#include "cmd/mps/process.h"
#include "config/option.h"

#define STANDALONE_ROOT "/run/nvidia/mps" /* unless --mps-directory names another */

/* Sets what the command line leaves open as it is on a machine itself, outside of containers. */
void standalone_set_defaults(struct option_set *set);

/* As own_plan_run(). */
int standalone_run(const struct option_set *set, const struct mps_process_options *process, struct error *err) MUST_USE;
