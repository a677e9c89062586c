// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static void test_a_unary_call_goes_round_however_it_is_split(void **state UNUSED)
{
        static const size_t steps[] = {1, 2, 3, 5, 7, 8, 9, 10, 13, 24, 25, 64, 100, 1000, SIZE_MAX};

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                struct outcome outcome = {0}, empty = {0};
                struct pair pair;

                pair_init(&pair);
                pair.step = steps[i];
                pair_call(&pair, "/t.T/Echo", 1000, &outcome);
                pair_call(&pair, "/t.T/Echo", 0, &empty);
                pair_pump(&pair);
                assert_int_equal(outcome.ended, 1);
                assert_int_equal(outcome.status, RPC_OK);
                assert_int_equal(outcome.messages, 1);
                assert_int_equal(outcome.bytes, 1000);
                assert_int_equal(outcome.first_byte, 'q');
                assert_int_equal(empty.status, RPC_OK);
                assert_int_equal(empty.messages, 1);
                assert_int_equal(empty.bytes, 0);
                assert_int_equal(rpc_session_calls(pair.client), 0);
                assert_int_equal(rpc_session_calls(pair.server), 0);
                assert_true(rpc_session_is_established(pair.client));
                assert_true(rpc_session_is_established(pair.server));
                pair_done(&pair);
        }
}

static void test_messages_larger_than_the_window_pass_both_ways(void **state UNUSED)
{
        static const size_t sizes[] = {16379, 16380, 65535, 65536, 1 << 20, 4 << 20};

        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                struct outcome outcome = {0};
                struct pair pair;

                pair_init(&pair);
                pair.step = 1000;
                pair_call(&pair, "/t.T/Echo", sizes[i], &outcome);
                pair_pump(&pair);
                assert_int_equal(outcome.status, RPC_OK);
                assert_int_equal(outcome.bytes, sizes[i]);
                assert_int_equal(pair.bench.request_size, sizes[i]);
                pair_done(&pair);
        }
}

static void test_an_error_at_once_carries_its_text(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Fail", 10, &outcome);
        pair_pump(&pair);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_FAILED_PRECONDITION);
        assert_string_equal(outcome.text, "größer als 100%\n");
        assert_int_equal(outcome.messages, 0);
        pair_done(&pair);
}

static void test_a_call_may_finish_without_a_message(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Drop", 0, &outcome);
        pair_pump(&pair);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_OK);
        assert_int_equal(outcome.messages, 0);
        pair_done(&pair);
}

static void test_an_answer_may_come_before_the_request_is_complete(void **state UNUSED)
{
        struct outcome unknown = {0}, echo = {0};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Nope", 2 << 20, &unknown);
        pair_pump(&pair);
        assert_int_equal(unknown.ended, 1);
        assert_int_equal(unknown.status, RPC_UNIMPLEMENTED);
        assert_string_equal(unknown.text, "unknown method /t.T/Nope");
        assert_int_equal(rpc_session_calls(pair.server), 0);
        pair_call(&pair, "/t.T/Echo", 1 << 20, &echo);
        pair_pump(&pair);
        assert_int_equal(echo.bytes, 1 << 20);
        pair_done(&pair);
}

static void send_filled(struct rpc_call *call, size_t size, int byte)
{
        struct rpc_message *message = filled_message(size, byte);

        rpc_call_send(call, message);
        rpc_message_unref(message);
}

static void test_a_stream_delivers_in_order_and_ends_later(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        assert_non_null(pair.bench.call);
        for (unsigned int i = 0; i < 3; i++) {
                send_filled(pair.bench.call, i * 100000, 'a' + (int)i);
                pair_pump(&pair);
                assert_int_equal(outcome.messages, i + 1);
                assert_int_equal(outcome.last_size, i * 100000);
        }
        assert_int_equal(outcome.first_byte, 'c');
        assert_int_equal(outcome.ended, 0);
        rpc_call_finish(pair.bench.call, RPC_ABORTED, "enough");
        send_filled(pair.bench.call, 1, 'z'); /* too late */
        pair_pump(&pair);
        assert_int_equal(outcome.messages, 3);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_ABORTED);
        assert_string_equal(outcome.text, "enough");
        assert_int_equal(pair.bench.ended, 1);
        pair_done(&pair);
        assert_int_equal(pair.bench.ended, 1);
}

