// SPDX-License-Identifier: Apache-2.0
/*
 * The server processes of one daemon: with interface 2 at most one serves, for one user; with interface 3 one for each
 * name.
 */
#include "sim/mps/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/alloc.h"

#define START_ATTEMPTS 5U
#define ANSWER_TIMEOUT_MS 3000

/* cuda.h */
#define CUDA_ERROR_MPS_CONNECTION_FAILED 805

struct instance *daemon_find(const struct daemon *daemon, pid_t pid)
{
        LIST_FOR_EACH(link, &daemon->instances) {
                struct instance *instance = container_of(link, struct instance, link);

                if (instance->pid == pid)
                        return instance;
        }
        return NULL;
}

struct instance *daemon_find_named(const struct daemon *daemon, const char *name)
{
        LIST_FOR_EACH(link, &daemon->instances) {
                struct instance *instance = container_of(link, struct instance, link);

                if (strcmp(instance->name, name) == 0)
                        return instance;
        }
        return NULL;
}

/* ---- clients that wait ---- */

static uid_t server_uid(const struct daemon *daemon, const struct peer *peer)
{
        const struct blueprint *blueprint = blueprint_find(daemon, peer->server);

        if (blueprint && blueprint->uid >= 0)
                return (uid_t)blueprint->uid;
        return daemon->multi_user ? geteuid() : peer->who.uid;
}

static void refuse_all(struct daemon *daemon, int error)
{
        for (struct list *link = daemon->peers.next; link != &daemon->peers;) {
                struct peer *peer = container_of(link, struct peer, link);

                link = link->next;
                if (peer->hello)
                        peer_refuse(peer, error);
        }
}

/* Adds what only the daemon knows about a client: the limits of its namespace, the size of its partition. */
static void put_extras(struct daemon *daemon, const struct peer *peer, struct strbuf *extras)
{
        const struct blueprint *blueprint = blueprint_find(daemon, peer->server);
        const struct space *space = blueprint ? space_find(blueprint, peer->space) : NULL;
        struct partition *partition;
        char id[160];

        if (space && space->percentage > 0)
                strbuf_printf(extras, " namespace-percentage=%f", space->percentage);
        if (space && space->memory[0])
                strbuf_printf(extras, " namespace-memory=%s", space->memory);
        if (!packet_value(peer->hello, "partition", id, sizeof(id)) || !(partition = partition_find(daemon, id)))
                return;
        strbuf_printf(extras, " partition-sms=%u", partition->sms);
        if (partition->n_clients < ARRAY_SIZE(partition->clients))
                partition->clients[partition->n_clients++] = peer->who.pid;
}

const struct admission *admission_find(const struct daemon *daemon, pid_t pid)
{
        for (unsigned int i = daemon->n_admissions; i > 0 && i + MAX_ADMISSIONS > daemon->n_admissions; i--)
                if (daemon->admissions[(i - 1) % MAX_ADMISSIONS].pid == pid)
                        return &daemon->admissions[(i - 1) % MAX_ADMISSIONS];
        return NULL;
}

static void record_admission(struct daemon *daemon, const struct peer *peer)
{
        struct admission *admission = &daemon->admissions[daemon->n_admissions++ % MAX_ADMISSIONS];

        admission->pid = peer->who.pid;
        snprintf(admission->server, sizeof(admission->server), "%s", peer->server);
        snprintf(admission->space, sizeof(admission->space), "%s", peer->space);
}

static void hand_over(struct daemon *daemon, struct instance *instance, struct peer *peer)
{
        _cleanup_(strbuf_done) struct strbuf extras = STRBUF_INIT;

        put_extras(daemon, peer, &extras);
        record_admission(daemon, peer);
        if (channel_send_with(instance->watch.fd, peer->watch.fd, "CLIENT%s%s", peer->hello, extras.data))
                instance->clients++;
        peer_drop(peer);
}

/* ---- the end of a server ---- */

void instance_stop(struct instance *instance)
{
        instance->stops = true;
        if (instance->watch.fd >= 0)
                channel_send(instance->watch.fd, "STOP");
}

