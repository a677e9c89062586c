/*
 * The gRPC engine: one HTTP/2 connection, bytes in, bytes out. It owns no socket, no timer and no clock, and knows no
 * message type; rpc/server.h and rpc/client.h put it on sockets.
 *
 * Both roles are the same engine. A server session starts a call for each request that names a known method; a client
 * session starts calls itself. A call passes through
 *
 *         OPEN ──► HALF_CLOSED (the request is complete) ──► ENDED (trailers sent or received, reset, connection gone)
 *
 * and its owner hears of the end exactly once, through |ended|, after which the pointer is dead.
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
#include "rpc/message.h"
#include "rpc/status.h"

struct rpc_session;
struct rpc_call;

struct rpc_limits {
        size_t message;     /* largest payload accepted; default 4 MiB, as grpc-go's */
        size_t header_list; /* bytes of one header list, RFC 9113 way of counting; default 16 KiB */
        uint32_t streams;   /* concurrent streams of one connection; default 100 */
        size_t queued;      /* bytes of control frames waiting to be sent before a peer that does not read is dropped;
                                 default 64 KiB */
};

#define RPC_NO_DEADLINE INT64_MAX

/* ---- server ---- */

/*
 * A method of a service. |handle| gets the one request message (unary and server-streaming calls have exactly one) when it
 * is complete; the bytes are valid during the call only. It answers with rpc_call_send() and rpc_call_finish(), at once or
 * later.
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

int rpc_session_new_server(struct rpc_session **ret, const struct rpc_service *service, struct error *err) MUST_USE;

/* ---- client ---- */

struct rpc_session_client_options {
        const char *authority; /* NULL: "localhost" */
        struct rpc_limits limits;
};

/* What a client call reports. |ended| comes exactly once and last. */
struct rpc_handlers {
        void (*message)(struct rpc_call *call, const uint8_t *message, size_t size, void *data);
        void (*ended)(struct rpc_call *call, enum rpc_status status, const char *text, void *data);
};

int rpc_session_new_client(
        struct rpc_session **ret, const struct rpc_session_client_options *options, struct error *err) MUST_USE;

/*
 * Starts a call with its one request message (a reference is taken). |deadline_ms| is a point of the caller's clock, or
 * RPC_NO_DEADLINE; |now_ms| is that clock now, and their difference travels as grpc-timeout.
 */
int rpc_session_call(struct rpc_session *session, struct rpc_call **ret, const char *path, struct rpc_message *request,
        int64_t now_ms, int64_t deadline_ms, const struct rpc_handlers *handlers, void *data,
        struct error *err) MUST_USE;

/* ---- both ---- */

/* Ends every call (status UNAVAILABLE) and frees. Must not be called from inside a callback of the session. Accepts NULL. */
struct rpc_session *rpc_session_free(struct rpc_session *session);

/* Bytes from the peer. An error means the connection is beyond saving; send what is pending, then close. */
int rpc_session_receive(
        struct rpc_session *session, const uint8_t *bytes, size_t size, int64_t now_ms, struct error *err) MUST_USE;

/*
 * The next bytes for the peer: *ret_bytes is valid until the next call of any function of the session. Returns their number,
 * 0 when there is nothing to send now. Call until 0.
 */
size_t rpc_session_pending(struct rpc_session *session, const uint8_t **ret_bytes);

/* The earliest deadline of a call, RPC_NO_DEADLINE without one; and the call to make once it has passed. */
int64_t rpc_session_next_deadline(const struct rpc_session *session);
void rpc_session_expire(struct rpc_session *session, int64_t now_ms);

/* GOAWAY: no new streams; those open go on. */
void rpc_session_drain(struct rpc_session *session);

/* True when nothing is left to read or to send for: the connection can be closed. */
bool rpc_session_is_finished(struct rpc_session *session);
size_t rpc_session_calls(const struct rpc_session *session);

/* True from the moment the peer's SETTINGS have arrived: it speaks HTTP/2. */
bool rpc_session_is_established(const struct rpc_session *session);

/* ---- calls ---- */

/* Server: sends one message (takes a reference). Messages go out in order, as the peer's windows allow. */
void rpc_call_send(struct rpc_call *call, struct rpc_message *message);

/*
 * Server: like rpc_call_send(), but a message that waits behind the one in transmission is replaced. For streams in which
 * each message stands for the whole (ListAndWatch): a slow reader costs one message, not one a change.
 */
void rpc_call_send_latest(struct rpc_call *call, struct rpc_message *message);

/* Server: trailers after what is queued; |text| may be NULL. The call's owner hears of the end through |ended|. */
void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *text);

/* Server: called exactly once, when the stream is gone for whatever reason; may be set at most once. */
void rpc_call_on_ended(struct rpc_call *call, void (*ended)(struct rpc_call *call, void *data), void *data);

/* Client: RST_STREAM CANCEL; |ended| comes with RPC_CANCELLED, from within this call. */
void rpc_call_cancel(struct rpc_call *call);

/* The session's owner, as given to rpc_session_set_owner(); lets a server find the connection of a call. */
void rpc_session_set_owner(struct rpc_session *session, void *owner);
void *rpc_call_owner(struct rpc_call *call);