static void test_trailers_follow_what_is_queued(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        send_filled(pair.bench.call, 300000, 'a');
        rpc_call_finish(pair.bench.call, RPC_OK, NULL);
        pair_pump(&pair);
        assert_int_equal(outcome.messages, 1);
        assert_int_equal(outcome.first_byte, 'a');
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_OK);
        pair_done(&pair);
}

static void test_a_slow_reader_costs_one_waiting_message(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;
        const uint8_t *bytes;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        send_filled(pair.bench.call, 1 << 20, 'a');
        while (rpc_session_pending(pair.server, &bytes) > 0) /* 64 KiB of it leave, and are lost on the way */
                ;
        for (int byte = 'b'; byte <= 'z'; byte++)
                send_filled(pair.bench.call, 1 << 20, byte);
        pair_done(&pair);

        outcome = (struct outcome){0};
        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        send_filled(pair.bench.call, 1 << 20, 'a');
        pair_to_client(&pair); /* a window full; the client's updates stay where they are */
        assert_int_equal(outcome.messages, 0);
        for (int byte = 'b'; byte <= 'z'; byte++)
                send_filled(pair.bench.call, 1 << 20, byte);
        pair_pump(&pair);
        assert_int_equal(outcome.messages, 2);
        assert_int_equal(outcome.first_byte, 'z');
        assert_int_equal(outcome.bytes, 2 << 20);
        pair_done(&pair);
}

static void test_a_cancelled_call_ends_once_on_both_sides(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct rpc_call *call;
        struct pair pair;

        pair_init(&pair);
        call = pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        rpc_call_cancel(call);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_CANCELLED);
        pair_pump(&pair);
        assert_int_equal(pair.bench.ended, 1);
        assert_int_equal(outcome.ended, 1);
        pair_done(&pair);
        assert_int_equal(pair.bench.ended, 1);
}

static void test_a_call_cancelled_before_it_was_sent_never_reaches_the_server(void **state UNUSED)
{
        struct outcome outcome = {0}, other = {0};
        struct pair pair;

        pair_init(&pair);
        rpc_call_cancel(pair_call(&pair, "/t.T/Echo", 100, &outcome));
        pair_call(&pair, "/t.T/Echo", 1, &other);
        pair_pump(&pair);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_CANCELLED);
        assert_int_equal(other.status, RPC_OK);
        assert_int_equal(pair.bench.handled, 1);
        pair_done(&pair);
}

static void test_a_call_may_be_cancelled_from_within_its_message(void **state UNUSED)
{
        struct outcome outcome = {.cancel_at_message = true};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        send_filled(pair.bench.call, 1, 'a');
        send_filled(pair.bench.call, 1, 'b');
        pair_pump(&pair);
        assert_int_equal(outcome.messages, 1);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(pair.bench.ended, 1);
        pair_done(&pair);
}

static struct rpc_call *call_until(struct pair *pair, const char *path, int64_t deadline_ms, struct outcome *outcome)
{
        _cleanup_(rpc_message_unrefp) struct rpc_message *request = rpc_message_new(0);

        return rpc_session_call(pair->client, path, request, pair->now_ms, deadline_ms, &outcome_handlers, outcome);
}

static void test_a_deadline_passes_at_the_client(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        call_until(&pair, "/t.T/Hold", 1500, &outcome);
        assert_int_equal(rpc_session_next_deadline(pair.client), 1500);
        pair_pump(&pair);
        rpc_session_expire(pair.client, 1499);
        assert_int_equal(outcome.ended, 0);
        rpc_session_expire(pair.client, 1500);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_DEADLINE_EXCEEDED);
        assert_int_equal(rpc_session_next_deadline(pair.client), RPC_NO_DEADLINE);
        pair_pump(&pair);
        assert_int_equal(pair.bench.ended, 1);
        pair_done(&pair);
}

