// SPDX-License-Identifier: Apache-2.0
/*
 * A value is a word here; the owner writes down which it is to write, and the test answers for the cluster and says
 * what a node has. The node's watch and the call are fakes, which the linker takes before those of the libraries. With
 * a real node it is in test/e2e: node_state, agent_config, labels.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "node/status/reconcile.h"
#include "node/status/watch.h"
#include "still.h"

#define NOW UINT64_C(1000000000)
#define RETRY_MS 1000
#define RETRY_LIMIT_MS 4000
#define REFRESH_MS 60000
#define SETTLE_MS 5000

struct node_watch {
        struct node_listener *listener;
};
struct kube_call {
        bool is_cancelled;
};

static struct cluster {
        uv_loop_t loop;
        struct node_watch watch;
        struct kube_call call;
        struct strbuf writes; /* "a b ": what was to be written, in order */
        bool settles;         /* "bad" has to be wanted for SETTLE_MS before it replaces another value */
        bool closes;          /* when a write ends */
        struct node_reconcile *reconcile;
} cluster;

void node_watch_listen(struct node_watch *watch, struct node_listener *listener)
{
        watch->listener = listener;
}

void node_watch_leave(struct node_listener *listener UNUSED)
{
        cluster.watch.listener = NULL;
}

struct kube_call *kube_call_cancel(struct kube_call *call)
{
        if (call)
                call->is_cancelled = true;
        return NULL;
}

struct kube_call *kube_client_send(struct kube_client *client UNUSED, const struct kube_request *request UNUSED)
{
        return NULL; /* no value here has a field manager */
}

static struct kube_call *on_write(json_t *wanted, void *data UNUSED)
{
        strbuf_printf(&cluster.writes, "%s ", json_string_value(wanted));
        return &cluster.call;
}

static bool on_is_right(const json_t *node, const json_t *written, void *data UNUSED)
{
        return json_equal(json_object_get(node, "value"), written);
}

static uint64_t on_settle_ms(const json_t *accepted, const json_t *wanted, void *data UNUSED)
{
        bool is_bad = strncmp(json_string_value(wanted), "bad", 3) == 0;

        return cluster.settles && is_bad && !json_equal(accepted, wanted) ? SETTLE_MS : 0;
}

static void on_done(const struct error *error UNUSED, void *data UNUSED)
{
        if (cluster.closes)
                cluster.reconcile = node_reconcile_close(cluster.reconcile);
}

static struct node_reconcile_options usual(void)
{
        return (struct node_reconcile_options){.loop = &cluster.loop,
                .watch = &cluster.watch,
                .retry_ms = RETRY_MS,
                .retry_limit_ms = RETRY_LIMIT_MS,
                .what = "words",
                .write = on_write,
                .is_right = on_is_right,
                .settle_ms = on_settle_ms,
                .done = on_done};
}

static void start(const struct node_reconcile_options *options)
{
        cluster.reconcile = node_reconcile_new(options);
        node_reconcile_serve(cluster.reconcile, true);
}

static int begin(void **state UNUSED)
{
        const struct node_reconcile_options options = usual();

        cluster = (struct cluster){.writes = STRBUF_INIT};
        uv_loop_init(&cluster.loop);
        start(&options);
        return 0;
}

static int end(void **state UNUSED)
{
        node_reconcile_close(cluster.reconcile);
        assert_null(cluster.watch.listener);
        uv_run(&cluster.loop, UV_RUN_DEFAULT);
        strbuf_done(&cluster.writes);
        return uv_loop_close(&cluster.loop);
}

static void start_with(const struct node_reconcile_options *options)
{
        node_reconcile_close(cluster.reconcile);
        start(options);
}

static void put(const char *word)
{
        node_reconcile_put(cluster.reconcile, json_string(word));
}

static void pass(uint64_t ms)
{
        still_pass(&cluster.loop, ms);
}

static void allow(void)
{
        node_reconcile_done(cluster.reconcile, NULL, 0);
}

