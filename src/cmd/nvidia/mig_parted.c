/*
 * nvidia-mig-parted: the commands of `warpshare mig` with the options, variables, words and exit statuses of NVIDIA's
 * program of that name (v0.15). Its scripts and the GPU Operator's MIG manager start it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/apart.h"
#include "cmd/commands.h"
#include "cmd/mig/command.h"
#include "cmd/nvidia/mig_parted_apply.h"

#define PROGRAM "nvidia-mig-parted"
#define VERSION PROGRAM " version " WARPSHARE_VERSION " (Warpshare)"

#define PARTED_LINE(command, text)                                                                                     \
        {                                                                                                              \
                .shared = mig_command_shared, .own = command##_own, .n_own = ARRAY_SIZE(command##_own),                \
                .program = PROGRAM " " text, .help = command##_help, .version = VERSION, .is_drop_in = true,           \
                .takes_joined = true, .passes_words = true                                                             \
        }

#define PARTED_CONFIG_FILE                                                                                             \
        {                                                                                                              \
                .flag = "config-file", .aliases = {"f"}, .environment = {"MIG_PARTED_CONFIG_FILE"},                    \
                .type = OPTION_STRING, .fallback = "", .argument = "PATH",                                             \
                .help = "file of configurations; - for standard input; needed"                                         \
        }
#define PARTED_SELECTED                                                                                                \
        {                                                                                                              \
                .flag = "selected-config", .aliases = {"c"}, .environment = {"MIG_PARTED_SELECTED_CONFIG"},            \
                .type = OPTION_STRING, .fallback = "", .argument = "NAME",                                             \
                .help = "the configuration of the file; empty: the only one"                                           \
        }
#define PARTED_MODE_ONLY                                                                                               \
        {                                                                                                              \
                .flag = "mode-only", .aliases = {"m"}, .environment = {"MIG_PARTED_MODE_CHANGE_ONLY"},                 \
                .type = OPTION_BOOL, .fallback = "false", .help = "only whether MIG is enabled, not its devices"       \
        }
#define PARTED_FORMAT                                                                                                  \
        {                                                                                                              \
                .flag = "output-format", .aliases = {"o"}, .environment = {"MIG_PARTED_OUTPUT_FORMAT"},                \
                .type = OPTION_CHOICE, .choices = mig_command_formats, .fallback = "yaml", .argument = "WORD",         \
                .help = "yaml or json"                                                                                 \
        }
#define PARTED_HOOKS                                                                                                   \
        {                                                                                                              \
                .flag = "hooks-file", .aliases = {"k"}, .environment = {"MIG_PARTED_HOOKS_FILE"},                      \
                .type = OPTION_STRING, .fallback = "", .argument = "PATH",                                             \
                .help = "programs that run before and after a change; empty: none"                                     \
        }
#define PARTED_DEBUG(more)                                                                                             \
        {                                                                                                              \
                .flag = "debug", .aliases = {"d"}, .environment = {"MIG_PARTED_DEBUG"}, .type = OPTION_BOOL,           \
                .fallback = "false", .help = "also show each step, and what hooks print" more                          \
        }
/* NVIDIA's is an option of the program and of each command. */
#define PARTED_DEBUG_ALONE                                                                                             \
        {                                                                                                              \
                .flag = "debug", .aliases = {"d"}, .environment = {"MIG_PARTED_DEBUG"}, .type = OPTION_BOOL,           \
                .fallback = "false", .help = "changes nothing here: there are no steps to show"                        \
        }
#define PARTED_STATE                                                                                                   \
        {                                                                                                              \
                .flag = "state-directory", .environment = {"WARPSHARE_MIG_STATE_DIRECTORY"}, .type = OPTION_STRING,    \
                .fallback = "/var/lib/warpshare/mig", .argument = "PATH",                                              \
                .help = "folder of the record of a change that is under way; not an option of NVIDIA's"                \
        }
#define PARTED_CHECKPOINT_FILE                                                                                         \
        {                                                                                                              \
                .flag = "checkpoint-file", .aliases = {"f"}, .environment = {"MIG_PARTED_CHECKPOINT_FILE"},            \
                .type = OPTION_STRING, .fallback = "", .argument = "PATH", .help = "the checkpoint; needed"            \
        }

static int miss(const struct command_line *line, const char *flag)
{
        struct error err;

        error_raise(&err, ERROR_INVALID, "missing required flags '%s'", flag);
        return command_line_refuse(line, &err);
}