static void test_a_deadline_travels_and_passes_at_the_server(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        call_until(&pair, "/t.T/Hold", 1500, &outcome);
        pair_pump(&pair);
        assert_int_equal(rpc_session_next_deadline(pair.server), 1500);
        pair.now_ms = 1500;
        rpc_session_expire(pair.server, 1500);
        rpc_call_finish(pair.bench.call, RPC_OK, NULL); /* too late, and harmless */
        pair_pump(&pair);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_DEADLINE_EXCEEDED);
        assert_int_equal(pair.bench.ended, 1);
        assert_int_equal(rpc_session_next_deadline(pair.server), RPC_NO_DEADLINE);
        pair_done(&pair);
}

static void test_a_deadline_within_a_message_resets(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        call_until(&pair, "/t.T/Hold", 1500, &outcome);
        pair_pump(&pair);
        send_filled(pair.bench.call, 1 << 20, 'a');
        pair_to_client(&pair);
        pair.now_ms = 1500;
        rpc_session_expire(pair.server, 1500);
        pair_to_client(&pair);
        assert_int_equal(outcome.ended, 1);
        assert_int_equal(outcome.status, RPC_DEADLINE_EXCEEDED);
        assert_int_equal(pair.bench.ended, 1);
        pair_done(&pair);
}

static void test_a_deadline_already_passed_ends_the_call_later(void **state UNUSED)
{
        struct outcome outcome = {0};
        struct pair pair;

        pair_init(&pair);
        call_until(&pair, "/t.T/Echo", 1000, &outcome);
        assert_int_equal(outcome.ended, 0);
        assert_int_equal(rpc_session_next_deadline(pair.client), 1000);
        rpc_session_expire(pair.client, 1000);
        assert_int_equal(outcome.status, RPC_DEADLINE_EXCEEDED);
        pair_pump(&pair);
        assert_int_equal(pair.bench.handled, 0);
        pair_done(&pair);
}

static void test_draining_serves_what_is_open_and_on_the_way(void **state UNUSED)
{
        struct outcome open = {0}, under_way = {0}, late = {0};
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &open);
        pair_pump(&pair);
        rpc_session_drain(pair.server);
        pair_call(&pair, "/t.T/Echo", 5, &under_way); /* before the client has heard of it */
        pair_pump(&pair);
        assert_int_equal(under_way.status, RPC_OK);
        assert_int_equal(under_way.bytes, 5);
        assert_false(rpc_session_is_finished(pair.server));

        pair_call(&pair, "/t.T/Echo", 5, &late);
        assert_int_equal(late.ended, 0);
        rpc_session_expire(pair.client, pair.now_ms);
        assert_int_equal(late.ended, 1);
        assert_int_equal(late.status, RPC_UNAVAILABLE);
        assert_string_equal(late.text, "the connection is closing");

        rpc_call_finish(pair.bench.call, RPC_OK, NULL);
        pair_pump(&pair);
        assert_int_equal(open.status, RPC_OK);
        assert_true(rpc_session_is_finished(pair.server));
        assert_true(rpc_session_is_finished(pair.client));
        pair_done(&pair);
}

static void test_given_back_is_what_has_no_answer(void **state UNUSED)
{
        static const uint8_t empty[5] = {0}; /* a message */
        static const struct {
                const char *paths[4]; /* of the streams 1, 3, 5 … */
                uint32_t last;        /* that the client has to take for begun */
        } rows[] = {
                {{NULL}, 0}, {{"/t.T/Echo"}, 1}, {{"/t.T/Hold"}, 0}, {{"/t.T/Echo", "/t.T/Hold", "/t.T/Hold"}, 1},
                {{"/t.T/Hold", "/t.T/Echo"}, 0}, /* what was answered is over for the client, too */
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct bench bench = {0};
                struct rpc_service service = bench_service(&bench);
                struct rpc_session *session = rpc_session_new_server(&service);
                struct peer peer;
                struct error err;

                peer_init(&peer);
                peer_preface(&peer);
                for (int32_t j = 0; rows[i].paths[j]; j++)
                        peer_request(&peer, 2 * j + 1, rows[i].paths[j], empty, sizeof(empty));
                assert_ok(peer_say(&peer, session, &err), &err);
                peer_hear(&peer, session);
                rpc_session_give_back(session);
                peer_hear(&peer, session);
                assert_int_equal(peer.goaways, 1);
                assert_int_equal(peer.goaway_code, NGHTTP2_NO_ERROR);
                assert_int_equal(peer.goaway_last, rows[i].last);
                assert_true(rpc_session_is_finished(session));
                rpc_session_free(session);
                peer_done(&peer);
        }
}

