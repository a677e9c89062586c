// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "net/rpc/message.h"

static void test_every_code_has_its_name(void **state UNUSED)
{
        assert_string_equal(rpc_status_name(RPC_OK), "OK");
        assert_string_equal(rpc_status_name(RPC_DEADLINE_EXCEEDED), "DeadlineExceeded");
        assert_string_equal(rpc_status_name(RPC_UNAUTHENTICATED), "Unauthenticated");
        assert_string_equal(rpc_status_name((enum rpc_status)17), "Unknown");
        assert_string_equal(rpc_status_name((enum rpc_status)42), "Unknown");
        for (int i = 0; i <= RPC_UNAUTHENTICATED; i++)
                assert_non_null(rpc_status_name((enum rpc_status)i));
}

static void test_our_errors_have_a_status(void **state UNUSED)
{
        static const struct {
                enum error_kind kind;
                enum rpc_status status;
        } rows[] = {
                {ERROR_NONE, RPC_OK},
                {ERROR_INVALID, RPC_INVALID_ARGUMENT},
                {ERROR_NOT_FOUND, RPC_NOT_FOUND},
                {ERROR_UNAVAILABLE, RPC_UNAVAILABLE},
                {ERROR_DENIED, RPC_PERMISSION_DENIED},
                {ERROR_TIMEOUT, RPC_DEADLINE_EXCEEDED},
                {ERROR_UNSUPPORTED, RPC_UNIMPLEMENTED},
                {ERROR_INTERNAL, RPC_INTERNAL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct error err = {.kind = rows[i].kind};

                assert_int_equal(rpc_status_of_error(&err), rows[i].status);
        }
}

static void test_http_statuses_are_mapped(void **state UNUSED)
{
        static const struct {
                unsigned int http;
                enum rpc_status status;
        } rows[] = {
                {400, RPC_INTERNAL},
                {401, RPC_UNAUTHENTICATED},
                {403, RPC_PERMISSION_DENIED},
                {404, RPC_UNIMPLEMENTED},
                {429, RPC_UNAVAILABLE},
                {502, RPC_UNAVAILABLE},
                {503, RPC_UNAVAILABLE},
                {504, RPC_UNAVAILABLE},
                {500, RPC_UNKNOWN},
                {200, RPC_UNKNOWN},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_int_equal(rpc_status_of_http(rows[i].http), rows[i].status);
}

static void test_resets_are_mapped(void **state UNUSED)
{
        static const struct {
                uint32_t code;
                enum rpc_status status;
        } rows[] = {
                {NGHTTP2_NO_ERROR, RPC_INTERNAL},
                {NGHTTP2_PROTOCOL_ERROR, RPC_INTERNAL},
                {NGHTTP2_FLOW_CONTROL_ERROR, RPC_RESOURCE_EXHAUSTED},
                {NGHTTP2_REFUSED_STREAM, RPC_UNAVAILABLE},
                {NGHTTP2_CANCEL, RPC_CANCELLED},
                {NGHTTP2_ENHANCE_YOUR_CALM, RPC_RESOURCE_EXHAUSTED},
                {NGHTTP2_INADEQUATE_SECURITY, RPC_PERMISSION_DENIED},
                {0xffff, RPC_UNKNOWN},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_int_equal(rpc_status_of_reset(rows[i].code), rows[i].status);
}

static void test_messages_survive_percent_encoding(void **state UNUSED)
{
        static const struct {
                const char *text, *encoded;
        } rows[] = {
                {"", ""},
                {"plain text ~!", "plain text ~!"},
                {"100%", "100%25"},
                {"a\nb\x7f", "a%0Ab%7F"},
                {"größe", "gr%C3%B6%C3%9Fe"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct strbuf encoded = STRBUF_INIT, text = STRBUF_INIT;

                rpc_message_encode(rows[i].text, &encoded);
                assert_string_equal(encoded.data, rows[i].encoded);
                rpc_message_decode(encoded.data, encoded.size, &text);
                assert_string_equal(text.data, rows[i].text);
                strbuf_done(&encoded);
                strbuf_done(&text);
        }
}

static void test_broken_escapes_stay_as_they_are(void **state UNUSED)
{
        static const struct {
                const char *encoded, *text;
        } rows[] = {{"%", "%"}, {"%4", "%4"}, {"%zz", "%zz"}, {"%4z1", "%4z1"}, {"a%41%", "aA%"}, {"%c3%b6", "ö"}};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct strbuf text = STRBUF_INIT;

                rpc_message_decode(rows[i].encoded, strlen(rows[i].encoded), &text);
                assert_string_equal(text.data, rows[i].text);
                strbuf_done(&text);
        }
}

static void test_timeouts_are_read_strictly(void **state UNUSED)
{
        static const struct {
                const char *text;
                int64_t nanoseconds; /* -1: refused */
        } rows[] = {
                {"1n", 1},
                {"7u", 7000},
                {"20m", 20000000},
                {"10S", INT64_C(10000000000)},
                {"2M", INT64_C(120000000000)},
                {"1H", INT64_C(3600000000000)},
                {"0S", 0},
                {"99999999n", 99999999},
                {"99999999H", INT64_MAX},
                {"", -1},
                {"S", -1},
                {"10", -1},
                {"123456789S", -1},
                {"-1S", -1},
                {"1 S", -1},
                {"1s", -1},
                {"1.5S", -1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                int64_t nanoseconds = -1;

                assert_int_equal(
                        rpc_timeout_parse(rows[i].text, strlen(rows[i].text), &nanoseconds), rows[i].nanoseconds >= 0);
                assert_int_equal(nanoseconds, rows[i].nanoseconds);
        }
}

static void test_timeouts_are_written_in_eight_digits(void **state UNUSED)
{
        static const struct {
                uint64_t milliseconds;
                const char *text;
        } rows[] = {
                {1, "1m"},
                {10000, "10000m"},
                {99999999, "99999999m"},
                {100000000, "100000S"},
                {100000001, "100001S"},
                {UINT64_C(100000000000), "1666667M"},
                {UINT64_MAX, "99999999H"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char text[10];

                rpc_timeout_format(rows[i].milliseconds, text);
                assert_string_equal(text, rows[i].text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_code_has_its_name),
                cmocka_unit_test(test_our_errors_have_a_status),
                cmocka_unit_test(test_http_statuses_are_mapped),
                cmocka_unit_test(test_resets_are_mapped),
                cmocka_unit_test(test_messages_survive_percent_encoding),
                cmocka_unit_test(test_broken_escapes_stay_as_they_are),
                cmocka_unit_test(test_timeouts_are_read_strictly),
                cmocka_unit_test(test_timeouts_are_written_in_eight_digits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
