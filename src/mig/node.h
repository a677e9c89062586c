// SPDX-License-Identifier: Apache-2.0
/*
 * The GPUs of this node with their MIG geometry, all that NVML sees, in NVML's order, read once; and what a
 * configuration wants of a GPU. Reading calls the driver and blocks (gpu/mig_instances.h): only a process that may be
 * killed does it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "gpu/mig_instances.h"

struct mig_node_gpu {
        unsigned int index; /* NVML's: what "devices" of a MIG configuration counts */
        const char *uuid;
        const char *name;       /* "NVIDIA H100 80GB HBM3" */
        const char *bus_id;     /* "00000000:1A:00.0" */
        uint32_t pci_device;    /* device id, then vendor: 0x233010DE */
        uint32_t pci_subsystem; /* likewise; 0: the driver reports none */
        bool is_capable;        /* of MIG */
        const char *problem;    /* why its geometry could not be read; else NULL */
        struct mig_geometry geometry;
};

struct mig_node {
        const struct mig_node_gpu *gpus;
        size_t n_gpus;
        const char *driver_version;
};

/*
 * The slices of the MIG device at |index| in |instance|, or 0 if it has all slices, as mig_wanted_count.compute has it.
 */
unsigned int mig_device_compute(const struct mig_gpu_instance *instance, size_t index);

/*
 * Everything that |ret| points to is in |arena|. A GPU that cannot be read is there with its |problem|; texts that NVML
 * does not report are "".
 */
int mig_node_read(struct mig_node *ret, struct arena *arena, const struct nvml *nvml, struct error *err) MUST_USE;

/* ---- what is wanted: the MIG mode of one GPU, and how many MIG devices of each profile; pure ---- */

/*
 * It has neither placements (mig/geometry.h) nor the present users.
 *
 * "1c.3g.20gb" is a device with one slice of a GPU instance of the profile 3g.20gb, which others share
 * (mig/geometry.h).
 */
struct mig_wanted_count {
        const char *profile;  /* of the GPU instance: "1g.10gb+me", as gpu/mig_instances.h names it */
        unsigned int count;   /* at least 1 */
        unsigned int compute; /* slices of the device's compute instance; 0: all of the GPU instance */
};

struct mig_wanted {
        bool is_named; /* false: no entry is for this GPU, and it is left alone */
        bool is_enabled;
        const struct mig_wanted_count *counts; /* each profile and number of slices once; none while MIG is disabled */
        size_t n_counts;
};

/* The count of these devices among |counts|, or NULL. */
struct mig_wanted_count *mig_wanted_find(
        struct mig_wanted_count *counts, size_t n_counts, const char *profile, unsigned int compute);

/* Adds to the count of these devices, or a new one, for which |counts| has room. */
void mig_wanted_add(struct mig_wanted_count *counts, size_t *n_counts, const struct mig_wanted_count *added);

/*
 * Whether the GPU has what is wanted; a GPU that is not named has it, and placements do not count. NULL: it has.
 * Otherwise how it differs, in |arena|: "GPU 0 has 7 of 1g.5gb, wanted are 2". With |is_mode_only| the mode counts
 * alone. A mode that waits for a reset is not there yet.
 */
const char *mig_compare(
        struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted, bool is_mode_only);
