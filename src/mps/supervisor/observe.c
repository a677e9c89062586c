#include "mps/supervisor/observe.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "gpu/process_list.h"
#include "mps/control/dialogue.h"
#include "mps/control/dialogue_v3.h"
#include "mps/supervisor/identity.h"
#include "mps/supervisor/process.h"

struct mps_observation *mps_observation_free(struct mps_observation *observation)
{
        if (observation) {
                for (size_t i = 0; observation->server_fds && i < observation->n_servers; i++)
                        if (observation->server_fds[i] >= 0)
                                close(observation->server_fds[i]);
                arena_done(&observation->arena);
                free(observation);
        }
        return NULL;
}

static bool text_is_same(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool server_is_same(const struct mps_server *a, const struct mps_server *b)
{
        return a->pid == b->pid && a->uid == b->uid && text_is_same(a->status, b->status);
}

static bool client_is_same(const struct mps_client *a, const struct mps_client *b)
{
        return a->pid == b->pid && a->server == b->server && a->uid == b->uid && text_is_same(a->unit, b->unit) &&
               text_is_same(a->pod_uid, b->pod_uid) && text_is_same(a->container_id, b->container_id) &&
               text_is_same(a->name_space, b->name_space) && text_is_same(a->allocation, b->allocation) &&
               a->has_environment == b->has_environment && a->asked_permille == b->asked_permille &&
               a->threads_permille == b->threads_permille && a->limit_mib == b->limit_mib;
}

bool mps_observation_is_same(const struct mps_observation *a, const struct mps_observation *b)
{
        if (!a || !b)
                return a == b;
        if (a->n_servers != b->n_servers || a->n_clients != b->n_clients || !text_is_same(a->waiting, b->waiting))
                return false;
        for (size_t i = 0; i < a->n_servers; i++)
                if (!server_is_same(&a->servers[i], &b->servers[i]))
                        return false;
        for (size_t i = 0; i < a->n_clients; i++)
                if (!client_is_same(&a->clients[i], &b->clients[i]))
                        return false;
        return true;
}

static bool has_ended(const struct mps_client *client, const char *system_root)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct process process;
        struct error err;

        if (client->pid <= 0 || client->uid == (uid_t)-1)
                return false;
        if (process_read(&process, &arena, system_root, client->pid, &err) < 0)
                return err.kind == ERROR_NOT_FOUND; /* what cannot be read is no proof */
        return process.container_id &&
               !text_is_same(process.container_id, client->container_id); /* another has its PID */
}

bool mps_observation_drop_ended(struct mps_observation *observation, const char *system_root)
{
        size_t kept = 0;
        size_t before = observation->n_clients;

        for (size_t i = 0; i < before; i++)
                if (!has_ended(&observation->clients[i], system_root))
                        observation->clients[kept++] = observation->clients[i];
        observation->n_clients = kept;
        return kept < before;
}

void mps_observation_kill_server(const struct mps_observation *observation, size_t position)
{
        identity_kill(observation->server_fds[position]);
}

/* ---- one poll ---- */

struct mps_poll {
        struct mps_poll_options options;
        struct mps_observation *seen;
        size_t at;       /* the server that the current question is about */
        size_t capacity; /* of seen->clients */

        const char **names; /* v3: names of the servers */
        struct dialogue_v3_client *listed;
        size_t n_listed;
        size_t n_confirmed; /* or dropped */
};

struct mps_poll *mps_poll_cancel(struct mps_poll *poll)
{
        if (poll) {
                mps_observation_free(poll->seen);
                free(poll);
        }
        return NULL;
}

static void observe_end(struct mps_poll *poll, const struct error *err)
{
        struct mps_observation *seen = err ? NULL : TAKE_PTR(poll->seen);
        mps_poll_fn *done = poll->options.done;
        void *data = poll->options.data;
        struct error copy = {.kind = ERROR_NONE};

        if (err)
                copy = *err;
        mps_poll_cancel(poll);
        done(seen, err ? &copy : NULL, data);
}

static void ask_about_next(struct mps_poll *poll);

/* Used if the daemon has several units; with one, the unit is known. */
static void on_devices(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        struct mps_observation *seen = poll->seen;
        struct dialogue_device *devices;
        struct error problem;
        size_t count;

        if (err) {
                observe_end(poll, err);
                return;
        }
        if (dialogue_is_unknown_command(answer) ||
                dialogue_read_device_clients(answer, &seen->arena, &devices, &count, &problem) < 0)
                count = 0; /* the unit stays unknown */
        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < devices[i].n_clients; j++)
                        for (size_t k = 0; k < seen->n_clients; k++)
                                if (seen->clients[k].pid == devices[i].clients[j])
                                        seen->clients[k].unit = devices[i].uuid;
        observe_end(poll, NULL);
}

