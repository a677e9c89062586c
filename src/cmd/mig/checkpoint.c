/* warpshare mig checkpoint: writes the geometry that this node's GPUs have, with its placements. */
#include <stdio.h>
#include <string.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/checkpoint.h"

enum { NAMED_FILE };

static const struct option own[] = {
        [NAMED_FILE] = {.flag = "file",
                .aliases = {"f"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "PATH",
                .help = "file to write; empty: standard output"},
};

static const char help[] =
        "usage: warpshare mig checkpoint [OPTION...]\n"
        "\n"
        "Writes the MIG geometry that this node's GPUs have, with the placement of each MIG device, as JSON that\n"
        "'warpshare mig restore' and NVIDIA's mig-parted read. A GPU is known by its UUID. UUIDs of MIG devices are not in it.\n"
        "\n"
        "  warpshare mig checkpoint --file /root/before.json\n"
        "\n";

const struct command_line mig_command_checkpoint_line = {
        .shared = mig_command_shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mig checkpoint",
        .help = help,
};

int mig_checkpoint(const struct command_line *line, const struct option_set *set, const char *file)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_checkpoint checkpoint;
        struct mig_source source;
        struct error err;
        int status = 0;

        if (mig_source_open_node(&source, set, &err) < 0 ||
                mig_checkpoint_take(&checkpoint, &source.arena, &source.node, &err) < 0) {
                status = command_line_fail(line, &err);
        } else {
                mig_checkpoint_print(&text, &checkpoint);
                if (mig_command_write(file, &text, &err) < 0)
                        status = command_line_fail(line, &err);
                else if (*file)
                        puts("MIG configuration checkpointed successfully");
        }
        mig_source_close(&source);
        return status;
}

int mig_command_checkpoint(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        int status;

        if (!command_line_read(&mig_command_checkpoint_line, &set, values, &arena, argc, argv, &status))
                return status;
        return mig_checkpoint(&mig_command_checkpoint_line, &set, values[NAMED_FILE]);
}
