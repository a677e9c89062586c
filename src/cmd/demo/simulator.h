/*
 * What comes with the program to do without a GPU: where it lies, and what a node of one model is called there.
 */
#pragma once

#include "base/error.h"

/* Its path, for the caller to free; NULL with |err|. Seen from the folder of this program: when installed, and in a build folder. */
char *simulator_find(struct error *err);

/* The same for the folder of the simulated MPS programs, and for the demonstration. */
char *simulator_find_mps(struct error *err);
char *simulator_find_demo(struct error *err);

/* The models that it knows, NULL-terminated. */
extern const char *const simulator_models[];

/* From now on the simulated library, when this process loads it, has so many GPUs and this driver. */
int simulator_set_node(const char *model, unsigned int gpus, const char *driver_version, struct error *err) MUST_USE;

/* The same with a scenario of its own, a file. */
void simulator_set_scenario(const char *path);