static void test_a_lost_connection_ends_every_call_with_the_reason(void **state UNUSED)
{
        struct outcome open[3] = {0}, late = {0};
        struct pair pair;

        pair_init(&pair);
        for (size_t i = 0; i < ARRAY_SIZE(open); i++)
                pair_call(&pair, "/t.T/Hold", 0, &open[i]);
        pair_pump(&pair);
        rpc_session_end(pair.client, RPC_UNAVAILABLE, "read: Connection reset by peer");
        for (size_t i = 0; i < ARRAY_SIZE(open); i++) {
                assert_int_equal(open[i].ended, 1);
                assert_int_equal(open[i].status, RPC_UNAVAILABLE);
                assert_string_equal(open[i].text, "read: Connection reset by peer");
        }
        pair_call(&pair, "/t.T/Echo", 0, &late);
        assert_int_equal(late.ended, 0);
        rpc_session_expire(pair.client, pair.now_ms);
        assert_string_equal(late.text, "read: Connection reset by peer");
        assert_int_equal(pair.bench.ended, 0);
        pair_done(&pair);
        assert_int_equal(pair.bench.ended, 3);
}

static void test_more_calls_than_streams_wait_their_turn(void **state UNUSED)
{
        struct outcome outcomes[250] = {0};
        struct pair pair;

        pair_init(&pair);
        pair_pump(&pair);
        for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++)
                pair_call(&pair, "/t.T/Hold", i, &outcomes[i]);
        pair_pump(&pair);
        assert_int_equal(rpc_session_calls(pair.server), 100);
        assert_int_equal(pair.bench.handled, 100);
        while (pair.bench.call) {
                rpc_call_finish(pair.bench.call, RPC_NOT_FOUND, NULL);
                pair_pump(&pair);
        }
        assert_true(pair.bench.handled > 100);
        pair_done(&pair);
        for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++)
                assert_int_equal(outcomes[i].ended, 1);
}

static void test_a_response_beyond_the_limit_is_refused(void **state UNUSED)
{
        struct rpc_session_client_options options = {.limits = {.message = 1000}};
        struct outcome fits = {0}, large = {0};
        struct pair pair;

        pair_init(&pair);
        rpc_session_free(pair.client);
        pair.client = rpc_session_new_client(&options);
        pair_call(&pair, "/t.T/Echo", 1000, &fits);
        pair_call(&pair, "/t.T/Echo", 1001, &large);
        pair_pump(&pair);
        assert_int_equal(fits.status, RPC_OK);
        assert_int_equal(large.status, RPC_RESOURCE_EXHAUSTED);
        assert_int_equal(large.messages, 0);
        pair_done(&pair);
}

static void test_every_form_of_authority_is_served(void **state UNUSED)
{
        static const char *const forms[] = {
                "localhost", "", "%2Fvar%2Flib%2Fkubelet%2Fx.sock", "/var/lib/kubelet/x.sock", "[::1]:80", "a b"};

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                struct rpc_session_client_options options = {.authority = forms[i]};
                struct outcome outcome = {0};
                struct pair pair;

                pair_init(&pair);
                rpc_session_free(pair.client);
                pair.client = rpc_session_new_client(&options);
                pair_call(&pair, "/t.T/Echo", 3, &outcome);
                pair_pump(&pair);
                assert_int_equal(outcome.status, RPC_OK);
                assert_int_equal(outcome.bytes, 3);
                pair_done(&pair);
        }
}

