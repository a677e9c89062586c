/*
 * The GPUs of this node with their MIG geometry, all that NVML sees, in NVML's order, read once. It calls the driver
 * and blocks (gpu/mig_instances.h): only a process that may be killed calls it.
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
