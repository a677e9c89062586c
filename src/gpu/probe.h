/*
 * Asks the driver whether a unit can be used. A handful of calls, made for every unit at each reading of the inventory, and more
 * often for units under suspicion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/health.h"
#include "gpu/nvml.h"

struct probe_result {
        enum health_finding finding;
        char reason[200]; /* for people; empty where the finding is good */
};

/*
 * A GPU passes when its handle is found by UUID, its memory can be read, the driver asks for no recovery action (field 230,
 * from r550 or so on), and its memory is whole: no row remapping failed (Ampere and newer), no page waits to be retired and no
 * uncorrectable error was counted since the driver was loaded (older boards, which contain no errors; DCGM's health checks
 * judge alike). A row that waits to be remapped counts where |remaps_count| says so. Its MIG mode is none of a probe's business:
 * a change of that is a new inventory. What a board or driver cannot tell is passed; so is the memory of a GPU in MIG mode, of
 * which nvmlDeviceGetRemappedRows does not speak (nvml.h). HEALTH_CLEARED: the driver said that no recovery action is needed.
 */
struct probe_result probe_gpu(const struct nvml *nvml, const char *uuid, bool remaps_count);

/* A MIG device passes when its handle is found and its memory can be read; the GPU is probed on its own. */
struct probe_result probe_mig_device(const struct nvml *nvml, const char *uuid);
