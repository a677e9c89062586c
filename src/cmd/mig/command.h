/*
 * The commands below `warpshare mig`, one file each; argv[0] is the word of the command. What each does is a function
 * of its own, since `nvidia-mig-parted` (cmd/nvidia/mig_parted.c) does the same by NVIDIA's options.
 */
#pragma once

#include <stdbool.h>

#include "base/strbuf.h"
#include "cmd/cli/command.h"
#include "cmd/mig/under_way.h"

int mig_command_apply(int argc, char **argv);
int mig_command_assert(int argc, char **argv);
int mig_command_checkpoint(int argc, char **argv);
int mig_command_export(int argc, char **argv);
int mig_command_generate(int argc, char **argv);
int mig_command_plan(int argc, char **argv);
int mig_command_restore(int argc, char **argv);

extern const struct command_line mig_command_apply_line;
extern const struct command_line mig_command_assert_line;
extern const struct command_line mig_command_checkpoint_line;
extern const struct command_line mig_command_export_line;
extern const struct command_line mig_command_generate_line;
extern const struct command_line mig_command_plan_line;
extern const struct command_line mig_command_restore_line;

/* The driver, or its library, let a command not come to its end. */
enum { EXIT_INTERRUPTED = 4 };

/* Where NVML is: of option_table, for |shared| of a command line that has no others. */
extern const char *const mig_command_shared[];

/* "yaml", "json" */
extern const char *const mig_command_formats[];

/* Of those that change something. */
extern const char *const mig_command_change_shared[];

/* As enum mig_mode_change. */
extern const char *const mig_command_mode_changes[];

/* Options of several commands. */
#define MIG_COMMAND_MODE_CHANGE                                                                                        \
        {                                                                                                              \
                .flag = "mode-change", .environment = {"WARPSHARE_MIG_MODE_CHANGE"}, .type = OPTION_CHOICE,            \
                .choices = mig_command_mode_changes, .fallback = "refuse", .argument = "WORD",                         \
                .help = "where the MIG mode of a GPU (Ampere) changes only by a reset: refuse; reset, by nvidia-smi, " \
                        "which nobody may hold the GPU for; reboot: leave the mode pending with exit status 3, and "   \
                        "finish by --resume after the reboot; or reset-or-reboot: that where the reset fails"          \
        }
#define MIG_COMMAND_STATE_DIRECTORY                                                                                    \
        {                                                                                                              \
                .flag = "state-directory", .environment = {"WARPSHARE_MIG_STATE_DIRECTORY"}, .type = OPTION_STRING,    \
                .fallback = "/var/lib/warpshare/mig", .argument = "PATH",                                              \
                .help = "folder for the record of a change under way, and for the lock; it has to outlive a reboot"    \
        }
#define MIG_COMMAND_FILE                                                                                               \
        {                                                                                                              \
                .flag = "file", .aliases = {"f"}, .type = OPTION_STRING, .fallback = "", .argument = "PATH",           \
                .help = "file of configurations in the format of NVIDIA's mig-parted, - for standard input; empty: "   \
                        "the default configurations of this node ('warpshare mig generate')"                           \
        }
#define MIG_COMMAND_CONFIG                                                                                             \
        {                                                                                                              \
                .flag = "config", .aliases = {"c"}, .type = OPTION_STRING, .fallback = "", .argument = "NAME",         \
                .help = "the configuration of the file; empty: the only one"                                           \
        }
#define MIG_COMMAND_FORMAT                                                                                             \
        {                                                                                                              \
                .flag = "output", .aliases = {"o"}, .type = OPTION_CHOICE, .choices = mig_command_formats,             \
                .fallback = "yaml", .argument = "WORD", .help = "yaml or json; NVIDIA's mig-parted reads both"         \
        }

struct mig_apply_options {
        const char *file;
        const char *config;
        const char *only;       /* mig_plan_check_only(); "": any GPU may change */
        const char *checkpoint; /* of a restore, instead of both; else NULL */
        enum mig_mode_change mode_change;
        const char *state_directory;
        bool resumes; /* without |file|, |config| and |checkpoint| */
        bool is_json;
};

/* |set| has "system-root" as well. */
int mig_apply(const struct command_line *line, const struct option_set *set, const struct mig_apply_options *options);

/* Each prints what it found and returns the exit status; |line| names the program in messages. */
int mig_assert(const struct command_line *line, const struct option_set *set, const char *file, const char *config,
        bool is_mode_only, bool is_valid_only);
int mig_checkpoint(const struct command_line *line, const struct option_set *set, const char *file);
int mig_export_show(const struct command_line *line, const struct option_set *set, const char *name, bool is_json);
int mig_generate_show(const struct command_line *line, const struct option_set *set, const char *file, bool is_json);

/*
 * Writes |text| to |file|; "" is standard output. What is no regular file, as /dev/stdout or a pipe, is written to and
 * not replaced.
 */
int mig_command_write(const char *file, const struct strbuf *text, struct error *err) MUST_USE;
