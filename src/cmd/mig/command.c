// SPDX-License-Identifier: Apache-2.0
/* warpshare mig: the MIG geometry of this node's GPUs, by configurations in the format of NVIDIA's mig-parted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cmd/commands.h"
#include "cmd/mig/command.h"
#include "mig/checkpoint.h"
#include "mig/parted.h"
#include "mig/node.h"

const char *const mig_command_shared[] = {"driver-root-ctr-path", "nvml-library", NULL};
const char *const mig_command_change_shared[] = {"driver-root-ctr-path", "nvml-library", "system-root", NULL};
const char *const mig_command_mode_changes[] = {"refuse", "reset", "reboot", "reset-or-reboot", NULL};
const char *const mig_command_formats[] = {"yaml", "json", NULL};

/*
 * Writes |text| to |file|; "" is standard output. If |file| is not a regular file, such as /dev/stdout or a pipe, it is
 * written to and not replaced.
 */
static int write_text(const char *file, const struct strbuf *text, struct error *err)
{
        struct stat status;
        bool is_good;
        FILE *stream;

        if (*file && (lstat(file, &status) < 0 || S_ISREG(status.st_mode)))
                return file_write(file, text->data, text->size, err);
        stream = *file ? fopen(file, "we") : stdout;
        if (!stream)
                return error_errno(err, errno, "open '%s'", file);
        is_good = fwrite(text->data, 1, text->size, stream) == text->size;
        is_good = fflush(stream) == 0 && is_good;
        if (*file)
                fclose(stream);
        return is_good ? 0 : error_errno(err, errno, "write '%s'", *file ? file : "standard output");
}

/* ---- what each command needs first ---- */

int mig_require(const struct command_call *call, size_t position, struct error *err)
{
        if (!call->command->is_drop_in || *call->values[position])
                return 0;
        return command_refuse(err, "missing required flags '%s'", call->command->own[position].flag);
}

/* Opens NVML and reads the GPUs only; |set| says where NVML is. Close the source even if this fails. */
static int mig_source_open_node(struct mig_source *ret, const struct option_set *set, struct error *err)
{
        *ret = (struct mig_source){.arena = ARENA_INIT};
        if (nvml_open(&ret->nvml, option_set_value(set, "nvml-library"), option_set_value(set, "driver-root-ctr-path"),
                    err) < 0)
                return -1;
        return mig_node_read(&ret->node, &ret->arena, ret->nvml, err);
}

int mig_source_open_file(struct mig_source *ret, const struct option_set *set, const char *file, struct error *err)
{
        if (mig_source_open_node(ret, set, err) < 0)
                return -1;
        if (*file)
                return mig_parted_read(&ret->parted, &ret->arena, file, command_warn, NULL, err);
        mig_generate(&ret->parted, &ret->arena, &ret->node);
        return 0;
}

int mig_source_open(struct mig_source *ret, const struct option_set *set, const char *file, const char *name,
        bool is_mode_only, struct error *err)
{
        if (mig_source_open_file(ret, set, file, err) < 0)
                return -1;
        if (mig_parted_choose(&ret->config, &ret->parted, name, err) < 0)
                return -1;
        mig_parted_warn(ret->config, &ret->node, command_warn, NULL);
        return mig_parted_resolve(&ret->wanted, &ret->arena, ret->config, &ret->node, is_mode_only, err);
}

void mig_source_close(struct mig_source *source)
{
        source->nvml = nvml_close(source->nvml);
        arena_done(&source->arena);
}

/* ---- assert ---- */

enum { ASSERT_FILE, ASSERT_CONFIG, ASSERT_MODE_ONLY, ASSERT_VALID };

static const struct option assert_own[] = {
        [ASSERT_FILE] = MIG_COMMAND_FILE,
        [ASSERT_CONFIG] = MIG_COMMAND_CONFIG,
        [ASSERT_MODE_ONLY] = COMMAND_FLAG("mode-only", "compare only whether MIG is enabled", .aliases = {"m"}),
        [ASSERT_VALID] = COMMAND_FLAG("valid-config",
                "only say whether the file can be read and has the configuration; the GPUs are not looked at",
                .aliases = {"a"}),
};

static const char assert_help[] =
        "usage: warpshare mig assert [OPTION...]\n"
        "\n"
        "Compares the MIG geometry of this node's GPUs with a configuration, and changes nothing. The exit status is\n"
        "0 when they are the same, else 1, and standard error says what differs. Where MIG devices are placed\n"
        "does not count. GPUs that the configuration does not name are not compared.\n"
        "\n"
        "  warpshare mig assert --file mig.yaml --config mixed\n"
        "  warpshare mig assert --config all-disabled --mode-only\n"
        "\n";

/* The GPUs are only looked at where they are what configurations are generated of. */
static int check_config(struct command_call *call, const char *file, const char *config, struct error *err)
{
        const struct mig_parted_config *found;
        struct mig_source source = {.arena = ARENA_INIT};
        int rc = *file ? mig_parted_read(&source.parted, &source.arena, file, command_warn, NULL, err)
                       : mig_source_open_file(&source, &call->set, file, err);

        if (rc == 0)
                rc = mig_parted_choose(&found, &source.parted, config, err);
        if (rc == 0)
                puts("Selected MIG configuration is valid");
        mig_source_close(&source);
        return rc;
}

