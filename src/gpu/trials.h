/*
 * Asks again about what hung: reads one GPU, or the links between all GPUs, in a process for which no other request
 * waits. The driver as a whole is asked again by the next reading of the inventory.
 */
#pragma once

#include "gpu/known.h"

struct trials {
        struct gpu_known *known;
        struct list list;
};

void trials_init(struct trials *trials, struct gpu_known *known);
void trials_begin_due(struct trials *trials, uint64_t now_ms);
uint64_t trials_due_ms(const struct trials *trials); /* HEALTH_NEVER: nothing is */
void trials_cancel(struct trials *trials);
