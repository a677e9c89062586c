// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/observe.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "mps/control/dialogue.h"
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

static bool observe_has_ended(const struct mps_client *client, const char *system_root)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct process process;
        struct error err;

        if (client->pid <= 0 || client->uid == (uid_t)-1)
                return false;
        if (process_read(&process, &arena, system_root, client->pid, &err) < 0)
                return err.kind == ERROR_NOT_FOUND; /* a failed reading does not prove an end */
        return process.container_id &&
               !text_is_same(process.container_id, client->container_id); /* another has its PID */
}

bool mps_observation_drop_ended(struct mps_observation *observation, const char *system_root)
{
        size_t kept = 0;
        size_t before = observation->n_clients;

        for (size_t i = 0; i < before; i++)
                if (!observe_has_ended(&observation->clients[i], system_root))
                        observation->clients[kept++] = observation->clients[i];
        observation->n_clients = kept;
        return kept < before;
}

void mps_observation_kill_server(const struct mps_observation *observation, size_t position)
{
        process_kill(observation->server_fds[position]);
}

/* ---- one poll ---- */

/* A question about the environment of a client. */
struct about_client {
        struct environment_question question;
        struct mps_poll *poll;
        size_t client; /* its position */
};

struct mps_poll {
        struct mps_poll_options options;
        struct mps_observation *seen;
        size_t at;       /* the server that the current answer is about */
        size_t capacity; /* of seen->clients */

        void (*take)(struct mps_poll *poll, const char *const *answers); /* of what is asked now */
        bool has_list;                                                   /* of servers */
        size_t n_asked; /* questions about |seen->servers| that have an answer: questions_of() each */
        size_t n_round; /* questions about servers that are asked now */

        bool has_unread_servers; /* v3: the list of servers has lines that could not be read */
        struct dialogue_v3_client *listed;
        size_t n_listed;
        size_t n_confirmed; /* or dropped */

        struct about_client *about; /* questions about the environments of clients */
        size_t n_about;
        size_t n_unread; /* of these, without an answer */
};

