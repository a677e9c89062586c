// SPDX-License-Identifier: Apache-2.0
/*
 * An agent that starts on what the one before has left: its file, kubelet's record, kubelet's list, or less.
 */
#include "rig.h"

#include <stdlib.h>
#include <unistd.h>

/* The next agent has them with the same ids on the same units. */
static void assert_kept(const struct fake_container *const *containers, size_t count)
{
        const struct ledger_allocation *all;
        size_t n_all = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);

        assert_int_equal(n_all, count);
        for (size_t i = 0; i < count; i++) {
                size_t found = 0;

                for (size_t j = 0; j < n_all; j++) {
                        if (strcmp(all[j].allocation->id, containers[i]->allocation) != 0)
                                continue;
                        assert_string_equal(all[j].allocation->unit, containers[i]->unit);
                        assert_int_equal(all[j].allocation->n_devices, containers[i]->n_ids);
                        assert_false(all[j].allocation->is_guess);
                        found++;
                }
                assert_int_equal(found, 1);
        }
}

static void end(bool is_killed)
{
        if (is_killed)
                rig_kill();
        else
                rig_stop();
}

enum step { AFTER_ANSWER, AFTER_FILE, AFTER_RECORDING, AFTER_LIST, N_STEPS };

/* How far it had come when the agent ended. */
static void go_to(enum step step)
{
        if (step >= AFTER_FILE)
                rig_pass(200);
        if (step >= AFTER_RECORDING)
                fake_kubelet_record();
        if (step >= AFTER_LIST)
                rig_pass(GRACE_MS);
}

static void test_an_allocation_survives_the_agent_at_each_step(void **state UNUSED)
{
        for (size_t i = 0; i < 2 * N_STEPS; i++) {
                const struct fake_container *containers[2];

                containers[0] = rig_run("other", "GPU-0::0 GPU-0::1 GPU-0::2");
                rig_pass(GRACE_MS);
                kubelet.records_late = true;
                containers[1] = rig_run("train", "GPU-0::3 GPU-1::0");
                assert_string_equal(containers[1]->unit, "GPU-1");
                go_to((enum step)(i % N_STEPS));
                end(i >= N_STEPS);
                fake_kubelet_record();
                kubelet.records_late = false;
                rig_start();
                rig_pass(0);
                assert_kept(containers, 2);
                rig_pass(3 * GRACE_MS);
                assert_kept(containers, 2);

                fake_kubelet_end_pod("other");
                fake_kubelet_end_pod("train");
                rig_pass(GRACE_MS);
                assert_string_equal(rig_allocations(), "");
        }
}

/* And when kubelet has said nothing yet, or has no record. */
static void test_the_file_is_enough_by_itself(void **state UNUSED)
{
        const struct fake_container *containers[2];

        containers[0] = rig_run("other", "GPU-0::0 GPU-0::1 GPU-0::2");
        containers[1] = rig_run("train", "GPU-0::3 GPU-1::0");
        rig_pass(GRACE_MS);
        end(true);
        kubelet.writes_record = false;
        unlink(rig.record);
        rig_start();
        assert_kept(containers, 2);
        rig_pass(3 * GRACE_MS);
        assert_kept(containers, 2);
}

/* The first plan is judged before the ledger has it: a unit waits for those bound to it, whatever their ids say. */
static void test_what_is_held_is_bound_to_its_unit_before_there_is_a_plan(void **state UNUSED)
{
        static const char held[] = "told: GPU-0::0 GPU-0::1 GPU-0::2 GPU-0::3@GPU-1 GPU-1::0";

        rig_run("other", "GPU-0::0 GPU-0::1 GPU-0::2");
        rig_run("train", "GPU-0::3 GPU-1::0");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_held(), held);
        end(false);
        rig_open();
        assert_string_equal(rig_held(), held);
        rig_apply(rig.plan);
        assert_string_equal(rig_held(), held);
}

static void test_a_container_that_ended_while_no_agent_ran_is_released(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        end(false);
        fake_kubelet_end_pod("train");
        rig_start();
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "serve GPU-0[1]");
}

static void test_a_request_that_waited_for_the_agent_leaves_nothing(void **state UNUSED)
{
        const struct fake_container *train;

        supervisor.allocations = FAKE_ALLOCATIONS_LATE;
        train = rig_allocate("train", "GPU-0::0");
        end(false);
        assert_true(train->is_answered);
        assert_int_equal(train->error.kind, ERROR_UNAVAILABLE);
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        rig_start();
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
        assert_int_equal(supervisor.made.count, 0);
}

