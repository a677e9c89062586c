// SPDX-License-Identifier: Apache-2.0
/*
 * The gRPC engine: one HTTP/2 connection, bytes in, bytes out. It owns no socket, no timer and no clock, and knows no
 * message type; net/rpc/server.h and net/rpc/client.h put it on sockets.
 *
 * Both roles are the same engine. A server session starts a call for each request that names a known method; a client
 * session starts calls itself. A call passes through
 *
 *         OPEN ──► HALF_CLOSED (the request is complete) ──► ENDED (trailers sent or received, reset, connection gone)
 *
 * and its owner is notified of the end exactly once, through |ended|, after which the pointer is invalid.
 *
 * What a peer can grow is bounded by struct rpc_limits; what is beyond ends the stream or, where HTTP/2 says so, the
 * connection. Every form of :authority is accepted (kubelets before 1.26 send the socket path, which nghttp2 by itself
 * refuses), so the engine checks the rest of the request header itself.
 *
 * Time comes from outside: the caller passes a monotonic clock in milliseconds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/rpc/message.h"

struct rpc_session;
struct rpc_call;

struct rpc_limits {
        size_t message;     /* largest payload accepted; default 4 MiB, as grpc-go's */
        size_t header_list; /* bytes of one header list, counted as RFC 9113 does; default 16 KiB. One that is larger
                                 ends its stream, one four times as large the connection. */
        uint32_t streams;   /* concurrent streams of one connection; default 100 */
        size_t queued;      /* bytes of control frames waiting to be sent before a peer that does not read is dropped,
                                 each counted as 64; default 64 KiB */
};

#define RPC_NO_DEADLINE INT64_MAX

/* ---- server ---- */

/*
 * A method of a service. |handle| gets the one request message (unary and server-streaming calls have exactly one) when
 * it is complete; the bytes are valid during the call only. It answers with rpc_call_send() and rpc_call_finish(), at
 * once or later.
 */
struct rpc_method {
        const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
        void (*handle)(struct rpc_call *call, const uint8_t *message, size_t size, void *context);
};

struct rpc_service {
        const struct rpc_method *methods;
        size_t n_methods;
        void *context;            /* given to every |handle| */
        struct rpc_limits limits; /* zero members mean the defaults */
};

/* |service| is copied, its methods are not. */
struct rpc_session *rpc_session_new_server(const struct rpc_service *service);

/* ---- client ---- */

struct rpc_session_client_options {
        const char *authority; /* NULL: "localhost" */
        struct rpc_limits limits;
};

/*
 * The callbacks of a client call. |message| has its bytes until it returns, or cancels the call. |ended| comes exactly
 * once and last; |text| is never NULL. Whether there was exactly one message is for the owner of a unary call to check:
 * RPC_OK does not say so.
 */
struct rpc_handlers {
        void (*message)(struct rpc_call *call, const uint8_t *message, size_t size, void *data); /* may be NULL */
        void (*ended)(struct rpc_call *call, enum rpc_status status, const char *text, void *data);
};

struct rpc_session *rpc_session_new_client(const struct rpc_session_client_options *options);

/*
 * Starts a call with its one request message (a reference is taken). |deadline_ms| is a point of the caller's clock, or
 * RPC_NO_DEADLINE; |now_ms| is that clock now, and their difference travels as grpc-timeout. A call that cannot start
 * any more (the connection is broken or closing) ends with UNAVAILABLE at the next rpc_session_expire(), which
 * rpc_session_next_deadline() then asks for at once; |ended| is never called from within this function.
 */
struct rpc_call *rpc_session_call(struct rpc_session *session, const char *path, struct rpc_message *request,
        int64_t now_ms, int64_t deadline_ms, const struct rpc_handlers *handlers, void *data) MUST_USE;

/* ---- both ---- */

/*
 * Ends every call with |status|: the connection is gone, or will be. Nothing but rpc_session_pending() makes sense
 * afterwards; a server's streams are reset by what it returns.
 */
