/* warpshare mig generate: writes the default configurations of this node. */
#include <stdio.h>
#include <string.h>

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

const struct command_line mig_command_generate_line = {
        .shared = mig_command_shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mig generate",
        .help = help,
};

int mig_generate_show(const struct command_line *line, const struct option_set *set, const char *file, bool is_json)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_source source;
        struct mig_parted parted;
        struct error err;
        int status = 0;

        if (mig_source_open_node(&source, set, &err) < 0) {
                status = command_line_fail(line, &err);
        } else {
                mig_generate(&parted, &source.arena, &source.node);
                mig_parted_print(&text, &parted, is_json);
                if (mig_command_write(file, &text, &err) < 0)
                        status = command_line_fail(line, &err);
        }
        mig_source_close(&source);
        return status;
}

int mig_command_generate(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        int status;

        if (!command_line_read(&mig_command_generate_line, &set, values, &arena, argc, argv, &status))
                return status;
        return mig_generate_show(&mig_command_generate_line, &set, "", strcmp(values[OUTPUT], "json") == 0);
}