struct mps_poll *mps_poll_cancel(struct mps_poll *poll)
{
        if (poll) {
                for (size_t i = 0; poll->n_unread && i < poll->n_about; i++)
                        environments_cancel(&poll->about[i].question);
                free(poll->about);
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

static void observe_on_answers(const struct error *err, const char *const *answers, void *data)
{
        struct mps_poll *poll = data;

        if (err)
                observe_end(poll, err);
        else
                poll->take(poll, answers);
}

static void observe_on_answer(const struct error *err, const char *answer, void *data)
{
        observe_on_answers(err, &answer, data);
}

static void take_devices(struct mps_poll *poll, const char *const *answers)
{
        struct mps_observation *seen = poll->seen;
        struct dialogue_device *devices;
        size_t count = 0;

        if (!dialogue_is_unknown_command(answers[0])) /* else the units stay unknown */
                dialogue_read_device_clients(answers[0], &seen->arena, &devices, &count, &seen->unread);
        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < devices[i].n_clients; j++)
                        for (size_t k = 0; k < seen->n_clients; k++)
                                if (seen->clients[k].pid == devices[i].clients[j])
                                        seen->clients[k].unit = devices[i].uuid;
        observe_end(poll, NULL);
}

/* If the daemon has one unit, that is the unit of all clients. */
static void observe_ask_for_units(struct mps_poll *poll)
{
        if (poll->options.unit || poll->options.is_v3 || poll->seen->n_clients == 0) {
                observe_end(poll, NULL);
                return;
        }
        poll->take = take_devices;
        mps_control_ask(poll->options.control, "get_device_client_list", observe_on_answer, poll);
}

/* |place|: where it was, unless others have come or gone. */
static const struct mps_client *observe_find_known(const struct mps_observation *known, pid_t pid, size_t place)
{
        for (size_t i = 0; known && i < known->n_clients; i++) {
                const struct mps_client *client = &known->clients[(place + i) % known->n_clients];

                if (client->pid == pid)
                        return client;
        }
        return NULL;
}

static const char *keep_text(struct mps_poll *poll, const char *text)
{
        return text ? arena_strdup(&poll->seen->arena, text) : NULL;
}

/* False: they have to be read. */
static bool keep_facts(struct mps_poll *poll, struct mps_client *client, const struct mps_client *known)
{
        if (!known || !known->start_time ||
                process_start_time(poll->options.system_root, client->pid) != known->start_time)
                return false;
        client->start_time = known->start_time;
        client->uid = known->uid;
        client->pod_uid = keep_text(poll, known->pod_uid);
        client->container_id = keep_text(poll, known->container_id);
        client->cgroup = keep_text(poll, known->cgroup);
        client->allocation = keep_text(poll, known->allocation);
        client->has_environment = known->has_environment;
        client->asked_permille = known->asked_permille;
        return true;
}

static void observe_on_environment(struct environment_question *question, const struct environment *environment)
{
        const struct about_client *about = container_of(question, struct about_client, question);
        struct mps_poll *poll = about->poll;
        struct mps_client *client = &poll->seen->clients[about->client];

        client->has_environment = environment->is_known;
        client->asked_permille = environment->asked_permille;
        client->allocation = *environment->allocation ? keep_text(poll, environment->allocation) : NULL;
        if (--poll->n_unread == 0)
                observe_ask_for_units(poll);
}

static void ask_for_environment(struct mps_poll *poll, size_t position)
{
        const struct mps_client *client = &poll->seen->clients[position];
        struct about_client *about;

        if (!poll->options.environments)
                return;
        if (!poll->about)
                poll->about = xcalloc(poll->seen->n_clients, sizeof(*poll->about));
        about = &poll->about[poll->n_about];
        about->poll = poll;
        about->client = position;
        about->question = (struct environment_question){.process = {client->pid, client->start_time},
                .pod_uid = client->pod_uid,
                .uid = client->uid,
                .done = observe_on_environment};
        if (!environments_ask(poll->options.environments, &about->question))
                return;
        poll->n_about++;
        poll->n_unread++;
}

/* A client that has ended meanwhile gets no facts; the next poll does not list it. */
static void observe_read_client(struct mps_poll *poll, size_t position)
{
        struct mps_client *client = &poll->seen->clients[position];
        struct process process;
        struct error err;

        if (client->pid <= 0 ||
                process_read(&process, &poll->seen->arena, poll->options.system_root, client->pid, &err) < 0)
                return;
        client->start_time = process.start_time;
        client->uid = process.uid;
        client->pod_uid = process.pod_uid;
        client->container_id = process.container_id;
        client->cgroup = process.cgroup;
        ask_for_environment(poll, position);
}

static void read_processes(struct mps_poll *poll)
{
        const struct mps_observation *known = poll->options.reads_again ? NULL : poll->options.known;
        struct mps_observation *seen = poll->seen;
        struct process process;
        struct error err;

        for (size_t i = 0; i < seen->n_clients; i++) {
                struct mps_client *client = &seen->clients[i];

                if (!keep_facts(poll, client, observe_find_known(known, client->pid, i)))
                        observe_read_client(poll, i);
        }
        for (size_t i = 0; i < seen->n_servers; i++)
                if (process_read(&process, &seen->arena, poll->options.system_root, seen->servers[i].pid, &err) == 0)
                        seen->servers[i].uid = process.uid;
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
                .server = poll->at < seen->n_servers ? seen->servers[poll->at].pid : 0,
                .uid = (uid_t)-1,
                .unit = poll->options.unit,
                .memory = UINT64_MAX,
        };
}

static bool observe_is_listed(const struct mps_observation *seen, pid_t pid)
{
        for (size_t i = 0; i < seen->n_clients; i++)
                if (seen->clients[i].pid == pid)
                        return true;
        return false;
}

