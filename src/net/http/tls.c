// SPDX-License-Identifier: Apache-2.0
#include "net/http/tls.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/library.h"
#include "base/list.h"
#include "base/io/loop.h"
#include "net/http/openssl.h"

#define PIECE ((size_t)16 * 1024) /* a record of TLS */
#define VALID_S (60L * 60 * 24 * 3650)
#define TURNS 16U /* of one link, before the loop serves others */

static struct openssl openssl; /* filled by http_tls_new() */

#define ROW(name) LIBRARY_SYMBOL(struct openssl, name, #name),
static const struct library_symbol symbols[] = {OPENSSL_FUNCTIONS(ROW)};
#undef ROW

static const struct library library = {
        .files = {"libssl.so.3", "libcurl.so.4"},
        .needs = "OpenSSL 3.0",
        .remedy = "install OpenSSL (Debian: libssl3), or serve metrics without TLS",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

struct http_tls {
        struct http_server_options options;
        struct http_tls_side side;
        char *certificate;
        char *key;
        SSL_CTX *context;
        struct file_mark marks[2]; /* of certificate and key */
        uint64_t looked_at;        /* on the loop's clock */
        struct list links;         /* all of them */
        struct http_room room;     /* of those that handshake or linger */
        bool is_closed;
};

/* Bytes on their way in one direction. */
struct piece {
        unsigned char bytes[PIECE];
        size_t begin;
        size_t end;
};

enum link_state { LINK_HANDSHAKE, LINK_SERVED, LINK_LINGERS };

struct tls_link {
        struct list link;
        struct http_guest guest;
        struct http_tls *tls;
        enum link_state state;
        struct sockaddr_storage address; /* the client's */
        socklen_t address_size;
        SSL *ssl;
        int client; /* -1 once it is passed on */
        int inner;
        int outer; /* the other end, until the server has it; -1 then */
        uv_poll_t client_poll;
        uv_poll_t inner_poll;
        uv_timer_t deadline;
        struct closing closing;
        unsigned int n_open; /* handles, in the order deadline, client_poll, inner_poll */
        bool may_be_plain;
        bool has_ended;    /* the client has */
        int client_events; /* that the last step of TLS waits for */
        struct piece in;   /* decrypted, for the server */
        struct piece out;
};

/* ---- certificates ---- */

static int ssl_fail(struct error *err, const char *what)
{
        char text[160] = "";

        openssl.ERR_error_string_n(openssl.ERR_get_error(), text, sizeof(text));
        return error_set(err, ERROR_INVALID, "%s: %s", what, text);
}

static bool name_certificate(X509 *certificate, EVP_PKEY *key)
{
        static const unsigned char name[] = "warpshare";
        uint64_t serial = 0;
        X509_NAME *subject = openssl.X509_get_subject_name(certificate);

        return openssl.RAND_bytes((unsigned char *)&serial, sizeof(serial)) == 1 &&
               openssl.X509_set_version(certificate, X509_VERSION_3) == 1 &&
               openssl.ASN1_INTEGER_set_uint64(openssl.X509_get_serialNumber(certificate), serial >> 1) == 1 &&
               openssl.X509_gmtime_adj(openssl.X509_getm_notBefore(certificate), -60 * 60) &&
               openssl.X509_gmtime_adj(openssl.X509_getm_notAfter(certificate), VALID_S) &&
               openssl.X509_set_pubkey(certificate, key) == 1 &&
               openssl.X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, -1, -1, 0) == 1 &&
               openssl.X509_set_issuer_name(certificate, subject) == 1 &&
               openssl.X509_sign(certificate, key, openssl.EVP_sha256()) > 0;
}

static int make_certificate(SSL_CTX *context, struct error *err)
{
        EVP_PKEY *key = openssl.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
        X509 *certificate = openssl.X509_new();
        const bool is_made = key && certificate && name_certificate(certificate, key) &&
                             openssl.SSL_CTX_use_certificate(context, certificate) == 1 &&
                             openssl.SSL_CTX_use_PrivateKey(context, key) == 1;

        openssl.X509_free(certificate); /* both are counted */
        openssl.EVP_PKEY_free(key);
        return is_made ? 0 : ssl_fail(err, "make a certificate");
}

static int read_certificate(const struct http_tls *tls, SSL_CTX *context, struct error *err)
{
        if (openssl.SSL_CTX_use_certificate_chain_file(context, tls->certificate) != 1)
                return ssl_fail(err, tls->certificate);
        if (openssl.SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) != 1 ||
                openssl.SSL_CTX_check_private_key(context) != 1)
                return ssl_fail(err, tls->key);
        return 0;
}

