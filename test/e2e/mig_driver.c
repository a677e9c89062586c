// SPDX-License-Identifier: Apache-2.0
/*
 * A program beside the agent that changes the MIG geometry of simulated GPUs, as nvidia-smi does.
 *
 *     mig-driver create GPU PROFILE-ID START     prints the id of the GPU instance
 *     mig-driver destroy GPU INSTANCE-ID
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mig_instances.h"

static int create(const struct mig_gpu *gpu, const struct mig_geometry *geometry, unsigned int profile,
        unsigned int start, struct error *err)
{
        unsigned int id;

        for (size_t i = 0; i < geometry->n_profiles; i++)
                if (geometry->profiles[i].id == profile) {
                        if (mig_instances_create(
                                    gpu, &geometry->profiles[i], start, &geometry->profiles[i].slices, 1, &id, err) < 0)
                                return -1;
                        printf("%u\n", id);
                        return 0;
                }
        return error_set(err, ERROR_NOT_FOUND, "no profile %u", profile);
}

static int destroy(const struct mig_gpu *gpu, const struct mig_geometry *geometry, unsigned int id, struct error *err)
{
        for (size_t i = 0; i < geometry->n_instances; i++)
                if (geometry->instances[i].id == id)
                        return mig_instances_destroy(gpu, &geometry->instances[i], err);
        return error_set(err, ERROR_NOT_FOUND, "no instance %u", id);
}

static unsigned int number(const char *text)
{
        return text ? (unsigned int)strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        struct mig_geometry geometry;
        struct mig_gpu gpu;
        struct error err;

        if (argc < 4)
                return 2;
        if (nvml_open(&nvml, getenv("WARPSHARE_NVML_SIM"), "", &err) < 0 ||
                mig_gpu_open(&gpu, nvml, argv[2], &err) < 0 || mig_instances_read(&geometry, &arena, &gpu, &err) < 0 ||
                (strcmp(argv[1], "create") == 0 ? create(&gpu, &geometry, number(argv[3]), number(argv[4]), &err)
                                                : destroy(&gpu, &geometry, number(argv[3]), &err)) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
        }
        return 0;
}
