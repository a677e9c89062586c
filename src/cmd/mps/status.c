// SPDX-License-Identifier: Apache-2.0
/* warpshare mps status and ping: one question to the supervisor. */
#include "cmd/mps/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmd/cli/columns.h"
#include "cmd/mps/command.h"
#include "config/config.h"
#include "mps/client/ask.h"
#include "mps/wire/message.h"

char *mps_find_root(const char *directory, const char *mps_root, const char *system_root)
{
        const char *const others[] = {mps_root, strcmp(directory, CONFIG_MPS_DIRECTORY) == 0 ? STANDALONE_ROOT : ""};

        for (size_t i = 0; i < ARRAY_SIZE(others) && access(directory, F_OK) < 0; i++) {
                _free_ char *on_host = xasprintf("%s%s", system_root, others[i]);

                if (*others[i] && access(on_host, F_OK) == 0)
                        return TAKE_PTR(on_host);
        }
        return xstrdup(directory);
}

/* ---- as a table ---- */

static void add_age(struct columns *columns, int64_t seconds)
{
        if (seconds < 0 || seconds > INT64_C(10000) * 86400)
                columns_add(columns, "-");
        else if (seconds < 120)
                columns_add(columns, "%" PRId64 "s", seconds);
        else if (seconds < 7200)
                columns_add(columns, "%" PRId64 "m", seconds / 60);
        else if (seconds < 172800)
                columns_add(columns, "%" PRId64 "h", seconds / 3600);
        else
                columns_add(columns, "%" PRId64 "d", seconds / 86400);
}

static bool table_is_on_unit(const struct mps_daemon_status *daemon, const struct mps_client *client, const char *unit)
{
        return client->unit ? strcmp(client->unit, unit) == 0 : daemon->n_units == 1;
}

/* Why it does not serve; else whether the memory of its containers is limited as a whole, or what else is notable. */
static void add_reason(struct columns *columns, const struct mps_daemon_status *daemon)
{
        const char *problem = NULL;
        size_t missing = 0;

        for (size_t i = 0; i < daemon->n_limits; i++) {
                missing += !daemon->limits[i].is_in_force;
                problem = problem ? problem : daemon->limits[i].problem;
        }
        if (problem && !daemon->reason)
                columns_add(columns, "the memory of %zu of %zu containers is not limited as a whole: %s", missing,
                        daemon->n_limits, problem);
        else
                columns_add(columns, "%s", daemon->reason ? daemon->reason : daemon->notice ? daemon->notice : "");
}

static const char *state_colour(enum mps_state state)
{
        static const char *const colours[] = {
                [MPS_OFF] = "\033[2m",
                [MPS_STARTING] = "\033[33m",
                [MPS_CONFIGURING] = "\033[33m",
                [MPS_READY] = "\033[32m",
                [MPS_DRAINING] = "\033[33m",
                [MPS_FAULT] = "\033[31m",
        };

        return colours[state];
}

/* |unit| NULL: a daemon without one. */
static void add_daemon_row(struct columns *columns, const struct mps_daemon_status *daemon, const char *unit,
        int64_t now, bool has_colours)
{
        unsigned int clients = 0;
        uint64_t bytes = 0;

        for (size_t i = 0; unit && i < daemon->n_clients; i++)
                if (table_is_on_unit(daemon, &daemon->clients[i], unit)) {
                        clients++;
                        bytes += daemon->clients[i].memory == UINT64_MAX ? 0 : daemon->clients[i].memory;
                }
        columns_add(columns, "%s", daemon->name);
        columns_add(columns, "%s", unit ? unit : "-");
        columns_add(columns, "%s", mps_state_name(daemon->state));
        if (has_colours)
                columns_tint(columns, state_colour(daemon->state));
        add_age(columns, now - daemon->since);
        columns_add(columns, "%zu", daemon->n_servers);
        columns_add(columns, "%u/%u", clients, daemon->max_clients);
        columns_add(columns, "%" PRIu64 " MiB", bytes >> 20);
        columns_add(columns, "%s", mps_daemon_promise(daemon, unit));
        add_reason(columns, daemon);
}

void mps_table_print(struct strbuf *text, const struct mps_status *status, int64_t now, bool has_colours)
{
        static const struct column list[] = {
                {"DAEMON"}, {"UNIT"}, {"STATE"}, {"SINCE"}, {"SERVERS"}, {"CLIENTS"}, {"MEMORY"}, {"TIER"}, {"REASON"}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        columns.keeps_idle = true;
        for (size_t i = 0; i < status->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &status->daemons[i];

                for (size_t j = 0; j < MAX(daemon->n_units, 1U); j++)
                        add_daemon_row(&columns, daemon, daemon->n_units ? daemon->units[j] : NULL, now, has_colours);
        }
        columns_print(text, &columns, "", false);
        columns_done(&columns);
}

/* In the order of the table above. */
static void print_holders(struct strbuf *text, const struct mps_status *status, const char *unit)
{
        for (size_t i = 0; i < status->n_holders; i++) {
                const struct mps_holder *holder = &status->holders[i];

                if (strcmp(holder->unit, unit) == 0)
                        strbuf_printf(text, "%s  %s %s\n", unit, holder->claim ? "claim" : "pod",
                                holder->claim ? holder->claim
                                : holder->pod ? holder->pod
                                              : "-");
        }
}

void mps_holders_print(struct strbuf *text, const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                for (size_t j = 0; j < status->daemons[i].n_units; j++)
                        print_holders(text, status, status->daemons[i].units[j]);
}

bool mps_table_is_good(const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (status->daemons[i].state != MPS_READY)
                        return false;
        return true;
}

/* ---- the commands ---- */

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
        _free_ char *root = mps_find_root(option_set_value(&call->set, "mps-directory"), "", "");
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
        _free_ char *root = mps_find_root(option_set_value(&call->set, "mps-directory"), "", "");
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