static void refuse(uint64_t retry_after_ms)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "no");
        node_reconcile_done(cluster.reconcile, &err, retry_after_ms);
}

static void show_node(const char *uid, const char *word)
{
        json_t *node = json_pack("{s:{s:s}, s:s}", "metadata", "uid", uid, "value", word);

        cluster.watch.listener->on_node(node, cluster.watch.listener->data);
        json_decref(node);
}

/* What was written since the last time. */
#define assert_writes(expected)                                                                                        \
        do {                                                                                                           \
                assert_string_equal(cluster.writes.data ? cluster.writes.data : "", expected);                         \
                strbuf_clear(&cluster.writes);                                                                         \
        } while (0)

static void put_and_allow(const char *word)
{
        put(word);
        pass(0);
        allow();
        strbuf_clear(&cluster.writes);
}

/* ---- writing ---- */

static void test_nothing_is_written_and_no_node_watched_before_it_serves(void **state UNUSED)
{
        node_reconcile_serve(cluster.reconcile, false);
        assert_null(cluster.watch.listener);
        put("a");
        put("b");
        pass(REFRESH_MS);
        assert_writes("");
        node_reconcile_serve(cluster.reconcile, true);
        assert_non_null(cluster.watch.listener);
        pass(0);
        assert_writes("b ");
}

static void test_one_turn_of_the_loop_is_one_write(void **state UNUSED)
{
        put("a");
        put("b");
        pass(0);
        assert_writes("b ");
}

static void test_a_value_that_is_there_is_not_written_again(void **state UNUSED)
{
        put_and_allow("a");
        put("a");
        pass(REFRESH_MS);
        put("b");
        put("a");
        pass(REFRESH_MS);
        assert_writes("");
}

static void test_a_value_that_comes_during_a_write_waits_for_its_end(void **state UNUSED)
{
        put("a");
        pass(0);
        put("b");
        put("c");
        pass(REFRESH_MS);
        assert_writes("a ");
        allow();
        pass(0);
        assert_writes("c ");
        allow();
        pass(REFRESH_MS);
        assert_writes("");
}

static void test_a_value_is_written_again_at_intervals(void **state UNUSED)
{
        struct node_reconcile_options options = usual();

        options.refresh_ms = REFRESH_MS;
        start_with(&options);
        put_and_allow("a");
        pass(REFRESH_MS - REFRESH_MS / 5 - 1);
        assert_writes("");
        pass(REFRESH_MS / 5 + 1);
        assert_writes("a ");
        pass(REFRESH_MS);
        assert_writes("");
        allow();
        pass(REFRESH_MS);
        assert_writes("a ");
}

/* After an outage all nodes write within the same seconds. They must not do so for ever. */
static void test_the_intervals_differ_by_chance(void **state UNUSED)
{
        assert_int_equal(node_reconcile_rest(300000, 0), 300000);
        assert_int_equal(node_reconcile_rest(300000, UINT32_MAX / 2), 270001);
        assert_int_equal(node_reconcile_rest(300000, UINT32_MAX), 240000);
}

static void test_a_value_that_has_to_settle_is_written_when_it_stood_long_enough(void **state UNUSED)
{
        cluster.settles = true;
        put_and_allow("good");
        put("bad");
        pass(SETTLE_MS - 1);
        put("bad, too");
        assert_writes("");
        pass(1);
        assert_writes("bad, too ");
}

static void test_a_value_that_does_not_stand_long_enough_is_not_written(void **state UNUSED)
{
        cluster.settles = true;
        put_and_allow("good");
        put("bad");
        pass(SETTLE_MS - 1);
        put("good");
        pass(SETTLE_MS);
        assert_writes("");
        put("bad");
        pass(SETTLE_MS - 1);
        put("better");
        pass(0);
        assert_writes("better ");
}

/* ---- retrying ---- */

