// SPDX-License-Identifier: Apache-2.0
/*
 * The connection. nghttp2 keeps the HTTP/2 state; here its callbacks are turned into what calls understand, and what it
 * does not bound is bounded: streams that a peer breaks or abandons without end, and control frames that it does not
 * read.
 */
#include "net/rpc/session.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "net/rpc/engine.h"

#define OUTPUT_SIZE 65536 /* at which rpc_session_pending() stops gathering frames */
#define KEPT_OUTPUT 4096  /* an idle connection keeps no larger buffer */
#define INPUT_SLICE 16384 /* after which the bounds are looked at again */
#define HEADER_FLOOD 4    /* a header list of so many times the limit ends the connection */
#define FRAME_COST 64     /* what one queued control frame counts: about its memory, more than its bytes */

/* ---- small ---- */

void rpc_session_wake(struct rpc_session *session)
{
        if (session->wake && session->busy == 0)
                session->wake(session->owner);
}

static void set_why(struct rpc_session *session, const char *who, const nghttp2_goaway *goaway)
{
        char reason[128];
        size_t size = 0;

        /* Debug data is the peer's: printable characters only, and not many. */
        for (size_t i = 0; i < goaway->opaque_data_len && size < sizeof(reason) - 1; i++) {
                if (goaway->opaque_data[i] >= 0x20 && goaway->opaque_data[i] < 0x7f)
                        reason[size++] = (char)goaway->opaque_data[i];
        }
        reason[size] = '\0';
        error_set(&session->why, ERROR_UNAVAILABLE, "%s %s%s%s", who, nghttp2_http2_strerror(goaway->error_code),
                size ? ": " : "", reason);
}

void rpc_session_offend(struct rpc_session *session)
{
        if (++session->offences <= RPC_OFFENCES)
                return;
        nghttp2_session_terminate_session(session->http2, NGHTTP2_ENHANCE_YOUR_CALM);
        error_set(&session->why, ERROR_UNAVAILABLE, "the peer breaks or abandons its streams");
        session->is_broken = true; /* not only once the GOAWAY is sent: the peer may not read it */
}

static struct rpc_call *find_call(struct rpc_session *session, int32_t stream_id)
{
        return nghttp2_session_get_stream_user_data(session->http2, stream_id);
}

/* ---- nghttp2's callbacks ---- */

/* Only ever HEADERS: nghttp2 refuses pushes by itself, since our SETTINGS do. */
static int on_begin_headers(nghttp2_session *http2, const nghttp2_frame *frame, void *user_data)
{
        struct rpc_session *session = user_data;
        struct rpc_call *call = find_call(session, frame->hd.stream_id);

        if (session->is_server && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
                rpc_head_begin(&session->head, RPC_HEAD_REQUEST);
                call = rpc_call_new(session);
                call->stream_id = frame->hd.stream_id;
                nghttp2_session_set_stream_user_data(http2, call->stream_id, call);
        } else if (!session->is_server && call && !call->has_response) {
                rpc_head_begin(&session->head, RPC_HEAD_RESPONSE);
        } else {
                rpc_head_begin(&session->head, RPC_HEAD_TRAILERS);
        }
        return 0;
}

static int session_on_header(nghttp2_session *http2 UNUSED, const nghttp2_frame *frame UNUSED, const uint8_t *name,
        size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags UNUSED, void *user_data)
{
        struct rpc_session *session = user_data;
        size_t most = HEADER_FLOOD * session->limits.header_list;

        rpc_head_add(&session->head, (const char *)name, name_size, (const char *)value, value_size);
        if (session->head.size <= most)
                return 0;
        /*
         * HPACK makes kilobytes of each byte: a well-behaved peer does not exceed what our SETTINGS allow by that much.
         */
        nghttp2_session_terminate_session(session->http2, NGHTTP2_ENHANCE_YOUR_CALM);
        error_set(&session->why, ERROR_UNAVAILABLE, "the peer sends header lists of more than %zu bytes", most);
        session->is_broken = true;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *http2 UNUSED, uint8_t flags UNUSED, int32_t stream_id, const uint8_t *bytes,
        size_t size, void *user_data)
{
        struct rpc_session *session = user_data;
        struct rpc_call *call = find_call(session, stream_id);

        if (call && size > 0) {
                if (session->is_server)
                        rpc_request_data(call, bytes, size);
                else
                        rpc_response_data(call, bytes, size);
        }
        return 0;
}

