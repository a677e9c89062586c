// SPDX-License-Identifier: Apache-2.0
/*
 * Two callbacks of libcurl say which sockets to wait for, and until when; libuv passes socket events to libcurl by
 * multi_socket_action(). A transfer with news is put into |ready|, and transport_deliver() always takes the head of
 * that list.
 */
#include "net/kube/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/strbuf.h"

/* A peer that disappears is noticed after a minute by the first two, or earlier if it does not acknowledge data. */
#define KEEPALIVE_IDLE_S 30L
#define KEEPALIVE_INTERVAL_S 10L
#define UNCONFIRMED_MS 30000U
#define UPLOAD_BUFFER 16384L /* libcurl's least */

struct transport_socket {
        struct list link;
        uv_poll_t poll;
        struct transport *transport;
        curl_socket_t fd;
};

struct transfer {
        struct list link;
        struct list ready; /* in |transport->ready| while there is something to report */
        struct transport *transport;
        struct transfer_request request; /* libcurl has its own copies of the texts */
        CURL *easy;
        struct curl_slist *headers;
        struct curl_slist *connect_to;
        struct kube_identity identity;
        struct strbuf body;
        size_t head_size;
        bool has_head;
        bool is_head_reported;
        bool is_too_large;
        bool is_nameless; /* the server's certificate has no names */
        bool is_over;
        CURLcode result;
        char problem[CURL_ERROR_SIZE];
};

/* ---- reporting ---- */

static void has_news(struct transfer *transfer)
{
        list_remove(&transfer->ready);
        list_append(&transfer->transport->ready, &transfer->ready);
}

static unsigned int transport_status_of(const struct transfer *transfer)
{
        long status = 0;

        transfer->transport->curl.easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
        return (unsigned int)status;
}

static uint64_t retry_after_of(const struct transfer *transfer)
{
        curl_off_t seconds = 0;

        transfer->transport->curl.easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds);
        return seconds > 0 ? (uint64_t)MIN(seconds, (curl_off_t)86400) * 1000 : 0;
}

static bool is_identity_old(const struct transfer *transfer)
{
        _cleanup_(kube_identity_done) struct kube_identity now = {0};
        struct error ignored;

        kube_identity_refused(transfer->transport->settings.credentials, &transfer->identity);
        return kube_identity_read(&now, transfer->transport->settings.credentials, &ignored) == 0 &&
               !kube_identity_is_same(&now, &transfer->identity);
}

/* The message contains the host, since most failures are caused by it. */
static void read_failure(const struct transfer *transfer, struct error *err)
{
        const struct transport *transport = transfer->transport;
        const char *text = *transfer->problem ? transfer->problem : transport->curl.easy_strerror(transfer->result);

        if (transfer->is_too_large)
                error_raise(err, ERROR_INVALID, "%s: an answer larger than the limit of %zu bytes",
                        transport->settings.credentials->server, KUBE_ANSWER_LIMIT);
        else if (transfer->is_nameless)
                error_raise(err, ERROR_UNAVAILABLE,
                        "%s: the server's certificate has no subject alternative name, and its common name does not count",
                        transport->settings.credentials->server);
        else
                error_raise(err, transfer->result == CURLE_OPERATION_TIMEDOUT ? ERROR_TIMEOUT : ERROR_UNAVAILABLE,
                        "%s: %s", transport->settings.credentials->server, text);
}

static void transfer_free(struct transfer *transfer)
{
        struct curl *curl = &transfer->transport->curl;

        list_remove(&transfer->link);
        list_remove(&transfer->ready);
        if (transfer->easy) {
                curl->multi_remove_handle(transfer->transport->multi, transfer->easy);
                curl->easy_cleanup(transfer->easy);
        }
        curl->slist_free_all(transfer->headers);
        curl->slist_free_all(transfer->connect_to);
        strbuf_done(&transfer->body);
        kube_identity_done(&transfer->identity);
        free(transfer);
}

