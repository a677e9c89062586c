/*
 * libmicrohttpd keeps its sockets in an epoll descriptor of its own. The loop watches that one, and calls MHD_run() when it is
 * readable. MHD_get_timeout() says whether work is left then: it is done in the next turn of the loop, so that a client that sends
 * much does not occupy the loop. Deadlines are ours, because libmicrohttpd's begin anew with each byte.
 */
#include "metrics/http.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/text.h"
#include "metrics/exposition.h"
#include "metrics/http_library.h"

static struct microhttpd mhd; /* filled by metrics_http_new() */

struct metrics_http {
        struct metrics_http_options options;
        unsigned int port;
        struct MHD_Daemon *daemon;
        uv_poll_t poll;
        uv_timer_t again;
        uv_timer_t deadline;     /* of the oldest connection */
        struct list connections; /* from the oldest to the newest */
        bool has_room;           /* a connection ended in this run */
        unsigned int n_open;     /* handles that are not closed yet */
};

struct connection {
        struct list link;
        struct MHD_Connection *connection;
        uint64_t until; /* on the loop's clock */
        uint8_t peer[16];
};

#define SPARE 8U /* connections that may come in one run, before the loop gets to end others */

/* ---- address ---- */

union address {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

/* No names: to ask a name server blocks. Without brackets a colon stands before the port only. */
static bool read_host(const char *host, size_t length, int port, union address *ret)
{
        char text[INET6_ADDRSTRLEN];

        if (length == 0)
                return uv_ip6_addr("::", port, &ret->six) == 0;
        if (length >= sizeof(text))
                return false;
        snprintf(text, sizeof(text), "%.*s", (int)length, host);
        if (text[0] != '[')
                return uv_ip4_addr(text, port, &ret->four) == 0;
        if (text[length - 1] != ']')
                return false;
        text[length - 1] = '\0';
        return uv_ip6_addr(text + 1, port, &ret->six) == 0;
}

static int read_address(const char *text, union address *ret, struct error *err)
{
        const char *colon = strrchr(text, ':');
        uint64_t port;

        memset(ret, 0, sizeof(*ret));
        if (!colon || !text_to_uint(colon + 1, 65535, &port) ||
                !read_host(text, (size_t)(colon - text), (int)port, ret))
                return error_set(err, ERROR_INVALID,
                        "'%.80s' is no IP address with a port, as 127.0.0.1:9400, [::1]:9400 or, for all, :9400", text);
        return 0;
}

/* One socket for both families where it is for every address. */
static int open_socket(union address *address, bool is_every)
{
        const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
        const int no = 0;
        int fd = socket(address->any.sa_family, type, 0);

        if (fd < 0 && is_every && errno == EAFNOSUPPORT) { /* a kernel without IPv6 */
                address->four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = address->six.sin6_port};
                return socket(AF_INET, type, 0);
        }
        if (fd >= 0 && is_every)
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
        return fd;
}

static socklen_t address_size(const union address *address)
{
        return address->any.sa_family == AF_INET ? sizeof(address->four) : sizeof(address->six);
}

static int listen_at(int *ret, const char *text, struct error *err)
{
        const int yes = 1;
        union address address;
        _close_ int fd = -1;

        if (read_address(text, &address, err) < 0)
                return -1;
        fd = open_socket(&address, text[0] == ':');
        if (fd < 0)
                return error_errno(err, errno, "make a socket");
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        if (bind(fd, &address.any, address_size(&address)) < 0 || listen(fd, SOMAXCONN) < 0)
                return error_errno(err, errno, "listen at '%s'", text);
        *ret = TAKE_FD(fd);
        return 0;
}

static unsigned int find_port(int fd)
{
        union address address = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof(address);

        if (getsockname(fd, &address.any, &size) < 0)
                return 0;
        return ntohs(address.any.sa_family == AF_INET ? address.four.sin_port : address.six.sin6_port);
}

/* ---- pages ---- */

struct page {
        unsigned int status;
        const char *type;
        char *text;
};