/* A client that has ended meanwhile gets no facts; the next poll does not list it. */
static void read_processes(struct mps_poll *poll)
{
        struct mps_observation *seen = poll->seen;
        struct process process;
        struct error err;

        for (size_t i = 0; i < seen->n_clients; i++) {
                struct mps_client *client = &seen->clients[i];

                if (client->pid <= 0 ||
                        process_read(&process, &seen->arena, poll->options.system_root, client->pid, &err) < 0)
                        continue;
                client->uid = process.uid;
                client->pod_uid = process.pod_uid;
                client->container_id = process.container_id;
                client->cgroup = process.cgroup;
                client->allocation = process.allocation;
                client->has_environment = process.has_environment;
                client->asked_permille = process.asked_permille;
        }
        for (size_t i = 0; i < seen->n_servers; i++)
                if (process_read(&process, &seen->arena, poll->options.system_root, seen->servers[i].pid, &err) == 0)
                        seen->servers[i].uid = process.uid;
}

static void observe_finish(struct mps_poll *poll)
{
        read_processes(poll);
        if (poll->options.unit || poll->options.is_v3 || poll->seen->n_clients == 0)
                observe_end(poll, NULL);
        else
                mps_control_ask(poll->options.control, "get_device_client_list", on_devices, poll);
}

static void grow_clients(struct mps_poll *poll)
{
        struct mps_observation *seen = poll->seen;
        const size_t capacity = poll->capacity ? poll->capacity * 2 : 16;
        struct mps_client *clients = ARENA_ARRAY(&seen->arena, struct mps_client, capacity);

        if (seen->n_clients)
                memcpy(clients, seen->clients, seen->n_clients * sizeof(*clients));
        seen->clients = clients;
        poll->capacity = capacity;
}

static void add_client(struct mps_poll *poll, pid_t pid)
{
        struct mps_observation *seen = poll->seen;

        if (seen->n_clients == MPS_OBSERVED_CLIENTS_MAX)
                return;
        if (seen->n_clients == poll->capacity)
                grow_clients(poll);
        seen->clients[seen->n_clients++] = (struct mps_client){
                .pid = pid,
                .server = seen->servers[poll->at].pid,
                .uid = (uid_t)-1,
                .unit = poll->options.unit,
                .memory = UINT64_MAX,
        };
}

static void on_clients(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        struct error problem;
        pid_t *pids;
        size_t count;

        if (err) {
                observe_end(poll, err);
                return;
        }
        if (dialogue_is_not_found(answer)) { /* the server has ended since it was listed */
                count = 0;
        } else if (dialogue_read_pids(answer, &poll->seen->arena, &pids, &count, &problem) < 0) {
                observe_end(poll, &problem);
                return;
        }
        for (size_t i = 0; i < count; i++)
                add_client(poll, pids[i]);
        poll->at++;
        ask_about_next(poll);
}

static void ask_for_clients(struct mps_poll *poll)
{
        char command[64];

        snprintf(command, sizeof(command), "get_client_list %d", (int)poll->seen->servers[poll->at].pid);
        mps_control_ask(poll->options.control, command, on_clients, poll);
}

static void on_status(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        struct mps_observation *seen = poll->seen;

        if (err) {
                observe_end(poll, err);
                return;
        }
        if (!dialogue_is_not_found(answer)) {
                seen->servers[poll->at].status = arena_strndup(&seen->arena, answer, strnlen(answer, 32));
                seen->has_fault |= strcmp(answer, "FAULT") == 0;
        }
        ask_for_clients(poll);
}

static void ask_about_next(struct mps_poll *poll)
{
        const struct mps_observation *seen = poll->seen;
        char command[64];

        if (poll->at == seen->n_servers) {
                observe_finish(poll);
        } else if (poll->options.can & MPS_CAN_SERVER_STATUS) {
                snprintf(command, sizeof(command), "get_server_status %d", (int)seen->servers[poll->at].pid);
                mps_control_ask(poll->options.control, command, on_status, poll);
        } else {
                ask_for_clients(poll);
        }
}

static int check_servers(size_t count, struct error *err)
{
        if (count <= MPS_OBSERVED_SERVERS_MAX)
                return 0;
        return error_set(err, ERROR_INVALID, "MPS control daemon: a list of %zu servers, at most %zu can be read",
                count, MPS_OBSERVED_SERVERS_MAX);
}

