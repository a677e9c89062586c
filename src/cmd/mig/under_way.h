/*
 * A change of the MIG geometry as a command has it: mig/change.h with the lock of this node, this boot, and nvidia-smi
 * for a reset.
 */
#pragma once

#include <stdio.h>

#include "cmd/cli/command.h"
#include "mig/change.h"

enum mig_mode_change {
        MIG_MODE_REFUSE,
        MIG_MODE_RESET,
        MIG_MODE_REBOOT,
        MIG_MODE_RESET_OR_REBOOT
}; /* where a mode needs a reset: as --mode-change has them */

struct mig_under_way {
        struct mig_change change;
        struct mig_change_options options;
        const struct option_set *set;
        FILE *steps; /* where each step is said; NULL: nowhere */
        char *boot_id;
};

/*
 * |set| has "driver-root-ctr-path", "nvml-library" and "system-root". An error closes it; UNAVAILABLE: among others,
 * another process changes this node now.
 */
int mig_under_way_open(struct mig_under_way *ret, const struct option_set *set, const char *state_directory,
        enum mig_mode_change mode_change, FILE *steps, struct error *err) MUST_USE;
void mig_under_way_close(struct mig_under_way *work);

/*
 * A change that another process left half done is finished first, or undone; one that waits for a reboot is given up
 * for the new one.
 */
int mig_under_way_settle(struct mig_under_way *work, struct error *err) MUST_USE;
