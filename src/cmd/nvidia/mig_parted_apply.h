/* `nvidia-mig-parted apply` and `restore`: changes with hooks. Parts of cmd/nvidia/mig_parted.c. */
#pragma once

#include <stdbool.h>

#include "cmd/cli/command.h"

struct mig_parted_change {
        char *const *environment; /* of hooks: "KEY=value", NULL-terminated */
        bool is_debug;
        const char *config_file;     /* of apply */
        const char *selected_config; /* likewise */
        const char *checkpoint_file; /* of restore; NULL for apply */
        const char *hooks_file;      /* or "" */
        const char *state_directory;
        bool is_mode_only;
        bool skips_reset;
};

/* Returns the exit status, or -1. */
int mig_parted_change(
        const struct command_call *call, const struct mig_parted_change *change, struct error *err) MUST_USE;
