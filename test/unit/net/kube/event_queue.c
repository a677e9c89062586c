// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "net/kube/event_queue.h"

#define NOW INT64_C(1790000000000)
#define MINUTE (INT64_C(60) * 1000)

static struct event_queue *queue;
static uint64_t clock_ms; /* that only goes forward */

static int open_shared(void **state UNUSED)
{
        queue = event_queue_new(0);
        clock_ms = 1000000;
        return 0;
}

static int close_queue(void **state UNUSED)
{
        queue = event_queue_free(queue);
        return 0;
}

static struct event event_on(const char *node, const char *message)
{
        return (struct event){
                .about = {.api_version = "v1", .kind = "Node", .name = node, .uid = node},
                .is_warning = true,
                .reason = "GPUUnhealthy",
                .message = message,
        };
}

static bool report(const char *message, int64_t now_ms)
{
        struct event event = event_on("n1", message);

        return event_queue_add(queue, &event, now_ms);
}

static const struct event_entry *next(void)
{
        uint64_t wait_ms;

        return event_queue_next(queue, clock_ms, &wait_ms);
}

static void fail_it(void)
{
        event_queue_settle(queue, EVENT_FAILED, &(struct event_failure){.now_ms = clock_ms});
}

/* Sends what is next, which must be this, as a new one or as one more. */
static void assert_sends(const char *message, bool is_new, unsigned int count)
{
        const struct event_entry *entry = next();

        assert_non_null(entry);
        assert_string_equal(entry->event.message, message);
        assert_int_equal(entry->is_new, is_new);
        assert_int_equal(entry->count, count);
        event_queue_settle(queue, EVENT_SENT, NULL);
}

static void assert_sends_nothing(void)
{
        assert_null(next());
}

static void test_an_event_that_comes_again_raises_the_count_of_the_first(void **state UNUSED)
{
        assert_true(report("Xid 79", NOW));
        assert_sends("Xid 79", true, 1);
        assert_sends_nothing();
        assert_true(report("Xid 79", NOW + MINUTE));
        assert_sends("Xid 79", false, 2);
        assert_sends_nothing();
}

static void test_the_first_and_the_last_time_are_kept(void **state UNUSED)
{
        const struct event_entry *entry;

        report("Xid 79", NOW);
        report("Xid 79", NOW + 5);
        entry = next();
        assert_int_equal(entry->first_ms, NOW);
        assert_int_equal(entry->last_ms, NOW + 5);
        assert_int_equal(entry->count, 2);
}

static void test_object_type_reason_and_message_make_an_event(void **state UNUSED)
{
        struct event first = event_on("n1", "text");
        struct event others[] = {first, first, first, first, first, first, first};

        others[0].message = "another";
        others[1].reason = "GPUHealthy";
        others[2].is_warning = false;
        others[3].about.name = "n2";
        others[4].about.namespace = "default";
        others[5].about.uid = NULL;
        others[6].about.kind = "Pod";
        assert_true(event_queue_add(queue, &first, NOW));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_true(event_queue_add(queue, &others[i], NOW));
        for (size_t i = 0; i <= ARRAY_SIZE(others); i++) {
                assert_int_equal(next()->count, 1);
                event_queue_settle(queue, EVENT_SENT, NULL);
        }
        assert_sends_nothing();
}

static void test_no_string_and_an_empty_one_are_the_same(void **state UNUSED)
{
        struct event one = event_on("n1", "text");
        struct event other = one;

        one.about.namespace = NULL;
        other.about.namespace = "";
        event_queue_add(queue, &one, NOW);
        assert_false(event_queue_add(queue, &other, NOW));
        assert_int_equal(next()->count, 2);
}

static void test_after_the_window_it_is_a_new_event(void **state UNUSED)
{
        report("Xid 79", NOW);
        assert_sends("Xid 79", true, 1);
        report("Xid 79", NOW + EVENT_WINDOW_MS);
        assert_sends("Xid 79", false, 2);
        report("Xid 79", NOW + EVENT_WINDOW_MS + EVENT_WINDOW_MS + 1);
        assert_sends("Xid 79", true, 1);
        assert_sends_nothing();
}

static void test_what_waits_for_the_server_is_one_event_however_often_it_comes(void **state UNUSED)
{
        assert_true(report("Xid 79", NOW));
        for (int i = 1; i < 100; i++)
                assert_false(report("Xid 79", NOW + i));
        assert_sends("Xid 79", true, 100);
        assert_int_equal(event_queue_dropped(queue), 0);
}