static void report_end(struct transfer *transfer)
{
        const struct transfer_request request = transfer->request;
        struct strbuf body = transfer->body;
        struct kube_answer answer = {.status = transport_status_of(transfer),
                .reason = "",
                .is_too_large = transfer->is_too_large,
                .retry_after_ms = retry_after_of(transfer)};
        struct error err;

        transfer->body = (struct strbuf)STRBUF_INIT;
        if (transfer->result == CURLE_OK) {
                answer.text = body.data;
                answer.size = body.size;
        } else {
                read_failure(transfer, &err);
                answer.error = &err;
        }
        answer.is_identity_old = answer.status == 401 && is_identity_old(transfer);
        transfer_free(transfer); /* first, because the owner may start the next transfer on the same connection */
        request.on_end(&answer, request.data);
        strbuf_done(&body);
}

static bool transport_is_good(const struct transfer *transfer)
{
        return transport_status_of(transfer) / 100 == 2;
}

/* Reports one thing; |transfer| may be freed after it. */
static void transport_report(struct transfer *transfer)
{
        const struct transfer_request *request = &transfer->request;

        if (transfer->has_head && !transfer->is_head_reported) {
                transfer->is_head_reported = true;
                if (request->on_head && transport_is_good(transfer))
                        request->on_head(request->stream);
        } else if (request->on_body && transfer->body.size && transport_is_good(transfer)) {
                struct strbuf piece = transfer->body;

                transfer->body = (struct strbuf)STRBUF_INIT;
                request->on_body(piece.data, piece.size, request->stream);
                strbuf_done(&piece);
        } else if (transfer->is_over) {
                report_end(transfer);
        } else {
                list_remove(&transfer->ready);
        }
}

static void collect_results(struct transport *transport)
{
        const CURLMsg *message;
        int left;

        while ((message = transport->curl.multi_info_read(transport->multi, &left))) {
                struct transfer *transfer = NULL;

                transport->curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
                transfer->is_over = true;
                transfer->result = message->data.result;
                has_news(transfer);
        }
}

static void transport_deliver(struct transport *transport)
{
        collect_results(transport);
        while (!list_is_empty(&transport->ready))
                transport_report(container_of(transport->ready.next, struct transfer, ready));
}

/* ---- libcurl on the loop ---- */

static void on_socket_closed(uv_handle_t *handle)
{
        struct transport_socket *sock = container_of(handle, struct transport_socket, poll);

        closing_release(sock->transport->closing);
        free(sock);
}

static void on_transport_timer(uv_timer_t *timer);

/*
 * One millisecond more: libuv's clock is cut to milliseconds, and if libcurl is called too early, it does not set the
 * timer again.
 */
static int set_timer(struct transport *transport, long timeout_ms)
{
        uv_update_time(transport->loop);
        if (timeout_ms < 0)
                return uv_timer_stop(&transport->timer);
        return uv_timer_start(&transport->timer, on_transport_timer, timeout_ms ? (uint64_t)timeout_ms + 1 : 0, 0);
}

static void transport_act(struct transport *transport, curl_socket_t fd, int events)
{
        int running;

        transport->curl.multi_socket_action(transport->multi, fd, events, &running);
        transport_deliver(transport);
}

static void on_transport_timer(uv_timer_t *timer)
{
        struct transport *transport = container_of(timer, struct transport, timer);
        long timeout_ms = -1;

        transport_act(transport, CURL_SOCKET_TIMEOUT, 0);
        if (uv_is_closing((uv_handle_t *)timer) || uv_is_active((uv_handle_t *)timer))
                return;
        transport->curl.multi_timeout(transport->multi, &timeout_ms);
        set_timer(transport, timeout_ms);
}

static int transport_on_timeout(CURLM *multi UNUSED, long timeout_ms, void *data)
{
        struct transport *transport = data;

        if (!uv_is_closing((uv_handle_t *)&transport->timer))
                set_timer(transport, timeout_ms);
        return 0;
}

static void on_transport_poll(uv_poll_t *poll, int status, int events)
{
        struct transport_socket *sock = container_of(poll, struct transport_socket, poll);
        int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);

        transport_act(sock->transport, sock->fd, status < 0 ? CURL_CSELECT_ERR : flags);
}

