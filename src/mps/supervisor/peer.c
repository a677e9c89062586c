// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/peer.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "mps/supervisor/process.h"

#define SYSCALL_MAX ((size_t)512)
#define REMEMBERED_MS UINT64_C(60000) /* how long the owner of a closed connection is remembered */
#define PATIENCE_MS UINT64_C(2000)
#define POLL_MS UINT64_C(50)
#define BRIEF_POLL_MS UINT64_C(10)
#define REFUSED_GAP_MS UINT64_C(250) /* refusals with more time between them come from different front ends */
#define IDLE_POLLS 20U               /* after so many in a row the search ends */

/* The descriptor on which the main thread of |pid| is blocked in recvmsg() or sendmsg(); -1: it is not. */
static int descriptor_waited_for(pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        char path[64];
        struct error err;
        long number;
        unsigned int fd;

        snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
        if (file_read(path, SYSCALL_MAX, &content, &err) < 0 || sscanf(content.data, "%ld 0x%x", &number, &fd) != 2 ||
                (number != SYS_recvmsg && number != SYS_sendmsg))
                return -1;
        return (int)fd;
}

/* Our copy of the daemon's descriptor |number|; -1: the daemon has no such descriptor, or we may not copy it. */
static int copy_descriptor(pid_t daemon, uint64_t start_time, int number)
{
        _close_ int pidfd = number < 0 ? -1 : (int)syscall(SYS_pidfd_open, daemon, 0);

        if (pidfd < 0 || !process_is_alive(daemon, start_time))
                return -1;
        return (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
}

/* The inode of the socket |fd|; 0: it is not a socket. */
static ino_t socket_of(int fd)
{
        struct stat status;

        return fd >= 0 && fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

/* Whether the connection |fd| may be closed. */
static bool may_be_closed(int fd, pid_t daemon, uint64_t start_time, struct ucred *ret_peer)
{
        _close_ int server = -1;
        int listens = 0;
        socklen_t size = sizeof(listens);

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || listens)
                return false;
        size = sizeof(*ret_peer);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret_peer, &size) < 0 || ret_peer->pid == daemon ||
                process_parent(ret_peer->pid) == getpid())
                return false;
        server = process_open_server(ret_peer->pid, daemon, start_time);
        return server < 0;
}

/* "pod <UID>", or "user <uid>" where it is of no pod. */
static char *peer_owner_of(const struct ucred *peer)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct process process = {0};
        struct error err;

        if (process_read(&process, &arena, "", peer->pid, &err) < 0 || !process.pod_uid)
                return xasprintf("user %d", (int)peer->uid);
        return xasprintf("pod %s", process.pod_uid);
}

static char *describe_peer(const struct ucred *peer, const char *owner, const char *what)
{
        return xasprintf("process %d (user %d, %s) %s; that connection was closed", (int)peer->pid, (int)peer->uid,
                text_starts_with(owner, "pod ") ? owner : "of no pod", what);
}

/* ---- the one that blocks the daemon ---- */

enum peer_found peer_poll(struct peer_wait *wait, pid_t daemon, uint64_t start_time, uint64_t now_ms,
        const struct peer_patience *patience, char **ret_who)
{
        _close_ int copy = copy_descriptor(daemon, start_time, descriptor_waited_for(daemon));
        const ino_t socket = socket_of(copy);
        struct ucred peer;
        bool is_again;

        if (socket != wait->socket) {
                wait->socket = socket;
                wait->since_ms = now_ms;
                wait->is_closed = false;
                free(TAKE_PTR(wait->owner));
        }
        if (!socket || wait->is_closed || !may_be_closed(copy, daemon, start_time, &peer))
                return PEER_NONE;
        if (!wait->owner)
                wait->owner = peer_owner_of(&peer);
        is_again = text_is_same(wait->closed_owner, wait->owner) && now_ms - wait->closed_ms < REMEMBERED_MS;
        if (now_ms - wait->since_ms < (is_again ? patience->again_ms : patience->first_ms))
                return PEER_WAITS;
        wait->is_closed = true;
        if (shutdown(copy, SHUT_RDWR) < 0)
                return PEER_NONE;
        *ret_who = describe_peer(&peer, wait->owner, "blocked its control socket");
        free(wait->closed_owner);
        wait->closed_owner = TAKE_PTR(wait->owner);
        wait->closed_ms = now_ms;
        return PEER_CLOSED;
}

