#include "plan/mps_facts.h"

#include <string.h>

/* |k| / |n| with up to four decimals, without trailing zeros: "0.35", "1". */
static const char *fraction(struct arena *arena, unsigned int k, unsigned int n)
{
        char *text = arena_printf(arena, "%u.%04u", k / n, 10000 * (k % n) / n);
        size_t length = strlen(text);

        while (text[length - 1] == '0')
                text[--length] = '\0';
        if (text[length - 1] == '.')
                text[--length] = '\0';
        return text;
}

size_t mps_facts(
        struct mps_fact *ret, struct arena *arena, const struct mps_part *part, enum mps_tier tier, unsigned int sms)
{
        struct share share = part->share;
        unsigned int n = part->unit->replicas;
        unsigned int worth = part->resource->provisioning == PROVISIONING_UNIFORM ? 1 : part->replicas;
        size_t count = 0;

        if (!sms)
                sms = share_sms(part->unit, &share);
        ret[count++] = (struct mps_fact){"WARPSHARE_REPLICAS", arena_printf(arena, "%u/%u", part->replicas, n)};
        ret[count++] = (struct mps_fact){"WARPSHARE_FRACTION", fraction(arena, worth, n)};
        if (share.memory_mib)
                ret[count++] = (struct mps_fact){"WARPSHARE_MEMORY_LIMIT_MIB",
                        arena_printf(arena, "%llu", (unsigned long long)share.memory_mib)};
        ret[count++] = (struct mps_fact){"WARPSHARE_THREAD_PERCENTAGE",
                arena_printf(arena, "%u.%u", share.threads_permille / 10, share.threads_permille % 10)};
        if (sms)
                ret[count++] = (struct mps_fact){"WARPSHARE_SMS", arena_printf(arena, "%u", sms)};
        ret[count++] = (struct mps_fact){
                "WARPSHARE_TIER", mps_tier_promise(tier, share.memory_mib || share_limits_memory(part->unit))};
        return count;
}
