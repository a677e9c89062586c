// SPDX-License-Identifier: Apache-2.0
/*
 * What a client makes of a server that answers in every way there is, right or wrong.
 */
#include "rig.h"

#include <string.h>

struct subject {
        struct rpc_session *session;
        struct rpc_call *call; /* on stream 1 */
        struct outcome outcome;
        struct peer peer;
};

static void subject_init(struct subject *subject, int64_t deadline_ms)
{
        const struct rpc_session_client_options options = {0};
        struct rpc_message *request = filled_message(3, 'q');

        *subject = (struct subject){.session = rpc_session_new_client(&options)};
        peer_init(&subject->peer);
        peer_frame(&subject->peer, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
        subject->call = rpc_session_call(
                subject->session, "/t.T/X", request, 0, deadline_ms, &outcome_handlers, &subject->outcome);
        rpc_message_unref(request);
        peer_hear(&subject->peer, subject->session);
        assert_int_equal(subject->peer.frames[NGHTTP2_HEADERS], 1);
        assert_int_equal(subject->peer.frames[NGHTTP2_DATA], 1);
}

static void subject_done(struct subject *subject)
{
        rpc_session_free(subject->session);
        peer_done(&subject->peer);
        assert_int_equal(subject->outcome.ended, 1);
}

static void exchange(struct subject *subject)
{
        struct error err;

        assert_ok(peer_say(&subject->peer, subject->session, &err), &err);
        peer_hear(&subject->peer, subject->session);
}

#define OK_HEAD                                                                                                        \
        {                                                                                                              \
                {":status", "200"},                                                                                    \
                {                                                                                                      \
                        "content-type", "application/grpc"                                                             \
                }                                                                                                      \
        }
#define OK_TRAILERS                                                                                                    \
        {                                                                                                              \
                {                                                                                                      \
                        "grpc-status", "0"                                                                             \
                }                                                                                                      \
        }

static void test_every_kind_of_answer_has_its_status(void **state UNUSED)
{
        static const struct {
                struct field head[5];
                const char *body; /* NULL: the head ends the stream */
                size_t size;
                struct field trailers[3]; /* none: the body ends the stream */
                enum rpc_status status;
                const char *text;
                unsigned int messages;
        } rows[] = {
                {OK_HEAD, "\0\0\0\0\1x", 6, OK_TRAILERS, RPC_OK, "", 1},
                {OK_HEAD, "", 0, OK_TRAILERS, RPC_OK, "", 0},
                {OK_HEAD, "\0\0\0\0\1x\0\0\0\0\0", 11, OK_TRAILERS, RPC_OK, "", 2},
                {OK_HEAD, "\0\0\0\0\1x", 6, {{"grpc-status", "5"}, {"grpc-message", "no%20such"}}, RPC_NOT_FOUND,
                        "no such", 1},
                {OK_HEAD, "\0\0\0\0\1x", 6, {{"x", "y"}}, RPC_UNKNOWN, "trailers without grpc-status", 1},
                {OK_HEAD, "\0\0\0\0\1x", 6, {{NULL}}, RPC_INTERNAL,
                        "the server closed the stream without sending trailers", 1},
                {OK_HEAD, "\0\0\0\0\2x", 6, OK_TRAILERS, RPC_INTERNAL, "truncated response message", 0},
                {OK_HEAD, "\0\0\0\0\2x", 6, {{"grpc-status", "14"}}, RPC_UNAVAILABLE, "", 0},
                {OK_HEAD, "\1\0\0\0\1x", 6, OK_TRAILERS, RPC_INTERNAL,
                        "compressed response message, though none was asked for", 0},
                {OK_HEAD, "\7\0\0\0\1x", 6, OK_TRAILERS, RPC_INTERNAL, "response message with a bad compressed flag",
                        0},
                {OK_HEAD, "\0\177\0\0\1x", 6, OK_TRAILERS, RPC_RESOURCE_EXHAUSTED, "response message too large", 0},
                {OK_HEAD, NULL, 0, {{NULL}}, RPC_INTERNAL, "response without grpc-status", 0},
                {{{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "12"},
                         {"grpc-message", "what%3f"}},
                        NULL, 0, {{NULL}}, RPC_UNIMPLEMENTED, "what?", 0},
                {{{":status", "200"}, {"content-type", "application/grpc+proto"}, {"grpc-status", "0"}}, NULL, 0,
                        {{NULL}}, RPC_OK, "", 0},
                {{{":status", "415"}, {"grpc-status", "3"}}, NULL, 0, {{NULL}}, RPC_INVALID_ARGUMENT, "", 0},
                {{{":status", "503"}}, NULL, 0, {{NULL}}, RPC_UNAVAILABLE, "unexpected HTTP status 503", 0},
                {{{":status", "404"}, {"content-type", "text/html"}}, "<html>", 6, {{NULL}}, RPC_UNIMPLEMENTED,
                        "unexpected HTTP status 404", 0},
                {{{":status", "200"}, {"content-type", "text/html"}}, "<html>", 6, {{NULL}}, RPC_UNKNOWN,
                        "content-type of the response is not application/grpc", 0},
                {{{"content-type", "application/grpc"}}, "\0\0\0\0\0", 5, OK_TRAILERS, RPC_INTERNAL,
                        "malformed response header list", 0},
                {OK_HEAD, "\0\0\0\0\0", 5, {{":status", "200"}}, RPC_INTERNAL, "malformed response header list", 1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                bool has_trailers = rows[i].trailers[0].name;
                struct subject subject;

                subject_init(&subject, RPC_NO_DEADLINE);
                peer_headers(&subject.peer, rows[i].body ? 0 : NGHTTP2_FLAG_END_STREAM, 1, rows[i].head);
                if (rows[i].body)
                        peer_frame(&subject.peer, NGHTTP2_DATA, has_trailers ? 0 : NGHTTP2_FLAG_END_STREAM, 1,
                                rows[i].body, rows[i].size);
                if (has_trailers)
                        peer_headers(&subject.peer, NGHTTP2_FLAG_END_STREAM, 1, rows[i].trailers);
                exchange(&subject);
                assert_int_equal(subject.outcome.ended, 1);
                assert_string_equal(subject.outcome.text, rows[i].text);
                assert_int_equal(subject.outcome.status, rows[i].status);
                assert_int_equal(subject.outcome.messages, rows[i].messages);
                assert_int_equal(subject.peer.goaways, 0);
                if (rows[i].status == RPC_OK)
                        assert_int_equal(subject.peer.resets, 0);
                subject_done(&subject);
        }
}

static void test_informational_heads_come_before_the_answer(void **state UNUSED)
{
        static const struct field early[] = {{":status", "103"}, {NULL, NULL}};
        static const struct field head[] = {{":status", "200"}, {"content-type", "application/grpc"}, {NULL, NULL}};
        static const struct field trailers[] = {{"grpc-status", "0"}, {NULL, NULL}};
        struct subject subject;

        subject_init(&subject, RPC_NO_DEADLINE);
        peer_headers(&subject.peer, 0, 1, early);
        peer_headers(&subject.peer, 0, 1, head);
        peer_headers(&subject.peer, NGHTTP2_FLAG_END_STREAM, 1, trailers);
        exchange(&subject);
        assert_int_equal(subject.outcome.status, RPC_OK);
        subject_done(&subject);
}

static void test_a_second_head_is_an_error(void **state UNUSED)
{
        static const struct field head[] = {{":status", "200"}, {"content-type", "application/grpc"}, {NULL, NULL}};
        static const struct field more[] = {{"x", "y"}, {NULL, NULL}};
        struct subject subject;

        subject_init(&subject, RPC_NO_DEADLINE);
        peer_headers(&subject.peer, 0, 1, head);
        peer_headers(&subject.peer, 0, 1, more);
        exchange(&subject);
        assert_int_equal(subject.outcome.status, RPC_INTERNAL);
        assert_int_equal(subject.peer.resets, 1);
        subject_done(&subject);
}

static void test_resets_become_statuses(void **state UNUSED)
{
        static const struct {
                uint32_t code;
                int64_t deadline_ms;
                enum rpc_status status;
                const char *text;
        } rows[] = {
                {NGHTTP2_NO_ERROR, RPC_NO_DEADLINE, RPC_INTERNAL, "stream closed with NO_ERROR"},
                {NGHTTP2_REFUSED_STREAM, RPC_NO_DEADLINE, RPC_UNAVAILABLE, "stream closed with REFUSED_STREAM"},
                {NGHTTP2_CANCEL, RPC_NO_DEADLINE, RPC_CANCELLED, "stream closed with CANCEL"},
                {NGHTTP2_CANCEL, 1001, RPC_CANCELLED, "stream closed with CANCEL"},
                {NGHTTP2_CANCEL, 1000, RPC_DEADLINE_EXCEEDED, "stream closed with CANCEL"},
                {0x4242, RPC_NO_DEADLINE, RPC_UNKNOWN, "stream closed with unknown"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct subject subject;

                subject_init(&subject, rows[i].deadline_ms); /* the rig says that it is 1000 */
                peer_u32(&subject.peer, NGHTTP2_RST_STREAM, 1, rows[i].code);
                exchange(&subject);
                assert_int_equal(subject.outcome.status, rows[i].status);
                assert_string_equal(subject.outcome.text, rows[i].text);
                subject_done(&subject);
        }
}

static void test_the_deadline_is_sent(void **state UNUSED)
{
        struct subject subject;

        subject_init(&subject, 20000);
        assert_string_equal(subject.peer.grpc_timeout, "20000m");
        subject_done(&subject);
        assert_int_equal(subject.outcome.status, RPC_UNAVAILABLE);
}

static void test_an_answer_before_the_request_is_out_stops_it(void **state UNUSED)
{
        static const struct field only[] = {
                {":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "8"}, {NULL, NULL}};
        struct rpc_message *request = filled_message(1 << 20, 'q');
        struct outcome outcome = {0};
        struct rpc_call *call;
        struct subject subject;

        subject_init(&subject, RPC_NO_DEADLINE);
        call = rpc_session_call(subject.session, "/t.T/X", request, 0, RPC_NO_DEADLINE, &outcome_handlers, &outcome);
        assert_non_null(call);
        peer_hear(&subject.peer, subject.session); /* a window full of it */
        peer_headers(&subject.peer, NGHTTP2_FLAG_END_STREAM, 3, only);
        exchange(&subject);
        assert_int_equal(outcome.status, RPC_RESOURCE_EXHAUSTED);
        assert_int_equal(subject.peer.resets, 1);
        assert_int_equal(subject.peer.reset_code, NGHTTP2_NO_ERROR);
        rpc_message_unref(request);
        subject_done(&subject);
}

static void say_goaway(struct subject *subject, uint32_t last_stream_id, uint32_t code)
{
        const uint8_t payload[] = {(uint8_t)(last_stream_id >> 24), (uint8_t)(last_stream_id >> 16),
                (uint8_t)(last_stream_id >> 8), (uint8_t)last_stream_id, 0, 0, 0, (uint8_t)code, 't', 'o', 'o', '\n'};

        peer_frame(&subject->peer, NGHTTP2_GOAWAY, 0, 0, payload, sizeof(payload));
}

static void test_goaway_refuses_what_the_server_has_not_seen(void **state UNUSED)
{
        struct subject subject;

        subject_init(&subject, RPC_NO_DEADLINE);
        say_goaway(&subject, 0, NGHTTP2_NO_ERROR);
        exchange(&subject);
        assert_int_equal(subject.outcome.ended, 1);
        assert_int_equal(subject.outcome.status, RPC_UNAVAILABLE);
        assert_true(rpc_session_is_finished(subject.session));
        subject_done(&subject);
}

static void test_goaway_lets_what_is_open_go_on(void **state UNUSED)
{
        static const struct field only[] = {
                {":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}, {NULL, NULL}};
        struct subject subject;
        struct error why;

        subject_init(&subject, RPC_NO_DEADLINE);
        say_goaway(&subject, 1, NGHTTP2_ENHANCE_YOUR_CALM);
        exchange(&subject);
        assert_int_equal(subject.outcome.ended, 0);
        assert_false(rpc_session_is_finished(subject.session));
        assert_true(rpc_session_why(subject.session, &why));
        assert_string_equal(why.text, "the peer ended the connection with ENHANCE_YOUR_CALM: too");
        peer_headers(&subject.peer, NGHTTP2_FLAG_END_STREAM, 1, only);
        exchange(&subject);
        assert_int_equal(subject.outcome.status, RPC_OK);
        assert_true(rpc_session_is_finished(subject.session));
        subject_done(&subject);
}

static void test_a_push_is_refused(void **state UNUSED)
{
        struct subject subject;

        subject_init(&subject, RPC_NO_DEADLINE);
        peer_frame(&subject.peer, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, "\0\0\0\2\x82", 5);
        exchange(&subject);
        assert_int_equal(subject.peer.resets, 1); /* before our SETTINGS have arrived it may not know better */
        assert_int_equal(subject.peer.reset_code, NGHTTP2_CANCEL);
        assert_int_equal(subject.outcome.ended, 0);
        peer_frame(&subject.peer, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
        peer_frame(&subject.peer, NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, "\0\0\0\4\x82", 5);
        exchange(&subject);
        assert_int_equal(subject.peer.goaways, 1);
        assert_int_equal(subject.peer.goaway_code, NGHTTP2_PROTOCOL_ERROR);
        assert_true(rpc_session_is_finished(subject.session));
        subject_done(&subject);
}

static void test_what_comes_after_the_end_is_ignored(void **state UNUSED)
{
        static const struct field head[] = {{":status", "200"}, {"content-type", "application/grpc"}, {NULL, NULL}};
        struct subject subject;

        subject_init(&subject, RPC_NO_DEADLINE);
        peer_headers(&subject.peer, 0, 1, head);
        exchange(&subject);
        rpc_call_cancel(subject.call);
        peer_frame(&subject.peer, NGHTTP2_DATA, 0, 1, "\0\0\0\0\0", 5); /* crosses our RST_STREAM */
        exchange(&subject);
        peer_u32(&subject.peer, NGHTTP2_RST_STREAM, 1, NGHTTP2_NO_ERROR);
        exchange(&subject);
        assert_int_equal(subject.outcome.messages, 0);
        assert_int_equal(subject.peer.reset_code, NGHTTP2_CANCEL);
        assert_int_equal(subject.peer.goaways, 0);
        subject_done(&subject);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_kind_of_answer_has_its_status),
                cmocka_unit_test(test_informational_heads_come_before_the_answer),
                cmocka_unit_test(test_a_second_head_is_an_error),
                cmocka_unit_test(test_resets_become_statuses),
                cmocka_unit_test(test_the_deadline_is_sent),
                cmocka_unit_test(test_an_answer_before_the_request_is_out_stops_it),
                cmocka_unit_test(test_goaway_refuses_what_the_server_has_not_seen),
                cmocka_unit_test(test_goaway_lets_what_is_open_go_on),
                cmocka_unit_test(test_a_push_is_refused),
                cmocka_unit_test(test_what_comes_after_the_end_is_ignored),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
