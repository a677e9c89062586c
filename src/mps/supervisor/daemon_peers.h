/*
 * Closes connections that keep a daemon from serving others (supervisor/peer.h).
 *
 * The search for blocking connections starts when an answer takes longer than MPS_SLOW_MS. It continues until no
 * connection blocks the daemon, even if the supervisor has no question of its own, because clients wait behind the same
 * connections. A front end that occupies the daemon looks like any other connection, so connections are closed one by
 * one until a question is answered; those of known clients come last.
 */
#pragma once

#include <uv.h>

#include "base/io/loop.h"
#include "mps/supervisor/peer.h"

struct daemon_peers {
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

void daemon_peers_init(struct daemon_peers *peers, uv_loop_t *loop, peer_rank_fn *rank,
        void (*closed)(char *who, void *data), void *data);
/* The daemon's process; 0: it has none any more. */
void daemon_peers_follow(struct daemon_peers *peers, pid_t pid, uint64_t start_time);
/* An answer of the daemon takes long. */
void daemon_peers_on_slow(struct daemon_peers *peers);
/* The daemon has refused a front end. */
void daemon_peers_on_refused(struct daemon_peers *peers);
/* Connections block the daemon, one after the other. */
bool daemon_peers_are_blocking(const struct daemon_peers *peers);
void daemon_peers_close(struct daemon_peers *peers, struct closing *closing);
