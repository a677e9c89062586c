/*
 * libmicrohttpd keeps its sockets in an epoll descriptor of its own. The loop watches that one, and calls MHD_run()
 * when it is readable. MHD_get_timeout() says whether work is left then: it is done in the next turn of the loop, so
 * that a client that sends much does not occupy the loop. Deadlines are ours, because libmicrohttpd's begin anew with
 * each byte.
 *
 * A request is its connection, since there is one of it. While it waits for its answer it is suspended: libmicrohttpd
 * does not look at its socket. It has to be resumed before the server stops, and before its connection can end.
 */
#include "http/server.h"

#include <assert.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "http/address.h"
#include "http/library.h"
#include "http/tls.h"

static struct microhttpd mhd; /* filled by http_server_new() */

struct http_server {
        struct http_server_options options;
        unsigned int port;
        struct MHD_Daemon *daemon;
        struct http_tls *tls; /* NULL: libmicrohttpd listens itself */
        int listener;         /* of |tls| */
        uv_poll_t listening;
        uv_poll_t poll;
        uv_timer_t again;
        uv_timer_t pause;     /* of |listening|, where the system has no descriptor for who connects */
        uv_timer_t deadline;  /* of the oldest connection */
        struct list requests; /* from the oldest to the newest */
        bool has_room;        /* a connection ended in this run */
        unsigned int n_open;  /* handles that are not closed yet */
};

enum request_state {
        REQUEST_UNREAD,
        REQUEST_ASKED, /* |on_request| runs */
        REQUEST_WAITS, /* suspended */
        REQUEST_ANSWERED,
        REQUEST_GONE,
};

struct http_request {
        struct list link;
        struct http_server *server;
        struct MHD_Connection *connection;
        enum request_state state;
        uint64_t until;   /* on the loop's clock */
        uint8_t peer[16]; /* of IPv4 the first four */
        bool is_four;
        const char *path;
        unsigned int status;
        struct MHD_Response *response; /* ANSWERED and not sent yet */
        void (*on_gone)(void *data);
        void *data;
};

#define PAUSE_MS UINT64_C(200)
#define SPARE 8U /* connections that may come in one run, before the loop gets to end others */

/* ---- texts ---- */

struct http_text {
        char *data;
        size_t size;
        unsigned int references;
};

struct http_text *http_text_new(char *text, size_t size)
{
        struct http_text *ret = xcalloc(1, sizeof(*ret));

        *ret = (struct http_text){.data = text, .size = size, .references = 1};
        return ret;
}

struct http_text *http_text_ref(struct http_text *text)
{
        text->references++;
        return text;
}

struct http_text *http_text_unref(struct http_text *text)
{
        if (text && --text->references == 0) {
                free(text->data);
                free(text);
        }
        return NULL;
}

size_t http_text_size(const struct http_text *text)
{
        return text->size;
}

const char *http_text_data(const struct http_text *text)
{
        return text->data;
}

static void on_text_sent(void *data)
{
        http_text_unref(data);
}

/* ---- requests ---- */

const char *http_request_path(const struct http_request *request)
{
        return request->path;
}