static bool is_true(const char *value)
{
        return strcmp(value, "true") == 0;
}

/* ---- assert ---- */

enum { ASSERT_FILE, ASSERT_SELECTED, ASSERT_MODE_ONLY, ASSERT_VALID, ASSERT_DEBUG, ASSERT_COUNT };

static const struct option assert_own[ASSERT_COUNT] = {
        [ASSERT_FILE] = PARTED_CONFIG_FILE,
        [ASSERT_SELECTED] = PARTED_SELECTED,
        [ASSERT_MODE_ONLY] = PARTED_MODE_ONLY,
        [ASSERT_VALID] = {.flag = "valid-config",
                .aliases = {"a"},
                .environment = {"MIG_PARTED_VALID_CONFIG"},
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "only whether the file can be read and has the configuration"},
        [ASSERT_DEBUG] = PARTED_DEBUG_ALONE,
};

static const char assert_help[] =
        "usage: " PROGRAM " assert [OPTION...]\n"
        "\n"
        "Compares the MIG geometry of this node's GPUs with a configuration. The exit status is 0 when they are\n"
        "the same, else 1.\n"
        "\n";

static const struct command_line assert_line = PARTED_LINE(assert, "assert");

static int run_assert(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ASSERT_COUNT];
        struct option_set set;
        int status;

        if (!command_line_read(&assert_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!*values[ASSERT_FILE])
                return miss(&assert_line, "config-file");
        return mig_assert(&assert_line, &set, values[ASSERT_FILE], values[ASSERT_SELECTED],
                is_true(values[ASSERT_MODE_ONLY]), is_true(values[ASSERT_VALID]));
}

/* ---- export ---- */

enum { EXPORT_FORMAT, EXPORT_LABEL, EXPORT_DEBUG, EXPORT_COUNT };

static const struct option export_own[EXPORT_COUNT] = {
        [EXPORT_FORMAT] = PARTED_FORMAT,
        [EXPORT_LABEL] = {.flag = "config-label",
                .aliases = {"l"},
                .environment = {"MIG_PARTED_CONFIG_LABEL"},
                .type = OPTION_STRING,
                .fallback = "current",
                .argument = "NAME",
                .help = "what the configuration is called"},
        [EXPORT_DEBUG] = PARTED_DEBUG_ALONE,
};

static const char export_help[] =
        "usage: " PROGRAM " export [OPTION...]\n"
        "\n"
        "Prints the MIG geometry that this node's GPUs have as a file with one configuration.\n"
        "\n";

static const struct command_line export_line = PARTED_LINE(export, "export");

static int run_export(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[EXPORT_COUNT];
        struct option_set set;
        int status;

        if (!command_line_read(&export_line, &set, values, &arena, argc, argv, &status))
                return status;
        return mig_export_show(&export_line, &set, values[EXPORT_LABEL], strcmp(values[EXPORT_FORMAT], "json") == 0);
}

/* ---- generate-config ---- */

enum { GENERATE_FILE, GENERATE_FORMAT, GENERATE_DEBUG, GENERATE_COUNT };

