/*
 * warpshare mig apply and restore: make this node's GPUs as a configuration or a checkpoint wants them, or leave them
 * as they are.
 */
#include <jansson.h>
#include <stdio.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "cmd/mig/under_way.h"
#include "mig/checkpoint.h"

enum { EXIT_REBOOT = 3 };

enum { NAMED_FILE, CONFIG, ONLY, MODE_CHANGE, RESUME, STATE_DIRECTORY, OUTPUT };

static const struct option own[] = {
        [NAMED_FILE] = MIG_COMMAND_FILE,
        [CONFIG] = MIG_COMMAND_CONFIG,
        [ONLY] = COMMAND_TEXT("only", "", "GPU,...",
                "UUIDs of GPUs, all of which have to be there: if the configuration would change another one, "
                "nothing is touched; empty: any GPU may change"),
        [MODE_CHANGE] = MIG_COMMAND_MODE_CHANGE,
        [RESUME] = COMMAND_FLAG("resume", "finish a change that was interrupted, or undo it; without one do nothing"),
        [STATE_DIRECTORY] = MIG_COMMAND_STATE_DIRECTORY,
        [OUTPUT] = COMMAND_OUTPUT,
};

static const char help[] =
        "usage: warpshare mig apply [OPTION...]\n"
        "       warpshare mig apply --resume [OPTION...]\n"
        "\n"
        "Gives this node's GPUs the MIG geometry that a configuration wants. MIG devices that are wanted and there\n"
        "stay; GPUs that are not named are not touched. It refuses, before it touches anything, what does not fit and\n"
        "what a process uses. When a step fails, all is made as it was before; MIG devices that somebody else makes\n"
        "meanwhile are left. Each step is recorded before it is taken: after a kill or a reboot, --resume goes on.\n"
        "'warpshare mig plan' shows beforehand what would change.\n"
        "\n"
        "  warpshare mig apply --config all-balanced\n"
        "  warpshare mig apply --file mig.yaml --config mixed --mode-change reset\n"
        "\n";

static const char more_help[] =
        "\n"
        "exit status: 0 the geometry is as wanted; 1 it is not, and is as before, or standard error says what is left\n"
        "to --resume; 2 wrong usage; 3 a mode is pending until the node is rebooted; 4 a call of the driver did\n"
        "not return, or the library crashed: --resume goes on. It needs root with CAP_SYS_ADMIN.\n";

struct apply_options {
        const char *file;
        const char *config;
        const char *only;       /* mig_plan_check_only(); "": any GPU may change */
        const char *checkpoint; /* of a restore, instead of both; else NULL */
        enum mig_mode_change mode_change;
        const char *state_directory;
        bool resumes; /* without |file|, |config| and |checkpoint| */
        bool is_json;
};

/* ---- the change ---- */

/* Prints how it ended, and returns the exit status. |why|, or NULL: why it waits for a reboot. */
static int apply_end(
        const struct apply_options *options, const char *config, enum mig_change_end end, const struct error *why)
{
        static const char *const results[] = {
                [MIG_CHANGE_NONE] = "unchanged",
                [MIG_CHANGE_DONE] = "done",
                [MIG_CHANGE_UNDONE] = "undone",
                [MIG_CHANGE_WAITS] = "reboot",
        };
        static const char *const sentences[] = {
                [MIG_CHANGE_NONE] = "there is nothing to change",
                [MIG_CHANGE_DONE] = "the geometry is as wanted",
                [MIG_CHANGE_UNDONE] = "the geometry is as before",
                [MIG_CHANGE_WAITS] = "a MIG mode is pending: reboot the node, then 'warpshare mig apply --resume'",
        };

        if (options->is_json)
                command_print_json(json_pack("{s:s, s:s, s:s*}", "config", config, "result", results[end], "why",
                                           why && why->kind != ERROR_NONE ? why->text : NULL),
                        JSON_COMPACT);
        else
                puts(sentences[end]);
        return end == MIG_CHANGE_WAITS ? EXIT_REBOOT : 0;
}

static int apply_make_plan(struct mig_plan *ret, const char **ret_name, const struct apply_options *options,
        const struct option_set *set, struct mig_source *source, struct error *err)
{
        struct mig_checkpoint checkpoint;

        if (options->checkpoint) {
                *ret_name = "checkpoint";
                if (mig_source_open_node(source, set, err) < 0 ||
                        mig_checkpoint_read(&checkpoint, &source->arena, options->checkpoint, err) < 0)
                        return -1;
                return mig_checkpoint_plan(ret, &source->arena, &source->node, &checkpoint, false, err);
        }
        if (mig_source_open(source, set, options->file, options->config, false, err) < 0)
                return -1;
        *ret_name = source->config->name;
        mig_plan_build(ret, &source->arena, &source->node, source->wanted);
        if (!ret->fits)
                return error_set(err, ERROR_INVALID, "%s", mig_plan_reason(ret, &source->arena));
        return *options->only ? mig_plan_check_only(ret, options->only, err) : 0;
}

