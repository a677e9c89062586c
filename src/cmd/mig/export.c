/* warpshare mig export: writes the geometry that this node's GPUs have as a configuration. */
#include <stdio.h>
#include <string.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/export.h"

enum { OUTPUT, NAME };

static const struct option own[] = {
        [OUTPUT] = MIG_COMMAND_FORMAT,
        [NAME] = {.flag = "name",
                .aliases = {"l"},
                .type = OPTION_STRING,
                .fallback = "current",
                .argument = "NAME",
                .help = "what the configuration is called"},
};

static const char help[] =
        "usage: warpshare mig export [OPTION...]\n"
        "\n"
        "Prints the MIG geometry that this node's GPUs have as a file with one configuration, which 'warpshare mig\n"
        "apply' and NVIDIA's mig-parted read. Where MIG devices are placed is not in it: 'warpshare mig checkpoint'\n"
        "has that, too.\n"
        "\n"
        "  warpshare mig export --name before > before.yaml\n"
        "\n";

const struct command_line mig_command_export_line = {
        .shared = mig_command_shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mig export",
        .help = help,
};

/* What the file cannot say. */
static void warn_of_instances(const struct mig_node_gpu *gpu)
{
        for (size_t i = 0; i < gpu->geometry.n_instances; i++) {
                const struct mig_gpu_instance *instance = &gpu->geometry.instances[i];

                if (instance->n_devices == 0)
                        fprintf(stderr,
                                "warning: GPU instance %u of GPU %u (%s) has no compute instance and is left out\n",
                                instance->id, gpu->index, instance->profile->name);
        }
}

int mig_export_show(const struct command_line *line, const struct option_set *set, const char *name, bool is_json)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_source source;
        struct mig_parted parted;
        struct error err;
        int status = 0;

        if (mig_source_open_node(&source, set, &err) < 0 ||
                mig_export(&parted, &source.arena, &source.node, name, &err) < 0) {
                status = command_line_fail(line, &err);
        } else {
                for (size_t i = 0; i < source.node.n_gpus; i++)
                        warn_of_instances(&source.node.gpus[i]);
                mig_parted_print(&text, &parted, is_json);
                if (mig_command_write("", &text, &err) < 0)
                        status = command_line_fail(line, &err);
        }
        mig_source_close(&source);
        return status;
}

int mig_command_export(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        int status;

        if (!command_line_read(&mig_command_export_line, &set, values, &arena, argc, argv, &status))
                return status;
        return mig_export_show(&mig_command_export_line, &set, values[NAME], strcmp(values[OUTPUT], "json") == 0);
}