static void test_a_failure_is_tried_again_with_growing_pauses(void **state UNUSED)
{
        static const uint64_t pauses[] = {1000, 2000, 4000, 4000};

        put("a");
        pass(0);
        for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
                strbuf_clear(&cluster.writes);
                refuse(0);
                pass(pauses[i] / 2 - 1);
                assert_writes("");
                pass(pauses[i] / 2 + 1);
                assert_writes("a ");
        }
        allow();
        put("b");
        pass(0);
        refuse(0);
        pass(RETRY_MS);
        assert_writes("b b ");
}

static void test_a_server_that_asks_for_time_gets_it(void **state UNUSED)
{
        put("a");
        pass(0);
        refuse(30000);
        pass(29999);
        assert_writes("a ");
        pass(15001);
        assert_writes("a ");
}

static void test_a_new_value_does_not_wait_for_a_retry_but_the_pauses_grow_on(void **state UNUSED)
{
        put("a");
        pass(0);
        refuse(0);
        put("b");
        pass(0);
        assert_writes("a b ");
        refuse(0);
        pass(RETRY_MS - 1);
        assert_writes("");
        pass(RETRY_MS + 1);
        assert_writes("b ");
}

/* What a write that failed has done is not known. */
static void test_after_a_failure_the_value_before_is_written_again(void **state UNUSED)
{
        put_and_allow("a");
        put("b");
        pass(0);
        refuse(0);
        put("a");
        pass(0);
        assert_writes("b a ");
}

static void test_a_value_whose_write_failed_does_not_count_as_there(void **state UNUSED)
{
        put("a");
        pass(0);
        refuse(0);
        put("b");
        put("a");
        pass(0);
        assert_writes("a a ");
}

/* ---- restoring ---- */

static void test_what_somebody_took_from_the_node_is_restored(void **state UNUSED)
{
        put_and_allow("a");
        show_node("1", "a");
        pass(REFRESH_MS);
        assert_writes("");
        show_node("1", "other");
        pass(NODE_RECONCILE_MS / 2 - 1);
        show_node("1", "another");
        assert_writes("");
        pass(NODE_RECONCILE_MS / 2 + 1);
        assert_writes("a ");
}

static void test_what_is_back_before_its_time_is_not_restored(void **state UNUSED)
{
        put_and_allow("a");
        show_node("1", "other");
        pass(NODE_RECONCILE_MS / 2 - 1);
        show_node("1", "a");
        pass(REFRESH_MS);
        show_node("1", "other");
        pass(NODE_RECONCILE_MS / 2 - 1);
        cluster.watch.listener->on_node(NULL, cluster.watch.listener->data); /* the node is gone, too */
        pass(REFRESH_MS);
        assert_writes("");
}

static void test_a_write_under_way_is_waited_for_before_restoring(void **state UNUSED)
{
        put("a");
        pass(0);
        show_node("1", "other"); /* our own change is on its way */
        pass(REFRESH_MS);
        assert_writes("a ");
        allow();
        pass(NODE_RECONCILE_MS);
        assert_writes("a ");
}

static void test_restoring_does_not_hurry_a_value_that_has_to_settle(void **state UNUSED)
{
        cluster.settles = true;
        put_and_allow("good");
        put("bad");
        show_node("1", "other");
        pass(SETTLE_MS - 1);
        assert_writes("");
        pass(1);
        assert_writes("bad ");
}

static void test_restoring_replaces_a_retry(void **state UNUSED)
{
        put("a");
        pass(0);
        refuse(100000);
        show_node("1", "other");
        pass(NODE_RECONCILE_MS);
        assert_writes("a a ");
        allow();
        pass(100000);
        assert_writes("");
}

static void test_what_the_node_does_not_have_itself_is_restored_with_another_node(void **state UNUSED)
{
        struct node_reconcile_options options = usual();

        options.is_right = NULL;
        start_with(&options);
        show_node("1", "");
        put_and_allow("a");
        show_node("1", "other");
        pass(REFRESH_MS);
        assert_writes("");
        show_node("2", "");
        pass(NODE_RECONCILE_MS);
        assert_writes("a ");
        allow();
        show_node("2", "other");
        pass(REFRESH_MS);
        assert_writes("");
}

