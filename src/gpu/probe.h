/*
 * Asks the driver whether a unit can be used: a few calls, made for every unit at each reading of the inventory, and
 * more often for unhealthy units.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/health.h"
#include "gpu/nvml.h"

struct probe_result {
        enum health_finding finding;
        char reason[200]; /* for people; empty if the result is good */
};

/*
 * A GPU passes if its handle is found by UUID, its memory can be read, the driver asks for no recovery action (field
 * 230, from about r550 on), and its memory is intact: no row remapping failed (Ampere and newer); on older boards,
 * which cannot contain errors, no page retirement is pending and no uncorrectable error was counted since the driver
 * was loaded (DCGM's health checks use the same rule). A pending row remapping counts only if |remaps_count| says so.
 * The MIG mode is not checked: a change of it is a new inventory. What a board or driver cannot report does not count;
 * nor does the memory of a GPU in MIG mode, which nvmlDeviceGetRemappedRows does not support (nvml.h). HEALTH_CLEARED:
 * the driver reports that no recovery action is needed.
 */
struct probe_result probe_gpu(const struct nvml *nvml, const char *uuid, bool remaps_count);

/* A MIG device passes if its handle is found and its memory can be read; its GPU is probed separately. */
struct probe_result probe_mig_device(const struct nvml *nvml, const char *uuid);
