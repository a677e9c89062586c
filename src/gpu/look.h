// SPDX-License-Identifier: Apache-2.0
/*
 * The monitor's questions about GPUs, answered in a process (gpu/nvml_pool.h): the inventory, with the files that show
 * another driver, and whether a GPU can be used. It decides nothing.
 */
#pragma once

#include "gpu/hangs.h"
#include "gpu/inventory.h"
#include "gpu/nvml_pool.h"
#include "gpu/platform.h"
#include "gpu/health.h"

/* ---- probe ---- */

/*
 * Asks the driver whether a unit can be used: a few calls, made for every unit at each reading of the inventory, and
 * more often for unhealthy units.
 */

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

/* One GPU or MIG device and what its probe found. */
struct look_finding {
        char unit[CALL_GPU_SIZE];
        struct probe_result result;
};

/* ---- the inventory ---- */

struct look_reading_wanted {
        enum platform_choice discovery;
        platform_load_fn *can_load;
        struct gpu_paths paths;
        struct skips skips;
        bool counts_remaps; /* as for probe_gpu() */
        bool has_probes;    /* each GPU is probed as well, and its MIG devices */
};

struct look_reading {
        enum platform platform;        /* if it is not NVML, the rest is empty */
        struct driver_mark mark, now;  /* what was opened, and what would be */
        struct driver_gpus gpus, seen; /* the kernel's, then and now */
        unsigned int nvml_count;       /* of NVML */
        struct inventory *inventory;   /* as it was read, the receiver's to free */
        struct look_finding *findings;
        size_t n_findings;
};

/* |request| is set up but for |gpu|, which is empty, and |done|. Its answer is for look_reading_unpack(). */
void look_ask_reading(struct nvml_request *request, const struct look_reading_wanted *wanted);
/* False: the answer is not whole; |ret->inventory| has to be freed nevertheless. */
bool look_reading_unpack(struct pack *answer, struct look_reading *ret) MUST_USE;

/* Errors after which no call can succeed with this library and driver. */
static inline bool look_is_fatal(nvmlReturn_t code)
{
        return code == NVML_ERROR_UNINITIALIZED || code == NVML_ERROR_DRIVER_NOT_LOADED ||
               code == NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}
