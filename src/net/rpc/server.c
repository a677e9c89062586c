// SPDX-License-Identifier: Apache-2.0
/*
 * Connections in a list, each a link; one timer for the earliest deadline of all, armed only while there is one.
 */
#include "net/rpc/server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/io/loop.h"
#include "base/io/unix_socket.h"
#include "net/rpc/link.h"

#define BACKLOG 128
#define PAUSE_MS INT64_C(200) /* without descriptors: until the next look at the backlog */
#define MESSAGE_MAX ((size_t)4 * 1024 * 1024)
#define LEAVE_MS INT64_C(1000) /* for clients to read GOAWAY: those of gRPC close the connection at once then */

struct rpc_server {
        uv_loop_t *loop;
        /*
         * Not a pipe of libuv: that cannot stop listening, and is woken by the same backlog again and again when
         * descriptors have run out.
         */
        uv_poll_t listener;
        int fd; /* of |listener| */
        uv_timer_t timer;
        int64_t armed_ms; /* when |timer| fires, RPC_NO_DEADLINE if it does not */
        struct rpc_server_options options;
        char *path;
        dev_t device; /* of the socket file that was bound */
        ino_t inode;
        struct list connections;
        size_t n_connections;
        int64_t resume_ms; /* when |listener| is looked at again, RPC_NO_DEADLINE if it is not paused */
        struct closing closing;
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
        int64_t moved_ms;     /* when it last sent anything */
};

static struct connection *connection_of(struct list *in_server)
{
        return container_of(in_server, struct connection, in_server);
}

static void rpc_server_free(void *data)
{
        struct rpc_server *server = data;
        void (*closed)(void *data) = server->closed;
        void *context = server->data;

        assert(list_is_empty(&server->connections));
        free(server->buffer);
        free(server->path);
        free(server);
        if (closed)
                closed(context);
}

/* ---- time ---- */

static int64_t connection_deadline(const struct connection *connection)
{
        int64_t deadline_ms = rpc_session_next_deadline(connection->link.session);

        if (!rpc_session_is_established(connection->link.session))
                deadline_ms = MIN(deadline_ms, connection->handshake_ms);
        return deadline_ms;
}

static void on_server_timer(uv_timer_t *timer);
static void resume_listening(struct rpc_server *server);

/* Only ever earlier: a deadline that went away costs one idle wake-up, not a search through all of them. */
static void server_arm(struct rpc_server *server, int64_t deadline_ms)
{
        int64_t now_ms = rpc_link_now(server->loop);

        if (deadline_ms >= server->armed_ms)
                return;
        server->armed_ms = deadline_ms;
        uv_timer_start(&server->timer, on_server_timer, deadline_ms > now_ms ? (uint64_t)(deadline_ms - now_ms) : 0, 0);
}

/*
 * Closing a link takes effect in a later turn of the loop, so walking the list here is safe, even if the owner of a
 * call closes links when its call ends.
 */
static void on_server_timer(uv_timer_t *timer)
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
        if (!server->is_closing && server->resume_ms <= now_ms)
                resume_listening(server);
        if (!server->is_closing)
                next_ms = MIN(next_ms, server->resume_ms);
        if (server->is_closing && server->n_connections > 0 && server->grace_ms > now_ms)
                next_ms = MIN(next_ms, server->grace_ms);
        server_arm(server, next_ms);
}

/* ---- connections ---- */

/*
 * All connections together may keep what one of them may. Who keeps most is in the wrong: kubelet's messages are small.
 */
static void limit_unread(struct rpc_server *server)
{
        struct connection *largest = NULL;
        size_t unread = 0;

        LIST_FOR_EACH(in_server, &server->connections) {
                struct connection *connection = connection_of(in_server);
                size_t own = rpc_session_unread(connection->link.session);

                if (connection->link.is_closing)
                        continue;
                unread += own;
                if (!largest || own > rpc_session_unread(largest->link.session))
                        largest = connection;
        }
        if (unread > 2 * server->options.service.limits.message)
                rpc_link_close(&largest->link);
}

