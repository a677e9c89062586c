/* warpshare mig export: writes the geometry that this node's GPUs have as a configuration. */
#include <stdio.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/export.h"

enum { OUTPUT, NAME };

static const struct option own[] = {
        [OUTPUT] = MIG_COMMAND_FORMAT,
        [NAME] = COMMAND_TEXT("name", "current", "NAME", "what the configuration is called", .aliases = {"l"}),
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

int mig_export_show(struct command_call *call, const char *name, bool is_json, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_source source;
        struct mig_parted parted;
        int rc = mig_source_open_node(&source, &call->set, err);

        if (rc == 0)
                rc = mig_export(&parted, &source.arena, &source.node, name, err);
        if (rc == 0) {
                for (size_t i = 0; i < source.node.n_gpus; i++)
                        warn_of_instances(&source.node.gpus[i]);
                mig_parted_print(&text, &parted, is_json);
                rc = mig_command_write("", &text, err);
        }
        mig_source_close(&source);
        return rc;
}

static int export_run(struct command_call *call, struct error *err)
{
        return mig_export_show(call, call->values[NAME], command_has(call, OUTPUT, "json"), err);
}

const struct command mig_command_export = {
        .name = "export",
        .summary = "print the geometry that the GPUs have as a configuration",
        .run = export_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig export",
        .help = help,
};
