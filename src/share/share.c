#include "share/share.h"

#include <assert.h>

#define MIB ((uint64_t)1024 * 1024)

struct share share_of(const struct resource *resource, const struct unit *unit, unsigned int k)
{
        unsigned int n = unit->replicas;
        uint64_t one_mib = unit->memory / n / MIB;

        assert(k >= 1 && k <= n);
        if (!unit->shared || resource->strategy != SHARING_MPS)
                return (struct share){.memory_mib = 0, .threads_permille = 1000};
        switch (resource->provisioning) {
        case PROVISIONING_UNIFORM:
        case PROVISIONING_SM: /* refused by the file's schema so far */
                break;
        case PROVISIONING_HALF:
                return (struct share){.memory_mib = k * one_mib, .threads_permille = MIN(2000 * k / n, 1000U)};
        case PROVISIONING_WEIGHTED:
                return (struct share){.memory_mib = k * unit->memory / n / MIB, .threads_permille = 1000 * k / n};
        }
        /* NVIDIA's formula knows whole percent only. */
        return (struct share){.memory_mib = one_mib, .threads_permille = 100 / n * 10};
}