static void server_on_moved(struct rpc_link *link)
{
        struct connection *connection = container_of(link, struct connection, link);

        connection->moved_ms = rpc_link_now(connection->server->loop);
        server_arm(connection->server, connection_deadline(connection));
        if (rpc_session_unread(link->session) > 0)
                limit_unread(connection->server);
}

static void server_on_over(struct rpc_link *link, const struct error *reason UNUSED)
{
        rpc_link_close(link);
}

static void close_timer_if_last(struct rpc_server *server)
{
        if (!server->is_closing || server->n_connections > 0 || uv_is_closing((uv_handle_t *)&server->timer))
                return;
        closing_close(&server->closing, &server->timer);
        closing_end(&server->closing, rpc_server_free, server);
}

static void on_rpc_server_closed(struct rpc_link *link)
{
        struct connection *connection = container_of(link, struct connection, link);
        struct rpc_server *server = connection->server;

        list_remove(&connection->in_server);
        server->n_connections--;
        free(connection);
        if (server->options.on_disconnect)
                server->options.on_disconnect(server->options.service.context);
        close_timer_if_last(server);
}

static const struct rpc_link_events connection_events = {server_on_moved, server_on_over, on_rpc_server_closed};

/* Makes room by the connection without a call that was silent for longest; false: there is none. */
static bool evict_idle(struct rpc_server *server)
{
        struct connection *idlest = NULL;

        LIST_FOR_EACH(in_server, &server->connections) {
                struct connection *connection = connection_of(in_server);

                if (!connection->link.is_closing && rpc_session_calls(connection->link.session) == 0 &&
                        (!idlest || connection->moved_ms < idlest->moved_ms))
                        idlest = connection;
        }
        if (!idlest)
                return false;
        rpc_link_close(&idlest->link);
        return true;
}

static size_t count_open(const struct rpc_server *server)
{
        size_t count = 0;

        LIST_FOR_EACH(in_server, &server->connections)
                count += !connection_of(in_server)->link.is_closing;
        return count;
}

static void add_connection(struct rpc_server *server, int fd)
{
        struct connection *connection = xcalloc(1, sizeof(*connection));
        struct error err;

        connection->server = server;
        connection->moved_ms = rpc_link_now(server->loop);
        connection->handshake_ms = connection->moved_ms + (int64_t)server->options.handshake_ms;
        uv_pipe_init(server->loop, &connection->link.pipe, 0);
        rpc_link_init(&connection->link, rpc_session_new_server(&server->options.service), &connection_events,
                server->buffer);
        rpc_session_set_owner(connection->link.session, connection, NULL);
        list_append(&server->connections, &connection->in_server);
        server->n_connections++;
        if (uv_pipe_open(&connection->link.pipe, fd) < 0) {
                close(fd);
                rpc_link_close(&connection->link);
        } else if (rpc_link_start(&connection->link, &err) < 0) {
                rpc_link_close(&connection->link);
        } else {
                server_arm(server, connection->handshake_ms);
        }
}

static void pause_listening(struct rpc_server *server)
{
        uv_poll_stop(&server->listener);
        server->resume_ms = rpc_link_now(server->loop) + PAUSE_MS;
        server_arm(server, server->resume_ms);
}

static void on_listener(uv_poll_t *listener, int status, int events UNUSED)
{
        struct rpc_server *server = container_of(listener, struct rpc_server, listener);
        int fd;

        if (status < 0) {
                pause_listening(server);
                return;
        }
        for (unsigned int i = 0; i < BACKLOG && !server->is_closing; i++) {
                fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
                        continue;
                if (fd < 0 && errno == EAGAIN)
                        return;
                if (fd < 0) {
                        /*
                         * Descriptors or memory are short. The end of a connection takes effect before the next look.
                         */
                        evict_idle(server);
                        pause_listening(server);
                        return;
                }
                /*
                 * A connection beyond the limit is closed: otherwise the client would wait in the backlog without an
                 * error.
                 */
                if (count_open(server) >= server->options.connections && !evict_idle(server))
                        close(fd);
                else
                        add_connection(server, fd);
        }
}

