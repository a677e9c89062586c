// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "node/status/report.h"

static struct unit_health table;
static struct node_health *health;

static int open_health(void **state UNUSED)
{
        health = node_health_new(&table);
        return 0;
}

static int close_health(void **state UNUSED)
{
        health = node_health_free(health);
        unit_health_clear(&table);
        return 0;
}

/* GPU-0, GPU-1, and GPU-2 with MIG-0 and MIG-1. */
static struct mig_device migs[] = {{.uuid = "MIG-0", .index = 0}, {.uuid = "MIG-1", .index = 1}};
static struct gpu gpus[] = {
        {.uuid = "GPU-0", .index = 0},
        {.uuid = "GPU-1", .index = 1},
        {.uuid = "GPU-2", .index = 2, .mig_enabled = true, .mig_devices = migs, .n_mig_devices = 2},
};
static const struct inventory inventory = {.gpus = gpus, .n_gpus = ARRAY_SIZE(gpus)};

static const struct unit whole[] = {{.uuid = "GPU-0"}, {.uuid = "GPU-1"}};
static const struct unit parts[] = {{.uuid = "MIG-0"}, {.uuid = "MIG-1"}};
static struct resource resources[] = {
        {.name = "nvidia.com/gpu", .units = whole, .n_units = 2},
        {.name = "nvidia.com/mig-1g.10gb", .units = parts, .n_units = 2},
};
static const struct plan plan = {.resources = resources, .n_resources = ARRAY_SIZE(resources)};
static const struct plan empty_plan = {.n_resources = 0};

/* As the agent does it. */
static void set_inventory(const struct inventory *newest)
{
        unit_health_clear(&table);
        node_health_set_inventory(health, newest);
}

static void set_unit(const char *uuid, bool is_healthy, const char *reason)
{
        unit_health_set(&table, uuid, is_healthy, reason);
}

/* What the end of the turn tells: "GPU-1-:fell" and "GPU-1+", "(…)" around parts of others. */
static void assert_turn(const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct node_change *changes;
        size_t count = node_health_end_turn(health, &changes);

        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, changes[i].is_part_of_other ? "%s(%s%s%s)" : "%s%s%s%s", i ? " " : "",
                        changes[i].uuid, changes[i].is_healthy ? "+" : "-:", changes[i].reason);
        assert_string_equal(text.data, expected);
}

static void assert_condition(enum node_status status, const char *reason, const char *message)
{
        struct node_condition condition;

        node_health_condition(health, &condition);
        assert_string_equal(condition.message, message);
        assert_string_equal(condition.reason, reason);
        assert_int_equal(condition.status, status);
}

static void begin(void)
{
        set_inventory(&inventory);
        node_health_set_plan(health, &plan);
        assert_turn("");
}

static void test_nothing_is_reported_about_a_healthy_node(void **state UNUSED)
{
        begin();
        set_inventory(&inventory);
        assert_turn("");
        assert_condition(NODE_READY, "Ready", "4 units are healthy, 2 resources are advertised");
}

static void test_each_change_of_health_is_reported_once(void **state UNUSED)
{
        begin();
        set_unit("GPU-1", false, "fell");
        assert_turn("GPU-1-:fell");
        assert_turn("");
        set_unit("GPU-1", false, "fell again");
        assert_turn("");
        set_unit("GPU-1", true, "");
        assert_turn("GPU-1+");
        assert_turn("");
}

static void test_health_that_is_reported_again_after_an_inventory_is_no_change(void **state UNUSED)
{
        begin();
        set_unit("GPU-1", false, "fell");
        assert_turn("GPU-1-:fell");
        set_inventory(&inventory);
        set_unit("GPU-1", false, "fell");
        assert_turn("");
        assert_condition(NODE_READY, "SomeUnhealthy", "1 of 4 units are unhealthy; GPU 1 (GPU-1): fell");
}

static void test_a_gpu_without_a_report_after_an_inventory_is_healthy(void **state UNUSED)
{
        begin();
        set_unit("GPU-1", false, "fell");
        assert_turn("GPU-1-:fell");
        set_inventory(&inventory);
        assert_turn("GPU-1+");
}

static void test_a_gpu_that_is_gone_is_reported_once_and_returns(void **state UNUSED)
{
        static const struct inventory fewer = {.gpus = gpus + 1, .n_gpus = ARRAY_SIZE(gpus) - 1};

        begin();
        for (int i = 0; i < 3; i++) {
                set_inventory(&fewer);
                set_unit("GPU-0", false, "it is no longer present");
                assert_turn(i ? "" : "GPU-0-:it is no longer present");
        }
        set_inventory(&inventory);
        assert_turn("GPU-0+");
}

static void test_a_change_that_is_undone_within_a_turn_is_not_reported(void **state UNUSED)
{
        begin();
        set_unit("GPU-0", false, "fell");
        set_unit("GPU-0", true, "");
        assert_turn("");
}

static void test_mig_devices_are_part_of_their_gpu_where_it_changes_as_they_do(void **state UNUSED)
{
        begin();
        set_unit("MIG-1", false, "Xid 94");
        assert_turn("MIG-1-:Xid 94");
        set_unit("GPU-2", false, "Xid 79");
        set_unit("MIG-0", false, "Xid 79");
        set_unit("MIG-1", false, "Xid 79");
        assert_turn("GPU-2-:Xid 79 (MIG-0-:Xid 79)");
        set_unit("MIG-0", true, "");
        assert_turn("MIG-0+");
}