static int make_context(const struct http_tls *tls, SSL_CTX **ret, struct error *err)
{
        SSL_CTX *context;
        int result;

        openssl.ERR_clear_error();
        context = openssl.SSL_CTX_new(openssl.TLS_server_method());
        if (!context)
                return ssl_fail(err, "OpenSSL does not start");
        openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
        openssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS, NULL);
        openssl.SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
        /* Nothing of a connection that has ended is kept: neither a session, nor, since TLS 1.3, one for a ticket. */
        openssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
        openssl.SSL_CTX_set_num_tickets(context, 0);
        result = tls->certificate ? read_certificate(tls, context, err) : make_certificate(context, err);
        if (result < 0)
                openssl.SSL_CTX_free(context);
        else
                *ret = context;
        return result;
}

static struct file_mark mark_of(const char *path)
{
        struct stat now;

        return stat(path, &now) == 0 ? file_mark_of(&now) : (struct file_mark){0};
}

/* Files are marked before they are read: what changes meanwhile is read again. */
static int tls_load_files(struct http_tls *tls, struct error *err)
{
        SSL_CTX *context = NULL;

        if (tls->certificate && tls->key) {
                tls->marks[0] = mark_of(tls->certificate);
                tls->marks[1] = mark_of(tls->key);
        }
        if (make_context(tls, &context, err) < 0)
                return -1;
        openssl.SSL_CTX_free(tls->context); /* connections keep theirs */
        tls->context = context;
        return 0;
}

static void tls_check_files(struct http_tls *tls)
{
        const uint64_t now = uv_now(tls->options.loop);
        struct file_mark certificate;
        struct file_mark key;
        struct error err;

        if (!tls->certificate || !tls->key || now < tls->looked_at + HTTP_TLS_LOOK_MS)
                return;
        tls->looked_at = now;
        certificate = mark_of(tls->certificate);
        key = mark_of(tls->key);
        if (file_mark_is_same(&certificate, &tls->marks[0]) && file_mark_is_same(&key, &tls->marks[1]))
                return;
        if (tls_load_files(tls, &err) < 0 && tls->options.on_tls_trouble)
                tls->options.on_tls_trouble(&err, tls->options.trouble_data);
}

/* ---- a link ---- */

static void tls_free(struct http_tls *tls)
{
        openssl.SSL_CTX_free(tls->context);
        free(tls->certificate);
        free(tls->key);
        free(tls);
}

static void tls_link_free(void *data)
{
        struct tls_link *link = data;
        struct http_tls *tls = link->tls;

        list_remove(&link->link);
        openssl.SSL_free(link->ssl);
        if (link->client >= 0)
                close(link->client);
        close(link->inner);
        if (link->outer >= 0)
                close(link->outer);
        free(link);
        if (tls->is_closed && list_is_empty(&tls->links))
                tls_free(tls);
}

static void tls_link_end(struct tls_link *link)
{
        uv_handle_t *const handles[] = {
                (uv_handle_t *)&link->deadline, (uv_handle_t *)&link->client_poll, (uv_handle_t *)&link->inner_poll};

        if (uv_is_closing(handles[0]))
                return;
        list_remove(&link->guest.link);
        for (unsigned int i = link->n_open; i > 0; i--)
                closing_close(&link->closing, handles[i - 1]);
        closing_end(&link->closing, tls_link_free, link);
}

static void on_link_deadline(uv_timer_t *timer)
{
        tls_link_end(timer->data);
}

/* |link| handshakes or lingers: it enters the room of those. */
static void link_stand_apart(struct tls_link *link, enum link_state state)
{
        struct http_guest *leaving = http_room_enter(&link->tls->room, &link->guest);

        link->state = state;
        if (leaving)
                tls_link_end(container_of(leaving, struct tls_link, guest));
}

static size_t piece_size(const struct piece *piece)
{
        return piece->end - piece->begin;
}

/* The result of a step. */
enum step { STEP_DONE, STEP_WAITS, STEP_FAILED, STEP_PLAIN };

static enum step link_ssl_result(struct tls_link *link, int result)
{
        const int error = openssl.SSL_get_error(link->ssl, result);

        if (error == SSL_ERROR_WANT_READ)
                link->client_events |= UV_READABLE;
        else if (error == SSL_ERROR_WANT_WRITE)
                link->client_events |= UV_WRITABLE;
        else
                return STEP_FAILED;
        return STEP_WAITS;
}

static enum step accept_client(struct tls_link *link)
{
        unsigned char first;
        int result;

