/* warpshare mig restore: gives this node's GPUs the geometry of a checkpoint, or leaves them as they are. */
#include "cmd/mig/command.h"

enum { NAMED_FILE, MODE_CHANGE, STATE_DIRECTORY, OUTPUT };

static const struct option own[] = {
        [NAMED_FILE] =
                COMMAND_TEXT("file", "", "PATH", "the checkpoint, - for standard input; needed", .aliases = {"f"}),
        [MODE_CHANGE] = MIG_COMMAND_MODE_CHANGE,
        [STATE_DIRECTORY] = MIG_COMMAND_STATE_DIRECTORY,
        [OUTPUT] = COMMAND_OUTPUT,
};

static const char help[] =
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

        if (!*values[NAMED_FILE])
                return command_refuse(err, "file: is needed, use --file");
        return mig_apply(call,
                &(struct mig_apply_options){.checkpoint = values[NAMED_FILE],
                        .only = "",
                        .mode_change = option_position(&own[MODE_CHANGE], values[MODE_CHANGE]),
                        .state_directory = values[STATE_DIRECTORY],
                        .is_json = command_has(call, OUTPUT, "json")},
                err);
}

const struct command mig_command_restore = {
        .name = "restore",
        .summary = "give the GPUs the geometry of a checkpoint",
        .run = restore_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_change_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig restore",
        .help = help,
};