/* ---- the end ---- */

static void test_who_no_longer_serves_restores_nothing_and_begins_with_short_pauses(void **state UNUSED)
{
        put("a");
        pass(0);
        refuse(0);
        pass(RETRY_MS);
        refuse(0);
        show_node("1", "other");
        node_reconcile_serve(cluster.reconcile, false);
        strbuf_clear(&cluster.writes);
        pass(REFRESH_MS);
        assert_writes("");
        node_reconcile_serve(cluster.reconcile, true);
        pass(0);
        refuse(0);
        pass(RETRY_MS);
        assert_writes("a a ");
}

static void test_who_no_longer_serves_ends_its_write_and_begins_anew(void **state UNUSED)
{
        put("a");
        pass(0);
        node_reconcile_serve(cluster.reconcile, false);
        assert_true(cluster.call.is_cancelled);
        pass(REFRESH_MS);
        node_reconcile_serve(cluster.reconcile, true);
        pass(0);
        allow();
        assert_writes("a a ");
        node_reconcile_serve(cluster.reconcile, false);
        node_reconcile_serve(cluster.reconcile, true);
        pass(0);
        assert_writes("a ");
}

static void test_it_may_be_closed_when_a_write_ends(void **state UNUSED)
{
        cluster.closes = true;
        put("a");
        pass(0);
        refuse(0);
        assert_null(cluster.reconcile);
        pass(REFRESH_MS);
        assert_writes("a ");
}

/* ---- how long what was taken away waits ---- */

static void test_a_first_time_is_mended_in_a_moment(void **state UNUSED)
{
        const struct node_reconcile_pace pace = {0};

        assert_int_equal(node_reconcile_wait(&pace, NOW, 0), NODE_RECONCILE_MS);
        assert_int_equal(
                node_reconcile_wait(&pace, NOW, UINT32_MAX), NODE_RECONCILE_MS / 2); /* nodes do not come in step */
        assert_int_equal(node_reconcile_wait(&pace, 0, 0), NODE_RECONCILE_MS);
}

/* Somebody changes it back each time at once. */
static void test_who_always_changes_it_back_is_not_fought(void **state UNUSED)
{
        static const unsigned int seconds[] = {2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600};
        struct node_reconcile_pace pace = {0};
        uint64_t now = NOW;

        for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
                uint64_t wait = node_reconcile_wait(&pace, now, 0);

                assert_int_equal(wait, seconds[i] * 1000);
                now += wait;
                node_reconcile_count(&pace, now);
        }
}

static void test_after_a_calm_it_is_mended_in_a_moment_again(void **state UNUSED)
{
        static const struct {
                uint64_t after_ms;
                uint64_t wait_ms;
                uint64_t next_ms;
        } cases[] = {
                {0, 16000, 32000},
                {NODE_RECONCILE_CALM_MS - 1, 16000, 32000},
                {NODE_RECONCILE_CALM_MS, 2000, 4000},
                {100 * NODE_RECONCILE_CALM_MS, 2000, 4000},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct node_reconcile_pace pace = {.count = 3, .last_ms = NOW};
                uint64_t now = NOW + cases[i].after_ms;

                assert_int_equal(node_reconcile_wait(&pace, now, 0), cases[i].wait_ms);
                node_reconcile_count(&pace, now);
                assert_int_equal(node_reconcile_wait(&pace, now, 0), cases[i].next_ms);
        }
}

/* ---- labels and annotations ---- */

#define NODE(labels, annotations) "{\"metadata\": {\"labels\": {" labels "}, \"annotations\": {" annotations "}}}"

