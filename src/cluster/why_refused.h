/* Explains why kubelet refused a pod: its own messages and those of device plugins. Pure. */
#pragma once

#include "base/alloc.h"

/*
 * The meaning of kubelet's |reason| and |message|, and what to do. *ret_said is the part of the message that is not
 * always the same.
 */
const char *why_refused(
        const char *reason, const char *message, struct arena *arena, const char **ret_todo, const char **ret_said);
