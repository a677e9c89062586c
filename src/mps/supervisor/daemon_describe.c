/* The status of one daemon. */
#include "mps/supervisor/daemon_parts.h"
#include "mps/supervisor/guess.h"

#include <string.h>

unsigned int run_most_clients(const struct mps_run *run)
{
        unsigned int clients = 0;

        for (size_t i = 0; i < run->started.n_units; i++)
                clients = MAX(clients, run->started.units[i].clients);
        return clients;
}

const char *mps_run_name(const struct mps_run *run)
{
        return run->name;
}

bool mps_run_is_gone(const struct mps_run *run)
{
        return run->machine.state == MPS_OFF && !run->machine.wanted;
}

bool mps_run_is_ready(const struct mps_run *run)
{
        return run->machine.state == MPS_READY;
}

const struct mps_daemon_wanted *mps_run_settings(const struct mps_run *run)
{
        return run->launch || !run->has_wanted ? &run->started : &run->wanted;
}

bool mps_run_holds(const struct mps_run *run, const char *uuid)
{
        return run->launch && mps_daemon_unit(&run->started, uuid);
}

bool mps_run_record(const struct mps_run *run, struct mps_record_daemon *ret)
{
        if (!run->launch)
                return false;
        *ret = (struct mps_record_daemon){
                .pid = mps_launch_pid(run->launch),
                .start_time = mps_launch_start_time(run->launch),
                .inode = run->folder.inode,
                .options = run->options,
                .can = run->can,
                .settings = run->started,
        };
        ret->settings.name = run->name;
        return ret->pid != 0;
}

unsigned int mps_run_options(const struct mps_run *run)
{
        return run->options;
}

bool run_is_v3(const struct mps_run *run)
{
        return run->options & MPS_CAN_NAMESPACE;
}

enum mps_tier mps_run_tier(const struct mps_run *run)
{
        const struct mps_daemon_wanted *settings = mps_run_settings(run);

        if (run->options & MPS_CAN_PARTITION)
                return MPS_TIER_PARTITION;
        if (run_is_v3(run))
                return MPS_TIER_NAMESPACE;
        return settings->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT
                                                              : MIN(settings->tier_limit, MPS_TIER_VERIFIED);
}

bool mps_run_has_clients(const struct mps_run *run)
{
        return run->seen && (run->seen->n_clients || run->seen->unread.count);
}

static const char *default_reason(enum mps_state state)
{
        switch (state) {
        case MPS_READY:
                return NULL;
        case MPS_OFF:
                return "it is not wanted";
        case MPS_STARTING:
                return "its control daemon has been started and has not answered yet";
        case MPS_CONFIGURING:
                return "its settings are being set and read back";
        case MPS_DRAINING:
                return "it is ending";
        case MPS_FAULT:
                return "it has failed";
        }
        return NULL;
}

static const struct mps_server *copy_servers(struct arena *arena, const struct mps_observation *seen)
{
        struct mps_server *servers = ARENA_ARRAY(arena, struct mps_server, seen->n_servers);

        for (size_t i = 0; i < seen->n_servers; i++) {
                servers[i] = seen->servers[i];
                servers[i].status = arena_strdup(arena, seen->servers[i].status);
        }
        return servers;
}

static const struct mps_client *copy_clients(struct arena *arena, const struct mps_observation *seen)
{
        struct mps_client *clients = ARENA_ARRAY(arena, struct mps_client, seen->n_clients);

        for (size_t i = 0; i < seen->n_clients; i++) {
                clients[i] = seen->clients[i];
                clients[i].unit = arena_strdup(arena, seen->clients[i].unit);
                clients[i].pod_uid = arena_strdup(arena, seen->clients[i].pod_uid);
                clients[i].container_id = arena_strdup(arena, seen->clients[i].container_id);
                clients[i].cgroup = arena_strdup(arena, seen->clients[i].cgroup);
                clients[i].name_space = arena_strdup(arena, seen->clients[i].name_space);
                clients[i].allocation = arena_strdup(arena, seen->clients[i].allocation);
        }
        return clients;
}

/* Of a daemon whose settings are guessed nothing is known. */
static size_t find_unlimited(struct arena *arena, const struct mps_daemon_wanted *settings, const char *const **ret)
{
        const char **unlimited = ARENA_ARRAY(arena, const char *, settings->n_units);
        size_t count = 0;

        for (size_t i = 0; i < settings->n_units && !mps_guess_is(settings); i++)
                if (!settings->units[i].limit_mib)
                        unlimited[count++] = arena_strdup(arena, settings->units[i].uuid);
        *ret = unlimited;
        return count;
}

void mps_run_describe(const struct mps_run *run, struct arena *arena, struct mps_daemon_status *ret)
{
        const struct mps_daemon_wanted *settings = mps_run_settings(run);
        const char **units = ARENA_ARRAY(arena, const char *, settings->n_units);
        const char *reason = run->reason ? run->reason : default_reason(run->machine.state);

        for (size_t i = 0; i < settings->n_units; i++)
                units[i] = arena_strdup(arena, settings->units[i].uuid);
        *ret = (struct mps_daemon_status){
                .name = arena_strdup(arena, run->name),
                .resource = arena_strdup(arena, settings->resource ? settings->resource : ""),
                .units = units,
                .n_units = settings->n_units,
                .state = run->machine.state,
                .reason = reason && run->machine.state != MPS_READY ? arena_strdup(arena, reason) : NULL,
                .notice = arena_strdup(arena, run->notice),
                .since = run->since,
                .pid = run->launch ? mps_launch_pid(run->launch) : 0,
                .adopted = run->launch && mps_launch_is_adopted(run->launch),
                .restarts = run->restarts,
                .repairs = run->repairs,
                .settings = run->launch && run->started.name ? mps_daemon_digest(&run->started) : 0,
                .can = run->can,
                .tier = mps_run_tier(run),
                .threads_permille = run->threads_permille,
                .limit_mib = run->limit_mib,
                .servers = run->seen ? copy_servers(arena, run->seen) : NULL,
                .n_servers = run->seen ? run->seen->n_servers : 0,
                .clients = run->seen ? copy_clients(arena, run->seen) : NULL,
                .n_clients = run->seen ? run->seen->n_clients : 0,
                .max_clients = run_most_clients(run),
                .has_own_shm = run->has_own_shm,
                .shm = run->has_own_shm ? run->shm.shm : (struct mps_shm){0},
        };
        ret->n_unlimited = find_unlimited(arena, settings, &ret->unlimited);
}
