#include "cmd/mps/table.h"

#include <inttypes.h>
#include <string.h>

#include "cmd/cli/columns.h"

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
