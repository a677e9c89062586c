// SPDX-License-Identifier: Apache-2.0
/*
 * A scenario: which GPUs there are and what happens to them, read from YAML, strictly. It is immutable except for the
 * counters of its faults. docs/simulator.md is the manual of the file. It knows nothing of NVML calls or handles.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/nvml_abi.h"
#include "sim/nvml/mig.h"
#include "sim/hardware/models.h"

#define SCENARIO_MAX_GPUS 64U
#define SCENARIO_MAX_PROCESSES 1024U /* per GPU */
#define SCENARIO_MAX_EVENTS 10000U
#define SCENARIO_MAX_FAULTS 400U
#define SCENARIO_MAX_DELAY_MS 600000U

enum fault_kill { FAULT_KILLS_NOT, FAULT_KILLS_BEFORE, FAULT_KILLS_AFTER };

/* What a call does instead of, or before, answering. */
struct fault {
        const char *call; /* "nvmlDeviceGetMemoryInfo" means its _v2, too */
        nvmlReturn_t result;
        unsigned int delay_ms;
        enum fault_kill kills; /* the process that calls */
        bool blocks;           /* every other call waits for the end of the delay, too */
        unsigned int after;    /* this many calls pass first */
        unsigned int times;    /* then so many are hit; 0: all */
        unsigned int seen;
};

struct fault_list {
        struct fault *faults;
        size_t count;
};

enum process_type { PROCESS_COMPUTE = 1, PROCESS_GRAPHICS = 2, PROCESS_MPS = 4 };

struct scenario_process {
        unsigned int pid;
        const char *name;
        uint64_t memory;
        unsigned int types;
        unsigned int gi; /* NVML_NO_INSTANCE */
        unsigned int ci;
        unsigned int utilization;
        unsigned int memory_utilization;
};

struct scenario_gpu {
        const struct model *model;
        unsigned int multiprocessors; /* the model's, or those of the key sms */
        const char *uuid;
        const char *name;
        const char *serial;
        unsigned int minor;
        unsigned int domain;
        unsigned int bus;
        unsigned int device;
        int numa; /* -1: none */
        uint64_t memory;
        int64_t memory_used; /* by programs; -1: the sum of the processes */
        nvmlComputeMode_t compute_mode;
        bool persistence;

        bool mig_enabled;
        bool mig_pending;
        struct mig_layout mig;
        unsigned int resets; /* how many there were so far */
        unsigned int boots;  /* of the node */

        bool nvlink_all;
        bool nvlink_switch;
        const unsigned int *nvlink_peers; /* positions */
        size_t n_nvlink_peers;

        const struct scenario_process *processes;
        size_t n_processes;
        struct scenario_process *room; /* for the processes of process_directory: world_processes.c */
        size_t n_listed;               /* of |processes|, by the scenario itself */

        unsigned int utilization;
        unsigned int memory_utilization;
        unsigned int temperature;
        unsigned int power_mw;
        unsigned int clock_mhz; /* now */
        uint64_t energy_mj;
        uint64_t clock_reasons;
        uint64_t throttled_ms[2]; /* by nvmlPerfPolicyType_t */
        uint64_t pcie_bytes[2];   /* sent, received, as the next */
        uint64_t nvlink_kib[2];
        uint64_t nvlink_errors[5]; /* crcFlit, crcData, replay, recovery, ecc */
        bool ecc;
        uint64_t ecc_errors[2][2]; /* [corrected, uncorrected][volatile, aggregate] */
        unsigned int remapped_corrected;
        unsigned int remapped_uncorrected;
        bool remapped_pending;
        bool remapped_failure;
        bool retired_pending;
        unsigned int recovery_action;

        unsigned char fabric_uuid[16];
        unsigned int fabric_clique;
        unsigned int fabric_state;
        nvmlReturn_t fabric_status;

        bool present;
        bool lost;
        struct fault_list faults;
};

struct scenario_pair {
        unsigned int a;
        unsigned int b;
        unsigned int value; /* nvmlGpuTopologyLevel_t or nvmlGpuP2PStatus_t */
};

struct scenario_event {
        unsigned int gpu; /* position */
        uint64_t type;
        uint64_t data;
        unsigned int gi;
        unsigned int ci;
};

struct scenario_versions {
        char driver[80];
        char nvml[80];
        int cuda; /* 12020 */
};

struct scenario {
        struct arena arena;
        struct scenario_versions versions;
        nvmlReturn_t init_result;
        unsigned int init_delay_ms;
        unsigned int cpus_per_numa_node;
        struct fault_list faults;
        const char *process_directory;      /* NULL: none */
        const char *compute_mode_directory; /* NULL: each process has its own modes */
        const char *geometry_file;          /* NULL: only the process that changes the geometry sees the change */
        bool keep_mig_uuids;                /* a MIG device that is made again where one was has its UUID */
        unsigned int longest_wait_ms;       /* for events, even if the caller would wait longer */
        struct scenario_gpu *gpus;
        size_t n_gpus;
        const struct scenario_pair *topology;
        size_t n_topology;
        const struct scenario_pair *p2p;
        size_t n_p2p;
        const struct scenario_event *events;
        size_t n_events;
};

/* |name| is the name of the text in errors. Returns -1 with "<name> line <n>: <what>: <why>". */
int scenario_parse(struct scenario **ret, const char *name, const char *text, size_t size, struct error *err) MUST_USE;
struct scenario *scenario_free(struct scenario *scenario); /* accepts NULL, returns NULL */

static inline void scenario_freep(struct scenario **scenario)
{
        scenario_free(*scenario);
}

/* The driver reports MIG profiles while MIG is off, too: R550 and newer do (field 199), R535 cannot. */
bool versions_report_profiles_without_mig(const struct scenario_versions *versions);

/* The driver has field 230: R550 and newer. */
bool versions_report_recovery_actions(const struct scenario_versions *versions);
