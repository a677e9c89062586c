// SPDX-License-Identifier: Apache-2.0
/*
 * What a server does with a peer that is wrong, hostile, or deaf.
 */
#include "rig.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t empty_message[5];

struct victim {
        struct bench bench;
        struct rpc_session *session;
        struct peer peer;
};

static void victim_init(struct victim *victim, const struct rpc_limits *limits)
{
        struct error err;
        struct rpc_service service;

        *victim = (struct victim){0};
        service = bench_service(&victim->bench);
        if (limits)
                service.limits = *limits;
        victim->session = rpc_session_new_server(&service);
        peer_init(&victim->peer);
        peer_preface(&victim->peer);
        assert_ok(peer_say(&victim->peer, victim->session, &err), &err);
        peer_hear(&victim->peer, victim->session);
}

static void victim_done(struct victim *victim)
{
        rpc_session_free(victim->session);
        peer_done(&victim->peer);
}

static void exchange(struct victim *victim)
{
        struct error err;

        assert_ok(peer_say(&victim->peer, victim->session, &err), &err);
        peer_hear(&victim->peer, victim->session);
}

/* The connection must still serve. */
static void check_alive(struct victim *victim, int32_t stream_id)
{
        unsigned int handled = victim->bench.handled;

        peer_request(&victim->peer, stream_id, "/t.T/Echo", empty_message, 5);
        exchange(victim);
        assert_int_equal(victim->bench.handled, handled + 1);
        assert_string_equal(victim->peer.grpc_status, "0");
        assert_false(rpc_session_is_finished(victim->session));
}

static void test_settings_are_sent_before_anything_is_read(void **state UNUSED)
{
        struct rpc_service service = {0};
        struct rpc_session *session = rpc_session_new_server(&service);
        struct peer peer;

        peer_init(&peer);
        peer_hear(&peer, session);
        assert_int_equal(peer.frames[NGHTTP2_SETTINGS], 1);
        assert_false(rpc_session_is_established(session));
        rpc_session_free(session);
        peer_done(&peer);
}

#define GOOD                                                                                                           \
        {":method", "POST"}, {":scheme", "http"},                                                                      \
        {                                                                                                              \
                ":path", "/t.T/Echo"                                                                                   \
        }
#define TYPE                                                                                                           \
        {                                                                                                              \
                "content-type", "application/grpc"                                                                     \
        }

