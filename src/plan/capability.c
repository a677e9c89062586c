// SPDX-License-Identifier: Apache-2.0
#include "plan/capability.h"

#include <stdlib.h>

#define PARTITION_BRANCH 590
#define NAMESPACE_BRANCH 615

static unsigned int driver_branch(const char *version)
{
        return version ? (unsigned int)MIN(strtoul(version, NULL, 10), 100000UL) : 0;
}

bool capability_is_before_volta(const struct gpu *gpu)
{
        return gpu->architecture != GPU_ARCHITECTURE_UNKNOWN ? gpu->architecture < GPU_ARCHITECTURE_VOLTA
                                                             : gpu->compute_major > 0 && gpu->compute_major < 7;
}

/*
 * Clients of one MPS server on one GPU, from NVIDIA's MPS documentation: 16 before Volta, 48 since, 60 with the driver
 * of CUDA 13.1 (branch 590).
 */
static unsigned int gpu_clients(const struct gpu *gpu, const char *driver_version)
{
        if (capability_is_before_volta(gpu))
                return 16;
        return driver_branch(driver_version) >= PARTITION_BRANCH ? 60 : 48;
}

/* SMs of the largest profile, "7g.80gb": the whole GPU. 0: unknown. */
static unsigned int gpu_slices(const struct gpu *gpu)
{
        unsigned int most = 0;

        for (size_t i = 0; i < gpu->n_mig_profiles; i++)
                most = MAX(most, (unsigned int)MIN(strtoul(gpu->mig_profiles[i], NULL, 10), 1000UL));
        return most;
}

unsigned int capability_clients(const struct unit *unit, const char *driver_version)
{
        unsigned int clients = gpu_clients(unit->gpu, driver_version);
        unsigned int slices = unit->mig ? unit->mig->attributes.compute_slices : 0;
        unsigned int of = gpu_slices(unit->gpu);

        /* On a MIG device the number is smaller, by the size of the compute instance (the same documentation). */
        return slices > 0 && slices < of ? MAX(1U, clients * slices / of) : clients;
}

bool capability_partitions(const struct unit *unit, const char *driver_version)
{
        const struct gpu *gpu = unit->gpu;
        bool is_new = gpu->compute_major > 0 ? gpu->compute_major >= 8 : gpu->architecture >= GPU_ARCHITECTURE_AMPERE;

        return !unit->mig && is_new && driver_branch(driver_version) >= PARTITION_BRANCH;
}

bool capability_namespaces(const char *driver_version)
{
        return driver_branch(driver_version) >= NAMESPACE_BRANCH;
}

bool capability_multi_user(const char *driver_version)
{
        return driver_branch(driver_version) >= CAPABILITY_MULTI_USER_BRANCH;
}
