// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node/kubelet/registration.h"

/* The state machine with the random part at its middle: + 0 of ± 20 %. */
static struct registration_action step(struct registration *r, enum registration_event event, int64_t now_ms)
{
        return registration_step(r, event, now_ms, 0);
}

static void expect(struct registration *r, enum registration_event event, enum registration_command command,
        enum registration_state state)
{
        struct registration_action action = step(r, event, 0);

        assert_int_equal(action.command, command);
        assert_string_equal(registration_state_name(r->state), registration_state_name(state));
}

static struct registration watched_since_zero(void)
{
        struct registration r;

        registration_init(&r);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVE, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_REGISTER_OK, REGISTRATION_NOTHING, REGISTRATION_ACCEPTED);
        expect(&r, REGISTRATION_WATCH_OPENED, REGISTRATION_NOTHING, REGISTRATION_WATCHED);
        return r;
}

static void test_it_serves_and_registers_when_kubelet_comes(void **state UNUSED)
{
        watched_since_zero();
}

static void test_kubelet_may_open_the_list_before_it_answers_register(void **state UNUSED)
{
        struct registration r;

        registration_init(&r);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVE, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_WATCH_OPENED, REGISTRATION_NOTHING, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_REGISTER_OK, REGISTRATION_NOTHING, REGISTRATION_WATCHED);
}

/* Kubelets up to 1.36 disconnect the new plugin when they clean up after the old one, perhaps before they answer. */
static void test_a_list_that_is_lost_before_register_is_answered_is_not_waited_for(void **state UNUSED)
{
        struct registration r;

        registration_init(&r);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVE, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_WATCH_OPENED, REGISTRATION_NOTHING, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_WATCH_LOST, REGISTRATION_NOTHING, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_REGISTER_OK, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
        expect(&r, REGISTRATION_SERVER_CLOSED, REGISTRATION_NOTHING, REGISTRATION_WAITING);
        /* The next incarnation starts without this memory. */
        expect(&r, REGISTRATION_TIMEOUT, REGISTRATION_SERVE, REGISTRATION_CALLING);
        expect(&r, REGISTRATION_REGISTER_OK, REGISTRATION_NOTHING, REGISTRATION_ACCEPTED);
}

static void test_a_lost_list_closes_the_old_server_before_registering_again(void **state UNUSED)
{
        struct registration r = watched_since_zero();

        expect(&r, REGISTRATION_WATCH_LOST, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
        /* Nothing registers while the old connection may still be known to kubelet. */
        expect(&r, REGISTRATION_TIMEOUT, REGISTRATION_NOTHING, REGISTRATION_CLOSING);
        expect(&r, REGISTRATION_SERVER_CLOSED, REGISTRATION_NOTHING, REGISTRATION_WAITING);
        expect(&r, REGISTRATION_TIMEOUT, REGISTRATION_SERVE, REGISTRATION_CALLING);
}

static void test_a_replaced_kubelet_is_registered_with_at_once(void **state UNUSED)
{
        struct registration r = watched_since_zero();

        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
        expect(&r, REGISTRATION_SERVER_CLOSED, REGISTRATION_SERVE, REGISTRATION_CALLING);
}

static void test_kubelet_coming_while_closing_skips_the_back_off(void **state UNUSED)
{
        struct registration r = watched_since_zero();

        expect(&r, REGISTRATION_WATCH_LOST, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_NOTHING, REGISTRATION_CLOSING);
        expect(&r, REGISTRATION_SERVER_CLOSED, REGISTRATION_SERVE, REGISTRATION_CALLING);
}

static void test_without_kubelet_it_waits_without_a_timer(void **state UNUSED)
{
        struct registration r = watched_since_zero();
        struct registration_action action;

        expect(&r, REGISTRATION_KUBELET_WENT, REGISTRATION_NOTHING, REGISTRATION_WATCHED);
        expect(&r, REGISTRATION_WATCH_LOST, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
        expect(&r, REGISTRATION_SERVER_CLOSED, REGISTRATION_NOTHING, REGISTRATION_WAITING);
        action = step(&r, REGISTRATION_TIMEOUT, 0);
        assert_int_equal(action.command, REGISTRATION_NOTHING);
        assert_int_equal(action.timeout_ms, 0);
        assert_int_equal(r.state, REGISTRATION_IDLE);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVE, REGISTRATION_CALLING);
}

static void test_a_socket_file_that_vanishes_does_not_end_a_live_stream(void **state UNUSED)
{
        struct registration r = watched_since_zero();

        expect(&r, REGISTRATION_KUBELET_WENT, REGISTRATION_NOTHING, REGISTRATION_WATCHED);
}

static void test_the_back_off_doubles_to_its_cap_and_spreads_by_a_quarter(void **state UNUSED)
{
        static const uint64_t longest[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000};
        struct registration r;

        registration_init(&r);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVE, REGISTRATION_CALLING);
        for (size_t i = 0; i < ARRAY_SIZE(longest); i++) {
                struct registration copy;

                expect(&r, REGISTRATION_REGISTER_FAILED, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
                copy = r;
                assert_int_equal(registration_step(&copy, REGISTRATION_SERVER_CLOSED, 0, 0).timeout_ms, longest[i]);
                copy = r;
                assert_in_range(registration_step(&copy, REGISTRATION_SERVER_CLOSED, 0, UINT32_MAX).timeout_ms,
                        longest[i] * 3 / 4, longest[i] * 3 / 4 + 1);
                step(&r, REGISTRATION_SERVER_CLOSED, 0);
                expect(&r, REGISTRATION_TIMEOUT, REGISTRATION_SERVE, REGISTRATION_CALLING);
        }
}

static void test_a_stable_stream_resets_the_back_off_and_a_short_one_does_not(void **state UNUSED)
{
        struct registration r = watched_since_zero();

        r.backoff.failures = 5;
        step(&r, REGISTRATION_WATCH_LOST, REGISTRATION_STABLE_MS - 1);
        assert_int_equal(r.backoff.failures, 5);
        r = watched_since_zero();
        r.backoff.failures = 5;
        step(&r, REGISTRATION_WATCH_LOST, REGISTRATION_STABLE_MS);
        assert_int_equal(r.backoff.failures, 0);
}

static void test_a_kubelet_that_never_opens_the_list_is_asked_again(void **state UNUSED)
{
        struct registration r;
        struct registration_action action;

        registration_init(&r);
        expect(&r, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVE, REGISTRATION_CALLING);
        action = step(&r, REGISTRATION_REGISTER_OK, 0);
        assert_int_equal(action.timeout_ms, REGISTRATION_WATCH_TIMEOUT_MS);
        expect(&r, REGISTRATION_TIMEOUT, REGISTRATION_CLOSE, REGISTRATION_CLOSING);
}

/* From every state, STOP ends in STOPPED, and nothing is served on the way. */
static void test_stop_ends_every_state(void **state UNUSED)
{
        static const enum registration_event paths[][5] = {
                {REGISTRATION_STOP},
                {REGISTRATION_KUBELET_CAME, REGISTRATION_STOP, REGISTRATION_SERVER_CLOSED},
                {REGISTRATION_KUBELET_CAME, REGISTRATION_REGISTER_OK, REGISTRATION_STOP, REGISTRATION_SERVER_CLOSED},
                {REGISTRATION_KUBELET_CAME, REGISTRATION_REGISTER_FAILED, REGISTRATION_STOP,
                        REGISTRATION_SERVER_CLOSED},
                {REGISTRATION_KUBELET_CAME, REGISTRATION_REGISTER_FAILED, REGISTRATION_SERVER_CLOSED,
                        REGISTRATION_STOP},
                {REGISTRATION_KUBELET_CAME, REGISTRATION_STOP, REGISTRATION_KUBELET_CAME, REGISTRATION_SERVER_CLOSED},
        };
        static const size_t lengths[] = {1, 3, 4, 4, 4, 4};

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                struct registration_action action = {0};
                struct registration r;
                bool stopping = false;

                registration_init(&r);
                for (size_t j = 0; j < lengths[i]; j++) {
                        action = step(&r, paths[i][j], 0);
                        stopping = stopping || paths[i][j] == REGISTRATION_STOP;
                        if (stopping)
                                assert_int_not_equal(action.command, REGISTRATION_SERVE);
                }
                assert_int_equal(action.command, REGISTRATION_DONE);
                assert_int_equal(r.state, REGISTRATION_STOPPED);
                for (int event = REGISTRATION_KUBELET_CAME; event < REGISTRATION_STOP; event++)
                        assert_int_equal(step(&r, (enum registration_event)event, 0).command, REGISTRATION_NOTHING);
        }
}