static void test_names_are_for_people(void **state UNUSED)
{
        const struct node_change *changes;

        begin();
        set_unit("GPU-1", false, "a");
        set_unit("MIG-1", false, "b");
        set_unit("GPU-gone", false, "c");
        assert_int_equal(node_health_end_turn(health, &changes), 3);
        assert_string_equal(changes[0].name, "GPU 1 (GPU-1)");
        assert_string_equal(changes[1].name, "MIG device 2:1 (MIG-1)");
        assert_string_equal(changes[2].name, "GPU-gone");
}

static void test_an_agent_that_has_just_started_says_nothing(void **state UNUSED)
{
        assert_condition(NODE_UNKNOWN, "Starting",
                "the GPUs have not been read yet, or it is not known yet which MIG configuration they are to have");
        set_inventory(&inventory);
        assert_condition(NODE_UNKNOWN, "Starting",
                "the GPUs have not been read yet, or it is not known yet which MIG configuration they are to have");
}

static void test_a_node_without_a_plan_is_not_ready(void **state UNUSED)
{
        node_health_set_problem(health, NODE_UNAVAILABLE, "no library");
        assert_condition(NODE_NOT_READY, "NVMLUnavailable", "NVML cannot be used: no library");
        set_inventory(&inventory);
        assert_condition(NODE_UNKNOWN, "Starting",
                "the GPUs have not been read yet, or it is not known yet which MIG configuration they are to have");
        node_health_set_problem(health, NODE_PLAN_REFUSED, "replicas: 0");
        assert_condition(NODE_NOT_READY, "ChangeRefused", "no plan is in force: replicas: 0");
}

static void test_a_node_whose_plan_has_no_unit_is_not_ready(void **state UNUSED)
{
        set_inventory(&inventory);
        node_health_set_plan(health, &empty_plan);
        assert_condition(NODE_NOT_READY, "NoGPU", "the node has no GPU that its configuration advertises");
}

static void test_a_node_is_ready_as_long_as_one_unit_is_healthy(void **state UNUSED)
{
        begin();
        set_unit("GPU-0", false, "fell");
        set_unit("GPU-1", false, "burns");
        set_unit("MIG-0", false, "lost");
        assert_condition(NODE_READY, "SomeUnhealthy", "3 of 4 units are unhealthy; GPU 0 (GPU-0): fell");
        set_unit("MIG-1", false, "lost");
        assert_condition(NODE_NOT_READY, "NoHealthyGPU", "none of 4 units is healthy; GPU 0 (GPU-0): fell");
}

static void test_a_gpu_that_is_not_in_the_plan_does_not_count(void **state UNUSED)
{
        begin();
        set_unit("GPU-2", false, "fell");
        assert_condition(NODE_READY, "Ready", "4 units are healthy, 2 resources are advertised");
}

static void test_units_that_belong_to_dra_count_as_those_of_the_device_plugin(void **state UNUSED)
{
        const struct plan claims_only = {.claimable = &resources[0]};

        begin();
        node_health_set_plan(health, &claims_only);
        assert_condition(NODE_READY, "Ready", "2 units are healthy, 0 resources are advertised");
        set_unit("GPU-1", false, "fell");
        assert_condition(NODE_READY, "SomeUnhealthy", "1 of 2 units are unhealthy; GPU 1 (GPU-1): fell");
}

static void test_a_refused_change_leaves_the_node_ready_and_says_so(void **state UNUSED)
{
        begin();
        node_health_set_problem(health, NODE_PLAN_REFUSED, "replicas: 0, must be at least 1");
        assert_condition(
                NODE_READY, "ChangeRefused", "the previous plan stays in force: replicas: 0, must be at least 1");
        node_health_set_problem(health, NODE_PLAN_REFUSED, NULL);
        assert_condition(NODE_READY, "Ready", "4 units are healthy, 2 resources are advertised");
}

static void test_an_offer_that_is_reduced_leaves_the_node_ready_and_says_so(void **state UNUSED)
{
        begin();
        node_health_set_problem(health, NODE_OFFER_REDUCED, "one form each");
        assert_condition(NODE_READY, "OfferReduced", "one form each");
        node_health_set_problem(health, NODE_PLAN_REFUSED, "no");
        assert_condition(NODE_READY, "ChangeRefused", "the previous plan stays in force: no");
        node_health_set_problem(health, NODE_PLAN_REFUSED, NULL);
        node_health_set_problem(health, NODE_OFFER_REDUCED, NULL);
        assert_condition(NODE_READY, "Ready", "4 units are healthy, 2 resources are advertised");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_health, close_health)
        const struct CMUnitTest tests[] = {
                TEST(test_nothing_is_reported_about_a_healthy_node),
                TEST(test_each_change_of_health_is_reported_once),
                TEST(test_health_that_is_reported_again_after_an_inventory_is_no_change),
                TEST(test_a_gpu_without_a_report_after_an_inventory_is_healthy),
                TEST(test_a_gpu_that_is_gone_is_reported_once_and_returns),
                TEST(test_a_change_that_is_undone_within_a_turn_is_not_reported),
                TEST(test_mig_devices_are_part_of_their_gpu_where_it_changes_as_they_do),
                TEST(test_names_are_for_people),
                TEST(test_an_agent_that_has_just_started_says_nothing),
                TEST(test_a_node_without_a_plan_is_not_ready),
                TEST(test_a_node_whose_plan_has_no_unit_is_not_ready),
                TEST(test_a_node_is_ready_as_long_as_one_unit_is_healthy),
                TEST(test_a_gpu_that_is_not_in_the_plan_does_not_count),
                TEST(test_units_that_belong_to_dra_count_as_those_of_the_device_plugin),
                TEST(test_a_refused_change_leaves_the_node_ready_and_says_so),
                TEST(test_an_offer_that_is_reduced_leaves_the_node_ready_and_says_so),
        };

        return cmocka_run_group_tests_name("node_health", tests, NULL, NULL);
}
