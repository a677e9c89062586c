/* warpshare mig restore: gives this node's GPUs the geometry of a checkpoint, or leaves them as they are. */
#include <string.h>

#include "cmd/mig/command.h"

enum { NAMED_FILE, MODE_CHANGE, STATE_DIRECTORY, OUTPUT };

static const struct option own[] = {
        [NAMED_FILE] = {.flag = "file",
                .aliases = {"f"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "PATH",
                .help = "the checkpoint, - for standard input; needed"},
        [MODE_CHANGE] = MIG_COMMAND_MODE_CHANGE,
        [STATE_DIRECTORY] = MIG_COMMAND_STATE_DIRECTORY,
        [OUTPUT] = COMMAND_LINE_OUTPUT,
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

const struct command_line mig_command_restore_line = {
        .shared = mig_command_change_shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mig restore",
        .help = help,
};

int mig_command_restore(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        struct error err;
        int status;

        if (!command_line_read(&mig_command_restore_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!*values[NAMED_FILE]) {
                error_raise(&err, ERROR_INVALID, "file: is needed, use --file");
                return command_line_refuse(&mig_command_restore_line, &err);
        }
        return mig_apply(&mig_command_restore_line, &set,
                &(struct mig_apply_options){.checkpoint = values[NAMED_FILE],
                        .only = "",
                        .mode_change = option_position(&own[MODE_CHANGE], values[MODE_CHANGE]),
                        .state_directory = values[STATE_DIRECTORY],
                        .is_json = strcmp(values[OUTPUT], "json") == 0});
}