/* One id of the record is another. Kubelet's record has the right one. */
static void test_a_record_that_was_mended_is_written(void **state UNUSED)
{
        _free_ char *damaged = NULL;
        _free_ char *mended = NULL;

        rig_run("train", "GPU-0::3");
        rig_pass(GRACE_MS);
        end(true);
        damaged = rig_read_file();
        *strrchr(damaged, '3') = '2';
        assert_non_null(strstr(damaged, "GPU-0::2"));
        rig_write_file(damaged);
        rig_start();
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-0[3]");
        mended = rig_read_file();
        assert_non_null(strstr(mended, "GPU-0::3"));
}

/* ---- without the file ---- */

static const char *const bad_files[] = {NULL, "", "{\"version\":1,\"grants\":[{\"id\":\"g0123", "[]",
        "{\"version\":1,\"grants\":[{\"id\":\"G-\",\"devices\":[\"GPU-0::0\"]}]}"};

/* What was answered stands in kubelet's record: the id and the unit, which is not that of the container's ids. */
static void test_without_a_whole_file_kubelets_record_is_enough(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(bad_files); i++) {
                const struct fake_container *containers[2];

                containers[0] = rig_run("other", "GPU-0::0 GPU-0::1 GPU-0::2");
                containers[1] = rig_run("train", "GPU-0::3 GPU-1::0");
                rig_pass(GRACE_MS);
                end(true);
                unlink(rig.file);
                if (bad_files[i])
                        rig_write_file(bad_files[i]);
                rig_start();
                assert_string_equal(rig_allocations(), "");
                rig_pass(0);
                assert_kept(containers, 2);
                assert_true(supervisor.is_reported);
                assert_int_equal(supervisor.made.count, 2);
                assert_non_null(fake_allocations_find(&supervisor.made, containers[1]->allocation));

                fake_kubelet_end_pod("other");
                fake_kubelet_end_pod("train");
                rig_pass(2 * GRACE_MS);
        }
}

/* Then the unit of most ids is a guess, and the supervisor is not told of what is held: it would take the rest away. */
static void test_without_file_and_record_the_list_is_enough_to_keep_the_room(void **state UNUSED)
{
        rig_run("train", "GPU-0::0 GPU-1::0 GPU-1::1");
        rig_pass(GRACE_MS);
        end(true);
        unlink(rig.file);
        unlink(rig.record);
        kubelet.writes_record = false;
        rig_start();
        rig_pass(GRACE_MS - 1);
        assert_string_equal(rig_allocations(), ""); /* this kubelet may be one that has just started */
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "train GPU-1[0 0 1]");
        assert_false(supervisor.is_reported);
        assert_int_equal(supervisor.made.count, 1);
        fake_kubelet_end_pod("train");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(rig_allocations(), "");
        assert_true(supervisor.is_reported);
        assert_int_equal(supervisor.made.count, 0);
}

/* The agent was killed before it had written what had changed: the file has a container of before, on another unit. */
static void test_ids_that_the_file_has_for_another_container_are_its_own(void **state UNUSED)
{
        const struct fake_container *train;
        _free_ char *old = NULL;

        rig_run("other", "GPU-1::0 GPU-1::1 GPU-1::2");
        rig_run("before", "GPU-0::3 GPU-1::3");
        rig_pass(GRACE_MS);
        old = rig_read_file();
        fake_kubelet_end_pod("before");
        fake_kubelet_end_pod("other");
        rig_run("second", "GPU-0::0 GPU-0::1 GPU-0::2");
        rig_pass(2 * GRACE_MS);
        train = rig_run("train", "GPU-0::3 GPU-1::3");
        assert_string_equal(train->unit, "GPU-1");
        end(true);
        rig_write_file(old);
        rig_start();
        rig_pass(0);
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation)); /* its namespace is never away */
        rig_pass(3 * GRACE_MS);
        assert_string_equal(rig_allocations(), "second GPU-0[0 1 2], train GPU-1[3 3]");
        assert_non_null(fake_allocations_find(&supervisor.made, train->allocation));
        assert_int_equal(supervisor.made.count, 2);
}

/* ---- the disk ---- */

static void test_what_cannot_be_written_is_written_when_there_is_room(void **state UNUSED)
{
        const struct fake_container *containers[2];
        _free_ char *file = NULL;

        rig_fill_disk();
        containers[0] = rig_run("train", "GPU-0::0");
        rig_pass(100000);
        containers[1] = rig_run("serve", "GPU-0::1");
        rig_pass(5000);
        rig_empty_disk();
        assert_null(rig_read_file());
        rig_pass(60000);
        file = rig_read_file();
        assert_non_null(file);
        for (size_t i = 0; i < 2; i++)
                assert_non_null(strstr(file, containers[i]->allocation));
}

