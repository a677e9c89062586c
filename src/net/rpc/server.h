// SPDX-License-Identifier: Apache-2.0
/*
 * A gRPC server on a unix socket: listens, runs one rpc_session a connection, arms one timer for deadlines.
 *
 * It does not know what is served. One thread, the loop's. Connections are bounded: one beyond the bound takes the
 * place of the one that has been without a call for longest, or is closed where all have calls. Messages that are not
 * complete are bounded for all connections together: beyond twice the limit of one message the connection that keeps
 * most of them is ended. While no descriptor is free, those without a call give way, too; without one it looks again
 * after a while. A connection that has not sent its SETTINGS after a deadline is closed. The socket file is removed at
 * the end, but only if it is still the one that was bound (device and inode), since kubelet may have emptied the
 * directory meanwhile.
 *
 * The program must ignore SIGPIPE, here as with every libuv stream.
 */
#pragma once

#include <stddef.h>
#include <uv.h>

#include "net/rpc/session.h"

struct rpc_server;

struct rpc_server_options {
        struct rpc_service service;
        size_t connections;    /* 0: 64 */
        uint64_t handshake_ms; /* 0: 10 s */
        /* Called, if set, after a connection was closed and forgotten. */
        void (*on_disconnect)(void *context);
};

/* Binds (an existing file at |path| is replaced), listens, and serves from the next turn of |loop| on. */
int rpc_server_new(struct rpc_server **ret, uv_loop_t *loop, const char *path, const struct rpc_server_options *options,
        struct error *err) MUST_USE;

/*
 * Stops politely: no new connection, GOAWAY on each, then waits until the peers have closed theirs, at most |grace_ms|
 * (0: closes at once). Calls that the owner has not finished by then end with a reset. |closed| is called last, from
 * the loop and never from within this call; the server is freed before. The socket file is removed at once.
 */
void rpc_server_close(struct rpc_server *server, uint64_t grace_ms, void (*closed)(void *data), void *data);

/*
 * Stops where another server takes its place: ends each connection so that its client makes open calls again
 * (rpc_session_give_back()), also those connections that were not accepted yet, and leaves what is at the path. A
 * client has a second to read that; what it writes until then is discarded. |closed| as above.
 */
void rpc_server_leave(struct rpc_server *server, void (*closed)(void *data), void *data);

const char *rpc_server_path(const struct rpc_server *server);

/* False when the socket file is gone or was replaced: clients cannot reach this server any more. */
bool rpc_server_is_reachable(const struct rpc_server *server);

/*
 * To be called by the owner after it sent on calls outside a request handler: writes what is pending on the connection.
 * Harmless inside handlers. The call may have ended, and be dead, when this returns: its trailers may have been
 * written.
 */
void rpc_call_flush(struct rpc_call *call);
