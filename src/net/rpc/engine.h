// SPDX-License-Identifier: Apache-2.0
/*
 * Private to rpc/: what the files of the engine share. session.c is the connection, call.c a call: what it
 * sends, and what a server and a client do with what arrives.
 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "net/rpc/head.h"
#include "net/rpc/session.h"

/* Streams that a peer may break or abandon beyond those it completes, before the connection is ended. */
#define RPC_OFFENCES 1000

struct rpc_session {
        nghttp2_session *http2;
        bool is_server;
        struct rpc_service service; /* server */
        char *authority;            /* client */
        struct rpc_limits limits;
        void *owner;
        void (*wake)(void *owner);

        struct list calls;
        size_t n_calls;
        struct rpc_head head; /* of the header list being received: HTTP/2 does not interleave them */
        struct strbuf out;    /* what rpc_session_pending() gave out last */
        size_t unread;        /* bytes in the readers of all calls */
        unsigned int offences;
        int64_t now_ms; /* as it was given last */
        int busy;       /* inside a function that sends what callbacks leave behind, or whose caller will */
        bool is_established;
        bool is_draining;
        bool is_broken;
        struct error why; /* of the end of the connection, as far as known */
};

struct rpc_call {
        struct list link; /* in session->calls */
        struct rpc_session *session;
        int32_t stream_id; /* 0: never started */
        unsigned int references;
        bool has_ended;
        int64_t deadline_ms;
        struct rpc_reader reader;

        struct {
                struct rpc_message *message; /* partly sent, or NULL */
                size_t sent;
                struct rpc_message *next; /* waits behind |message|, or NULL */
        } output;

        /* server: how to finish; client: how a call ends that never started */
        bool is_finished;
        enum rpc_status status;
        char *text;

        /* server */
        const struct rpc_method *method;
        bool has_answered; /* the response header is submitted */
        struct {
                bool is_whole;
                const uint8_t *bytes; /* in |reader| */
                size_t size;
        } request;
        void (*ended)(struct rpc_call *call, void *data);

        /* client */
        bool has_response;
        bool is_remote_closed; /* END_STREAM has come */
        struct rpc_handlers handlers;

        void *data; /* of |ended| or |handlers| */
};

/* call.c */

struct rpc_call *rpc_call_new(struct rpc_session *session);
void rpc_call_end(struct rpc_call *call, enum rpc_status status, const char *text);
void rpc_call_reset(struct rpc_call *call, uint32_t http2_error); /* RST_STREAM; the call itself is not ended */
int rpc_call_put_data(struct rpc_call *call, const uint8_t *frame_header, size_t length, struct strbuf *out);
void rpc_request_head(struct rpc_call *call);
void rpc_request_bad_trailers(struct rpc_call *call);
void rpc_request_data(struct rpc_call *call, const uint8_t *bytes, size_t size);
void rpc_request_end(struct rpc_call *call);
void rpc_request_expire(struct rpc_call *call);

void rpc_response_head(struct rpc_call *call);
void rpc_response_data(struct rpc_call *call, const uint8_t *bytes, size_t size);
void rpc_response_end(struct rpc_call *call);
void rpc_response_reset(struct rpc_call *call, uint32_t http2_error);
void rpc_response_expire(struct rpc_call *call);

/* session.c */

void rpc_session_offend(struct rpc_session *session);
void rpc_session_wake(struct rpc_session *session);

#define RPC_FIELD(name_, value_, size_, flags_)                                                                        \
        ((nghttp2_nv){                                                                                                 \
                .name = (uint8_t *)(uintptr_t)(name_),                                                                 \
                .namelen = sizeof(name_) - 1,                                                                          \
                .value = (uint8_t *)(uintptr_t)(value_),                                                               \
                .valuelen = (size_),                                                                                   \
                .flags = (uint8_t)(NGHTTP2_NV_FLAG_NO_COPY_NAME | (flags_)),                                           \
        })
/* A field whose value is a literal or lives as long as the program. */
#define RPC_FIELD_STATIC(name, value) RPC_FIELD(name, value, sizeof(value) - 1, NGHTTP2_NV_FLAG_NO_COPY_VALUE)
