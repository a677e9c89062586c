/*
 * Connections in a list, each a link; one timer for the earliest deadline of all, armed only while there is one.
 */
#include "rpc/server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/list.h"
#include "rpc/link.h"

#define BACKLOG 128

struct rpc_server {
        uv_loop_t *loop;
        uv_pipe_t listener;
        uv_timer_t timer;
        int64_t armed_ms; /* when |timer| fires, RPC_NO_DEADLINE if it does not */
        struct rpc_server_options options;
        char *path;
        dev_t device; /* of the socket file that was bound */
        ino_t inode;
        struct list connections;
        size_t n_connections;
        size_t handles; /* not closed yet; the server is freed with the last */
        uint8_t *buffer;
        bool is_closing;
        int64_t grace_ms; /* when a closing server stops waiting */
        void (*closed)(void *data);
        void *data;
};

struct connection {
        struct rpc_link link;
        struct list in_server;
        struct rpc_server *server;
        int64_t handshake_ms; /* when it must have sent SETTINGS */
};

static struct connection *connection_of(struct list *in_server)
{
        return container_of(in_server, struct connection, in_server);
}

static void forget_handle(struct rpc_server *server)
{
        void (*closed)(void *data) = server->closed;
        void *data = server->data;

        if (--server->handles > 0)
                return;
        assert(list_is_empty(&server->connections));
        free(server->buffer);
        free(server->path);
        free(server);
        if (closed)
                closed(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
        forget_handle(handle->data);
}

/* ---- time ---- */

static int64_t connection_deadline(const struct connection *connection)
{
        int64_t deadline_ms = rpc_session_next_deadline(connection->link.session);

        if (!rpc_session_is_established(connection->link.session))
                deadline_ms = MIN(deadline_ms, connection->handshake_ms);
        return deadline_ms;
}

static void on_timer(uv_timer_t *timer);

/* Only ever earlier: a deadline that went away costs one idle wake-up, not a search through all of them. */
static void arm(struct rpc_server *server, int64_t deadline_ms)
{
        int64_t now_ms = rpc_link_now(server->loop);

        if (deadline_ms >= server->armed_ms)
                return;
        server->armed_ms = deadline_ms;
        uv_timer_start(&server->timer, on_timer, deadline_ms > now_ms ? (uint64_t)(deadline_ms - now_ms) : 0, 0);
}

/*
 * Closing a link takes effect in a later turn of the loop, so that walking the list here is safe, whatever the calls' owners
 * do when they hear of an end.
 */
static void on_timer(uv_timer_t *timer)
{
        struct rpc_server *server = container_of(timer, struct rpc_server, timer);
        int64_t now_ms = rpc_link_now(server->loop);
        int64_t next_ms = RPC_NO_DEADLINE;

        server->armed_ms = RPC_NO_DEADLINE;
        LIST_FOR_EACH(in_server, &server->connections) {
                struct connection *connection = connection_of(in_server);
                struct rpc_link *link = &connection->link;

                if (link->is_closing)
                        continue;
                rpc_link_expire(link, now_ms);
                rpc_link_settle(link);
                if (server->is_closing && server->grace_ms <= now_ms) {
                        rpc_session_end(link->session, RPC_UNAVAILABLE, "the server is closing");
                        rpc_link_flush(link);
                        rpc_link_close(link);
                } else if (connection_deadline(connection) <= now_ms) {
                        rpc_link_close(link); /* no handshake */
                }
                if (!link->is_closing)
                        next_ms = MIN(next_ms, connection_deadline(connection));
        }
        if (server->is_closing && server->n_connections > 0 && server->grace_ms > now_ms)
                next_ms = MIN(next_ms, server->grace_ms);
        arm(server, next_ms);
}

/* ---- connections ---- */

static void on_moved(struct rpc_link *link)
{
        struct connection *connection = container_of(link, struct connection, link);

        arm(connection->server, connection_deadline(connection));
}

static void on_over(struct rpc_link *link, const struct error *reason UNUSED)
{
        rpc_link_close(link);
}

static void close_timer_if_last(struct rpc_server *server)
{
        if (server->is_closing && server->n_connections == 0 && !uv_is_closing((uv_handle_t *)&server->timer))
                uv_close((uv_handle_t *)&server->timer, on_handle_closed);
}

static void on_closed(struct rpc_link *link)
{
        struct connection *connection = container_of(link, struct connection, link);
        struct rpc_server *server = connection->server;

        list_remove(&connection->in_server);
        server->n_connections--;
        free(connection);
        if (server->options.on_disconnect)
                server->options.on_disconnect(server->options.service.context);
        close_timer_if_last(server);
        forget_handle(server);
}

static const struct rpc_link_events connection_events = {on_moved, on_over, on_closed};

static void on_extra_closed(uv_handle_t *handle)
{
        struct rpc_server *server = handle->data;

        free(handle);
        forget_handle(server);
}

/* One too many: accepted, for it would wait in the backlog otherwise and not know why, and closed. */
static void turn_away(struct rpc_server *server)
{
        uv_pipe_t *pipe = xcalloc(1, sizeof(*pipe));

        uv_pipe_init(server->loop, pipe, 0);
        pipe->data = server;
        server->handles++;
        uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)pipe);
        uv_close((uv_handle_t *)pipe, on_extra_closed);
}

