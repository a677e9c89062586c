// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include "cluster/dashboard/details.h"
#include "cluster/dashboard/search.h"

#define SHARE_A                                                                                                        \
        "{'namespace': 'team-a', 'pod': 'train', 'container': 'main', 'replicas': 3, 'memoryLimit': 300, "             \
        "'memoryUsed': 150, 'sm': 0.1, 'memoryPeak': 200, 'history': [0.5]}"
#define SHARE_B "{'namespace': 'team-b', 'pod': 'serve', 'container': 'main', 'replicas': 4, 'memoryLimit': 400}"
#define UNIT                                                                                                           \
        "'uuid': 'GPU-a', 'index': '0', 'sharing': 'mps', 'by': 'device-plugin', 'replicas': 10, 'granted': 7, "       \
        "'reserved': 2, 'memory': 1000"
#define GPU(shares)                                                                                                    \
        "{'uuid': 'GPU-a', 'index': '0', 'model': 'NVIDIA L4', 'memory': 1000, 'memoryUsed': 310, 'utilization': "     \
        "0.204, 'units': [{" UNIT ", 'shares': [" shares "], 'others': []}]}"
#define EVENT                                                                                                          \
        "{'node': 'a', 'time': 7, 'kind': 'Warning', 'reason': 'Fault', 'unit': 'GPU-a', 'text': 'by team-b/serve'}"

static const char *const only_a[] = {"team-a"};
static const struct dashboard_scope sees_a = {.namespaces = only_a, .n_namespaces = 1};

static void test_a_gpu_has_its_shares_and_what_happened_to_it(void **state UNUSED)
{
        view_add("a", PAGE_A);
        assert_json(dashboard_gpu(&view, &sees_all, "GPU-a"),
                "{'node': 'a', 'state': 'answers', 'gpu': " GPU(SHARE_A ", " SHARE_B) ", 'events': [" EVENT "]}");
        assert_null(dashboard_gpu(&view, &sees_all, "GPU-b"));
        assert_null(dashboard_gpu(&view, &sees_all, ""));
}

static void test_a_gpu_is_found_by_its_mig_devices(void **state UNUSED)
{
        json_t *found;

        view_add("a",
                "{'version': 1, 'node': 'a', 'gpus': [{'uuid': 'GPU-a', 'units': [{'uuid': 'MIG-1'}]}], 'events': "
                "[{'time': 1, 'unit': 'MIG-1'}, {'time': 2, 'unit': 'GPU-b'}, {'time': 3}, {'time': 4, 'unit': "
                "'GPU-a'}]}");
        found = dashboard_gpu(&view, &sees_all, "MIG-1");
        assert_json(json_incref(json_object_get(found, "events")),
                "[{'node': 'a', 'time': 4, 'unit': 'GPU-a'}, {'node': 'a', 'time': 1, 'unit': 'MIG-1'}]");
        json_decref(found);
}

static void test_who_may_not_list_pods_there_sees_how_much_and_not_whose(void **state UNUSED)
{
        view_add("a", PAGE_A);
        assert_json(dashboard_gpu(&view, &sees_a, "GPU-a"),
                "{'node': 'a', 'state': 'answers', 'gpu': " GPU(
                        SHARE_A ", {'hidden': true, 'replicas': 4, 'memoryLimit': 400}") ", 'events': []}");
        assert_null(dashboard_pod(&view, &sees_a, "team-b", "serve"));
}

