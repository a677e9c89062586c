#include <stdlib.h>

#include "share/plan_build.h"

static unsigned int driver_branch(const char *version)
{
        return version ? (unsigned int)MIN(strtoul(version, NULL, 10), 100000UL) : 0;
}

/*
 * Clients of one MPS server on one GPU, from NVIDIA's MPS documentation: 16 before Volta, 48 since, 60 with the driver of CUDA
 * 13.1 (branch 590). A GPU that does not tell its architecture counts as Volta: older ones are a dying breed.
 */
static unsigned int gpu_clients(const struct gpu *gpu, const char *driver_version)
{
        bool is_old = gpu->architecture != GPU_ARCHITECTURE_UNKNOWN ? gpu->architecture < GPU_ARCHITECTURE_VOLTA
                                                                    : gpu->compute_major > 0 && gpu->compute_major < 7;

        if (is_old)
                return 16;
        return driver_branch(driver_version) >= 590 ? 60 : 48;
}

/* Of the largest profile, "7g.80gb": the whole GPU. 0: unknown. */
static unsigned int gpu_slices(const struct gpu *gpu)
{
        unsigned int most = 0;

        for (size_t i = 0; i < gpu->n_mig_profiles; i++)
                most = MAX(most, (unsigned int)MIN(strtoul(gpu->mig_profiles[i], NULL, 10), 1000UL));
        return most;
}

unsigned int plan_mps_clients(const struct unit *unit, const char *driver_version)
{
        unsigned int clients = gpu_clients(unit->gpu, driver_version);
        unsigned int slices = unit->mig ? unit->mig->attributes.compute_slices : 0;
        unsigned int of = gpu_slices(unit->gpu);

        /* On a MIG device the number shrinks with the compute instance, says the same documentation. */
        return slices > 0 && slices < of ? MAX(1U, clients * slices / of) : clients;
}
