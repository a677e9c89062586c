// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of a scenario that have a file each; only scenario*.c use this.
 */
#pragma once

#include "sim/nvml/decode.h"
#include "sim/nvml/scenario.h"

/* `errors` and `delays` of the whole scenario or of one GPU. */
int scenario_parse_faults(const struct decode *decode, struct fault_list *faults, struct error *err) MUST_USE;

/* A word such as UNKNOWN or NVML_ERROR_UNKNOWN. */
bool scenario_result(const char *word, nvmlReturn_t *result);

/* One item of `gpus`: |count| GPUs, the first at |position|. */
int scenario_parse_gpus(const struct decode *decode, struct scenario_gpu *gpus, size_t position, size_t count,
        struct error *err) MUST_USE;

/* `mig` of one GPU. */
int scenario_parse_mig(const struct decode *decode, struct scenario_gpu *gpu, struct error *err) MUST_USE;

/* "0000:3b:00.0" */
bool scenario_bus(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *device);
