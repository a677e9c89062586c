// SPDX-License-Identifier: Apache-2.0
/*
 * One link and one timer. The timer is armed for the earliest deadline, and at once when a call left something to send:
 * so nothing is ever reported from within the function that asked for it.
 */
#include "net/rpc/client.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/io/loop.h"
#include "base/io/unix_socket.h"
#include "net/rpc/link.h"

struct rpc_client {
        uv_loop_t *loop;
        struct rpc_link link;
        uv_timer_t timer;
        uv_connect_t connect;
        struct rpc_client_options options;
        char *path;
        struct closing closing;
        bool is_connected;
        bool is_closing;
        uint8_t *buffer;
};

static void rpc_client_free(void *data)
{
        struct rpc_client *client = data;

        free(client->buffer);
        free(client->path);
        free(client);
}

/* ---- time ---- */

static void on_client_timer(uv_timer_t *timer);

static void client_arm(struct rpc_client *client, int64_t deadline_ms)
{
        int64_t now_ms = rpc_link_now(client->loop);

        if (client->is_closing)
                return;
        if (deadline_ms == RPC_NO_DEADLINE)
                uv_timer_stop(&client->timer);
        else
                uv_timer_start(&client->timer, on_client_timer,
                        deadline_ms > now_ms ? (uint64_t)(deadline_ms - now_ms) : 0, 0);
}

static void on_client_timer(uv_timer_t *timer)
{
        struct rpc_client *client = container_of(timer, struct rpc_client, timer);

        rpc_session_expire(client->link.session, rpc_link_now(client->loop));
        if (client->is_connected)
                rpc_link_flush(&client->link);
        if (client->is_connected)
                rpc_link_settle(&client->link);
        if (!client->is_closing)
                client_arm(client, rpc_session_next_deadline(client->link.session));
}

static void on_wake(void *owner)
{
        client_arm(owner, 0);
}

/* ---- the connection ---- */

static void client_on_moved(struct rpc_link *link)
{
        struct rpc_client *client = container_of(link, struct rpc_client, link);

        client_arm(client, rpc_session_next_deadline(link->session));
}

/*
 * The socket stays open until the owner closes the client, for the session stays too: calls made meanwhile must be able
 * to fail.
 */
static void client_on_over(struct rpc_link *link, const struct error *reason)
{
        struct rpc_client *client = container_of(link, struct rpc_client, link);

        client->is_connected = false;
        rpc_session_end(link->session, RPC_UNAVAILABLE, reason->text);
        if (!client->is_closing && client->options.on_closed)
                client->options.on_closed(client, reason, client->options.data);
        if (!client->is_closing)
                client_arm(client, rpc_session_next_deadline(link->session));
}

static void on_rpc_client_closed(struct rpc_link *link)
{
        closing_release(&container_of(link, struct rpc_client, link)->closing);
}

static const struct rpc_link_events client_events = {client_on_moved, client_on_over, on_rpc_client_closed};

static void on_connect(uv_connect_t *connect, int status)
{
        struct rpc_client *client = container_of(connect, struct rpc_client, connect);
        struct error err;

        if (client->is_closing)
                return;
        if (status < 0) {
                error_errno(&err, -status, "connect to '%s'", client->path);
                client_on_over(&client->link, &err);
                return;
        }
        client->is_connected = true;
        if (rpc_link_start(&client->link, &err) < 0)
                client_on_over(&client->link, &err);
}

/* ---- public ---- */

int rpc_client_new(struct rpc_client **ret, uv_loop_t *loop, const char *path, const struct rpc_client_options *options,
        struct error *err)
{
        const struct rpc_session_client_options session_options = {options->authority, options->limits};
        struct sockaddr_un address;
        struct rpc_client *client;

        if (unix_socket_address(&address, path, err) < 0)
                return -1;
        client = xcalloc(1, sizeof(*client));
        client->loop = loop;
        client->options = *options;
        client->path = xstrdup(path);
        client->buffer = xmalloc(RPC_LINK_BUFFER_SIZE);
        uv_pipe_init(loop, &client->link.pipe, 0);
        uv_timer_init(loop, &client->timer);
        rpc_link_init(&client->link, rpc_session_new_client(&session_options), &client_events, client->buffer);
        rpc_session_set_owner(client->link.session, client, on_wake);
        uv_pipe_connect(&client->connect, &client->link.pipe, path, on_connect);
        *ret = client;
        return 0;
}

void rpc_client_call(struct rpc_client *client, struct rpc_call **ret, const char *path, struct rpc_message *request,
        uint64_t timeout_ms, const struct rpc_handlers *handlers, void *data)
{
        int64_t now_ms = rpc_link_now(client->loop);
        int64_t deadline_ms = timeout_ms ? now_ms + (int64_t)MIN(timeout_ms, INT32_MAX) : RPC_NO_DEADLINE;
        struct rpc_call *call;

        assert(!client->is_closing);
        call = rpc_session_call(client->link.session, path, request, now_ms, deadline_ms, handlers, data);
        if (ret)
                *ret = call;
}

struct rpc_client *rpc_client_close(struct rpc_client *client)
{
        if (!client)
                return NULL;
        assert(!client->is_closing);
        client->is_closing = true;
        rpc_session_end(client->link.session, RPC_CANCELLED, "the client was closed");
        closing_close(&client->closing, &client->timer);
        closing_hold(&client->closing);
        rpc_link_close(&client->link);
        closing_end(&client->closing, rpc_client_free, client);
        return NULL;
}
