// SPDX-License-Identifier: Apache-2.0
/*
 * One reading of what a GPU and its MIG devices do: counters and gauges of the device, and the processes on it, each
 * with the pod and the container of its cgroup. It blocks in NVML; gpu/sampler.h decides when.
 *
 * What the driver does not say is unknown, never 0:
 *
 *   - Activity (SMs, memory controller) of a process is unknown on a GPU in MIG mode, and of a client of MPS: the
 *     driver counts it for the MPS server. Elsewhere a process without a sample in the time that was asked for did
 *     nothing: 0.
 *   - A GPU in MIG mode has no utilization, and neither has a MIG device.
 *   - Memory of a process is unknown if the driver keeps it back (other users' processes on MIG devices).
 *
 * Samples of a process that is in no list, above 100 %, or older than the time asked for are dropped: drivers have been
 * seen to return all three. Lists are joined by PID, because a client of MPS is in two of them. Some drivers of 535
 * write records of 32 bytes where nvml.h has 24; they are recognised by PIDs and instances that cannot be.
 *
 * PIDs are those of our PID namespace, so that of the host is needed to see the processes of others; without it, the
 * driver leaves them out or gives PIDs that are not ours. A process whose PID is that of one in our own container is
 * such a mistake and counts as not visible: nothing here uses a GPU.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "gpu/inventory.h"
#include "gpu/nvml.h"
#include "gpu/process_list.h"

#define GPU_VALUE_UNKNOWN UINT64_MAX
#define GPU_PERCENT_UNKNOWN UINT32_MAX

/* Counters count since the driver was loaded, or since the board was made where "aggregate" or "remapped" says so. */
enum gpu_value {
        GPU_MEMORY_TOTAL,    /* bytes; these three also of MIG devices */
        GPU_MEMORY_USED,     /* without the driver's part, where the driver reports that separately */
        GPU_MEMORY_RESERVED, /* the driver's part */
        GPU_BUSY,            /* percent of the time in which a kernel ran */
        GPU_MEMORY_BUSY,     /* percent of the time in which memory was read or written */
        GPU_ENCODER_BUSY,    /* percent */
        GPU_DECODER_BUSY,
        GPU_TEMPERATURE, /* °C */
        GPU_MEMORY_TEMPERATURE,
        GPU_POWER, /* milliwatt */
        GPU_POWER_LIMIT,
        GPU_ENERGY,   /* counter, millijoule */
        GPU_SM_CLOCK, /* MHz */
        GPU_MEMORY_CLOCK,
        GPU_CLOCK_REASONS,   /* NVML_CLOCKS_EVENT_REASON_* */
        GPU_POWER_THROTTLED, /* counter, nanoseconds in which the power limit lowered the clocks */
        GPU_THERMAL_THROTTLED,
        GPU_ECC_CORRECTED, /* counters */
        GPU_ECC_UNCORRECTED,
        GPU_ECC_CORRECTED_AGGREGATE,
        GPU_ECC_UNCORRECTED_AGGREGATE,
        GPU_REMAPPED_CORRECTED, /* rows, because of corrected errors */
        GPU_REMAPPED_UNCORRECTED,
        GPU_REMAP_PENDING, /* 0 or 1 */
        GPU_REMAP_FAILED,
        GPU_RETIRED_CORRECTED, /* pages, of boards that do not remap rows */
        GPU_RETIRED_UNCORRECTED,
        GPU_RETIRE_PENDING, /* 0 or 1 */
        GPU_PCIE_REPLAYS,   /* counter */
        GPU_PCIE_SENT,      /* counter, bytes; may wrap */
        GPU_PCIE_RECEIVED,
        GPU_NVLINK_SENT, /* counter, KiB, of all links */
        GPU_NVLINK_RECEIVED,
        GPU_NVLINK_CRC_FLIT, /* counters of errors, of all links */
        GPU_NVLINK_CRC_DATA,
        GPU_NVLINK_REPLAY,
        GPU_NVLINK_RECOVERY,
        GPU_NVLINK_ECC,
        GPU_VALUES,
};

#define GPU_SAMPLE_PROCESSES_MAX 1024U /* of one unit; if there are more, none is listed */

struct gpu_process {
        pid_t pid;
        unsigned int kinds;          /* GPU_PROCESS_* */
        uint64_t memory;             /* bytes */
        unsigned int sm_percent;     /* of the unit's SMs, over the last sampling period of the driver */
        unsigned int memory_percent; /* of the time of the memory controller */
        bool is_visible;             /* its PID is known here; else nothing is known of its owner */
        const char *pod_uid;         /* base/proc.h; NULL: not a pod's */
        const char *container_id;
};

/* One unit. Strings live in the samples' arena. */
struct gpu_sample {
        const char *uuid;
        const char *gpu; /* the UUID of its GPU */
        bool is_mig;
        uint64_t at_ms; /* CLOCK_MONOTONIC */
        uint64_t values[GPU_VALUES];
        bool has_processes; /* the driver listed them; a GPU in MIG mode has none, its MIG devices have */
        const struct gpu_process *processes;
        size_t n_processes;
};

/* How often the driver reported an Xid of one GPU since the monitor began. */
struct gpu_xid {
        char gpu[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
        uint64_t xid;
        uint64_t count;
        int64_t last; /* seconds since the epoch */
};

/* All units of a node, read one GPU after the other. */
struct gpu_samples {
        struct arena arena;
        struct gpu_sample *units;
        size_t n_units;
        const struct gpu_xid *xids;
        size_t n_xids;
};

struct gpu_samples *gpu_samples_new(void);
struct gpu_samples *gpu_samples_free(struct gpu_samples *samples); /* accepts NULL, returns NULL */

/*
 * Adds the GPU, and its MIG devices. A unit that does not answer is left out; one whose memory is not reported is not.
 * |root|: the folder that has /proc.
 * |since_ms|: activity of the last so many milliseconds counts.
 */
void gpu_samples_add(struct gpu_samples *samples, const struct nvml *nvml, const struct gpu *gpu, const char *root,
        uint64_t since_ms);