static void test_what_comes_while_it_is_on_its_way_is_sent_after_it(void **state UNUSED)
{
        const struct event_entry *entry;

        report("Xid 79", NOW);
        entry = next();
        assert_int_equal(entry->count, 1);
        assert_false(report("Xid 79", NOW + 1));
        assert_sends_nothing(); /* one at a time */
        event_queue_settle(queue, EVENT_SENT, NULL);
        assert_sends("Xid 79", false, 2);
        assert_sends_nothing();
}

static void test_events_are_sent_in_order(void **state UNUSED)
{
        report("a", NOW);
        report("b", NOW);
        assert_sends("a", true, 1);
        assert_sends("b", true, 1);
}

static void test_one_that_failed_waits_and_lets_others_have_their_turn(void **state UNUSED)
{
        uint64_t wait_ms;

        report("a", NOW);
        report("b", NOW);
        next();
        fail_it();
        assert_false(event_queue_is_well(queue));
        assert_null(event_queue_next(queue, clock_ms, &wait_ms));
        assert_int_equal(wait_ms, EVENT_RETRY_MS); /* it may be the server, so b waits as well */
        clock_ms += wait_ms;
        assert_sends("b", true, 1);
        assert_sends("a", true, 1);
        assert_true(event_queue_is_well(queue));
        assert_null(event_queue_next(queue, clock_ms, &wait_ms));
        assert_true(wait_ms == UINT64_MAX);
}

static void test_what_comes_new_does_not_wait_for_one_that_fails_all_the_time(void **state UNUSED)
{
        report("a", NOW);
        for (unsigned int i = 0; i < 10; i++, clock_ms += EVENT_RETRY_MAX_MS) {
                assert_string_equal(next()->event.message, "a");
                fail_it();
        }
        clock_ms -= EVENT_RETRY_MAX_MS - EVENT_RETRY_MS;
        report("b", NOW);
        assert_sends("b", true, 1);
        assert_sends_nothing();
}

static void test_one_that_is_never_taken_while_others_are_is_given_up(void **state UNUSED)
{
        unsigned int tries = 0;

        for (unsigned int i = 0; i < 1000; i++, clock_ms += EVENT_RETRY_MAX_MS) {
                const struct event_entry *entry;

                if (i == 0)
                        report("never", NOW);
                report(i % 2 ? "odd" : "even", NOW + i * 10 * MINUTE);
                while ((entry = next()) && strcmp(entry->event.message, "never") != 0)
                        event_queue_settle(queue, EVENT_SENT, NULL);
                if (!entry)
                        continue;
                tries++;
                if (event_queue_is_last_try(queue))
                        break;
                fail_it();
        }
        assert_int_equal(tries, EVENT_STRIKES + 1);
        event_queue_settle(queue, EVENT_GIVEN_UP, NULL);
        assert_int_equal(event_queue_dropped(queue), 1);
        assert_sends_nothing();
        assert_true(event_queue_is_well(queue));
}

static void test_an_event_that_failed_is_sent_again_when_it_is_reported_again(void **state UNUSED)
{
        report("a", NOW);
        next();
        fail_it();
        assert_false(report("a", NOW + 1)); /* which brings its turn no nearer */
        assert_sends_nothing();
        clock_ms += EVENT_RETRY_MS;
        assert_sends("a", true, 2);
        report("a", NOW + 2);
        assert_true(event_queue_is_well(queue));
        assert_sends("a", false, 3);
}

static void test_one_that_the_server_has_lost_is_made_again_with_its_count(void **state UNUSED)
{
        report("a", NOW);
        assert_sends("a", true, 1);
        report("a", NOW + 1);
        assert_false(next()->is_new);
        event_queue_settle(queue, EVENT_LOST, NULL);
        assert_sends("a", true, 2);
}

static void test_one_that_is_refused_is_dropped_and_counted(void **state UNUSED)
{
        report("a", NOW);
        next();
        event_queue_settle(queue, EVENT_REFUSED, NULL);
        assert_int_equal(event_queue_dropped(queue), 1);
        assert_sends_nothing();
        report("a", NOW + 1);
        assert_sends("a", true, 1);
}

/* Tells |count| different events of one object and sends them; returns how many got through. */
static unsigned int flood(const char *node, unsigned int first, unsigned int count, int64_t now_ms)
{
        unsigned int sent = 0;

        for (unsigned int i = first; i < first + count; i++) {
                char message[32];
                struct event event;

                snprintf(message, sizeof(message), "event %u", i);
                event = event_on(node, message);
                event_queue_add(queue, &event, now_ms);
        }
        while (next()) {
                event_queue_settle(queue, EVENT_SENT, NULL);
                sent++;
        }
        return sent;
}