static struct page make_page(const struct metrics_http *http, const char *url)
{
        struct page page = {.status = MHD_HTTP_OK, .type = "text/plain; charset=utf-8"};
        _free_ char *ailment = NULL;

        if (strcmp(url, "/metrics") == 0) {
                page.type = EXPOSITION_CONTENT_TYPE;
                page.text = http->options.metrics(http->options.data);
        } else if (strcmp(url, "/healthz") == 0) {
                ailment = http->options.ailment(http->options.data);
                page.status = ailment ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK;
                page.text = xasprintf("%s\n", ailment ? ailment : "ok");
        } else if (strcmp(url, "/livez") == 0) {
                page.text = xstrdup("ok\n");
        } else {
                page.status = MHD_HTTP_NOT_FOUND;
                page.text = xstrdup("there are /metrics, /healthz and /livez\n");
        }
        return page;
}

static enum MHD_Result send_page(struct MHD_Connection *connection, struct page page)
{
        struct MHD_Response *response =
                mhd.create_response_from_buffer(strlen(page.text), page.text, MHD_RESPMEM_MUST_FREE);
        enum MHD_Result result;

        if (!response) {
                free(page.text);
                return MHD_NO;
        }
        mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, page.type);
        mhd.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close"); /* the deadline is for one request */
        if (page.status == MHD_HTTP_METHOD_NOT_ALLOWED)
                mhd.add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        result = mhd.queue_response(connection, page.status, response);
        mhd.destroy_response(response);
        return result;
}

/* Answered as soon as the head is there, so that no body is ever read. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url, const char *method,
        const char *version UNUSED, const char *body UNUSED, size_t *body_size UNUSED, void **request UNUSED)
{
        struct page page = {.status = MHD_HTTP_METHOD_NOT_ALLOWED, .type = "text/plain; charset=utf-8"};

        if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
                page = make_page(data, url);
        else
                page.text = xstrdup("only GET and HEAD\n");
        return send_page(connection, page);
}

/* ---- connections ---- */

static void on_http_deadline(uv_timer_t *timer);

static void arm_deadline(struct metrics_http *http)
{
        const struct connection *oldest;
        uint64_t now = uv_now(http->options.loop);

        if (list_is_empty(&http->connections)) {
                uv_timer_stop(&http->deadline);
                return;
        }
        oldest = container_of(http->connections.next, struct connection, link);
        uv_timer_start(&http->deadline, on_http_deadline, oldest->until > now ? oldest->until - now : 0, 0);
}

/* libmicrohttpd notices that the socket is at its end, and closes it. */
static void end_connection(struct connection *connection)
{
        const union MHD_ConnectionInfo *info =
                mhd.get_connection_info(connection->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

        list_remove(&connection->link);
        shutdown(info->connect_fd, SHUT_RDWR);
}

static size_t count_of(const struct metrics_http *http, const struct connection *like)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &http->connections)
                count += memcmp(container_of(link, struct connection, link)->peer, like->peer, sizeof(like->peer)) == 0;
        return count;
}

/* The list begins with the oldest. */
static void make_room(struct metrics_http *http)
{
        struct connection *chosen = NULL;
        size_t most = 0;
        size_t total = 0;

        LIST_FOR_EACH(link, &http->connections) {
                struct connection *connection = container_of(link, struct connection, link);
                const size_t count = count_of(http, connection);

                total++;
                if (count > most) {
                        most = count;
                        chosen = connection;
                }
        }
        if (total > METRICS_HTTP_CONNECTIONS)
                end_connection(chosen);
}

