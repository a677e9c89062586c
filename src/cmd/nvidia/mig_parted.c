/*
 * nvidia-mig-parted: the commands of `warpshare mig` with the options, variables, words and exit statuses of NVIDIA's
 * program of that name (v0.15). Its scripts and the GPU Operator's MIG manager start it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/commands.h"
#include "cmd/frame.h"
#include "cmd/mig/command.h"
#include "cmd/mig/under_way.h"
#include "mig/checkpoint.h"
#include "mig/hooks.h"
#include "mig/parted.h"

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

static int parted_require(const struct command_call *call, size_t position, struct error *err)
{
        return *call->values[position]
                       ? 0
                       : command_refuse(err, "missing required flags '%s'", call->command->own[position].flag);
}

/* ---- assert ---- */

enum { ASSERT_FILE, ASSERT_SELECTED, ASSERT_MODE_ONLY, ASSERT_VALID, ASSERT_DEBUG };

static const struct option assert_own[] = {
        [ASSERT_FILE] = PARTED_CONFIG_FILE,
        [ASSERT_SELECTED] = PARTED_SELECTED,
        [ASSERT_MODE_ONLY] = PARTED_MODE_ONLY,
        [ASSERT_VALID] = COMMAND_FLAG("valid-config", "only whether the file can be read and has the configuration",
                .aliases = {"a"}, .environment = {"MIG_PARTED_VALID_CONFIG"}),
        [ASSERT_DEBUG] = PARTED_DEBUG_ALONE,
};

static int parted_assert(struct command_call *call, struct error *err)
{
        if (parted_require(call, ASSERT_FILE, err) < 0)
                return COMMAND_REFUSED;
        return mig_assert(call, call->values[ASSERT_FILE], call->values[ASSERT_SELECTED],
                command_is_set(call, ASSERT_MODE_ONLY), command_is_set(call, ASSERT_VALID), err);
}

/* ---- export, generate-config, checkpoint ---- */

enum { EXPORT_FORMAT, EXPORT_LABEL, EXPORT_DEBUG };

static const struct option export_own[] = {
        [EXPORT_FORMAT] = PARTED_FORMAT,
        [EXPORT_LABEL] = COMMAND_TEXT("config-label", "current", "NAME", "what the configuration is called",
                .aliases = {"l"}, .environment = {"MIG_PARTED_CONFIG_LABEL"}),
        [EXPORT_DEBUG] = PARTED_DEBUG_ALONE,
};

static int parted_export(struct command_call *call, struct error *err)
{
        return mig_export_show(call, call->values[EXPORT_LABEL], command_has(call, EXPORT_FORMAT, "json"), err);
}

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

static int parted_checkpoint(struct command_call *call, struct error *err)
{
        return parted_require(call, 0, err) < 0 ? COMMAND_REFUSED : mig_checkpoint(call, call->values[0], err);
}

/* ---- a change with hooks ---- */

/*
 * apply and restore make a change with hooks, which run in the order of NVIDIA's program: apply-start; pre-apply-mode
 * if the mode of a GPU differs; pre-apply-config if devices differ; apply-exit, always. One thing differs from it:
 * pre-apply-config runs before the mode changes, not after, because mode and devices are one change here that is done
 * or undone as a whole (mig/change.h).
 */
struct parted_change {
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

/* The wanted configuration, read before anything is touched. */
struct request {
        struct arena arena;
        struct mig_hooks hooks;
        struct mig_parted parted;
        const struct mig_parted_config *config;
        struct mig_checkpoint checkpoint;
};

static int parted_read_request(struct request *request, const struct parted_change *change, struct error *err)
{
        if (*change->hooks_file &&
                mig_hooks_read(&request->hooks, &request->arena, change->hooks_file, command_warn, NULL, err) < 0)
                return -1;
        if (change->checkpoint_file)
                return mig_checkpoint_read(&request->checkpoint, &request->arena, change->checkpoint_file, err);
        if (mig_parted_read(&request->parted, &request->arena, change->config_file, command_warn, NULL, err) < 0)
                return -1;
        return mig_parted_choose(&request->config, &request->parted, change->selected_config, err);
}

/* ---- the plan ---- */

/* Only GPUs whose mode differs, and without devices. */
static const struct mig_wanted *modes_alone(
        struct arena *arena, const struct mig_node *node, const struct mig_wanted *wanted)
{
        struct mig_wanted *modes = ARENA_ARRAY(arena, struct mig_wanted, node->n_gpus);

        for (size_t i = 0; i < node->n_gpus; i++)
                if (wanted[i].is_named && wanted[i].is_enabled != node->gpus[i].geometry.is_enabled)
                        modes[i] = (struct mig_wanted){.is_named = true, .is_enabled = wanted[i].is_enabled};
        return modes;
}

static int parted_make_plan(struct mig_plan *ret, struct request *request, const struct parted_change *change,
        const struct mig_change *work, struct error *err)
{
        struct mig_node *node = ARENA_NEW(&request->arena, struct mig_node);
        const struct mig_wanted *wanted;

        if (mig_node_read(node, &request->arena, work->nvml, err) < 0)
                return -1;
        if (change->checkpoint_file)
                return mig_checkpoint_plan(ret, &request->arena, node, &request->checkpoint, change->is_mode_only, err);
        mig_parted_warn(request->config, node, command_warn, NULL);
        if (mig_parted_resolve(&wanted, &request->arena, request->config, node, change->is_mode_only, err) < 0)
                return -1;
        if (change->is_mode_only)
                wanted = modes_alone(&request->arena, node, wanted);
        mig_plan_build(ret, &request->arena, node, wanted);
        return ret->fits ? 0 : error_set(err, ERROR_INVALID, "%s", mig_plan_reason(ret, &request->arena));
}

static bool changes_mode(const struct mig_plan *plan)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].changes_mode)
                        return true;
        return false;
}

