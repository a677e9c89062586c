/*
 * The client's side: starting a call, and what arrives for it. A call ends as soon as its outcome is known; what still
 * arrives on its stream is ignored.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "net/rpc/engine.h"

static void end_with(struct rpc_call *call, uint32_t http2_error, enum rpc_status status, const char *text)
{
        nghttp2_session *http2 = call->session->http2;

        /* A server may answer before it has read all of the request: then our half is still open. */
        if (!call->is_remote_closed || nghttp2_session_get_stream_local_close(http2, call->stream_id) == 0)
                rpc_call_reset(call, http2_error);
        rpc_call_end(call, status, text);
}

static void response_fail(struct rpc_call *call, enum rpc_status status, const char *text)
{
        end_with(call, NGHTTP2_CANCEL, status, text);
}

/* ---- starting ---- */

/* A call that cannot start: it ends at the next rpc_session_expire(), never from within the call that makes it. */
static void response_end_later(struct rpc_call *call, enum rpc_status status, const char *text)
{
        call->status = status;
        call->text = xstrdup(text);
        call->deadline_ms = call->session->now_ms;
}

static void response_start(struct rpc_call *call, const char *path, struct rpc_message *request)
{
        struct rpc_session *session = call->session;
        const nghttp2_data_provider provider = {.read_callback = rpc_call_next_data};
        nghttp2_nv fields[8] = {
                RPC_FIELD_STATIC(":method", "POST"),
                RPC_FIELD_STATIC(":scheme", "http"),
                RPC_FIELD(":path", path, strlen(path), 0),
                RPC_FIELD(":authority", session->authority, strlen(session->authority), 0),
                RPC_FIELD_STATIC("content-type", "application/grpc"),
                RPC_FIELD_STATIC("user-agent", "grpc-c-warpshare/" WARPSHARE_VERSION),
                RPC_FIELD_STATIC("te", "trailers"),
        };
        size_t count = 7;
        char timeout[10];

        if (call->deadline_ms != RPC_NO_DEADLINE) {
                rpc_timeout_format((uint64_t)(call->deadline_ms - session->now_ms), timeout);
                fields[count++] = RPC_FIELD("grpc-timeout", timeout, strlen(timeout), 0);
        }
        call->is_finished = true; /* nothing follows the request */
        rpc_call_enqueue(call, request);
        call->stream_id = nghttp2_submit_request(session->http2, NULL, fields, count, &provider, call);
        if (call->stream_id < 0) {
                response_end_later(call, RPC_UNAVAILABLE, nghttp2_strerror(call->stream_id));
                call->stream_id = 0;
        }
}

struct rpc_call *rpc_session_call(struct rpc_session *session, const char *path, struct rpc_message *request,
        int64_t now_ms, int64_t deadline_ms, const struct rpc_handlers *handlers, void *data)
{
        struct rpc_call *call = rpc_call_new(session);

        assert(!session->is_server && handlers->ended);
        session->now_ms = now_ms;
        call->handlers = *handlers;
        call->data = data;
        call->deadline_ms = deadline_ms;
        if (session->is_broken || session->is_draining || !nghttp2_session_check_request_allowed(session->http2))
                response_end_later(
                        call, RPC_UNAVAILABLE, session->why.kind ? session->why.text : "the connection is closing");
        else if (deadline_ms <= now_ms)
                response_end_later(call, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
        else
                response_start(call, path, request);
        rpc_session_wake(session);
        return call;
}

void rpc_call_cancel(struct rpc_call *call)
{
        struct rpc_session *session = call->session;

        assert(!session->is_server);
        response_fail(call, RPC_CANCELLED, "cancelled");
        rpc_session_wake(session);
}

/* ---- what arrives ---- */

static void end_by_status(struct rpc_call *call, const struct rpc_head *head)
{
        if (head->status == RPC_OK && rpc_reader_is_partial(&call->reader))
                response_fail(call, RPC_INTERNAL, "truncated response message");
        else if (!head->has_status)
                response_fail(call, RPC_UNKNOWN, "trailers without grpc-status");
        else
                end_with(call, NGHTTP2_NO_ERROR, head->status, head->message.data);
}

void rpc_response_head(struct rpc_call *call)
{
        const struct rpc_head *head = &call->session->head;
        bool is_last = call->is_remote_closed;
        char text[64];

        if (rpc_head_is_too_large(head)) {
                response_fail(call, RPC_RESOURCE_EXHAUSTED, "response header list too large");
                return;
        }
        if (rpc_head_is_malformed(head)) {
                end_with(call, NGHTTP2_PROTOCOL_ERROR, RPC_INTERNAL, "malformed response header list");
                return;
        }
        if (call->has_response) {
                if (is_last)
                        end_by_status(call, head);
                else
                        response_fail(call, RPC_INTERNAL, "a second response header list");
                return;
        }
        if (head->http_status < 200 && !is_last)
                return; /* informational: another follows */
        call->has_response = true;
        if (head->has_status && is_last) {
                end_by_status(call, head);
        } else if (head->http_status != 200) {
                snprintf(text, sizeof(text), "unexpected HTTP status %u", head->http_status);
                response_fail(call, rpc_status_of_http(head->http_status), text);
        } else if (!head->is_grpc) {
                response_fail(call, RPC_UNKNOWN, "content-type of the response is not application/grpc");
        } else if (is_last) {
                response_fail(call, RPC_INTERNAL, "response without grpc-status");
        }
}

void rpc_response_data(struct rpc_call *call, const uint8_t *bytes, size_t size)
{
        const uint8_t *payload;
        size_t payload_size;
        bool more = call->has_response;

        call->references++; /* the owner may cancel from within |message| */
        while (more && !call->has_ended) {
                switch (rpc_call_read(call, &bytes, &size, &payload, &payload_size)) {
                case RPC_READER_MORE:
                        more = false;
                        break;
                case RPC_READER_MESSAGE:
                        if (call->handlers.message)
                                call->handlers.message(call, payload, payload_size, call->data);
                        break;
                case RPC_READER_TOO_LARGE:
                        response_fail(call, RPC_RESOURCE_EXHAUSTED, "response message too large");
                        break;
                case RPC_READER_COMPRESSED:
                        response_fail(call, RPC_INTERNAL, "compressed response message, though none was asked for");
                        break;
                case RPC_READER_BAD_FLAG:
                        response_fail(call, RPC_INTERNAL, "response message with a bad compressed flag");
                        break;
                }
        }
        rpc_call_unref(call);
}

void rpc_response_end(struct rpc_call *call)
{
        response_fail(call, RPC_INTERNAL, "the server closed the stream without sending trailers");
}

void rpc_response_reset(struct rpc_call *call, uint32_t http2_error)
{
        char text[96];
        enum rpc_status status = rpc_status_of_reset(http2_error);

        /* A server cancels a call whose deadline has passed, and it may be quicker at that than we are. */
        if (http2_error == NGHTTP2_CANCEL && call->deadline_ms <= call->session->now_ms)
                status = RPC_DEADLINE_EXCEEDED;
        snprintf(text, sizeof(text), "stream closed with %s", nghttp2_http2_strerror(http2_error));
        rpc_call_end(call, status, text);
}

void rpc_response_expire(struct rpc_call *call)
{
        if (call->stream_id == 0)
                rpc_call_end(call, call->status, call->text);
        else
                response_fail(call, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
}