static void resume_listening(struct rpc_server *server)
{
        int rc = uv_poll_start(&server->listener, UV_READABLE, on_listener);

        assert(rc == 0); /* no other handle watches its descriptor */
        server->resume_ms = RPC_NO_DEADLINE;
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

bool rpc_server_is_reachable(const struct rpc_server *server)
{
        struct stat status;

        return lstat(server->path, &status) == 0 && status.st_dev == server->device && status.st_ino == server->inode;
}

static void server_remove_socket(struct rpc_server *server)
{
        if (rpc_server_is_reachable(server))
                unlink(server->path);
}

static int server_listen_on(struct rpc_server *server, struct error *err)
{
        _close_ int fd = -1;
        struct stat status;
        int r;

        if (unix_socket_bind(&fd, server->path, 0, err) < 0)
                return -1;
        if (lstat(server->path, &status) < 0)
                return error_errno(err, errno, "inspect '%s'", server->path);
        server->device = status.st_dev;
        server->inode = status.st_ino;
        r = listen(fd, BACKLOG) < 0 ? -errno : uv_poll_init(server->loop, &server->listener, fd);
        if (r < 0) {
                server_remove_socket(server);
                return error_errno(err, -r, "listen on '%s'", server->path);
        }
        server->fd = TAKE_FD(fd);
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
        if (!server->options.service.limits.message)
                server->options.service.limits.message = MESSAGE_MAX;
        if (!server->options.handshake_ms)
                server->options.handshake_ms = 10000;
        server->path = xstrdup(path);
        server->armed_ms = RPC_NO_DEADLINE;
        list_init(&server->connections);
        uv_timer_init(loop, &server->timer);
        if (server_listen_on(server, err) < 0) {
                closing_close(&server->closing, &server->timer);
                closing_end(&server->closing, rpc_server_free, server);
                return -1;
        }
        resume_listening(server);
        server->buffer = xmalloc(RPC_LINK_BUFFER_SIZE);
        *ret = server;
        return 0;
}

/* |end| is called for each connection, which is closed after |grace_ms| at the latest. */
static void server_end(struct rpc_server *server, int64_t grace_ms, void (*end)(struct rpc_link *link),
        void (*closed)(void *data), void *data)
{
        assert(!server->is_closing);
        server->is_closing = true;
        server->closed = closed;
        server->data = data;
        server->grace_ms = rpc_link_now(server->loop) + grace_ms;
        closing_close(&server->closing, &server->listener);
        close(server->fd);
        LIST_FOR_EACH(in_server, &server->connections) {
                struct rpc_link *link = &connection_of(in_server)->link;

                if (!link->is_closing)
                        end(link);
        }
        server_arm(server, server->grace_ms);
        close_timer_if_last(server);
}

static void server_give_back(struct rpc_link *link)
{
        rpc_session_give_back(link->session);
        rpc_link_leave(link);
}

void rpc_server_leave(struct rpc_server *server, void (*closed)(void *data), void *data)
{
        on_listener(&server->listener, 0, UV_READABLE); /* who has connected already is to read GOAWAY, too */
        server_end(server, LEAVE_MS, server_give_back, closed, data);
}

static void server_drain(struct rpc_link *link)
{
        rpc_session_drain(link->session);
        rpc_link_flush(link);
}

void rpc_server_close(struct rpc_server *server, uint64_t grace_ms, void (*closed)(void *data), void *data)
{
        server_remove_socket(server);
        server_end(server, (int64_t)MIN(grace_ms, INT32_MAX), server_drain, closed, data);
}

const char *rpc_server_path(const struct rpc_server *server)
{
        return server->path;
}
