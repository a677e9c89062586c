// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <deviceplugin.pb-c.h>

#include "node/kubelet/device_list.h"
#include "plan/node.h"

static struct unhealthy_unit first_units[] = {{.uuid = (char[]){"GPU-0"}}};
static const struct unit_health nobody;
static const struct unit_health first = {.unhealthy = first_units, .n_unhealthy = 1};

/* "id=H id=U …" of the packed message, in its order. */
static char *describe(const struct device_list *list)
{
        struct rpc_message *message = device_list_pack(list);
        V1beta1__ListAndWatchResponse *response = v1beta1__list_and_watch_response__unpack(
                NULL, message->size - RPC_PREFIX_SIZE, rpc_message_payload(message));
        struct strbuf text = STRBUF_INIT;

        assert_non_null(response);
        for (size_t i = 0; i < response->n_devices; i++)
                strbuf_printf(
                        &text, "%s%s=%c", i ? " " : "", response->devices[i]->id, response->devices[i]->health[0]);
        v1beta1__list_and_watch_response__free_unpacked(response, NULL);
        rpc_message_unref(message);
        return strbuf_take(&text);
}

static void assert_list(const struct device_list *list, const char *expected)
{
        _free_ char *text = describe(list);

        assert_string_equal(text, expected);
}

static void test_replicas_share_the_health_of_their_unit(void **state UNUSED)
{
        struct device_list list = DEVICE_LIST_INIT;
        struct node node = node_new(2);

        node_share(&node, SHARING_TIME_SLICING, 2);
        assert_ok(node_plan(&node), &node.err);
        assert_true(device_list_update(&list, &node.plan->resources[0], &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-1::0=H GPU-1::1=H");
        assert_false(device_list_refresh(&list, &nobody, NULL));
        assert_true(device_list_refresh(&list, &first, NULL));
        assert_list(&list, "GPU-0::0=U GPU-0::1=U GPU-1::0=H GPU-1::1=H");
        assert_int_equal(device_list_count(&list).healthy, 2);
        assert_int_equal(device_list_count(&list).unhealthy, 2);
        device_list_done(&list);
        node_done(&node);
}

static void test_an_id_that_is_reserved_is_listed_as_unhealthy_and_counted_apart(void **state UNUSED)
{
        static const bool one[] = {false, true, false, false};
        struct device_list list = DEVICE_LIST_INIT;
        struct node node = node_new(2);

        node_share(&node, SHARING_TIME_SLICING, 2);
        assert_ok(node_plan(&node), &node.err);
        assert_true(device_list_update(&list, &node.plan->resources[0], &nobody, one));
        assert_list(&list, "GPU-0::0=H GPU-0::1=U GPU-1::0=H GPU-1::1=H");
        assert_int_equal(device_list_count(&list).healthy, 3);
        assert_int_equal(device_list_count(&list).reserved, 1);
        assert_int_equal(device_list_count(&list).unhealthy, 0);
        assert_false(device_list_refresh(&list, &nobody, one));
        assert_true(device_list_refresh(&list, &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-1::0=H GPU-1::1=H");
        device_list_done(&list);
        node_done(&node);
}

/*
 * An id of a unit that is down is unhealthy for that reason, and its being kept back or not is nothing to tell kubelet.
 */
static void test_what_is_reserved_of_an_unhealthy_unit_is_no_news(void **state UNUSED)
{
        static const bool one[] = {false, true, false, false};
        static const bool two[] = {true, true, false, false};
        struct device_list list = DEVICE_LIST_INIT;
        struct node node = node_new(2);

        node_share(&node, SHARING_TIME_SLICING, 2);
        assert_ok(node_plan(&node), &node.err);
        assert_true(device_list_update(&list, &node.plan->resources[0], &first, one));
        assert_false(device_list_refresh(&list, &first, NULL));
        assert_int_equal(device_list_count(&list).reserved, 0);
        assert_int_equal(device_list_count(&list).unhealthy, 2);
        /* And a unit that comes back with all of its ids kept back is not news either. */
        assert_false(device_list_refresh(&list, &nobody, two));
        assert_int_equal(device_list_count(&list).reserved, 2);
        assert_true(device_list_refresh(&list, &nobody, one));
        assert_list(&list, "GPU-0::0=H GPU-0::1=U GPU-1::0=H GPU-1::1=H");
        device_list_done(&list);
        node_done(&node);
}

static void test_what_is_unavailable_is_unhealthy_and_what_drains_is_in_the_list_from_the_start(void **state UNUSED)
{
        static const bool unavailable[] = {false, true, false, false};
        struct device_list list = DEVICE_LIST_INIT;
        struct node now = node_new(2);
        struct node before = node_new(1);
        struct resource resource;

        node_share(&now, SHARING_MPS, 2);
        node_share(&before, SHARING_MPS, 4);
        assert_ok(node_plan(&now), &now.err);
        assert_ok(node_plan(&before), &before.err);
        resource = now.plan->resources[0];
        resource.unavailable = unavailable;
        resource.draining = before.plan->resources;
        resource.n_draining = 1;
        assert_true(device_list_update(&list, &resource, &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=U GPU-1::0=H GPU-1::1=H GPU-0::2=U GPU-0::3=U");
        assert_int_equal(device_list_count(&list).reserved, 1);
        /* It is over: its ids stay, as all that once were there, and each of them once. */
        assert_true(device_list_update(&list, &now.plan->resources[0], &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-1::0=H GPU-1::1=H GPU-0::2=U GPU-0::3=U");
        assert_true(device_list_update(&list, &resource, &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=U GPU-1::0=H GPU-1::1=H GPU-0::2=U GPU-0::3=U");
        device_list_done(&list);
        node_done(&now);
        node_done(&before);
}

static void test_what_is_in_use_of_a_unit_that_leaves_is_as_healthy_as_the_unit(void **state UNUSED)
{
        static const bool unavailable[] = {true, true, true, false};
        struct device_list list = DEVICE_LIST_INIT;
        struct node now = node_new(2);
        struct node before = node_new(1);
        struct resource resource;
        struct resource draining;

        node_share(&now, SHARING_MPS, 2);
        node_share(&before, SHARING_MPS, 4);
        assert_ok(node_plan(&now), &now.err);
        assert_ok(node_plan(&before), &before.err);
        draining = before.plan->resources[0];
        draining.unavailable = unavailable;
        resource = now.plan->resources[0];
        resource.draining = &draining;
        resource.n_draining = 1;
        assert_true(device_list_update(&list, &resource, &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-1::0=H GPU-1::1=H GPU-0::2=U GPU-0::3=H");
        assert_int_equal(device_list_count(&list).healthy, 5);
        assert_int_equal(device_list_count(&list).unhealthy, 1);
        assert_false(device_list_refresh(&list, &nobody, NULL));
        assert_true(device_list_refresh(&list, &first, NULL));
        assert_list(&list, "GPU-0::0=U GPU-0::1=U GPU-1::0=H GPU-1::1=H GPU-0::2=U GPU-0::3=U");
        assert_true(device_list_update(&list, &now.plan->resources[0], &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-1::0=H GPU-1::1=H GPU-0::2=U GPU-0::3=U");
        device_list_done(&list);
        node_done(&now);
        node_done(&before);
}

static void test_the_same_resource_in_a_new_plan_is_no_news(void **state UNUSED)
{
        struct device_list list = DEVICE_LIST_INIT;
        struct node before = node_new(2);
        struct node after = node_new(2);

        assert_ok(node_plan(&before), &before.err);
        assert_ok(node_plan(&after), &after.err);
        assert_true(device_list_update(&list, &before.plan->resources[0], &first, NULL));
        assert_false(device_list_update(&list, &after.plan->resources[0], &first, NULL));
        assert_ptr_equal(list.resource, &after.plan->resources[0]);
        device_list_done(&list);
        node_done(&before);
        node_done(&after);
}

static void test_an_id_that_was_advertised_stays_as_unhealthy(void **state UNUSED)
{
        struct device_list list = DEVICE_LIST_INIT;
        struct node three = node_new(1);
        struct node two = node_new(1);

        node_share(&three, SHARING_TIME_SLICING, 3);
        node_share(&two, SHARING_TIME_SLICING, 2);
        assert_ok(node_plan(&three), &three.err);
        assert_ok(node_plan(&two), &two.err);
        device_list_update(&list, &three.plan->resources[0], &nobody, NULL);
        assert_true(device_list_update(&list, &two.plan->resources[0], &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-0::2=U");
        assert_int_equal(device_list_count(&list).unhealthy, 1);
        /* Back again: the id is an ordinary one. */
        assert_true(device_list_update(&list, &three.plan->resources[0], &nobody, NULL));
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-0::2=H");
        assert_int_equal(list.n_retired, 0);
        /* And away twice: named once. */
        device_list_update(&list, &two.plan->resources[0], &nobody, NULL);
        device_list_update(&list, &three.plan->resources[0], &nobody, NULL);
        device_list_update(&list, &two.plan->resources[0], &nobody, NULL);
        assert_list(&list, "GPU-0::0=H GPU-0::1=H GPU-0::2=U");
        device_list_done(&list);
        node_done(&three);
        node_done(&two);
}

/* Every plan replaces every id; the list stays as long as one message may be. */
static void test_retired_ids_never_outgrow_a_message(void **state UNUSED)
{
        struct device_list list = DEVICE_LIST_INIT;
        struct rpc_message *message;
        struct node nodes[4];

        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
                nodes[i] = node_new(20);
                for (size_t gpu = 0; gpu < 20; gpu++)
                        nodes[i].inventory.gpus[gpu].uuid =
                                arena_printf(&nodes[i].arena, "GPU-12345678-1234-1234-1234-1234567%02zu%03zu", i, gpu);
                node_share(&nodes[i], SHARING_TIME_SLICING, 1000);
                assert_ok(node_plan(&nodes[i]), &nodes[i].err);
                device_list_update(&list, &nodes[i].plan->resources[0], &nobody, NULL);
        }
        assert_int_equal(device_list_count(&list).healthy, 20000);
        assert_int_equal(device_list_count(&list).unhealthy, 30000);
        /* The newest retired ones were kept: all of the third plan's, half of the second's. */
        assert_string_equal(list.retired[29999].id, "GPU-12345678-1234-1234-1234-123456702019::999");
        assert_string_equal(list.retired[0].id, "GPU-12345678-1234-1234-1234-123456701010::0");
        message = device_list_pack(&list);
        assert_in_range(message->size, 0, (size_t)4 << 20);
        rpc_message_unref(message);
        device_list_done(&list);
        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
                node_done(&nodes[i]);
}

static void test_an_unknown_numa_node_is_no_topology(void **state UNUSED)
{
        struct device_list list = DEVICE_LIST_INIT;
        struct node node = node_new(2);
        V1beta1__ListAndWatchResponse *response;
        struct rpc_message *message;

        node.inventory.gpus[1].numa_node = 1;
        assert_ok(node_plan(&node), &node.err);
        device_list_update(&list, &node.plan->resources[0], &nobody, NULL);
        message = device_list_pack(&list);
        response = v1beta1__list_and_watch_response__unpack(
                NULL, message->size - RPC_PREFIX_SIZE, rpc_message_payload(message));
        assert_null(response->devices[0]->topology);
        assert_int_equal(response->devices[1]->topology->n_nodes, 1);
        assert_int_equal(response->devices[1]->topology->nodes[0]->id, 1);
        v1beta1__list_and_watch_response__free_unpacked(response, NULL);
        rpc_message_unref(message);
        device_list_done(&list);
        node_done(&node);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_replicas_share_the_health_of_their_unit),
                cmocka_unit_test(test_an_id_that_is_reserved_is_listed_as_unhealthy_and_counted_apart),
                cmocka_unit_test(test_what_is_reserved_of_an_unhealthy_unit_is_no_news),
                cmocka_unit_test(test_what_is_unavailable_is_unhealthy_and_what_drains_is_in_the_list_from_the_start),
                cmocka_unit_test(test_what_is_in_use_of_a_unit_that_leaves_is_as_healthy_as_the_unit),
                cmocka_unit_test(test_the_same_resource_in_a_new_plan_is_no_news),
                cmocka_unit_test(test_an_id_that_was_advertised_stays_as_unhealthy),
                cmocka_unit_test(test_retired_ids_never_outgrow_a_message),
                cmocka_unit_test(test_an_unknown_numa_node_is_no_topology),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
