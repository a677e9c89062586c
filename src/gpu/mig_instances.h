// SPDX-License-Identifier: Apache-2.0
/*
 * The MIG geometry of one GPU: its mode, its profiles with their placements, its GPU instances, creating and destroying
 * one.
 *
 * Every function calls the driver and blocks: creating and destroying may take seconds, and a call may hang
 * (gpu/hangs.h): only a process that may be killed calls them. Programs other than ours
 * may change the geometry at any time, and nothing here locks it.
 *
 * What is created is one GPU instance, with one compute instance of all its slices unless the caller says otherwise.
 * What others created is listed and destroyed as it is. Nothing here asks who holds a MIG device: NVML refuses (IN_USE)
 * only while a process runs on it.
 *
 * An error names the GPU, profile and placement, NVML's call and code, and the way out. EXHAUSTED: no room at that
 * placement; UNAVAILABLE: among others, a process uses the instance; DENIED: not allowed to change the geometry;
 * UNSUPPORTED: no MIG, MIG is disabled, or the driver is too old; NOT_FOUND: the instance does not exist any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "gpu/inventory.h"
#include "gpu/nvml.h"

#define MIG_PLACEMENTS_MAX 32U /* of one profile; today's have up to 7 */

struct mig_gpu {
        const struct nvml *nvml;
        const char *uuid;
        nvmlDevice_t device;
};

/* A placement, in memory slices. */
struct mig_placement {
        unsigned int start;
        unsigned int size;
};

struct mig_gpu_profile {
        const char *name;        /* "1g.10gb+me", as resource names and the inventory have it (gpu/mig_profile.h) */
        const char *driver_name; /* the same in the driver's words, which may differ; NULL: the driver reports none */
        unsigned int id;
        unsigned int index;  /* NVML_GPU_INSTANCE_PROFILE_*, the same on every GPU */
        unsigned int slices; /* of compute */
        unsigned int max;    /* instances on an empty GPU */
        uint64_t memory_mib;
        /*
         * The attributes of one instance with one MIG device of all its slices. Instances share out the engines of a
         * GPU: what one has no other has. The media extension of "+me" has the one for optical flow.
         */
        struct mig_attributes attributes;
        const struct mig_placement *placements; /* possible on an empty GPU, as the driver lists them */
        size_t n_placements;
};

/* A compute instance. */
struct mig_gpu_device {
        const char *uuid;
        unsigned int compute_instance;
        unsigned int slices;
};

struct mig_gpu_instance {
        unsigned int id;
        const struct mig_gpu_profile *profile;
        struct mig_placement placement;
        const struct mig_gpu_device *devices; /* by MIG index; none: a GPU instance without a compute instance */
        size_t n_devices;
};

struct mig_geometry {
        bool is_enabled;
        bool is_pending_enabled; /* different from |is_enabled| until the GPU is reset */
        /* to become current: the driver says so, or it says nothing and the GPU is older than Hopper */
        bool mode_needs_reset;
        const struct mig_gpu_profile *profiles;
        size_t n_profiles; /* 0: the driver lists none while MIG is disabled (before R550) */
        const struct mig_gpu_instance *instances;
        size_t n_instances;
};

/* |nvml| and |uuid| outlive |ret|. There is nothing to close. */
int mig_gpu_open(struct mig_gpu *ret, const struct nvml *nvml, const char *uuid, struct error *err) MUST_USE;

/* The outcome of setting a mode: in force, pending until the GPU is reset, or pending because the GPU is in use. */
enum mig_activation { MIG_MODE_ACTIVE, MIG_MODE_NEEDS_RESET, MIG_MODE_IN_USE };

/*
 * A mode that is pending because the GPU is in use becomes active when it is set again on the idle GPU, or by a reset.
 * The driver may unbind the GPU meanwhile: open it again, and expect another index and minor. Destroy its instances
 * first.
 */
int mig_gpu_set_mode(const struct mig_gpu *gpu, bool is_enabled, enum mig_activation *ret, struct error *err) MUST_USE;

/*
 * The name of the GPU instance profile at |index|, which has |memory_mib| of the GPU's |total| bytes, in |arena|:
 * mig_profile_name(), and where a size is not known (NVML may keep the GPU's memory from an unprivileged container) the
 * driver's own name, which it has from R535 on. NULL: neither is known.
 */
const char *mig_instances_profile_name(struct arena *arena, const struct nvml *nvml, nvmlDevice_t device,
        unsigned int index, uint64_t memory_mib, uint64_t total);

/*
 * Everything that |ret| points to is in |arena|. A profile without a name is left out; that none has one is an error
 * where the GPU's memory could not be read.
 */
int mig_instances_read(
        struct mig_geometry *ret, struct arena *arena, const struct mig_gpu *gpu, struct error *err) MUST_USE;

/*
 * Creates an instance of |profile| that starts at |start|, one of its placements, with a compute instance for each of
 * |slices|, in this order; none: a GPU instance without one. |ret_id| is the id of the GPU instance. If a compute
 * instance cannot be created, the GPU instance is destroyed again; if that fails too, the error says so.
 */
int mig_instances_create(const struct mig_gpu *gpu, const struct mig_gpu_profile *profile, unsigned int start,
        const unsigned int *slices, size_t n_slices, unsigned int *ret_id, struct error *err) MUST_USE;

/*
 * Destroys the instance with its compute instances, if it still has the profile and placement that were read. After an
 * error some of its compute instances may be gone; another call destroys the rest.
 */
int mig_instances_destroy(
        const struct mig_gpu *gpu, const struct mig_gpu_instance *instance, struct error *err) MUST_USE;
