// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "cluster/pod.h"

static json_t *parse(const char *text)
{
        json_error_t problem;
        json_t *object = json_loads(text, 0, &problem);

        if (!object)
                fail_msg("%s: line %d column %d", problem.text, problem.line, problem.column);
        return object;
}

static const struct cluster_pod *read_pod(const char *text, struct arena *arena)
{
        json_t *object = parse(text);
        const struct cluster_pod *pod = cluster_pod_read(object, arena);

        json_decref(object);
        return pod;
}

#define ASKS(n) "{\"resources\": {\"limits\": {\"nvidia.com/gpu\": \"" n "\"}}}"
#define ASKS_ALWAYS(n) "{\"restartPolicy\": \"Always\", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"" n "\"}}}"

static void test_a_pod_asks_for_what_the_scheduler_counts(void **state UNUSED)
{
        static const struct {
                const char *init;
                const char *containers;
                unsigned int count;
                unsigned int largest;
        } table[] = {
                {"", ASKS("3"), 3, 3},
                {"", ASKS("3") ", " ASKS("2"), 5, 3},
                {"", "{}, " ASKS("2"), 2, 2},
                {ASKS("4"), ASKS("3"), 4, 4}, /* one after the other */
                {ASKS("4") ", " ASKS("1"), ASKS("3"), 4, 4},
                {ASKS_ALWAYS("2"), ASKS("3"), 5, 3},                /* together */
                {ASKS_ALWAYS("2") ", " ASKS("4"), ASKS("3"), 6, 4}, /* the second while the first stays */
                {ASKS("4") ", " ASKS_ALWAYS("2"), ASKS("1"), 4, 4},
                {"", "{\"resources\": {\"requests\": {\"nvidia.com/gpu\": \"2\", \"cpu\": \"1\"}}}", 2, 2},
                {"", "{\"resources\": {\"limits\": {\"nvidia.com/gpu\": \"1k\"}}}", 1000, 1000},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                _free_ char *text = xasprintf("{\"metadata\": {\"name\": \"p\"}, \"spec\": {\"initContainers\": [%s], "
                                              "\"containers\": [%s]}}",
                        table[i].init, table[i].containers);
                const struct cluster_pod *pod = read_pod(text, &arena);

                assert_int_equal(pod->n_requests, 1);
                assert_string_equal(pod->requests[0].resource, "nvidia.com/gpu");
                assert_int_equal(pod->requests[0].count, table[i].count);
                assert_int_equal(pod->requests[0].largest, table[i].largest);
        }
}

static void test_a_pod_without_devices_is_none_of_ours(void **state UNUSED)
{
        static const char *const texts[] = {"{}", "{\"metadata\": {\"name\": \"p\"}, \"spec\": {\"containers\": [{}]}}",
                "{\"spec\": {\"containers\": [{\"resources\": {\"limits\": {\"cpu\": \"1\"}}}]}}",
                "{\"spec\": {\"containers\": [" ASKS("0") "]}}", "{\"spec\": {\"containers\": [" ASKS("x") "]}}",
                "{\"spec\": {\"containers\": {}, \"resourceClaims\": 1}}"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;

                assert_null(read_pod(texts[i], &arena));
        }
}

static void test_a_pod_knows_its_claims_and_who_made_it(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct cluster_pod *pod = read_pod(
                "{\"metadata\": {\"namespace\": \"a\", \"name\": \"p\", \"uid\": \"u\", \"deletionTimestamp\": \"now\","
                "   \"ownerReferences\": [{\"kind\": \"X\", \"name\": \"y\"},"
                "     {\"kind\": \"Job\", \"name\": \"train\", \"controller\": true}]},"
                " \"spec\": {\"schedulingGates\": [{\"name\": \"g\"}], \"resourceClaims\": ["
                "   {\"name\": \"gpu\", \"resourceClaimTemplateName\": \"t\"}, {\"name\": \"own\", \"resourceClaimName\": \"mine\"},"
                "   {\"name\": \"late\", \"resourceClaimTemplateName\": \"t\"}]},"
                " \"status\": {\"phase\": \"Pending\", \"resourceClaimStatuses\": ["
                "   {\"name\": \"gpu\", \"resourceClaimName\": \"p-gpu-x7d\"}],"
                "   \"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": \"Unschedulable\","
                "     \"message\": \"0/3 nodes are available\"}]}}",
                &arena);

        assert_int_equal(pod->n_claims, 3);
        assert_string_equal(pod->claims[0].name, "gpu");
        assert_string_equal(pod->claims[0].object, "p-gpu-x7d");
        assert_string_equal(pod->claims[1].object, "mine");
        assert_null(pod->claims[2].object);
        assert_string_equal(pod->owner, "Job/train");
        assert_true(pod->is_gated);
        assert_true(pod->is_deleted);
        assert_null(pod->node);
        assert_string_equal(pod->reason, "Unschedulable");
        assert_string_equal(pod->message, "0/3 nodes are available");
}