/* HEADERS and DATA, the whole frame. |call| may end in here. */
static void on_stream_frame(struct rpc_session *session, const nghttp2_frame *frame)
{
        struct rpc_call *call = find_call(session, frame->hd.stream_id);
        bool is_head = frame->hd.type == NGHTTP2_HEADERS;
        bool is_last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

        if (!call)
                return;
        call->is_remote_closed = is_last;
        if (!session->is_server) {
                if (is_head)
                        rpc_response_head(call);
                else if (is_last)
                        rpc_response_end(call);
                return;
        }
        if (is_head && session->head.kind == RPC_HEAD_REQUEST)
                rpc_request_head(call);
        else if (is_head && (!is_last || rpc_head_is_malformed(&session->head)))
                rpc_request_bad_trailers(call);
        if (is_last)
                rpc_request_end(call);
}

static void on_ping_answer(struct rpc_session *session)
{
        nghttp2_session *http2 = session->http2;

        if (session->is_server && session->is_draining)
                nghttp2_submit_goaway(http2, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(http2),
                        NGHTTP2_NO_ERROR, NULL, 0);
}

static int on_frame(nghttp2_session *http2 UNUSED, const nghttp2_frame *frame, void *user_data)
{
        struct rpc_session *session = user_data;
        struct rpc_call *call;

        switch (frame->hd.type) {
        case NGHTTP2_HEADERS:
        case NGHTTP2_DATA:
                on_stream_frame(session, frame);
                break;
        case NGHTTP2_SETTINGS:
                session->is_established = true;
                break;
        case NGHTTP2_PING:
                if (frame->hd.flags & NGHTTP2_FLAG_ACK)
                        on_ping_answer(session);
                break;
        case NGHTTP2_RST_STREAM:
                call = find_call(session, frame->hd.stream_id);
                if (session->is_server && call && !call->is_finished)
                        rpc_session_offend(session);
                break;
        case NGHTTP2_GOAWAY:
                if (frame->goaway.error_code != NGHTTP2_NO_ERROR)
                        set_why(session, "the peer ended the connection with", &frame->goaway);
                break;
        default:
                break;
        }
        return 0;
}

static int on_invalid_frame(
        nghttp2_session *http2 UNUSED, const nghttp2_frame *frame UNUSED, int code UNUSED, void *user_data)
{
        rpc_session_offend(user_data);
        return 0;
}

static int on_frame_sent(nghttp2_session *http2, const nghttp2_frame *frame, void *user_data)
{
        struct rpc_session *session = user_data;
        int32_t stream_id = frame->hd.stream_id;

        if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
                set_why(session, "connection ended with", &frame->goaway);
        if (!session->is_server || frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
                return 0;
        /* Trailers. Answered before the request was complete: the rest is not wanted (RFC 9113 8.1). */
        if (nghttp2_session_get_stream_remote_close(http2, stream_id) == 0)
                nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_NO_ERROR);
        else if (session->offences > 0)
                session->offences--;
        return 0;
}

static int on_stream_close(nghttp2_session *http2 UNUSED, int32_t stream_id, uint32_t http2_error, void *user_data)
{
        struct rpc_session *session = user_data;
        struct rpc_call *call = find_call(session, stream_id);

        if (!call)
                return 0;
        if (session->is_server)
                rpc_call_end(call, RPC_OK, "");
        else
                rpc_response_reset(call, http2_error);
        return 0;
}

/* A request that never became a stream: no close follows. */
static int on_frame_not_sent(nghttp2_session *http2, const nghttp2_frame *frame, int code, void *user_data)
{
        struct rpc_session *session = user_data;
        struct rpc_call *call;

        if (session->is_server || frame->hd.type != NGHTTP2_HEADERS)
                return 0;
        call = nghttp2_session_get_stream_user_data(http2, frame->hd.stream_id);
        if (call)
                rpc_call_end(call, RPC_UNAVAILABLE, nghttp2_strerror(code));
        return 0;
}

static int on_send_data(nghttp2_session *http2 UNUSED, nghttp2_frame *frame, const uint8_t *frame_header, size_t length,
        nghttp2_data_source *source UNUSED, void *user_data)
{
        struct rpc_session *session = user_data;
        int r = rpc_call_put_data(find_call(session, frame->hd.stream_id), frame_header, length, &session->out);

        /* A pause after the frame, not instead of it: the windows may be large, the output is not. */
        return r == 0 && session->out.size >= OUTPUT_SIZE ? NGHTTP2_ERR_PAUSE : r;
}

/* ---- making and freeing ---- */

static void *allocate(size_t size, void *user_data UNUSED)
{
        return xmalloc(size);
}

