/*
 * Variables that describe the share of an MPS container, so that frameworks can adapt to it: CUDA shows them the whole
 * GPU. Pure.
 *
 *   WARPSHARE_REPLICAS           "7/20"
 *   WARPSHARE_FRACTION           "0.35": of the unit's usable memory; under uniform one replica's, however many it has
 *   WARPSHARE_MEMORY_LIMIT_MIB   "8332", where the memory is known
 *   WARPSHARE_THREAD_PERCENTAGE  "35.0"
 *   WARPSHARE_SMS                "24", where the unit reports how many it has
 *   WARPSHARE_TIER               "verified", "verified-no-memory-limit": mps_tier_promise()
 *
 * A container that holds parts of several units gets none of these, since they would not describe any single unit.
 */
#pragma once

#include "plan/mps_limits.h"

#define MPS_FACTS_MAX ((size_t)6)

struct mps_fact {
        const char *name;
        const char *value;
};

/* At most MPS_FACTS_MAX of them, in |arena|. |sms|: of the container's partition; 0: from the share. */
size_t mps_facts(
        struct mps_fact *ret, struct arena *arena, const struct mps_part *part, enum mps_tier tier, unsigned int sms);
