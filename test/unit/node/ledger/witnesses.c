// SPDX-License-Identifier: Apache-2.0
/*
 * What kubelet's list, its record and our own requests say of who holds what, when one of them is late, silent or not
 * whole.
 */
#include "rig.h"

#include <unistd.h>

#include "node/ledger/holdings.h"

static void lose_record(void)
{
        kubelet.writes_record = false;
        unlink(rig.record);
}

/* ---- the list ---- */

static void test_a_list_that_was_asked_for_before_an_allocation_does_not_end_it(void **state UNUSED)
{
        rig_run("first", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(5000);
        assert_int_equal(kubelet.n_questions, 1);
        rig_run("train", "GPU-0::1");
        rig_pass(4000); /* kubelet has five seconds for its answer */
        fake_kubelet_answer_as_asked();
        assert_string_equal(rig_allocations(), "first GPU-0[0], uid-train GPU-0[1]");
}

static void test_a_kubelet_that_refuses_the_list_ends_no_container(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_REFUSES;
        rig_pass(1000000);
        assert_string_equal(rig_allocations(), "uid-train GPU-0[0]");
        kubelet.to = FAKE_ANSWERS;
        fake_kubelet_end_pod("train");
        rig_pass(60000); /* the longest time between two questions */
        assert_string_equal(rig_allocations(), "");
}

static void test_where_kubelet_does_not_answer_its_checkpoint_shows_ended_containers(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_REFUSES;
        fake_kubelet_end_pod("train");
        rig_run("third", "GPU-0::2"); /* by which kubelet writes the record */
        rig_pass(200000);
        assert_string_equal(rig_allocations(), "uid-serve GPU-0[1], uid-third GPU-0[2]");
}

/* ---- a kubelet that has just started: pods are missing in its list, and nothing ends for it ---- */

static void test_the_list_of_a_young_kubelet_ends_no_container(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        lose_record();
        fake_kubelet_restart();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "? GPU-0[0]");
        fake_kubelet_gather();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-0[0]");
}

static void test_with_its_record_neither(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        fake_kubelet_restart();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "uid-train GPU-0[0]");
        fake_kubelet_gather();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-0[0]");
}

static void test_in_the_list_of_a_kubelet_that_has_run_for_a_while_missing_containers_have_ended(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        lose_record();
        fake_kubelet_end_pod("train");
        fake_kubelet_restart();
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

/* ---- what the rollout of a new plan is told: every device that is held, of whatever resource ---- */

static void test_what_was_asked_for_is_held_before_kubelet_has_it(void **state UNUSED)
{
        assert_string_equal(rig_held(), "told:");
        kubelet.records_late = true;
        rig_run("train", "GPU-0::0");
        assert_string_equal(rig_held(), "told: GPU-0::0");
        ledger_ask(rig.ledger);
        rig_settle();
        assert_int_equal(rig.n_held, 1);
        assert_string_equal(rig.held, "told: GPU-0::0");
        fake_kubelet_record();
        ledger_ask(rig.ledger);
        rig_settle();
        assert_string_equal(rig.held, "told: GPU-0::0");
        fake_kubelet_end_pod("train");
        ledger_ask(rig.ledger);
        rig_settle();
        assert_string_equal(rig.held, "told:");
}

/* kubelet asks for the next container, so it has this one by now; the list was asked for before. */
static void test_a_list_that_is_older_than_the_checkpoint_hides_no_container(void **state UNUSED)
{
        lose_record();
        kubelet.records_late = true;
        rig_run("train", "GPU-0::0");
        kubelet.to = FAKE_IS_SILENT;
        ledger_ask(rig.ledger);
        rig_run("serve", "GPU-0::1");
        fake_kubelet_answer_as_asked();
        assert_string_equal(rig.held, "told: GPU-0::0 GPU-0::1");
        fake_kubelet_end_pod("train");
        ledger_ask(rig.ledger);
        fake_kubelet_answer();
        assert_string_equal(rig.held, "told: GPU-0::1");
}

static void on_bound(const struct error *err, const struct allocate_binding *binding UNUSED, void *context UNUSED)
{
        assert_null(err);
}

static void test_a_device_that_is_asked_for_often_pushes_out_no_other_request(void **state UNUSED)
{
        const struct broker *broker = ledger_broker(rig.ledger);
        const char *const often = "GPU-0::1";

        lose_record();
        kubelet.records_late = true;
        rig_run("train", "GPU-0::0");
        kubelet.to = FAKE_IS_SILENT;
        ledger_ask(rig.ledger);
        for (size_t i = 0; i < 2000; i++)
                broker->bind(rig_resource(), &often, 1, on_bound, NULL, broker->data);
        fake_kubelet_answer_as_asked();
        assert_string_equal(rig.held, "told: GPU-0::0 GPU-0::1");
}

static void test_a_request_that_came_to_nothing_is_forgotten(void **state UNUSED)
{
        kubelet.records_late = true;
        rig_run("train", "GPU-0::0");
        fake_kubelet_end_pod("train");
        assert_string_equal(rig_held(), "told: GPU-0::0");
        rig_pass(GRACE_MS + 1);
        assert_string_equal(rig_held(), "told:");
}

static struct ledger_time clocks_of_rig(void *data UNUSED)
{
        return (struct ledger_time){.clock = rig.clock, .date = rig.date};
}

static void on_nothing_changed(bool is_listed UNUSED, void *data UNUSED)
{
}

static void on_listed(const struct error *err, void *data)
{
        assert_null(err);
        *(bool *)data = true;
}

static void on_closed(void *data)
{
        *(bool *)data = true;
}

/* Requests lie in memory between what was freed, which does not go back to the kernel before they do. */
static void test_a_list_forgets_requests_that_are_old(void **state UNUSED)
{
        static const char *const id = "GPU-0::0";
        const struct mps_resources resources = {0};
        const struct ledger_options options = {
                .loop = &rig.loop, .config = &rig.node.config, .now = clocks_of_rig, .repeat = fake_kubelet_repeat};
        struct closing closing = {0};
        struct holdings holdings;
        bool is_listed = false;
        bool is_closed = false;
        struct error err;

        rig_stop();
        assert_ok(holdings_init(&holdings, &options, &resources, on_nothing_changed, NULL, &err), &err);
        holdings_note_request(&holdings, "nvidia.com/gpu", &id, 1);
        rig_pass(2 * GRACE_MS);
        assert_int_equal(holdings.recent.count, 1);
        holdings_list(&holdings, on_listed, &is_listed);
        rig_settle();
        assert_true(is_listed);
        assert_int_equal(holdings.recent.count, 0);
        holdings_close(&holdings, &closing);
        closing_end(&closing, on_closed, &is_closed);
        while (!is_closed)
                uv_run(&rig.loop, UV_RUN_ONCE);
        holdings_done(&holdings);
}

/* kubelet's record keeps it until something else makes kubelet write. */
static void test_a_container_that_was_missing_in_a_list_has_ended_whatever_the_checkpoint_says(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-0::1");
        rig_pass(2 * GRACE_MS);
        kubelet.takes_lists = false;
        fake_kubelet_end_pod("train");
        assert_string_equal(rig_held(), "told: GPU-0::0 GPU-0::1"); /* by the record: nobody has asked */
        ledger_ask(rig.ledger);
        rig_settle();
        assert_string_equal(rig.held, "told: GPU-0::1");
        assert_string_equal(rig_held(), "told: GPU-0::1");
}

static void test_what_is_over_stays_so_for_its_container_only(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(2 * GRACE_MS);
        kubelet.takes_lists = false;
        fake_kubelet_end_pod("train");
        ledger_ask(rig.ledger);
        rig_settle();
        assert_string_equal(rig_held(), "told:");
        rig_run("next", "GPU-0::0");
        assert_string_equal(rig_held(), "told: GPU-0::0");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_held(), "told: GPU-0::0");
}

