/*
 * The daemons as Prometheus text (exposition format 0.0.4): one family after the other, as the format asks for.
 */
#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "mps/message.h"

/* Backslash, quote and newline are all that the format escapes. */
static void put_label(struct strbuf *text, const char *name, const char *value)
{
        strbuf_printf(text, "%s=\"", name);
        for (; *value; value++) {
                if (*value == '\\' || *value == '"')
                        strbuf_putc(text, '\\');
                if (*value == '\n')
                        strbuf_puts(text, "\\n");
                else
                        strbuf_putc(text, *value);
        }
        strbuf_putc(text, '"');
}

static void put_head(struct strbuf *text, const char *name, const char *type, const char *help)
{
        strbuf_printf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* |unit| and |state| may be NULL. */
static void put_sample(struct strbuf *text, const char *name, const struct mps_daemon_status *daemon, const char *unit,
        const char *state, double value)
{
        strbuf_printf(text, "%s{", name);
        put_label(text, "daemon", daemon->name);
        strbuf_putc(text, ',');
        put_label(text, "resource", daemon->resource);
        if (unit) {
                strbuf_putc(text, ',');
                put_label(text, "unit", unit);
        }
        if (state) {
                strbuf_putc(text, ',');
                put_label(text, "state", state);
        }
        strbuf_printf(text, "} %.15g\n", value);
}

/* ---- families with one value a daemon ---- */

static double value_restarts(const struct mps_daemon_status *daemon)
{
        return daemon->restarts;
}

static double value_since(const struct mps_daemon_status *daemon)
{
        return (double)daemon->since;
}

static double value_servers(const struct mps_daemon_status *daemon)
{
        return (double)daemon->n_servers;
}

static double value_threads(const struct mps_daemon_status *daemon)
{
        return daemon->threads_permille / 1000.0;
}

static double value_limit(const struct mps_daemon_status *daemon)
{
        return (double)daemon->limit_mib * 1024 * 1024;
}

static const struct {
        const char *name;
        const char *type;
        const char *help;
        double (*value)(const struct mps_daemon_status *daemon);
} daemon_families[] = {
        {"warpshare_mps_daemon_state_since_seconds", "gauge", "When the daemon came into its state, since the epoch.",
                value_since},
        {"warpshare_mps_daemon_restarts_total", "counter", "Starts after faults.", value_restarts},
        {"warpshare_mps_daemon_servers", "gauge", "MPS servers of the daemon.", value_servers},
        {"warpshare_mps_daemon_active_thread_ratio", "gauge",
                "Default active thread percentage of a client, as read back, from 0 to 1.", value_threads},
        {"warpshare_mps_daemon_memory_limit_bytes", "gauge",
                "Default pinned device memory limit of a client, as read back; 0: none.", value_limit},
};

static void put_daemon_families(struct strbuf *text, const struct mps_status *status)
{
        for (size_t i = 0; i < ARRAY_SIZE(daemon_families); i++) {
                put_head(text, daemon_families[i].name, daemon_families[i].type, daemon_families[i].help);
                for (size_t j = 0; j < status->n_daemons; j++)
                        put_sample(text, daemon_families[i].name, &status->daemons[j], NULL, NULL,
                                daemon_families[i].value(&status->daemons[j]));
        }
}

static void put_states(struct strbuf *text, const struct mps_status *status)
{
        static const char name[] = "warpshare_mps_daemon_state";

        put_head(text, name, "gauge", "1 for the state that the daemon is in, 0 for the others.");
        for (size_t i = 0; i < status->n_daemons; i++)
                for (unsigned int state = MPS_OFF; state <= MPS_FAULT; state++)
                        put_sample(text, name, &status->daemons[i], NULL, mps_state_name((enum mps_state)state),
                                status->daemons[i].state == (enum mps_state)state);
}

/* ---- families with one value a unit ---- */

/* Where the control daemon does not tell, a daemon of one unit leaves no doubt. */
static bool is_on_unit(const struct mps_daemon_status *daemon, const struct mps_client *client, const char *unit)
{
        return client->unit ? strcmp(client->unit, unit) == 0 : daemon->n_units == 1;
}

static double unit_clients(const struct mps_daemon_status *daemon, const char *unit)
{
        size_t count = 0;

        for (size_t i = 0; i < daemon->n_clients; i++)
                count += is_on_unit(daemon, &daemon->clients[i], unit);
        return (double)count;
}

static double unit_max_clients(const struct mps_daemon_status *daemon, const char *unit UNUSED)
{
        return daemon->max_clients;
}

static double unit_memory(const struct mps_daemon_status *daemon, const char *unit)
{
        double bytes = 0;

        for (size_t i = 0; i < daemon->n_clients; i++)
                if (is_on_unit(daemon, &daemon->clients[i], unit) && daemon->clients[i].memory != UINT64_MAX)
                        bytes += (double)daemon->clients[i].memory;
        return bytes;
}

static const struct {
        const char *name;
        const char *help;
        double (*value)(const struct mps_daemon_status *daemon, const char *unit);
} unit_families[] = {
        {"warpshare_mps_unit_clients", "MPS clients on the unit.", unit_clients},
        {"warpshare_mps_unit_max_clients", "The most clients that the server takes on the unit.", unit_max_clients},
        {"warpshare_mps_unit_memory_bytes", "Device memory that NVML accounts to the unit's clients.", unit_memory},
};

static void put_unit_families(struct strbuf *text, const struct mps_status *status)
{
        for (size_t i = 0; i < ARRAY_SIZE(unit_families); i++) {
                put_head(text, unit_families[i].name, "gauge", unit_families[i].help);
                for (size_t j = 0; j < status->n_daemons; j++)
                        for (size_t k = 0; k < status->daemons[j].n_units; k++)
                                put_sample(text, unit_families[i].name, &status->daemons[j],
                                        status->daemons[j].units[k], NULL,
                                        unit_families[i].value(&status->daemons[j], status->daemons[j].units[k]));
        }
}

char *mps_status_metrics(const struct mps_status *status)
{
        struct strbuf text = STRBUF_INIT;

        put_states(&text, status);
        put_daemon_families(&text, status);
        put_unit_families(&text, status);
        return strbuf_take(&text);
}
