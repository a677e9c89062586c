// SPDX-License-Identifier: Apache-2.0
/*
 * gRPC messages: shared bytes on the way out, reassembly from DATA frames on the way in. And gRPC's own vocabulary:
 * status codes, the percent-encoding of grpc-message, the text form of grpc-timeout; protobuf in and out of an arena.
 *
 * A message on the wire is a flag byte (0: not compressed), a big-endian length of four bytes, and that many bytes. It
 * may be spread over DATA frames in any way, prefix included.
 *
 * Source: gRPC's PROTOCOL-HTTP2.md, statuscodes.md and http-grpc-status-mapping.md.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
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

/* ---- status codes ---- */

enum rpc_status {
        RPC_OK = 0,
        RPC_CANCELLED = 1,
        RPC_UNKNOWN = 2,
        RPC_INVALID_ARGUMENT = 3,
        RPC_DEADLINE_EXCEEDED = 4,
        RPC_NOT_FOUND = 5,
        RPC_ALREADY_EXISTS = 6,
        RPC_PERMISSION_DENIED = 7,
        RPC_RESOURCE_EXHAUSTED = 8,
        RPC_FAILED_PRECONDITION = 9,
        RPC_ABORTED = 10,
        RPC_OUT_OF_RANGE = 11,
        RPC_UNIMPLEMENTED = 12,
        RPC_INTERNAL = 13,
        RPC_UNAVAILABLE = 14,
        RPC_DATA_LOSS = 15,
        RPC_UNAUTHENTICATED = 16,
};

/* "OK", "Cancelled", …; "code 42" is written "Unknown". */
const char *rpc_status_name(enum rpc_status status);

/* The status that a failed call reports for an error of our own. */
enum rpc_status rpc_status_of_error(const struct error *err);

/*
 * The status that a client must report for an HTTP status without grpc-status, and for a stream reset with an HTTP/2
 * error code.
 */
enum rpc_status rpc_status_of_http(unsigned int http_status);
enum rpc_status rpc_status_of_reset(uint32_t http2_error);

/* ---- texts of headers ---- */

/* Bytes outside 0x20-0x7E and '%' become %XX. Decoding never fails: a broken escape stays as it is. */
void rpc_message_encode(const char *text, struct strbuf *encoded);
void rpc_message_decode(const char *encoded, size_t size, struct strbuf *text);

/*
 * One to eight digits and one of n u m S M H. False if it is not that. A value beyond INT64_MAX nanoseconds is clamped.
 */
bool rpc_timeout_parse(const char *text, size_t size, int64_t *ret_nanoseconds);
/* Rounds up to what 8 digits can say; |text| needs 10 bytes. */
void rpc_timeout_format(uint64_t milliseconds, char text[static 10]);

/* ---- protobuf: a message as a struct in an arena, with a memory limit for any message, and back ---- */

/* NULL on failure, with ERROR_INVALID in |err|. Strings and everything else live in |arena|. */
ProtobufCMessage *protobuf_unpack(const ProtobufCMessageDescriptor *descriptor, struct arena *arena, size_t limit,
        const uint8_t *bytes, size_t size, struct error *err);

/* The caller must unref the message. */
struct rpc_message *protobuf_pack(const ProtobufCMessage *source);
