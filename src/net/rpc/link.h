// SPDX-License-Identifier: Apache-2.0
/*
 * Private to rpc/: one session on one connected unix socket. Reads into a buffer that its owner lends, writes what the
 * session has, at once where the socket takes it, and says when it is over. It knows no roles.
 *
 * The owner embeds the link, opens |pipe|, and gets back to itself by container_of(). It is freed in |closed|.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "net/rpc/session.h"

#define RPC_LINK_BUFFER_SIZE 65536

struct rpc_link;

struct rpc_link_events {
        void (*moved)(struct rpc_link *link); /* something was read: deadlines may have changed */
        /*
         * The connection is of no use any more; comes once, unless the owner closes before. The owner closes the link.
         */
        void (*over)(struct rpc_link *link, const struct error *reason);
        void (*closed)(struct rpc_link *link); /* last: the handle is closed and the session freed */
};

struct rpc_link {
        uv_pipe_t pipe;
        uv_write_t write;
        struct rpc_session *session;
        const struct rpc_link_events *events;
        uint8_t *buffer; /* of RPC_LINK_BUFFER_SIZE, shared by links of one loop: what is in it is consumed at once */
        bool is_writing; /* |write| is in flight: the session is not asked for more */
        bool is_busy;    /* inside the session */
        bool is_over;
        bool is_leaving;
        bool is_closing;
};

/* Takes the session. |pipe| was initialised by the owner, and is closed by rpc_link_close() in any case. */
void rpc_link_init(
        struct rpc_link *link, struct rpc_session *session, const struct rpc_link_events *events, uint8_t *buffer);

/* |pipe| is connected: reads and writes from now on. */
int rpc_link_start(struct rpc_link *link, struct error *err) MUST_USE;

/* Writes what is pending. Harmless at any time, from inside callbacks too. Never says that the connection is over. */
void rpc_link_flush(struct rpc_link *link);

/* Says that it is over if it is. Not from inside a callback of the session. */
void rpc_link_settle(struct rpc_link *link);

/* Ends calls whose deadline has passed. */
void rpc_link_expire(struct rpc_link *link, int64_t now_ms);

void rpc_link_close(struct rpc_link *link);

/*
 * Writes what is pending, then ends this side's direction of the connection. What the peer still sends is discarded
 * until it ends the other direction; then the link is over. If both directions ended at once, a peer that is writing
 * would get EPIPE and might never read what was written last.
 */
void rpc_link_leave(struct rpc_link *link);

/* The loop's clock, which every session is given. */
int64_t rpc_link_now(const uv_loop_t *loop);
