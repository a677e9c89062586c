// SPDX-License-Identifier: Apache-2.0
#include "sim/hardware/uuid.h"

#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"

static uint64_t hash(uint64_t seed, const char *text)
{
        for (; *text; text++)
                seed = (seed ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        /* Seeds may differ in the last byte only, but every bit of the result should depend on it. */
        seed = (seed ^ seed >> 33) * UINT64_C(0xff51afd7ed558ccd);
        seed = (seed ^ seed >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
        return seed ^ seed >> 33;
}

void sim_uuid(char uuid[SIM_UUID], const char *kind, const char *seed)
{
        uint64_t high = hash(UINT64_C(0xcbf29ce484222325), seed);
        uint64_t low = hash(high * UINT64_C(0x9e3779b97f4a7c15) + 1, seed);

        /* Version 4, variant 1, as the driver's UUIDs. */
        high = (high & ~UINT64_C(0xf000)) | 0x4000;
        low = (low & ~(UINT64_C(3) << 62)) | UINT64_C(2) << 62;
        snprintf(uuid, SIM_UUID, "%s-%08x-%04x-%04x-%04x-%012llx", kind, (unsigned int)(high >> 32),
                (unsigned int)(high >> 16 & 0xffff), (unsigned int)(high & 0xffff), (unsigned int)(low >> 48),
                (unsigned long long)(low & 0xffffffffffff));
}

void sim_uuid_gpu(char uuid[SIM_UUID], const char *model, size_t position)
{
        _free_ char *seed = xasprintf("%s %zu", model, position);

        sim_uuid(uuid, "GPU", seed);
}