static void test_a_pod_has_its_shares_on_all_nodes_and_why_it_waits(void **state UNUSED)
{
        view_add("a", PAGE_A);
        view_add("b", PAGE_A);
        view_wait_for("team-a", "later");
        assert_json(dashboard_pod(&view, &sees_a, "team-a", "train"),
                "{'namespace': 'team-a', 'name': 'train', 'events': [], 'shares': ["
                "{'node': 'a', 'gpu': 'GPU-a', 'model': 'NVIDIA L4', 'unit': {" UNIT "}, 'share': " SHARE_A "}, "
                "{'node': 'b', 'gpu': 'GPU-a', 'model': 'NVIDIA L4', 'unit': {" UNIT "}, 'share': " SHARE_A "}]}");
        assert_json(dashboard_pod(&view, &sees_all, "team-a", "later"),
                "{'namespace': 'team-a', 'name': 'later', 'events': [], 'shares': [], 'waiting': {'namespace': 'team-a', "
                "'name': 'later', 'phase': 'Pending', 'reason': 'Unschedulable', 'requests': [], 'claims': []}}");
        assert_null(dashboard_pod(&view, &sees_all, "team-a", "serve"));
        assert_null(dashboard_pod(&view, &sees_all, "", ""));
}

static void test_a_pod_has_the_events_that_name_it(void **state UNUSED)
{
        json_t *pod;

        view_add("a", PAGE_A);
        pod = dashboard_pod(&view, &sees_all, "team-b", "serve");
        assert_json(json_incref(json_object_get(pod, "events")), "[" EVENT "]");
        json_decref(pod);
}

static void test_a_node_has_what_kubernetes_and_its_agent_say(void **state UNUSED)
{
        const struct cluster_resource resource = {"nvidia.com/gpu", 10, 8};
        const struct cluster_taint taints[] = {{"a", "b", "NoSchedule"}, {"c", "", "NoExecute"}};
        const struct cluster_condition condition = {"Ready", "True", "KubeletReady", "well", 5};
        const struct cluster_node_object object = {.is_ready = true,
                .kubelet = "v1.36.0",
                .resources = &resource,
                .n_resources = 1,
                .taints = taints,
                .n_taints = 2,
                .conditions = &condition,
                .n_conditions = 1};
        const struct cluster_agent agent = {.namespace = "warpshare", .pod = "agent-x", .image = "i:1", .restarts = 2};
        struct cluster_node *node = view_add("a",
                "{'version': 1, 'node': 'a', 'agent': '0.1.0', 'driver': '570', 'ownersUnknown': 'why', 'gpus': []}");

        node->object = &object;
        node->agent = &agent;
        node->state = CLUSTER_AGENT_SILENT;
        node->reason = "it is late";
        node->page_time = 9;
        assert_json(dashboard_node(&view, &sees_all, "a"),
                "{'name': 'a', 'state': 'silent', 'reason': 'it is late', 'pageTime': 9, 'isReady': true, 'isCordoned': "
                "false, 'kubelet': 'v1.36.0', 'driver': '570', 'ownersUnknown': 'why', 'gpus': [], 'events': [], 'agent': {'namespace': "
                "'warpshare', 'pod': 'agent-x', 'image': 'i:1', 'restarts': 2, 'version': '0.1.0'}, 'resources': "
                "[{'name': 'nvidia.com/gpu', 'capacity': 10, 'allocatable': 8}], 'taints': ['a=b:NoSchedule', "
                "'c:NoExecute'], 'conditions': [{'type': 'Ready', 'status': 'True', 'reason': 'KubeletReady', 'message': "
                "'well', 'since': 5}]}");
        assert_null(dashboard_node(&view, &sees_all, "b"));
}

static void test_what_happened_is_told_newest_first_and_to_those_who_see_all(void **state UNUSED)
{
        view_add("a", "{'version': 1, 'node': 'a', 'gpus': [], 'events': [{'time': 1}, {'time': 4}]}");
        view_add("b", "{'version': 1, 'node': 'b', 'gpus': [], 'events': [{'time': 2}, {'time': 4}]}");
        view_wait_for("team-a", "x");
        view_wait_for("team-b", "y");
        assert_json(dashboard_events(&view, &sees_all),
                "{'events': [{'node': 'a', 'time': 4}, {'node': 'b', 'time': 4}, {'node': 'b', 'time': 2}, {'node': 'a', "
                "'time': 1}], 'isCut': false, 'leftOut': {}, 'waiting': [{'namespace': 'team-a', 'name': 'x', 'phase': 'Pending', "
                "'reason': 'Unschedulable', 'requests': [], 'claims': []}, {'namespace': 'team-b', 'name': 'y', 'phase': "
                "'Pending', 'reason': 'Unschedulable', 'requests': [], 'claims': []}]}");
        assert_json(dashboard_events(&view, &sees_a),
                "{'events': [], 'isCut': false, 'leftOut': {}, 'waiting': [{'namespace': 'team-a', 'name': 'x', 'phase': 'Pending', "
                "'reason': 'Unschedulable', 'requests': [], 'claims': []}]}");
}

