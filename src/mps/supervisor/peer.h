// SPDX-License-Identifier: Apache-2.0
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
#include <uv.h>

#include "base/io/loop.h"

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

/* ---- all connections of one daemon ---- */

/*
 * The search for blocking connections starts when an answer takes longer than MPS_SLOW_MS. It continues until no
 * connection blocks the daemon, even if the supervisor has no question of its own, because clients wait behind the same
 * connections. A front end that occupies the daemon looks like any other connection, so connections are closed one by
 * one until a question is answered; those of known clients come last.
 */
struct mps_peers {
        uv_timer_t timer; /* the next search for a connection that blocks the daemon */
        pid_t pid;        /* the daemon's process; 0: none */
        uint64_t start_time;
        struct peer_wait wait;  /* result of the last search */
        unsigned int n_closed;  /* connections closed since the last search ended */
        unsigned int n_idle;    /* searches in a row that found no such connection */
        uint64_t refused_since; /* since when another front end occupies the daemon, by the loop's clock */
        uint64_t refused_at;    /* the last refusal */
        peer_rank_fn *rank;
        void (*closed)(char *who, void *data); /* the first of connections that follow each other; takes |who| */
        void *data;                            /* of both */
};

void mps_peers_init(struct mps_peers *peers, uv_loop_t *loop, peer_rank_fn *rank, void (*closed)(char *who, void *data),
        void *data);
/* The daemon's process; 0: it has none any more. */
void mps_peers_follow(struct mps_peers *peers, pid_t pid, uint64_t start_time);
/* An answer of the daemon takes long. */
void mps_peers_on_slow(struct mps_peers *peers);
/* The daemon has refused a front end. */
void mps_peers_on_refused(struct mps_peers *peers);
/* Connections block the daemon, one after the other. */
bool mps_peers_are_blocking(const struct mps_peers *peers);
void mps_peers_close(struct mps_peers *peers, struct closing *closing);
