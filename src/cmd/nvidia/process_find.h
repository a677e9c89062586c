/*
 * Finds the process that is to be told of a new configuration: by its first argument, as NVIDIA's config manager does, in all of
 * /proc, which is that of the pod (shareProcessNamespace) or of the host (hostPID).
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

enum { PROCESS_FIND_NONE = 1 };

/*
 * Of the processes below <root>/proc whose argv[0] is |name|, or has its base name ("/usr/bin/mps-control-daemon" and
 * "mps-control-daemon" are the same), the best one: one of our own pod before one of another, as far as cgroups tell; then one that
 * has the very name; then the one with the least PID. Never ourselves. What ends while it is looked at does not count.
 * PROCESS_FIND_NONE: there is none. |root| is "" or a folder made up by a test; it has our own cgroup at proc/self, too.
 */
int process_find(pid_t *ret, const char *root, const char *name, struct error *err) MUST_USE;
