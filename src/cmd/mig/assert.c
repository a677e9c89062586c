/* warpshare mig assert: says whether this node's GPUs have what a configuration wants. */
#include <stdio.h>
#include <string.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/compare.h"

enum { NAMED_FILE, CONFIG, MODE_ONLY, VALID_CONFIG };

static const struct option own[] = {
        [NAMED_FILE] = MIG_COMMAND_FILE,
        [CONFIG] = MIG_COMMAND_CONFIG,
        [MODE_ONLY] = {.flag = "mode-only",
                .aliases = {"m"},
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "compare only whether MIG is enabled"},
        [VALID_CONFIG] = {.flag = "valid-config",
                .aliases = {"a"},
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "only say whether the file can be read and has the configuration; the GPUs are not looked at"},
};

static const char help[] =
        "usage: warpshare mig assert [OPTION...]\n"
        "\n"
        "Compares the MIG geometry of this node's GPUs with a configuration, and changes nothing. The exit status is\n"
        "0 when they are the same, else 1, and standard error says what differs. Where MIG devices are placed\n"
        "does not count. GPUs that the configuration does not name are not compared.\n"
        "\n"
        "  warpshare mig assert --file mig.yaml --config mixed\n"
        "  warpshare mig assert --config all-disabled --mode-only\n"
        "\n";

const struct command_line mig_command_assert_line = {
        .shared = mig_command_shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mig assert",
        .help = help,
};

/* The GPUs are only looked at where they are what configurations are generated of. */
static int check_config(
        const struct command_line *line, const struct option_set *set, const char *file, const char *config)
{
        const struct mig_parted_config *found;
        struct mig_source source = {.arena = ARENA_INIT};
        struct error err;
        int status = 0;

        if ((*file ? mig_parted_read(&source.parted, &source.arena, file, command_line_warn, NULL, &err)
                   : mig_source_open_file(&source, set, file, &err)) < 0 ||
                mig_parted_choose(&found, &source.parted, config, &err) < 0)
                status = command_line_fail(line, &err);
        else
                puts("Selected MIG configuration is valid");
        mig_source_close(&source);
        return status;
}

static int compare(const struct command_line *line, struct mig_source *source, bool is_mode_only)
{
        int status = 0;

        for (size_t i = 0; i < source->node.n_gpus; i++) {
                const char *difference =
                        mig_compare(&source->arena, &source->node.gpus[i], &source->wanted[i], is_mode_only);

                if (!difference)
                        continue;
                fprintf(stderr, "%s: %s\n", line->program, difference);
                status = EXIT_FAILED;
        }
        if (status == 0)
                puts(is_mode_only ? "Selected MIG mode settings from configuration currently applied"
                                  : "Selected MIG configuration currently applied");
        return status;
}

int mig_assert(const struct command_line *line, const struct option_set *set, const char *file, const char *config,
        bool is_mode_only, bool is_valid_only)
{
        struct mig_source source;
        struct error err;
        int status;

        if (is_valid_only)
                return check_config(line, set, file, config);
        if (mig_source_open(&source, set, file, config, is_mode_only, &err) < 0)
                status = command_line_fail(line, &err);
        else
                status = compare(line, &source, is_mode_only);
        mig_source_close(&source);
        return status;
}

int mig_command_assert(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        int status;

        if (!command_line_read(&mig_command_assert_line, &set, values, &arena, argc, argv, &status))
                return status;
        return mig_assert(&mig_command_assert_line, &set, values[NAMED_FILE], values[CONFIG],
                strcmp(values[MODE_ONLY], "true") == 0, strcmp(values[VALID_CONFIG], "true") == 0);
}
