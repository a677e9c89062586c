// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "node/status/labels_publisher.h"

static json_t *parse(const char *text)
{
        json_t *json = json_loads(text, 0, NULL);

        assert_non_null(json);
        return json;
}

/* Takes both over. */
static void assert_same(json_t *found, const char *expected)
{
        json_t *wanted = parse(expected);
        char *text = json_dumps(found, JSON_COMPACT | JSON_SORT_KEYS);

        if (!json_equal(found, wanted))
                fail_msg("found %s", text);
        free(text);
        json_decref(wanted);
        json_decref(found);
}

static void test_paths_escape_what_they_are_made_of(void **state UNUSED)
{
        _free_ char *collection = labels_feature_path("gpu-operator", NULL);
        _free_ char *object = labels_feature_path("a/b", "node-1");

        assert_string_equal(collection, "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu-operator/nodefeatures");
        assert_string_equal(
                object, "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/a%2Fb/nodefeatures/nvidia-features-for-node-1");
}

static void test_a_feature_is_made_and_of_an_old_one_all_else_is_kept(void **state UNUSED)
{
        json_t *labels = parse("{\"a\": \"1\"}");
        json_t *owners = parse("[{\"kind\": \"DaemonSet\"}]");
        json_t *none = json_array();
        json_t *fresh = json_object();
        json_t *old = parse("{\"metadata\": {\"uid\": \"u\", \"resourceVersion\": \"7\", \"labels\": {\"x\": \"y\"}, "
                            "\"ownerReferences\": [1]}, \"spec\": {\"labels\": {\"b\": \"2\"}, \"more\": 1}}");
        json_t *kept = json_deep_copy(old);

        labels_feature_set(fresh, "n1", labels, owners);
        assert_same(fresh,
                "{\"apiVersion\": \"nfd.k8s-sigs.io/v1alpha1\", \"kind\": \"NodeFeature\", \"metadata\": {\"name\": "
                "\"nvidia-features-for-n1\", \"labels\": {\"nfd.node.kubernetes.io/node-name\": \"n1\"}, "
                "\"ownerReferences\": [{\"kind\": \"DaemonSet\"}]}, \"spec\": {\"features\": {\"flags\": {}, "
                "\"attributes\": {}, \"instances\": {}}, \"labels\": {\"a\": \"1\"}}}");
        labels_feature_set(old, "n1", labels, none);
        assert_same(old,
                "{\"apiVersion\": \"nfd.k8s-sigs.io/v1alpha1\", \"kind\": \"NodeFeature\", \"metadata\": {\"uid\": \"u\", "
                "\"resourceVersion\": \"7\", \"name\": \"nvidia-features-for-n1\", \"labels\": "
                "{\"nfd.node.kubernetes.io/node-name\": \"n1\"}}, \"spec\": {\"features\": {\"flags\": {}, "
                "\"attributes\": {}, \"instances\": {}}, \"labels\": {\"a\": \"1\"}}}");
        labels_feature_set(kept, "n1", labels, NULL); /* the owners are not known */
        assert_int_equal(json_array_size(json_object_get(json_object_get(kept, "metadata"), "ownerReferences")), 1);
        json_decref(kept);
        json_decref(none);
        json_decref(owners);
        json_decref(labels);
}

static void test_the_owner_is_a_daemonset_that_controls_the_pod(void **state UNUSED)
{
        static const struct {
                const char *pod;
                const char *owners;
        } table[] = {
                {"{\"metadata\": {\"name\": \"p\", \"uid\": \"1\", \"ownerReferences\": [{\"kind\": \"Node\", \"controller\": "
                 "true}, {\"kind\": \"DaemonSet\", \"name\": \"d\", \"controller\": true}]}}",
                        "[{\"kind\": \"DaemonSet\", \"name\": \"d\", \"controller\": true}, {\"apiVersion\": \"v1\", \"kind\": "
                        "\"Pod\", \"name\": \"p\", \"uid\": \"1\"}]"},
                {"{\"metadata\": {\"name\": \"p\", \"uid\": \"1\", \"ownerReferences\": [{\"kind\": \"DaemonSet\", "
                 "\"controller\": false}, {\"kind\": \"DaemonSet\"}, {\"kind\": \"Job\", \"controller\": true}]}}",
                        "[]"},
                {"{\"metadata\": {\"name\": \"p\", \"uid\": \"1\"}}", "[]"},
                {"{\"metadata\": {\"ownerReferences\": [7, {\"kind\": \"DaemonSet\", \"controller\": true}]}}", "[]"},
                {"{\"metadata\": 7}", "[]"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                json_t *pod = parse(table[i].pod);

                assert_same(labels_feature_owners(pod), table[i].owners);
                json_decref(pod);
        }
}

static void test_ours_is_what_has_a_label_of_ours(void **state UNUSED)
{
        static const struct {
                const char *object;
                bool is_ours;
        } table[] = {
                {"{\"spec\": {\"labels\": {\"nvidia.com/gpu.count\": \"1\", \"warpshare.dev/gpu.most\": \"1\"}}}",
                        true},
                {"{\"spec\": {\"labels\": {\"nvidia.com/gpu.count\": \"1\"}}}", false},
                {"{\"spec\": {\"labels\": 7}}", false},
                {"{}", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                json_t *object = parse(table[i].object);

                assert_int_equal(labels_feature_is_ours(object), table[i].is_ours);
                json_decref(object);
        }
}

static void test_a_node_is_ours_while_our_manager_has_fields(void **state UNUSED)
{
        static const struct {
                const char *node;
                bool is_ours;
        } table[] = {
                {"{\"metadata\": {\"managedFields\": [{\"manager\": \"kubelet\", \"fieldsV1\": {\"a\": {}}}, {\"manager\": "
                 "\"warpshare-labels\", \"fieldsV1\": {\"f:metadata\": {}}}]}}",
                        true},
                {"{\"metadata\": {\"managedFields\": [{\"manager\": \"warpshare-labels\", \"fieldsV1\": {}}]}}", false},
                {"{\"metadata\": {\"managedFields\": [{\"manager\": \"kubelet\", \"fieldsV1\": {\"a\": {}}}, 7]}}",
                        false},
                {"{\"metadata\": {}}", false},
        };
        json_t *labels = parse("{\"a\": \"1\"}");

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                json_t *node = parse(table[i].node);

                assert_int_equal(labels_node_is_ours(node), table[i].is_ours);
                json_decref(node);
        }
        assert_same(labels_node_object("n1", labels),
                "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\", \"labels\": {\"a\": \"1\"}}}");
        assert_same(labels_node_object("n1", NULL),
                "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n1\"}}");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_paths_escape_what_they_are_made_of),
                cmocka_unit_test(test_a_feature_is_made_and_of_an_old_one_all_else_is_kept),
                cmocka_unit_test(test_the_owner_is_a_daemonset_that_controls_the_pod),
                cmocka_unit_test(test_ours_is_what_has_a_label_of_ours),
                cmocka_unit_test(test_a_node_is_ours_while_our_manager_has_fields),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
