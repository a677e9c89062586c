// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated library as a program sees it: opened by name, every function by dlsym, and a scenario in a file of its
 * own.
 */
#pragma once

#include "unit.h"

#include <stdbool.h>

#include "base/macro.h"
#include "sim/nvml/calls.h"

#define SIM_FIELD(name, arguments) nvmlReturn_t(*name) arguments;

struct sim {
        void *library;
        char folder[32];
        char path[64];     /* of the scenario */
        char geometry[64]; /* a file for its `geometryFile`; not there yet */
        NVML_CALLS(SIM_FIELD)
        const char *(*nvmlErrorString)(nvmlReturn_t);
};

/* For a group: *state becomes a struct sim; nothing is initialised yet. */
int sim_setup(void **state);
int sim_teardown(void **state);
/* For a test: shuts the library down as often as it takes. */
int sim_shutdown(void **state);

void sim_write(struct sim *sim, const char *text);  /* replaces the scenario's file */
void sim_append(struct sim *sim, const char *text); /* writes at its end, in place */
void sim_start(struct sim *sim, const char *text);  /* shut down, sim_write and nvmlInit_v2: counts the GPUs */

nvmlDevice_t sim_gpu(struct sim *sim, unsigned int index);
nvmlDevice_t sim_mig(struct sim *sim, unsigned int gpu, unsigned int index);

/* What |run| writes to standard error, cut at 4 KiB. */
const char *sim_stderr(struct sim *sim, nvmlReturn_t (*run)(struct sim *sim), nvmlReturn_t expected);

#define SIM_TEST(test) cmocka_unit_test_teardown(test, sim_shutdown)

#define assert_nvml(expected, call) assert_int_equal((call), (expected))
