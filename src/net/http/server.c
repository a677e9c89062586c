// SPDX-License-Identifier: Apache-2.0
/*
 * libmicrohttpd keeps its sockets in an epoll descriptor of its own. The loop watches that one, and calls MHD_run()
 * when it is readable. MHD_get_timeout() says whether work is left then: it is done in the next turn of the loop, so
 * that a client that sends much does not occupy the loop. Deadlines are ours, because each byte restarts
 * libmicrohttpd's; and so is accepting, since libmicrohttpd would refuse the newest of an address that has too many
 * connections, and accept ten others before it reads what one of them has sent.
 *
 * A request is its connection, since there is one of it. While it waits for its answer it is suspended: libmicrohttpd
 * does not look at its socket. It has to be resumed before the server stops, and before its connection can end. What
 * libmicrohttpd has read of a connection before that was ended, it still hands over: such a request is never begun.
 */
#include "net/http/server.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/library.h"
#include "base/list.h"
#include "base/io/loop.h"
#include "net/http/address.h"
#include "net/http/library.h"
#include "net/http/room.h"
#include "net/http/tls.h"

static struct microhttpd mhd; /* filled by http_server_new() */

#define ROW(name) LIBRARY_SYMBOL(struct microhttpd, name, "MHD_" #name),
static const struct library_symbol symbols[] = {MICROHTTPD_FUNCTIONS(ROW)};
#undef ROW

static const struct library library = {
        .files = {"libmicrohttpd.so.12"},
        .needs = "version 0.9.75",
        .remedy = "install libmicrohttpd (Debian: libmicrohttpd12), or set no address of a server",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

struct http_server {
        struct http_server_options options;
        unsigned int port;
        struct MHD_Daemon *daemon;
        struct http_tls *tls; /* NULL: none */
        int listener;
        uv_poll_t listening;
        uv_poll_t poll;
        uv_timer_t again;
        uv_timer_t pause;          /* of |listening|, where the system has no descriptor for who connects */
        uv_timer_t deadline;       /* of the oldest connection */
        struct http_room room;     /* requests whose connection has not ended */
        struct http_peers trusted; /* they have shown a good token */
        struct http_peers suspects;
        struct closing closing;
};

/*
 *     UNREAD ──► ASKED ──► WAITS ──► ANSWERED
 *        │         └────────────────────┘│
 *        └────────────────┴──────────────┴──► ENDED
 */
enum request_state {
        REQUEST_UNREAD,
        REQUEST_ASKED, /* |on_request| runs */
        REQUEST_WAITS, /* suspended */
        REQUEST_ANSWERED,
        REQUEST_ENDED, /* its connection: nothing is begun, sent or suspended any more */
};

struct http_request {
        struct http_guest guest;
        struct http_server *server;
        struct MHD_Connection *connection;
        enum request_state state;
        uint64_t until; /* on the loop's clock */
        const char *path;
        unsigned int status;
        struct MHD_Response *response; /* ANSWERED and not sent yet */
        void (*on_gone)(void *data);
        void *data;
};

#define PAUSE_MS UINT64_C(200)
#define SPARE 8U /* connections that have ended, and that libmicrohttpd has not closed yet */

/* ---- texts ---- */

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
        return http_peer_is_loopback(&request->guest.peer);
}

static uint64_t server_now(const struct http_server *server)
{
        return uv_now(server->options.loop);
}

static bool server_is_known(const struct http_peer *peer, void *data)
{
        const struct http_server *server = data;

        return http_peers_has(&server->trusted, peer, server_now(server));
}

bool http_request_is_suspect(const struct http_request *request)
{
        struct http_server *server = request->server;

        return http_peers_has(&server->suspects, &request->guest.peer, server_now(server)) &&
               !server_is_known(&request->guest.peer, server);
}

void http_request_trust(struct http_request *request)
{
        struct http_server *server = request->server;

        request->guest.rank = HTTP_RANK_TRUSTED;
        http_peers_add(&server->trusted, &request->guest.peer, server_now(server) + HTTP_PEER_KEEP_MS);
}