static void test_an_object_has_tokens_that_come_back(void **state UNUSED)
{
        static const struct {
                int64_t after_ms;
                unsigned int reported;
                unsigned int sent;
        } steps[] = {
                {0, 40, EVENT_OBJECT_BURST}, {EVENT_OBJECT_REFILL_MS - 1, 5, 0}, {EVENT_OBJECT_REFILL_MS, 5, 1},
                {3 * EVENT_OBJECT_REFILL_MS, 5, 2},
                {100 * EVENT_OBJECT_REFILL_MS, 40, EVENT_OBJECT_BURST}, /* no more than the bucket holds */
        };
        unsigned int serial = 0;
        uint64_t dropped = 0;

        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                assert_int_equal(flood("n1", serial, steps[i].reported, NOW + steps[i].after_ms), steps[i].sent);
                serial += steps[i].reported;
                dropped += steps[i].reported - steps[i].sent;
                assert_int_equal(event_queue_dropped(queue), dropped);
        }
}

static void test_one_object_does_not_use_up_anothers_tokens_but_all_share_a_bucket(void **state UNUSED)
{
        unsigned int sent = 0;
        char node[8];

        for (unsigned int i = 0; i < 6; i++) {
                snprintf(node, sizeof(node), "n%u", i);
                sent += flood(node, 0, 30, NOW);
                assert_int_equal(sent, MIN((i + 1) * EVENT_OBJECT_BURST, EVENT_TOTAL_BURST));
        }
        assert_int_equal(flood("n9", 0, 3, NOW + EVENT_TOTAL_REFILL_MS), 1);
}

static void test_a_repetition_without_a_token_is_counted_and_sent_with_the_next(void **state UNUSED)
{
        flood("n1", 0, EVENT_OBJECT_BURST - 1, NOW);
        report("Xid 79", NOW);
        assert_sends("Xid 79", true, 1);
        assert_false(report("Xid 79", NOW + 1));
        assert_false(report("Xid 79", NOW + 2));
        assert_sends_nothing();
        assert_int_equal(event_queue_dropped(queue), 0);
        assert_true(report("Xid 79", NOW + EVENT_OBJECT_REFILL_MS + 2));
        assert_sends("Xid 79", false, 4);
}

static void test_a_clock_that_goes_back_lets_nothing_through_twice(void **state UNUSED)
{
        flood("n1", 0, EVENT_OBJECT_BURST, NOW);
        assert_int_equal(flood("n1", 100, 5, NOW - 100 * EVENT_OBJECT_REFILL_MS), 0);
        assert_int_equal(flood("n1", 200, 5, NOW - 99 * EVENT_OBJECT_REFILL_MS), 1);
}

/* |i| in two objects of 25 each, and so on: no object runs out of tokens. */
static void report_one_of_many(unsigned int i, int64_t now_ms)
{
        char node[16];
        char message[16];
        struct event event;

        snprintf(node, sizeof(node), "n%u", i / EVENT_OBJECT_BURST);
        snprintf(message, sizeof(message), "event %u", i);
        event = event_on(node, message);
        event_queue_add(queue, &event, now_ms);
}

static void test_the_oldest_event_that_was_not_sent_is_dropped_when_the_queue_is_full(void **state UNUSED)
{
        unsigned int serial = 0;
        int64_t now = NOW;

        for (; serial < EVENT_TOTAL_BURST; serial++)
                report_one_of_many(serial, now);
        for (; serial < EVENT_QUEUE_MAX; serial++)
                report_one_of_many(serial, now += EVENT_TOTAL_REFILL_MS);
        assert_int_equal(event_queue_dropped(queue), 0);
        report_one_of_many(serial, now += EVENT_TOTAL_REFILL_MS);
        assert_int_equal(event_queue_dropped(queue), 1);
        assert_sends("event 1", true, 1);
        report_one_of_many(serial + 1, now + EVENT_TOTAL_REFILL_MS); /* room is made by the one that was told */
        assert_int_equal(event_queue_dropped(queue), 1);
        assert_sends("event 2", true, 1);
}

