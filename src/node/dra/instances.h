// SPDX-License-Identifier: Apache-2.0
/*
 * Makes and destroys the GPU instance of a MIG candidate, by NVML: each function blocks and may hang, so only a request
 * of gpu/nvml_pool.h calls it. Instances made by other programs are never destroyed, nor used.
 *
 * The caller looks first, records that the instance is being made, makes it, and records its MIG device. So an instance
 * at the placement is ours if its MIG device is the recorded one, or if it was recorded as being made, since the
 * placement was empty when the driver looked. An instance that was left half made, because the process was killed, has
 * no MIG device: it is destroyed and made again.
 *
 *             look             make
 *   NONE ───────────► MAKING ───────► MADE          destroy, from both: NONE
 *             (recorded)     │
 *        ◄───────────────────┘ refused by the driver
 */
#pragma once

#include "base/alloc.h"
#include "node/dra/layout.h"
#include "gpu/nvml.h"

/*
 * Finds out what became of an instance that may be there: MADE with |uuid|, which is in |arena|, or NONE.
 * ERROR_EXHAUSTED: nothing was made, because another program's instance is there.
 */
int dra_instance_look(
        const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err) MUST_USE;

/* Makes an instance that is MAKING; after an error it is NONE, or still MAKING where something may be left of it. */
int dra_instance_make(
        const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err) MUST_USE;

/*
 * Succeeds if the instance does not exist any more, for example after a reset; |uuid| is the MIG device that was
 * destroyed, or NULL. ERROR_UNAVAILABLE: for example, a process uses it.
 */
int dra_instance_destroy(
        const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err) MUST_USE;