/* A node that fills up allocates all the time. */
static void test_changes_are_written_soon_though_more_follow(void **state UNUSED)
{
        static const char *const ids[] = {"GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3"};
        const struct fake_container *first = NULL;
        _free_ char *file = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                const struct fake_container *container = rig_run("train", ids[i]);

                first = first ? first : container;
                rig_pass(60);
        }
        file = rig_read_file();
        assert_non_null(file);
        assert_non_null(strstr(file, first->allocation));
}

static void test_a_full_disk_costs_nothing_while_kubelet_is_there(void **state UNUSED)
{
        const struct fake_container *containers[2];

        rig_fill_disk();
        containers[0] = rig_run("train", "GPU-0::0");
        containers[1] = rig_run("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        end(false);
        rig_empty_disk();
        rig_start();
        rig_pass(0);
        assert_kept(containers, 2);
}

/* ---- with another kubelet, or none ---- */

static void test_agent_and_kubelet_may_restart_together(void **state UNUSED)
{
        const struct fake_container *const train = rig_run("train", "GPU-0::0");

        rig_pass(GRACE_MS);
        end(true);
        fake_kubelet_restart();
        rig_start();
        rig_pass(3 * GRACE_MS); /* longer than a kubelet counts as young: its record has them all */
        assert_kept(&train, 1);
        fake_kubelet_gather();
        rig_pass(GRACE_MS);
        assert_kept(&train, 1);
        assert_string_equal(rig_allocations(), "train GPU-0[0]");
}

/* The agent before had counted by a clock that is an hour ahead. */
static void test_the_time_of_day_may_go_back_between_two_agents(void **state UNUSED)
{
        const struct fake_container *const train = rig_run("train", "GPU-0::0");

        rig_pass(GRACE_MS);
        end(false);
        rig.date -= 3600000;
        rig_start();
        rig_pass(3 * GRACE_MS);
        assert_kept(&train, 1);
        assert_string_equal(rig_unavailable(), "");
        fake_kubelet_end_pod("train");
        rig_pass(GRACE_MS);
        assert_string_equal(rig_allocations(), "");
}

/* ---- another agent serves ---- */

static void test_an_agent_that_leaves_writes_and_says_nothing_more(void **state UNUSED)
{
        const struct fake_container *const train = rig_run("train", "GPU-0::0");

        rig_pass(GRACE_MS);
        ledger_leave(rig.ledger);
        assert_string_equal(rig_unavailable(), "");
        unlink(rig.file);
        kubelet.to = FAKE_IS_SILENT;
        rig_pass(100000);
        assert_int_equal(kubelet.n_questions, 0);
        assert_null(rig_read_file());
        kubelet.to = FAKE_ANSWERS;
        assert_false(supervisor.is_reported);
        rig_apply(rig.node.plan);
        rig_pass(GRACE_MS);
        assert_kept(&train, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_an_allocation_survives_the_agent_at_each_step),
                RIG_TEST(test_the_file_is_enough_by_itself),
                RIG_TEST(test_a_record_that_was_mended_is_written),
                RIG_TEST(test_what_is_held_is_bound_to_its_unit_before_there_is_a_plan),
                RIG_TEST(test_a_container_that_ended_while_no_agent_ran_is_released),
                RIG_TEST_WITH(test_a_request_that_waited_for_the_agent_leaves_nothing, RIG_PARTITIONS),
                RIG_TEST_WITH(test_without_a_whole_file_kubelets_record_is_enough, RIG_NAMESPACES),
                RIG_TEST_WITH(test_without_file_and_record_the_list_is_enough_to_keep_the_room, RIG_NAMESPACES),
                RIG_TEST_WITH(test_ids_that_the_file_has_for_another_container_are_its_own, RIG_NAMESPACES),
                RIG_TEST(test_what_cannot_be_written_is_written_when_there_is_room),
                RIG_TEST(test_changes_are_written_soon_though_more_follow),
                RIG_TEST(test_a_full_disk_costs_nothing_while_kubelet_is_there),
                RIG_TEST(test_agent_and_kubelet_may_restart_together),
                RIG_TEST(test_the_time_of_day_may_go_back_between_two_agents),
                RIG_TEST(test_an_agent_that_leaves_writes_and_says_nothing_more),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