static void on_exit_of_server(struct daemon *daemon, struct watch *watch)
{
        struct instance *instance = container_of(watch, struct instance, end);
        int status = 0;

        waitpid(instance->pid, &status, 0);
        status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
        journal_line(&daemon->journal, "Server %d exited with status %d", (int)instance->pid, status);
        journal_line(&daemon->journal, "Removed Shm file at ");
        if (status && daemon->quits)
                daemon->status = status;
        daemon->failures = instance->ready ? 0 : daemon->failures + 1;
        watch_remove(&instance->watch);
        watch_remove(&instance->end);
        list_remove(&instance->link);
        free(instance);
        if (daemon->failures >= START_ATTEMPTS) {
                refuse_all(daemon, CUDA_ERROR_MPS_CONNECTION_FAILED);
                daemon->failures = 0;
        }
        daemon_advance(daemon);
}

/* ---- start ---- */

/* A server with a name has a log file of its own. */
static int open_log(const struct daemon *daemon, const char *name)
{
        _free_ char *folder = xasprintf("%s/%s", daemon->log_directory, name);
        _free_ char *path = xasprintf("%s/server.log", folder);

        if (!name[0] || daemon->foreground)
                return dup(daemon->server_log); /* without close-on-exec */
        mkdir(folder, 0755);
        return open(path, O_WRONLY | O_CREAT | O_APPEND, 0644); /* NOLINT(android-cloexec-open): the server's */
}

static void exec_server(const struct daemon *daemon, const char *name, uid_t uid)
{
        const struct blueprint *blueprint = blueprint_find(daemon, name);
        char program[] = "nvidia-cuda-mps-server";
        char *argv[] = {program, NULL};
        char log[16];

        snprintf(log, sizeof(log), "%d", open_log(daemon, name));
        setenv("WARPSHARE_MPS_SIM_LOG_FD", log, 1);
        if (blueprint && blueprint->devices[0])
                setenv("CUDA_VISIBLE_DEVICES", blueprint->devices, 1);
        if (setuid(uid) < 0)
                _exit(1);
        execvp(program, argv);
        _exit(1);
}

void daemon_start_server(struct daemon *daemon, const char *name, uid_t uid)
{
        struct instance *instance = xcalloc(1, sizeof(*instance));

        *instance = (struct instance){.uid = uid, .watch.fd = -1};
        snprintf(instance->name, sizeof(instance->name), "%s", name);
        list_init(&instance->watch.link);
        instance->pid = fork();
        if (instance->pid == 0)
                exec_server(daemon, name, uid);
        journal_line(&daemon->journal, "Starting new server %d for user %d", (int)instance->pid, (int)uid);
        list_append(&daemon->instances, &instance->link);
        watch_add(daemon, &instance->end, (int)syscall(SYS_pidfd_open, instance->pid, 0), on_exit_of_server);
}

/*
 * Takes the next step towards a server |name| for |uid|: starts it; or, while it serves another user, orders it to stop
 * after its last client; or, if it is ready, passes |peer| to it. True: |peer| was passed on.
 */
static bool advance(struct daemon *daemon, const char *name, uid_t uid, struct peer *peer)
{
        struct instance *instance = daemon_find_named(daemon, name);

        if (!instance) {
                daemon_start_server(daemon, name, uid);
        } else if (instance->uid != uid && !instance->stops) {
                instance_stop(instance); /* this user waits until the last client of the other has left */
        } else if (peer && instance->ready && !instance->stops) {
                hand_over(daemon, instance, peer);
                return true;
        }
        return false;
}

/* The first client that waits for |name|, in order of arrival. */
static struct peer *first_waiting(const struct daemon *daemon, const char *name)
{
        LIST_FOR_EACH(link, &daemon->peers) {
                struct peer *peer = container_of(link, struct peer, link);

                if (peer->hello && strcmp(peer->server, name) == 0)
                        return peer;
        }
        return NULL;
}

/*
 * Serves all clients that wait for one server. Users take turns in order of arrival, so the first client decides for
 * which user the server runs.
 */
static void advance_queue(struct daemon *daemon, const char *name)
{
        struct peer *peer;

        do {
                peer = first_waiting(daemon, name);
        } while (peer && advance(daemon, name, server_uid(daemon, peer), peer));
}

