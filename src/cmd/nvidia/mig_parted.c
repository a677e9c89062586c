// SPDX-License-Identifier: Apache-2.0
/*
 * nvidia-mig-parted: the commands of `warpshare mig` with the options, variables, words and exit statuses of NVIDIA's
 * program of that name (v0.15). Its scripts and the GPU Operator's MIG manager start it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/commands.h"
#include "cmd/mig/command.h"

#define PROGRAM "nvidia-mig-parted"
#define VERSION PROGRAM " version " WARPSHARE_VERSION " (Warpshare)"

#define PARTED_COMMAND(command, meaning, function, words, options, more)                                               \
        {                                                                                                              \
                .name = command, .summary = meaning, .run = function, .shared = words, COMMAND_OWN(options),           \
                .program = PROGRAM " " command, .version = VERSION, .is_drop_in = true, .takes_joined = true,          \
                .passes_words = true, .is_apart = true,                                                                \
                .help = "usage: " PROGRAM " " command " [OPTION...]\n\n" more "\n"                                     \
        }

#define PARTED_CONFIG_FILE                                                                                             \
        COMMAND_TEXT("config-file", "", "PATH", "file of configurations; - for standard input; needed",                \
                .aliases = {"f"}, .environment = {"MIG_PARTED_CONFIG_FILE"})
#define PARTED_SELECTED                                                                                                \
        COMMAND_TEXT("selected-config", "", "NAME", "the configuration of the file; empty: the only one",              \
                .aliases = {"c"}, .environment = {"MIG_PARTED_SELECTED_CONFIG"})
#define PARTED_MODE_ONLY                                                                                               \
        COMMAND_FLAG("mode-only", "only whether MIG is enabled, not its devices", .aliases = {"m"},                    \
                .environment = {"MIG_PARTED_MODE_CHANGE_ONLY"})
#define PARTED_FORMAT                                                                                                  \
        COMMAND_CHOICE("output-format", mig_command_formats, "yaml", "yaml or json", .aliases = {"o"},                 \
                .environment = {"MIG_PARTED_OUTPUT_FORMAT"})
#define PARTED_HOOKS                                                                                                   \
        COMMAND_TEXT("hooks-file", "", "PATH", "programs that run before and after a change; empty: none",             \
                .aliases = {"k"}, .environment = {"MIG_PARTED_HOOKS_FILE"})
/* NVIDIA's is an option of the program and of each command. */
#define PARTED_DEBUG(meaning) COMMAND_FLAG("debug", meaning, .aliases = {"d"}, .environment = {"MIG_PARTED_DEBUG"})
#define PARTED_DEBUG_STEPS PARTED_DEBUG("also show each step, and what hooks print")
#define PARTED_DEBUG_ALONE PARTED_DEBUG("changes nothing here: there are no steps to show")
#define PARTED_STATE                                                                                                   \
        COMMAND_TEXT("state-directory", "/var/lib/warpshare/mig", "PATH",                                              \
                "folder of the record of a change that is under way; not an option of NVIDIA's",                       \
                .environment = {"WARPSHARE_MIG_STATE_DIRECTORY"})
#define PARTED_CHECKPOINT_FILE                                                                                         \
        COMMAND_TEXT("checkpoint-file", "", "PATH", "the checkpoint; needed", .aliases = {"f"},                        \
                .environment = {"MIG_PARTED_CHECKPOINT_FILE"})

/* ---- assert ---- */

/* In the order of mig_assert(). */
static const struct option assert_own[] = {
        PARTED_CONFIG_FILE,
        PARTED_SELECTED,
        PARTED_MODE_ONLY,
        COMMAND_FLAG("valid-config", "only whether the file can be read and has the configuration", .aliases = {"a"},
                .environment = {"MIG_PARTED_VALID_CONFIG"}),
        PARTED_DEBUG_ALONE,
};

/* ---- export, generate-config, checkpoint ---- */

/* In the order of mig_export_show(). */
static const struct option export_own[] = {
        PARTED_FORMAT,
        COMMAND_TEXT("config-label", "current", "NAME", "what the configuration is called", .aliases = {"l"},
                .environment = {"MIG_PARTED_CONFIG_LABEL"}),
        PARTED_DEBUG_ALONE,
};

