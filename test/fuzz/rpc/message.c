// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <assert.h>

#include "base/strbuf.h"
#include "net/rpc/message.h"

static void read_messages(const uint8_t *bytes, size_t size)
{
        struct rpc_reader reader;
        enum rpc_reader_result result = RPC_READER_MORE;
        size_t step = fuzz_step(bytes, &size);

        rpc_reader_init(&reader, 4096);
        for (size_t at = 0; at < size && result == RPC_READER_MORE;) {
                const uint8_t *part = bytes + at, *payload = NULL;
                size_t left = MIN(step, size - at), payload_size = 0;

                at += left;
                while ((result = rpc_reader_feed(&reader, &part, &left, &payload, &payload_size)) ==
                        RPC_READER_MESSAGE) {
                        assert(payload_size <= 4096);
                        assert(!rpc_reader_is_partial(&reader));
                        assert(payload_size == 0 || payload[payload_size - 1] == part[-1]);
                }
                assert(result != RPC_READER_MORE || left == 0);
                assert(reader.bytes.capacity <= 16384);
        }
        rpc_reader_done(&reader);
}

/* What is encoded decodes to itself; what is decoded is never longer. */
static void read_texts(const uint8_t *bytes, size_t size)
{
        struct strbuf text = STRBUF_INIT, encoded = STRBUF_INIT, again = STRBUF_INIT;
        int64_t nanoseconds;

        rpc_message_decode((const char *)bytes, size, &text);
        assert(text.size <= size);
        rpc_message_encode(text.data, &encoded);
        rpc_message_decode(encoded.data, encoded.size, &again);
        assert(strcmp(text.data, again.data) == 0);
        if (rpc_timeout_parse((const char *)bytes, size, &nanoseconds))
                assert(nanoseconds >= 0 && size <= 9);
        strbuf_done(&text);
        strbuf_done(&encoded);
        strbuf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
        read_messages(bytes, size);
        read_texts(bytes, size);
        return 0;
}
