/* The server processes of one daemon: at most one at work, of one user. */
#include "sim/mps/daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- clients that wait ---- */

static struct peer *first_waiting(const struct daemon *daemon)
{
        LIST_FOR_EACH(link, &daemon->peers) {
                struct peer *peer = container_of(link, struct peer, link);

                if (peer->hello)
                        return peer;
        }
        return NULL;
}

static uid_t server_uid(const struct daemon *daemon, uid_t client)
{
        return daemon->multi_user ? geteuid() : client;
}

static void refuse_all(struct daemon *daemon, int error)
{
        struct peer *peer;

        while ((peer = first_waiting(daemon)))
                peer_refuse(peer, error);
}

static void hand_over(struct daemon *daemon, struct instance *instance)
{
        struct peer *peer;

        while ((peer = first_waiting(daemon)) && server_uid(daemon, peer->who.uid) == instance->uid) {
                if (channel_send_with(instance->watch.fd, peer->watch.fd, "CLIENT%s", peer->hello))
                        instance->clients++;
                peer_drop(peer);
        }
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

static void exec_server(const struct daemon *daemon, uid_t uid)
{
        char program[] = "nvidia-cuda-mps-server";
        char *argv[] = {program, NULL};
        char log[16];
        int copy = dup(daemon->server_log); /* without close-on-exec */

        snprintf(log, sizeof(log), "%d", copy);
        setenv("WARPSHARE_MPS_SIM_LOG_FD", log, 1);
        if (setuid(uid) < 0)
                _exit(1);
        execvp(program, argv);
        _exit(1);
}

static void start_server(struct daemon *daemon, uid_t uid)
{
        struct instance *instance = xcalloc(1, sizeof(*instance));

        *instance = (struct instance){.uid = uid, .watch.fd = -1};
        list_init(&instance->watch.link);
        instance->pid = fork();
        if (instance->pid == 0)
                exec_server(daemon, uid);
        journal_line(&daemon->journal, "Starting new server %d for user %d", (int)instance->pid, (int)uid);
        list_append(&daemon->instances, &instance->link);
        watch_add(daemon, &instance->end, (int)syscall(SYS_pidfd_open, instance->pid, 0), on_exit_of_server);
}

void daemon_advance(struct daemon *daemon)
{
        struct peer *waiting = first_waiting(daemon);
        struct instance *instance = NULL;
        int64_t uid = waiting ? (int64_t)server_uid(daemon, waiting->who.uid) : daemon->wanted_uid;

        if (daemon->quits) {
                refuse_all(daemon, CUDA_ERROR_MPS_CONNECTION_FAILED);
                return;
        }
        if (uid < 0)
                return;
        if (!list_is_empty(&daemon->instances))
                instance = container_of(daemon->instances.next, struct instance, link);
        if (!instance) {
                daemon->wanted_uid = -1;
                start_server(daemon, (uid_t)uid);
        } else if (instance->uid != (uid_t)uid) {
                if (!instance->stops)
                        instance_stop(instance); /* and the user waits until the last client has left */
        } else if (instance->ready && !instance->stops) {
                hand_over(daemon, instance);
                daemon->wanted_uid = -1;
                if (first_waiting(daemon))
                        daemon_advance(daemon);
        }
}

/* ---- what a server says ---- */

static void note(struct daemon *daemon, struct instance *instance, const struct packet *packet)
{
        if (packet_is(packet, "LEFT")) {
                instance->clients -= instance->clients > 0;
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
                note(daemon, instance, &packet);
        else
                watch_remove(watch); /* its end is told by the pidfd */
}

static void send_setup(const struct daemon *daemon, int fd)
{
        _cleanup_(strbuf_done) struct strbuf memory = STRBUF_INIT;

        for (unsigned int i = 0; i < LIMITS_DEVICES; i++) {
                if (daemon->limits.memory_mib[i])
                        strbuf_printf(&memory, "%u:%llu,", i, (unsigned long long)daemon->limits.memory_mib[i]);
        }
        channel_send(fd, "SETUP percentage=%f priority=%u static=%d memory=%s", daemon->limits.percentage,
                daemon->limits.priority, daemon->is_static, memory.data);
}

void instance_adopt(struct daemon *daemon, struct peer *peer)
{
        struct instance *instance = daemon_find(daemon, peer->who.pid);

        if (!instance || instance->watch.fd >= 0) {
                journal_line(&daemon->journal, "NEW SERVER %d: Ignoring connection from user", (int)peer->who.pid);
                peer_drop(peer);
                return;
        }
        send_setup(daemon, peer->watch.fd);
        list_remove(&peer->watch.link);
        watch_add(daemon, &instance->watch, TAKE_FD(peer->watch.fd), on_server);
        peer_drop(peer);
}

/* ---- questions ---- */

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
                        note(daemon, instance, &packet);
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