static const struct option generate_own[GENERATE_COUNT] = {
        [GENERATE_FILE] = {.flag = "output-file",
                .aliases = {"f"},
                .environment = {"MIG_PARTED_OUTPUT_FILE"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "PATH",
                .help = "file to write; empty: standard output"},
        [GENERATE_FORMAT] = PARTED_FORMAT,
        [GENERATE_DEBUG] = PARTED_DEBUG_ALONE,
};

static const char generate_help[] =
        "usage: " PROGRAM " generate-config [OPTION...]\n"
        "\n"
        "Writes the default configurations of this node, of the profiles that its driver lists.\n"
        "\n";

static const struct command_line generate_line = PARTED_LINE(generate, "generate-config");

static int run_generate(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[GENERATE_COUNT];
        struct option_set set;
        int status;

        if (!command_line_read(&generate_line, &set, values, &arena, argc, argv, &status))
                return status;
        return mig_generate_show(
                &generate_line, &set, values[GENERATE_FILE], strcmp(values[GENERATE_FORMAT], "json") == 0);
}

/* ---- checkpoint ---- */

static const struct option checkpoint_own[] = {PARTED_CHECKPOINT_FILE, PARTED_DEBUG_ALONE};

static const char checkpoint_help[] =
        "usage: " PROGRAM " checkpoint [OPTION...]\n"
        "\n"
        "Writes the MIG geometry that this node's GPUs have, with its placements, as JSON.\n"
        "\n";

static const struct command_line checkpoint_line = PARTED_LINE(checkpoint, "checkpoint");

static int run_checkpoint(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(checkpoint_own)];
        struct option_set set;
        int status;

        if (!command_line_read(&checkpoint_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!*values[0])
                return miss(&checkpoint_line, "checkpoint-file");
        return mig_checkpoint(&checkpoint_line, &set, values[0]);
}

/* ---- apply, restore ---- */

static const char *const change_shared[] = {"driver-root-ctr-path", "nvml-library", "system-root", NULL};

/* Each variable of NVIDIA's options, with its value, set or not: the environment of hooks. */
static char **hook_environment(struct arena *arena, const struct command_line *line, const char *const *values)
{
        char **environment = ARENA_ARRAY(arena, char *, line->n_own + 1);
        size_t count = 0;

        for (size_t i = 0; i < line->n_own; i++)
                if (text_starts_with(line->own[i].environment[0], "MIG_PARTED_"))
                        environment[count++] = arena_printf(arena, "%s=%s", line->own[i].environment[0], values[i]);
        return environment;
}

enum {
        APPLY_FILE,
        APPLY_SELECTED,
        APPLY_HOOKS,
        APPLY_SKIP_RESET,
        APPLY_MODE_ONLY,
        APPLY_STATE,
        APPLY_DEBUG,
        APPLY_COUNT
};

static const struct option apply_own[APPLY_COUNT] = {
        [APPLY_FILE] = PARTED_CONFIG_FILE,
        [APPLY_SELECTED] = PARTED_SELECTED,
        [APPLY_HOOKS] = PARTED_HOOKS,
        [APPLY_SKIP_RESET] = {.flag = "skip-reset",
                .aliases = {"s"},
                .environment = {"MIG_PARTED_SKIP_RESET"},
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "do not reset GPUs whose mode needs that; it stays pending"},
        [APPLY_MODE_ONLY] = PARTED_MODE_ONLY,
        [APPLY_STATE] = PARTED_STATE,
        [APPLY_DEBUG] = PARTED_DEBUG(""),
};

static const char apply_help[] =
        "usage: " PROGRAM " apply [OPTION...]\n"
        "\n"
        "Gives this node's GPUs the MIG geometry of a configuration. Only MIG devices that are not in it are destroyed, and\n"
        "none that a process uses. After an error the geometry is as before. The exit status is 0, or 1.\n"
        "\n";

static const struct command_line apply_line = {.shared = change_shared,
        .own = apply_own,
        .n_own = APPLY_COUNT,
        .program = PROGRAM " apply",
        .help = apply_help,
        .version = VERSION,
        .takes_joined = true,
        .passes_words = true,
        .is_drop_in = true};

static int run_apply(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[APPLY_COUNT];
        struct option_set set;
        int status;

        if (!command_line_read(&apply_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!*values[APPLY_FILE])
                return miss(&apply_line, "config-file");
        return mig_parted_change(&(struct mig_parted_change){.line = &apply_line,
                .set = &set,
                .environment = hook_environment(&arena, &apply_line, values),
                .is_debug = is_true(values[APPLY_DEBUG]),
                .config_file = values[APPLY_FILE],
                .selected_config = values[APPLY_SELECTED],
                .hooks_file = values[APPLY_HOOKS],
                .state_directory = values[APPLY_STATE],
                .is_mode_only = is_true(values[APPLY_MODE_ONLY]),
                .skips_reset = is_true(values[APPLY_SKIP_RESET])});
}

enum { RESTORE_FILE, RESTORE_HOOKS, RESTORE_MODE_ONLY, RESTORE_STATE, RESTORE_DEBUG, RESTORE_COUNT };

static const struct option restore_own[RESTORE_COUNT] = {
        [RESTORE_FILE] = PARTED_CHECKPOINT_FILE,
        [RESTORE_HOOKS] = PARTED_HOOKS,
        [RESTORE_MODE_ONLY] = PARTED_MODE_ONLY,
        [RESTORE_STATE] = PARTED_STATE,
        [RESTORE_DEBUG] = PARTED_DEBUG(""),
};

static const char restore_help[] =
        "usage: " PROGRAM " restore [OPTION...]\n"
        "\n"
        "Gives this node's GPUs the MIG geometry of a checkpoint, at the same placements. What stands at its place stays.\n"
        "After an error the geometry is as before. The exit status is 0, or 1.\n"
        "\n";

static const struct command_line restore_line = {.shared = change_shared,
        .own = restore_own,
        .n_own = RESTORE_COUNT,
        .program = PROGRAM " restore",
        .help = restore_help,
        .version = VERSION,
        .takes_joined = true,
        .passes_words = true,
        .is_drop_in = true};

static int run_restore(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[RESTORE_COUNT];
        struct option_set set;
        int status;

        if (!command_line_read(&restore_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!*values[RESTORE_FILE])
                return miss(&restore_line, "checkpoint-file");
        return mig_parted_change(&(struct mig_parted_change){.line = &restore_line,
                .set = &set,
                .environment = hook_environment(&arena, &restore_line, values),
                .is_debug = is_true(values[RESTORE_DEBUG]),
                .checkpoint_file = values[RESTORE_FILE],
                .hooks_file = values[RESTORE_HOOKS],
                .state_directory = values[RESTORE_STATE],
                .is_mode_only = is_true(values[RESTORE_MODE_ONLY])});
}

/* ---- the table of commands ---- */

static const struct option own[] = {
        PARTED_DEBUG("; stands before the command"),
};

static const char help[] =
        "usage: " PROGRAM " [--debug] COMMAND [OPTION...]\n"
        "       " PROGRAM " apply [OPTION...]             give the GPUs the geometry of a configuration\n"
        "       " PROGRAM " assert [OPTION...]            whether the GPUs have what a configuration wants\n"
        "       " PROGRAM " export [OPTION...]            print the geometry that they have as a configuration\n"
        "       " PROGRAM " generate-config [OPTION...]   write the default configurations of this node\n"
        "       " PROGRAM " checkpoint [OPTION...]        write the geometry with its placements\n"
        "       " PROGRAM " restore [OPTION...]           give the GPUs the geometry of a checkpoint\n"
        "\n"
        "Warpshare as a drop-in for NVIDIA's program of that name, with its options, variables, files and exit\n"
        "statuses: 0, or 1. 'warpshare mig' has the same commands and more; docs/mig.md says what differs.\n"
        "\n";

const struct command_line command_nvidia_mig_parted_line = {
        .shared = command_line_none,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = PROGRAM,
        .help = help,
        .version = VERSION,
        .takes_joined = true,
        .is_drop_in = true,
};

const struct command command_nvidia_mig_parted_table[] = {
        {"apply", "give the GPUs the geometry of a configuration", run_apply, &apply_line, NULL},
        {"assert", "whether the GPUs have what a configuration wants", run_assert, &assert_line, NULL},
        {"export", "print the geometry that the GPUs have as a configuration", run_export, &export_line, NULL},
        {"generate-config", "write the default configurations of this node", run_generate, &generate_line, NULL},
        {"checkpoint", "write the geometry with its placements", run_checkpoint, &checkpoint_line, NULL},
        {"restore", "give the GPUs the geometry of a checkpoint", run_restore, &restore_line, NULL},
        {0},
};

/* Options before the command are the program's own. */
static const struct command *find_command(int argc, char **argv, int *ret_position)
{
        for (int i = 1; i < argc; i++) {
                if (argv[i][0] == '-')
                        continue;
                *ret_position = i;
                return command_find(command_nvidia_mig_parted_table, argv[i]);
        }
        *ret_position = argc;
        return NULL;
}

int command_nvidia_mig_parted(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        struct error err;
        int position;
        const struct command *command = find_command(argc, argv, &position);
        int status;

        if (!command_line_read(&command_nvidia_mig_parted_line, &set, values, &arena, position, argv, &status))
                return status;
        if (is_true(values[0]))
                setenv("MIG_PARTED_DEBUG", "true", 1); /* for the command, which has the option as well */
        if (command)
                return command_run_apart(command, argc - position, argv + position, EXIT_FAILED);
        if (position < argc && !command_line_asks_for_help(&command_nvidia_mig_parted_line, argv[position])) {
                error_raise(&err, ERROR_INVALID, "'%.100s' is not a command", argv[position]);
                return command_line_refuse(&command_nvidia_mig_parted_line, &err);
        }
        command_line_print_help(&command_nvidia_mig_parted_line, &text);
        fputs(text.data, stdout);
        return 0;
}