        if (link->may_be_plain) {
                const ssize_t size = recv(link->client, &first, 1, MSG_PEEK);

                if (size <= 0) {
                        link->client_events |= UV_READABLE;
                        return size < 0 && errno == EAGAIN ? STEP_WAITS : STEP_FAILED;
                }
                link->may_be_plain = false;
                if (first != SSL3_RT_HANDSHAKE)
                        return STEP_PLAIN;
        }
        result = openssl.SSL_accept(link->ssl);
        return result == 1 ? STEP_DONE : link_ssl_result(link, result);
}

static void link_give(struct tls_link *link, int fd)
{
        const struct http_tls_side *side = &link->tls->side;

        side->on_accepted(fd, (const struct sockaddr *)&link->address, link->address_size, side->data);
}

static void link_serve(struct tls_link *link)
{
        list_remove(&link->guest.link);
        link->state = LINK_SERVED;
        uv_timer_start(&link->deadline, on_link_deadline, link->tls->options.deadline_ms, 0);
        link_give(link, TAKE_FD(link->outer));
}

/* The server gets the client itself. */
static void link_pass_on(struct tls_link *link)
{
        const int fd = TAKE_FD(link->client);

        tls_link_end(link); /* its memory stays until the loop has closed the handles */
        link_give(link, fd);
}

static enum step tls_read_client(struct tls_link *link)
{
        int result;

        if (link->has_ended || piece_size(&link->in) > 0)
                return STEP_WAITS;
        result = openssl.SSL_read(link->ssl, link->in.bytes, (int)PIECE);
        if (result > 0) {
                link->in.begin = 0;
                link->in.end = (size_t)result;
                return STEP_DONE;
        }
        if (link_ssl_result(link, result) == STEP_WAITS)
                return STEP_WAITS;
        /*
         * The client has ended or failed: the request that it has sent so far is still answered, if the client can
         * receive that.
         */
        link->has_ended = true;
        shutdown(link->inner, SHUT_WR);
        return STEP_WAITS;
}

static enum step write_server(struct tls_link *link)
{
        ssize_t size;

        if (piece_size(&link->in) == 0)
                return STEP_WAITS;
        size = send(link->inner, link->in.bytes + link->in.begin, piece_size(&link->in), MSG_NOSIGNAL);
        if (size < 0)
                return errno == EAGAIN ? STEP_WAITS : STEP_FAILED;
        link->in.begin += (size_t)size;
        return STEP_DONE;
}

static enum step tls_read_server(struct tls_link *link)
{
        ssize_t size;

        if (link->state == LINK_LINGERS || piece_size(&link->out) > 0)
                return STEP_WAITS;
        size = recv(link->inner, link->out.bytes, PIECE, 0);
        if (size < 0 && errno == EAGAIN)
                return STEP_WAITS;
        link->out.begin = 0;
        link->out.end = size > 0 ? (size_t)size : 0;
        if (size <= 0)
                link_stand_apart(link, LINK_LINGERS);
        return STEP_DONE;
}

static enum step write_client(struct tls_link *link)
{
        int result;

        if (piece_size(&link->out) == 0)
                return STEP_WAITS;
        result = openssl.SSL_write(link->ssl, link->out.bytes + link->out.begin, (int)piece_size(&link->out));
        if (result <= 0)
                return link_ssl_result(link, result);
        link->out.begin += (size_t)result;
        return STEP_DONE;
}

/* True: something was done, and more may be possible. */
static bool step_once(struct tls_link *link, bool *failed)
{
        static enum step (*const steps[])(struct tls_link *) = {
                tls_read_client, write_server, tls_read_server, write_client};
        bool has_done = false;

        for (size_t i = 0; i < ARRAY_SIZE(steps) && !*failed; i++) {
                const enum step step = steps[i](link);

                has_done |= step == STEP_DONE;
                *failed = step == STEP_FAILED;
        }
        return has_done;
}

static void on_link_event(uv_poll_t *poll, int status, int events);

static void link_wait(struct tls_link *link, bool has_more)
{
        const int inner = (link->state == LINK_SERVED && piece_size(&link->out) == 0 ? UV_READABLE : 0) |
                          (piece_size(&link->in) > 0 ? UV_WRITABLE : 0);

        /* A socket that can be written nearly always brings the next turn at once. */
        if (has_more)
                link->client_events |= UV_WRITABLE;
        if (link->client_events)
                uv_poll_start(&link->client_poll, link->client_events, on_link_event);
        else
                uv_poll_stop(&link->client_poll);
        if (inner)
                uv_poll_start(&link->inner_poll, inner, on_link_event);
        else
                uv_poll_stop(&link->inner_poll);
}