static void test_only_pods_that_wait_or_were_refused_have_trouble(void **state UNUSED)
{
        static const struct {
                const char *phase;
                const char *reason;
                bool has_trouble;
                bool is_refused;
        } table[] = {
                {"Pending", NULL, true, false},
                {"Running", NULL, false, false},
                {"Failed", NULL, false, false}, /* its program failed */
                {"Failed", "Evicted", false, false},
                {"Failed", "UnexpectedAdmissionError", true, true},
                {"Failed", "OutOfnvidia.com/gpu", true, true},
                {"Failed", "TopologyAffinityError", true, true},
                {"Pending", "UnexpectedAdmissionError", true, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct cluster_pod pod = {.phase = table[i].phase, .reason = table[i].reason};

                assert_int_equal(cluster_pod_has_trouble(&pod), table[i].has_trouble);
                assert_int_equal(cluster_pod_is_refused(&pod), table[i].is_refused);
        }
}

#define AGENT(spec, status)                                                                                            \
        "{\"metadata\": {\"namespace\": \"gpu\", \"name\": \"agent-x\", \"creationTimestamp\": "                       \
        "\"2026-11-26T10:00:00Z\"}, \"spec\": {" spec "}, \"status\": {" status "}}"
#define PORT                                                                                                                  \
        "\"nodeName\": \"n1\", \"containers\": [{\"name\": \"other\"}, {\"name\": \"agent\", \"image\": \"i:1\", \"ports\": " \
        "[{\"name\": \"x\", \"containerPort\": 1}, {\"name\": \"metrics\", \"containerPort\": 9400}]"
#define RUNS                                                                                                           \
        "\"phase\": \"Running\", \"containerStatuses\": [{\"name\": \"agent\", \"ready\": true, \"restartCount\": 2, \"state\": {\"running\": {}}}]"
#define WAITS                                                                                                          \
        "\"phase\": \"Pending\", \"containerStatuses\": [{\"name\": \"agent\", \"state\": {\"waiting\": {\"reason\": \"ImagePullBackOff\"}}}]"

static void test_an_agent_is_asked_at_the_port_of_its_pages(void **state UNUSED)
{
        static const struct {
                const char *text;
                unsigned int port;
                bool is_tls;
                bool is_ready;
                const char *trouble;
        } table[] = {
                {AGENT(PORT "}]", RUNS), 9400, false, true, NULL},
                {AGENT(PORT ", \"readinessProbe\": {\"httpGet\": {\"scheme\": \"HTTPS\"}}}]", RUNS), 9400, true, true,
                        NULL},
                {AGENT(PORT "}]", WAITS), 9400, false, false, "its container waits: ImagePullBackOff"},
                {AGENT(PORT "}]", "\"phase\": \"Pending\""), 9400, false, false, "its pod is Pending"},
                {AGENT(PORT "}]", "\"phase\": \"Failed\", \"reason\": \"Evicted\""), 9400, false, false,
                        "its pod is Failed: Evicted"},
                {AGENT("\"nodeName\": \"n1\", \"containers\": [{\"name\": \"agent\"}]", RUNS), 0, false, true,
                        "its pod has no port named metrics: metrics are switched off"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                json_t *object = parse(table[i].text);
                const struct cluster_agent *agent = cluster_agent_read(object, &arena);

                json_decref(object);
                assert_string_equal(agent->node, "n1");
                assert_string_equal(agent->namespace, "gpu");
                assert_string_equal(agent->pod, "agent-x");
                assert_int_equal(agent->port, table[i].port);
                assert_int_equal(agent->is_tls, table[i].is_tls);
                assert_int_equal(agent->is_ready, table[i].is_ready);
                if (table[i].trouble)
                        assert_string_equal(agent->trouble, table[i].trouble);
                else
                        assert_null(agent->trouble);
        }
}

static void test_an_agent_that_is_on_no_node_or_ends_is_none(void **state UNUSED)
{
        static const char *const texts[] = {"{}", AGENT("\"containers\": []", RUNS),
                "{\"metadata\": {\"name\": \"a\", \"deletionTimestamp\": \"2026-11-26T10:00:00Z\"}, \"spec\": {\"nodeName\": \"n1\"}}"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                json_t *object = parse(texts[i]);

                assert_null(cluster_agent_read(object, &arena));
                json_decref(object);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_pod_asks_for_what_the_scheduler_counts),
                cmocka_unit_test(test_a_pod_without_devices_is_none_of_ours),
                cmocka_unit_test(test_a_pod_knows_its_claims_and_who_made_it),
                cmocka_unit_test(test_only_pods_that_wait_or_were_refused_have_trouble),
                cmocka_unit_test(test_an_agent_is_asked_at_the_port_of_its_pages),
                cmocka_unit_test(test_an_agent_that_is_on_no_node_or_ends_is_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