static void test_the_event_that_is_being_sent_stays_when_the_queue_is_full(void **state UNUSED)
{
        const struct event_entry *entry;
        unsigned int serial = 0;
        int64_t now = NOW;

        for (; serial < EVENT_TOTAL_BURST; serial++)
                report_one_of_many(serial, now);
        for (; serial < EVENT_QUEUE_MAX; serial++)
                report_one_of_many(serial, now += EVENT_TOTAL_REFILL_MS);
        entry = next();
        report_one_of_many(serial, now += EVENT_TOTAL_REFILL_MS);
        assert_int_equal(event_queue_dropped(queue), 1);
        assert_string_equal(entry->event.message, "event 0");
        event_queue_settle(queue, EVENT_SENT, NULL);
        assert_sends("event 2", true, 1);
}

static void test_names_are_the_objects_and_differ(void **state UNUSED)
{
        const struct event_entry *entry;
        char first[254];
        char longest[254];

        report("a", NOW);
        strcpy(first, next()->name);
        assert_memory_equal(first, "n1.", 3);
        event_queue_settle(queue, EVENT_SENT, NULL);
        report("b", NOW);
        assert_string_not_equal(next()->name, first);
        event_queue_settle(queue, EVENT_SENT, NULL);

        memset(longest, 'n', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        event_queue_add(queue, &(struct event){.about = {.kind = "Node", .name = longest}, .reason = "A"}, NOW);
        entry = next();
        assert_int_equal(strlen(entry->name), 253);
        assert_non_null(strchr(entry->name, '.'));
}

static void test_a_message_is_cut_between_characters(void **state UNUSED)
{
        static const struct {
                size_t length; /* of 'a' before the rest */
                const char *rest;
                size_t kept; /* bytes, with the dots */
        } cases[] = {
                {EVENT_MESSAGE_MAX, "", EVENT_MESSAGE_MAX},
                {EVENT_MESSAGE_MAX - 2, "é", EVENT_MESSAGE_MAX},
                {EVENT_MESSAGE_MAX, "b", EVENT_MESSAGE_MAX},
                {EVENT_MESSAGE_MAX - 4, "éééé", EVENT_MESSAGE_MAX - 1},
                {EVENT_MESSAGE_MAX - 5, "éééé", EVENT_MESSAGE_MAX},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char text[2 * EVENT_MESSAGE_MAX];
                const struct event_entry *entry;
                bool is_cut = cases[i].length + strlen(cases[i].rest) > EVENT_MESSAGE_MAX;

                memset(text, 'a', cases[i].length);
                strcpy(text + cases[i].length, cases[i].rest);
                report(text, NOW);
                entry = next();
                assert_int_equal(strlen(entry->event.message), cases[i].kept);
                assert_int_equal(strcmp(entry->event.message + cases[i].kept - 3, "…") == 0, is_cut);
                event_queue_settle(queue, EVENT_SENT, NULL);
        }
}

static void test_invalid_utf8_in_a_message_is_replaced(void **state UNUSED)
{
        report("GPU \xff fell", NOW);
        assert_sends("GPU ? fell", true, 1);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_shared, close_queue)
        const struct CMUnitTest tests[] = {
                TEST(test_an_event_that_comes_again_raises_the_count_of_the_first),
                TEST(test_the_first_and_the_last_time_are_kept),
                TEST(test_object_type_reason_and_message_make_an_event),
                TEST(test_no_string_and_an_empty_one_are_the_same),
                TEST(test_after_the_window_it_is_a_new_event),
                TEST(test_what_waits_for_the_server_is_one_event_however_often_it_comes),
                TEST(test_what_comes_while_it_is_on_its_way_is_sent_after_it),
                TEST(test_events_are_sent_in_order),
                TEST(test_one_that_failed_waits_and_lets_others_have_their_turn),
                TEST(test_what_comes_new_does_not_wait_for_one_that_fails_all_the_time),
                TEST(test_one_that_is_never_taken_while_others_are_is_given_up),
                TEST(test_an_event_that_failed_is_sent_again_when_it_is_reported_again),
                TEST(test_one_that_the_server_has_lost_is_made_again_with_its_count),
                TEST(test_one_that_is_refused_is_dropped_and_counted),
                TEST(test_an_object_has_tokens_that_come_back),
                TEST(test_one_object_does_not_use_up_anothers_tokens_but_all_share_a_bucket),
                TEST(test_a_repetition_without_a_token_is_counted_and_sent_with_the_next),
                TEST(test_a_clock_that_goes_back_lets_nothing_through_twice),
                TEST(test_the_oldest_event_that_was_not_sent_is_dropped_when_the_queue_is_full),
                TEST(test_the_event_that_is_being_sent_stays_when_the_queue_is_full),
                TEST(test_names_are_the_objects_and_differ),
                TEST(test_a_message_is_cut_between_characters),
                TEST(test_invalid_utf8_in_a_message_is_replaced),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