static bool changes_devices(const struct mig_plan *plan)
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                if (plan->gpus[i].n_made || (plan->gpus[i].n_goes && !plan->gpus[i].changes_mode))
                        return true;
        return false;
}

/* ---- the change ---- */

static int run_hooks(
        const struct request *request, const struct parted_change *change, enum mig_hook_point point, struct error *err)
{
        return mig_hooks_run(&request->hooks, point, change->environment, change->is_debug, err);
}

static int parted_carry_out(
        struct mig_under_way *work, struct request *request, const struct parted_change *change, struct error *err)
{
        enum mig_change_end end;
        struct mig_plan plan;

        if (mig_under_way_settle(work, err) < 0 || parted_make_plan(&plan, request, change, &work->change, err) < 0)
                return -1;
        if (changes_mode(&plan) && run_hooks(request, change, MIG_HOOK_BEFORE_MODE, err) < 0)
                return -1;
        if (changes_devices(&plan) && run_hooks(request, change, MIG_HOOK_BEFORE_CONFIG, err) < 0)
                return -1;
        if (mig_change_apply(&work->change, &plan, request->config ? request->config->name : "checkpoint", &end, err) <
                0)
                return -1;
        if (end == MIG_CHANGE_WAITS && !(change->is_mode_only && change->skips_reset))
                return error_set(err, ERROR_UNAVAILABLE,
                        "the MIG mode is pending until the GPUs are reset or the node is rebooted, and devices can only be "
                        "created then");
        return 0;
}

static int open_and_carry_out(
        struct request *request, const struct command_call *call, const struct parted_change *change, struct error *err)
{
        struct mig_under_way work;
        int rc;

        if (mig_under_way_open(&work, &call->set, change->state_directory,
                    change->skips_reset ? MIG_MODE_REBOOT : MIG_MODE_RESET, change->is_debug ? stderr : NULL, err) < 0)
                return -1;
        rc = parted_carry_out(&work, request, change, err);
        mig_under_way_close(&work);
        return rc;
}

static int change_with_hooks(
        struct request *request, const struct command_call *call, const struct parted_change *change, struct error *err)
{
        struct error exit_err;
        int rc;

        if (run_hooks(request, change, MIG_HOOK_START, err) < 0)
                return -1;
        rc = open_and_carry_out(request, call, change, err);
        if (run_hooks(request, change, MIG_HOOK_EXIT, &exit_err) == 0)
                return rc;
        if (rc == 0)
                return error_set(err, exit_err.kind, "%s", exit_err.text);
        command_fail(call->command, &exit_err);
        return -1;
}

static int parted_change(const struct command_call *call, const struct parted_change *change, struct error *err)
{
        struct request request = {.arena = ARENA_INIT};
        int rc = parted_read_request(&request, change, err) < 0 ? -1 : change_with_hooks(&request, call, change, err);

        if (rc == 0)
                puts(change->checkpoint_file ? "MIG configuration restored successfully"
                                             : "MIG configuration applied successfully");
        arena_done(&request.arena);
        return rc;
}

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

static int parted_begin_change(struct command_call *call, struct parted_change *change, struct error *err)
{
        if (parted_require(call, APPLY_FILE, err) < 0)
                return COMMAND_REFUSED;
        change->environment = hook_environment(call);
        change->is_debug = command_is_set(call, APPLY_DEBUG);
        change->hooks_file = call->values[APPLY_HOOKS];
        change->state_directory = call->values[APPLY_STATE];
        change->is_mode_only = command_is_set(call, APPLY_MODE_ONLY);
        return parted_change(call, change, err);
}

static int parted_apply(struct command_call *call, struct error *err)
{
        return parted_begin_change(call,
                &(struct parted_change){.config_file = call->values[APPLY_FILE],
                        .selected_config = call->values[APPLY_SELECTED],
                        .skips_reset = command_is_set(call, APPLY_SKIP_RESET)},
                err);
}

static int parted_restore(struct command_call *call, struct error *err)
{
        return parted_begin_change(call, &(struct parted_change){.checkpoint_file = call->values[APPLY_FILE]}, err);
}

/* ---- the commands ---- */

static const struct command commands[] = {
        PARTED_COMMAND("apply", "give the GPUs the geometry of a configuration", parted_apply,
                mig_command_change_shared, apply_own,
                "Gives this node's GPUs the MIG geometry of a configuration. Only MIG devices that are not in it are destroyed, and\n"
                "none that a process uses. After an error the geometry is as before. The exit status is 0, or 1.\n"),
        PARTED_COMMAND("assert", "whether the GPUs have what a configuration wants", parted_assert, mig_command_shared,
                assert_own,
                "Compares the MIG geometry of this node's GPUs with a configuration. The exit status is 0 when they are\n"
                "the same, else 1.\n"),
        PARTED_COMMAND("export", "print the geometry that the GPUs have as a configuration", parted_export,
                mig_command_shared, export_own,
                "Prints the MIG geometry that this node's GPUs have as a file with one configuration.\n"),
        PARTED_COMMAND("generate-config", "write the default configurations of this node", parted_generate,
                mig_command_shared, generate_own,
                "Writes the default configurations of this node, of the profiles that its driver lists.\n"),
        PARTED_COMMAND("checkpoint", "write the geometry with its placements", parted_checkpoint, mig_command_shared,
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
