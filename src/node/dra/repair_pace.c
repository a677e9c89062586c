#include "node/dra/repair_pace.h"

void dra_repair_allow(struct dra_repair_pace *pace, size_t n_writes)
{
        pace->n_writes = n_writes;
}

uint64_t dra_repair_next(struct dra_repair_pace *pace, size_t n_writes, uint64_t now_ms, uint32_t random)
{
        if (pace->n_writes > 0)
                return 0;
        if (now_ms < pace->next_ms)
                return pace->next_ms - now_ms;
        if (now_ms >= pace->next_ms + DRA_REPAIR_QUIET_MS)
                pace->pauses.failures = 0;
        pace->next_ms = now_ms + backoff_next(&pace->pauses, 0, random);
        pace->n_writes = n_writes;
        return 0;
}

void dra_repair_written(struct dra_repair_pace *pace)
{
        if (pace->n_writes > 0)
                pace->n_writes--;
}

void dra_repair_rest(struct dra_repair_pace *pace)
{
        pace->n_writes = 0;
}
