// SPDX-License-Identifier: Apache-2.0
/*
 * What the tests of the engine share: a client and a server session joined in memory, and a raw HTTP/2 peer that says
 * whatever a test wants, right or wrong, and notes what it is told.
 */
#pragma once

#include "unit.h"

#include <nghttp2/nghttp2.h>

#include "base/strbuf.h"
#include "net/rpc/session.h"

/* ---- what a client call reported ---- */

struct outcome {
        unsigned int messages;
        size_t bytes; /* of all messages */
        size_t last_size;
        uint8_t first_byte; /* of the last message */
        unsigned int ended;
        enum rpc_status status;
        char text[256];
        bool cancel_at_message;
};

extern const struct rpc_handlers outcome_handlers; /* |data| is a struct outcome */

struct rpc_message *filled_message(size_t size, int byte);

/* ---- a service that can do what the tests need ---- */

struct bench {
        struct rpc_call *call; /* of the last Hold */
        unsigned int handled;
        unsigned int ended;
        size_t request_size;
};

/*
 * /t.T/Echo answers at once, /t.T/Fail with an error at once, /t.T/Hold not at all: the test does, through bench->call;
 * /t.T/Drop finishes OK without a message.
 */
struct rpc_service bench_service(struct bench *bench);

/* ---- two sessions ---- */

struct pair {
        struct rpc_session *client, *server;
        struct bench bench;
        int64_t now_ms;
        size_t step; /* bytes that one receive gets at most */
};

void pair_init(struct pair *pair);
void pair_done(struct pair *pair);
struct rpc_call *pair_call(struct pair *pair, const char *path, size_t size, struct outcome *outcome);

/* Both ways until nobody has anything to say. */
void pair_pump(struct pair *pair);
void pair_to_server(struct pair *pair);
void pair_to_client(struct pair *pair);

/* ---- a raw peer ---- */

struct field {
        const char *name, *value;
};

struct peer {
        nghttp2_hd_deflater *deflater;
        nghttp2_hd_inflater *inflater;
        struct strbuf out;   /* what it has said and not delivered */
        struct strbuf heard; /* cut off frames */
        unsigned int frames[10];
        size_t largest_frame;
        unsigned int resets;
        uint32_t reset_code;
        unsigned int goaways;
        uint32_t goaway_code;
        uint32_t goaway_last; /* stream */
        unsigned int answers; /* streams ended by a header list */
        char http_status[8];
        char grpc_status[8];
        char grpc_message[256];
        char grpc_timeout[16];
        char accept_encoding[16];
};

void peer_init(struct peer *peer);
void peer_done(struct peer *peer);
void peer_preface(struct peer *peer); /* the client's magic, and SETTINGS */
void peer_frame(struct peer *peer, uint8_t type, uint8_t flags, int32_t stream_id, const void *payload, size_t size);
void peer_headers(struct peer *peer, uint8_t flags, int32_t stream_id, const struct field *fields);
void peer_request(struct peer *peer, int32_t stream_id, const char *path, const void *body, size_t size);
void peer_u32(struct peer *peer, uint8_t type, int32_t stream_id, uint32_t value);

/* Delivers what was said to |session|; its result. */
int peer_say(struct peer *peer, struct rpc_session *session, struct error *err);
/* Takes what |session| has to send and notes it. */
void peer_hear(struct peer *peer, struct rpc_session *session);
