// SPDX-License-Identifier: Apache-2.0
/* The daemons as metrics: net/metrics/exposition.h makes the text, docs/metrics.md explains each metric. */
#include <string.h>

#include "net/metrics/exposition.h"
#include "mps/wire/message.h"

/* |unit| and |state| may be NULL. */
static void put_sample(struct exposition *to, const struct mps_daemon_status *daemon, const char *unit,
        const char *state, double value)
{
        exposition_sample(to,
                EXPOSITION_LABELS(
                        {"daemon", daemon->name}, {"resource", daemon->resource}, {"unit", unit}, {"state", state}),
                value);
}

/* ---- families with one value per daemon ---- */

#define FIELD(member) offsetof(struct mps_daemon_status, member), sizeof(((const struct mps_daemon_status *)0)->member)

static const struct {
        const char *name;
        enum exposition_type type;
        const char *help;
        size_t offset;
        size_t size;
        double scale; /* by which the number is multiplied */
} daemon_families[] = {
        {"warpshare_mps_daemon_state_since_seconds", EXPOSITION_GAUGE,
                "When the daemon entered its state, in seconds since the epoch.", FIELD(since), 1},
        {"warpshare_mps_daemon_restarts_total", EXPOSITION_COUNTER, "Starts after faults.", FIELD(restarts), 1},
        {"warpshare_mps_daemon_settings_restored_total", EXPOSITION_COUNTER,
                "Settings that were changed from outside (configuration drift) and restored.", FIELD(repairs), 1},
        {"warpshare_mps_daemon_servers", EXPOSITION_GAUGE, "MPS servers of the daemon.", FIELD(n_servers), 1},
        {"warpshare_mps_daemon_active_thread_ratio", EXPOSITION_GAUGE,
                "Default active thread percentage of a client, as read back, from 0 to 1.", FIELD(threads_permille),
                0.001},
        {"warpshare_mps_daemon_memory_limit_bytes", EXPOSITION_GAUGE,
                "Default pinned device memory limit of a client, as read back; 0: none.", FIELD(limit_mib),
                1024.0 * 1024},
};

static double metrics_value_of(const struct mps_daemon_status *daemon, size_t family)
{
        const char *at = (const char *)daemon + daemon_families[family].offset;
        unsigned int small;
        uint64_t large;

        if (daemon_families[family].size == sizeof(large)) {
                memcpy(&large, at, sizeof(large));
                return (double)large * daemon_families[family].scale;
        }
        memcpy(&small, at, sizeof(small));
        return small * daemon_families[family].scale;
}

static void put_daemon_families(struct exposition *to, const struct mps_status *status)
{
        for (size_t i = 0; i < ARRAY_SIZE(daemon_families); i++) {
                exposition_family(to, daemon_families[i].name, daemon_families[i].type, daemon_families[i].help);
                for (size_t j = 0; j < status->n_daemons; j++)
                        put_sample(to, &status->daemons[j], NULL, NULL, metrics_value_of(&status->daemons[j], i));
        }
}

static void put_states(struct exposition *to, const struct mps_status *status)
{
        exposition_family(to, "warpshare_mps_daemon_state", EXPOSITION_GAUGE,
                "1 for the state that the daemon is in, 0 for the others.");
        for (size_t i = 0; i < status->n_daemons; i++)
                for (unsigned int state = MPS_OFF; state <= MPS_FAULT; state++)
                        put_sample(to, &status->daemons[i], NULL, mps_state_name((enum mps_state)state),
                                status->daemons[i].state == (enum mps_state)state);
}

static void put_container_limits(struct exposition *to, const struct mps_status *status)
{
        static const char *const states[] = {"missing", "in_force"};

        exposition_family(to, "warpshare_mps_container_limits", EXPOSITION_GAUGE,
                "Containers with a limit for the memory of all their processes together: in_force or missing.");
        for (size_t i = 0; i < status->n_daemons; i++)
                for (unsigned int state = 0; state < ARRAY_SIZE(states); state++) {
                        size_t count = 0;

                        for (size_t j = 0; j < status->daemons[i].n_limits; j++)
                                count += status->daemons[i].limits[j].is_in_force == (state == 1);
                        put_sample(to, &status->daemons[i], NULL, states[state], (double)count);
                }
}