enum { GENERATE_FILE, GENERATE_FORMAT, GENERATE_DEBUG };

static const struct option generate_own[] = {
        [GENERATE_FILE] = COMMAND_TEXT("output-file", "", "PATH", "file to write; empty: standard output",
                .aliases = {"f"}, .environment = {"MIG_PARTED_OUTPUT_FILE"}),
        [GENERATE_FORMAT] = PARTED_FORMAT,
        [GENERATE_DEBUG] = PARTED_DEBUG_ALONE,
};

static int parted_generate(struct command_call *call, struct error *err)
{
        return mig_generate_show(call, call->values[GENERATE_FILE], command_has(call, GENERATE_FORMAT, "json"), err);
}

static const struct option checkpoint_own[] = {PARTED_CHECKPOINT_FILE, PARTED_DEBUG_ALONE};

/* ---- apply, restore ---- */

/* Each variable of NVIDIA's options, with its value, set or not: the environment of hooks. */
static char **hook_environment(struct command_call *call)
{
        const struct command *command = call->command;
        char **environment = ARENA_ARRAY(&call->arena, char *, command->n_own + 1);
        size_t count = 0;

        for (size_t i = 0; i < command->n_own; i++)
                if (text_starts_with(command->own[i].environment[0], "MIG_PARTED_"))
                        environment[count++] =
                                arena_printf(&call->arena, "%s=%s", command->own[i].environment[0], call->values[i]);
        return environment;
}

enum { APPLY_FILE, APPLY_HOOKS, APPLY_MODE_ONLY, APPLY_STATE, APPLY_DEBUG, APPLY_SELECTED, APPLY_SKIP_RESET };

static const struct option apply_own[] = {
        [APPLY_FILE] = PARTED_CONFIG_FILE,
        [APPLY_HOOKS] = PARTED_HOOKS,
        [APPLY_MODE_ONLY] = PARTED_MODE_ONLY,
        [APPLY_STATE] = PARTED_STATE,
        [APPLY_DEBUG] = PARTED_DEBUG_STEPS,
        [APPLY_SELECTED] = PARTED_SELECTED,
        [APPLY_SKIP_RESET] = COMMAND_FLAG("skip-reset", "do not reset GPUs whose mode needs that; it stays pending",
                .aliases = {"s"}, .environment = {"MIG_PARTED_SKIP_RESET"}),
};

/* The first options of apply, with a checkpoint as the file. */
static const struct option restore_own[] = {
        [APPLY_FILE] = PARTED_CHECKPOINT_FILE,
        [APPLY_HOOKS] = PARTED_HOOKS,
        [APPLY_MODE_ONLY] = PARTED_MODE_ONLY,
        [APPLY_STATE] = PARTED_STATE,
        [APPLY_DEBUG] = PARTED_DEBUG_STEPS,
};

/* Sets what the options of both commands say. */
static int parted_change(struct command_call *call, struct mig_apply wish, const char *success, struct error *err)
{
        struct mig_applied applied;
        int rc = mig_require(call, APPLY_FILE, err);

        if (rc < 0)
                return rc;
        wish.is_mode_only = command_is_set(call, APPLY_MODE_ONLY);
        wish.has_to_end = !(wish.is_mode_only && wish.mode_change == MIG_MODE_REBOOT);
        wish.state_directory = call->values[APPLY_STATE];
        wish.hooks_file = call->values[APPLY_HOOKS];
        wish.environment = hook_environment(call);
        wish.shows_hooks = command_is_set(call, APPLY_DEBUG);
        wish.steps = wish.shows_hooks ? stderr : NULL;
        if (mig_apply(&applied, call, &wish, err) < 0)
                return -1;
        puts(success);
        return 0;
}

static int parted_apply(struct command_call *call, struct error *err)
{
        return parted_change(call,
                (struct mig_apply){.file = call->values[APPLY_FILE],
                        .config = call->values[APPLY_SELECTED],
                        .mode_change = command_is_set(call, APPLY_SKIP_RESET) ? MIG_MODE_REBOOT : MIG_MODE_RESET},
                "MIG configuration applied successfully", err);
}

static int parted_restore(struct command_call *call, struct error *err)
{
        return parted_change(call,
                (struct mig_apply){.checkpoint = call->values[APPLY_FILE], .mode_change = MIG_MODE_RESET},
                "MIG configuration restored successfully", err);
}