static void test_a_node_that_lacks_a_word_does_not_have_it(void **state UNUSED)
{
        static const struct {
                const char *node;
                bool is_on;
        } cases[] = {
                {NODE("\"a\": \"1\"", "\"b\": \"2\""), true},
                {NODE("\"a\": \"1\", \"mine\": \"too\"", "\"b\": \"2\", \"mine\": \"too\""), true},
                {NODE("\"a\": \"1\"", "\"b\": \"3\""), false},
                {NODE("\"a\": \"3\"", "\"b\": \"2\""), false},
                {NODE("\"b\": \"2\"", "\"a\": \"1\""), false},
                {"{\"metadata\": {\"name\": \"n1\"}}", false},
        };
        json_t *object = json_loads(NODE("\"a\": \"1\"", "\"b\": \"2\""), 0, NULL);

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                json_t *node = json_loads(cases[i].node, 0, NULL);

                assert_non_null(node);
                assert_int_equal(node_reconcile_has(node, object), cases[i].is_on);
                json_decref(node);
        }
        json_decref(object);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_nothing_is_written_and_no_node_watched_before_it_serves, begin, end),
                cmocka_unit_test_setup_teardown(test_one_turn_of_the_loop_is_one_write, begin, end),
                cmocka_unit_test_setup_teardown(test_a_value_that_is_there_is_not_written_again, begin, end),
                cmocka_unit_test_setup_teardown(test_a_value_that_comes_during_a_write_waits_for_its_end, begin, end),
                cmocka_unit_test_setup_teardown(test_a_value_is_written_again_at_intervals, begin, end),
                cmocka_unit_test(test_the_intervals_differ_by_chance),
                cmocka_unit_test_setup_teardown(
                        test_a_value_that_has_to_settle_is_written_when_it_stood_long_enough, begin, end),
                cmocka_unit_test_setup_teardown(
                        test_a_value_that_does_not_stand_long_enough_is_not_written, begin, end),
                cmocka_unit_test_setup_teardown(test_a_failure_is_tried_again_with_growing_pauses, begin, end),
                cmocka_unit_test_setup_teardown(test_a_server_that_asks_for_time_gets_it, begin, end),
                cmocka_unit_test_setup_teardown(
                        test_a_new_value_does_not_wait_for_a_retry_but_the_pauses_grow_on, begin, end),
                cmocka_unit_test_setup_teardown(test_after_a_failure_the_value_before_is_written_again, begin, end),
                cmocka_unit_test_setup_teardown(test_a_value_whose_write_failed_does_not_count_as_there, begin, end),
                cmocka_unit_test_setup_teardown(test_what_somebody_took_from_the_node_is_restored, begin, end),
                cmocka_unit_test_setup_teardown(test_what_is_back_before_its_time_is_not_restored, begin, end),
                cmocka_unit_test_setup_teardown(test_a_write_under_way_is_waited_for_before_restoring, begin, end),
                cmocka_unit_test_setup_teardown(test_restoring_does_not_hurry_a_value_that_has_to_settle, begin, end),
                cmocka_unit_test_setup_teardown(test_restoring_replaces_a_retry, begin, end),
                cmocka_unit_test_setup_teardown(
                        test_what_the_node_does_not_have_itself_is_restored_with_another_node, begin, end),
                cmocka_unit_test_setup_teardown(
                        test_who_no_longer_serves_restores_nothing_and_begins_with_short_pauses, begin, end),
                cmocka_unit_test_setup_teardown(test_who_no_longer_serves_ends_its_write_and_begins_anew, begin, end),
                cmocka_unit_test_setup_teardown(test_it_may_be_closed_when_a_write_ends, begin, end),
                cmocka_unit_test(test_a_first_time_is_mended_in_a_moment),
                cmocka_unit_test(test_who_always_changes_it_back_is_not_fought),
                cmocka_unit_test(test_after_a_calm_it_is_mended_in_a_moment_again),
                cmocka_unit_test(test_a_node_that_lacks_a_word_does_not_have_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