const char *http_request_argument(const struct http_request *request, const char *name)
{
        return mhd.lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_request_header(const struct http_request *request, const char *name)
{
        return mhd.lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

bool http_request_is_local(const struct http_request *request)
{
        static const uint8_t six[16] = {[15] = 1};
        static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};

        if (request->is_four)
                return request->peer[0] == 127;
        return memcmp(request->peer, six, sizeof(six)) == 0 || memcmp(request->peer, mapped, sizeof(mapped)) == 0;
}

void http_request_on_gone(struct http_request *request, void (*on_gone)(void *data), void *data)
{
        request->on_gone = on_gone;
        request->data = data;
}

static struct MHD_Response *make_response(const struct http_answer *answer)
{
        struct http_text *text = answer->text ? answer->text : http_text_new(xstrdup(""), 0);
        struct MHD_Response *response =
                mhd.create_response_from_buffer_with_free_callback_cls(text->size, text->data, on_text_sent, text);

        if (!response) {
                http_text_unref(text);
                return NULL;
        }
        if (answer->type)
                mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
        for (const struct http_header *header = answer->headers; header && header->name; header++)
                mhd.add_response_header(response, header->name, header->value);
        mhd.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close"); /* the deadline is for one request */
        return response;
}

static void on_again(uv_timer_t *timer);

/* libmicrohttpd goes on with it in its next run, for which it does not ask. */
static void resume(struct http_request *request)
{
        mhd.resume_connection(request->connection);
        uv_timer_start(&request->server->again, on_again, 0, 0);
}

void http_request_answer(struct http_request *request, const struct http_answer *answer)
{
        const bool was_suspended = request->state == REQUEST_WAITS;

        assert(request->state == REQUEST_ASKED || was_suspended);
        request->response = make_response(answer);
        request->status = answer->status;
        request->state = REQUEST_ANSWERED;
        if (was_suspended)
                resume(request);
}

void http_request_answer_plain(struct http_request *request, unsigned int status, const char *text)
{
        const struct http_header allow[] = {{MHD_HTTP_HEADER_ALLOW, "GET, HEAD"}, {0}};

        http_request_answer(request, &(struct http_answer){.status = status,
                                             .type = "text/plain; charset=utf-8",
                                             .text = http_text_new(xstrdup(text), strlen(text)),
                                             .headers = status == MHD_HTTP_METHOD_NOT_ALLOWED ? allow : NULL});
}

static void request_gone(struct http_request *request)
{
        const bool was_asked = request->state == REQUEST_ASKED || request->state == REQUEST_WAITS;

        if (request->response)
                mhd.destroy_response(request->response);
        request->response = NULL;
        request->state = REQUEST_GONE;
        if (was_asked && request->on_gone)
                request->on_gone(request->data);
}

static enum MHD_Result send_response(struct http_request *request)
{
        struct MHD_Response *response = request->response;
        enum MHD_Result result;

        request->response = NULL;
        if (!response)
                return MHD_NO;
        result = mhd.queue_response(request->connection, request->status, response);
        mhd.destroy_response(response);
        return result;
}

static struct http_request *request_of(struct MHD_Connection *connection)
{
        return mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/*
 * Called as soon as the head is there, so that the body of a request that is answered at once is never read; and again
 * when it is resumed.
 */
static enum MHD_Result on_http_request(void *data UNUSED, struct MHD_Connection *connection, const char *url,
        const char *method, const char *version UNUSED, const char *body UNUSED, size_t *body_size,
        void **context UNUSED)
{
        struct http_request *request = request_of(connection);
        const struct http_server_options *options = &request->server->options;

        if (request->state == REQUEST_UNREAD) {
                request->state = REQUEST_ASKED;
                request->path = url;
                if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
                        options->on_request(request, options->data);
                else
                        http_request_answer_plain(request, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
                if (request->state == REQUEST_ANSWERED)
                        return send_response(request);
                request->state = REQUEST_WAITS;
                mhd.suspend_connection(connection);
                return MHD_YES;
        }
        if (request->state != REQUEST_ANSWERED)
                return MHD_NO;
        if (*body_size == 0)
                return send_response(request);
        *body_size = 0;
        return MHD_YES;
}

/* ---- connections ---- */

static void on_http_deadline(uv_timer_t *timer);

static void arm_deadline(struct http_server *server)
{
        const struct http_request *oldest;
        uint64_t now = uv_now(server->options.loop);

        if (list_is_empty(&server->requests)) {
                uv_timer_stop(&server->deadline);
                return;
        }
        oldest = container_of(server->requests.next, struct http_request, link);
        uv_timer_start(&server->deadline, on_http_deadline, oldest->until > now ? oldest->until - now : 0, 0);
}

/* libmicrohttpd notices that the socket is at its end, and closes it. */
static void end_connection(struct http_request *request)
{
        const union MHD_ConnectionInfo *info =
                mhd.get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        const bool was_suspended = request->state == REQUEST_WAITS;

        list_remove(&request->link);
        shutdown(info->connect_fd, SHUT_RDWR);
        if (!was_suspended)
                return;
        request_gone(request);
        resume(request);
}

static size_t count_of(const struct http_server *server, const struct http_request *like)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &server->requests)
                count += memcmp(container_of(link, struct http_request, link)->peer, like->peer, sizeof(like->peer)) ==
                         0;
        return count;
}

/* The list begins with the oldest. */
static void make_room(struct http_server *server)
{
        struct http_request *chosen = NULL;
        size_t most = 0;
        size_t total = 0;

        LIST_FOR_EACH(link, &server->requests) {
                struct http_request *request = container_of(link, struct http_request, link);
                const size_t count = count_of(server, request);

                total++;
                if (count > most) {
                        most = count;
                        chosen = request;
                }
        }
        if (chosen && total > server->options.connections)
                end_connection(chosen);
}

static void read_peer(struct http_request *request)
{
        const union MHD_ConnectionInfo *info =
                mhd.get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const struct sockaddr *address = info->client_addr;

        request->is_four = address->sa_family == AF_INET;
        if (request->is_four)
                memcpy(request->peer, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        else if (address->sa_family == AF_INET6)
                memcpy(request->peer, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
}

static void on_http_deadline(uv_timer_t *timer)
{
        struct http_server *server = container_of(timer, struct http_server, deadline);

        end_connection(container_of(server->requests.next, struct http_request, link));
        arm_deadline(server);
}

static void on_connection(
        void *data, struct MHD_Connection *connection, void **socket_data, enum MHD_ConnectionNotificationCode code)
{
        struct http_server *server = data;
        struct http_request *request = *socket_data;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                *socket_data = request = xcalloc(1, sizeof(*request));
                request->server = server;
                request->connection = connection;
                request->until = uv_now(server->options.loop) + server->options.deadline_ms;
                read_peer(request);
                list_append(&server->requests, &request->link);
                make_room(server);
        } else {
                list_remove(&request->link);
                request_gone(request);
                free(request);
                server->has_room = true;
        }
}

/* ---- the loop ---- */

/*
 * libmicrohttpd stops listening while it has no room, and begins again only in the run after the one that made room. It
 * does not ask for that run.
 */
static void http_run(struct http_server *server)
{
        MHD_UNSIGNED_LONG_LONG rest = 0;

        server->has_room = false;
        mhd.run(server->daemon);
        arm_deadline(server);
        if (server->has_room)
                uv_timer_start(&server->again, on_again, 0, 0);
        else if (mhd.get_timeout(server->daemon, &rest) == MHD_YES)
                uv_timer_start(&server->again, on_again, rest, 0);
        else
                uv_timer_stop(&server->again);
}

static void on_again(uv_timer_t *timer)
{
        http_run(container_of(timer, struct http_server, again));
}

static void on_http_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        http_run(container_of(poll, struct http_server, poll));
}

/* ---- connections that come by TLS ---- */

union peer {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

static bool is_loopback(const union peer *peer)
{
        const struct in6_addr *six = &peer->six.sin6_addr;

        if (peer->any.sa_family == AF_INET)
                return ntohl(peer->four.sin_addr.s_addr) >> 24 == 127;
        return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static void on_connectable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
        uv_poll_start(&container_of(timer, struct http_server, pause)->listening, UV_READABLE, on_connectable);
}

/* libmicrohttpd counts the peer's connections and closes what is too much, as where it accepts itself. */
static void on_connectable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        struct http_server *server = container_of(poll, struct http_server, listening);
        union peer peer = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof(peer);
        int fd = accept4(server->listener, &peer.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
                uv_poll_stop(poll); /* it would be readable all the time */
                uv_timer_start(&server->pause, on_pause_over, PAUSE_MS, 0);
        }
        if (fd < 0)
                return;
        fd = http_tls_link(server->tls, fd, is_loopback(&peer));
        if (fd >= 0)
                mhd.add_connection(server->daemon, fd, &peer.any, size);
        http_run(server);
}

static void on_tls_trouble(const struct error *error, void *data)
{
        struct http_server *server = data;

        if (server->options.on_tls_trouble)
                server->options.on_tls_trouble(error, server->options.data);
}

static int start_tls(struct http_server *server, int fd, struct error *err)
{
        const struct http_server_options *options = &server->options;
        const struct http_tls_options tls = {.loop = options->loop,
                .certificate = options->tls->certificate,
                .key = options->tls->key,
                .deadline_ms = options->deadline_ms,
                .on_trouble = on_tls_trouble,
                .data = server};

        if (http_tls_new(&server->tls, &tls, err) < 0)
                return -1;
        server->listener = fd;
        return 0;
}

/* ---- start and end ---- */

/* One request that is wrong is no event for the log of a node. */
static void ignore(void *data UNUSED, const char *format UNUSED, va_list args UNUSED)
{
}

static int start_daemon(struct http_server *server, int fd, struct error *err)
{
        const struct http_server_options *options = &server->options;

        if (options->tls && start_tls(server, fd, err) < 0)
                return -1;
        server->daemon = mhd.start_daemon(
                MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (server->tls ? MHD_USE_NO_LISTEN_SOCKET : 0U), 0, NULL, NULL,
                on_http_request, server, MHD_OPTION_EXTERNAL_LOGGER, ignore, NULL, MHD_OPTION_CONNECTION_LIMIT,
                options->connections + SPARE, MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->per_peer,
                MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->memory, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
                server, server->tls ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_END);
        if (!server->daemon)
                return error_set(err, ERROR_INTERNAL, "libmicrohttpd does not start");
        return 0;
}

static void on_http_closed(uv_handle_t *handle)
{
        struct http_server *server = handle->data;

        if (--server->n_open > 0)
                return;
        if (server->tls)
                close(server->listener);
        free(server);
}

static void close_handle(struct http_server *server, uv_handle_t *handle)
{
        handle->data = server;
        server->n_open++;
        uv_close(handle, on_http_closed);
}

static void stop_daemon(struct http_server *server)
{
        close_handle(server, (uv_handle_t *)&server->again);
        close_handle(server, (uv_handle_t *)&server->deadline);
        close_handle(server, (uv_handle_t *)&server->pause);
        mhd.stop_daemon(server->daemon);
        http_tls_close(server->tls);
}

/* 0, or an error of libuv's: only the timers are handles then. */
static int watch_sockets(struct http_server *server, int epoll_fd)
{
        uv_loop_t *loop = server->options.loop;
        int rc;

        uv_timer_init(loop, &server->again);
        uv_timer_init(loop, &server->deadline);
        uv_timer_init(loop, &server->pause);
        rc = uv_poll_init(loop, &server->poll, epoll_fd);
        if (rc < 0)
                return rc;
        rc = server->tls ? uv_poll_init(loop, &server->listening, server->listener) : 0;
        if (rc < 0) {
                close_handle(server, (uv_handle_t *)&server->poll);
                return rc;
        }
        uv_poll_start(&server->poll, UV_READABLE, on_http_readable);
        if (server->tls)
                uv_poll_start(&server->listening, UV_READABLE, on_connectable);
        return 0;
}

int http_server_new(struct http_server **ret, const struct http_server_options *options, struct error *err)
{
        const union MHD_DaemonInfo *info;
        struct http_server *server;
        _close_ int fd = -1;
        int rc;

        if (microhttpd_load(&mhd, err) < 0 || http_address_listen(&fd, options->address, err) < 0)
                return -1;
        server = xcalloc(1, sizeof(*server));
        server->options = *options;
        if (!server->options.deadline_ms)
                server->options.deadline_ms = HTTP_DEADLINE_MS;
        if (!server->options.memory)
                server->options.memory = HTTP_MEMORY;
        server->port = http_address_port(fd);
        list_init(&server->requests);
        if (start_daemon(server, fd, err) < 0) {
                http_tls_close(server->tls);
                free(server);
                return -1;
        }
        fd = -1; /* it is the daemon's, or |listener| */
        info = mhd.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        rc = watch_sockets(server, info->epoll_fd);
        if (rc < 0) {
                stop_daemon(server);
                return error_errno(err, -rc, "watch the sockets of HTTP");
        }
        *ret = server;
        return 0;
}

unsigned int http_server_port(const struct http_server *server)
{
        return server->port;
}

struct http_server *http_server_close(struct http_server *server)
{
        if (!server)
                return NULL;
        close_handle(server, (uv_handle_t *)&server->poll);
        if (server->tls)
                close_handle(server, (uv_handle_t *)&server->listening);
        LIST_FOR_EACH(link, &server->requests) {
                struct http_request *request = container_of(link, struct http_request, link);

                if (request->state == REQUEST_WAITS) {
                        request_gone(request);
                        mhd.resume_connection(request->connection);
                }
        }
        stop_daemon(server);
        return NULL;
}
