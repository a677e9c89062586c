/*
 * gRPC messages: shared bytes on the way out, reassembly from DATA frames on the way in.
 *
 * A message on the wire is a flag byte (0: not compressed), a big-endian length of four bytes, and that many bytes. It
 * may be spread over DATA frames in any way, prefix included. This file knows neither HTTP/2 nor protobuf.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/strbuf.h"

#define RPC_PREFIX_SIZE 5

/* Outgoing: written once, then shared by every stream that sends it. Not for use by two threads. */
struct rpc_message {
        size_t references;
        size_t size; /* of |bytes|, prefix included */
        uint8_t bytes[];
};

/*
 * Room for |payload| bytes after the prefix, which is filled in. The caller writes the payload and holds one reference.
 */
struct rpc_message *rpc_message_new(size_t payload);
uint8_t *rpc_message_payload(struct rpc_message *message);
struct rpc_message *rpc_message_ref(struct rpc_message *message);
struct rpc_message *rpc_message_unref(struct rpc_message *message); /* accepts NULL, returns NULL */

bool rpc_message_is_same(const struct rpc_message *a, const struct rpc_message *b); /* byte for byte */

static inline void rpc_message_unrefp(struct rpc_message **message)
{
        rpc_message_unref(*message);
}

/*
 * Incoming. Grows with what has arrived, not with what a prefix claims: a claimed GiB costs a peer its stream, not us
 * memory.
 */
struct rpc_reader {
        struct strbuf bytes; /* of the message being read, prefix included */
        size_t limit;        /* the largest payload accepted */
};

enum rpc_reader_result {
        RPC_READER_MORE,    /* everything consumed, no whole message yet */
        RPC_READER_MESSAGE, /* *ret_payload is valid until the next call */
        RPC_READER_TOO_LARGE,
        RPC_READER_COMPRESSED, /* no compression was offered: status UNIMPLEMENTED */
        RPC_READER_BAD_FLAG,
};

void rpc_reader_init(struct rpc_reader *reader, size_t limit);
void rpc_reader_done(struct rpc_reader *reader);

/* Consumes from *bytes, *size (both are advanced); call again until it says MORE. */
enum rpc_reader_result rpc_reader_feed(struct rpc_reader *reader, const uint8_t **bytes, size_t *size,
        const uint8_t **ret_payload, size_t *ret_payload_size);

/* True inside a message: an end of stream now is a truncated message. */
bool rpc_reader_is_partial(const struct rpc_reader *reader);
