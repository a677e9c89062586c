#include "mps/wire/message.h"
#include "mps/wire/message_parts.h"

static const char *state_word(unsigned int position)
{
        return mps_state_name((enum mps_state)position);
}

/* ---- writing ---- */

static void put_known_uid(json_t *object, uid_t uid)
{
        if (uid != (uid_t)-1)
                message_put_uint(object, "uid", uid);
}

static json_t *of_client(const struct mps_client *client)
{
        json_t *object = json_object();

        message_put_uint(object, "pid", (uint64_t)MAX(client->pid, 0));
        message_put_uint(object, "server", (uint64_t)MAX(client->server, 0));
        put_known_uid(object, client->uid);
        message_put_text(object, "unit", client->unit);
        message_put_text(object, "podUid", client->pod_uid);
        message_put_text(object, "containerId", client->container_id);
        message_put_text(object, "namespace", client->name_space);
        message_put_text(object, "grant", client->allocation);
        if (client->has_environment)
                message_put_uint(object, "askedPermille", client->asked_permille);
        if (client->memory != UINT64_MAX)
                message_put_uint(object, "memoryBytes", client->memory);
        message_put_uint(object, "threadsPermille", client->threads_permille);
        message_put_uint(object, "limitMib", client->limit_mib);
        return object;
}

static json_t *of_server(const struct mps_server *server)
{
        json_t *object = json_object();

        message_put_uint(object, "pid", (uint64_t)MAX(server->pid, 0));
        put_known_uid(object, server->uid);
        message_put_text(object, "status", server->status);
        return object;
}

static json_t *of_limit(const struct mps_container_limit *limit)
{
        json_t *object = json_object();

        message_put_text(object, "grant", limit->allocation);
        message_put_text(object, "unit", limit->unit);
        message_put_text(object, "cgroup", limit->cgroup);
        message_put_uint(object, "limitMib", limit->limit_mib);
        json_object_set_new(object, "inForce", json_boolean(limit->is_in_force));
        message_put_text(object, "problem", limit->problem);
        return object;
}

static json_t *of_shm(const struct mps_shm *shm)
{
        json_t *object = json_object();
        json_t *owners = json_array();

        for (size_t i = 0; i < shm->n_owners; i++) {
                json_t *owner = json_object();

                put_known_uid(owner, shm->owners[i].uid);
                message_put_uint(owner, "bytes", shm->owners[i].bytes);
                message_put_uint(owner, "files", shm->owners[i].files);
                json_array_append_new(owners, owner);
        }
        message_put_uint(object, "sizeBytes", shm->size);
        message_put_uint(object, "usedBytes", shm->used);
        message_put_uint(object, "filesMax", shm->files_max);
        message_put_uint(object, "files", shm->files);
        json_object_set_new(object, "full", json_boolean(shm->is_full));
        json_object_set_new(object, "owners", owners);
        message_put_uint(object, "namelessBytes", shm->nameless);
        return object;
}

static json_t *of_daemon(const struct mps_daemon_status *daemon)
{
        json_t *object = json_object();
        json_t *units = json_array();
        json_t *servers = json_array();
        json_t *clients = json_array();
        json_t *limits = json_array();

        for (size_t i = 0; i < daemon->n_limits; i++)
                json_array_append_new(limits, of_limit(&daemon->limits[i]));
        for (size_t i = 0; i < daemon->n_units; i++)
                json_array_append_new(units, json_string(daemon->units[i]));
        for (size_t i = 0; i < daemon->n_servers; i++)
                json_array_append_new(servers, of_server(&daemon->servers[i]));
        for (size_t i = 0; i < daemon->n_clients; i++)
                json_array_append_new(clients, of_client(&daemon->clients[i]));
        message_put_text(object, "name", daemon->name);
        message_put_text(object, "resource", daemon->resource);
        json_object_set_new(object, "units", units);
        message_put_text(object, "state", mps_state_name(daemon->state));
        message_put_text(object, "reason", daemon->reason);
        message_put_text(object, "notice", daemon->notice);
        message_put_uint(object, "since", (uint64_t)MAX(daemon->since, 0));
        message_put_uint(object, "pid", (uint64_t)MAX(daemon->pid, 0));
        json_object_set_new(object, "adopted", json_boolean(daemon->adopted));
        message_put_uint(object, "restarts", daemon->restarts);
        message_put_uint(object, "repairs", daemon->repairs);
        if (daemon->settings)
                message_put_uint(object, "settings", daemon->settings);
        message_put_uint(object, "can", daemon->can);
        message_put_text(object, "tier", mps_tier_name(daemon->tier));
        message_put_uint(object, "threadsPermille", daemon->threads_permille);
        message_put_uint(object, "limitMib", daemon->limit_mib);
        message_put_uint(object, "maxClients", daemon->max_clients);
        if (daemon->has_own_shm)
                json_object_set_new(object, "sharedMemory", of_shm(&daemon->shm));
        json_object_set_new(object, "servers", servers);
        json_object_set_new(object, "clients", clients);
        json_object_set_new(object, "containerLimits", limits);
        return object;
}

