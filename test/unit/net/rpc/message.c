// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "net/rpc/message.h"

static void test_a_message_carries_its_prefix(void **state UNUSED)
{
        struct rpc_message *message = rpc_message_new(0x01020304);

        assert_int_equal(message->size, 0x01020309);
        assert_memory_equal(message->bytes, "\0\1\2\3\4", 5);
        assert_ptr_equal(rpc_message_ref(message), message);
        assert_null(rpc_message_unref(message));
        assert_null(rpc_message_unref(message));
        assert_null(rpc_message_unref(NULL));
}

/* Three messages in a row, cut into pieces of |step| bytes after a first piece of |first|. */
static void read_three(size_t first, size_t step)
{
        static const uint8_t wire[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\2de";
        static const char *const expected[] = {"abc", "", "de"};
        struct rpc_reader reader;
        size_t at = 0, found = 0;

        rpc_reader_init(&reader, 3);
        while (at < sizeof(wire) - 1) {
                const uint8_t *bytes = wire + at, *payload;
                size_t size = MIN(at == 0 && first ? first : step, sizeof(wire) - 1 - at);
                size_t payload_size;

                at += size;
                while (rpc_reader_feed(&reader, &bytes, &size, &payload, &payload_size) == RPC_READER_MESSAGE) {
                        assert_true(found < 3);
                        assert_int_equal(payload_size, strlen(expected[found]));
                        assert_memory_equal(payload, expected[found], payload_size);
                        found++;
                        assert_false(rpc_reader_is_partial(&reader));
                }
                assert_int_equal(size, 0);
        }
        assert_int_equal(found, 3);
        assert_false(rpc_reader_is_partial(&reader));
        rpc_reader_done(&reader);
}

static void test_messages_are_found_however_they_are_split(void **state UNUSED)
{
        for (size_t step = 1; step <= 20; step++) {
                for (size_t first = 0; first <= 20; first++)
                        read_three(first, step);
        }
}

static enum rpc_reader_result read_prefix(const char *prefix, size_t size, size_t limit, size_t *ret_memory)
{
        const uint8_t *bytes = (const uint8_t *)prefix, *payload;
        size_t payload_size;
        struct rpc_reader reader;
        enum rpc_reader_result result;

        rpc_reader_init(&reader, limit);
        result = rpc_reader_feed(&reader, &bytes, &size, &payload, &payload_size);
        *ret_memory = reader.bytes.capacity;
        rpc_reader_done(&reader);
        return result;
}

static void test_bad_prefixes_are_named(void **state UNUSED)
{
        size_t memory;

        assert_int_equal(read_prefix("\0\0\0\0\12", 5, 9, &memory), RPC_READER_TOO_LARGE);
        assert_int_equal(read_prefix("\0\377\377\377\377", 5, 9, &memory), RPC_READER_TOO_LARGE);
        assert_int_equal(read_prefix("\1\0\0\0\1", 5, 9, &memory), RPC_READER_COMPRESSED);
        assert_int_equal(read_prefix("\2\0\0\0\1", 5, 9, &memory), RPC_READER_BAD_FLAG);
        assert_int_equal(read_prefix("\0\0\0\0\11", 5, 9, &memory), RPC_READER_MORE);
}

static void test_a_claim_is_not_memory(void **state UNUSED)
{
        size_t memory;

        assert_int_equal(read_prefix("\0\100\0\0\0ab", 7, SIZE_MAX, &memory), RPC_READER_MORE);
        assert_true(memory <= 64);
}

static void test_a_truncated_message_is_partial(void **state UNUSED)
{
        static const uint8_t wire[] = "\0\0\0\0\2ab";
        const uint8_t *payload;
        size_t payload_size;
        struct rpc_reader reader;

        rpc_reader_init(&reader, 100);
        assert_false(rpc_reader_is_partial(&reader));
        for (size_t i = 0; i < 7; i++) {
                const uint8_t *byte = wire + i;
                size_t one = 1;

                assert_int_equal(rpc_reader_feed(&reader, &byte, &one, &payload, &payload_size),
                        i == 6 ? RPC_READER_MESSAGE : RPC_READER_MORE);
                assert_int_equal(rpc_reader_is_partial(&reader), i != 6);
        }
        rpc_reader_done(&reader);
}

static void test_a_large_message_leaves_no_memory_behind(void **state UNUSED)
{
        struct rpc_message *message = rpc_message_new(1 << 20);
        const uint8_t *bytes = message->bytes, *payload;
        size_t size = message->size, payload_size;
        struct rpc_reader reader;

        memset(rpc_message_payload(message), 'x', 1 << 20);
        rpc_reader_init(&reader, 1 << 20);
        assert_int_equal(rpc_reader_feed(&reader, &bytes, &size, &payload, &payload_size), RPC_READER_MESSAGE);
        assert_int_equal(payload_size, 1 << 20);
        assert_int_equal(rpc_reader_feed(&reader, &bytes, &size, &payload, &payload_size), RPC_READER_MORE);
        assert_int_equal(reader.bytes.capacity, 0);
        rpc_reader_done(&reader);
        rpc_message_unref(message);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_message_carries_its_prefix),
                cmocka_unit_test(test_messages_are_found_however_they_are_split),
                cmocka_unit_test(test_bad_prefixes_are_named),
                cmocka_unit_test(test_a_claim_is_not_memory),
                cmocka_unit_test(test_a_truncated_message_is_partial),
                cmocka_unit_test(test_a_large_message_leaves_no_memory_behind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
