/* warpshare mig assert: says whether this node's GPUs have what a configuration wants. */
#include <stdio.h>

#include "cmd/mig/command.h"
#include "cmd/mig/source.h"
#include "mig/node.h"

enum { NAMED_FILE, CONFIG, MODE_ONLY, VALID_CONFIG };

static const struct option own[] = {
        [NAMED_FILE] = MIG_COMMAND_FILE,
        [CONFIG] = MIG_COMMAND_CONFIG,
        [MODE_ONLY] = COMMAND_FLAG("mode-only", "compare only whether MIG is enabled", .aliases = {"m"}),
        [VALID_CONFIG] = COMMAND_FLAG("valid-config",
                "only say whether the file can be read and has the configuration; the GPUs are not looked at",
                .aliases = {"a"}),
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

int mig_assert(struct command_call *call, const char *file, const char *config, bool is_mode_only, bool is_valid_only,
        struct error *err)
{
        struct mig_source source;
        int status;

        if (is_valid_only)
                return check_config(call, file, config, err);
        status = mig_source_open(&source, &call->set, file, config, is_mode_only, err);
        if (status == 0)
                status = assert_compare(call->command, &source, is_mode_only);
        mig_source_close(&source);
        return status;
}

static int assert_run(struct command_call *call, struct error *err)
{
        return mig_assert(call, call->values[NAMED_FILE], call->values[CONFIG], command_is_set(call, MODE_ONLY),
                command_is_set(call, VALID_CONFIG), err);
}

const struct command mig_command_assert = {
        .name = "assert",
        .summary = "say whether the GPUs have what a configuration wants",
        .run = assert_run,
        .is_apart = true,
        .lost_status = EXIT_INTERRUPTED,
        .shared = mig_command_shared,
        COMMAND_OWN(own),
        .program = "warpshare mig assert",
        .help = help,
};
