/*
 * What k of N replicas of a unit are worth. Pure arithmetic.
 */
#pragma once

#include "share/plan.h"

struct share {
        uint64_t memory_mib;           /* pinned device memory limit; 0: none (time-slicing, unknown memory) */
        unsigned int threads_permille; /* active thread percentage × 10; 1000: no limit */
        unsigned int sms;              /* provisioning sm: whole SM chunks; 0: not by SMs */
};

/*
 * |k| replicas of |unit| held by one container, 1 ≤ k ≤ unit->replicas. A whole unit has no limit, though others of its
 * resource be shared.
 *
 * uniform:  memory total/N in MiB, truncated, and 100/N percent whatever k is: the control daemon's defaults, NVIDIA's
 *           formula, which no client can raise.
 * half:     the same, with min(100, 200·k/N) percent of threads and k times the memory.
 * weighted: k·total/N in MiB, k·100/N percent.
 */
struct share share_of(const struct resource *resource, const struct unit *unit, unsigned int k);