static void test_events_beyond_the_bound_are_cut(void **state UNUSED)
{
        struct report_event events[64] = {{.time = 1}};
        const struct node_page page = {.version = 1, .events = events, .n_events = ARRAY_SIZE(events)};
        json_t *answer;

        for (unsigned int i = 0; i < 10; i++) {
                char name[] = {(char)('a' + i), '\0'};

                view_add(name, NULL)->page = &page;
        }
        answer = dashboard_events(&view, &sees_all);
        assert_int_equal(json_array_size(json_object_get(answer, "events")), DASHBOARD_EVENTS_MAX);
        assert_true(json_is_true(json_object_get(answer, "isCut")));
        json_decref(answer);
}

static size_t waiting_of(const json_t *answer, const char *namespace)
{
        const json_t *list = json_object_get(answer, "waiting");
        size_t count = 0;

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *one = json_object_get(json_array_get(list, i), "namespace");

                count += strcmp(json_string_value(one), namespace) == 0;
        }
        return count;
}

static void test_a_namespace_in_which_many_wait_hides_no_other_and_what_is_left_out_is_counted(void **state UNUSED)
{
        static const struct cluster_more more[] = {{"many", 30}, {"team-b", 7}};
        static const struct cluster_pod pod_of_many = {.namespace = "many", .name = "w", .phase = "Pending"};
        static const struct cluster_pod pod_of_a = {.namespace = "team-a", .name = "x", .phase = "Pending"};
        const struct cluster_pod *pods[DASHBOARD_WAITING_MAX + 20];
        json_t *answer;

        for (size_t i = 0; i < ARRAY_SIZE(pods); i++)
                pods[i] = i < DASHBOARD_WAITING_MAX ? &pod_of_many : &pod_of_a;
        view.pods = pods;
        view.n_pods = ARRAY_SIZE(pods);
        view.more = more;
        view.n_more = ARRAY_SIZE(more);
        answer = dashboard_events(&view, &sees_all);
        assert_int_equal(waiting_of(answer, "many"), DASHBOARD_WAITING_MAX / 2);
        assert_int_equal(waiting_of(answer, "team-a"), 20);
        assert_json(json_incref(json_object_get(answer, "leftOut")), "{'many': 280, 'team-b': 7}");
        json_decref(answer);
        answer = dashboard_events(&view, &sees_a);
        assert_int_equal(json_array_size(json_object_get(answer, "waiting")), 20);
        assert_json(json_incref(json_object_get(answer, "leftOut")), "{}");
        json_decref(answer);
}

/* ---- pods and namespaces ---- */

/* Two pods of one namespace: one is idle on two GPUs and has no process on a third, the other works. */
#define IDLE(more) "{'namespace': 'team-a', 'pod': 'idle', 'replicas': 2, 'sm': 0, 'idleSince': " more "}"
#define PAGE_IDLE                                                                                                      \
        "{'version': 1, 'node': 'b', 'gpus': [{'uuid': 'GPU-b', 'units': [{'uuid': 'GPU-b', 'index': '0', 'memory': "  \
        "1000, 'replicas': 4, 'shares': [" IDLE("50") ", " IDLE(                                                       \
                "70") ", "                                                                                             \
                      "{'namespace': 'team-a', 'pod': 'idle', 'memoryLimit': 30, 'memoryUsed': 0, 'seconds': 0}, {'replicas': 1}]}]}]}"
