/* What kubelet says when it refuses a pod, in its own words and those of device plugins. Pure. */
#pragma once

#include "base/alloc.h"

/*
 * What kubelet said when it refused a pod: what that means, and what to do. *ret_said is the part that is not always
 * the same.
 */
const char *why_refused(
        const char *reason, const char *message, struct arena *arena, const char **ret_todo, const char **ret_said);
