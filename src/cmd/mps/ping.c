/* warpshare mps ping: does the loop of the supervisor run? For kubelet's liveness probe, which runs it in the pod. */
#include <stdio.h>

#include "cmd/mps/command.h"
#include "mps/client/ask.h"

static const struct option own[] = {
        COMMAND_TEXT("timeout", "5", "SECONDS", "how long it may take to answer, from 1 to 3600"),
};

static const char *const shared[] = {"mps-directory", NULL};

static const char help[] =
        "usage: warpshare mps ping [OPTION...]\n"
        "\n"
        "Asks the supervisor that runs here (`warpshare mps` or `mps-control-daemon`) for a sign of life, over its socket.\n"
        "The exit status is 0, and nothing is printed, when it answers in time: also while daemons are at fault, and while\n"
        "NVML or a GPU hangs, which a restart would not repair. `warpshare mps status` says how the daemons are.\n"
        "\n";

static int ping_run(struct command_call *call, struct error *err)
{
        const char *root = option_set_value(&call->set, "mps-directory");
        uint64_t seconds;

        if (command_number(call, 0, " of seconds", 1, 3600, &seconds, err) < 0)
                return COMMAND_REFUSED;
        if (mps_ping(root, seconds * 1000, err) == 0)
                return 0;
        fprintf(stderr, "no sign of life of the MPS supervisor with '%s': %s\n", root, err->text);
        return EXIT_FAILED;
}

const struct command mps_command_ping = {
        .name = "ping",
        .summary = "ask the supervisor for a sign of life",
        .run = ping_run,
        .shared = shared,
        COMMAND_OWN(own),
        .program = "warpshare mps ping",
        .help = help,
};
