/*
 * Connections that keep a control daemon from serving others.
 *
 * NVIDIA's control daemon (seen with 535 and 550) has one thread for all its connections, and waits without a deadline
 * for a peer to send or to read. It also accepts commands from one front end at a time and closes any other. So a
 * connection that sends nothing blocks every client, and an idle front end blocks every other front end, the
 * supervisor's too.
 *
 * This module closes such a connection from outside: it copies the daemon's descriptor (pidfd_getfd) and shuts the
 * socket down, which the daemon takes for the end of the connection. No process is signalled. Connections of the
 * daemon's own servers and of our children are never closed.
 *
 * It needs Linux 5.6 and CAP_SYS_PTRACE; without them it finds no connection.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The connection that blocked the daemon when it was last checked. Zeroed: none did. */
struct peer_wait {
        ino_t socket;
        uint64_t since_ms;
        bool is_closed;
        char *owner;        /* its owner; NULL: not determined, or closed */
        char *closed_owner; /* owner of the connection closed last: a pod, or a user if it had no pod; NULL: none */
        uint64_t closed_ms; /* when */
};

void peer_wait_done(struct peer_wait *wait);

/*
 * How long a peer may block the daemon, in milliseconds. A program whose CPU quota is used up between connecting and
 * sending also blocks it, without intent: |first_ms| is for that. |again_ms| is for the owner whose connection was
 * closed last, less than a minute ago: it may have a thousand more.
 */
struct peer_patience {
        uint64_t first_ms;
        uint64_t again_ms;
};

enum peer_found {
        PEER_NONE,   /* the daemon is not blocked, or by a connection that must not be closed */
        PEER_WAITS,  /* a peer blocks it, but not for long enough */
        PEER_CLOSED, /* a peer blocked it for too long; the connection was closed */
};
/*
 * Checks at |now_ms| what blocks |daemon|, which started at |start_time|; |wait| keeps the state for the next check.
 * After PEER_CLOSED |*ret_who| describes the peer and what it did, for the caller to free.
 */
enum peer_found peer_poll(struct peer_wait *wait, pid_t daemon, uint64_t start_time, uint64_t now_ms,
        const struct peer_patience *patience, char **ret_who);

/* The order in which connections are closed: the |pid| with the lowest rank first. */
typedef unsigned int peer_rank_fn(pid_t pid, void *data);

/* Closes the daemon's connection with the lowest rank. False: there is none. |*ret_who| as above. */
bool peer_close_one(pid_t daemon, uint64_t start_time, peer_rank_fn *rank, void *data, char **ret_who);