json_t *message_of_status(const struct mps_status *status)
{
        json_t *object = json_object();
        json_t *daemons = json_array();

        for (size_t i = 0; i < status->n_daemons; i++)
                json_array_append_new(daemons, of_daemon(&status->daemons[i]));
        message_put_uint(object, "generation", status->generation);
        json_object_set_new(object, "daemons", daemons);
        if (status->shm.size)
                json_object_set_new(object, "sharedMemory", of_shm(&status->shm));
        return object;
}

char *mps_status_print(const struct mps_status *status)
{
        return message_print(message_of_status(status), JSON_INDENT(2));
}

/* ---- reading ---- */

static pid_t to_pid(struct message_in *in, const json_t *object, const char *key)
{
        return (pid_t)message_uint(in, object, key, 0, INT32_MAX);
}

static uid_t to_uid(struct message_in *in, const json_t *object)
{
        return json_object_get(object, "uid") ? (uid_t)message_uint(in, object, "uid", 0, UINT32_MAX) : (uid_t)-1;
}

static void to_client(struct message_in *in, const json_t *object, struct mps_client *client)
{
        *client = (struct mps_client){
                .pid = to_pid(in, object, "pid"),
                .server = to_pid(in, object, "server"),
                .uid = to_uid(in, object),
                .unit = message_text(in, object, "unit", MESSAGE_ANY),
                .pod_uid = message_text(in, object, "podUid", MESSAGE_ANY),
                .container_id = message_text(in, object, "containerId", MESSAGE_ANY),
                .name_space = message_text(in, object, "namespace", MESSAGE_ANY),
                .allocation = message_text(in, object, "grant", MESSAGE_ANY),
                .has_environment = json_object_get(object, "askedPermille") != NULL,
                .asked_permille = (unsigned int)message_uint(in, object, "askedPermille", 0, 1000),
                .memory = json_object_get(object, "memoryBytes") ? message_uint(in, object, "memoryBytes", 0, INT64_MAX)
                                                                 : UINT64_MAX,
                .threads_permille = (unsigned int)message_uint(in, object, "threadsPermille", 0, 1000),
                .limit_mib = message_uint(in, object, "limitMib", 0, INT64_MAX),
        };
}

static void to_server(struct message_in *in, const json_t *object, struct mps_server *server)
{
        *server = (struct mps_server){
                .pid = to_pid(in, object, "pid"),
                .uid = to_uid(in, object),
                .status = message_text(in, object, "status", MESSAGE_ANY),
        };
}

static void to_servers(struct message_in *in, const json_t *object, struct mps_daemon_status *daemon)
{
        size_t count;
        const json_t *array = message_array(in, object, "servers", MESSAGE_SERVERS_MAX, &count);
        struct mps_server *servers = ARENA_ARRAY(in->arena, struct mps_server, count);

        for (size_t i = 0; i < count && !in->is_bad; i++) {
                to_server(in, json_array_get(array, i), &servers[i]);
                message_bad_item(in, "servers", i);
        }
        daemon->servers = servers;
        daemon->n_servers = count;
}

static void to_clients(struct message_in *in, const json_t *object, struct mps_daemon_status *daemon)
{
        size_t count;
        const json_t *array = message_array(in, object, "clients", MESSAGE_CLIENTS_MAX, &count);
        struct mps_client *clients = ARENA_ARRAY(in->arena, struct mps_client, count);

        for (size_t i = 0; i < count && !in->is_bad; i++) {
                to_client(in, json_array_get(array, i), &clients[i]);
                message_bad_item(in, "clients", i);
        }
        daemon->clients = clients;
        daemon->n_clients = count;
}

static void to_limit(struct message_in *in, const json_t *object, struct mps_container_limit *limit)
{
        *limit = (struct mps_container_limit){
                .allocation = message_need_text(in, object, "grant", MESSAGE_ALLOCATION),
                .unit = message_need_text(in, object, "unit", MESSAGE_UUID),
                .cgroup = message_need_text(in, object, "cgroup", MESSAGE_ANY),
                .limit_mib = message_uint(in, object, "limitMib", 0, UINT32_MAX),
                .is_in_force = message_bool(in, object, "inForce"),
                .problem = message_text(in, object, "problem", MESSAGE_ANY),
        };
}

