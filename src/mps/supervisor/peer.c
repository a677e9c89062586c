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
#include "mps/supervisor/identity.h"
#include "mps/supervisor/process.h"

#define SYSCALL_MAX ((size_t)512)
#define REMEMBERED_MS UINT64_C(60000) /* how long the owner of a closed connection is remembered */

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

        if (pidfd < 0 || !identity_is_alive(daemon, start_time))
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
                identity_parent(ret_peer->pid) == getpid())
                return false;
        server = identity_open_server(ret_peer->pid, daemon, start_time);
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

bool peer_close_one(pid_t daemon, uint64_t start_time, peer_rank_fn *rank, void *data, char **ret_who)
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
