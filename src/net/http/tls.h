// SPDX-License-Identifier: Apache-2.0
/*
 * TLS in front of an HTTP server (net/http/server.h), by OpenSSL. What clients send is decrypted into a pair of sockets
 * whose other end libmicrohttpd has: it knows nothing of TLS, and all bounds and deadlines of connections are the
 * server's. When it ends a connection, so does this.
 *
 *     client ◄── TLS ──► link ◄── pair ──► libmicrohttpd
 *
 *     HANDSHAKE ──► SERVED ──► LINGERS: the server has said all, and the client has not read it
 *
 * The server gets a client when its handshake is done. Those that handshake or linger have a room of their own
 * (net/http/room.h), of HTTP_TLS_APART and half of it for one address, and HTTP_TLS_HANDSHAKE_MS for the handshake: so
 * clients that never complete it push out none that is served.
 *
 * The certificate comes from a file, or is made at the start and signed by itself, as those of controller-runtime are:
 * then clients cannot verify the server, but the connection is still encrypted. Files are checked again when a client
 * connects, at most every HTTP_TLS_LOOK_MS, so a renewed certificate is used without a restart; where new files are
 * wrong, the ones before stay, and |on_tls_trouble| says why.
 *
 * A client on this machine may leave TLS out: what begins with no record of TLS is passed on as it is.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "net/http/room.h"
#include "net/http/server.h"

#define HTTP_TLS_LOOK_MS UINT64_C(10000)
#define HTTP_TLS_APART 32U
#define HTTP_TLS_HANDSHAKE_MS UINT64_C(3000)

struct http_tls;

/* The questions that it asks of the server, and the connections that it hands over. */
struct http_tls_side {
        /* Has this address shown who it is? */
        bool (*is_known)(const struct http_peer *peer, void *data);
        /*
         * The handshake is done, and |fd| is the other end of the pair; or the client leaves TLS out, and |fd| is its
         * own connection. It is taken. May not close.
         */
        void (*on_accepted)(int fd, const struct sockaddr *address, socklen_t size, void *data);
        void *data;
};

/* |options| are the server's, copied as |side|; its deadline begins after the handshake. Errors name the file. */
int http_tls_new(struct http_tls **ret, const struct http_server_options *options, const struct http_tls_side *side,
        struct error *err) MUST_USE;

/* Takes the connection |fd|. From a loopback address TLS may be left out. */
void http_tls_accept(struct http_tls *tls, int fd, const struct sockaddr *address, socklen_t size);

/* Links end at once; the memory goes when the loop has closed their handles. Accepts NULL, returns NULL. */
struct http_tls *http_tls_close(struct http_tls *tls);