static void on_servers(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        struct mps_observation *seen = poll->seen;
        struct error problem;
        pid_t *pids;
        size_t count;

        if (err) {
                observe_end(poll, err);
                return;
        }
        if (dialogue_read_pids(answer, &seen->arena, &pids, &count, &problem) < 0 ||
                check_servers(count, &problem) < 0) {
                observe_end(poll, &problem);
                return;
        }
        seen->servers = ARENA_ARRAY(&seen->arena, struct mps_server, count);
        seen->server_fds = ARENA_ARRAY(&seen->arena, int, count);
        seen->n_servers = count;
        for (size_t i = 0; i < count; i++) {
                seen->servers[i] = (struct mps_server){.pid = pids[i], .uid = (uid_t)-1};
                seen->server_fds[i] = identity_open_server(pids[i], poll->options.daemon, poll->options.daemon_start);
        }
        ask_about_next(poll);
}

/* ---- the v3 interface ---- */

static void confirm_next(struct mps_poll *poll);

static const struct mps_client *find_known(const struct mps_observation *known, pid_t pid)
{
        for (size_t i = 0; known && i < known->n_clients; i++)
                if (known->clients[i].pid == pid)
                        return &known->clients[i];
        return NULL;
}

/* |name_space| NULL: the daemon did not say. */
static void add_confirmed(struct mps_poll *poll, const char *name_space)
{
        struct mps_observation *seen = poll->seen;
        const size_t before = seen->n_clients;

        add_client(poll, poll->listed[poll->n_confirmed++].pid);
        if (seen->n_clients > before && name_space && dialogue_v3_is_name(name_space))
                seen->clients[before].name_space = arena_strdup(&seen->arena, name_space);
}

static void on_namespace(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;

        if (err && err->kind != ERROR_UNAVAILABLE) {
                observe_end(poll, err);
                return;
        }
        add_confirmed(poll, err ? NULL : answer);
        confirm_next(poll);
}

/* Checks that the daemon names the same server; if not, the client has left or the line was forged. */
static void on_confirmed(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        const struct dialogue_v3_client *client = &poll->listed[poll->n_confirmed];

        if (err && err->kind != ERROR_UNAVAILABLE) {
                observe_end(poll, err);
        } else if (err || strcmp(answer, client->server) != 0) {
                poll->n_confirmed++;
                confirm_next(poll);
        } else {
                mps_control_run(poll->options.control,
                        dialogue_v3_client_get(&poll->seen->arena, client->pid, DIALOGUE_V3_NAMESPACE), on_namespace,
                        poll);
        }
}

/* The index of the server in |seen|; n_servers: it is not there. */
static size_t find_server(const struct mps_poll *poll, const char *name)
{
        size_t i = 0;

        while (i < poll->seen->n_servers && strcmp(poll->names[i], name) != 0)
                i++;
        return i;
}

/*
 * Asks about each client once in its life: the list contains command lines of tenants, who can write lines that look
 * like other clients.
 */
static void confirm_next(struct mps_poll *poll)
{
        while (poll->n_confirmed < poll->n_listed) {
                const struct dialogue_v3_client *client = &poll->listed[poll->n_confirmed];
                const struct mps_client *known = find_known(poll->options.known, client->pid);

                poll->at = find_server(poll, client->server);
                if (poll->at == poll->seen->n_servers) {
                        poll->n_confirmed++;
                } else if (known) {
                        add_confirmed(poll, known->name_space);
                } else {
                        mps_control_run(poll->options.control,
                                dialogue_v3_client_get(&poll->seen->arena, client->pid, DIALOGUE_V3_SERVER),
                                on_confirmed, poll);
                        return;
                }
        }
        observe_finish(poll);
}

static void on_listed_clients(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        struct error problem;

        if (err) {
                observe_end(poll, err);
                return;
        }
        if (dialogue_v3_read_clients(answer, &poll->seen->arena, &poll->listed, &poll->n_listed, &problem) < 0) {
                observe_end(poll, &problem);
                return;
        }
        poll->n_listed = MIN(poll->n_listed, MPS_OBSERVED_CLIENTS_MAX);
        confirm_next(poll);
}

/* It is not known how v3 names a server in FAULT, so every state that begins with "FAULT" counts. */
static void add_server(struct mps_poll *poll, const struct dialogue_v3_server *server)
{
        struct mps_observation *seen = poll->seen;

        if (!server->pid)
                return;
        poll->names[seen->n_servers] = server->name;
        seen->server_fds[seen->n_servers] =
                identity_open_server(server->pid, poll->options.daemon, poll->options.daemon_start);
        seen->servers[seen->n_servers++] = (struct mps_server){.pid = server->pid,
                .uid = server->uid,
                .status = arena_strndup(&seen->arena, server->status, strnlen(server->status, 32))};
        seen->has_fault |= strncasecmp(server->status, "fault", strlen("fault")) == 0;
}