static void on_connection(uv_stream_t *listener, int status)
{
        struct rpc_server *server = container_of(listener, struct rpc_server, listener);
        struct connection *connection;
        struct error err;

        if (status < 0)
                return; /* out of descriptors, or gone before it was accepted; libuv goes on listening */
        if (server->n_connections >= server->options.connections) {
                turn_away(server);
                return;
        }
        connection = xcalloc(1, sizeof(*connection));
        connection->server = server;
        connection->handshake_ms = rpc_link_now(server->loop) + (int64_t)server->options.handshake_ms;
        uv_pipe_init(server->loop, &connection->link.pipe, 0);
        rpc_link_init(&connection->link, rpc_session_new_server(&server->options.service), &connection_events,
                server->buffer);
        rpc_session_set_owner(connection->link.session, connection, NULL);
        list_append(&server->connections, &connection->in_server);
        server->n_connections++;
        server->handles++;
        if (uv_accept(listener, (uv_stream_t *)&connection->link.pipe) < 0 ||
                rpc_link_start(&connection->link, &err) < 0)
                rpc_link_close(&connection->link);
        else
                arm(server, connection->handshake_ms);
}

void rpc_call_flush(struct rpc_call *call)
{
        struct connection *connection = rpc_call_owner(call);
        struct rpc_link *link = &connection->link;

        if (link->is_busy || link->is_closing)
                return;
        rpc_link_flush(link);
        rpc_link_settle(link);
}

/* ---- the socket ---- */

/*
 * Not uv_pipe_bind(): libuv would remove the file by its name at the end, even if it is somebody else's by then.
 */
static int bind_socket(struct rpc_server *server, int *ret_fd, struct error *err)
{
        struct sockaddr_un address;
        struct stat status;
        _close_ int fd = -1;

        if (rpc_link_address(server->path, &address, err) < 0)
                return -1;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "make a socket");
        if (unlink(server->path) < 0 && errno != ENOENT)
                return error_errno(err, errno, "remove what is at '%s'", server->path);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "bind '%s'", server->path);
        if (lstat(server->path, &status) < 0)
                return error_errno(err, errno, "look at '%s'", server->path);
        server->device = status.st_dev;
        server->inode = status.st_ino;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

bool rpc_server_is_reachable(const struct rpc_server *server)
{
        struct stat status;

        return lstat(server->path, &status) == 0 && status.st_dev == server->device && status.st_ino == server->inode;
}

static void remove_socket(struct rpc_server *server)
{
        if (rpc_server_is_reachable(server))
                unlink(server->path);
}

static int listen_on(struct rpc_server *server, struct error *err)
{
        _close_ int fd = -1;
        int r;

        if (bind_socket(server, &fd, err) < 0)
                return -1;
        r = uv_pipe_open(&server->listener, fd);
        if (r == 0) {
                TAKE_FD(fd);
                r = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
        }
        if (r < 0) {
                remove_socket(server);
                return error_errno(err, -r, "listen on '%s'", server->path);
        }
        return 0;
}

int rpc_server_new(struct rpc_server **ret, uv_loop_t *loop, const char *path, const struct rpc_server_options *options,
        struct error *err)
{
        struct rpc_server *server = xcalloc(1, sizeof(*server));

        server->loop = loop;
        server->options = *options;
        if (!server->options.connections)
                server->options.connections = 64;
        if (!server->options.handshake_ms)
                server->options.handshake_ms = 10000;
        server->path = xstrdup(path);
        server->armed_ms = RPC_NO_DEADLINE;
        list_init(&server->connections);
        uv_pipe_init(loop, &server->listener, 0);
        uv_timer_init(loop, &server->timer);
        server->listener.data = server->timer.data = server;
        server->handles = 2;
        if (listen_on(server, err) < 0) {
                uv_close((uv_handle_t *)&server->listener, on_handle_closed);
                uv_close((uv_handle_t *)&server->timer, on_handle_closed);
                return -1;
        }
        server->buffer = xmalloc(RPC_LINK_BUFFER_SIZE);
        *ret = server;
        return 0;
}

void rpc_server_close(struct rpc_server *server, uint64_t grace_ms, void (*closed)(void *data), void *data)
{
        assert(!server->is_closing);
        server->is_closing = true;
        server->closed = closed;
        server->data = data;
        server->grace_ms = rpc_link_now(server->loop) + (int64_t)MIN(grace_ms, INT32_MAX);
        remove_socket(server);
        uv_close((uv_handle_t *)&server->listener, on_handle_closed);
        LIST_FOR_EACH(in_server, &server->connections) {
                struct rpc_link *link = &connection_of(in_server)->link;

                if (link->is_closing)
                        continue;
                rpc_session_drain(link->session);
                rpc_link_flush(link);
        }
        arm(server, server->grace_ms);
        close_timer_if_last(server);
}

const char *rpc_server_path(const struct rpc_server *server)
{
        return server->path;
}

size_t rpc_server_connections(const struct rpc_server *server)
{
        return server->n_connections;
}
