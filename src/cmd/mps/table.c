#include "cmd/mps/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 9U
#define STATE 2U

struct row {
        char cells[COLUMNS][600];
        enum mps_state state;
};

static const char *const heads[COLUMNS] = {
        "DAEMON", "UNIT", "STATE", "SINCE", "SERVERS", "CLIENTS", "MEMORY", "TIER", "REASON"};

static void put_age(char *text, size_t size, int64_t seconds)
{
        if (seconds < 0 || seconds > INT64_C(10000) * 86400)
                snprintf(text, size, "-");
        else if (seconds < 120)
                snprintf(text, size, "%" PRId64 "s", seconds);
        else if (seconds < 7200)
                snprintf(text, size, "%" PRId64 "m", seconds / 60);
        else if (seconds < 172800)
                snprintf(text, size, "%" PRId64 "h", seconds / 3600);
        else
                snprintf(text, size, "%" PRId64 "d", seconds / 86400);
}

static bool is_on_unit(const struct mps_daemon_status *daemon, const struct mps_client *client, const char *unit)
{
        return client->unit ? strcmp(client->unit, unit) == 0 : daemon->n_units == 1;
}

/* For a serving daemon: whether the memory of its containers is limited as a whole. */
static void put_limits(char *text, size_t size, const struct mps_daemon_status *daemon)
{
        const char *problem = NULL;
        size_t missing = 0;

        for (size_t i = 0; i < daemon->n_limits; i++) {
                missing += !daemon->limits[i].is_in_force;
                problem = problem ? problem : daemon->limits[i].problem;
        }
        if (problem)
                snprintf(text, size, "the memory of %zu of %zu containers is not limited as a whole: %s", missing,
                        daemon->n_limits, problem);
}

/* |unit| NULL: a daemon without one. */
static void make_row(struct row *row, const struct mps_daemon_status *daemon, const char *unit, int64_t now)
{
        size_t size = sizeof(row->cells[0]);
        unsigned int clients = 0;
        uint64_t bytes = 0;

        for (size_t i = 0; unit && i < daemon->n_clients; i++)
                if (is_on_unit(daemon, &daemon->clients[i], unit)) {
                        clients++;
                        bytes += daemon->clients[i].memory == UINT64_MAX ? 0 : daemon->clients[i].memory;
                }
        row->state = daemon->state;
        snprintf(row->cells[0], size, "%s", daemon->name);
        snprintf(row->cells[1], size, "%s", unit ? unit : "-");
        snprintf(row->cells[STATE], size, "%s", mps_state_name(daemon->state));
        put_age(row->cells[3], size, now - daemon->since);
        snprintf(row->cells[4], size, "%zu", daemon->n_servers);
        snprintf(row->cells[5], size, "%u/%u", clients, daemon->max_clients);
        snprintf(row->cells[6], size, "%" PRIu64 " MiB", bytes >> 20);
        snprintf(row->cells[7], size, "%s", mps_daemon_promise(daemon, unit));
        snprintf(row->cells[8], size, "%s", daemon->reason ? daemon->reason : "");
        if (!daemon->reason)
                put_limits(row->cells[8], size, daemon);
        if (!*row->cells[8] && daemon->notice)
                snprintf(row->cells[8], size, "%s", daemon->notice);
}

static const char *colour_of(enum mps_state state)
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

/* The last column is not padded. |colour| NULL: none. */
static void put_row(struct strbuf *text, const char *const *cells, const size_t *widths, const char *colour)
{
        for (unsigned int i = 0; i < COLUMNS; i++) {
                bool is_last = i + 1 == COLUMNS || (i + 2 == COLUMNS && !*cells[i + 1]);

                if (colour && i == STATE)
                        strbuf_puts(text, colour);
                strbuf_puts(text, cells[i]);
                if (colour && i == STATE)
                        strbuf_puts(text, "\033[0m");
                if (is_last)
                        break;
                strbuf_printf(text, "%*s", (int)(widths[i] + 2 - strlen(cells[i])), "");
        }
        strbuf_putc(text, '\n');
}

void mps_table_print(struct strbuf *text, const struct mps_status *status, int64_t now, bool has_colours)
{
        size_t widths[COLUMNS];
        struct row *rows;
        size_t n_rows = 0;

        for (size_t i = 0; i < status->n_daemons; i++)
                n_rows += MAX(status->daemons[i].n_units, 1U);
        rows = xcalloc(n_rows + 1, sizeof(*rows));
        n_rows = 0;
        for (size_t i = 0; i < status->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &status->daemons[i];

                for (size_t j = 0; j < MAX(daemon->n_units, 1U); j++)
                        make_row(&rows[n_rows++], daemon, daemon->n_units ? daemon->units[j] : NULL, now);
        }
        for (unsigned int i = 0; i < COLUMNS; i++) {
                widths[i] = strlen(heads[i]);
                for (size_t j = 0; j < n_rows; j++)
                        widths[i] = MAX(widths[i], strlen(rows[j].cells[i]));
        }
        put_row(text, heads, widths, NULL);
        for (size_t j = 0; j < n_rows; j++) {
                const char *cells[COLUMNS];

                for (unsigned int i = 0; i < COLUMNS; i++)
                        cells[i] = rows[j].cells[i];
                put_row(text, cells, widths, has_colours ? colour_of(rows[j].state) : NULL);
        }
        free(rows);
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