void rpc_session_end(struct rpc_session *session, enum rpc_status status, const char *text);

/*
 * Ends every call (status UNAVAILABLE) and frees. Must not be called from inside a callback of the session, and no
 * callback may start a call on it any more. Accepts NULL, returns NULL.
 */
struct rpc_session *rpc_session_free(struct rpc_session *session);

/*
 * Bytes from the peer. An error means the connection is beyond saving; send what is pending, then close. Violations
 * that HTTP/2 answers with GOAWAY are not an error here: once that is sent, rpc_session_is_finished() is true.
 */
int rpc_session_receive(
        struct rpc_session *session, const uint8_t *bytes, size_t size, int64_t now_ms, struct error *err) MUST_USE;

/*
 * The next bytes for the peer, about 64 KiB at most: *ret_bytes is valid until the next call of this function, even if
 * the session does other work. Returns their number, 0 when there is nothing to send now. Call until 0, but not while
 * the peer has yet to take the last: what is not asked for is not made, which bounds what a slow reader costs.
 */
size_t rpc_session_pending(struct rpc_session *session, const uint8_t **ret_bytes);

/* The earliest deadline of a call, RPC_NO_DEADLINE without one; and the call to make once it has passed. */
int64_t rpc_session_next_deadline(const struct rpc_session *session);
void rpc_session_expire(struct rpc_session *session, int64_t now_ms);

/*
 * GOAWAY: open streams continue. A server sends it in two steps (RFC 9113 6.8), so that requests on the way are served
 * too; once the peer has answered the first, new ones are ignored.
 */
void rpc_session_drain(struct rpc_session *session);

/*
 * Server: the connection ends. GOAWAY says that no call that is open has begun, so its client may make it elsewhere
 * (RFC 9113 6.8), and grpc-go does so by itself. To be called only where the calls that are open have left nothing.
 */
void rpc_session_give_back(struct rpc_session *session);

/* True when nothing is left to read or to send for: the connection can be closed. */
bool rpc_session_is_finished(struct rpc_session *session);

/*
 * Why the connection ends, as far as is known: our GOAWAY or the peer's. False, and nothing written, if it ends in
 * peace.
 */
bool rpc_session_why(const struct rpc_session *session, struct error *ret_why);

size_t rpc_session_calls(const struct rpc_session *session);

/*
 * Bytes of messages that are not complete yet: at most twice the limit of one message, or it ends the call that goes
 * beyond.
 */
size_t rpc_session_unread(const struct rpc_session *session);

/* True from the moment the peer's SETTINGS have arrived: it speaks HTTP/2. */
bool rpc_session_is_established(const struct rpc_session *session);

/* ---- calls ---- */

/*
 * Server: sends one message (takes a reference) as the peer's windows allow. One that waits behind the message in
 * transmission is replaced: in streams each message stands for the whole (ListAndWatch), so a slow reader costs one
 * message, not one a change. A call that was finished, by its owner or because its deadline passed, ignores what is
 * sent on it until |ended| is called.
 */
void rpc_call_send(struct rpc_call *call, struct rpc_message *message);

/* Server: trailers after what is queued; |text| may be NULL. The call's owner is notified through |ended|. */
void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *text);

/* Server: called exactly once, when the stream is gone for any reason; may be set at most once. */
void rpc_call_on_ended(struct rpc_call *call, void (*ended)(struct rpc_call *call, void *data), void *data);

/* Client: RST_STREAM CANCEL; |ended| comes with RPC_CANCELLED, from within this call. */
void rpc_call_cancel(struct rpc_call *call);

/*
 * The session's owner lets a server find the connection of a call. |wake|, which may be NULL, is called when something
 * was left to send, or to expire, by a function called outside of receive, pending and expire: it may only arm a timer.
 */
void rpc_session_set_owner(struct rpc_session *session, void *owner, void (*wake)(void *owner));
void *rpc_call_owner(struct rpc_call *call);
