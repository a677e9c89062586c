// SPDX-License-Identifier: Apache-2.0
/* The simulator that comes with the program, for use without a GPU: where its files are, and which models it has. */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum simulator_file {
        SIMULATOR_NVML,
        SIMULATOR_CUDA,
        SIMULATOR_MPS,  /* the folder of the simulated MPS programs */
        SIMULATOR_DEMO, /* the demonstration */
};

/* The path, for the caller to free; NULL with |err|. Searched relative to this program. */
char *simulator_find(enum simulator_file file, struct error *err);

/* The names of its models, NULL-terminated. */
extern const char *const simulator_models[];

/* The GPUs of a simulated node: all alike. */
struct simulator_node {
        const char *model; /* of simulator_models */
        const char *name;  /* product name; NULL: the model's */
        unsigned int gpus;
        uint64_t memory_mib; /* 0: the model's */
        uint64_t sms;        /* the same */
        const char *mig;     /* as a scenario has it: "{enabled: true}"; NULL: off */
        const char *driver_version;
};

/* Sets the node of the simulated library, before this process loads it. */
int simulator_set_node(const struct simulator_node *node, struct error *err) MUST_USE;

/* Has the simulated library use a scenario file. */
void simulator_set_scenario(const char *path);
