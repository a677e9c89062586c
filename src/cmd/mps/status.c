/*
 * warpshare mps status and ping: one question to the supervisor.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/mps/command.h"
#include "cmd/mps/table.h"
#include "mps/client/ask.h"
#include "mps/wire/message.h"

static const char *const outputs[] = {"table", "json", "metrics", NULL};

static const struct option own[] = {
        COMMAND_CHOICE("output", outputs, "table",
                "table for people, json for programs (as the agent receives it), or metrics as Prometheus "
                "text"),
};

static const char *const shared[] = {"mps-directory", NULL};

static const char help[] =
        "usage: warpshare mps status [OPTION...]\n"
        "\n"
        "Asks the supervisor that runs here (`warpshare mps` or `mps-control-daemon`) for its daemons, and prints\n"
        "them: one row per unit; then who has a share of which unit, pods and DRA claims, as far as the agent has said. The\n"
        "exit status is 0 when every daemon is ready, 1 when one is not or nobody answers.\n"
        "\n"
        "  STATE    off, starting, configuring, ready, draining (ends with its last client) or fault (REASON says why; it is\n"
        "           tried again by itself)\n"
        "  CLIENTS  processes that use the daemon, and how many its server accepts\n"
        "  TIER     how shares are enforced there: default, verified, partition or namespace;\n"
        "           -no-memory-limit behind it: nobody knows how much memory the GPU has\n"
        "\n";

static void status_print_tables(struct strbuf *text, const struct mps_status *status)
{
        struct strbuf holders = STRBUF_INIT;

        mps_table_print(text, status, (int64_t)time(NULL), command_wants_colours());
        mps_holders_print(&holders, status);
        if (holders.size)
                strbuf_printf(text, "\n%s", holders.data);
        strbuf_done(&holders);
}

static void status_print(const struct mps_status *status, const char *output)
{
        struct strbuf text = STRBUF_INIT;
        _free_ char *other = NULL;

        if (strcmp(output, "json") == 0)
                other = mps_status_print(status);
        else if (strcmp(output, "metrics") == 0)
                other = mps_status_metrics(status);
        else if (status->n_daemons == 0)
                other = xstrdup("no MPS daemon is wanted on this node\n");
        else
                status_print_tables(&text, status);
        fputs(other ? other : text.data, stdout);
        strbuf_done(&text);
}

static int status_run(struct command_call *call, struct error *err)
{
        const char *root = option_set_value(&call->set, "mps-directory");
        struct mps_status *status = mps_ask(root, err);
        bool is_good;

        if (!status) {
                fprintf(stderr, "no MPS supervisor with '%s': %s\n", root, err->text);
                return EXIT_FAILED;
        }
        status_print(status, call->values[0]);
        is_good = mps_table_is_good(status);
        mps_status_free(status);
        return is_good ? 0 : EXIT_FAILED;
}

const struct command mps_command_status = {
        .name = "status",
        .summary = "show the daemons and their state",
        .run = status_run,
        .shared = shared,
        COMMAND_OWN(own),
        .program = "warpshare mps status",
        .help = help,
};

/* ---- ping: does the loop of the supervisor run? For kubelet's liveness probe, which runs it in the pod. ---- */

static const struct option ping_own[] = {
        COMMAND_TEXT("timeout", "5", "SECONDS", "how long it may take to answer, from 1 to 3600"),
};

static const char ping_help[] =
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
        COMMAND_OWN(ping_own),
        .program = "warpshare mps ping",
        .help = ping_help,
};
