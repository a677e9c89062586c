// SPDX-License-Identifier: Apache-2.0
/*
 * Containers that hold devices of several resources and do not get all of them (plan/several.h): looked for in
 * kubelet's record when something was allocated, and reported once each, in the log and as an event of the pod.
 * kubelet's list is asked for the pod's name.
 */
#pragma once

#include "node/ledger/core.h"

struct several {
        struct ledger_core *core;
        uv_timer_t timer;    /* from an allocation to the look at its container */
        struct map reported; /* "<pod UID>\n<container>" */
        struct arena arena;
};

void several_init(struct several *several, struct ledger_core *core);
void several_close(struct several *several, struct closing *closing);

/* Something was allocated: checks in 1.5 s. Each container is reported once until several_forget(). */
void several_check_soon(struct several *several);
void several_forget(struct several *several);
