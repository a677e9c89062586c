// SPDX-License-Identifier: Apache-2.0
/* Without a client: what is kept. What is sent, test/e2e/test_events.py sees. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "node/events/node_events.h"

struct fixture {
        uv_loop_t loop;
        struct node_events *events;
        struct arena arena;
        const struct node_event_record *records;
};

static size_t read_records(struct fixture *fixture)
{
        return node_events_recent(fixture->events, &fixture->arena, &fixture->records);
}

static void test_what_was_reported_while_serving_is_kept(void **state)
{
        struct fixture *fixture = *state;
        const int64_t before_ms = (int64_t)time(NULL) * 1000;

        assert_int_equal(read_records(fixture), 0);
        node_events_report(fixture->events, NODE_EVENT_GPU_UNHEALTHY, "another agent serves");
        node_events_serve(fixture->events, true);
        node_events_report(fixture->events, NODE_EVENT_GPU_UNHEALTHY, "GPU %u is lost", 3U);
        node_events_report(fixture->events, NODE_EVENT_CONFIG_APPLIED, "a new one");
        assert_int_equal(read_records(fixture), 2);
        assert_string_equal(fixture->records[0].text, "GPU 3 is lost");
        assert_string_equal(node_event_reason(fixture->records[0].event), "GPUUnhealthy");
        assert_true(fixture->records[0].is_warning);
        assert_in_range(
                fixture->records[0].date_ms, before_ms, (int64_t)(time(NULL) + 2) * 1000); /* time() may be late */
        assert_false(fixture->records[1].is_warning);
        assert_int_equal(node_events_counts(fixture->events).sent, 0);
}

static void test_only_the_newest_are_kept(void **state)
{
        struct fixture *fixture = *state;

        node_events_serve(fixture->events, true);
        for (unsigned int i = 1; i <= NODE_EVENTS_KEPT + 10; i++)
                node_events_report(fixture->events, NODE_EVENT_MPS_NOTICE, "%u", i);
        assert_int_equal(read_records(fixture), NODE_EVENTS_KEPT);
        assert_string_equal(fixture->records[0].text, "11");
        assert_string_equal(fixture->records[NODE_EVENTS_KEPT - 1].text, "74");
}

static void test_a_long_text_is_cut(void **state)
{
        struct fixture *fixture = *state;

        node_events_serve(fixture->events, true);
        node_events_report(fixture->events, NODE_EVENT_MPS_NOTICE, "%05000d", 0);
        assert_int_equal(read_records(fixture), 1);
        assert_int_equal(strlen(fixture->records[0].text), 1024);
}

static int set_up(void **state)
{
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        uv_loop_init(&fixture->loop);
        fixture->events = node_events_new(&fixture->loop, NULL, "", EVENTS_PODS);
        *state = fixture;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *fixture = *state;
        int result;

        node_events_close(fixture->events);
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
        result = uv_loop_close(&fixture->loop);
        arena_done(&fixture->arena);
        free(fixture);
        return result;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_what_was_reported_while_serving_is_kept),
                TEST(test_only_the_newest_are_kept),
                TEST(test_a_long_text_is_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
