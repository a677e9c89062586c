// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "cluster/why_finding.h"

static json_t *parse(const char *text)
{
        json_error_t problem;
        json_t *object = json_loads(text, 0, &problem);

        if (!object)
                fail_msg("%s: %s", problem.text, text);
        return object;
}

static const struct cluster_label labels[] = {{"zone", "a"}, {"cores", "8"}};
static const struct cluster_taint taints[] = {
        {"soft", "", "PreferNoSchedule"}, {"gpu", "yes", "NoSchedule"}, {"down", "", "NoExecute"}};
static const struct cluster_node_object object = {
        .labels = labels, .n_labels = ARRAY_SIZE(labels), .taints = taints, .n_taints = ARRAY_SIZE(taints)};
static const struct cluster_node node = {.name = "n1", .object = &object};

static void test_a_pod_needs_a_toleration_for_each_taint(void **state UNUSED)
{
        static const struct {
                const char *tolerations;
                const char *taint; /* the first that it does not tolerate */
        } table[] = {
                {"[]", "gpu"},
                {"[{\"operator\": \"Exists\"}]", NULL},
                {"[{\"key\": \"gpu\", \"operator\": \"Exists\"}]", "down"},
                {"[{\"key\": \"gpu\", \"value\": \"yes\"}, {\"key\": \"down\"}]", NULL},
                {"[{\"key\": \"gpu\", \"operator\": \"Equal\", \"value\": \"no\"}, {\"key\": \"down\"}]", "gpu"},
                {"[{\"key\": \"gpu\", \"operator\": \"Exists\", \"effect\": \"NoExecute\"}, {\"key\": \"down\"}]",
                        "gpu"},
                {"[{\"operator\": \"Exists\", \"effect\": \"NoSchedule\"}]", "down"},
                {"[{\"value\": \"yes\"}]", "gpu"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = xasprintf("{\"spec\": {\"tolerations\": %s}}", table[i].tolerations);
                json_t *pod = parse(text);
                const struct cluster_taint *taint = pod_fit_taint(pod, &node);

                if (table[i].taint)
                        assert_string_equal(taint->key, table[i].taint);
                else
                        assert_null(taint);
                json_decref(pod);
        }
}

#define TERMS(terms)                                                                                                            \
        "\"affinity\": {\"nodeAffinity\": {\"requiredDuringSchedulingIgnoredDuringExecution\": {\"nodeSelectorTerms\": [" terms \
        "]}}}"
#define LABEL(key, how, values)                                                                                        \
        "{\"matchExpressions\": [{\"key\": \"" key "\", \"operator\": \"" how "\", \"values\": [" values "]}]}"

static void test_a_pod_selects_nodes_by_labels(void **state UNUSED)
{
        static const struct {
                const char *spec;
                bool is_selected;
        } table[] = {
                {"", true},
                {"\"nodeSelector\": {\"zone\": \"a\"}", true},
                {"\"nodeSelector\": {\"zone\": \"a\", \"x\": \"y\"}", false},
                {TERMS(LABEL("zone", "In", "\"b\", \"a\"")), true},
                {TERMS(LABEL("zone", "In", "\"b\"")), false},
                {TERMS(LABEL("zone", "NotIn", "\"b\"")), true},
                {TERMS(LABEL("none", "NotIn", "\"b\"")), true},
                {TERMS(LABEL("zone", "Exists", "")), true},
                {TERMS(LABEL("none", "Exists", "")), false},
                {TERMS(LABEL("none", "DoesNotExist", "")), true},
                {TERMS(LABEL("cores", "Gt", "\"7\"")), true},
                {TERMS(LABEL("cores", "Gt", "\"8\"")), false},
                {TERMS(LABEL("cores", "Lt", "\"9\"")), true},
                {TERMS(LABEL("zone", "Gt", "\"9\"")), false},
                {TERMS(LABEL("zone", "In", "\"b\"") ", " LABEL("cores", "Exists", "")), true}, /* one of them */
                {TERMS("{}"), false},
                {TERMS("{\"matchFields\": [{\"key\": \"metadata.name\", \"operator\": \"In\", \"values\": [\"n1\"]}]}"),
                        true},
                {TERMS("{\"matchFields\": [{\"key\": \"metadata.name\", \"operator\": \"In\", \"values\": [\"n2\"]}]}"),
                        false},
                {"\"nodeSelector\": {\"zone\": \"a\"}, " TERMS(LABEL("zone", "In", "\"b\"")), false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = xasprintf("{\"spec\": {%s}}", table[i].spec);
                json_t *pod = parse(text);

                if (pod_fit_is_selected(pod, &node) != table[i].is_selected)
                        fail_msg("%s", table[i].spec);
                json_decref(pod);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_pod_needs_a_toleration_for_each_taint),
                cmocka_unit_test(test_a_pod_selects_nodes_by_labels),
        };

        return cmocka_run_group_tests_name("pod_fit", tests, NULL, NULL);
}