void daemon_advance(struct daemon *daemon)
{
        if (daemon->quits) {
                refuse_all(daemon, CUDA_ERROR_MPS_CONNECTION_FAILED);
                return;
        }
        advance_queue(daemon, "");
        LIST_FOR_EACH(link, &daemon->blueprints)
                advance_queue(daemon, container_of(link, struct blueprint, link)->name);
        if (daemon->wanted_uid >= 0 && !first_waiting(daemon, "")) {
                const struct instance *instance = daemon_find_named(daemon, "");
                uid_t uid = (uid_t)daemon->wanted_uid;

                advance(daemon, "", uid, NULL);
                if (!instance || instance->uid == uid)
                        daemon->wanted_uid = -1;
        }
}

/* ---- messages of a server ---- */

static void take_message(struct daemon *daemon, struct instance *instance, const struct packet *packet)
{
        if (packet_is(packet, "LEFT")) {
                instance->clients -= instance->clients > 0;
                partition_left(daemon, (pid_t)strtol(packet->text + 5, NULL, 10));
        } else if (packet_is(packet, "READY")) {
                instance->ready = true;
                daemon->failures = 0;
                journal_line(&daemon->journal, "NEW SERVER %d: Ready", (int)instance->pid);
                if (instance->stops)
                        channel_send(instance->watch.fd, "STOP");
                daemon_advance(daemon);
        }
}

static void on_server(struct daemon *daemon, struct watch *watch)
{
        static struct packet packet;
        struct instance *instance = container_of(watch, struct instance, watch);

        if (channel_receive(watch->fd, &packet))
                take_message(daemon, instance, &packet);
        else
                watch_remove(watch); /* the pidfd reports its end */
}

static void send_limits(const struct daemon *daemon, const char *what, const char *name, int fd)
{
        _cleanup_(strbuf_done) struct strbuf memory = STRBUF_INIT;
        const struct blueprint *blueprint = blueprint_find(daemon, name);
        const struct limits *limits = blueprint ? &blueprint->limits : &daemon->limits;

        for (unsigned int i = 0; i < LIMITS_DEVICES; i++) {
                if (limits->memory_mib[i])
                        strbuf_printf(&memory, "%u:%llu,", i, (unsigned long long)limits->memory_mib[i]);
        }
        channel_send(fd, "%s percentage=%f priority=%u static=%d memory=%s", what, limits->percentage, limits->priority,
                daemon->is_static, memory.data);
}

void instance_set_limits(const struct daemon *daemon, const struct instance *instance)
{
        if (instance->watch.fd >= 0)
                send_limits(daemon, "SET", instance->name, instance->watch.fd);
}

void instance_adopt(struct daemon *daemon, struct peer *peer)
{
        struct instance *instance = daemon_find(daemon, peer->who.pid);

        if (!instance || instance->watch.fd >= 0) {
                journal_line(&daemon->journal, "NEW SERVER %d: Ignoring connection from user", (int)peer->who.pid);
                peer_drop(peer);
                return;
        }
        send_limits(daemon, "SETUP", instance->name, peer->watch.fd);
        list_remove(&peer->watch.link);
        watch_add(daemon, &instance->watch, TAKE_FD(peer->watch.fd), on_server);
        peer_drop(peer);
}

/* ---- questions to a server ---- */

static bool take_answer(struct daemon *daemon, struct instance *instance, struct strbuf *out)
{
        static struct packet packet;
        struct pollfd poll_server = {.fd = instance->watch.fd, .events = POLLIN};
        int64_t end = now_ms() + ANSWER_TIMEOUT_MS;
        int64_t left;

        while ((left = end - now_ms()) > 0 && poll(&poll_server, 1, (int)left) > 0) {
                char *text;

                if (!channel_receive(instance->watch.fd, &packet))
                        return false;
                if (!packet_is(&packet, "TEXT")) {
                        take_message(daemon, instance, &packet);
                } else if (strtoul(packet.text + 5, &text, 10) == instance->asked) {
                        strbuf_puts(out, text + 1);
                        return true;
                }
        }
        return false;
}

bool instance_ask(struct daemon *daemon, struct instance *instance, struct strbuf *out, const char *format, ...)
{
        _cleanup_(strbuf_done) struct strbuf question = STRBUF_INIT;
        va_list args;

        va_start(args, format);
        strbuf_vprintf(&question, format, args);
        va_end(args);
        if (instance->ready && instance->watch.fd >= 0 &&
                channel_send(instance->watch.fd, "ASK %lu %s", ++instance->asked, question.data) &&
                take_answer(daemon, instance, out))
                return true;
        journal_line(&daemon->journal, "Server %d is <busy>", (int)instance->pid);
        return false;
}
