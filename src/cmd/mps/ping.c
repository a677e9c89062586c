/* warpshare mps ping: does the loop of the supervisor run? For kubelet's liveness probe, which runs it in the pod. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/cli/command_line.h"
#include "cmd/mps/command.h"
#include "mps/client/ask.h"

#define TIMEOUT_MAX_S UINT64_C(3600)

static const struct option own[] = {
        {.flag = "timeout",
                .type = OPTION_STRING,
                .fallback = "5",
                .argument = "SECONDS",
                .help = "how long it may take to answer, from 1 to 3600"},
};

static const char *const shared[] = {"mps-directory", NULL};

static const char help[] =
        "usage: warpshare mps ping [OPTION...]\n"
        "\n"
        "Asks the supervisor that runs here (`warpshare mps` or `mps-control-daemon`) for a sign of life, over its socket.\n"
        "The exit status is 0, and nothing is printed, when it answers in time: also while daemons are at fault, and while\n"
        "NVML or a GPU hangs, which a restart would not repair. `warpshare mps status` says how the daemons are.\n"
        "\n";

const struct command_line mps_command_ping_line = {
        .shared = shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare mps ping",
        .help = help,
};

int mps_command_ping(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        uint64_t seconds = 0;
        struct error err;
        int status;

        if (!command_line_read(&mps_command_ping_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!text_to_uint(values[0], TIMEOUT_MAX_S, &seconds) || seconds == 0) {
                error_raise(&err, ERROR_INVALID, "timeout: '%.20s' is no number of seconds from 1 to %" PRIu64,
                        values[0], TIMEOUT_MAX_S);
                return command_line_refuse(&mps_command_ping_line, &err);
        }
        if (mps_ping(option_set_value(&set, "mps-directory"), seconds * 1000, &err) == 0)
                return 0;
        fprintf(stderr, "no sign of life of the MPS supervisor with '%s': %s\n",
                option_set_value(&set, "mps-directory"), err.text);
        return EXIT_FAILED;
}