static void test_after_a_minute_without_an_answer_what_the_checkpoint_says_is_stale(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_pass(GRACE_MS);
        kubelet.to = FAKE_REFUSES;
        rig_pass(50000);
        assert_string_equal(rig_held(), "told: GPU-0::0");
        rig_pass(60000);
        assert_string_equal(rig_held(), "stale: GPU-0::0");
        rig.n_held = 0;
        kubelet.to = FAKE_ANSWERS;
        rig_pass(60000);
        assert_int_equal(rig.n_held, 1); /* that it answers again is news */
        assert_string_equal(rig.held, "told: GPU-0::0");
}

static void test_without_list_and_record_nothing_is_known(void **state UNUSED)
{
        rig_stop();
        lose_record();
        kubelet.to = FAKE_IS_SILENT;
        rig_start();
        assert_string_equal(rig_held(), "not told:");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_a_list_that_was_asked_for_before_an_allocation_does_not_end_it),
                RIG_TEST(test_a_kubelet_that_refuses_the_list_ends_no_container),
                RIG_TEST(test_where_kubelet_does_not_answer_its_checkpoint_shows_ended_containers),
                RIG_TEST(test_the_list_of_a_young_kubelet_ends_no_container),
                RIG_TEST(test_with_its_record_neither),
                RIG_TEST(test_in_the_list_of_a_kubelet_that_has_run_for_a_while_missing_containers_have_ended),
                RIG_TEST(test_what_was_asked_for_is_held_before_kubelet_has_it),
                RIG_TEST(test_a_list_that_is_older_than_the_checkpoint_hides_no_container),
                RIG_TEST(test_a_device_that_is_asked_for_often_pushes_out_no_other_request),
                RIG_TEST(test_a_request_that_came_to_nothing_is_forgotten),
                RIG_TEST(test_a_list_forgets_requests_that_are_old),
                RIG_TEST(test_a_container_that_was_missing_in_a_list_has_ended_whatever_the_checkpoint_says),
                RIG_TEST(test_what_is_over_stays_so_for_its_container_only),
                RIG_TEST(test_after_a_minute_without_an_answer_what_the_checkpoint_says_is_stale),
                RIG_TEST(test_without_list_and_record_nothing_is_known),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
