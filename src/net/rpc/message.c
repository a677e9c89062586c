#include "net/rpc/message.h"

#include <assert.h>
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
