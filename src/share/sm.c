#include "share/sm.h"

#define HOPPER_CHUNK 8U
#define AMPERE_CHUNK 4U

unsigned int sm_chunk(const struct gpu *gpu)
{
        if (gpu->compute_major > 0)
                return gpu->compute_major >= 9 ? HOPPER_CHUNK : AMPERE_CHUNK;
        if (gpu->architecture == GPU_ARCHITECTURE_UNKNOWN)
                return HOPPER_CHUNK;
        return gpu->architecture >= GPU_ARCHITECTURE_HOPPER ? HOPPER_CHUNK : AMPERE_CHUNK;
}

unsigned int sm_count(const struct unit *unit)
{
        return unit->mig ? unit->mig->attributes.multiprocessors : unit->gpu->multiprocessors;
}

unsigned int sm_of_replica(const struct unit *unit)
{
        unsigned int chunk = sm_chunk(unit->gpu);

        return unit->shared->sms ? unit->shared->sms : sm_count(unit) / chunk / unit->replicas * chunk;
}

unsigned int sm_permille(unsigned int sms, unsigned int total)
{
        return total ? (1000 * sms + total - 1) / total : 1000;
}