/* ---- the commands ---- */

static const struct command commands[] = {
        PARTED_COMMAND("apply", "give the GPUs the geometry of a configuration", parted_apply,
                mig_command_change_shared, apply_own,
                "Gives this node's GPUs the MIG geometry of a configuration. Only MIG devices that are not in it are destroyed, and\n"
                "none that a process uses. After an error the geometry is as before. The exit status is 0, or 1.\n"),
        PARTED_COMMAND("assert", "whether the GPUs have what a configuration wants", mig_assert, mig_command_shared,
                assert_own,
                "Compares the MIG geometry of this node's GPUs with a configuration. The exit status is 0 when they are\n"
                "the same, else 1.\n"),
        PARTED_COMMAND("export", "print the geometry that the GPUs have as a configuration", mig_export_show,
                mig_command_shared, export_own,
                "Prints the MIG geometry that this node's GPUs have as a file with one configuration.\n"),
        PARTED_COMMAND("generate-config", "write the default configurations of this node", parted_generate,
                mig_command_shared, generate_own,
                "Writes the default configurations of this node, of the profiles that its driver lists.\n"),
        PARTED_COMMAND("checkpoint", "write the geometry with its placements", mig_checkpoint, mig_command_shared,
                checkpoint_own, "Writes the MIG geometry that this node's GPUs have, with its placements, as JSON.\n"),
        PARTED_COMMAND("restore", "give the GPUs the geometry of a checkpoint", parted_restore,
                mig_command_change_shared, restore_own,
                "Gives this node's GPUs the MIG geometry of a checkpoint, at the same placements. What stands at its place stays.\n"
                "After an error the geometry is as before. The exit status is 0, or 1.\n"),
};
static const struct command *const below[] = {
        &commands[0], &commands[1], &commands[2], &commands[3], &commands[4], &commands[5], NULL};

static const struct option own[] = {
        PARTED_DEBUG("also show each step, and what hooks print; stands before the command"),
};

/* Options before the command are the program's own. Without a command it shows its help. */
static int parted_begin(int argc, char **argv)
{
        const struct command *command = NULL;
        struct command_call call;
        struct error err;
        int position = 1;
        int status;

        while (position < argc && argv[position][0] == '-')
                position++;
        if (!command_read(&call, &command_nvidia_mig_parted, position, argv, &status))
                return status;
        if (command_is_set(&call, 0))
                setenv("MIG_PARTED_DEBUG", "true", 1); /* for the command, which has the option as well */
        arena_done(&call.arena);
        if (position < argc)
                command = command_find(below, argv[position]);
        if (command)
                return command_run(command, argc - position, argv + position);
        if (position == argc || command_asks_for_help(&command_nvidia_mig_parted, argv[position]))
                return command_print_help_now(&command_nvidia_mig_parted);
        return command_status(
                &command_nvidia_mig_parted, command_refuse(&err, "'%.100s' is not a command", argv[position]), &err);
}

const struct command command_nvidia_mig_parted = {
        .name = PROGRAM,
        .summary = "the MIG geometry, as a drop-in for NVIDIA's mig-parted",
        .begin = parted_begin,
        .below = below,
        .shared = command_none,
        COMMAND_OWN(own),
        .program = PROGRAM,
        .version = VERSION,
        .takes_joined = true,
        .is_drop_in = true,
        .help = "usage: " PROGRAM " [--debug] COMMAND [OPTION...]\n"
                "       " PROGRAM " apply [OPTION...]             give the GPUs the geometry of a configuration\n"
                "       " PROGRAM " assert [OPTION...]            whether the GPUs have what a configuration wants\n"
                "       " PROGRAM
                " export [OPTION...]            print the geometry that they have as a configuration\n"
                "       " PROGRAM " generate-config [OPTION...]   write the default configurations of this node\n"
                "       " PROGRAM " checkpoint [OPTION...]        write the geometry with its placements\n"
                "       " PROGRAM " restore [OPTION...]           give the GPUs the geometry of a checkpoint\n"
                "\n"
                "Warpshare as a drop-in for NVIDIA's program of that name, with its options, variables, files and exit\n"
                "statuses: 0, or 1. 'warpshare mig' has the same commands and more; docs/mig.md says what differs.\n"
                "\n",
};