static void session_release(void *pointer, void *user_data UNUSED)
{
        free(pointer);
}

static void *allocate_zeroed(size_t count, size_t size, void *user_data UNUSED)
{
        return xcalloc(count, size);
}

static void *reallocate(void *pointer, size_t size, void *user_data UNUSED)
{
        return xrealloc(pointer, size);
}

static void open_http2(struct rpc_session *session)
{
        nghttp2_mem memory = {NULL, allocate, session_release, allocate_zeroed, reallocate};
        nghttp2_session_callbacks *callbacks;
        nghttp2_option *option;
        int r;

        /* These calls fail only without memory, and the allocator cannot fail. */
        r = nghttp2_session_callbacks_new(&callbacks);
        assert(r == 0);
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, session_on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
        r = nghttp2_option_new(&option);
        assert(r == 0);
        nghttp2_option_set_no_http_messaging(option, 1); /* net/rpc/head.c does it, and lets every :authority pass */
        nghttp2_option_set_no_closed_streams(option, 1);
        if (session->is_server)
                r = nghttp2_session_server_new3(&session->http2, callbacks, session, option, &memory);
        else
                r = nghttp2_session_client_new3(&session->http2, callbacks, session, option, &memory);
        assert(r == 0);
        nghttp2_option_del(option);
        nghttp2_session_callbacks_del(callbacks);
}

static struct rpc_session *session_new(const struct rpc_limits *limits, bool is_server)
{
        struct rpc_session *session = xcalloc(1, sizeof(*session));

        session->is_server = is_server;
        session->limits.message = limits->message ? limits->message : 4 * 1024 * 1024;
        session->limits.header_list = limits->header_list ? limits->header_list : 16 * 1024;
        session->limits.streams = limits->streams ? limits->streams : 100;
        session->limits.queued = limits->queued ? limits->queued : 64 * 1024;
        session->out = (struct strbuf)STRBUF_INIT;
        list_init(&session->calls);
        rpc_head_init(&session->head, session->limits.header_list);
        open_http2(session);
        return session;
}

static void submit_settings(struct rpc_session *session, int32_t id, uint32_t value)
{
        const nghttp2_settings_entry settings[] = {
                {id, value},
                {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)MIN(session->limits.header_list, UINT32_MAX)},
        };
        int r = nghttp2_submit_settings(session->http2, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));

        assert(r == 0);
}

struct rpc_session *rpc_session_new_server(const struct rpc_service *service)
{
        struct rpc_session *session = session_new(&service->limits, true);

        session->service = *service;
        submit_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, session->limits.streams);
        return session;
}

struct rpc_session *rpc_session_new_client(const struct rpc_session_client_options *options)
{
        struct rpc_session *session = session_new(&options->limits, false);

        session->authority = xstrdup(options->authority ? options->authority : "localhost");
        submit_settings(session, NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
        return session;
}

size_t rpc_session_unread(const struct rpc_session *session)
{
        return session->unread;
}

void rpc_session_end(struct rpc_session *session, enum rpc_status status, const char *text)
{
        struct list calls;

        session->is_broken = true;
        if (!session->why.kind)
                error_set(&session->why, ERROR_UNAVAILABLE, "%s", text);
        /* Taken as a whole first: a callback may end other calls, or start one, which is not for this loop. */
        list_init(&calls);
        while (!list_is_empty(&session->calls)) {
                struct list *link = session->calls.next;

                list_remove(link);
                list_append(&calls, link);
        }
        while (!list_is_empty(&calls)) {
                struct rpc_call *call = container_of(calls.next, struct rpc_call, link);

                if (session->is_server)
                        rpc_call_reset(call, NGHTTP2_CANCEL);
                rpc_call_end(call, status, text);
        }
}

struct rpc_session *rpc_session_free(struct rpc_session *session)
{
        if (!session)
                return NULL;
        assert(session->busy == 0);
        rpc_session_end(session, RPC_UNAVAILABLE, session->why.kind ? session->why.text : "connection closed");
        assert(list_is_empty(&session->calls));
        nghttp2_session_del(session->http2);
        rpc_head_done(&session->head);
        strbuf_done(&session->out);
        free(session->authority);
        free(session);
        return NULL;
}

/* ---- bytes ---- */

int rpc_session_receive(
        struct rpc_session *session, const uint8_t *bytes, size_t size, int64_t now_ms, struct error *err)
{
        size_t most = session->limits.queued / FRAME_COST;
        ssize_t r = 0;

