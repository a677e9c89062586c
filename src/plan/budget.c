#include "plan/budget.h"

#include <limits.h>

#define MIB ((uint64_t)1024 * 1024)

/* The driver's part of |gpu|'s memory. */
static uint64_t driver_mib(const struct gpu *gpu)
{
        uint64_t step = BUDGET_DRIVER_STEP_MIB * MIB;

        if (gpu->memory_reserved == 0)
                return BUDGET_DRIVER_MIB;
        return (gpu->memory_reserved + step - 1) / step * BUDGET_DRIVER_STEP_MIB;
}

uint64_t budget_estimated_reserve_mib(const struct gpu *gpu, bool is_mig)
{
        return is_mig ? BUDGET_SERVER_MIB : driver_mib(gpu) + BUDGET_SERVER_MIB;
}

uint64_t budget_reserve_mib(const struct unit *unit)
{
        const struct sharing_section *section = unit->shared->section;

        if (section->provisioning == PROVISIONING_UNIFORM)
                return 0;
        if (section->has_memory_reserve)
                return section->memory_reserve_mib;
        return budget_estimated_reserve_mib(unit->gpu, unit->mig != NULL);
}

uint64_t budget_usable_mib(const struct unit *unit)
{
        uint64_t total = unit->memory / MIB;
        uint64_t reserve = budget_reserve_mib(unit);

        return total > reserve ? total - reserve : 0;
}

uint64_t budget_share_mib(const struct unit *unit, unsigned int k)
{
        return k * budget_usable_mib(unit) / unit->replicas;
}

unsigned int budget_most_replicas(const struct unit *unit)
{
        if (unit->memory == 0)
                return UINT_MAX;
        return (unsigned int)MIN(budget_usable_mib(unit) / BUDGET_LEAST_SHARE_MIB, (uint64_t)UINT_MAX);
}
