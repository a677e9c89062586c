/* warpshare mig: the MIG geometry of this node's GPUs, by configurations in the format of NVIDIA's mig-parted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cmd/commands.h"
#include "cmd/mig/command.h"

const char *const mig_command_shared[] = {"driver-root-ctr-path", "nvml-library", NULL};
const char *const mig_command_change_shared[] = {"driver-root-ctr-path", "nvml-library", "system-root", NULL};
const char *const mig_command_mode_changes[] = {"refuse", "reset", "reboot", "reset-or-reboot", NULL};
const char *const mig_command_formats[] = {"yaml", "json", NULL};

int mig_command_write(const char *file, const struct strbuf *text, struct error *err)
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

static const struct command *const below[] = {&mig_command_apply, &mig_command_assert, &mig_command_checkpoint,
        &mig_command_export, &mig_command_generate, &mig_command_plan, &mig_command_restore, NULL};

const struct command command_mig = {
        .name = "mig",
        .summary = "plan, change and show the MIG geometry of this node's GPUs",
        .below = below,
        .shared = command_none,
        .program = "warpshare mig",
        .help = help,
};