        session->now_ms = now_ms;
        session->busy++;
        while (size > 0 && r >= 0 && !session->is_broken) {
                r = nghttp2_session_mem_recv(session->http2, bytes, MIN(size, INPUT_SLICE));
                if (r < 0 && session->is_broken) {
                        break; /* it is known why */
                } else if (r < 0) {
                        error_set(&session->why, ERROR_UNAVAILABLE, "HTTP/2: %s", nghttp2_strerror((int)r));
                } else if (session->is_server && nghttp2_session_get_outbound_queue_size(session->http2) > most) {
                        r = error_set(&session->why, ERROR_UNAVAILABLE, "the peer does not read what it asks for");
                } else {
                        bytes += r;
                        size -= (size_t)r;
                }
        }
        session->busy--;
        if (r < 0)
                session->is_broken = true;
        if (session->is_broken) {
                *err = session->why;
                return -1;
        }
        return 0;
}

size_t rpc_session_pending(struct rpc_session *session, const uint8_t **ret_bytes)
{
        struct strbuf *out = &session->out;

        strbuf_clear(out);
        session->busy++;
        while (out->size < OUTPUT_SIZE) {
                const uint8_t *bytes;
                size_t before = out->size;
                ssize_t size = nghttp2_session_mem_send(session->http2, &bytes);

                if (size < 0) {
                        error_set(&session->why, ERROR_UNAVAILABLE, "HTTP/2: %s", nghttp2_strerror((int)size));
                        session->is_broken = true;
                        break;
                }
                strbuf_append(out, bytes, (size_t)size);
                if (out->size == before)
                        break;
        }
        session->busy--;
        if (out->size == 0 && out->capacity > KEPT_OUTPUT)
                strbuf_done(out);
        *ret_bytes = (const uint8_t *)out->data;
        return out->size;
}

/* ---- time, and the end ---- */

int64_t rpc_session_next_deadline(const struct rpc_session *session)
{
        int64_t deadline_ms = RPC_NO_DEADLINE;

        LIST_FOR_EACH(link, &session->calls)
                deadline_ms = MIN(deadline_ms, container_of(link, struct rpc_call, link)->deadline_ms);
        return deadline_ms;
}

static struct rpc_call *find_expired(struct rpc_session *session)
{
        LIST_FOR_EACH(link, &session->calls) {
                struct rpc_call *call = container_of(link, struct rpc_call, link);

                if (call->deadline_ms <= session->now_ms)
                        return call;
        }
        return NULL;
}

void rpc_session_expire(struct rpc_session *session, int64_t now_ms)
{
        size_t most = session->n_calls; /* one that a callback starts too late is for the next time */
        struct rpc_call *call;

        session->now_ms = now_ms;
        session->busy++;
        for (size_t i = 0; i < most && (call = find_expired(session)); i++) {
                if (session->is_server)
                        rpc_request_expire(call);
                else
                        rpc_response_expire(call);
        }
        session->busy--;
}

void rpc_session_drain(struct rpc_session *session)
{
        if (session->is_draining)
                return;
        session->is_draining = true;
        if (session->is_server) {
                nghttp2_submit_shutdown_notice(session->http2);
                nghttp2_submit_ping(session->http2, NGHTTP2_FLAG_NONE, NULL); /* then on_ping_answer() */
        } else {
                nghttp2_submit_goaway(session->http2, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
        }
        rpc_session_wake(session);
}

void rpc_session_give_back(struct rpc_session *session)
{
        int32_t last = nghttp2_session_get_last_proc_stream_id(session->http2);

        LIST_FOR_EACH(link, &session->calls)
                last = MIN(last, container_of(link, struct rpc_call, link)->stream_id - 2); /* a client's are odd */
        nghttp2_session_terminate_session2(session->http2, MAX(last, 0), NGHTTP2_NO_ERROR);
        rpc_session_wake(session);
}

bool rpc_session_is_finished(struct rpc_session *session)
{
        if (nghttp2_session_want_write(session->http2))
                return false;
        return session->is_broken || !nghttp2_session_want_read(session->http2);
}

bool rpc_session_why(const struct rpc_session *session, struct error *ret_why)
{
        if (session->why.kind)
                *ret_why = session->why;
        return session->why.kind != ERROR_NONE;
}

size_t rpc_session_calls(const struct rpc_session *session)
{
        return session->n_calls;
}

bool rpc_session_is_established(const struct rpc_session *session)
{
        return session->is_established;
}

void rpc_session_set_owner(struct rpc_session *session, void *owner, void (*wake)(void *owner))
{
        session->owner = owner;
        session->wake = wake;
}
