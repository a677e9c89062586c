// SPDX-License-Identifier: Apache-2.0
/*
 * The geometry of a node with its placements, as the JSON that NVIDIA's mig-parted writes (checkpoint) and restores,
 * version v1. Pure.
 *
 *         {"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-…","MigMode":1,"GpuInstances":[{"ProfileID":0,
 *          "Placement":{"Start":6,"Size":1},"ComputeInstances":[{"ProfileID":0,"EngProfileID":0}]}]}]}}
 *
 * "ProfileID" is NVML's index of the profile, NVML_GPU_INSTANCE_PROFILE_* and NVML_COMPUTE_INSTANCE_PROFILE_*, not the
 * id. GPUs without MIG are not in it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "mig/node.h"
#include "mig/plan.h"

#define MIG_CHECKPOINT_LIMIT ((size_t)1024 * 1024)
#define MIG_CHECKPOINT_MAX_GPUS 512U
#define MIG_CHECKPOINT_MAX_INSTANCES 64U /* of a GPU; compute instances of a GPU instance */

struct mig_checkpoint_compute {
        unsigned int profile;
        unsigned int engine;
};

struct mig_checkpoint_instance {
        unsigned int profile;
        struct mig_placement placement;
        const struct mig_checkpoint_compute *computes;
        size_t n_computes;
};

struct mig_checkpoint_gpu {
        const char *uuid;
        unsigned int mode; /* 0 disabled, 1 enabled */
        const struct mig_checkpoint_instance *instances;
        size_t n_instances;
};

struct mig_checkpoint {
        const struct mig_checkpoint_gpu *gpus;
        size_t n_gpus;
};

/* Takes a checkpoint of |node|. An error names a GPU that could not be read. */
int mig_checkpoint_take(
        struct mig_checkpoint *ret, struct arena *arena, const struct mig_node *node, struct error *err) MUST_USE;

/* One line with a newline. */
void mig_checkpoint_print(struct strbuf *text, const struct mig_checkpoint *checkpoint);

/* |ret| points into |arena|. Errors name the field. */
int mig_checkpoint_parse(
        struct mig_checkpoint *ret, struct arena *arena, const char *text, size_t size, struct error *err) MUST_USE;

/* |path| "-" is standard input. */
int mig_checkpoint_read(struct mig_checkpoint *ret, struct arena *arena, const char *path, struct error *err) MUST_USE;

/*
 * Plans what restoring |checkpoint| changes on |node|, as mig_plan_build() does, but with the placements of the
 * checkpoint. Instances that are already at their place stay. GPUs that the checkpoint does not have are not named.
 * With |is_mode_only| only those whose mode differs are, and get no instances. Refused: a GPU that is not there, and an
 * instance that its GPU cannot have.
 */
int mig_checkpoint_plan(struct mig_plan *ret, struct arena *arena, const struct mig_node *node,
        const struct mig_checkpoint *checkpoint, bool is_mode_only, struct error *err) MUST_USE;
