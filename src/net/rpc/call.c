// SPDX-License-Identifier: Apache-2.0
/*
 * A call: its life, what it sends, and what a server and a client do with what arrives. A message goes out as the
 * peer's windows allow, at most one waits behind it, and the trailers follow the last one.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "net/rpc/engine.h"

struct rpc_call *rpc_call_new(struct rpc_session *session)
{
        struct rpc_call *call = xcalloc(1, sizeof(*call));

        call->session = session;
        call->references = 1;
        call->deadline_ms = RPC_NO_DEADLINE;
        rpc_reader_init(&call->reader, session->limits.message);
        list_append(&session->calls, &call->link);
        session->n_calls++;
        return call;
}

static void rpc_call_unref(struct rpc_call *call)
{
        if (--call->references > 0)
                return;
        rpc_message_unref(call->output.next);
        rpc_message_unref(call->output.message);
        rpc_reader_done(&call->reader);
        free(call->text);
        free(call);
}

/* Gives back the reader's memory. */
static void rpc_call_forget_read(struct rpc_call *call)
{
        call->session->unread -= call->reader.bytes.size;
        rpc_reader_done(&call->reader);
}

void rpc_call_end(struct rpc_call *call, enum rpc_status status, const char *text)
{
        struct rpc_session *session = call->session;

        if (call->has_ended)
                return;
        call->has_ended = true;
        call->is_finished = true;
        list_remove(&call->link);
        session->n_calls--;
        rpc_call_forget_read(call);
        if (call->stream_id > 0)
                nghttp2_session_set_stream_user_data(session->http2, call->stream_id, NULL);
        if (!session->is_server)
                call->handlers.ended(call, status, text, call->data);
        else if (call->ended)
                call->ended(call, call->data);
        rpc_call_unref(call);
}

void rpc_call_reset(struct rpc_call *call, uint32_t http2_error)
{
        call->is_finished = true;
        if (call->stream_id > 0)
                nghttp2_submit_rst_stream(call->session->http2, NGHTTP2_FLAG_NONE, call->stream_id, http2_error);
}

static enum rpc_reader_result rpc_call_read(struct rpc_call *call, const uint8_t **bytes, size_t *size,
        const uint8_t **ret_payload, size_t *ret_payload_size)
{
        struct rpc_session *session = call->session;
        enum rpc_reader_result result;

        session->unread -= call->reader.bytes.size;
        result = rpc_reader_feed(&call->reader, bytes, size, ret_payload, ret_payload_size);
        session->unread += call->reader.bytes.size;
        /* One call may use its whole limit, but not all of them at once. */
        return session->unread > 2 * session->limits.message ? RPC_READER_TOO_LARGE : result;
}

/* ---- sending ---- */

/* It takes the place of one that waits. */
static void rpc_call_enqueue(struct rpc_call *call, struct rpc_message *message)
{
        rpc_message_unref(call->output.next);
        call->output.next = rpc_message_ref(message);
}

static size_t add_status(nghttp2_nv *fields, const struct rpc_call *call, char digits[static 4], struct strbuf *text)
{
        size_t count = 0;

        snprintf(digits, 4, "%u", (unsigned int)call->status & 0xff);
        fields[count++] = RPC_FIELD("grpc-status", digits, strlen(digits), 0);
        if (call->text && call->text[0]) {
                rpc_message_encode(call->text, text);
                fields[count++] = RPC_FIELD("grpc-message", text->data, text->size, NGHTTP2_NV_FLAG_NO_INDEX);
        }
        return count;
}

static void submit_trailers(struct rpc_call *call)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        nghttp2_nv fields[2];
        char digits[4];
        size_t count = add_status(fields, call, digits, &text);
        int r = nghttp2_submit_trailer(call->session->http2, call->stream_id, fields, count);

        assert(r == 0);
}