#define ROW_A                                                                                                          \
        "{'namespace': 'team-a', 'pod': 'train', 'container': 'main', 'node': 'a', 'gpu': 'GPU-a', 'unit': 'GPU-a', "  \
        "'index': '0', 'replicas': 3, 'of': 10, 'granted': 300, 'used': 150, 'sm': 0.1}"
#define ROW_B                                                                                                          \
        "{'namespace': 'team-b', 'pod': 'serve', 'container': 'main', 'node': 'a', 'gpu': 'GPU-a', 'unit': 'GPU-a', "  \
        "'index': '0', 'replicas': 4, 'of': 10, 'granted': 400}"
#define ROW_IDLE(since)                                                                                                \
        "{'namespace': 'team-a', 'pod': 'idle', 'node': 'b', 'gpu': 'GPU-b', 'unit': 'GPU-b', 'index': '0', "          \
        "'replicas': 2, 'of': 4, 'granted': 500, 'sm': 0.0, 'isIdle': true, 'idleSince': " since "}"
#define ROW_UNUSED                                                                                                     \
        "{'namespace': 'team-a', 'pod': 'idle', 'node': 'b', 'gpu': 'GPU-b', 'unit': 'GPU-b', 'index': '0', 'of': 4, " \
        "'granted': 30, 'used': 0, 'isIdle': true}"

static void test_pods_have_a_line_for_each_share_and_namespaces_one(void **state UNUSED)
{
        view_add("a", PAGE_A);
        view_wait_for("later", "x");
        view_wait_for("team-a", "y");
        assert_json(dashboard_pods(&view, &sees_all, NULL),
                "{'isCut': false, 'pods': [" ROW_A ", " ROW_B
                "], 'namespaces': [{'name': 'later', 'pods': 0, 'waiting': 1}, "
                "{'name': 'team-a', 'pods': 1, 'waiting': 1, 'granted': 300, 'used': 150, 'sm': 0.1}, "
                "{'name': 'team-b', 'pods': 1, 'waiting': 0, 'granted': 400}]}");
        assert_json(dashboard_pods(&view, &sees_a, NULL),
                "{'isCut': false, 'pods': [" ROW_A "], 'namespaces': ["
                "{'name': 'team-a', 'pods': 1, 'waiting': 1, 'granted': 300, 'used': 150, 'sm': 0.1}]}");
        assert_json(dashboard_pods(&view, &sees_a, "team-b"),
                "{'isCut': false, 'pods': [], 'namespaces': ["
                "{'name': 'team-a', 'pods': 1, 'waiting': 1, 'granted': 300, 'used': 150, 'sm': 0.1}]}");
}

static void test_a_namespace_is_idle_since_the_last_of_its_shares_is(void **state UNUSED)
{
        json_t *answer;

        view_add("b", PAGE_IDLE);
        assert_json(dashboard_pods(&view, &sees_all, "team-a"),
                "{'isCut': false, 'pods': [" ROW_IDLE("50") ", " ROW_IDLE(
                        "70") ", " ROW_UNUSED "], 'namespaces': [{'name': "
                              "'team-a', 'pods': 1, 'waiting': 0, 'granted': 1030, 'used': 0, 'sm': 0.0, 'isIdle': true, 'idleSince': 70}]}");
        view = (struct cluster_view){.version = 1, .nodes = view_nodes, .pods = view_pods, .is_complete = true};
        view_add("a", PAGE_A);
        view_add("b", PAGE_IDLE);
        answer = dashboard_pods(&view, &sees_a, "none");
        assert_json(json_incref(json_array_get(json_object_get(answer, "namespaces"), 0)),
                "{'name': 'team-a', 'pods': 2, 'waiting': 0, 'granted': 1330, 'used': 150, 'sm': 0.1}");
        json_decref(answer);
}

