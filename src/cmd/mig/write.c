/*
 * warpshare mig checkpoint, export and generate: write the geometry that this node's GPUs have, or could have.
 */
#include <stdio.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/checkpoint.h"
#include "mig/parted.h"

/* ---- checkpoint ---- */

enum { CHECKPOINT_NAMED_FILE };

static const struct option checkpoint_own[] = {
        [CHECKPOINT_NAMED_FILE] =
                COMMAND_TEXT("file", "", "PATH", "file to write; empty: standard output", .aliases = {"f"}),
};

static const char checkpoint_help[] =
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
        return mig_checkpoint(call, call->values[CHECKPOINT_NAMED_FILE], err);
}

const struct command mig_command_checkpoint = {
        .name = "checkpoint",
        .summary = "write the geometry that the GPUs have, with its placements",
        .run = checkpoint_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(checkpoint_own),
        .program = "warpshare mig checkpoint",
        .help = checkpoint_help,
};

/* ---- export ---- */

enum { EXPORT_OUTPUT, EXPORT_NAME };

static const struct option export_own[] = {
        [EXPORT_OUTPUT] = MIG_COMMAND_FORMAT,
        [EXPORT_NAME] =
                COMMAND_TEXT("name", "current", "EXPORT_NAME", "what the configuration is called", .aliases = {"l"}),
};

static const char export_help[] =
        "usage: warpshare mig export [OPTION...]\n"
        "\n"
        "Prints the MIG geometry that this node's GPUs have as a file with one configuration, which 'warpshare mig\n"
        "apply' and NVIDIA's mig-parted read. Where MIG devices are placed is not in it: 'warpshare mig checkpoint'\n"
        "has that, too.\n"
        "\n"
        "  warpshare mig export --name before > before.yaml\n"
        "\n";

/* Warns of instances that the file cannot describe. */
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
        return mig_export_show(call, call->values[EXPORT_NAME], command_has(call, EXPORT_OUTPUT, "json"), err);
}

const struct command mig_command_export = {
        .name = "export",
        .summary = "print the geometry that the GPUs have as a configuration",
        .run = export_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(export_own),
        .program = "warpshare mig export",
        .help = export_help,
};

/* ---- generate ---- */

enum { GENERATE_OUTPUT };

static const struct option generate_own[] = {
        [GENERATE_OUTPUT] = MIG_COMMAND_FORMAT,
};

static const char generate_help[] =
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
        return mig_generate_show(call, "", command_has(call, GENERATE_OUTPUT, "json"), err);
}

const struct command mig_command_generate = {
        .name = "generate",
        .summary = "print the default configurations of this node",
        .run = generate_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(generate_own),
        .program = "warpshare mig generate",
        .help = generate_help,
};
