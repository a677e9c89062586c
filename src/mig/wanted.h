/*
 * The MIG mode that a configuration wants of one GPU, and how many MIG devices of each profile. It has neither
 * placements (mig/geometry.h) nor the present users.
 *
 * "1c.3g.20gb" is a device with one slice of a GPU instance of the profile 3g.20gb, which others share (mig/shape.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "mig/node.h"

struct mig_wanted_count {
        const char *profile;  /* of the GPU instance: "1g.10gb+me", as gpu/mig_instances.h names it */
        unsigned int count;   /* at least 1 */
        unsigned int compute; /* slices of the device's compute instance; 0: all of the GPU instance */
};

struct mig_wanted {
        bool is_named; /* false: no entry is for this GPU, and it is left alone */
        bool is_enabled;
        const struct mig_wanted_count *counts; /* each profile and number of slices once; none while MIG is disabled */
        size_t n_counts;
};

/* The count of these devices among |counts|, or NULL. */
struct mig_wanted_count *mig_wanted_find(
        struct mig_wanted_count *counts, size_t n_counts, const char *profile, unsigned int compute);

/* Adds to the count of these devices, or a new one, for which |counts| has room. */
void mig_wanted_add(struct mig_wanted_count *counts, size_t *n_counts, const struct mig_wanted_count *added);

/*
 * Whether the GPU has what is wanted; a GPU that is not named has it, and placements do not count. NULL: it has.
 * Otherwise how it differs, in |arena|: "GPU 0 has 7 of 1g.5gb, wanted are 2". With |is_mode_only| the mode counts
 * alone. A mode that waits for a reset is not there yet.
 */
const char *mig_compare(
        struct arena *arena, const struct mig_node_gpu *gpu, const struct mig_wanted *wanted, bool is_mode_only);
