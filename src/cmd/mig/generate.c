/* warpshare mig generate: writes the default configurations of this node. */
#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/generate.h"

enum { OUTPUT };

static const struct option own[] = {
        [OUTPUT] = MIG_COMMAND_FORMAT,
};

static const char help[] =
        "usage: warpshare mig generate [OPTION...]\n"
        "\n"
        "Prints the default configurations of this node, which the other commands use without --file: all-disabled,\n"
        "all-enabled, all-balanced, and all-<profile> for each profile that the driver lists, with as many of it as\n"
        "fit. They have NVIDIA's names, and the file is one that NVIDIA's mig-parted reads. Begin your own with it.\n"
        "\n"
        "  warpshare mig generate > mig.yaml\n"
        "\n"
        "Drivers before R550 list the profiles of a GPU only while MIG is enabled on it; until then A30, A100, H100\n"
        "and H200 have those that are documented.\n"
        "\n";

int mig_generate_show(struct command_call *call, const char *file, bool is_json, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_source source;
        struct mig_parted parted;
        int rc = mig_source_open_node(&source, &call->set, err);

        if (rc == 0) {
                mig_generate(&parted, &source.arena, &source.node);
                mig_parted_print(&text, &parted, is_json);
                rc = mig_command_write(file, &text, err);
        }
        mig_source_close(&source);
        return rc;
}

static int generate_run(struct command_call *call, struct error *err)
{
        return mig_generate_show(call, "", command_has(call, OUTPUT, "json"), err);
}

const struct command mig_command_generate = {
        .name = "generate",
        .summary = "print the default configurations of this node",
        .run = generate_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig generate",
        .help = help,
};