static void on_listed_servers(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        struct mps_observation *seen = poll->seen;
        struct dialogue_v3_server *servers;
        struct error problem;
        size_t count;

        if (err) {
                observe_end(poll, err);
                return;
        }
        if (dialogue_v3_read_servers(answer, &seen->arena, &servers, &count, &problem) < 0 ||
                check_servers(count, &problem) < 0) {
                observe_end(poll, &problem);
                return;
        }
        seen->servers = ARENA_ARRAY(&seen->arena, struct mps_server, count);
        seen->server_fds = ARENA_ARRAY(&seen->arena, int, count);
        poll->names = ARENA_ARRAY(&seen->arena, const char *, count);
        for (size_t i = 0; i < count; i++)
                add_server(poll, &servers[i]);
        mps_control_run(poll->options.control, dialogue_v3_client_list(&seen->arena), on_listed_clients, poll);
}

struct mps_poll *mps_poll_start(const struct mps_poll_options *options)
{
        struct mps_poll *poll = xcalloc(1, sizeof(*poll));

        poll->options = *options;
        poll->seen = xcalloc(1, sizeof(*poll->seen));
        if (options->is_v3)
                mps_control_run(options->control, dialogue_v3_server_list(&poll->seen->arena), on_listed_servers, poll);
        else
                mps_control_ask(options->control, "get_server_list", on_servers, poll);
        return poll;
}

/* ---- memory ---- */

#define PROCESSES_MAX 4096U

struct mps_usage *mps_usage_free(struct mps_usage *usage)
{
        if (usage) {
                arena_done(&usage->arena);
                free(usage);
        }
        return NULL;
}

static bool is_lost(nvmlReturn_t code)
{
        return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_GPU_NOT_FOUND;
}

/* A driver that cannot list processes may still have the GPU, so ask for its memory, which every driver can report. */
static nvmlReturn_t read_processes_of(
        const struct nvml *nvml, nvmlDevice_t device, unsigned int *count, struct gpu_listed_process *listed)
{
        const nvmlReturn_t code = gpu_process_list(nvml, device, GPU_PROCESS_MPS, listed, count);
        nvmlMemory_t memory;
        nvmlReturn_t other;

        if (code == NVML_SUCCESS || is_lost(code))
                return code;
        other = NVML_CALL(nvml, device_get_memory, device, &memory);
        return is_lost(other) ? other : code;
}

static void read_unit(struct mps_usage *usage, struct mps_usage_unit *unit, const struct nvml *nvml,
        struct gpu_listed_process *listed, bool *ret_reopen)
{
        nvmlDevice_t device;
        unsigned int count = PROCESSES_MAX;
        nvmlReturn_t code;
        struct error err;

        call_trace_ask(nvml->trace, CALL_ON_GPU, CALL_NO_INDEX, unit->uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, unit->uuid, &device);
        if (code == NVML_SUCCESS)
                code = read_processes_of(nvml, device, &count, listed);
        if (is_lost(code)) {
                nvml_fail(nvml, code, "NVML", &err);
                unit->lost = arena_strdup(&usage->arena, err.text);
                *ret_reopen = true;
        }
        if (code != NVML_SUCCESS)
                return;
        unit->processes = ARENA_ARRAY(&usage->arena, struct mps_usage_process, count);
        for (unsigned int i = 0; i < count; i++)
                unit->processes[i] = (struct mps_usage_process){(pid_t)listed[i].pid, listed[i].memory};
        unit->n_processes = count;
}

void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, bool *ret_reopen)
{
        _free_ struct gpu_listed_process *listed = xcalloc(PROCESSES_MAX, sizeof(*listed));

        for (size_t i = 0; i < usage->n_units; i++)
                read_unit(usage, &usage->units[i], nvml, listed, ret_reopen);
}

uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, const char *uuid, pid_t pid)
{
        for (size_t i = 0; mps_usage_is_fresh(usage, now) && i < usage->n_units; i++)
                for (size_t j = 0;
                        (!uuid || strcmp(usage->units[i].uuid, uuid) == 0) && j < usage->units[i].n_processes; j++)
                        if (usage->units[i].processes[j].pid == pid)
                                return usage->units[i].processes[j].memory;
        return UINT64_MAX;
}