static void read_peer(struct connection *connection)
{
        const union MHD_ConnectionInfo *info =
                mhd.get_connection_info(connection->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        const struct sockaddr *address = info->client_addr;

        if (address->sa_family == AF_INET)
                memcpy(connection->peer, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        else if (address->sa_family == AF_INET6)
                memcpy(connection->peer, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
}

static void on_http_deadline(uv_timer_t *timer)
{
        struct metrics_http *http = container_of(timer, struct metrics_http, deadline);

        end_connection(container_of(http->connections.next, struct connection, link));
        arm_deadline(http);
}

static void on_connection(
        void *data, struct MHD_Connection *connection, void **socket_data, enum MHD_ConnectionNotificationCode code)
{
        struct metrics_http *http = data;
        struct connection *ours = *socket_data;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                *socket_data = ours = xcalloc(1, sizeof(*ours));
                ours->connection = connection;
                ours->until = uv_now(http->options.loop) + http->options.deadline_ms;
                read_peer(ours);
                list_append(&http->connections, &ours->link);
                make_room(http);
        } else {
                list_remove(&ours->link);
                free(ours);
                http->has_room = true;
        }
}

/* ---- the loop ---- */

static void on_again(uv_timer_t *timer);

/*
 * libmicrohttpd stops listening while it has no room, and begins again only in the run after the one that made room. It
 * does not ask for that run.
 */
static void http_run(struct metrics_http *http)
{
        MHD_UNSIGNED_LONG_LONG rest = 0;

        http->has_room = false;
        mhd.run(http->daemon);
        arm_deadline(http);
        if (http->has_room)
                uv_timer_start(&http->again, on_again, 0, 0);
        else if (mhd.get_timeout(http->daemon, &rest) == MHD_YES)
                uv_timer_start(&http->again, on_again, rest, 0);
        else
                uv_timer_stop(&http->again);
}

static void on_again(uv_timer_t *timer)
{
        http_run(container_of(timer, struct metrics_http, again));
}

static void on_http_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        http_run(container_of(poll, struct metrics_http, poll));
}

/* ---- start and end ---- */

/* One request that is wrong is no event for the log of a node. */
static void ignore(void *data UNUSED, const char *format UNUSED, va_list args UNUSED)
{
}

static int start_daemon(struct metrics_http *http, int fd, struct error *err)
{
        http->daemon = mhd.start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER,
                ignore, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                METRICS_HTTP_CONNECTIONS + SPARE, MHD_OPTION_PER_IP_CONNECTION_LIMIT, METRICS_HTTP_PER_PEER,
                MHD_OPTION_CONNECTION_MEMORY_LIMIT, METRICS_HTTP_MEMORY, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
                http, MHD_OPTION_END);
        if (!http->daemon)
                return error_set(err, ERROR_INTERNAL, "libmicrohttpd does not start");
        return 0;
}

static void on_http_closed(uv_handle_t *handle)
{
        struct metrics_http *http = handle->data;

        if (--http->n_open == 0)
                free(http);
}

static void close_handle(struct metrics_http *http, uv_handle_t *handle)
{
        handle->data = http;
        http->n_open++;
        uv_close(handle, on_http_closed);
}

int metrics_http_new(struct metrics_http **ret, const struct metrics_http_options *options, struct error *err)
{
        const union MHD_DaemonInfo *info;
        struct metrics_http *http;
        _close_ int fd = -1;

        if (microhttpd_load(&mhd, err) < 0 || listen_at(&fd, options->address, err) < 0)
                return error_prefix(err, "metrics");
        http = xcalloc(1, sizeof(*http));
        http->options = *options;
        if (!http->options.deadline_ms)
                http->options.deadline_ms = METRICS_HTTP_DEADLINE_MS;
        http->port = find_port(fd);
        list_init(&http->connections);
        if (start_daemon(http, fd, err) < 0) {
                free(http);
                return error_prefix(err, "metrics");
        }
        fd = -1; /* it is the daemon's */
        info = mhd.get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        uv_poll_init(options->loop, &http->poll, info->epoll_fd);
        uv_timer_init(options->loop, &http->again);
        uv_timer_init(options->loop, &http->deadline);
        uv_poll_start(&http->poll, UV_READABLE, on_http_readable);
        *ret = http;
        return 0;
}

unsigned int metrics_http_port(const struct metrics_http *http)
{
        return http->port;
}

struct metrics_http *metrics_http_close(struct metrics_http *http)
{
        if (!http)
                return NULL;
        close_handle(http, (uv_handle_t *)&http->poll);
        close_handle(http, (uv_handle_t *)&http->again);
        close_handle(http, (uv_handle_t *)&http->deadline);
        mhd.stop_daemon(http->daemon);
        return NULL;
}