/* One header list that is the whole answer. */
static void submit_trailers_only(struct rpc_call *call, const char *http_status)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        nghttp2_nv fields[5] = {
                RPC_FIELD(":status", http_status, strlen(http_status), 0),
                RPC_FIELD_STATIC("content-type", "application/grpc"),
        };
        char digits[4];
        size_t count = 2 + add_status(fields + 2, call, digits, &text);
        int r;

        if (call->status == RPC_UNIMPLEMENTED)
                fields[count++] = RPC_FIELD_STATIC("grpc-accept-encoding", "identity");
        r = nghttp2_submit_response(call->session->http2, call->stream_id, fields, count, NULL);
        assert(r == 0);
        call->has_answered = true;
}

/*
 * nghttp2 calls this for the next DATA frame. The bytes do not pass through its buffer: rpc_call_put_data() copies them
 * once, from the message to the output. A frame never holds parts of two messages, which keeps this simple and costs
 * nothing where messages are answers.
 */
static ssize_t rpc_call_next_data(nghttp2_session *http2, int32_t stream_id, uint8_t *buffer UNUSED, size_t length,
        uint32_t *flags, nghttp2_data_source *source UNUSED, void *user_data UNUSED)
{
        struct rpc_call *call = nghttp2_session_get_stream_user_data(http2, stream_id);
        size_t size;

        if (!call)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* ended; its reset is on the way */
        if (!call->output.message) {
                call->output.message = TAKE_PTR(call->output.next);
                call->output.sent = 0;
        }
        if (!call->output.message)
                return NGHTTP2_ERR_DEFERRED;
        size = MIN(length, call->output.message->size - call->output.sent);
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        if (call->is_finished && size == call->output.message->size - call->output.sent && !call->output.next) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                if (call->session->is_server) {
                        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                        submit_trailers(call);
                }
        }
        return (ssize_t)size;
}

static void submit_response(struct rpc_call *call)
{
        const nghttp2_nv fields[] = {
                RPC_FIELD_STATIC(":status", "200"),
                RPC_FIELD_STATIC("content-type", "application/grpc"),
        };
        const nghttp2_data_provider provider = {.read_callback = rpc_call_next_data};
        int r = nghttp2_submit_response(call->session->http2, call->stream_id, fields, ARRAY_SIZE(fields), &provider);

        assert(r == 0);
        call->has_answered = true;
}

int rpc_call_put_data(struct rpc_call *call, const uint8_t *frame_header, size_t length, struct strbuf *out)
{
        if (!call || !call->output.message)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        strbuf_reserve(out, 9 + length);
        strbuf_append(out, frame_header, 9);
        strbuf_append(out, call->output.message->bytes + call->output.sent, length);
        call->output.sent += length;
        if (call->output.sent == call->output.message->size)
                call->output.message = rpc_message_unref(call->output.message);
        return 0;
}

/* ---- what the owner of a server call does ---- */

void rpc_call_send(struct rpc_call *call, struct rpc_message *message)
{
        assert(call->session->is_server);
        if (call->is_finished)
                return;
        rpc_call_enqueue(call, message);
        if (!call->has_answered)
                submit_response(call);
        else
                nghttp2_session_resume_data(call->session->http2, call->stream_id); /* no error if not deferred */
        rpc_session_wake(call->session);
}

static void set_status(struct rpc_call *call, enum rpc_status status, const char *text)
{
        call->is_finished = true;
        call->status = status;
        call->text = xstrdup(text);
}

static void rpc_call_refuse(struct rpc_call *call, const char *http_status, enum rpc_status status, const char *text)
{
        assert(!call->has_answered);
        set_status(call, status, text);
        submit_trailers_only(call, http_status);
}

void rpc_call_finish(struct rpc_call *call, enum rpc_status status, const char *text)
{
        assert(call->session->is_server);
        if (call->is_finished)
                return;
        if (!call->has_answered && status != RPC_OK) {
                rpc_call_refuse(call, "200", status, text);
        } else {
                set_status(call, status, text);
                if (!call->has_answered)
                        submit_response(call);
                if (!call->output.message && !call->output.next)
                        submit_trailers(call);
                /* else rpc_call_next_data() does, with the last of the messages */
        }
        rpc_session_wake(call->session);
}

