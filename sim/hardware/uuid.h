/*
 * UUIDs of simulated hardware: always the same for the same seed, and of the driver's form.
 */
#pragma once

#include <stddef.h>

#define SIM_UUID ((size_t)41)

/* "GPU-" or "MIG-", by |kind|, and what follows from |seed|. */
void sim_uuid(char uuid[SIM_UUID], const char *kind, const char *seed);

/* Of the GPU of that model at that position of a node, where the scenario does not say. */
void sim_uuid_gpu(char uuid[SIM_UUID], const char *model, size_t position);