/* A line that cannot be read may be any known client's whose process is still the same. */
static void keep_unlisted(struct mps_poll *poll)
{
        const struct mps_observation *known = poll->options.known;
        struct mps_observation *seen = poll->seen;

        assert(seen); /* until the poll ends */
        for (size_t i = 0; seen->unread.count && known && i < known->n_clients; i++) {
                const struct mps_client *client = &known->clients[i];
                const size_t before = seen->n_clients;

                if (!client->start_time || observe_is_listed(seen, client->pid) ||
                        process_start_time(poll->options.system_root, client->pid) != client->start_time)
                        continue;
                add_client(poll, client->pid);
                if (seen->n_clients == before)
                        return;
                seen->clients[before].server = client->server;
                seen->clients[before].unit = keep_text(poll, client->unit);
                seen->clients[before].name_space = keep_text(poll, client->name_space);
        }
}

static void observe_finish(struct mps_poll *poll)
{
        keep_unlisted(poll);
        read_processes(poll);
        if (poll->n_unread == 0)
                observe_ask_for_units(poll);
}

/* ---- servers and clients ---- */

static int check_servers(size_t count, struct error *err)
{
        if (count <= MPS_OBSERVED_SERVERS_MAX)
                return 0;
        return error_set(err, ERROR_INVALID, "MPS control daemon: a list of %zu servers, at most %zu can be read",
                count, MPS_OBSERVED_SERVERS_MAX);
}

static size_t count_known_servers(const struct mps_poll *poll)
{
        return poll->seen->unread.count && poll->options.known ? poll->options.known->n_servers : 0;
}

/* Room for |count| listed servers, and for known ones that may be in lines that cannot be read. */
static void make_room_for_servers(struct mps_poll *poll, size_t count)
{
        struct mps_observation *seen = poll->seen;

        count += count_known_servers(poll);
        seen->servers = ARENA_ARRAY(&seen->arena, struct mps_server, count);
        seen->server_fds = ARENA_ARRAY(&seen->arena, int, count);
        seen->server_names = ARENA_ARRAY(&seen->arena, const char *, count);
}

static void take_server(struct mps_poll *poll, const struct mps_server *server, const char *name, int fd)
{
        struct mps_observation *seen = poll->seen;

        seen->server_fds[seen->n_servers] = fd;
        seen->server_names[seen->n_servers] = name;
        seen->servers[seen->n_servers++] = *server;
}

static int open_server(const struct mps_poll *poll, pid_t pid)
{
        return process_open_server(pid, poll->options.daemon, poll->options.daemon_start);
}

/* A known server that is proven to run stays where the list has lines that cannot be read. */
static void keep_unlisted_servers(struct mps_poll *poll)
{
        const size_t n_known = count_known_servers(poll);
        const size_t n_listed = poll->seen->n_servers;

        for (size_t i = 0; i < n_known && poll->seen->n_servers < MPS_OBSERVED_SERVERS_MAX; i++) {
                const struct mps_server *server = &poll->options.known->servers[i];
                size_t at = 0;
                int fd;

                while (at < n_listed && poll->seen->servers[at].pid != server->pid)
                        at++;
                fd = at < n_listed ? -1 : open_server(poll, server->pid);
                if (fd >= 0)
                        take_server(poll,
                                &(struct mps_server){.pid = server->pid,
                                        .uid = server->uid,
                                        .status = keep_text(poll, server->status)},
                                keep_text(poll, poll->options.known->server_names[i]), fd);
        }
}

static int take_servers(struct mps_poll *poll, const char *answer, struct error *err)
{
        struct mps_observation *seen = poll->seen;
        pid_t *pids;
        size_t count;

        dialogue_read_pids(answer, &seen->arena, &pids, &count, &seen->unread);
        if (check_servers(count, err) < 0)
                return -1;
        make_room_for_servers(poll, count);
        for (size_t i = 0; i < count; i++)
                take_server(
                        poll, &(struct mps_server){.pid = pids[i], .uid = (uid_t)-1}, NULL, open_server(poll, pids[i]));
        keep_unlisted_servers(poll);
        return 0;
}

