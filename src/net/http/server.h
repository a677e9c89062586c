// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP on a TCP port: requests that read, GET and HEAD, for people's browsers, for Prometheus and for probes. It knows
 * nothing of what is read. The protocol is libmicrohttpd's, without a thread of its own: the loop runs it when there is
 * something to do. No client is trusted, and no request changes anything.
 *
 * A connection has one request and |deadline_ms| for all of it, however slowly its client writes and reads, and however
 * long its answer takes to come. There are at most |connections|, and |per_peer| of one IP address: a connection beyond
 * that is accepted, and another one ends, which net/http/room.h chooses. So a probe is answered however many
 * connections others hold, and a client that has shown a good token is not pushed out by those that have not. The head
 * of a request has room in |memory|, ours included.
 *
 *     on_request ──► http_request_answer(), at once or later
 *         └────────► the client's time is over, or the server closes: |on_gone|, and the request is freed
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

#define HTTP_DEADLINE_MS UINT64_C(10000)
#define HTTP_MEMORY ((size_t)8 * 1024)

struct http_server;
struct http_request;

/* A text that several answers share; it does not change. */
struct http_text {
        char *data;
        size_t size;
        unsigned int references;
};

/* Takes |text|, which is freed with the last reference. */
struct http_text *http_text_new(char *text, size_t size);
struct http_text *http_text_ref(struct http_text *text);
struct http_text *http_text_unref(struct http_text *text); /* accepts NULL, returns NULL */

struct http_header {
        const char *name; /* NULL ends the list */
        const char *value;
};

struct http_answer {
        unsigned int status;
        const char *type;                  /* Content-Type; NULL: no text */
        struct http_text *text;            /* taken; NULL: no text */
        const struct http_header *headers; /* more of them; NULL: none. Copied */
};

/* TLS (net/http/tls.h). */
struct http_server_tls {
        const char *certificate; /* paths, PEM; NULL, both: a certificate is made */
        const char *key;
};

struct http_server_options {
        uv_loop_t *loop;
        const char *address; /* "127.0.0.1:9400", "[::1]:9400"; ":9400": every address; port 0: the kernel chooses */
        unsigned int connections;
        unsigned int per_peer;
        size_t memory;                     /* 0: HTTP_MEMORY */
        uint64_t deadline_ms;              /* 0: HTTP_DEADLINE_MS */
        const struct http_server_tls *tls; /* NULL: none. Copied. Local clients may leave it out */
        /* New files of |tls| cannot be used, those before are. May be NULL */
        void (*on_tls_trouble)(const struct error *error, void *data);
        void *trouble_data;
        /* Called for each GET and HEAD. May answer, may not close the server. */
        void (*on_request)(struct http_request *request, void *data);
        void *data;
};

int http_server_new(struct http_server **ret, const struct http_server_options *options, struct error *err) MUST_USE;

unsigned int http_server_port(const struct http_server *server);

/* Connections end at once; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct http_server *http_server_close(struct http_server *server);

/* ---- a request, which is valid until it is answered or gone ---- */

const char *http_request_path(
        const struct http_request *request); /* as it was sent, without the query; %xx is decoded */
/* The first value of that name (in any case) in the query, decoded; NULL: there is none. */
const char *http_request_argument(const struct http_request *request, const char *name);
/* The first header of that name, in any case; NULL: there is none. */
const char *http_request_header(const struct http_request *request, const char *name);

/* True: its client is on this machine, in the server's network namespace, and connected to a loopback address. */
bool http_request_is_local(const struct http_request *request);

/*
 * Its client has shown who it is, and may have what it asks for: neither this connection, nor the next ones from its
 * address, give way to strangers.
 */
void http_request_trust(struct http_request *request);
/*
 * Its client has shown a token that may not have what it asks for. For a while its address is a suspect, unless it is
 * trusted: requests from there have no precedence while they wait, and their tokens are to be behind others.
 */
void http_request_distrust(struct http_request *request);
bool http_request_is_suspect(const struct http_request *request);

/* Called once at most, if the request ends without an answer; may not close the server. */
void http_request_on_gone(struct http_request *request, void (*on_gone)(void *data), void *data);

/* |request| is freed. */
void http_request_answer(struct http_request *request, const struct http_answer *answer);
/* The same, of a text of ours: "…\n", text/plain, with what 401 and 405 need. |text| is copied. */
void http_request_answer_plain(struct http_request *request, unsigned int status, const char *text);
