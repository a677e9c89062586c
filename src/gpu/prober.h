// SPDX-License-Identifier: Apache-2.0
/*
 * Probes GPUs that are unhealthy, or of which an event says that they may be: a GPU and its MIG devices are asked
 * together, in a process (gpu/look.h), and what it found changes their health.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/hearing.h"
#include "gpu/known.h"
#include "gpu/look.h"

struct prober {
        struct gpu_known *known;
        struct hearing *hearing; /* a GPU whose events cannot arrive is not healthy */
        struct list list;
};

void prober_init(struct prober *prober, struct gpu_known *known, struct hearing *hearing);
void prober_begin_due(struct prober *prober, uint64_t now_ms);
uint64_t prober_due_ms(const struct prober *prober); /* HEALTH_NEVER: nothing is */
/* Applies the findings of a reading of the inventory: failures count, and good probes count at their own times. */
void prober_apply(struct prober *prober, const struct look_finding *findings, size_t n_findings);
void prober_cancel(struct prober *prober);
