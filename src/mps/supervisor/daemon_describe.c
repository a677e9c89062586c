/* The status of one daemon. */
#include "mps/supervisor/daemon_state.h"
#include "mps/supervisor/record.h"

#include <string.h>

unsigned int daemon_most_clients(const struct mps_daemon *daemon)
{
        unsigned int clients = 0;

        for (size_t i = 0; i < daemon->started.value.n_units; i++)
                clients = MAX(clients, daemon->started.value.units[i].clients);
        return clients;
}

const char *mps_daemon_get_name(const struct mps_daemon *daemon)
{
        return daemon->name;
}

bool mps_daemon_is_gone(const struct mps_daemon *daemon)
{
        return daemon->machine.state == MPS_OFF && !daemon->machine.wanted;
}

bool mps_daemon_is_ready(const struct mps_daemon *daemon)
{
        return daemon->machine.state == MPS_READY;
}

const struct mps_daemon_wanted *mps_daemon_settings(const struct mps_daemon *daemon)
{
        return daemon->process.launch || !daemon->wanted.value.name ? &daemon->started.value : &daemon->wanted.value;
}

bool mps_daemon_holds(const struct mps_daemon *daemon, const char *uuid)
{
        return daemon->process.launch && mps_daemon_unit(&daemon->started.value, uuid);
}

bool mps_daemon_record(const struct mps_daemon *daemon, struct mps_record_daemon *ret)
{
        if (!daemon->process.launch)
                return false;
        *ret = (struct mps_record_daemon){
                .pid = mps_launch_pid(daemon->process.launch),
                .start_time = mps_launch_start_time(daemon->process.launch),
                .inode = daemon->folder.inode,
                .options = daemon->process.options,
                .can = daemon->process.can,
                .settings = daemon->started.value,
        };
        ret->settings.name = daemon->name;
        return ret->pid != 0;
}

unsigned int mps_daemon_options(const struct mps_daemon *daemon)
{
        return daemon->process.options;
}

bool daemon_is_v3(const struct mps_daemon *daemon)
{
        return daemon->process.options & MPS_CAN_NAMESPACE;
}

enum mps_tier mps_daemon_tier(const struct mps_daemon *daemon)
{
        const struct mps_daemon_wanted *settings = mps_daemon_settings(daemon);

        if (daemon->process.options & MPS_CAN_PARTITION)
                return MPS_TIER_PARTITION;
        if (daemon_is_v3(daemon))
                return MPS_TIER_NAMESPACE;
        return settings->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT
                                                              : MIN(settings->tier_limit, MPS_TIER_VERIFIED);
}

bool mps_daemon_has_clients(const struct mps_daemon *daemon)
{
        return daemon->polls.seen && (daemon->polls.seen->n_clients || daemon->polls.seen->unread.count);
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

/* Finds the units without a limit of memory. If the settings are guessed, none is known. */
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

void mps_daemon_describe(const struct mps_daemon *daemon, struct arena *arena, struct mps_daemon_status *ret)
{
        const struct mps_daemon_wanted *settings = mps_daemon_settings(daemon);
        const char **units = ARENA_ARRAY(arena, const char *, settings->n_units);
        const char *reason = daemon->notes.reason ? daemon->notes.reason : default_reason(daemon->machine.state);

        for (size_t i = 0; i < settings->n_units; i++)
                units[i] = arena_strdup(arena, settings->units[i].uuid);
        *ret = (struct mps_daemon_status){
                .name = arena_strdup(arena, daemon->name),
                .resource = arena_strdup(arena, settings->resource ? settings->resource : ""),
                .units = units,
                .n_units = settings->n_units,
                .state = daemon->machine.state,
                .reason = reason && daemon->machine.state != MPS_READY ? arena_strdup(arena, reason) : NULL,
                .notice = arena_strdup(arena, daemon->notes.notice),
                .since = daemon->notes.since,
                .pid = daemon->process.launch ? mps_launch_pid(daemon->process.launch) : 0,
                .adopted = daemon->process.launch && mps_launch_is_adopted(daemon->process.launch),
                .restarts = daemon->notes.restarts,
                .repairs = daemon->checks.repairs,
                .settings = daemon->process.launch && daemon->started.value.name
                                    ? mps_daemon_digest(&daemon->started.value)
                                    : 0,
                .can = daemon->process.can,
                .tier = mps_daemon_tier(daemon),
                .threads_permille = daemon->checks.threads_permille,
                .limit_mib = daemon->checks.limit_mib,
                .servers = daemon->polls.seen ? copy_servers(arena, daemon->polls.seen) : NULL,
                .n_servers = daemon->polls.seen ? daemon->polls.seen->n_servers : 0,
                .clients = daemon->polls.seen ? copy_clients(arena, daemon->polls.seen) : NULL,
                .n_clients = daemon->polls.seen ? daemon->polls.seen->n_clients : 0,
                .max_clients = daemon_most_clients(daemon),
                .has_own_shm = daemon->shm.is_own,
                .shm = daemon->shm.is_own ? daemon->shm.watch.shm : (struct mps_shm){0},
        };
        ret->n_unlimited = find_unlimited(arena, settings, &ret->unlimited);
}

bool mps_daemon_poll_shm(struct mps_daemon *daemon)
{
        return daemon_shm_poll(&daemon->shm, daemon->process.launch ? mps_launch_pid(daemon->process.launch) : 0,
                mps_daemon_has_clients(daemon));
}
