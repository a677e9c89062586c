// SPDX-License-Identifier: Apache-2.0
/*
 * The commands below `warpshare mig`, and what `nvidia-mig-parted` (cmd/nvidia/mig_parted.c), which does the same by
 * NVIDIA's options, has of them.
 */
#pragma once

#include <stdio.h>

#include "cmd/cli/command.h"
#include "gpu/nvml.h"
#include "mig/change.h"
#include "mig/node.h"
#include "mig/parted.h"

extern const struct command mig_command_apply;
extern const struct command mig_command_plan;
extern const struct command mig_command_restore;

/* The driver, or its library, let a command not come to its end. */
enum { EXIT_INTERRUPTED = 4 };

/* Where NVML is: of option_table, for |shared| of a command line that has no others. */
extern const char *const mig_command_shared[];

/* "yaml", "json" */
extern const char *const mig_command_formats[];

/* Shared options of the commands that change something. */
extern const char *const mig_command_change_shared[];

/* By enum mig_mode_change. */
extern const char *const mig_command_mode_changes[];

/* Options of several commands. */
#define MIG_COMMAND_MODE_CHANGE                                                                                        \
        COMMAND_CHOICE("mode-change", mig_command_mode_changes, "refuse",                                              \
                "where the MIG mode of a GPU (Ampere) changes only by a reset: refuse; reset, by nvidia-smi, "         \
                "which nobody may hold the GPU for; reboot: leave the mode pending with exit status 3, and "           \
                "finish by --resume after the reboot; or reset-or-reboot: that where the reset fails",                 \
                .environment = {"WARPSHARE_MIG_MODE_CHANGE"})
#define MIG_COMMAND_STATE_DIRECTORY                                                                                    \
        COMMAND_TEXT("state-directory", "/var/lib/warpshare/mig", "PATH",                                              \
                "folder for the record of a change under way, and for the lock; it has to outlive a reboot",           \
                .environment = {"WARPSHARE_MIG_STATE_DIRECTORY"})
#define MIG_COMMAND_FILE                                                                                               \
        COMMAND_TEXT("file", "", "PATH",                                                                               \
                "file of configurations in the format of NVIDIA's mig-parted, - for standard input; empty: "           \
                "the default configurations of this node ('warpshare mig generate')",                                  \
                .aliases = {"f"})
#define MIG_COMMAND_CONFIG                                                                                             \
        COMMAND_TEXT("config", "", "NAME", "the configuration of the file; empty: the only one", .aliases = {"c"})
#define MIG_COMMAND_FORMAT                                                                                             \
        COMMAND_CHOICE("output", mig_command_formats, "yaml", "yaml or json; NVIDIA's mig-parted reads both",          \
                .aliases = {"o"})

/* ---- what several commands need ---- */

/* The GPUs of this node, and what a configuration wants of them. */
struct mig_source {
        struct arena arena;
        struct nvml *nvml;
        struct mig_node node;
        struct mig_parted parted; /* of the file; without one those that are generated */
        const struct mig_parted_config *config;
        const struct mig_wanted *wanted; /* of each GPU of |node| */
};

/* Also reads the configurations of |file|; "": those that are generated. Warnings go to standard error. */
int mig_source_open_file(
        struct mig_source *ret, const struct option_set *set, const char *file, struct error *err) MUST_USE;

/* Also chooses the configuration |name|; |is_mode_only| as in mig_parted_resolve(). */
int mig_source_open(struct mig_source *ret, const struct option_set *set, const char *file, const char *name,
        bool is_mode_only, struct error *err) MUST_USE;

void mig_source_close(struct mig_source *source);

/* COMMAND_REFUSED, as NVIDIA's program says it, if that is asked and its option at |position| has no value. */
int mig_require(const struct command_call *call, size_t position, struct error *err) MUST_USE;

/*
 * These print what they found and return the exit status, or -1. Their options stand first in the tables of both
 * programs: those of assert are FILE, CONFIG, MODE_ONLY and VALID, that of checkpoint FILE, those of export FORMAT and
 * NAME.
 */
int mig_assert(struct command_call *call, struct error *err);
int mig_checkpoint(struct command_call *call, struct error *err);
int mig_export_show(struct command_call *call, struct error *err);
int mig_generate_show(struct command_call *call, const char *file, bool is_json, struct error *err);

/* ---- a change (apply.c) ---- */

/* Where a mode needs a reset: as --mode-change has them. */
enum mig_mode_change { MIG_MODE_REFUSE, MIG_MODE_RESET, MIG_MODE_REBOOT, MIG_MODE_RESET_OR_REBOOT };

struct mig_apply {
        const char *file;       /* of configurations; "": those that are generated */
        const char *config;     /* the one of them; "": the only one */
        const char *checkpoint; /* to be restored, instead of both; else NULL */
        const char *only;       /* mig_plan_check_only(); NULL or "": any GPU may change */
        const char *state_directory;
        enum mig_mode_change mode_change;
        bool is_mode_only;        /* modes alone, and no devices */
        bool has_to_end;          /* a mode that waits for a reboot is an error */
        FILE *steps;              /* where each step is said; NULL: nowhere */
        const char *hooks_file;   /* mig/hooks.h; NULL or "": none */
        char *const *environment; /* of hooks: "KEY=value", NULL-terminated */
        bool shows_hooks;         /* what they print */
};

struct mig_applied {
        const char *config; /* its name, or "checkpoint" */
        enum mig_change_end end;
        struct error reset_error; /* why it waits for a reboot; ERROR_NONE: no reset was tried */
};

/*
 * Makes the change, with the lock of this node. One that another process left half done is finished first, or undone;
 * one that waits for a reboot is given up for this one.
 *
 * Hooks run in the order of NVIDIA's program: apply-start; pre-apply-mode if the mode of a GPU differs;
 * pre-apply-config if devices differ; apply-exit, always. One thing differs from it: pre-apply-config runs before the
 * mode changes, not after, because mode and devices are one change here that is done or undone as a whole
 * (mig/change.h). |call| has mig_command_change_shared. UNAVAILABLE: among others, another process changes this node
 * now.
 */
int mig_apply(
        struct mig_applied *ret, struct command_call *call, const struct mig_apply *wish, struct error *err) MUST_USE;

/*
 * Resets GPUs by `nvidia-smi --gpu-reset`, so that a MIG mode that was set becomes current. Nobody may use them
 * meanwhile, we neither. nvidia-smi runs in |driver_root|, with the driver's files, where that has one; else that of
 * PATH runs. What it prints goes to standard error. TIMEOUT: it has not ended within |timeout_ms|, and it is not known
 * whether the GPUs were reset.
 */
#define MIG_RESET_MS 120000
int mig_reset(
        const char *const *uuids, size_t n_uuids, const char *driver_root, int timeout_ms, struct error *err) MUST_USE;
