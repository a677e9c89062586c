/*
 * HTTP requests to one server: libcurl's multi interface on libuv's loop, with the credentials in each request. It does
 * not know their content.
 *
 * A request uses the credentials of that moment: a new certificate gets a new connection, and a connection that
 * answered 401 is not used again. A running transfer keeps its identity.
 *
 * libcurl is loaded by the first transfer (net/kube/library.h), or a later one if that fails, as for want of
 * descriptors.
 *
 * libcurl is never called from one of its own callbacks: data is stored, and reported after the callback has returned.
 * So every callback of this module may start, cancel and close anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "net/kube/credentials.h"

#define TRANSPORT_HEAD_LIMIT ((size_t)64 << 10) /* bytes of the headers of one answer */
#define TRANSPORT_IDLE_CONNECTIONS 4L

struct transport;
struct transfer;

struct transfer_end {
        const struct error *error; /* NULL: a complete answer, of any status */
        unsigned int status;       /* 0: no answer */
        const char *body;          /* the body, if |on_body| is NULL; zero-terminated */
        size_t size;
        uint64_t retry_after_ms; /* 0: not given */
        bool is_identity_old;    /* a 401, and token or certificate were replaced since */
        bool is_too_large;       /* the answer was cut at |limit|; |error| says so */
};

struct transfer_request {
        const char *method; /* "GET" */
        const char *path;
        const char *query; /* may be NULL or empty */
        const char *body;  /* NULL: none */
        const char *content_type;
        const char *as; /* what the server is to turn its answer into (net/kube/client.h); NULL: nothing */
        uint64_t timeout_ms;
        size_t limit; /* bytes of the answer; with |on_body|, of one piece of it */
        /*
         * Called in this order. The first two only for 2xx, and may be NULL; |on_end| is called once and is the last.
         */
        void (*on_head)(void *data);
        void (*on_body)(const char *bytes, size_t size, void *data);
        void (*on_end)(const struct transfer_end *end, void *data);
        void *data;
};

struct transport *transport_new(uv_loop_t *loop);

/*
 * Sets server and identity, once, before the first transfer; |credentials| must live as long as the transport. Fails if
 * the server's URL is invalid; then it may be called again with others.
 */
int transport_equip(
        struct transport *transport, const struct kube_credentials *credentials, struct error *err) MUST_USE;

/*
 * Cancels all transfers. |closed| is called from the loop, when the last handle is closed. Accepts NULL; then |closed|
 * is not called.
 */
void transport_close(struct transport *transport, void (*closed)(void *data), void *data);

/*
 * Fails if libcurl cannot be loaded, or token, certificate or key not be read. Calls no callback. |request| is copied.
 */
int transfer_start(struct transfer **ret, struct transport *transport, const struct transfer_request *request,
        struct error *err) MUST_USE;

/* Not after |on_end|; allowed in the other callbacks. Accepts NULL, returns NULL. */
struct transfer *transfer_cancel(struct transfer *transfer);
