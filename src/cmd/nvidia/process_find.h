// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the process that must be signalled after a new configuration: by its first argument, as NVIDIA's config manager
 * does, in all of /proc, which shows the pod (shareProcessNamespace) or the host (hostPID).
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

enum { PROCESS_FIND_NONE = 1 };

/*
 * The best match among the processes below <root>/proc whose argv[0] is |name| or has the same base name
 * ("/usr/bin/mps-control-daemon" and "mps-control-daemon" match). A process of our own pod is better than one of
 * another pod, as far as cgroups show; then one with exactly that name; then the one with the lowest PID. Never this
 * process itself. A process that ends meanwhile is skipped, and so is one that lets its reader wait (a tenant can do
 * that), with all processes of its pod, or of its user where it has no pod. PROCESS_FIND_NONE: no match. |root| is ""
 * or a folder that a test provides; it has our own cgroup at proc/self, too.
 */
int process_find(pid_t *ret, const char *root, const char *name, struct error *err) MUST_USE;