static void to_limits(struct message_in *in, const json_t *object, struct mps_daemon_status *daemon)
{
        size_t count;
        const json_t *array = message_array(in, object, "containerLimits", MESSAGE_CLIENTS_MAX, &count);
        struct mps_container_limit *limits = ARENA_ARRAY(in->arena, struct mps_container_limit, count);

        for (size_t i = 0; i < count && !in->is_bad; i++) {
                to_limit(in, json_array_get(array, i), &limits[i]);
                message_bad_item(in, "containerLimits", i);
        }
        daemon->limits = limits;
        daemon->n_limits = count;
}

/* An older `warpshare mps` does not send it. */
static void to_shm(struct message_in *in, const json_t *object, struct mps_shm *shm)
{
        size_t count;
        const json_t *array;

        if (!object)
                return;
        array = message_array(in, object, "owners", MPS_SHM_OWNERS, &count);
        shm->size = message_uint(in, object, "sizeBytes", 0, INT64_MAX);
        shm->used = message_uint(in, object, "usedBytes", 0, INT64_MAX);
        shm->files_max = message_uint(in, object, "filesMax", 0, INT64_MAX);
        shm->files = message_uint(in, object, "files", 0, INT64_MAX);
        shm->is_full = message_bool(in, object, "full");
        shm->nameless = message_uint(in, object, "namelessBytes", 0, INT64_MAX);
        for (size_t i = 0; i < count && !in->is_bad; i++) {
                const json_t *owner = json_array_get(array, i);

                shm->owners[i] = (struct mps_shm_owner){
                        .uid = to_uid(in, owner),
                        .bytes = message_uint(in, owner, "bytes", 0, INT64_MAX),
                        .files = message_uint(in, owner, "files", 0, INT64_MAX),
                };
                message_bad_item(in, "owners", i);
        }
        shm->n_owners = in->is_bad ? 0 : count;
}

static void to_daemon(struct message_in *in, const json_t *object, struct mps_daemon_status *daemon)
{
        size_t n_units;
        const char *const *units = message_texts(in, object, "units", MESSAGE_UUID, MESSAGE_UNITS_MAX, &n_units);

        *daemon = (struct mps_daemon_status){
                .name = message_need_text(in, object, "name", MESSAGE_PATH),
                .resource = message_need_text(in, object, "resource", MESSAGE_ANY),
                .units = units,
                .n_units = n_units,
                .state = (enum mps_state)message_word(in, object, "state", state_word, MPS_FAULT + 1),
                .reason = message_text(in, object, "reason", MESSAGE_ANY),
                .notice = message_text(in, object, "notice", MESSAGE_ANY),
                .since = (int64_t)message_uint(in, object, "since", 0, INT64_MAX),
                .pid = to_pid(in, object, "pid"),
                .adopted = message_bool(in, object, "adopted"),
                .restarts = (unsigned int)message_uint(in, object, "restarts", 0, UINT32_MAX),
                .repairs = (unsigned int)message_uint(in, object, "repairs", 0, UINT32_MAX),
                .settings = message_uint(in, object, "settings", 0, INT64_MAX),
                .can = (unsigned int)message_uint(in, object, "can", 0, UINT32_MAX),
                .tier = (enum mps_tier)message_word(in, object, "tier", message_tier, MESSAGE_TIERS),
                .threads_permille = (unsigned int)message_uint(in, object, "threadsPermille", 0, 1000),
                .limit_mib = message_uint(in, object, "limitMib", 0, INT64_MAX),
                .max_clients = (unsigned int)message_uint(in, object, "maxClients", 0, UINT32_MAX),
                .has_own_shm = json_object_get(object, "sharedMemory") != NULL,
        };
        to_shm(in, json_object_get(object, "sharedMemory"), &daemon->shm);
        to_servers(in, object, daemon);
        to_clients(in, object, daemon);
        to_limits(in, object, daemon);
}

void message_to_status(struct message_in *in, const json_t *object, struct mps_status *status)
{
        size_t count;
        const json_t *array = message_array(in, object, "daemons", MESSAGE_DAEMONS_MAX, &count);
        struct mps_daemon_status *daemons = ARENA_ARRAY(in->arena, struct mps_daemon_status, count);

        status->generation = message_uint(in, object, "generation", 0, INT64_MAX);
        for (size_t i = 0; i < count && !in->is_bad; i++) {
                to_daemon(in, json_array_get(array, i), &daemons[i]);
                message_bad_item(in, "daemons", i);
        }
        to_shm(in, json_object_get(object, "sharedMemory"), &status->shm);
        status->daemons = daemons;
        status->n_daemons = count;
}