/* Before the descriptor is closed, since libuv could not find it in its epoll set after that. */
static void drop_socket(struct transport_socket *sock)
{
        list_remove(&sock->link);
        uv_poll_stop(&sock->poll);
        closing_hold(sock->transport->closing);
        uv_close((uv_handle_t *)&sock->poll, on_socket_closed);
}

static struct transport_socket *add_socket(struct transport *transport, curl_socket_t fd)
{
        struct transport_socket *sock = xcalloc(1, sizeof(*sock));

        sock->transport = transport;
        sock->fd = fd;
        if (uv_poll_init_socket(transport->loop, &sock->poll, fd) < 0) {
                free(sock);
                return NULL;
        }
        list_append(&transport->sockets, &sock->link);
        transport->curl.multi_assign(transport->multi, fd, sock);
        return sock;
}

static int on_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *data, void *socket_data)
{
        struct transport *transport = data;
        struct transport_socket *sock = socket_data;

        if (what == CURL_POLL_REMOVE) {
                if (sock)
                        drop_socket(sock);
                transport->curl.multi_assign(transport->multi, fd, NULL);
                return 0;
        }
        if (!sock)
                sock = add_socket(transport, fd);
        if (!sock)
                return -1;
        return uv_poll_start(&sock->poll,
                       (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                       on_transport_poll) < 0
                       ? -1
                       : 0;
}

static int on_close_socket(void *data, curl_socket_t fd)
{
        struct transport *transport = data;

        LIST_FOR_EACH(link, &transport->sockets) {
                struct transport_socket *sock = container_of(link, struct transport_socket, link);

                if (sock->fd == fd) {
                        transport->curl.multi_assign(transport->multi, fd, NULL);
                        drop_socket(sock);
                        break;
                }
        }
        return close(fd);
}

/* Child processes would inherit libcurl's own sockets. */
static curl_socket_t on_open_socket(void *data UNUSED, curlsocktype purpose UNUSED, struct curl_sockaddr *address)
{
        const unsigned int timeout = UNCONFIRMED_MS;
        int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);

        if (fd < 0)
                return CURL_SOCKET_BAD;
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
        return fd;
}

/* Loads libcurl, unless that is done. */
static int transport_start(struct transport *transport, struct error *err)
{
        const struct curl *curl = &transport->curl;

        if (transport->multi)
                return 0;
        if (curl_load(&transport->curl, err) < 0)
                return -1;
        transport->multi = curl->multi_init();
        if (!transport->multi)
                return error_set(err, ERROR_INTERNAL, "libcurl has no multi handle");
        curl->multi_setopt(transport->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl->multi_setopt(transport->multi, CURLMOPT_SOCKETDATA, transport);
        curl->multi_setopt(transport->multi, CURLMOPT_TIMERFUNCTION, transport_on_timeout);
        curl->multi_setopt(transport->multi, CURLMOPT_TIMERDATA, transport);
        curl->multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, TRANSPORT_IDLE_CONNECTIONS);
        return 0;
}

/* ---- one transfer ---- */

/* Closes the connection after this transfer, so that no other transfer uses it. */
static void leave_connection(struct transfer *transfer)
{
        transfer->transport->curl.easy_setopt(transfer->easy, CURLOPT_FORBID_REUSE, 1L);
}

/*
 * The connection is open, nothing is sent yet. On a reused connection libcurl shows no certificate. It is as good as
 * the last one that was checked, since a connection with a bad certificate is closed by the transfer that finds it.
 */
static int on_transport_connected(
        void *data, char *address UNUSED, char *own UNUSED, int port UNUSED, int own_port UNUSED)
{
        struct transfer *transfer = data;
        struct transport *transport = transfer->transport;
        enum peer peer = easy_peer(&transport->curl, transfer->easy);

        if (peer != PEER_UNTOLD)
                transport->is_nameless = peer == PEER_NAMELESS;
        if (!transport->is_nameless)
                return CURL_PREREQFUNC_OK;
        transfer->is_nameless = true;
        leave_connection(transfer);
        return CURL_PREREQFUNC_ABORT;
}

