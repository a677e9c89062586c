// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP requests to one server: libcurl's multi interface on libuv's loop, with the credentials in each request. It does
 * not know their content.
 *
 * A request uses the credentials of that moment: a new certificate gets a new connection, and a connection that
 * answered 401 is not used again. A running transfer keeps its identity.
 *
 * libcurl is loaded by the first transfer (net/kube/easy.h), or a later one if that fails, as for want of
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
#include "base/list.h"
#include "base/io/loop.h"
#include "net/kube/client.h"
#include "net/kube/easy.h"

#define TRANSPORT_HEAD_LIMIT ((size_t)64 << 10) /* bytes of the headers of one answer */
#define TRANSPORT_IDLE_CONNECTIONS 4L

struct transfer;

struct transfer_request {
        const char *method; /* "GET" */
        const char *path;
        const char *query; /* may be NULL */
        const char *body;  /* NULL: none */
        const char *content_type;
        const char *as; /* what the server is to turn its answer into (net/kube/client.h); NULL: nothing */
        uint64_t timeout_ms;
        /*
         * Called in this order. The first two only for 2xx, with |stream|, and may be NULL; |on_end| is called once and
         * is the last. It gets all of an answer but for what body_read() adds.
         */
        void (*on_head)(void *stream);
        void (*on_body)(const char *bytes, size_t size, void *stream);
        void *stream;
        void (*on_end)(struct kube_answer *answer, void *data);
        void *data;
};

/* Embedded in its owner; all members are private. */
struct transport {
        uv_loop_t *loop;
        struct closing *closing; /* the owner's */
        struct curl curl;
        CURLM *multi; /* NULL: libcurl is not loaded yet */
        struct easy_settings settings;
        uv_timer_t timer; /* libcurl's */
        struct list transfers;
        struct list ready;
        struct list sockets;
        bool is_nameless; /* the certificate of the last server has no names */
        bool is_refused;  /* the last answer was a 401 */
};

/* |closing| counts its handles. */
void transport_init(struct transport *transport, uv_loop_t *loop, struct closing *closing);

/*
 * Sets server and identity, once, before the first transfer; |credentials| must live as long as the transport. Fails if
 * the server's URL is invalid; then it may be called again with others.
 */
int transport_equip(
        struct transport *transport, const struct kube_credentials *credentials, struct error *err) MUST_USE;

/* Cancels all transfers. The memory is needed until |closing| has ended. */
void transport_close(struct transport *transport);

/*
 * Fails if libcurl cannot be loaded, or token, certificate or key not be read. Calls no callback. |request| is copied.
 */
int transfer_start(struct transfer **ret, struct transport *transport, const struct transfer_request *request,
        struct error *err) MUST_USE;

/* Not after |on_end|; allowed in the other callbacks. Accepts NULL, returns NULL. */
struct transfer *transfer_cancel(struct transfer *transfer);