static void test_of_very_many_shares_the_first_are_written(void **state UNUSED)
{
        static struct report_share shares[DASHBOARD_PODS_MAX + 1];
        const struct report_unit unit = {.uuid = "GPU-c", .shares = shares, .n_shares = ARRAY_SIZE(shares)};
        const struct report_gpu gpu = {.uuid = "GPU-c", .units = &unit, .n_units = 1};
        const struct node_page page = {.gpus = &gpu, .n_gpus = 1};
        json_t *answer;

        for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
                shares[i] = report_share_unknown;
                shares[i].pod_namespace = "n";
                shares[i].pod = "p";
        }
        view_add("c", NULL)->page = &page;
        answer = dashboard_pods(&view, &sees_all, NULL);
        assert_int_equal(json_array_size(json_object_get(answer, "pods")), DASHBOARD_PODS_MAX);
        assert_true(json_is_true(json_object_get(answer, "isCut")));
        json_decref(answer);
}

static void test_why_a_pod_waits_names_the_pods_of_others_to_those_who_see_them(void **state UNUSED)
{
        const struct cluster_resource resource = {"nvidia.com/gpu.shared", 10, 10};
        const struct cluster_node_object object = {.is_ready = true, .resources = &resource, .n_resources = 1};
        json_t *pod = json_loads(
                quoted("{'metadata': {'namespace': 'team-a', 'name': 'later'}, 'spec': {'containers': [{'name': 'main', "
                       "'resources': {'limits': {'nvidia.com/gpu.shared': '4'}}}]}, 'status': {'phase': 'Pending'}}"),
                0, NULL);
        json_t *ret = json_object();

        view_add("a",
                "{'version': 1, 'node': 'a', 'gpus': [{'uuid': 'GPU-a', 'units': [{'uuid': 'GPU-a', 'resource': "
                "'nvidia.com/gpu.shared', 'sharing': 'mps', 'by': 'device-plugin', 'replicas': 10, 'healthy': true, "
                "'shares': [{'namespace': 'team-b', 'pod': 'serve', 'replicas': 8}]}]}]}")
                ->object = &object;
        dashboard_add_why(ret, &view, &sees_all, pod);
        assert_json(json_incref(ret),
                "{'why': {'sentence': 'team-a/later waits: it asks for 4 nvidia.com/gpu.shared; 1 node has it: on 1 too few "
                "replicas are free', 'todo': 'wait until a pod ends, or end one of those that have them', 'nodes': [{'names': "
                "'a', 'reason': '2 of 10 are free; taken by team-b/serve (8)'}]}}");
        dashboard_add_why(ret, &view, &sees_a, pod);
        assert_json(json_incref(ret),
                "{'why': {'sentence': 'team-a/later waits: it asks for 4 nvidia.com/gpu.shared; 1 node has it: on 1 too few "
                "replicas are free', 'todo': 'wait until a pod ends, or end one of those that have them', 'nodes': []}}");
        json_decref(ret);
        json_decref(pod);
}

/* ---- search ---- */