static size_t transport_on_header(char *bytes, size_t size, size_t count, void *data)
{
        struct transfer *transfer = data;
        size_t length = size * count;

        transfer->head_size += length;
        if (transfer->head_size > TRANSPORT_HEAD_LIMIT)
                return 0;
        if (length == 2 && memcmp(bytes, "\r\n", 2) == 0 && transport_status_of(transfer) >= 200) {
                transfer->has_head = true;
                transfer->transport->is_refused = transport_status_of(transfer) == 401;
                if (transfer->transport->is_refused)
                        leave_connection(transfer);
                has_news(transfer);
        }
        return length;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *data)
{
        struct transfer *transfer = data;
        size_t length = size * count;

        if (transfer->body.size + length > KUBE_ANSWER_LIMIT) {
                transfer->is_too_large = true;
                return 0;
        }
        strbuf_append(&transfer->body, bytes, length);
        if (transfer->request.on_body)
                has_news(transfer);
        return length;
}

/* Options of each transfer; easy_configure() sets the rest. */
static void set_callbacks(struct transfer *transfer)
{
        struct transport *transport = transfer->transport;
        struct curl *curl = &transport->curl;
        CURL *easy = transfer->easy;

        curl->easy_setopt(easy, CURLOPT_PRIVATE, transfer);
        curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->problem);
        curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, transport_on_header);
        curl->easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
        curl->easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_transport_connected);
        curl->easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
        curl->easy_setopt(easy, CURLOPT_FRESH_CONNECT, transport->is_refused || transport->is_nameless ? 1L : 0L);
        curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
        curl->easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
        curl->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
        curl->easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
        curl->easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transport);
        curl->easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER); /* otherwise 64 KiB for each body */
        curl->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl->easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
        curl->easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
        curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)KUBE_CONNECT_TIMEOUT_MS);
        curl->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)MAX(transfer->request.timeout_ms, UINT64_C(1)));
}

int transfer_start(
        struct transfer **ret, struct transport *transport, const struct transfer_request *request, struct error *err)
{
        struct transfer *transfer;
        struct kube_identity identity;

        if (transport_start(transport, err) < 0 ||
                kube_identity_read(&identity, transport->settings.credentials, err) < 0)
                return -1;
        transfer = xcalloc(1, sizeof(*transfer));
        transfer->transport = transport;
        transfer->request = *request;
        transfer->identity = identity;
        transfer->body = (struct strbuf)STRBUF_INIT;
        list_append(&transport->transfers, &transfer->link);
        list_init(&transfer->ready);
        transfer->easy = transport->curl.easy_init();
        if (!transfer->easy) {
                transfer_free(transfer);
                return error_set(err, ERROR_INTERNAL, "libcurl has no handle");
        }
        set_callbacks(transfer);
        if (easy_configure(&transport->curl, transfer->easy, &transport->settings, request, &transfer->identity,
                    &transfer->headers, &transfer->connect_to, err) < 0) {
                transfer_free(transfer);
                return -1;
        }
        transport->curl.multi_add_handle(transport->multi, transfer->easy);
        *ret = transfer;
        return 0;
}

struct transfer *transfer_cancel(struct transfer *transfer)
{
        if (transfer)
                transfer_free(transfer);
        return NULL;
}

/* ---- start and end ---- */

void transport_init(struct transport *transport, uv_loop_t *loop, struct closing *closing)
{
        *transport = (struct transport){.loop = loop, .closing = closing};
        list_init(&transport->transfers);
        list_init(&transport->ready);
        list_init(&transport->sockets);
        uv_timer_init(loop, &transport->timer);
}

int transport_equip(struct transport *transport, const struct kube_credentials *credentials, struct error *err)
{
        return easy_prepare(&transport->settings, credentials, err);
}

void transport_close(struct transport *transport)
{
        while (!list_is_empty(&transport->transfers))
                transfer_free(container_of(transport->transfers.next, struct transfer, link));
        if (transport->multi)
                transport->curl.multi_cleanup(transport->multi);
        while (!list_is_empty(&transport->sockets)) /* of a name resolution that was left behind */
                drop_socket(container_of(transport->sockets.next, struct transport_socket, link));
        easy_forget(&transport->settings);
        closing_close(transport->closing, &transport->timer);
}
