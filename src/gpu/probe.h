/*
 * Asks the driver whether a unit can be used again. A handful of calls, made only for units under suspicion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/nvml.h"

/*
 * A GPU passes when its handle is found by UUID, its memory can be read, the driver asks for no recovery action (field 230,
 * from r550 or so on), and its memory is whole: no row remapping failed or waits for a reset (Ampere and newer), no page waits
 * to be retired and no uncorrectable error was counted since the driver was loaded (older boards, which contain no errors;
 * DCGM's health checks judge alike). Its MIG mode is none of a probe's business: a change
 * of that is a new inventory. What a board or driver cannot tell is passed. False: |reason| says why, for people.
 */
bool probe_gpu(const struct nvml *nvml, const char *uuid, char *reason, size_t size);

/* A MIG device passes when its handle is found and its memory can be read; the GPU is probed on its own. */
bool probe_mig_device(const struct nvml *nvml, const char *uuid, char *reason, size_t size);
