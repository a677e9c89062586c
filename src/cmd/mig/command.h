/*
 * The commands below `warpshare mig`, one file each; argv[0] is the word of the command. What each does is a function
 * of its own, since `nvidia-mig-parted` (cmd/nvidia/mig_parted.c) does the same by NVIDIA's options.
 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"
#include "cmd/cli/command.h"
#include "cmd/mig/under_way.h"

extern const struct command mig_command_apply;
extern const struct command mig_command_assert;
extern const struct command mig_command_checkpoint;
extern const struct command mig_command_export;
extern const struct command mig_command_generate;
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

/* As enum mig_mode_change. */
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

/* These print what they found and return the exit status, or -1. */
int mig_assert(struct command_call *call, const char *file, const char *config, bool is_mode_only, bool is_valid_only,
        struct error *err);
int mig_checkpoint(struct command_call *call, const char *file, struct error *err);
int mig_export_show(struct command_call *call, const char *name, bool is_json, struct error *err);
int mig_generate_show(struct command_call *call, const char *file, bool is_json, struct error *err);

/*
 * Writes |text| to |file|; "" is standard output. If |file| is not a regular file, such as /dev/stdout or a pipe, it is
 * written to and not replaced.
 */
int mig_command_write(const char *file, const struct strbuf *text, struct error *err) MUST_USE;
