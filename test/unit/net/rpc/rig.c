// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls ---- */

static void on_message(struct rpc_call *call, const uint8_t *message, size_t size, void *data)
{
        struct outcome *outcome = data;

        assert_int_equal(outcome->ended, 0);
        outcome->messages++;
        outcome->bytes += size;
        outcome->last_size = size;
        outcome->first_byte = size ? message[0] : 0;
        if (outcome->cancel_at_message)
                rpc_call_cancel(call);
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct outcome *outcome = data;

        outcome->ended++;
        outcome->status = status;
        snprintf(outcome->text, sizeof(outcome->text), "%s", text);
}

const struct rpc_handlers outcome_handlers = {on_message, on_ended};

struct rpc_message *filled_message(size_t size, int byte)
{
        struct rpc_message *message = rpc_message_new(size);

        memset(rpc_message_payload(message), byte, size);
        return message;
}

/* ---- the service ---- */

static void handle_echo(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct bench *bench = context;
        _cleanup_(rpc_message_unrefp) struct rpc_message *answer = rpc_message_new(size);

        bench->handled++;
        bench->request_size = size;
        memcpy(rpc_message_payload(answer), message, size);
        rpc_call_send(call, answer);
        rpc_call_finish(call, RPC_OK, NULL);
}

static void handle_fail(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context UNUSED)
{
        rpc_call_finish(call, RPC_FAILED_PRECONDITION, "größer als 100%\n");
}

static void handle_drop(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context UNUSED)
{
        rpc_call_finish(call, RPC_OK, NULL);
}

static void on_hold_ended(struct rpc_call *call, void *data)
{
        struct bench *bench = data;

        bench->ended++;
        if (bench->call == call)
                bench->call = NULL;
}

static void handle_hold(struct rpc_call *call, const uint8_t *message UNUSED, size_t size, void *context)
{
        struct bench *bench = context;

        bench->handled++;
        bench->request_size = size;
        bench->call = call;
        rpc_call_on_ended(call, on_hold_ended, bench);
}

struct rpc_service bench_service(struct bench *bench)
{
        static const struct rpc_method methods[] = {
                {"/t.T/Echo", handle_echo},
                {"/t.T/Fail", handle_fail},
                {"/t.T/Hold", handle_hold},
                {"/t.T/Drop", handle_drop},
        };

        return (struct rpc_service){.methods = methods, .n_methods = ARRAY_SIZE(methods), .context = bench};
}

/* ---- two sessions ---- */

void pair_init(struct pair *pair)
{
        const struct rpc_session_client_options options = {0};
        struct rpc_service service;

        *pair = (struct pair){.now_ms = 1000, .step = SIZE_MAX};
        service = bench_service(&pair->bench);
        pair->client = rpc_session_new_client(&options);
        pair->server = rpc_session_new_server(&service);
}

void pair_done(struct pair *pair)
{
        pair->client = rpc_session_free(pair->client);
        pair->server = rpc_session_free(pair->server);
}

struct rpc_call *pair_call(struct pair *pair, const char *path, size_t size, struct outcome *outcome)
{
        _cleanup_(rpc_message_unrefp) struct rpc_message *request = filled_message(size, 'q');

        return rpc_session_call(pair->client, path, request, pair->now_ms, RPC_NO_DEADLINE, &outcome_handlers, outcome);
}

static bool carry(struct pair *pair, struct rpc_session *from, struct rpc_session *to)
{
        const uint8_t *bytes;
        size_t size = rpc_session_pending(from, &bytes);
        bool any = size > 0;
        struct error err;

        while (size > 0) {
                size_t part = MIN(size, pair->step);
                uint8_t *copy = malloc(part); /* so that a sanitizer sees what is read beyond, or kept */

                memcpy(copy, bytes, part);
                assert_ok(rpc_session_receive(to, copy, part, pair->now_ms, &err), &err);
                free(copy);
                bytes += part;
                size -= part;
        }
        return any;
}

void pair_to_server(struct pair *pair)
{
        while (carry(pair, pair->client, pair->server))
                ;
}

void pair_to_client(struct pair *pair)
{
        while (carry(pair, pair->server, pair->client))
                ;
}

void pair_pump(struct pair *pair)
{
        bool any = true;

        while (any) {
                any = carry(pair, pair->client, pair->server);
                any |= carry(pair, pair->server, pair->client);
        }
}

/* ---- a raw peer ---- */

void peer_init(struct peer *peer)
{
        *peer = (struct peer){.out = STRBUF_INIT, .heard = STRBUF_INIT};
        assert_int_equal(nghttp2_hd_deflate_new(&peer->deflater, 4096), 0);
        assert_int_equal(nghttp2_hd_inflate_new(&peer->inflater), 0);
}

void peer_done(struct peer *peer)
{
        nghttp2_hd_deflate_del(peer->deflater);
        nghttp2_hd_inflate_del(peer->inflater);
        strbuf_done(&peer->out);
        strbuf_done(&peer->heard);
}