/* ---- families with one value per unit ---- */

/* If the control daemon does not say, a client is on the daemon's only unit. */
static bool metrics_is_on_unit(
        const struct mps_daemon_status *daemon, const struct mps_client *client, const char *unit)
{
        return client->unit ? strcmp(client->unit, unit) == 0 : daemon->n_units == 1;
}

static double unit_clients(const struct mps_daemon_status *daemon, const char *unit)
{
        size_t count = 0;

        for (size_t i = 0; i < daemon->n_clients; i++)
                count += metrics_is_on_unit(daemon, &daemon->clients[i], unit);
        return (double)count;
}

static double unit_max_clients(const struct mps_daemon_status *daemon, const char *unit UNUSED)
{
        return daemon->max_clients;
}

static double wire_metrics_unit_memory(const struct mps_daemon_status *daemon, const char *unit)
{
        double bytes = 0;

        for (size_t i = 0; i < daemon->n_clients; i++)
                if (metrics_is_on_unit(daemon, &daemon->clients[i], unit) && daemon->clients[i].memory != UINT64_MAX)
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
        {"warpshare_mps_unit_memory_bytes", "Device memory that NVML accounts to the unit's clients.",
                wire_metrics_unit_memory},
};

static void put_unit_families(struct exposition *to, const struct mps_status *status)
{
        for (size_t i = 0; i < ARRAY_SIZE(unit_families); i++) {
                exposition_family(to, unit_families[i].name, EXPOSITION_GAUGE, unit_families[i].help);
                for (size_t j = 0; j < status->n_daemons; j++)
                        for (size_t k = 0; k < status->daemons[j].n_units; k++)
                                put_sample(to, &status->daemons[j], status->daemons[j].units[k], NULL,
                                        unit_families[i].value(&status->daemons[j], status->daemons[j].units[k]));
        }
}

/* ---- the shared memory ---- */

static const struct {
        const char *name;
        const char *help;
        size_t offset;
} shm_families[] = {
        {"warpshare_mps_shared_memory_size_bytes",
                "Size of the tmpfs at /dev/shm of the MPS daemon and its clients; without the label daemon: of the "
                "one that the daemons share.",
                offsetof(struct mps_shm, size)},
        {"warpshare_mps_shared_memory_used_bytes", "Bytes used in that tmpfs.", offsetof(struct mps_shm, used)},
        {"warpshare_mps_shared_memory_files_max", "The most files that the tmpfs may have; 0: no limit.",
                offsetof(struct mps_shm, files_max)},
        {"warpshare_mps_shared_memory_files", "Files in that tmpfs.", offsetof(struct mps_shm, files)},
};

static void put_shm_sample(
        struct exposition *to, size_t position, const struct mps_shm *shm, const struct mps_daemon_status *daemon)
{
        const double value = (double)*(const uint64_t *)((const char *)shm + shm_families[position].offset);

        if (!shm->size)
                return;
        if (daemon)
                put_sample(to, daemon, NULL, NULL, value);
        else
                exposition_sample(to, EXPOSITION_LABELS(), value);
}

static void put_shm(struct exposition *to, const struct mps_status *status)
{
        for (size_t i = 0; i < ARRAY_SIZE(shm_families); i++) {
                exposition_family(to, shm_families[i].name, EXPOSITION_GAUGE, shm_families[i].help);
                put_shm_sample(to, i, &status->shm, NULL);
                for (size_t j = 0; j < status->n_daemons; j++)
                        put_shm_sample(to, i, &status->daemons[j].shm, &status->daemons[j]);
        }
}

void mps_status_expose(struct exposition *to, const struct mps_status *status)
{
        put_states(to, status);
        put_daemon_families(to, status);
        put_container_limits(to, status);
        put_unit_families(to, status);
        put_shm(to, status);
}

char *mps_status_metrics(const struct mps_status *status)
{
        struct exposition exposition = EXPOSITION_INIT;

        mps_status_expose(&exposition, status);
        return exposition_take(&exposition);
}
