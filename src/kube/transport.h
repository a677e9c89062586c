/*
 * Exchanges over HTTP with one server: libcurl's multi interface on libuv's loop, with the credentials in each of them. It knows
 * nothing of what is said.
 *
 * A request is sent as who the credentials say at that moment: a certificate that was replaced has a connection of its own, and one that
 * answered 401 is not used again. What stands goes on as who it was.
 *
 * libcurl is never called out of one of its own callbacks: what comes is kept until it has returned, and told then. So every callback
 * here may start, cancel and close whatever it likes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "kube/credentials.h"

#define TRANSPORT_HEAD_LIMIT ((size_t)64 << 10) /* bytes of the heads of one answer */
#define TRANSPORT_IDLE_CONNECTIONS 4L

struct transport;
struct transfer;

struct transfer_end {
        const struct error *error; /* NULL: an answer came, and came to its end, whatever its status */
        unsigned int status;       /* 0: none came */
        const char *body;          /* what was not given to |on_body|; with a 0 behind it */
        size_t size;
        uint64_t retry_after_ms; /* 0: nothing was said */
        bool is_identity_old;    /* of a 401: token or certificate have been replaced since */
};

struct transfer_request {
        const char *method; /* "GET" */
        const char *path;
        const char *query; /* may be NULL or empty */
        const char *body;  /* NULL: none */
        const char *content_type;
        uint64_t timeout_ms;
        size_t limit; /* bytes of the answer; with |on_body|, of one piece of it */
        /* The three come in this order. The first two are for 2xx only and may be NULL; |on_end| comes once and is the last. */
        void (*on_head)(void *data);
        void (*on_body)(const char *bytes, size_t size, void *data);
        void (*on_end)(const struct transfer_end *end, void *data);
        void *data;
};

struct transport_options {
        uv_loop_t *loop;
        /*
         * Comes once after transport_load(). No transfer may be started before it, nor at all where it came with an error: there is
         * no libcurl then.
         */
        void (*on_ready)(const struct error *error, void *data);
        void *data;
};

struct transport *transport_new(const struct transport_options *options);

/*
 * To whom and as whom, before the first transfer and once; |credentials| must live as long as the transport. Fails where the server's URL
 * is none, and may then be tried with others.
 */
int transport_equip(
        struct transport *transport, const struct kube_credentials *credentials, struct error *err) MUST_USE;

/* Loads libcurl, by a thread, since that takes longer than all the rest of a start. Once is enough, and more does nothing. */
void transport_load(struct transport *transport);

/* Cancels all transfers. |closed| comes from the loop, when the last handle is closed. Accepts NULL: it never comes then. */
void transport_close(struct transport *transport, void (*closed)(void *data), void *data);

/* Fails where token, certificate or key cannot be read. Never calls back. What |request| names is copied. */
int transfer_start(struct transfer **ret, struct transport *transport, const struct transfer_request *request,
        struct error *err) MUST_USE;

/* Not after |on_end|, but in the others, too. Accepts NULL, returns NULL. */
struct transfer *transfer_cancel(struct transfer *transfer);