void peer_wait_done(struct peer_wait *wait)
{
        free(wait->owner);
        free(wait->closed_owner);
        *wait = (struct peer_wait){0};
}

/* ---- any one ---- */

/* Closes the daemon's connection with the lowest rank. False: there is none. |*ret_who| as above. */
static bool peer_close_one(pid_t daemon, uint64_t start_time, peer_rank_fn *rank, void *data, char **ret_who)
{
        _free_ char *path = xasprintf("/proc/%d/fd", (int)daemon);
        _free_ char *owner = NULL;
        _close_ int chosen = -1;
        struct ucred chosen_peer = {0};
        unsigned int least = UINT_MAX;
        const struct dirent *entry;
        DIR *descriptors = opendir(path);

        while (descriptors && (entry = readdir(descriptors))) {
                _close_ int copy = entry->d_name[0] == '.'
                                           ? -1
                                           : copy_descriptor(daemon, start_time, (int)strtol(entry->d_name, NULL, 10));
                struct ucred peer;

                if (!socket_of(copy) || !may_be_closed(copy, daemon, start_time, &peer) ||
                        rank(peer.pid, data) >= least)
                        continue;
                least = rank(peer.pid, data);
                chosen_peer = peer;
                close_pointer(&chosen);
                chosen = TAKE_FD(copy);
        }
        if (descriptors)
                closedir(descriptors);
        if (chosen < 0 || shutdown(chosen, SHUT_RDWR) < 0)
                return false;
        owner = peer_owner_of(&chosen_peer);
        *ret_who = describe_peer(&chosen_peer, owner, "occupied its control socket");
        return true;
}

/* ---- all connections of one daemon ---- */

static const struct peer_patience patience = {.first_ms = PATIENCE_MS, .again_ms = 20};

/* Takes |who|. Reported once for all blocking connections that follow each other. */
static void report_closed(struct mps_peers *peers, char *who)
{
        if (peers->n_closed++)
                free(who);
        else
                peers->closed(who, peers->data);
}

static void on_peers(uv_timer_t *timer)
{
        struct mps_peers *peers = container_of(timer, struct mps_peers, timer);
        uint64_t pause = peers->n_closed ? BRIEF_POLL_MS : POLL_MS;
        enum peer_found found = PEER_NONE;
        char *who = NULL;

        if (peers->pid)
                found = peer_poll(&peers->wait, peers->pid, peers->start_time, uv_now(timer->loop), &patience, &who);
        peers->n_idle = found == PEER_NONE ? peers->n_idle + 1 : 0;
        if (found == PEER_CLOSED) {
                pause = 1;
                report_closed(peers, who);
        }
        if (peers->n_idle == IDLE_POLLS)
                peers->n_closed = 0;
        else
                uv_timer_start(timer, on_peers, pause, 0);
}

void mps_peers_on_slow(struct mps_peers *peers)
{
        peers->n_idle = 0;
        if (!uv_is_active((uv_handle_t *)&peers->timer))
                uv_timer_start(&peers->timer, on_peers, 0, 0);
}

void mps_peers_on_refused(struct mps_peers *peers)
{
        const uint64_t now = uv_now(peers->timer.loop);
        char *who;

        if (now - peers->refused_at > REFUSED_GAP_MS)
                peers->refused_since = now;
        peers->refused_at = now;
        if (!peers->pid || now - peers->refused_since < PATIENCE_MS ||
                !peer_close_one(peers->pid, peers->start_time, peers->rank, peers->data, &who))
                return;
        report_closed(peers, who);
        mps_peers_on_slow(peers);
}

bool mps_peers_are_blocking(const struct mps_peers *peers)
{
        return peers->n_closed > 0;
}

void mps_peers_init(
        struct mps_peers *peers, uv_loop_t *loop, peer_rank_fn *rank, void (*closed)(char *who, void *data), void *data)
{
        *peers = (struct mps_peers){.rank = rank, .closed = closed, .data = data};
        uv_timer_init(loop, &peers->timer);
}

void mps_peers_follow(struct mps_peers *peers, pid_t pid, uint64_t start_time)
{
        peers->pid = pid;
        peers->start_time = start_time;
}

void mps_peers_close(struct mps_peers *peers, struct closing *closing)
{
        peer_wait_done(&peers->wait);
        closing_close(closing, &peers->timer);
}