static const struct {
        const char *query;
        const struct dashboard_scope *scope;
        const char *found;
} searches[] = {
        {"", &sees_all, "{'nodes': [], 'gpus': [], 'pods': [], 'marks': {}, 'isCut': false}"},
        {"nothing", &sees_all, "{'nodes': [], 'gpus': [], 'pods': [], 'marks': {}, 'isCut': false}"},
        {"ODE-X", &sees_all, "{'nodes': ['node-x'], 'gpus': [], 'pods': [], 'marks': {}, 'isCut': false}"},
        {"nvidia l", &sees_all,
                "{'nodes': [], 'gpus': [{'node': 'node-x', 'uuid': 'GPU-a', 'index': '0', 'model': 'NVIDIA L4'}], "
                "'pods': [], 'marks': {}, 'isCut': false}"},
        {"gpu-a", &sees_all,
                "{'nodes': [], 'gpus': [{'node': 'node-x', 'uuid': 'GPU-a', 'index': '0', 'model': 'NVIDIA L4'}], "
                "'pods': [], 'marks': {}, 'isCut': false}"},
        {"team-b", &sees_all,
                "{'nodes': [], 'gpus': [], 'pods': [{'namespace': 'team-b', 'pod': 'serve', 'node': 'node-x', 'unit': "
                "'GPU-a'}], 'marks': {'GPU-a': [1]}, 'isCut': false}"},
        {"team-a/", &sees_all,
                "{'nodes': [], 'gpus': [], 'pods': [{'namespace': 'team-a', 'pod': 'later'}, {'namespace': 'team-a', "
                "'pod': 'train', 'node': 'node-x', 'unit': 'GPU-a'}], 'marks': {'GPU-a': [0]}, 'isCut': false}"},
        {"train/main", &sees_all,
                "{'nodes': [], 'gpus': [], 'pods': [{'namespace': 'team-a', 'pod': 'train', 'node': 'node-x', 'unit': "
                "'GPU-a'}], 'marks': {'GPU-a': [0]}, 'isCut': false}"},
        {"team-b", &sees_a, "{'nodes': [], 'gpus': [], 'pods': [], 'marks': {}, 'isCut': false}"},
};

static void test_nodes_gpus_and_pods_are_found_by_a_part_of_their_names(void **state UNUSED)
{
        view_add("node-x", PAGE_A);
        view_add("node-xcpu", NULL);
        view_wait_for("team-a", "later");
        for (size_t i = 0; i < ARRAY_SIZE(searches); i++)
                assert_json(dashboard_search(&view, searches[i].scope, searches[i].query), searches[i].found);
}

static void test_what_is_found_has_a_bound_and_all_of_it_is_marked(void **state UNUSED)
{
        struct report_share shares[DASHBOARD_FOUND_MAX + 7];
        struct report_unit unit = report_unit_unknown;
        struct report_gpu gpu = report_gpu_unknown;
        const struct node_page page = {.version = 1, .gpus = &gpu, .n_gpus = 1};
        json_t *answer;

        for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
                shares[i] = report_share_unknown;
                shares[i].pod_namespace = "team";
                shares[i].pod = "p";
        }
        unit.uuid = "GPU-a";
        unit.shares = shares;
        unit.n_shares = ARRAY_SIZE(shares);
        gpu.units = &unit;
        gpu.n_units = 1;
        view_add("n", NULL)->page = &page;
        answer = dashboard_search(&view, &sees_all, "team");
        assert_int_equal(json_array_size(json_object_get(answer, "pods")), DASHBOARD_FOUND_MAX);
        assert_int_equal(
                json_array_size(json_object_get(json_object_get(answer, "marks"), "GPU-a")), ARRAY_SIZE(shares));
        assert_true(json_is_true(json_object_get(answer, "isCut")));
        json_decref(answer);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_a_gpu_has_its_shares_and_what_happened_to_it, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(test_a_gpu_is_found_by_its_mig_devices, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_who_may_not_list_pods_there_sees_how_much_and_not_whose, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_pod_has_its_shares_on_all_nodes_and_why_it_waits, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(test_a_pod_has_the_events_that_name_it, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_node_has_what_kubernetes_and_its_agent_say, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_what_happened_is_told_newest_first_and_to_those_who_see_all, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(test_events_beyond_the_bound_are_cut, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_pods_have_a_line_for_each_share_and_namespaces_one, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_namespace_is_idle_since_the_last_of_its_shares_is, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_of_very_many_shares_the_first_are_written, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(test_why_a_pod_waits_names_the_pods_of_others_to_those_who_see_them,
                        view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_namespace_in_which_many_wait_hides_no_other_and_what_is_left_out_is_counted, view_set_up,
                        view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_nodes_gpus_and_pods_are_found_by_a_part_of_their_names, view_set_up, view_tear_down),
                cmocka_unit_test_setup_teardown(
                        test_what_is_found_has_a_bound_and_all_of_it_is_marked, view_set_up, view_tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
