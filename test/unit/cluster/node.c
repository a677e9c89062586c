// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "cluster/node.h"

static struct cluster_node read_node(const char *text, struct arena *arena)
{
        json_error_t problem;
        json_t *object = json_loads(text, 0, &problem);
        struct cluster_node node = {.name = "n1"};

        if (!object)
                fail_msg("%s: line %d", problem.text, problem.line);
        node.object = cluster_node_read(object, arena);
        json_decref(object);
        return node;
}

static void test_a_node_has_what_its_object_says(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct cluster_node node = read_node(
                "{\"metadata\": {\"uid\": \"u1\", \"creationTimestamp\": \"2026-11-26T10:00:00Z\", \"labels\": {\"a/b\": \"c\"}},"
                " \"spec\": {\"unschedulable\": true, \"taints\": [{\"key\": \"k\", \"effect\": \"NoSchedule\"}]},"
                " \"status\": {\"capacity\": {\"cpu\": \"8\", \"hugepages-2Mi\": \"0\", \"nvidia.com/gpu\": \"1k\","
                "   \"amd.com/gpu\": \"2\"}, \"allocatable\": {\"cpu\": \"8\", \"nvidia.com/gpu\": \"7\"},"
                "   \"nodeInfo\": {\"kubeletVersion\": \"v1.36.0\"},"
                "   \"addresses\": [{\"type\": \"Hostname\", \"address\": \"h\"}, {\"type\": \"InternalIP\", \"address\": \"10.0.0.1\"}],"
                "   \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\", \"reason\": \"KubeletReady\","
                "     \"message\": \"kubelet is posting\\nready status\", \"lastTransitionTime\": \"2026-11-26T10:00:01Z\"}]}}",
                &arena);
        const struct cluster_resource *gpus = cluster_node_resource(&node, "nvidia.com/gpu");
        const struct cluster_condition *ready = cluster_node_condition(&node, "Ready");

        assert_true(node.object->is_ready);
        assert_true(node.object->is_cordoned);
        assert_string_equal(node.object->uid, "u1");
        assert_string_equal(node.object->kubelet, "v1.36.0");
        assert_string_equal(node.object->address, "10.0.0.1");
        assert_int_equal(node.object->created, 1795687200);
        assert_string_equal(cluster_node_label(&node, "a/b"), "c");
        assert_null(cluster_node_label(&node, "a"));
        assert_int_equal(node.object->n_taints, 1);
        assert_string_equal(node.object->taints[0].key, "k");
        assert_string_equal(node.object->taints[0].value, "");
        assert_int_equal(node.object->n_resources, 2); /* not cpu and memory */
        assert_string_equal(node.object->resources[0].name, "amd.com/gpu");
        assert_int_equal(gpus->capacity, 1000);
        assert_int_equal(gpus->allocatable, 7);
        assert_string_equal(ready->message, "kubelet is posting ready status");
        assert_int_equal(ready->since, 1795687201);
}

static void test_what_is_missing_or_of_a_wrong_type_is_empty(void **state UNUSED)
{
        static const char *const texts[] = {"{}", "{\"metadata\": 1, \"spec\": [], \"status\": \"x\"}",
                "{\"metadata\": {\"uid\": 1, \"labels\": [1], \"creationTimestamp\": 5},"
                " \"spec\": {\"unschedulable\": \"yes\", \"taints\": {}},"
                " \"status\": {\"capacity\": [], \"addresses\": 1, \"conditions\": {}, \"nodeInfo\": []}}"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                const struct cluster_node node = read_node(texts[i], &arena);

                assert_false(node.object->is_ready);
                assert_false(node.object->is_cordoned);
                assert_null(node.object->uid);
                assert_null(node.object->address);
                assert_int_equal(node.object->created, 0);
                assert_int_equal(node.object->n_labels + node.object->n_taints + node.object->n_conditions +
                                         node.object->n_resources,
                        0);
        }
}

static void test_no_node_makes_more_than_its_bound(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        json_t *object = json_pack("{s:{s:{}}, s:{s:{}, s:[]}, s:{s:[]}}", "metadata", "labels", "status", "capacity",
                "conditions", "spec", "taints");
        json_t *labels = json_object_get(json_object_get(object, "metadata"), "labels");
        json_t *capacity = json_object_get(json_object_get(object, "status"), "capacity");
        json_t *conditions = json_object_get(json_object_get(object, "status"), "conditions");
        json_t *taints = json_object_get(json_object_get(object, "spec"), "taints");
        const struct cluster_node_object *node;
        _free_ char *longest = xcalloc(2 * CLUSTER_TEXT + 1, 1);

        memset(longest, 'x', 2 * CLUSTER_TEXT);
        for (unsigned int i = 0; i < 2000; i++) {
                _free_ char *key = xasprintf("example.com/%u", i);

                json_object_set_new(labels, key, json_string(longest));
                json_object_set_new(capacity, key, json_string("99999999999999"));
                json_array_append_new(conditions, json_pack("{s:s}", "type", key));
                json_array_append_new(taints, json_pack("{s:s}", "key", key));
        }
        node = cluster_node_read(object, &arena);
        json_decref(object);
        assert_int_equal(node->n_labels, CLUSTER_LABELS);
        assert_int_equal(strlen(node->labels[0].value), CLUSTER_TEXT);
        assert_int_equal(node->n_resources, CLUSTER_RESOURCES);
        assert_int_equal(node->resources[0].capacity, UINT32_MAX);
        assert_int_equal(node->n_conditions, CLUSTER_CONDITIONS);
        assert_int_equal(node->n_taints, CLUSTER_TAINTS);
}

static void test_texts_are_cut_between_characters(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = xcalloc(CLUSTER_TEXT + 3, 1);

        memset(text, 'x', CLUSTER_TEXT - 1);
        strcpy(text + CLUSTER_TEXT - 1, "é");
        assert_int_equal(strlen(read_cut(&arena, text)), CLUSTER_TEXT - 1);
        assert_string_equal(read_cut(&arena, "a\033[31mb\177"), "a?[31mb?");
        assert_string_equal(read_cut(&arena, "a\xc2\x9b"
                                             "31mb"),
                "a?31mb"); /* the same to terminals that know C1 */
        assert_string_equal(read_cut(&arena, "0/1 nodes\nare\xe2\x80\xae ydaer"), "0/1 nodes are? ydaer");
        assert_null(read_cut(&arena, NULL));
}

static void test_only_resources_with_a_foreign_domain_count_devices(void **state UNUSED)
{
        static const struct {
                const char *name;
                bool is_one;
        } table[] = {
                {"nvidia.com/gpu", true},
                {"example.io/x", true},
                {"notkubernetes.io/x", true},
                {"cpu", false},
                {"hugepages-2Mi", false},
                {"kubernetes.io/batch-cpu", false},
                {"node.kubernetes.io/x", false},
                {"deviceclass.resource.kubernetes.io/gpu", true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_int_equal(read_is_device_resource(table[i].name), table[i].is_one);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_node_has_what_its_object_says),
                cmocka_unit_test(test_what_is_missing_or_of_a_wrong_type_is_empty),
                cmocka_unit_test(test_no_node_makes_more_than_its_bound),
                cmocka_unit_test(test_texts_are_cut_between_characters),
                cmocka_unit_test(test_only_resources_with_a_foreign_domain_count_devices),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
