// SPDX-License-Identifier: Apache-2.0
#include "net/rpc/message.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* A buffer that a large message has grown is given back; a small one serves the next message. */
#define KEPT_CAPACITY 4096

struct rpc_message *rpc_message_new(size_t payload)
{
        struct rpc_message *message;

        assert(payload <= UINT32_MAX);
        message = xmalloc(sizeof(*message) + RPC_PREFIX_SIZE + payload);
        message->references = 1;
        message->size = RPC_PREFIX_SIZE + payload;
        message->bytes[0] = 0;
        message->bytes[1] = (uint8_t)(payload >> 24);
        message->bytes[2] = (uint8_t)(payload >> 16);
        message->bytes[3] = (uint8_t)(payload >> 8);
        message->bytes[4] = (uint8_t)payload;
        return message;
}

uint8_t *rpc_message_payload(struct rpc_message *message)
{
        return message->bytes + RPC_PREFIX_SIZE;
}

bool rpc_message_is_same(const struct rpc_message *a, const struct rpc_message *b)
{
        return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

struct rpc_message *rpc_message_ref(struct rpc_message *message)
{
        message->references++;
        return message;
}

struct rpc_message *rpc_message_unref(struct rpc_message *message)
{
        if (message && --message->references == 0)
                free(message);
        return NULL;
}

void rpc_reader_init(struct rpc_reader *reader, size_t limit)
{
        *reader = (struct rpc_reader){.bytes = STRBUF_INIT, .limit = limit};
}

void rpc_reader_done(struct rpc_reader *reader)
{
        strbuf_done(&reader->bytes);
}

static size_t claimed_size(const struct rpc_reader *reader)
{
        const uint8_t *prefix = (const uint8_t *)reader->bytes.data;

        return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

static bool message_is_complete(const struct rpc_reader *reader)
{
        return reader->bytes.size >= RPC_PREFIX_SIZE && reader->bytes.size - RPC_PREFIX_SIZE == claimed_size(reader);
}

bool rpc_reader_is_partial(const struct rpc_reader *reader)
{
        return reader->bytes.size > 0 && !message_is_complete(reader);
}

static void message_take(struct rpc_reader *reader, const uint8_t **bytes, size_t *size, size_t most)
{
        size_t taken = MIN(*size, most);

        strbuf_append(&reader->bytes, *bytes, taken);
        *bytes += taken;
        *size -= taken;
}

enum rpc_reader_result rpc_reader_feed(struct rpc_reader *reader, const uint8_t **bytes, size_t *size,
        const uint8_t **ret_payload, size_t *ret_payload_size)
{
        if (message_is_complete(reader)) {
                /* The message of the last call has been looked at. */
                strbuf_clear(&reader->bytes);
                if (reader->bytes.capacity > KEPT_CAPACITY)
                        strbuf_done(&reader->bytes);
        }
        if (reader->bytes.size < RPC_PREFIX_SIZE)
                message_take(reader, bytes, size, RPC_PREFIX_SIZE - reader->bytes.size);
        if (reader->bytes.size < RPC_PREFIX_SIZE)
                return RPC_READER_MORE;
        if (reader->bytes.data[0] == 1)
                return RPC_READER_COMPRESSED;
        if (reader->bytes.data[0] != 0)
                return RPC_READER_BAD_FLAG;
        if (claimed_size(reader) > reader->limit)
                return RPC_READER_TOO_LARGE;
        message_take(reader, bytes, size, RPC_PREFIX_SIZE + claimed_size(reader) - reader->bytes.size);
        if (!message_is_complete(reader))
                return RPC_READER_MORE;
        *ret_payload = (const uint8_t *)reader->bytes.data + RPC_PREFIX_SIZE;
        *ret_payload_size = reader->bytes.size - RPC_PREFIX_SIZE;
        return RPC_READER_MESSAGE;
}

/* ---- status codes ---- */

const char *rpc_status_name(enum rpc_status status)
{
        static const char *const names[] = {
                [RPC_OK] = "OK",
                [RPC_CANCELLED] = "Cancelled",
                [RPC_UNKNOWN] = "Unknown",
                [RPC_INVALID_ARGUMENT] = "InvalidArgument",
                [RPC_DEADLINE_EXCEEDED] = "DeadlineExceeded",
                [RPC_NOT_FOUND] = "NotFound",
                [RPC_ALREADY_EXISTS] = "AlreadyExists",
                [RPC_PERMISSION_DENIED] = "PermissionDenied",
                [RPC_RESOURCE_EXHAUSTED] = "ResourceExhausted",
                [RPC_FAILED_PRECONDITION] = "FailedPrecondition",
                [RPC_ABORTED] = "Aborted",
                [RPC_OUT_OF_RANGE] = "OutOfRange",
                [RPC_UNIMPLEMENTED] = "Unimplemented",
                [RPC_INTERNAL] = "Internal",
                [RPC_UNAVAILABLE] = "Unavailable",
                [RPC_DATA_LOSS] = "DataLoss",
                [RPC_UNAUTHENTICATED] = "Unauthenticated",
        };

        return (size_t)status < ARRAY_SIZE(names) ? names[status] : names[RPC_UNKNOWN];
}

enum rpc_status rpc_status_of_error(const struct error *err)
{
        static const enum rpc_status statuses[] = {
                [ERROR_NONE] = RPC_OK,
                [ERROR_INVALID] = RPC_INVALID_ARGUMENT,
                [ERROR_NOT_FOUND] = RPC_NOT_FOUND,
                [ERROR_UNAVAILABLE] = RPC_UNAVAILABLE,
                [ERROR_EXHAUSTED] = RPC_RESOURCE_EXHAUSTED,
                [ERROR_DENIED] = RPC_PERMISSION_DENIED,
                [ERROR_TIMEOUT] = RPC_DEADLINE_EXCEEDED,
                [ERROR_UNSUPPORTED] = RPC_UNIMPLEMENTED,
                [ERROR_INTERNAL] = RPC_INTERNAL,
        };

        return statuses[err->kind];
}

enum rpc_status rpc_status_of_http(unsigned int http_status)
{
        switch (http_status) {
        case 400:
                return RPC_INTERNAL;
        case 401:
                return RPC_UNAUTHENTICATED;
        case 403:
                return RPC_PERMISSION_DENIED;
        case 404:
                return RPC_UNIMPLEMENTED;
        case 429:
        case 502:
        case 503:
        case 504:
                return RPC_UNAVAILABLE;
        default:
                return RPC_UNKNOWN;
        }
}

enum rpc_status rpc_status_of_reset(uint32_t http2_error)
{
        static const enum rpc_status statuses[] = {
                [NGHTTP2_NO_ERROR] = RPC_INTERNAL,
                [NGHTTP2_PROTOCOL_ERROR] = RPC_INTERNAL,
                [NGHTTP2_INTERNAL_ERROR] = RPC_INTERNAL,
                [NGHTTP2_FLOW_CONTROL_ERROR] = RPC_RESOURCE_EXHAUSTED, /* grpc-go; the specification says INTERNAL */
                [NGHTTP2_SETTINGS_TIMEOUT] = RPC_INTERNAL,
                [NGHTTP2_STREAM_CLOSED] = RPC_INTERNAL,
                [NGHTTP2_FRAME_SIZE_ERROR] = RPC_INTERNAL,
                [NGHTTP2_REFUSED_STREAM] = RPC_UNAVAILABLE,
                [NGHTTP2_CANCEL] = RPC_CANCELLED,
                [NGHTTP2_COMPRESSION_ERROR] = RPC_INTERNAL,
                [NGHTTP2_CONNECT_ERROR] = RPC_INTERNAL,
                [NGHTTP2_ENHANCE_YOUR_CALM] = RPC_RESOURCE_EXHAUSTED,
                [NGHTTP2_INADEQUATE_SECURITY] = RPC_PERMISSION_DENIED,
        };

        return http2_error < ARRAY_SIZE(statuses) ? statuses[http2_error] : RPC_UNKNOWN;
}

/* ---- texts of headers ---- */

void rpc_message_encode(const char *text, struct strbuf *encoded)
{
        for (const char *at = text; *at; at++) {
                unsigned char byte = (unsigned char)*at;

                if (byte < 0x20 || byte > 0x7e || byte == '%')
                        strbuf_printf(encoded, "%%%02X", byte);
                else
                        strbuf_putc(encoded, (char)byte);
        }
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

void rpc_message_decode(const char *encoded, size_t size, struct strbuf *text)
{
        for (size_t i = 0; i < size; i++) {
                int high = encoded[i] == '%' && size - i > 2 ? hex_digit(encoded[i + 1]) : -1;
                int low = high >= 0 ? hex_digit(encoded[i + 2]) : -1;

                if (low >= 0) {
                        strbuf_putc(text, (char)(high << 4 | low));
                        i += 2;
                } else {
                        strbuf_putc(text, encoded[i]);
                }
        }
}

static const struct timeout_unit {
        char letter;
        int64_t nanoseconds;
} timeout_units[] = {
        {'n', 1},
        {'u', 1000},
        {'m', 1000 * 1000},
        {'S', 1000 * 1000 * 1000},
        {'M', 60 * INT64_C(1000000000)},
        {'H', 3600 * INT64_C(1000000000)},
};

bool rpc_timeout_parse(const char *text, size_t size, int64_t *ret_nanoseconds)
{
        int64_t value = 0;

        if (size < 2 || size > 9)
                return false;
        for (size_t i = 0; i < size - 1; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return false;
                value = value * 10 + (text[i] - '0');
        }
        for (size_t i = 0; i < ARRAY_SIZE(timeout_units); i++) {
                if (timeout_units[i].letter != text[size - 1])
                        continue;
                if (__builtin_mul_overflow(value, timeout_units[i].nanoseconds, &value))
                        value = INT64_MAX;
                *ret_nanoseconds = value;
                return true;
        }
        return false;
}

void rpc_timeout_format(uint64_t milliseconds, char text[static 10])
{
        const uint64_t most = 99999999;
        uint64_t count = milliseconds;
        size_t i = 2; /* a timeout is at least one millisecond */

        for (; i < ARRAY_SIZE(timeout_units); i++) {
                const uint64_t unit_ms = (uint64_t)timeout_units[i].nanoseconds / 1000000;

                count = milliseconds / unit_ms + (milliseconds % unit_ms != 0);
                if (count <= most || i == ARRAY_SIZE(timeout_units) - 1)
                        break;
        }
        snprintf(text, 10, "%u%c", (unsigned int)MIN(count, most), timeout_units[i].letter);
}

/* ---- protobuf ---- */

/*
 * protobuf-c allocates memory field by field. An arena serves this, so that a request of 10,000 ids costs a few large
 * allocations and is freed in one step. Beyond the limit the allocation fails, and so does the message.
 */
struct budget {
        struct arena *arena;
        size_t left;
};

static void *budget_alloc(void *data, size_t size)
{
        struct budget *budget = data;

        /* The arena's overhead for a small object counts, too. */
        if (size > budget->left || size + 16 > budget->left)
                return NULL;
        budget->left -= size + 16;
        return arena_alloc(budget->arena, 1, size);
}

static void budget_free(void *data UNUSED, void *pointer UNUSED)
{
}

ProtobufCMessage *protobuf_unpack(const ProtobufCMessageDescriptor *descriptor, struct arena *arena, size_t limit,
        const uint8_t *bytes, size_t size, struct error *err)
{
        struct budget budget = {.arena = arena, .left = limit};
        ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
        ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, size, bytes);

        if (!message)
                error_set(err, ERROR_INVALID, "%s of %zu bytes: cannot be decoded within %zu bytes of memory",
                        descriptor->short_name, size, limit);
        return message;
}

struct rpc_message *protobuf_pack(const ProtobufCMessage *source)
{
        struct rpc_message *message = rpc_message_new(protobuf_c_message_get_packed_size(source));

        protobuf_c_message_pack(source, rpc_message_payload(message));
        return message;
}