void rpc_call_on_ended(struct rpc_call *call, void (*ended)(struct rpc_call *call, void *data), void *data)
{
        assert(call->session->is_server && !call->ended);
        call->ended = ended;
        call->data = data;
}

void *rpc_call_owner(struct rpc_call *call)
{
        return call->session->owner;
}

/*
 * ---- what arrives at a server: a request header, exactly one message, the end of the request ----
 *
 * A call that was answered with an error before its request was complete ignores the rest of it.
 */

static const struct rpc_method *find_method(const struct rpc_service *service, const char *path)
{
        for (size_t i = 0; i < service->n_methods; i++) {
                if (strcmp(service->methods[i].path, path) == 0)
                        return &service->methods[i];
        }
        return NULL;
}

void rpc_request_head(struct rpc_call *call)
{
        struct rpc_session *session = call->session;
        const struct rpc_head *head = &session->head;
        struct rpc_refusal refusal;

        if (rpc_head_is_malformed(head)) {
                rpc_session_offend(session);
                rpc_call_reset(call, NGHTTP2_PROTOCOL_ERROR);
                return;
        }
        if (rpc_head_is_refused(head, &refusal)) {
                rpc_call_refuse(call, refusal.http_status, refusal.status, refusal.text);
                return;
        }
        call->method = find_method(&session->service, head->path);
        if (!call->method) {
                snprintf(refusal.text, sizeof(refusal.text), "unknown method %s", head->path);
                rpc_call_refuse(call, "200", RPC_UNIMPLEMENTED, refusal.text);
                return;
        }
        if (head->has_timeout)
                call->deadline_ms = session->now_ms + head->timeout_ns / 1000000 + (head->timeout_ns % 1000000 != 0);
}

void rpc_request_bad_trailers(struct rpc_call *call)
{
        rpc_session_offend(call->session);
        rpc_call_reset(call, NGHTTP2_PROTOCOL_ERROR);
}

void rpc_request_data(struct rpc_call *call, const uint8_t *bytes, size_t size)
{
        char text[128];

        if (call->is_finished)
                return;
        if (call->request.is_whole) {
                rpc_call_finish(call, RPC_UNIMPLEMENTED, "more than one request message");
                return;
        }
        switch (rpc_call_read(call, &bytes, &size, &call->request.bytes, &call->request.size)) {
        case RPC_READER_MORE:
                return;
        case RPC_READER_MESSAGE:
                call->request.is_whole = true;
                if (size > 0)
                        rpc_call_finish(call, RPC_UNIMPLEMENTED, "more than one request message");
                return;
        case RPC_READER_TOO_LARGE:
                snprintf(text, sizeof(text), "request message too large, at most %zu bytes are accepted",
                        call->reader.limit);
                rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, text);
                break;
        case RPC_READER_COMPRESSED:
                rpc_call_finish(call, RPC_UNIMPLEMENTED, "compressed request message");
                break;
        case RPC_READER_BAD_FLAG:
                rpc_call_finish(call, RPC_INTERNAL, "request message with a bad compressed flag");
                break;
        }
        rpc_call_forget_read(call);
}

void rpc_request_end(struct rpc_call *call)
{
        if (call->is_finished)
                return;
        if (!call->request.is_whole) {
                if (rpc_reader_is_partial(&call->reader))
                        rpc_call_finish(call, RPC_INTERNAL, "truncated request message");
                else
                        rpc_call_finish(call, RPC_UNIMPLEMENTED, "no request message");
                return;
        }
        call->method->handle(call, call->request.bytes, call->request.size, call->session->service.context);
        rpc_call_forget_read(call);
}

void rpc_request_expire(struct rpc_call *call)
{
        call->deadline_ms = RPC_NO_DEADLINE;
        /* Trailers cannot follow half a message, and what the peer did not read in time it will not read now. */
        if (call->output.message || call->output.next)
                rpc_call_reset(call, NGHTTP2_CANCEL);
        else
                rpc_call_finish(call, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
}

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

/* ---- the client's side: starting ---- */

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

/* ---- the client's side: what arrives ---- */

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
