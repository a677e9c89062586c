/*
 * The questions of the monitor about GPUs, each in a process (gpu/nvml_pool.h): the inventory, with the files that show
 * another driver; whether a GPU can be used; what it does. It decides nothing.
 */
#pragma once

#include "gpu/hangs.h"
#include "gpu/inventory.h"
#include "gpu/mig_read.h"
#include "gpu/nvml_pool.h"
#include "gpu/paths.h"
#include "gpu/platform.h"
#include "gpu/probe.h"
#include "gpu/sample.h"

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

/* ---- one GPU ---- */

#define LOOK_UNITS_MAX (1 + MIG_READ_MAX)

struct look_probe_wanted {
        const char *units[LOOK_UNITS_MAX]; /* the GPU, and those MIG devices of it that are to be probed */
        size_t n_units;
        unsigned int index;
        bool counts_remaps;
};

/* The answer has one finding for each unit; those of MIG devices count only if that of the GPU is good. */
void look_ask_probe(struct nvml_request *request, const struct look_probe_wanted *wanted);
bool look_probe_unpack(struct pack *answer, struct probe_result ret[LOOK_UNITS_MAX], size_t n_units) MUST_USE;

/* |since_ms| as for gpu_samples_add(), to which look_samples_unpack() adds what was read. */
void look_ask_samples(struct nvml_request *request, const struct gpu *gpu, const char *system_root, uint64_t since_ms);
bool look_samples_unpack(struct pack *answer, struct gpu_samples *samples) MUST_USE;

/* Errors after which no call can succeed with this library and driver. */
static inline bool look_is_fatal(nvmlReturn_t code)
{
        return code == NVML_ERROR_UNINITIALIZED || code == NVML_ERROR_DRIVER_NOT_LOADED ||
               code == NVML_ERROR_LIB_RM_VERSION_MISMATCH;
}
