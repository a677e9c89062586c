// SPDX-License-Identifier: Apache-2.0
/*
 * What the simulated MPS programs are to do. It is read from the file that WARPSHARE_MPS_SIM names, lines "key: value",
 * then from "<pipe directory>.sim" if there is one. A program reads it again each time it needs it, so an edit is in
 * force at once. docs/simulator.md is the manual of the file.
 *
 * If the file is wrong when a program starts, the program ends with a message that has the line; if that happens later,
 * the last good file stays in force.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define MPS_SIM_GPUS 16U
#define MPS_SIM_FAULTS 64U

struct mps_gpu {
        char uuid[80];
        char name[48];
        unsigned int sms;
        unsigned int chunks; /* of static partitions; 0: by SMs and compute capability */
        unsigned int compute_major;
        uint64_t memory_mib;
        bool lost;
};

enum mps_fault_kind { MPS_FAULT_HANG, MPS_FAULT_DELAY, MPS_FAULT_ANSWER, MPS_FAULT_IGNORE };

/* A fault of one command of the control interface; "*" is every command. */
struct mps_fault {
        char command[64];
        enum mps_fault_kind kind;
        uint64_t delay_ms;
        char answer[512];
};

enum mps_server_mode { MPS_SERVER_WORKS, MPS_SERVER_EXITS, MPS_SERVER_HANGS, MPS_SERVER_FAULT };
enum mps_daemon_mode {
        MPS_DAEMON_WORKS,
        MPS_DAEMON_EXITS,
        MPS_DAEMON_GARBAGE,
        MPS_DAEMON_SLOW,
        MPS_DAEMON_UNRESPONSIVE
};

struct mps_scenario {
        unsigned int version; /* of the driver: 535, 550, … */
        struct mps_gpu gpus[MPS_SIM_GPUS];
        unsigned int n_gpus;
        struct mps_fault faults[MPS_SIM_FAULTS];
        unsigned int n_faults;
        enum mps_server_mode server;
        enum mps_daemon_mode daemon;
        uint64_t server_number; /* exit status */
        uint64_t daemon_number; /* exit status, or milliseconds */
        bool killed_client_faults;
        bool orphan_exits;
        uint64_t context_mib; /* what every client uses before it allocates anything */
        uint64_t max_clients; /* 0: by version and GPU */
        uint64_t lifetime_s;
        uint64_t owner;              /* PID of the process that daemon and servers are for; 0: of none */
        char process_directory[512]; /* "": none */
        char system_root[512];       /* the root below which the cgroups of clients are looked up; "": they are not */
};

int mps_scenario_read(struct mps_scenario *ret, struct error *err) MUST_USE;
/* Reads the file again; if it is wrong, |scenario| stays as it is. */
void mps_scenario_refresh(struct mps_scenario *scenario);
/* The owner has ended, perhaps by a signal, and nobody is left who would end what it started. */
bool mps_scenario_is_orphaned(const struct mps_scenario *scenario);
/* The first fault of that kind for |command|, or NULL. */
const struct mps_fault *mps_scenario_fault(
        const struct mps_scenario *scenario, const char *command, enum mps_fault_kind kind);

/* The GPUs that CUDA_VISIBLE_DEVICES = |visible| leaves (NULL: all), in its order, as indices into gpus. Returns their
 * number, or -1 if one of them does not exist or is lost. */
int mps_scenario_visible(const struct mps_scenario *scenario, const char *visible, unsigned int ret[MPS_SIM_GPUS]);
unsigned int mps_scenario_max_clients(const struct mps_scenario *scenario);
