/*
 * The server's side of what arrives: a request header, exactly one message, the end of the request. A call that was
 * answered with an error before its request was complete ignores the rest of it.
 */
#include <stdio.h>
#include <string.h>

#include "net/rpc/engine.h"

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
        if (call->output.message || !list_is_empty(&call->output.waiting))
                rpc_call_reset(call, NGHTTP2_CANCEL);
        else
                rpc_call_finish(call, RPC_DEADLINE_EXCEEDED, "deadline exceeded");
}
