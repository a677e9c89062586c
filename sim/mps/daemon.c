// SPDX-License-Identifier: Apache-2.0
#include "sim/mps/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

#define TICK_MS 100
#define MAX_WATCHES 512U
#define COMMAND_SIZE 4096U

/* cuda.h */
#define CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION 915

int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* NVIDIA's daemon has a buffer of a fixed size, and crashes on a longer command. */
static void crash(void)
{
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
}

/* ---- watches ---- */

void watch_add(struct daemon *daemon, struct watch *watch, int fd, void (*on_ready)(struct daemon *, struct watch *))
{
        *watch = (struct watch){.fd = fd, .on_ready = on_ready};
        list_append(&daemon->watches, &watch->link);
}

void watch_remove(struct watch *watch)
{
        list_remove(&watch->link);
        close_pointer(&watch->fd);
        watch->fd = -1;
}

static void wake(struct daemon *daemon, int fd)
{
        LIST_FOR_EACH(link, &daemon->watches) {
                struct watch *watch = container_of(link, struct watch, link);

                if (watch->fd == fd) {
                        watch->on_ready(daemon, watch);
                        return;
                }
        }
}

/* ---- peers ---- */

void peer_drop(struct peer *peer)
{
        if (peer->watch.fd >= 0)
                watch_remove(&peer->watch);
        list_remove(&peer->link);
        free(peer->hello);
        free(peer->command);
        free(peer);
}

void peer_refuse(struct peer *peer, int error)
{
        channel_send(peer->watch.fd, "ERROR %d", error);
        peer_drop(peer);
}

static void answer(struct daemon *daemon, struct peer *peer)
{
        _cleanup_(strbuf_done) struct strbuf out = STRBUF_INIT;
        _free_ char *command = TAKE_PTR(peer->command);

        peer->watch.paused = false;
        if (peer->is_module) {
                bool worked = command_run_v3(daemon, command, &out);

                journal_text(&daemon->journal, out.data);
                channel_send_patiently(peer->watch.fd, "%s %s", worked ? "TEXT" : "FAIL", out.data);
        } else if (daemon->protocol == 3 && !text_starts_with(command, "quit")) {
                channel_send_patiently(peer->watch.fd, "TEXT The running daemon speaks protocol 3\n");
        } else if (command_run(daemon, peer, command, &out)) {
                peer->quits = channel_send_patiently(peer->watch.fd, "QUIT");
        } else {
                channel_send_patiently(peer->watch.fd, "TEXT %s", out.data);
        }
}

/* The command's name as scenarios have it: the first word, or with interface 3 "<module> <verb>". */
static char *name_of(const char *line, bool is_module)
{
        char *name = xstrdup(line + strspn(line, " \t"));
        char *second;

        if (!is_module) {
                name[strcspn(name, " \t\r")] = '\0';
                return name;
        }
        second = strchr(name, '\n');
        if (second) {
                *second = ' ';
                second[strcspn(second, "\n")] = '\0';
        }
        return name;
}

/* Answers the command at once, or after the delay that the scenario has for it. */
static void take_command(struct daemon *daemon, struct peer *peer, const char *line, bool is_module)
{
        _free_ char *name = name_of(line, is_module);
        const struct mps_fault *delay = mps_scenario_fault(&daemon->scenario, name, MPS_FAULT_DELAY);

        journal_line(&daemon->journal, "Cmd:%s", is_module ? name : line);
        peer->command = xstrdup(line);
        peer->is_module = is_module;
        peer->watch.paused = true;
        if (mps_scenario_fault(&daemon->scenario, name, MPS_FAULT_HANG))
                peer->due_ms = INT64_MAX;
        else
                peer->due_ms = now_ms() + (delay ? (int64_t)delay->delay_ms : 0);
        if (peer->due_ms <= now_ms())
                answer(daemon, peer);
}

/* With static partitioning each client has to name its partition. */
static bool has_partition(const struct daemon *daemon, const struct peer *peer)
{
        char id[160];

        if (packet_value(peer->hello, "partition", id, sizeof(id)))
                return partition_find(daemon, id) != NULL;
        return !daemon->is_static;
}

/* With interface 3 each user gets a server of his own, or all users share one, without a command that creates it. */
static void name_by_user(struct daemon *daemon, struct peer *peer)
{
        const uid_t uid = daemon->multi_user ? geteuid() : peer->who.uid;
        struct error ignored;

        snprintf(peer->server, sizeof(peer->server), "uid_%u", uid);
        if (!blueprint_find(daemon, peer->server) && !blueprint_add(daemon, peer->server, uid, &ignored))
                peer->server[0] = '\0';
}