static void link_pump(struct tls_link *link)
{
        enum step accepted = STEP_DONE;
        bool failed;
        bool has_more;

        openssl.ERR_clear_error();
        link->client_events = 0;
        if (link->state == LINK_HANDSHAKE)
                accepted = accept_client(link);
        if (accepted == STEP_PLAIN) {
                link_pass_on(link);
                return;
        }
        if (link->state == LINK_HANDSHAKE && accepted == STEP_DONE)
                link_serve(link);
        failed = accepted == STEP_FAILED;
        has_more = accepted == STEP_DONE;
        for (unsigned int i = 0; i < TURNS && has_more && !failed; i++) {
                link->client_events = 0;
                has_more = step_once(link, &failed);
        }
        if (link->state == LINK_LINGERS && piece_size(&link->out) == 0 && !failed) {
                openssl.SSL_shutdown(link->ssl); /* so that the client knows that it has all */
                shutdown(link->client, SHUT_WR);
                failed = true;
        }
        if (failed)
                tls_link_end(link);
        else
                link_wait(link, has_more);
}

static void on_link_event(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        link_pump(poll->data);
}

/* NULL: out of memory or descriptors; |fd| is still the caller's then. */
static struct tls_link *link_new(struct http_tls *tls, int fd)
{
        struct tls_link *link;
        SSL *ssl;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return NULL;
        ssl = openssl.SSL_new(tls->context);
        if (!ssl || openssl.SSL_set_fd(ssl, fd) != 1) {
                openssl.SSL_free(ssl);
                close(pair[0]);
                close(pair[1]);
                return NULL;
        }
        link = xcalloc(1, sizeof(*link));
        link->tls = tls;
        link->ssl = ssl;
        link->client = fd;
        link->inner = pair[0];
        link->outer = pair[1];
        return link;
}

static bool link_watch(struct tls_link *link)
{
        uv_loop_t *loop = link->tls->options.loop;

        link->client_poll.data = link->inner_poll.data = link->deadline.data = link;
        uv_timer_init(loop, &link->deadline);
        link->n_open = 1;
        if (uv_poll_init(loop, &link->client_poll, link->client) < 0)
                return false;
        link->n_open++;
        if (uv_poll_init(loop, &link->inner_poll, link->inner) < 0)
                return false;
        link->n_open++;
        return true;
}

void http_tls_accept(struct http_tls *tls, int fd, const struct sockaddr *address, socklen_t size)
{
        const struct http_peer peer = http_peer_of(address);
        struct tls_link *link;

        tls_check_files(tls);
        link = link_new(tls, fd);
        if (!link) {
                close(fd);
                return;
        }
        memcpy(&link->address, address, size);
        link->address_size = size;
        link->may_be_plain = http_peer_is_loopback(&peer);
        link->guest.peer = peer;
        if (tls->side.is_known(&peer, tls->side.data))
                link->guest.rank = HTTP_RANK_KNOWN;
        list_append(&tls->links, &link->link);
        list_init(&link->guest.link);
        if (!link_watch(link)) {
                tls_link_end(link);
                return;
        }
        uv_timer_start(&link->deadline, on_link_deadline, HTTP_TLS_HANDSHAKE_MS, 0);
        link_stand_apart(link, LINK_HANDSHAKE);
        link_pump(link);
}

/* ---- start and end ---- */

int http_tls_new(struct http_tls **ret, const struct http_server_options *options, const struct http_tls_side *side,
        struct error *err)
{
        struct http_tls *tls;

        if (library_load(&library, &openssl, err) < 0)
                return -1;
        tls = xcalloc(1, sizeof(*tls));
        tls->options = *options;
        tls->side = *side;
        tls->certificate = xstrdup(options->tls->certificate);
        tls->key = xstrdup(options->tls->key);
        list_init(&tls->links);
        http_room_init(&tls->room, HTTP_TLS_APART, HTTP_TLS_APART / 2);
        if (tls_load_files(tls, err) < 0) {
                tls_free(tls);
                return -1;
        }
        tls->looked_at = uv_now(options->loop);
        *ret = tls;
        return 0;
}

struct http_tls *http_tls_close(struct http_tls *tls)
{
        if (!tls)
                return NULL;
        tls->is_closed = true;
        if (list_is_empty(&tls->links)) {
                tls_free(tls);
                return NULL;
        }
        LIST_FOR_EACH(link, &tls->links)
                tls_link_end(container_of(link, struct tls_link, link));
        return NULL;
}