void peer_frame(struct peer *peer, uint8_t type, uint8_t flags, int32_t stream_id, const void *payload, size_t size)
{
        const uint8_t head[9] = {(uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size, type, flags,
                (uint8_t)(stream_id >> 24), (uint8_t)(stream_id >> 16), (uint8_t)(stream_id >> 8), (uint8_t)stream_id};

        strbuf_append(&peer->out, head, sizeof(head));
        strbuf_append(&peer->out, payload, size);
}

void peer_u32(struct peer *peer, uint8_t type, int32_t stream_id, uint32_t value)
{
        const uint8_t payload[4] = {
                (uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};

        peer_frame(peer, type, 0, stream_id, payload, sizeof(payload));
}

void peer_preface(struct peer *peer)
{
        strbuf_append(&peer->out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        peer_frame(peer, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

void peer_headers(struct peer *peer, uint8_t flags, int32_t stream_id, const struct field *fields)
{
        nghttp2_nv nv[64];
        size_t count = 0;
        uint8_t block[16384];
        ssize_t size;

        for (; fields[count].name; count++) {
                assert_true(count < ARRAY_SIZE(nv));
                nv[count] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)fields[count].name,
                        .namelen = strlen(fields[count].name),
                        .value = (uint8_t *)(uintptr_t)fields[count].value,
                        .valuelen = strlen(fields[count].value)};
        }
        size = nghttp2_hd_deflate_hd(peer->deflater, block, sizeof(block), nv, count);
        assert_true(size >= 0);
        peer_frame(peer, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream_id, block, (size_t)size);
}

void peer_request(struct peer *peer, int32_t stream_id, const char *path, const void *body, size_t size)
{
        const struct field fields[] = {{":method", "POST"}, {":scheme", "http"}, {":path", path},
                {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"}, {NULL, NULL}};

        peer_headers(peer, 0, stream_id, fields);
        peer_frame(peer, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream_id, body, size);
}

int peer_say(struct peer *peer, struct rpc_session *session, struct error *err)
{
        int r = rpc_session_receive(session, (const uint8_t *)peer->out.data, peer->out.size, 1000, err);

        strbuf_clear(&peer->out);
        return r;
}

static void note_field(struct peer *peer, const nghttp2_nv *nv)
{
        const struct {
                const char *name;
                char *to;
                size_t size;
        } noted[] = {
                {":status", peer->http_status, sizeof(peer->http_status)},
                {"grpc-status", peer->grpc_status, sizeof(peer->grpc_status)},
                {"grpc-message", peer->grpc_message, sizeof(peer->grpc_message)},
                {"grpc-timeout", peer->grpc_timeout, sizeof(peer->grpc_timeout)},
                {"grpc-accept-encoding", peer->accept_encoding, sizeof(peer->accept_encoding)},
        };

        for (size_t i = 0; i < ARRAY_SIZE(noted); i++) {
                if (strlen(noted[i].name) == nv->namelen && memcmp(noted[i].name, nv->name, nv->namelen) == 0)
                        snprintf(noted[i].to, noted[i].size, "%.*s", (int)nv->valuelen, nv->value);
        }
}

static void note_headers(struct peer *peer, const uint8_t *block, size_t size)
{
        int flags = 0;

        while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
                nghttp2_nv nv;
                ssize_t used = nghttp2_hd_inflate_hd2(peer->inflater, &nv, &flags, block, size, 1);

                assert_true(used >= 0);
                block += used;
                size -= (size_t)used;
                if (flags & NGHTTP2_HD_INFLATE_EMIT)
                        note_field(peer, &nv);
        }
        nghttp2_hd_inflate_end_headers(peer->inflater);
}

static uint32_t read_u32(const uint8_t *bytes)
{
        return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void note_frame(struct peer *peer, uint8_t type, uint8_t flags, const uint8_t *payload, size_t size)
{
        assert_true(type < ARRAY_SIZE(peer->frames));
        peer->frames[type]++;
        peer->largest_frame = MAX(peer->largest_frame, size);
        switch (type) {
        case NGHTTP2_HEADERS:
                note_headers(peer, payload, size);
                peer->answers += (flags & NGHTTP2_FLAG_END_STREAM) != 0;
                break;
        case NGHTTP2_RST_STREAM:
                peer->resets++;
                peer->reset_code = read_u32(payload);
                break;
        case NGHTTP2_GOAWAY:
                peer->goaways++;
                peer->goaway_last = read_u32(payload);
                peer->goaway_code = read_u32(payload + 4);
                break;
        default:
                break;
        }
}

void peer_hear(struct peer *peer, struct rpc_session *session)
{
        const uint8_t *bytes;
        size_t size;

        while ((size = rpc_session_pending(session, &bytes)) > 0)
                strbuf_append(&peer->heard, bytes, size);
        if (peer->heard.size >= NGHTTP2_CLIENT_MAGIC_LEN && peer->heard.data[0] == 'P')
                strbuf_consume(&peer->heard, NGHTTP2_CLIENT_MAGIC_LEN);
        while (peer->heard.size > 0) {
                const uint8_t *head = (const uint8_t *)peer->heard.data;
                size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

                assert_true(peer->heard.size >= 9 + length); /* the engine sends whole frames */
                note_frame(peer, head[3], head[4], head + 9, length);
                strbuf_consume(&peer->heard, 9 + length);
        }
}
