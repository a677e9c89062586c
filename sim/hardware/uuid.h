// SPDX-License-Identifier: Apache-2.0
/* UUIDs of simulated hardware: always the same for the same seed, in the driver's form. */
#pragma once

#include <stddef.h>

#define SIM_UUID ((size_t)41)

/* |kind| ("GPU" or "MIG"), "-" and digits that depend on |seed|. */
void sim_uuid(char uuid[SIM_UUID], const char *kind, const char *seed);

/* The UUID of the GPU of that model at that position of a node, if the scenario has none. */
void sim_uuid_gpu(char uuid[SIM_UUID], const char *model, size_t position);