static void test_bad_requests_are_answered_as_grpc_wants(void **state UNUSED)
{
        static const struct {
                struct field fields[8];
                const char *body;
                size_t size;
                const char *http_status; /* NULL: reset with PROTOCOL_ERROR */
                const char *grpc_status;
                const char *text;
        } rows[] = {
                {{GOOD, TYPE}, "\0\0\0\0\1x", 6, "200", "0", ""},
                {{GOOD, TYPE, {"Te", "trailers"}}, "\0\0\0\0", 5, NULL, NULL, NULL},
                {{GOOD, {":path", "/t.T/Echo"}, TYPE}, "\0\0\0\0", 5, NULL, NULL, NULL},
                {{TYPE, GOOD}, "\0\0\0\0", 5, NULL, NULL, NULL},
                {{GOOD, TYPE, {"connection", "close"}}, "\0\0\0\0", 5, NULL, NULL, NULL},
                {{GOOD}, "\0\0\0\0", 5, "415", "3", "content-type is not application/grpc"},
                {{{":method", "PUT"}, {":scheme", "http"}, {":path", "/t.T/Echo"}, TYPE}, "\0\0\0\0", 5, "405", "13",
                        ":method is not POST"},
                {{{":method", "POST"}, {":scheme", "http"}, {":path", "/t.T/Öde"}, TYPE}, "\0\0\0\0", 5, "200", "12",
                        "unknown method /t.T/%C3%96de"},
                {{GOOD, TYPE, {"grpc-timeout", "soon"}}, "\0\0\0\0", 5, "400", "13", "malformed grpc-timeout"},
                {{GOOD, TYPE, {"grpc-encoding", "gzip"}}, "\1\0\0\0\1x", 6, "200", "12", "compressed request message"},
                {{GOOD, TYPE, {"grpc-encoding", "gzip"}}, "\0\0\0\0\1x", 6, "200", "0", ""},
                {{GOOD, TYPE}, "\2\0\0\0\1x", 6, "200", "13", "request message with a bad compressed flag"},
                {{GOOD, TYPE}, "", 0, "200", "12", "no request message"},
                {{GOOD, TYPE}, "\0\0", 2, "200", "13", "truncated request message"},
                {{GOOD, TYPE}, "\0\0\0\0\5x", 6, "200", "13", "truncated request message"},
                {{GOOD, TYPE}, "\0\0\0\0\0\0\0\0\0\0", 10, "200", "12", "more than one request message"},
                {{GOOD, TYPE}, "\0\0\0\0\0\0", 6, "200", "12", "more than one request message"},
                {{GOOD, TYPE}, "\0\0\100\0\1x", 6, "200", "8",
                        "request message too large, at most 4194304 bytes are accepted"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct victim victim;

                victim_init(&victim, NULL);
                peer_headers(&victim.peer, 0, 1, rows[i].fields);
                peer_frame(&victim.peer, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, rows[i].body, rows[i].size);
                exchange(&victim);
                if (rows[i].http_status) {
                        assert_string_equal(victim.peer.http_status, rows[i].http_status);
                        assert_string_equal(victim.peer.grpc_status, rows[i].grpc_status);
                        assert_string_equal(victim.peer.grpc_message, rows[i].text);
                        if (strcmp(rows[i].grpc_status, "12") == 0)
                                assert_string_equal(victim.peer.accept_encoding, "identity");
                        assert_int_equal(victim.peer.answers, 1);
                } else {
                        assert_int_equal(victim.peer.answers, 0);
                        assert_int_equal(victim.peer.reset_code, NGHTTP2_PROTOCOL_ERROR);
                        assert_int_equal(victim.peer.resets, 1);
                }
                assert_int_equal(rpc_session_calls(victim.session), 0);
                check_alive(&victim, 3);
                victim_done(&victim);
        }
}

static void test_a_large_header_list_is_refused(void **state UNUSED)
{
        static const struct rpc_limits limits = {.header_list = 500};
        struct field fields[40] = {GOOD, TYPE};
        struct victim victim;

        for (size_t i = 4; i < 39; i++)
                fields[i] = (struct field){"x-many", "of-them"};
        victim_init(&victim, &limits);
        peer_headers(&victim.peer, NGHTTP2_FLAG_END_STREAM, 1, fields);
        exchange(&victim);
        assert_string_equal(victim.peer.grpc_status, "8");
        check_alive(&victim, 3);
        victim_done(&victim);
}

/* HPACK: a field of 4 KB once, and then one byte for each time that it comes again. */
static void test_a_header_list_that_grows_out_of_little_ends_the_connection(void **state UNUSED)
{
        enum { VALUE = 4000, TIMES = 10000 };
        uint8_t block[6 + 3 + VALUE + TIMES] = {0x40, 5, 'x', '-', 'b', 'i', 'g', 0x7f, 0xa1, 0x1e};
        struct victim victim;
        struct error err;

        memset(block + 10, 'v', VALUE);
        memset(block + 10 + VALUE, 0xbe, sizeof(block) - 10 - VALUE); /* the newest of the dynamic table */
        victim_init(&victim, NULL);
        peer_frame(&victim.peer, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block, sizeof(block));
        assert_int_equal(peer_say(&victim.peer, victim.session, &err), -1);
        assert_string_equal(err.text, "the peer sends header lists of more than 65536 bytes");
        victim_done(&victim);
}

static void test_trailers_of_a_request_are_tolerated_if_they_are_well_formed(void **state UNUSED)
{
        static const struct field good[] = {{"x-checksum", "1"}, {NULL, NULL}}, bad[] = {{":path", "/"}, {NULL, NULL}};
        static const struct field request[] = {GOOD, TYPE, {NULL, NULL}};
        struct victim victim;

        victim_init(&victim, NULL);
        peer_headers(&victim.peer, 0, 1, request);
        peer_frame(&victim.peer, NGHTTP2_DATA, 0, 1, empty_message, 5);
        peer_headers(&victim.peer, NGHTTP2_FLAG_END_STREAM, 1, good);
        exchange(&victim);
        assert_string_equal(victim.peer.grpc_status, "0");
        peer_headers(&victim.peer, 0, 3, request);
        peer_frame(&victim.peer, NGHTTP2_DATA, 0, 3, empty_message, 5);
        peer_headers(&victim.peer, NGHTTP2_FLAG_END_STREAM, 3, bad);
        exchange(&victim);
        assert_int_equal(victim.peer.reset_code, NGHTTP2_PROTOCOL_ERROR);
        check_alive(&victim, 5);
        victim_done(&victim);
}

static void test_what_is_no_http2_is_an_error(void **state UNUSED)
{
        static const struct {
                const char *bytes;
                const char *text;
        } rows[] = {
                {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/2: Received bad client magic byte string"},
                {"PRI * HTTP/2.0\r\n\r\nXM\r\n\r\n", "HTTP/2: Received bad client magic byte string"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rpc_service service = {0};
                struct rpc_session *session = rpc_session_new_server(&service);
                const uint8_t *bytes = (const uint8_t *)rows[i].bytes;
                size_t size = strlen(rows[i].bytes);
                struct error err;

                assert_fails(rpc_session_receive(session, bytes, size, 0, &err), &err, ERROR_UNAVAILABLE, rows[i].text);
                assert_int_equal(rpc_session_receive(session, bytes, 1, 0, &err), -1);
                rpc_session_free(session);
        }
}

static void test_violations_end_the_connection_with_goaway(void **state UNUSED)
{
        static const struct {
                uint8_t type, flags;
                int32_t stream_id;
                const char *payload;
                size_t size;
                uint32_t code;
        } rows[] = {
                {NGHTTP2_DATA, 0, 1, "x", 1, NGHTTP2_PROTOCOL_ERROR},       /* idle stream */
                {NGHTTP2_DATA, 0, 0, "x", 1, NGHTTP2_PROTOCOL_ERROR},       /* no stream */
                {NGHTTP2_HEADERS, 4, 2, "\x82", 1, NGHTTP2_PROTOCOL_ERROR}, /* even id */
                {NGHTTP2_HEADERS, 4, 1, "\xff\xff\xff\xff\xff\xff", 6, NGHTTP2_COMPRESSION_ERROR},
                {NGHTTP2_SETTINGS, 0, 0, "\0\0\0", 3, NGHTTP2_FRAME_SIZE_ERROR},
                {NGHTTP2_SETTINGS, 0, 1, "", 0, NGHTTP2_PROTOCOL_ERROR},
                {NGHTTP2_PING, 0, 0, "1234567", 7, NGHTTP2_FRAME_SIZE_ERROR},
                {NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4, NGHTTP2_PROTOCOL_ERROR},
                {NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4, NGHTTP2_FLOW_CONTROL_ERROR},
                {NGHTTP2_CONTINUATION, 4, 1, "\x82", 1, NGHTTP2_PROTOCOL_ERROR},
                {NGHTTP2_PUSH_PROMISE, 4, 1, "\0\0\0\2\x82", 5, NGHTTP2_PROTOCOL_ERROR},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct victim victim;
                struct error why;

                victim_init(&victim, NULL);
                peer_frame(&victim.peer, rows[i].type, rows[i].flags, rows[i].stream_id, rows[i].payload, rows[i].size);
                exchange(&victim);
                assert_int_equal(victim.peer.goaways, 1);
                assert_int_equal(victim.peer.goaway_code, rows[i].code);
                assert_true(rpc_session_is_finished(victim.session));
                assert_true(rpc_session_why(victim.session, &why));
                victim_done(&victim);
        }
}

/* Says |say| again and again without listening; how many times before the session calls it an error? */
static unsigned int flood(struct victim *victim, void (*say)(struct victim *victim, unsigned int i), unsigned int most)
{
        struct error err;

        for (unsigned int i = 0; i < most; i++) {
                say(victim, i);
                if (peer_say(&victim->peer, victim->session, &err) < 0)
                        return i;
        }
        return most;
}

static void say_ping(struct victim *victim, unsigned int i UNUSED)
{
        peer_frame(&victim->peer, NGHTTP2_PING, 0, 0, "12345678", 8);
}

static void say_settings(struct victim *victim, unsigned int i UNUSED)
{
        peer_frame(&victim->peer, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static void say_no_request(struct victim *victim, unsigned int i)
{
        static const struct field fields[] = {{"connection", "close"}, {NULL, NULL}};

        peer_headers(&victim->peer, NGHTTP2_FLAG_END_STREAM, (int32_t)(2 * i + 1), fields);
}

static void say_hold(struct victim *victim, unsigned int i)
{
        peer_request(&victim->peer, (int32_t)(2 * i + 1), "/t.T/Hold", empty_message, 5);
}

static void test_a_deaf_peer_is_dropped_before_its_floods_cost_memory(void **state UNUSED)
{
        void (*const floods[])(struct victim *, unsigned int) = {say_ping, say_settings, say_no_request, say_hold};

        for (size_t i = 0; i < ARRAY_SIZE(floods); i++) {
                struct victim victim;

                victim_init(&victim, NULL);
                assert_in_range(flood(&victim, floods[i], 100000), 100, 1200);
                assert_in_range(rpc_session_calls(victim.session), 0, 100);
                victim_done(&victim);
        }
}

static void say_all_pings(struct victim *victim)
{
        for (unsigned int i = 0; i < 100000; i++)
                say_ping(victim, i);
}

static void test_a_flood_in_one_read_is_noticed_within_it(void **state UNUSED)
{
        struct victim victim;
        struct error err;

        victim_init(&victim, NULL);
        say_all_pings(&victim);
        assert_int_equal(peer_say(&victim.peer, victim.session, &err), -1);
        victim_done(&victim);
}

static void test_pings_of_a_peer_that_listens_are_all_answered(void **state UNUSED)
{
        struct victim victim;

        victim_init(&victim, NULL);
        for (unsigned int i = 0; i < 5000; i++) {
                say_ping(&victim, i);
                exchange(&victim);
        }
        assert_int_equal(victim.peer.frames[NGHTTP2_PING], 5000);
        check_alive(&victim, 1);
        victim_done(&victim);
}

static void abuse_until_goaway(void (*say)(struct victim *victim, unsigned int i))
{
        struct victim victim;
        size_t before, after;
        struct error err;
        unsigned int i;

        victim_init(&victim, NULL);
        for (i = 0; i < 100; i++) {
                say(&victim, i);
                exchange(&victim);
        }
        before = mallinfo2().uordblks;
        do {
                say(&victim, i++);
                peer_hear(&victim.peer, victim.session);
        } while (i < 10000 && peer_say(&victim.peer, victim.session, &err) == 0);
        after = mallinfo2().uordblks;
        peer_hear(&victim.peer, victim.session);
        assert_in_range(i, 1001, 1003);
        assert_string_equal(err.text, "the peer breaks or abandons its streams");
        assert_int_equal(victim.peer.goaways, 1);
        assert_int_equal(victim.peer.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
        assert_true(after < before + 20000);
        assert_true(rpc_session_is_finished(victim.session));
        victim_done(&victim);
}

static void say_and_reset(struct victim *victim, unsigned int i)
{
        say_hold(victim, i);
        peer_u32(&victim->peer, NGHTTP2_RST_STREAM, (int32_t)(2 * i + 1), NGHTTP2_CANCEL);
}

/* The other way to the same end: the peer makes us reset (CVE-2025-8671). */
static void say_what_must_be_reset(struct victim *victim, unsigned int i)
{
        say_hold(victim, i);
        peer_u32(&victim->peer, NGHTTP2_WINDOW_UPDATE, (int32_t)(2 * i + 1), 0x7fffffff);
}

static void test_rapid_resets_end_the_connection_and_cost_nothing(void **state UNUSED)
{
        abuse_until_goaway(say_and_reset);
        abuse_until_goaway(say_what_must_be_reset);
        abuse_until_goaway(say_no_request);
}

static void test_a_client_that_also_completes_calls_may_cancel_some(void **state UNUSED)
{
        struct victim victim;

        victim_init(&victim, NULL);
        for (unsigned int i = 0; i < 800; i++) {
                say_and_reset(&victim, 2 * i);
                peer_request(&victim.peer, (int32_t)(4 * i + 3), "/t.T/Echo", empty_message, 5);
                exchange(&victim);
        }
        assert_int_equal(victim.peer.goaways, 0);
        assert_int_equal(victim.bench.ended, 800);
        check_alive(&victim, 8001);
        victim_done(&victim);
}

static void test_streams_beyond_the_limit_are_refused_one_by_one(void **state UNUSED)
{
        static const struct rpc_limits limits = {.streams = 3};
        struct victim victim;

        victim_init(&victim, &limits); /* our SETTINGS are not acknowledged yet */
        for (unsigned int i = 0; i < 5; i++)
                say_hold(&victim, i);
        exchange(&victim);
        assert_int_equal(rpc_session_calls(victim.session), 3);
        assert_int_equal(victim.peer.resets, 2);
        assert_int_equal(victim.peer.reset_code, NGHTTP2_REFUSED_STREAM);
        victim_done(&victim);
        assert_int_equal(victim.bench.ended, 3);
}

static void test_half_messages_of_all_streams_together_are_bounded(void **state UNUSED)
{
        static const struct field request[] = {GOOD, TYPE, {NULL, NULL}};
        static const struct rpc_limits limits = {.message = 10000};
        uint8_t part[9000] = {0, 0, 0, 0x27, 0x10}; /* claims 10000 */
        struct victim victim;

        victim_init(&victim, &limits);
        for (int32_t id = 1; id <= 5; id += 2) {
                peer_headers(&victim.peer, 0, id, request);
                peer_frame(&victim.peer, NGHTTP2_DATA, 0, id, part, sizeof(part));
                exchange(&victim);
                assert_int_equal(victim.peer.answers, id == 5); /* 27000 bytes: one too many */
        }
        assert_string_equal(victim.peer.grpc_status, "8");
        check_alive(&victim, 9);
        victim_done(&victim);
}

static void test_no_frame_is_larger_than_every_peer_accepts(void **state UNUSED)
{
        static const uint8_t large_window[] = {0, 4, 0x7f, 0xff, 0xff, 0xff, 0, 5, 0, 0xff, 0xff, 0xff};
        struct rpc_message *message = filled_message(1 << 20, 'x');
        struct victim victim;

        victim_init(&victim, NULL);
        peer_frame(&victim.peer, NGHTTP2_SETTINGS, 0, 0, large_window, sizeof(large_window));
        peer_u32(&victim.peer, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000 - 65535);
        say_hold(&victim, 0);
        exchange(&victim);
        rpc_call_send(victim.bench.call, message);
        rpc_call_finish(victim.bench.call, RPC_OK, NULL);
        peer_hear(&victim.peer, victim.session);
        assert_int_equal(victim.peer.largest_frame, 16384);
        assert_int_equal(victim.peer.frames[NGHTTP2_DATA], 65);
        assert_string_equal(victim.peer.grpc_status, "0");
        rpc_message_unref(message);
        victim_done(&victim);
}

static void test_output_is_made_in_pieces(void **state UNUSED)
{
        static const uint8_t large_window[] = {0, 4, 0x7f, 0xff, 0xff, 0xff};
        struct rpc_message *message = filled_message(4 << 20, 'x');
        struct victim victim;
        const uint8_t *bytes;
        size_t size, total = 0;

        victim_init(&victim, NULL);
        peer_frame(&victim.peer, NGHTTP2_SETTINGS, 0, 0, large_window, sizeof(large_window));
        peer_u32(&victim.peer, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000 - 65535);
        say_hold(&victim, 0);
        exchange(&victim);
        rpc_call_send(victim.bench.call, message);
        while ((size = rpc_session_pending(victim.session, &bytes)) > 0) {
                assert_in_range(size, 1, 65536 + 16384 + 9);
                total += size;
        }
        assert_true(total > 4 << 20);
        rpc_message_unref(message);
        victim_done(&victim);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_settings_are_sent_before_anything_is_read),
                cmocka_unit_test(test_bad_requests_are_answered_as_grpc_wants),
                cmocka_unit_test(test_a_large_header_list_is_refused),
                cmocka_unit_test(test_a_header_list_that_grows_out_of_little_ends_the_connection),
                cmocka_unit_test(test_trailers_of_a_request_are_tolerated_if_they_are_well_formed),
                cmocka_unit_test(test_what_is_no_http2_is_an_error),
                cmocka_unit_test(test_violations_end_the_connection_with_goaway),
                cmocka_unit_test(test_a_deaf_peer_is_dropped_before_its_floods_cost_memory),
                cmocka_unit_test(test_a_flood_in_one_read_is_noticed_within_it),
                cmocka_unit_test(test_pings_of_a_peer_that_listens_are_all_answered),
                cmocka_unit_test(test_rapid_resets_end_the_connection_and_cost_nothing),
                cmocka_unit_test(test_a_client_that_also_completes_calls_may_cancel_some),
                cmocka_unit_test(test_streams_beyond_the_limit_are_refused_one_by_one),
                cmocka_unit_test(test_half_messages_of_all_streams_together_are_bounded),
                cmocka_unit_test(test_no_frame_is_larger_than_every_peer_accepts),
                cmocka_unit_test(test_output_is_made_in_pieces),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
