/* warpshare mig checkpoint: writes the geometry that this node's GPUs have, with its placements. */
#include <stdio.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/checkpoint.h"

enum { NAMED_FILE };

static const struct option own[] = {
        [NAMED_FILE] = COMMAND_TEXT("file", "", "PATH", "file to write; empty: standard output", .aliases = {"f"}),
};

static const char help[] =
        "usage: warpshare mig checkpoint [OPTION...]\n"
        "\n"
        "Writes the MIG geometry that this node's GPUs have, with the placement of each MIG device, as JSON that\n"
        "'warpshare mig restore' and NVIDIA's mig-parted read. A GPU is known by its UUID. UUIDs of MIG devices are not in it.\n"
        "\n"
        "  warpshare mig checkpoint --file /root/before.json\n"
        "\n";

int mig_checkpoint(struct command_call *call, const char *file, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_checkpoint checkpoint;
        struct mig_source source;
        int rc = mig_source_open_node(&source, &call->set, err);

        if (rc == 0)
                rc = mig_checkpoint_take(&checkpoint, &source.arena, &source.node, err);
        if (rc == 0) {
                mig_checkpoint_print(&text, &checkpoint);
                rc = mig_command_write(file, &text, err);
        }
        if (rc == 0 && *file)
                puts("MIG configuration checkpointed successfully");
        mig_source_close(&source);
        return rc;
}

static int checkpoint_run(struct command_call *call, struct error *err)
{
        return mig_checkpoint(call, call->values[NAMED_FILE], err);
}

const struct command mig_command_checkpoint = {
        .name = "checkpoint",
        .summary = "write the geometry that the GPUs have, with its placements",
        .run = checkpoint_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig checkpoint",
        .help = help,
};