static int assert_compare(const struct command *command, struct mig_source *source, bool is_mode_only)
{
        int status = 0;

        for (size_t i = 0; i < source->node.n_gpus; i++) {
                const char *difference =
                        mig_compare(&source->arena, &source->node.gpus[i], &source->wanted[i], is_mode_only);

                if (!difference)
                        continue;
                fprintf(stderr, "%s: %s\n", command->program, difference);
                status = EXIT_FAILED;
        }
        if (status == 0)
                puts(is_mode_only ? "Selected MIG mode settings from configuration currently applied"
                                  : "Selected MIG configuration currently applied");
        return status;
}

int mig_assert(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        const bool is_mode_only = command_is_set(call, ASSERT_MODE_ONLY);
        struct mig_source source;
        int status = mig_require(call, ASSERT_FILE, err);

        if (status < 0)
                return status;
        if (command_is_set(call, ASSERT_VALID))
                return check_config(call, values[ASSERT_FILE], values[ASSERT_CONFIG], err);
        status = mig_source_open(&source, &call->set, values[ASSERT_FILE], values[ASSERT_CONFIG], is_mode_only, err);
        if (status == 0)
                status = assert_compare(call->command, &source, is_mode_only);
        mig_source_close(&source);
        return status;
}

static const struct command command_assert = {
        .name = "assert",
        .summary = "say whether the GPUs have what a configuration wants",
        .run = mig_assert,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(assert_own),
        .program = "warpshare mig assert",
        .help = assert_help,
};

/* ---- checkpoint ---- */

enum { CHECKPOINT_FILE };

static const struct option checkpoint_own[] = {
        [CHECKPOINT_FILE] = COMMAND_TEXT("file", "", "PATH", "file to write; empty: standard output", .aliases = {"f"}),
};

static const char checkpoint_help[] =
        "usage: warpshare mig checkpoint [OPTION...]\n"
        "\n"
        "Writes the MIG geometry that this node's GPUs have, with the placement of each MIG device, as JSON that\n"
        "'warpshare mig restore' and NVIDIA's mig-parted read. A GPU is known by its UUID. UUIDs of MIG devices are not in it.\n"
        "\n"
        "  warpshare mig checkpoint --file /root/before.json\n"
        "\n";

int mig_checkpoint(struct command_call *call, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *file = call->values[CHECKPOINT_FILE];
        struct mig_checkpoint checkpoint;
        struct mig_source source;
        int rc = mig_require(call, CHECKPOINT_FILE, err);

        if (rc < 0)
                return rc;
        rc = mig_source_open_node(&source, &call->set, err);
        if (rc == 0)
                rc = mig_checkpoint_take(&checkpoint, &source.arena, &source.node, err);
        if (rc == 0) {
                mig_checkpoint_print(&text, &checkpoint);
                rc = write_text(file, &text, err);
        }
        if (rc == 0 && *file)
                puts("MIG configuration checkpointed successfully");
        mig_source_close(&source);
        return rc;
}

static const struct command command_checkpoint = {
        .name = "checkpoint",
        .summary = "write the geometry that the GPUs have, with its placements",
        .run = mig_checkpoint,
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

int mig_export_show(struct command_call *call, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct mig_source source;
        struct mig_parted parted;
        int rc = mig_source_open_node(&source, &call->set, err);

        if (rc == 0)
                rc = mig_export(&parted, &source.arena, &source.node, call->values[EXPORT_NAME], err);
        if (rc == 0) {
                for (size_t i = 0; i < source.node.n_gpus; i++)
                        warn_of_instances(&source.node.gpus[i]);
                mig_parted_print(&text, &parted, command_has(call, EXPORT_OUTPUT, "json"));
                rc = write_text("", &text, err);
        }
        mig_source_close(&source);
        return rc;
}

static const struct command command_export = {
        .name = "export",
        .summary = "print the geometry that the GPUs have as a configuration",
        .run = mig_export_show,
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
                rc = write_text(file, &text, err);
        }
        mig_source_close(&source);
        return rc;
}

static int generate_run(struct command_call *call, struct error *err)
{
        return mig_generate_show(call, "", command_has(call, GENERATE_OUTPUT, "json"), err);
}

static const struct command command_generate = {
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

/* ---- all of them ---- */

static const char help[] =
        "usage: warpshare mig COMMAND [OPTION...]\n"
        "       warpshare mig plan [OPTION...]           show what a configuration would change\n"
        "       warpshare mig apply [OPTION...]          change it\n"
        "       warpshare mig assert [OPTION...]         say whether the GPUs have what a configuration wants\n"
        "       warpshare mig checkpoint [OPTION...]     write the geometry that they have, with its placements\n"
        "       warpshare mig export [OPTION...]         print the geometry that they have as a configuration\n"
        "       warpshare mig generate [OPTION...]       print the default configurations of this node\n"
        "       warpshare mig restore [OPTION...]        give the GPUs the geometry of a checkpoint\n"
        "\n"
        "The MIG geometry of this node's GPUs. Configurations are those of NVIDIA's mig-parted, in its file format;\n"
        "docs/mig.md has the format, and --help of each command says more.\n"
        "\n"
        "  warpshare mig plan --all                         the configurations that this node can have\n"
        "  warpshare mig plan --config all-balanced         what one of them would change\n"
        "  warpshare mig apply --config all-balanced\n"
        "\n";

static const struct command *const below[] = {&mig_command_apply, &command_assert, &command_checkpoint, &command_export,
        &command_generate, &mig_command_plan, &mig_command_restore, NULL};

const struct command command_mig = {
        .name = "mig",
        .summary = "plan, change and show the MIG geometry of this node's GPUs",
        .below = below,
        .shared = command_none,
        .program = "warpshare mig",
        .help = help,
};