static void take_client(struct daemon *daemon, struct peer *peer, const char *hello)
{
        const struct instance *instance;

        if (daemon->protocol == 3 && !peer->server[0])
                name_by_user(daemon, peer);
        instance = daemon_find_named(daemon, peer->server);
        journal_line(&daemon->journal, "NEW CLIENT %d from user %d: %s", (int)peer->who.pid, (int)peer->who.uid,
                instance && instance->ready && !instance->stops ? "Server already exists"
                                                                : "Server is not ready, push client to pending list");
        peer->hello = xstrdup(hello);
        if (has_partition(daemon, peer))
                daemon_advance(daemon);
        else
                peer_refuse(peer, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

/* Notes which server and namespace the client connects to: with interface 3 each has a socket of its own. */
static void name_server(struct daemon *daemon, struct watch *listener, struct peer *peer)
{
        LIST_FOR_EACH(link, &daemon->blueprints) {
                const struct blueprint *blueprint = container_of(link, struct blueprint, link);

                if (&blueprint->listener == listener)
                        snprintf(peer->server, sizeof(peer->server), "%s", blueprint->name);
                LIST_FOR_EACH(inner, &blueprint->spaces) {
                        const struct space *space = container_of(inner, struct space, link);

                        if (&space->listener != listener)
                                continue;
                        snprintf(peer->server, sizeof(peer->server), "%s", blueprint->name);
                        snprintf(peer->space, sizeof(peer->space), "%s", space->name);
                }
        }
}

/* One front end at a time: while there is one, another is disconnected without an answer. */
static void take_front_end(struct daemon *daemon, struct peer *peer)
{
        LIST_FOR_EACH(link, &daemon->peers) {
                if (container_of(link, struct peer, link)->is_front_end) {
                        peer_drop(peer);
                        return;
                }
        }
        peer->is_front_end = true;
        journal_line(&daemon->journal, "NEW UI");
}

static void on_peer(struct daemon *daemon, struct watch *watch)
{
        static struct packet packet;
        struct peer *peer = container_of(watch, struct peer, watch);

        if (peer->command || !channel_receive(watch->fd, &packet)) {
                peer_drop(peer); /* also while its command hangs: a paused peer gets here only when it disconnects */
                return;
        }
        if (packet.fd >= 0)
                close(packet.fd);
        if (packet_is(&packet, "UI")) {
                take_front_end(daemon, peer);
        } else if (packet_is(&packet, "CMD")) {
                if (packet.length >= strlen("CMD ") + COMMAND_SIZE)
                        crash();
                take_command(daemon, peer, packet.text + 4, false);
        } else if (packet_is(&packet, "MODULE")) {
                take_command(daemon, peer, packet.text + 7, true);
        } else if (packet_is(&packet, "END") && !peer->quits) {
                journal_line(&daemon->journal, "UI closed");
                peer_drop(peer);
        } else if (packet_is(&packet, "CLIENT") && !peer->hello) {
                take_client(daemon, peer, packet.text + 6);
        } else if (packet_is(&packet, "SERVER")) {
                instance_adopt(daemon, peer);
        }
}

void on_connection(struct daemon *daemon, struct watch *watch)
{
        int fd = channel_accept(watch->fd);
        struct peer *peer;

        if (fd < 0)
                return;
        journal_line(&daemon->journal, "Accepting connection...");
        peer = xcalloc(1, sizeof(*peer));
        peer->who = channel_peer(fd);
        name_server(daemon, watch, peer);
        list_append(&daemon->peers, &peer->link);
        watch_add(daemon, &peer->watch, fd, on_peer);
        on_peer(daemon, &peer->watch); /* blocks until the peer's first message, as NVIDIA's daemon does */
}

void on_log(struct daemon *daemon UNUSED, struct watch *watch UNUSED)
{
        crash();
}

/* Answers the first command whose delay is over: only one, because an answer may remove other peers. */
static void answer_due(struct daemon *daemon)
{
        LIST_FOR_EACH(link, &daemon->peers) {
                struct peer *peer = container_of(link, struct peer, link);

                if (peer->command && peer->due_ms <= now_ms()) {
                        answer(daemon, peer);
                        return;
                }
        }
}

/* ---- the loop ---- */

static size_t fill_poll(const struct daemon *daemon, struct pollfd *fds)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &daemon->watches) {
                const struct watch *watch = container_of(link, struct watch, link);

                if (count < MAX_WATCHES)
                        fds[count++] = (struct pollfd){.fd = watch->fd, .events = watch->paused ? 0 : POLLIN};
        }
        return count;
}

static void kill_servers(const struct daemon *daemon)
{
        LIST_FOR_EACH(link, &daemon->instances)
                kill(container_of(link, struct instance, link)->pid, SIGKILL);
}

/* As NVIDIA's daemon, it does not remove its sockets and its lock. */
static int clean_up(struct daemon *daemon)
{
        _free_ char *fifo = daemon_path(daemon, "log");
        _free_ char *pid = daemon_path(daemon, "nvidia-cuda-mps-control.pid");

        journal_line(&daemon->journal, "Exit with status %d", daemon->status);
        unlink(fifo);
        unlink(pid);
        while (!list_is_empty(&daemon->peers)) {
                struct peer *peer = container_of(daemon->peers.next, struct peer, link);

                if (peer->quits)
                        channel_send(peer->watch.fd, "EXIT %d", daemon->status);
                peer_drop(peer);
        }
        return daemon->status;
}

int daemon_run(struct daemon *daemon)
{
        static struct pollfd fds[MAX_WATCHES];
        int64_t end = now_ms() + (int64_t)daemon->scenario.lifetime_s * 1000;

        if ((pid_t)daemon->scenario.owner == getppid())
                prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed may have stopped it */

        while (!daemon->quits || !list_is_empty(&daemon->instances)) {
                size_t count = fill_poll(daemon, fds);

                if (poll(fds, count, TICK_MS) < 0)
                        continue;
                mps_scenario_refresh(&daemon->scenario);
                for (size_t i = 0; i < count; i++) {
                        if (fds[i].revents)
                                wake(daemon, fds[i].fd);
                }
                answer_due(daemon);
                if (daemon->kill_ms && now_ms() >= daemon->kill_ms)
                        kill_servers(daemon);
                if (now_ms() >= end || mps_scenario_is_orphaned(&daemon->scenario)) {
                        kill_servers(daemon);
                        return 1;
                }
        }
        return clean_up(daemon);
}
