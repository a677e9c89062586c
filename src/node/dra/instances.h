/*
 * Makes and destroys the GPU instance of a MIG candidate, by NVML: each function blocks and may hang, so only a request
 * of gpu/nvml_pool.h calls it. What somebody else has made is never destroyed, nor used.
 *
 * Who makes one looks first, records that it is being made, makes it, and records its MIG device. So an instance at the
 * placement is ours if its MIG device is the recorded one, or if it was recorded as being made, since nobody was there
 * when the driver looked. One that is half made, by who was killed meanwhile, has no MIG device: it is destroyed and
 * made again.
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
 * ERROR_EXHAUSTED: nothing was made, and somebody else's is there.
 */
int dra_instance_look(
        const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err) MUST_USE;

/* Makes an instance that is MAKING; after an error it is NONE, or still MAKING where something may be left of it. */
int dra_instance_make(
        const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err) MUST_USE;

/*
 * One that is gone already, as with its GPU or by a reset, is a success; |uuid| is the MIG device that was destroyed,
 * NULL: none. ERROR_UNAVAILABLE: among others, a process uses it.
 */
int dra_instance_destroy(
        const struct nvml *nvml, struct dra_instance *instance, struct arena *arena, struct error *err) MUST_USE;