/* The number of questions about one server: its state, if the daemon can say that, and its clients. */
static size_t questions_of(const struct mps_poll *poll)
{
        return poll->options.can & MPS_CAN_SERVER_STATUS ? 2 : 1;
}

static bool is_about_clients(const struct mps_poll *poll, size_t question)
{
        return question % questions_of(poll) == questions_of(poll) - 1;
}

/* The answer to the next question about the servers, in their order. */
static void observe_take_answer(struct mps_poll *poll, const char *answer)
{
        struct mps_observation *seen = poll->seen;
        const size_t question = poll->n_asked++;
        pid_t *pids;
        size_t count;

        if (dialogue_is_not_found(answer)) /* the server has ended since it was listed */
                return;
        poll->at = question / questions_of(poll);
        if (!is_about_clients(poll, question)) {
                seen->servers[poll->at].status = arena_strndup(&seen->arena, answer, strnlen(answer, 32));
                seen->has_fault |= strcmp(answer, "FAULT") == 0;
                return;
        }
        dialogue_read_pids(answer, &seen->arena, &pids, &count, &seen->unread);
        for (size_t i = 0; i < count; i++)
                add_client(poll, pids[i]);
}

/* The first servers of the list are those that were asked about. */
static bool has_guessed(const struct mps_poll *poll, size_t n_guessed)
{
        size_t i = 0;

        while (i < n_guessed && i < poll->seen->n_servers &&
                poll->seen->servers[i].pid == poll->options.known->servers[i].pid)
                i++;
        return i == n_guessed;
}

static void ask_about_servers(struct mps_poll *poll);

static void take_servers_and_clients(struct mps_poll *poll, const char *const *answers)
{
        size_t count = poll->n_round;
        struct error err;

        if (!poll->has_list) {
                if (take_servers(poll, *answers++, &err) < 0) {
                        observe_end(poll, &err);
                        return;
                }
                poll->has_list = true;
                if (!has_guessed(poll, count / questions_of(poll)))
                        count = 0;
        }
        for (size_t i = 0; i < count; i++)
                observe_take_answer(poll, answers[i]);
        ask_about_servers(poll);
}

/*
 * One front end. Most polls find the servers of the last one, so with the list of servers those are asked about.
 */
static void ask_about_servers(struct mps_poll *poll)
{
        const struct mps_poll_options *options = &poll->options;
        const struct mps_observation *known = options->asks_singly ? NULL : options->known;
        const struct mps_observation *of = poll->has_list ? poll->seen : known;
        const size_t first = poll->has_list ? 0 : 1;
        const size_t most = poll->has_list && options->asks_singly ? 1 : MPS_ASK_MAX - first;
        const char *commands[MPS_ASK_MAX] = {"get_server_list"};

        poll->n_round = of ? MIN(of->n_servers * questions_of(poll) - poll->n_asked, most) : 0;
        if (!poll->has_list) /* whole servers */
                poll->n_round -= poll->n_round % questions_of(poll);
        for (size_t i = 0; i < poll->n_round; i++) {
                const size_t question = poll->n_asked + i;

                commands[first + i] = arena_printf(&poll->seen->arena, "%s %d",
                        is_about_clients(poll, question) ? "get_client_list" : "get_server_status",
                        (int)of->servers[question / questions_of(poll)].pid);
        }
        poll->take = take_servers_and_clients;
        if (first + poll->n_round)
                mps_control_ask_all(options->control, commands, first + poll->n_round, observe_on_answers, poll);
        else
                observe_finish(poll);
}

/* ---- the v3 interface ---- */

static void confirm_next(struct mps_poll *poll);

