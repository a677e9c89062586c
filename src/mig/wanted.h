/*
 * What a MIG configuration wants of one GPU: MIG mode, and how many instances of which profile. It says nothing of placements
 * (mig/geometry.h), nor of who holds what is there now.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mig_wanted_count {
        const char *profile; /* "1g.10gb+me", as gpu/mig_instances.h names it */
        unsigned int count;  /* at least 1 */
};

struct mig_wanted {
        bool is_named; /* false: no entry is for this GPU, and it is left alone */
        bool is_enabled;
        const struct mig_wanted_count *counts; /* each profile once; none while MIG is disabled */
        size_t n_counts;
};
