// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "net/rpc/head.h"

struct field {
        const char *name, *value;
};

#define GOOD                                                                                                           \
        {":method", "POST"}, {":scheme", "http"},                                                                      \
        {                                                                                                              \
                ":path", "/a/b"                                                                                        \
        }
#define TYPE                                                                                                           \
        {                                                                                                              \
                "content-type", "application/grpc"                                                                     \
        }

static void fill(struct rpc_head *head, enum rpc_head_kind kind, const struct field *fields)
{
        rpc_head_init(head, 1000);
        rpc_head_begin(head, kind);
        for (; fields->name; fields++)
                rpc_head_add(head, fields->name, strlen(fields->name), fields->value, strlen(fields->value));
}

static void test_malformed_lists_are_found(void **state UNUSED)
{
        static const struct {
                enum rpc_head_kind kind;
                struct field fields[8];
                bool is_malformed;
        } rows[] = {
                {RPC_HEAD_REQUEST, {GOOD, TYPE}, false},
                {RPC_HEAD_REQUEST, {GOOD, {":authority", "/run/x.sock"}, TYPE, {"te", "trailers"}}, false},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"x-bin", "AAA"}, {"x-bin", "AAA"}}, false},
                {RPC_HEAD_REQUEST, {{":method", "POST"}, {":scheme", "http"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {{":method", "POST"}, {":path", "/a/b"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {{":scheme", "http"}, {":path", "/a/b"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {GOOD, {":path", "/a/c"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {GOOD, {":authority", "a"}, {":authority", "a"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {":authority", "a"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, {":status", "200"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {GOOD, {":protocol", "x"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {GOOD, {":", "x"}, TYPE}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"X-Upper", "1"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"", "1"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"a b", "1"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"a", "line\nbreak"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"connection", "close"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"keep-alive", "1"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"proxy-connection", "1"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"transfer-encoding", "chunked"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"upgrade", "h2c"}}, true},
                {RPC_HEAD_REQUEST, {GOOD, TYPE, {"te", "gzip"}}, true},
                {RPC_HEAD_RESPONSE, {{":status", "200"}, TYPE}, false},
                {RPC_HEAD_RESPONSE, {TYPE}, true},
                {RPC_HEAD_RESPONSE, {{":status", "20"}, TYPE}, true},
                {RPC_HEAD_RESPONSE, {{":status", "abc"}, TYPE}, true},
                {RPC_HEAD_RESPONSE, {{":status", "200"}, {":status", "200"}}, true},
                {RPC_HEAD_RESPONSE, {{":status", "200"}, {":path", "/"}}, true},
                {RPC_HEAD_TRAILERS, {{"grpc-status", "0"}}, false},
                {RPC_HEAD_TRAILERS, {{0}}, false},
                {RPC_HEAD_TRAILERS, {{":status", "200"}}, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rpc_head head;

                fill(&head, rows[i].kind, rows[i].fields);
                if (rpc_head_is_malformed(&head) != rows[i].is_malformed)
                        fail_msg("row %zu", i);
                rpc_head_done(&head);
        }
}

static void test_requests_that_are_no_grpc_are_refused(void **state UNUSED)
{
        static const struct {
                struct field fields[8];
                const char *http_status; /* NULL: accepted */
                enum rpc_status status;
                const char *text;
        } rows[] = {
                {{GOOD, TYPE}, NULL, 0, NULL},
                {{GOOD, {"content-type", "application/grpc+proto"}}, NULL, 0, NULL},
                {{GOOD, {"content-type", "application/grpc;a=b"}}, NULL, 0, NULL},
                {{GOOD, TYPE, {"grpc-timeout", "20S"}}, NULL, 0, NULL},
                {{GOOD}, "415", RPC_INVALID_ARGUMENT, "content-type is not application/grpc"},
                {{GOOD, {"content-type", "application/json"}}, "415", RPC_INVALID_ARGUMENT,
                        "content-type is not application/grpc"},
                {{GOOD, {"content-type", "application/grpc-web"}}, "415", RPC_INVALID_ARGUMENT,
                        "content-type is not application/grpc"},
                {{GOOD, TYPE, {"grpc-timeout", "20"}}, "400", RPC_INTERNAL, "malformed grpc-timeout"},
                {{{":method", "GET"}, {":scheme", "http"}, {":path", "/a/b"}, TYPE}, "405", RPC_INTERNAL,
                        ":method is not POST"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rpc_refusal refusal;
                struct rpc_head head;

                fill(&head, RPC_HEAD_REQUEST, rows[i].fields);
                assert_false(rpc_head_is_malformed(&head));
                assert_int_equal(rpc_head_is_refused(&head, &refusal), rows[i].http_status != NULL);
                if (rows[i].http_status) {
                        assert_string_equal(refusal.http_status, rows[i].http_status);
                        assert_int_equal(refusal.status, rows[i].status);
                        assert_string_equal(refusal.text, rows[i].text);
                }
                rpc_head_done(&head);
        }
}

static void test_a_large_list_is_counted_not_kept(void **state UNUSED)
{
        static const struct field fields[] = {GOOD, TYPE, {NULL, NULL}};
        struct rpc_refusal refusal;
        struct rpc_head head;

        fill(&head, RPC_HEAD_REQUEST, fields);
        while (head.size + 40 <= 1000)
                rpc_head_add(&head, "abcd", 4, "efgh", 4);
        assert_false(rpc_head_is_too_large(&head));
        assert_false(rpc_head_is_refused(&head, &refusal));
        rpc_head_add(&head, "abcd", 4, "efgh", 4);
        assert_true(rpc_head_is_too_large(&head));
        assert_false(rpc_head_is_malformed(&head));
        assert_true(rpc_head_is_refused(&head, &refusal));
        assert_int_equal(refusal.status, RPC_RESOURCE_EXHAUSTED);
        rpc_head_done(&head);
}

static void test_a_long_path_is_cut(void **state UNUSED)
{
        char path[1000];
        struct rpc_head head;

        memset(path, 'p', sizeof(path));
        rpc_head_init(&head, 2000);
        rpc_head_begin(&head, RPC_HEAD_REQUEST);
        rpc_head_add(&head, ":path", 5, path, sizeof(path));
        assert_int_equal(strlen(head.path), RPC_HEAD_PATH_SIZE - 1);
        rpc_head_done(&head);
}

static void test_the_status_is_read(void **state UNUSED)
{
        static const struct {
                const char *text;
                enum rpc_status status;
        } rows[] = {
                {"0", RPC_OK},
                {"16", RPC_UNAUTHENTICATED},
                {"17", RPC_UNKNOWN},
                {"999", RPC_UNKNOWN},
                {"", RPC_INTERNAL},
                {"-1", RPC_INTERNAL},
                {"4294967296", RPC_INTERNAL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct field fields[] = {
                        {"grpc-status", rows[i].text}, {"grpc-message", "not%20here%2"}, {NULL, NULL}};
                struct rpc_head head;

                fill(&head, RPC_HEAD_TRAILERS, fields);
                assert_true(head.has_status);
                assert_int_equal(head.status, rows[i].status);
                assert_string_equal(head.message.data, "not here%2");
                rpc_head_begin(&head, RPC_HEAD_TRAILERS);
                assert_false(head.has_status);
                assert_string_equal(head.message.data, "");
                rpc_head_done(&head);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_malformed_lists_are_found),
                cmocka_unit_test(test_requests_that_are_no_grpc_are_refused),
                cmocka_unit_test(test_a_large_list_is_counted_not_kept),
                cmocka_unit_test(test_a_long_path_is_cut),
                cmocka_unit_test(test_the_status_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
