// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "net/kube/event_queue.h"

/*
 * What happens to the first of some events, one letter an attempt: "a" fails, "A" is taken, and so on. The server gets
 * an hour between.
 */
static void play(struct event_tries tries[3], struct event_server *server, const char *attempts)
{
        struct event_failure failure = {.now_ms = 1000000};

        for (const char *at = attempts; *at; at++, failure.now_ms += UINT64_C(3600000)) {
                if (*at >= 'a') {
                        event_tries_fail(&tries[*at - 'a'], server, &failure);
                } else {
                        event_server_take(server);
                        tries[*at - 'A'] = (struct event_tries){0};
                }
        }
}

static void test_only_a_server_that_takes_others_gives_strikes(void **state UNUSED)
{
        static const struct {
                const char *attempts;
                unsigned int failures;
                unsigned int strikes;
        } cases[] = {
                {"", 0, 0},
                {"a", 1, 0},
                {"aaaa", 4, 0},
                {"abcabcabc", 3, 0}, /* nothing is taken: it is away */
                {"BaCa", 2, 1},
                {"aBCBCBCa", 2, 1}, /* one failure, one strike */
                {"aBaaaCa", 5, 2},
                {"abBaCa", 3, 2},
                {"aBaBA", 0, 0},
                {"aBaBaBaBaBaBaBa", 8, 7},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct event_server server = {.least_ms = EVENT_RETRY_MS, .most_ms = EVENT_RETRY_MAX_MS};
                struct event_tries tries[3] = {0};

                play(tries, &server, cases[i].attempts);
                assert_int_equal(tries[0].failures, cases[i].failures);
                assert_int_equal(tries[0].strikes, cases[i].strikes);
        }
}

static void test_the_last_strike_needs_another_one_that_is_taken(void **state UNUSED)
{
        struct event_server server = {.least_ms = EVENT_RETRY_MS, .most_ms = EVENT_RETRY_MAX_MS};
        struct event_tries tries[3] = {0};

        assert_int_equal(EVENT_STRIKES, 8);
        play(tries, &server, "aBaBaBaBaBaBaBa");
        assert_false(event_tries_are_last(&tries[0], &server));
        play(tries, &server, "aaaaaa");
        assert_false(event_tries_are_last(&tries[0], &server));
        play(tries, &server, "C");
        assert_true(event_tries_are_last(&tries[0], &server));
}

static void test_one_that_is_always_alone_ends_too(void **state UNUSED)
{
        struct event_server server = {.least_ms = EVENT_RETRY_MS, .most_ms = EVENT_RETRY_MAX_MS};
        struct event_tries tries[3] = {0};
        unsigned int failures = 1;

        for (; !event_tries_are_last(&tries[0], &server); failures++)
                play(tries, &server, "a");
        assert_int_equal(failures, EVENT_TRIES);
}

/* How long the server and the first event wait after the last attempt, which failed. */
static void test_the_server_waits_by_how_many_failed_and_an_event_by_how_often(void **state UNUSED)
{
        static const struct {
                const char *attempts;
                uint64_t server_s;
                uint64_t event_s;
        } cases[] = {
                {"a", 1, 1},
                {"aa", 1, 2},
                {"aaaaaaaaa", 1, 60}, /* it may be this one alone: what comes new does not wait for it */
                {"cba", 4, 4},
                {"bacba", 4, 4}, /* not one of them more than before */
                {"bcBa", 1, 1},  /* it works again */
                {"aaaBa", 1, 8},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct event_server server = {.least_ms = EVENT_RETRY_MS, .most_ms = EVENT_RETRY_MAX_MS};
                struct event_tries tries[3] = {0};
                uint64_t now = UINT64_C(1000000) + (strlen(cases[i].attempts) - 1) * UINT64_C(3600000);

                play(tries, &server, cases[i].attempts);
                assert_int_equal(server.due_ms, now + cases[i].server_s * 1000);
                assert_int_equal(event_tries_due(&tries[0], &server), now + cases[i].event_s * 1000);
        }
}

static void test_an_outage_with_many_events_is_asked_once_a_minute(void **state UNUSED)
{
        struct event_server server = {.least_ms = EVENT_RETRY_MS, .most_ms = EVENT_RETRY_MAX_MS};
        struct event_tries tries[128] = {0};
        uint64_t now = 1000;

        for (unsigned int i = 0; i < 1280; i++) {
                struct event_tries *next = &tries[i % ARRAY_SIZE(tries)];

                now = MAX(now, event_tries_due(next, &server));
                assert_false(event_tries_are_last(next, &server));
                event_tries_fail(next, &server, &(struct event_failure){.now_ms = now});
                if (i >= 6)
                        assert_int_equal(server.due_ms - now, EVENT_RETRY_MAX_MS);
        }
        event_server_take(&server);
        for (size_t i = 0; i < ARRAY_SIZE(tries) - 1; i++)
                assert_true(event_tries_due(&tries[i], &server) <= now + EVENT_RETRY_MAX_MS);
}

static void test_later_is_obeyed_for_all(void **state UNUSED)
{
        struct event_server server = {.least_ms = EVENT_RETRY_MS, .most_ms = EVENT_RETRY_MAX_MS};
        struct event_tries tries[2] = {0};

        event_tries_fail(&tries[0], &server,
                &(struct event_failure){.now_ms = 5000, .retry_after_ms = 90000, .random = UINT32_MAX});
        assert_int_equal(event_tries_due(&tries[1], &server), 95000);
        event_server_take(&server);
        assert_int_equal(event_tries_due(&tries[0], &server), 5500);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_a_server_that_takes_others_gives_strikes),
                cmocka_unit_test(test_the_last_strike_needs_another_one_that_is_taken),
                cmocka_unit_test(test_one_that_is_always_alone_ends_too),
                cmocka_unit_test(test_the_server_waits_by_how_many_failed_and_an_event_by_how_often),
                cmocka_unit_test(test_an_outage_with_many_events_is_asked_once_a_minute),
                cmocka_unit_test(test_later_is_obeyed_for_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