/* |name_space| NULL: the daemon did not say. */
static void add_confirmed(struct mps_poll *poll, const char *name_space)
{
        struct mps_observation *seen = poll->seen;
        const size_t before = seen->n_clients;

        add_client(poll, poll->listed[poll->n_confirmed++].pid);
        if (seen->n_clients > before)
                seen->clients[before].name_space = keep_text(poll, name_space);
}

static void on_namespace(const struct error *err, const char *answer, void *data)
{
        struct mps_poll *poll = data;
        const struct dialogue_v3_client *client = &poll->listed[poll->n_confirmed];

        if (err && err->kind != ERROR_UNAVAILABLE) {
                observe_end(poll, err);
                return;
        }
        add_confirmed(poll, err ? NULL : dialogue_v3_read_namespace_name(&poll->seen->arena, answer, client->server));
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

        while (i < poll->seen->n_servers && strcmp(poll->seen->server_names[i], name) != 0)
                i++;
        return i;
}

/*
 * Asks about each client until its namespace is known: the list contains command lines of tenants, who can write lines
 * that look like other clients. A server that is not listed may be in a line that cannot be read.
 */
static void confirm_next(struct mps_poll *poll)
{
        while (poll->n_confirmed < poll->n_listed) {
                const struct dialogue_v3_client *client = &poll->listed[poll->n_confirmed];
                const struct mps_client *known =
                        observe_find_known(poll->options.known, client->pid, poll->seen->n_clients);

                poll->at = find_server(poll, client->server);
                if (poll->at == poll->seen->n_servers && !poll->has_unread_servers) {
                        poll->n_confirmed++;
                } else if (known && known->name_space) {
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

static void take_listed_clients(struct mps_poll *poll, const char *const *answers)
{
        dialogue_v3_read_clients(answers[0], &poll->seen->arena, &poll->listed, &poll->n_listed, &poll->seen->unread);
        poll->n_listed = MIN(poll->n_listed, MPS_OBSERVED_CLIENTS_MAX);
        confirm_next(poll);
}

/* It is not known how v3 names a server in FAULT, so every state that begins with "FAULT" counts. */
static void add_server(struct mps_poll *poll, const struct dialogue_v3_server *server)
{
        struct mps_observation *seen = poll->seen;

        if (!server->pid)
                return;
        take_server(poll,
                &(struct mps_server){.pid = server->pid,
                        .uid = server->uid,
                        .status = arena_strndup(&seen->arena, server->status, strnlen(server->status, 32))},
                server->name, open_server(poll, server->pid));
        seen->has_fault |= strncasecmp(server->status, "fault", strlen("fault")) == 0;
}

static void take_listed_servers(struct mps_poll *poll, const char *const *answers)
{
        struct mps_observation *seen = poll->seen;
        struct dialogue_v3_server *servers;
        struct error err;
        size_t count;

        dialogue_v3_read_servers(answers[0], &seen->arena, &servers, &count, &seen->unread);
        if (check_servers(count, &err) < 0) {
                observe_end(poll, &err);
                return;
        }
        poll->has_unread_servers = seen->unread.count;
        make_room_for_servers(poll, count);
        for (size_t i = 0; i < count; i++)
                add_server(poll, &servers[i]);
        keep_unlisted_servers(poll);
        poll->take = take_listed_clients;
        mps_control_run(poll->options.control, DIALOGUE_V3_CLIENT_LIST, observe_on_answer, poll);
}

struct mps_poll *mps_poll_start(const struct mps_poll_options *options)
{
        struct mps_poll *poll = xcalloc(1, sizeof(*poll));

        poll->options = *options;
        poll->seen = xcalloc(1, sizeof(*poll->seen));
        poll->take = take_listed_servers;
        if (options->is_v3)
                mps_control_run(options->control, DIALOGUE_V3_SERVER_LIST, observe_on_answer, poll);
        else
                ask_about_servers(poll);
        return poll;
}
