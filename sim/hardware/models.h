// SPDX-License-Identifier: Apache-2.0
/*
 * What NVML reports about the GPU models that a scenario can name: constants of the hardware, in one table.
 *
 * Memory sizes are those that NVML reports (here in MiB), which are less than the name suggests. MIG profiles are those
 * of `nvidia-smi mig -lgip` on the product. docs/evidence.md says which values nobody has recorded. It knows nothing of
 * scenarios.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One GPU instance profile of one model. */
struct mig_profile {
        const char *name;   /* "1g.5gb+me" */
        unsigned int index; /* NVML_GPU_INSTANCE_PROFILE_*: to get its information */
        unsigned int id;    /* to create an instance */
        unsigned int slices;
        unsigned int count; /* how many fit on an empty GPU */
        uint32_t starts;    /* bit n: an instance may begin at memory slice n */
        unsigned int size;  /* memory slices */
        unsigned int multiprocessors;
        unsigned int memory_mib;
        unsigned int copy_engines;
        unsigned int decoders;
        unsigned int jpegs;
        unsigned int ofas;
        unsigned int encoders;
};

struct model {
        const char *key; /* its name in a scenario: "A100-40GB" */
        const char *product;
        int brand;
        unsigned int architecture;
        int compute_major;
        int compute_minor;
        unsigned int memory_mib;   /* 0: it uses the machine's, and NVML reports none */
        unsigned int reserved_mib; /* used by the driver itself */
        unsigned int bar1_mib;
        unsigned int multiprocessors;
        unsigned int cores; /* per multiprocessor */
        unsigned int pci_device;
        unsigned int pci_subsystem;
        unsigned int nvlinks;
        unsigned int nvlink_version;
        unsigned int power_w; /* 0: NVML reports no limit */
        unsigned int clock_mhz;
        unsigned int memory_clock_mhz;
        unsigned int pcie_generation;
        bool coherent;              /* its memory is a NUMA node of the host */
        bool pairs_graphics;        /* it has two MIG devices at most: one for graphics (+gfx) and one that is not */
        unsigned int memory_slices; /* 0: no MIG */
        unsigned int compute_slices;
        const struct mig_profile *profiles;
        size_t n_profiles;
};

const struct model *model_find(const char *key); /* without regard to case, or NULL */
const struct model *model_at(size_t position);   /* NULL after the last one */

/*
 * True for Hopper and newer (field 184): the MIG mode changes at once, and is lost at a reboot. Ampere needs a reset,
 * and keeps the mode.
 */
bool model_sets_mig_mode_without_reset(const struct model *model);

/* Find a profile by its name ("1g.5gb"), its id, or its index. */
const struct mig_profile *model_profile(const struct model *model, const char *name);
const struct mig_profile *model_profile_by_id(const struct model *model, unsigned int id);
const struct mig_profile *model_profile_by_index(const struct model *model, unsigned int index);