static void test_an_idle_session_asks_for_nothing(void **state UNUSED)
{
        struct outcome outcome = {0};
        const uint8_t *bytes;
        struct error err;
        struct pair pair;

        pair_init(&pair);
        pair_call(&pair, "/t.T/Hold", 0, &outcome);
        pair_pump(&pair);
        assert_int_equal(rpc_session_pending(pair.server, &bytes), 0);
        assert_int_equal(rpc_session_pending(pair.client, &bytes), 0);
        assert_int_equal(rpc_session_next_deadline(pair.server), RPC_NO_DEADLINE);
        assert_int_equal(rpc_session_next_deadline(pair.client), RPC_NO_DEADLINE);
        assert_false(rpc_session_is_finished(pair.server));
        assert_false(rpc_session_why(pair.server, &err));
        assert_null(rpc_session_free(NULL));
        pair_done(&pair);
}

struct chain {
        struct pair *pair;
        unsigned int left;
        unsigned int ended;
};

static void chain_message(
        struct rpc_call *call UNUSED, const uint8_t *message UNUSED, size_t size UNUSED, void *data UNUSED)
{
}

static void chain_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text UNUSED, void *data)
{
        static const struct rpc_handlers handlers = {chain_message, chain_ended};
        struct chain *chain = data;
        _cleanup_(rpc_message_unrefp) struct rpc_message *request = rpc_message_new(0);
        struct rpc_call *next;

        assert_int_equal(status, RPC_OK);
        chain->ended++;
        if (chain->left-- == 0)
                return;
        next = rpc_session_call(
                chain->pair->client, "/t.T/Echo", request, chain->pair->now_ms, RPC_NO_DEADLINE, &handlers, chain);
        assert_non_null(next);
}

static void test_the_end_of_a_call_may_start_the_next(void **state UNUSED)
{
        struct pair pair;
        struct chain chain = {&pair, 20, 0};

        pair_init(&pair);
        chain_ended(NULL, RPC_OK, "", &chain);
        pair_pump(&pair);
        assert_int_equal(chain.ended, 21);
        pair_done(&pair);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_unary_call_goes_round_however_it_is_split),
                cmocka_unit_test(test_messages_larger_than_the_window_pass_both_ways),
                cmocka_unit_test(test_an_error_at_once_carries_its_text),
                cmocka_unit_test(test_a_call_may_finish_without_a_message),
                cmocka_unit_test(test_an_answer_may_come_before_the_request_is_complete),
                cmocka_unit_test(test_a_stream_delivers_in_order_and_ends_later),
                cmocka_unit_test(test_trailers_follow_what_is_queued),
                cmocka_unit_test(test_a_slow_reader_costs_one_waiting_message),
                cmocka_unit_test(test_a_cancelled_call_ends_once_on_both_sides),
                cmocka_unit_test(test_a_call_cancelled_before_it_was_sent_never_reaches_the_server),
                cmocka_unit_test(test_a_call_may_be_cancelled_from_within_its_message),
                cmocka_unit_test(test_a_deadline_passes_at_the_client),
                cmocka_unit_test(test_a_deadline_travels_and_passes_at_the_server),
                cmocka_unit_test(test_a_deadline_within_a_message_resets),
                cmocka_unit_test(test_a_deadline_already_passed_ends_the_call_later),
                cmocka_unit_test(test_draining_serves_what_is_open_and_on_the_way),
                cmocka_unit_test(test_given_back_is_what_has_no_answer),
                cmocka_unit_test(test_a_lost_connection_ends_every_call_with_the_reason),
                cmocka_unit_test(test_more_calls_than_streams_wait_their_turn),
                cmocka_unit_test(test_a_response_beyond_the_limit_is_refused),
                cmocka_unit_test(test_every_form_of_authority_is_served),
                cmocka_unit_test(test_an_idle_session_asks_for_nothing),
                cmocka_unit_test(test_the_end_of_a_call_may_start_the_next),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
