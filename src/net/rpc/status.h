/*
 * gRPC's own vocabulary: status codes, the percent-encoding of grpc-message, the text form of grpc-timeout.
 *
 * Source: gRPC's PROTOCOL-HTTP2.md, statuscodes.md and http-grpc-status-mapping.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

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

/* Bytes outside 0x20-0x7E and '%' become %XX. Decoding never fails: a broken escape stays as it is. */
void rpc_message_encode(const char *text, struct strbuf *encoded);
void rpc_message_decode(const char *encoded, size_t size, struct strbuf *text);

/*
 * One to eight digits and one of n u m S M H. False if it is not that. A value beyond INT64_MAX nanoseconds is clamped.
 */
bool rpc_timeout_parse(const char *text, size_t size, int64_t *ret_nanoseconds);
/* Rounds up to what 8 digits can say; |text| needs 10 bytes. */
void rpc_timeout_format(uint64_t milliseconds, char text[static 10]);
