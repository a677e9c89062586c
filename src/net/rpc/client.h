// SPDX-License-Identifier: Apache-2.0
/*
 * A gRPC client on a unix socket: connects, runs one rpc_session, any number of calls. One thread, the loop's.
 *
 * Connecting is part of the first call: a call made before the connection stands is sent when it does, and fails with
 * UNAVAILABLE if it never does. It does not reconnect: when the connection ends, every call ends, |on_closed| follows,
 * and the owner makes a new client when it wants one. The program must ignore SIGPIPE.
 */
#pragma once

#include <uv.h>

#include "net/rpc/session.h"

struct rpc_client;

struct rpc_client_options {
        const char *authority; /* NULL: "localhost" */
        struct rpc_limits limits;
        /*
         * May be NULL. The connection is gone and every call has ended; the client must still be closed by its owner.
         */
        void (*on_closed)(struct rpc_client *client, const struct error *reason, void *data);
        void *data;
};

/* Never fails for a socket that is not there: the calls do. A path that no socket can have is an error. */
int rpc_client_new(struct rpc_client **ret, uv_loop_t *loop, const char *path, const struct rpc_client_options *options,
        struct error *err) MUST_USE;

/*
 * |timeout_ms| 0 means none. *ret may be used for rpc_call_cancel() until |ended|, which is never called from within
 * this function. |ret| may be NULL.
 */
void rpc_client_call(struct rpc_client *client, struct rpc_call **ret, const char *path, struct rpc_message *request,
        uint64_t timeout_ms, const struct rpc_handlers *handlers, void *data);

/*
 * Ends all calls with CANCELLED and closes; the memory goes when the loop has closed the handles. May be called from
 * inside any callback of the client. No call may be made any more. Accepts NULL, returns NULL.
 */
struct rpc_client *rpc_client_close(struct rpc_client *client);