void http_request_distrust(struct http_request *request)
{
        struct http_server *server = request->server;

        http_peers_add(&server->suspects, &request->guest.peer, server_now(server) + HTTP_SUSPECT_MS);
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

/* libmicrohttpd continues with the request in its next run, but does not ask for that run: the timer starts it. */
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
        if (request->guest.rank == HTTP_RANK_WAITS)
                request->guest.rank = HTTP_RANK_STRANGER;
        if (was_suspended)
                resume(request);
}

void http_request_answer_plain(struct http_request *request, unsigned int status, const char *text)
{
        static const struct http_header allow[] = {{MHD_HTTP_HEADER_ALLOW, "GET, HEAD"}, {0}};
        static const struct http_header challenge[] = {{MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer"}, {0}};
        struct http_answer answer = {.status = status,
                .type = "text/plain; charset=utf-8",
                .text = http_text_new(xstrdup(text), strlen(text))};

        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
                answer.headers = allow;
        else if (status == MHD_HTTP_UNAUTHORIZED)
                answer.headers = challenge;
        http_request_answer(request, &answer);
}

static void request_end(struct http_request *request)
{
        const bool was_asked = request->state == REQUEST_ASKED || request->state == REQUEST_WAITS;
        const bool was_suspended = request->state == REQUEST_WAITS;

        list_remove(&request->guest.link);
        if (request->response)
                mhd.destroy_response(request->response);
        request->response = NULL;
        request->state = REQUEST_ENDED;
        if (was_asked && request->on_gone)
                request->on_gone(request->data);
        if (was_suspended)
                resume(request);
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
                if (request->guest.rank == HTTP_RANK_STRANGER && !http_request_is_suspect(request))
                        request->guest.rank = HTTP_RANK_WAITS;
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

static struct http_request *request_at(struct list *link)
{
        return container_of(container_of(link, struct http_guest, link), struct http_request, guest);
}

static void on_http_deadline(uv_timer_t *timer);

static void server_arm_deadline(struct http_server *server)
{
        const struct http_request *oldest;
        uint64_t now = uv_now(server->options.loop);

        if (list_is_empty(&server->room.guests)) {
                uv_timer_stop(&server->deadline);
                return;
        }
        oldest = request_at(server->room.guests.next);
        uv_timer_start(&server->deadline, on_http_deadline, oldest->until > now ? oldest->until - now : 0, 0);
}

/* libmicrohttpd notices that the socket is at its end, and closes it. */
static void end_connection(struct http_request *request)
{
        const union MHD_ConnectionInfo *info =
                mhd.get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

        shutdown(info->connect_fd, SHUT_RDWR);
        request_end(request);
}

static void on_http_deadline(uv_timer_t *timer)
{
        struct http_server *server = container_of(timer, struct http_server, deadline);

        end_connection(request_at(server->room.guests.next));
        server_arm_deadline(server);
}

static void server_enter(struct http_request *request)
{
        struct http_server *server = request->server;
        struct http_guest *leaving;

        request->until = server_now(server) + server->options.deadline_ms;
        request->guest.peer = http_peer_of(
                mhd.get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
        if (server_is_known(&request->guest.peer, server))
                request->guest.rank = HTTP_RANK_KNOWN;
        leaving = http_room_enter(&server->room, &request->guest);
        if (leaving)
                end_connection(container_of(leaving, struct http_request, guest));
}

static void server_on_connection(
        void *data, struct MHD_Connection *connection, void **socket_data, enum MHD_ConnectionNotificationCode code)
{
        struct http_request *request = *socket_data;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                *socket_data = request = xcalloc(1, sizeof(*request));
                request->server = data;
                request->connection = connection;
                server_enter(request);
        } else {
                request_end(request);
                free(request);
        }
}

/* ---- the loop ---- */

static void http_run(struct http_server *server)
{
        MHD_UNSIGNED_LONG_LONG rest = 0;

        mhd.run(server->daemon);
        server_arm_deadline(server);
        if (mhd.get_timeout(server->daemon, &rest) == MHD_YES)
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

/* ---- who connects ---- */

static void on_connectable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
        uv_poll_start(&container_of(timer, struct http_server, pause)->listening, UV_READABLE, on_connectable);
}

/* |fd| is taken. What is there already is read, and answered where that can be done at once. */
static void on_accepted(int fd, const struct sockaddr *address, socklen_t size, void *data)
{
        struct http_server *server = data;

        mhd.add_connection(server->daemon, fd, address, size);
        http_run(server);
}

static void on_connectable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        struct http_server *server = container_of(poll, struct http_server, listening);
        struct sockaddr_storage client = {.ss_family = AF_UNSPEC};
        struct sockaddr *address = (struct sockaddr *)&client;
        socklen_t size = sizeof(client);
        int fd = accept4(server->listener, address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
                uv_poll_stop(poll); /* it would be readable all the time */
                uv_timer_start(&server->pause, on_pause_over, PAUSE_MS, 0);
        }
        if (fd < 0)
                return;
        if (server->tls)
                http_tls_accept(server->tls, fd, address, size);
        else
                on_accepted(fd, address, size, server);
}

/* ---- start and end ---- */

/* Drops libmicrohttpd's messages: a single invalid request does not belong in the log of a node. */
static void server_ignore(void *data UNUSED, const char *format UNUSED, va_list args UNUSED)
{
}

static int start_daemon(struct http_server *server, struct error *err)
{
        const struct http_server_options *options = &server->options;
        const struct http_tls_side side = {server_is_known, on_accepted, server};

        if (options->tls && http_tls_new(&server->tls, options, &side, err) < 0)
                return -1;
        server->daemon = mhd.start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET, 0, NULL,
                NULL, on_http_request, server, MHD_OPTION_EXTERNAL_LOGGER, server_ignore, NULL,
                MHD_OPTION_CONNECTION_LIMIT, options->connections + SPARE, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                options->memory, MHD_OPTION_NOTIFY_CONNECTION, server_on_connection, server, MHD_OPTION_END);
        if (!server->daemon)
                return error_set(err, ERROR_INTERNAL, "libmicrohttpd does not start");
        return 0;
}

static void http_server_free(void *data)
{
        struct http_server *server = data;

        close(server->listener);
        free(server);
}

static void stop_daemon(struct http_server *server)
{
        closing_close(&server->closing, &server->again);
        closing_close(&server->closing, &server->deadline);
        closing_close(&server->closing, &server->pause);
        mhd.stop_daemon(server->daemon);
        http_tls_close(server->tls);
        closing_end(&server->closing, http_server_free, server);
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
        rc = uv_poll_init(loop, &server->listening, server->listener);
        if (rc < 0) {
                closing_close(&server->closing, &server->poll);
                return rc;
        }
        uv_poll_start(&server->poll, UV_READABLE, on_http_readable);
        uv_poll_start(&server->listening, UV_READABLE, on_connectable);
        return 0;
}

int http_server_new(struct http_server **ret, const struct http_server_options *options, struct error *err)
{
        const union MHD_DaemonInfo *info;
        struct http_server *server;
        _close_ int fd = -1;
        int rc;

        if (library_load(&library, &mhd, err) < 0 || http_address_listen(&fd, options->address, err) < 0)
                return -1;
        server = xcalloc(1, sizeof(*server));
        server->options = *options;
        if (!server->options.deadline_ms)
                server->options.deadline_ms = HTTP_DEADLINE_MS;
        if (!server->options.memory)
                server->options.memory = HTTP_MEMORY;
        server->port = http_address_port(fd);
        http_room_init(&server->room, options->connections, options->per_peer);
        if (start_daemon(server, err) < 0) {
                http_tls_close(server->tls);
                free(server);
                return -1;
        }
        server->listener = TAKE_FD(fd);
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
        closing_close(&server->closing, &server->poll);
        closing_close(&server->closing, &server->listening);
        while (!list_is_empty(&server->room.guests))
                request_end(request_at(server->room.guests.next));
        stop_daemon(server);
        return NULL;
}
