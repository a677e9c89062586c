// SPDX-License-Identifier: Apache-2.0
/*
 * One header list of a gRPC stream: takes its fields one by one, checks them, keeps what gRPC needs. It knows neither
 * streams nor services; the session turns its result into frames.
 *
 * nghttp2's own checks are off (see net/rpc/session.h), so this is where RFC 9113 8.2 and 8.3 are enforced: lower-case
 * names, pseudo-header fields known, first and once, no connection-specific fields. Only :authority may be anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "net/rpc/message.h"

#define RPC_HEAD_PATH_SIZE 256 /* a longer path is kept cut, and then matches no method */

enum rpc_head_kind { RPC_HEAD_REQUEST, RPC_HEAD_RESPONSE, RPC_HEAD_TRAILERS };

struct rpc_head {
        enum rpc_head_kind kind;
        size_t size;         /* as RFC 9113 6.5.2 counts: names, values and 32 a field */
        size_t limit;        /* fields beyond are only counted */
        unsigned int pseudo; /* bit set of those seen */
        bool has_regular;    /* a regular field was seen: no pseudo-header may follow */
        bool is_malformed;

        /* request */
        char path[RPC_HEAD_PATH_SIZE];
        bool is_post;
        bool has_timeout;
        bool has_bad_timeout;
        int64_t timeout_ns;

        /* request and response */
        bool is_grpc; /* content-type */

        /* response and trailers */
        unsigned int http_status;
        bool has_status;
        enum rpc_status status;
        struct strbuf message; /* grpc-message, decoded */
};

/* A request that is answered with an error before any handler sees it. */
struct rpc_refusal {
        const char *http_status;
        enum rpc_status status;
        char text[RPC_HEAD_PATH_SIZE + 64];
};

void rpc_head_init(struct rpc_head *head, size_t limit);
void rpc_head_done(struct rpc_head *head);

void rpc_head_begin(struct rpc_head *head, enum rpc_head_kind kind);
void rpc_head_add(struct rpc_head *head, const char *name, size_t name_size, const char *value, size_t value_size);

/* Call it at the end of the list. True: RFC 9113 8.1.1 requires that the stream is reset with PROTOCOL_ERROR. */
bool rpc_head_is_malformed(const struct rpc_head *head);
bool rpc_head_is_too_large(const struct rpc_head *head);

/* True if the well-formed request is not one that gRPC allows; |ret_refusal| says how to answer it. */
bool rpc_head_is_refused(const struct rpc_head *head, struct rpc_refusal *ret_refusal);