/*
 * Any sequence of events: a server is never started while one runs, nor closed when none does. (A million random steps,
 * from a fixed seed.)
 */
static void test_a_server_is_started_and_closed_in_turns(void **state UNUSED)
{
        struct registration r;
        uint32_t random = 12345;
        bool serving = false;
        bool closing = false;

        registration_init(&r);
        for (int i = 0; i < 1000000; i++) {
                enum registration_event event;

                random = random * 1664525U + 1013904223U;
                event = (enum registration_event)((random >> 16) % REGISTRATION_STOP);
                if (event == REGISTRATION_SERVER_CLOSED && !closing)
                        continue;
                if (event == REGISTRATION_SERVER_CLOSED)
                        serving = closing = false;
                switch (registration_step(&r, event, i, random).command) {
                case REGISTRATION_SERVE:
                        assert_false(serving);
                        serving = true;
                        break;
                case REGISTRATION_CLOSE:
                        assert_true(serving);
                        assert_false(closing);
                        closing = true;
                        break;
                case REGISTRATION_DONE:
                        fail_msg("stopped without STOP");
                        break;
                case REGISTRATION_NOTHING:
                        break;
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_it_serves_and_registers_when_kubelet_comes),
                cmocka_unit_test(test_kubelet_may_open_the_list_before_it_answers_register),
                cmocka_unit_test(test_a_list_that_is_lost_before_register_is_answered_is_not_waited_for),
                cmocka_unit_test(test_a_lost_list_closes_the_old_server_before_registering_again),
                cmocka_unit_test(test_a_replaced_kubelet_is_registered_with_at_once),
                cmocka_unit_test(test_kubelet_coming_while_closing_skips_the_back_off),
                cmocka_unit_test(test_without_kubelet_it_waits_without_a_timer),
                cmocka_unit_test(test_a_socket_file_that_vanishes_does_not_end_a_live_stream),
                cmocka_unit_test(test_the_back_off_doubles_to_its_cap_and_spreads_by_a_quarter),
                cmocka_unit_test(test_a_stable_stream_resets_the_back_off_and_a_short_one_does_not),
                cmocka_unit_test(test_a_kubelet_that_never_opens_the_list_is_asked_again),
                cmocka_unit_test(test_stop_ends_every_state),
                cmocka_unit_test(test_a_server_is_started_and_closed_in_turns),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