static int apply_wanted(const struct apply_options *options, const struct option_set *set, struct mig_under_way *work,
        struct error *err)
{
        struct mig_source source = {.arena = ARENA_INIT};
        enum mig_change_end end;
        struct mig_plan plan;
        const char *name;
        int status = -1;

        if (mig_under_way_settle(work, err) == 0 && apply_make_plan(&plan, &name, options, set, &source, err) == 0) {
                source.nvml = nvml_close(source.nvml); /* no process may hold a GPU that is reset */
                if (mig_change_apply(&work->change, &plan, name, &end, err) == 0)
                        status = apply_end(options, name, end, &work->change.reset_error);
        }
        mig_source_close(&source);
        return status;
}

static int apply_resume(const struct apply_options *options, struct mig_change *change, struct error *err)
{
        enum mig_change_end end;

        if (mig_change_resume(change, false, &end, err) < 0)
                return -1;
        return apply_end(options, "", end, &change->reset_error);
}

static int apply_change(struct command_call *call, const struct apply_options *options, struct error *err)
{
        struct mig_under_way work;
        int status;

        if (options->resumes && !mig_change_is_recorded(options->state_directory))
                return apply_end(options, "", MIG_CHANGE_NONE, NULL);
        if (mig_under_way_open(&work, &call->set, options->state_directory, options->mode_change,
                    options->is_json ? stderr : stdout, err) < 0)
                return -1;
        status = options->resumes ? apply_resume(options, &work.change, err)
                                  : apply_wanted(options, &call->set, &work, err);
        mig_under_way_close(&work);
        return status;
}

static int apply_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        const struct apply_options options = {.file = values[NAMED_FILE],
                .config = values[CONFIG],
                .only = values[ONLY],
                .mode_change = option_position(&own[MODE_CHANGE], values[MODE_CHANGE]),
                .state_directory = values[STATE_DIRECTORY],
                .resumes = command_is_set(call, RESUME),
                .is_json = command_has(call, OUTPUT, "json")};

        if (options.resumes && (*options.file || *options.config || *options.only))
                return command_refuse(
                        err, "--resume goes without --file, --config and --only: what was wanted is recorded");
        return apply_change(call, &options, err);
}

const struct command mig_command_apply = {
        .name = "apply",
        .summary = "give the GPUs the geometry that a configuration wants",
        .run = apply_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_change_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig apply",
        .help = help,
        .more_help = more_help,
};

/* ---- restore ---- */

enum { RESTORE_FILE, RESTORE_MODE_CHANGE, RESTORE_STATE_DIRECTORY, RESTORE_OUTPUT };

static const struct option restore_own[] = {
        [RESTORE_FILE] =
                COMMAND_TEXT("file", "", "PATH", "the checkpoint, - for standard input; needed", .aliases = {"f"}),
        [RESTORE_MODE_CHANGE] = MIG_COMMAND_MODE_CHANGE,
        [RESTORE_STATE_DIRECTORY] = MIG_COMMAND_STATE_DIRECTORY,
        [RESTORE_OUTPUT] = COMMAND_OUTPUT,
};

static const char restore_help[] =
        "usage: warpshare mig restore --file PATH [OPTION...]\n"
        "\n"
        "Gives this node's GPUs the MIG geometry that 'warpshare mig checkpoint' wrote, at the same placements. What\n"
        "stands at its place stays; GPUs that are not in the checkpoint are not touched. Otherwise it is as 'warpshare\n"
        "mig apply': it refuses what a process uses, and a step that fails is taken back.\n"
        "\n"
        "  warpshare mig restore --file /root/before.json\n"
        "\n";

static int restore_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;

        if (!*values[RESTORE_FILE])
                return command_refuse(err, "file: is needed, use --file");
        return apply_change(call,
                &(struct apply_options){.checkpoint = values[RESTORE_FILE],
                        .only = "",
                        .mode_change = option_position(&restore_own[RESTORE_MODE_CHANGE], values[RESTORE_MODE_CHANGE]),
                        .state_directory = values[RESTORE_STATE_DIRECTORY],
                        .is_json = command_has(call, RESTORE_OUTPUT, "json")},
                err);
}

const struct command mig_command_restore = {
        .name = "restore",
        .summary = "give the GPUs the geometry of a checkpoint",
        .run = restore_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_change_shared,
        COMMAND_OWN(restore_own),
        .program = "warpshare mig restore",
        .help = restore_help,
};
