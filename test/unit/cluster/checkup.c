// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "cluster/checkup.h"

#define NOW 1795687200 /* 2026-11-26T10:00:00Z */

static json_t *parse(const char *text)
{
        json_error_t problem;
        json_t *object = json_loads(text, 0, &problem);

        if (!object)
                fail_msg("%s: line %d column %d: %s", problem.text, problem.line, problem.column, text);
        return object;
}

struct case_of_node {
        const char *object; /* NULL: none */
        const char *page;   /* NULL: the agent is silent */
        struct cluster_agent agent;
        bool has_no_agent;
        const char *health;
        unsigned int health_status;
        const char *events;
        const char *verdict; /* of the finding |found| of |check|; NULL: there is none of |check| */
        const char *check;
        const char *found;
};

static const json_t *find(const json_t *findings, const char *check, const char *found)
{
        const json_t *finding;
        size_t i;

        json_array_foreach(findings, i, finding)
        {
                if (strcmp(json_string_value(json_object_get(finding, "check")), check) == 0 &&
                        (!found || strcmp(json_string_value(json_object_get(finding, "found")), found) == 0))
                        return finding;
        }
        return NULL;
}

static void check(const struct case_of_node *of)
{
        struct arena arena = ARENA_INIT;
        struct cluster_agent agent = of->agent;
        struct cluster_node node = {.name = "n1", .state = of->page ? CLUSTER_AGENT_ANSWERS : CLUSTER_AGENT_SILENT};
        const struct cluster_view view = {0};
        struct checkup_input input = {.view = &view, .node = &node, .now = NOW};
        json_t *object = of->object ? parse(of->object) : NULL;
        json_t *events = of->events ? parse(of->events) : NULL;
        const json_t *finding;
        struct node_page page;
        json_t *findings;
        struct error err;

        agent.namespace = "w";
        agent.pod = "agent";
        if (!of->has_no_agent)
                node.agent = &agent;
        if (object)
                node.object = cluster_node_read(object, &arena);
        if (of->page) {
                assert_ok(node_page_read(&page, &arena, of->page, strlen(of->page), &err), &err);
                node.page = &page;
        } else {
                node.reason = "it does not answer";
        }
        input.health = of->health;
        input.health_status = of->health_status;
        input.events = events;
        findings = checkup_make(&input);
        finding = find(findings, of->check, of->verdict ? of->found : NULL);
        if (!finding != !of->verdict) {
                char *text = json_dumps(findings, JSON_INDENT(1));

                fail_msg("%s: %s\n%s", of->check, of->found ? of->found : "nothing", text);
        }
        if (finding)
                assert_string_equal(json_string_value(json_object_get(finding, "verdict")), of->verdict);
        json_decref(findings);
        json_decref(object);
        json_decref(events);
        arena_done(&arena);
}

#define OBJECT(more)                                                                                                   \
        "{\"metadata\": {}, \"status\": {\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}" more "]"
#define GPUS(capacity, allocatable)                                                                                    \
        OBJECT("")                                                                                                     \
        ", \"capacity\": {\"nvidia.com/gpu\": \"" capacity "\"}, \"allocatable\": {\"nvidia.com/gpu\": \"" allocatable \
        "\"}}}"
#define PAGE(time, units)                                                                                              \
        "{\"version\": 1, \"time\": " time ", \"gpus\": [{\"uuid\": \"GPU-1\", \"index\": \"0\", \"units\": [" units   \
        "]}]}"
#define UNIT(more)                                                                                                     \
        "{\"uuid\": \"GPU-1\", \"index\": \"0\", \"resource\": \"nvidia.com/gpu\", \"by\": \"device-plugin\"" more "}"

static void test_each_thing_that_can_be_wrong_is_a_finding(void **state UNUSED)
{
        static const struct case_of_node table[] = {
                {.verdict = "wrong", .check = "node", .found = "there is no Node object, or it may not be read"},
                {.object = OBJECT("") "}}",
                        .verdict = "ok",
                        .check = "node",
                        .found = "is ready; kubelet of an unknown version"},
                {.object = "{\"status\": {}}",
                        .verdict = "wrong",
                        .check = "node",
                        .found = "is not ready: it has no condition Ready"},
                {.object = OBJECT(", {\"type\": \"DiskPressure\", \"status\": \"True\", \"reason\": \"Full\"}") "}}",
                        .verdict = "note",
                        .check = "conditions",
                        .found = "DiskPressure is True: Full"},
                {.object = OBJECT(", {\"type\": \"DiskPressure\", \"status\": \"False\"}") "}}", .check = "conditions"},
                {.object = OBJECT("") "}}",
                        .has_no_agent = true,
                        .verdict = "wrong",
                        .check = "agent",
                        .found = "no agent is there"},
                {.object = OBJECT("") "}}",
                        .verdict = "wrong",
                        .check = "agent",
                        .found = "w/agent: it does not answer"},
                {.page = PAGE("1795687199", ""),
                        .verdict = "note",
                        .check = "agent",
                        .found = "w/agent answers, and is not ready"},
                {.page = PAGE("1795687199", ""),
                        .agent = {.restarts = 2},
                        .verdict = "note",
                        .check = "agent",
                        .found = "its container was restarted 2 times"},
                {.health = "ok\n",
                        .health_status = 200,
                        .verdict = "ok",
                        .check = "health",
                        .found = "nothing is wrong, says the agent"},
                {.health = "bad\nmore\n", .health_status = 503, .verdict = "wrong", .check = "health", .found = "bad"},
                {.health = "\033[2Jwell\n",
                        .health_status = 503,
                        .verdict = "wrong",
                        .check = "health",
                        .found = "?[2Jwell"},
                {.check = "health"},
                {.page = "{\"version\": 1, \"gpus\": []}",
                        .verdict = "wrong",
                        .check = "gpus",
                        .found = "the agent knows of no GPU"},
                {.page = PAGE("1795687000", UNIT("")),
                        .verdict = "note",
                        .check = "gpus",
                        .found = "the newest reading is 200 s old"},
                {.page = PAGE("1795687199", UNIT(", \"healthy\": false")),
                        .verdict = "wrong",
                        .check = "gpus",
                        .found = "GPU 0 (GPU-1) is unhealthy: the agent does not say why"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check(&table[i]);
}

static void test_what_the_agent_offers_is_compared_with_what_kubelet_counts(void **state UNUSED)
{
        static const struct case_of_node table[] = {
                {.object = GPUS("10", "8"),
                        .page = PAGE("1795687199", UNIT(", \"replicas\": 10, \"reserved\": 2")),
                        .verdict = "ok",
                        .check = "resources",
                        .found = "nvidia.com/gpu: kubelet counts 8 of 10"},
                {.object = GPUS("10", "7"),
                        .page = PAGE("1795687199", UNIT(", \"replicas\": 10, \"reserved\": 2")),
                        .verdict = "note",
                        .check = "resources",
                        .found = "nvidia.com/gpu: the agent has 10, 2 of them reserved, and kubelet counts 7"},
                {.object = GPUS("10", "0"),
                        .page = PAGE("1795687199", UNIT(", \"replicas\": 10")),
                        .verdict = "wrong",
                        .check = "resources",
                        .found = "nvidia.com/gpu: the agent has 10, and kubelet counts none"},
                {.object = GPUS("10", "0"), /* which is as it should be */
                        .page = PAGE("1795687199", UNIT(", \"replicas\": 10, \"healthy\": false")),
                        .verdict = "ok",
                        .check = "resources",
                        .found = "nvidia.com/gpu: kubelet counts 0 of 10"},
                {.object = GPUS("10", "6"),
                        .page = PAGE("1795687199", UNIT(", \"replicas\": 10, \"reserved\": 4")),
                        .verdict = "note",
                        .check = "resources",
                        .found = "nvidia.com/gpu: 4 of 10 replicas are reserved, more than a third"},
                {.object = GPUS("10", "6"), /* of one that drains, what is granted counts */
                        .page = PAGE(
                                "1795687199", UNIT(", \"replicas\": 20, \"granted\": 3, \"draining\": true") ", " UNIT(
                                                      ", \"replicas\": 5")),
                        .verdict = "ok",
                        .check = "resources",
                        .found = "nvidia.com/gpu: kubelet counts 6 of 8"},
                {.object = GPUS("10", "10"), .page = PAGE("1795687199", ""), .check = "resources"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check(&table[i]);
}

static void test_the_configuration_in_force_is_compared_with_the_label(void **state UNUSED)
{
        static const char labelled[] =
                "{\"metadata\": {\"labels\": {\"nvidia.com/device-plugin.config\": \"large\"}}, \"status\": {}}";
        static const struct case_of_node table[] = {
                {.object = labelled,
                        .page = "{\"version\": 1, \"gpus\": [], \"configuration\": \"large\"}",
                        .verdict = "ok",
                        .check = "configuration",
                        .found = "'large' is in force"},
                {.object = labelled,
                        .page = "{\"version\": 1, \"gpus\": [], \"configuration\": \"small\"}",
                        .verdict = "wrong",
                        .check = "configuration",
                        .found = "the node's label names 'large', in force is 'small'"},
                {.object = labelled,
                        .page = "{\"version\": 1, \"gpus\": []}",
                        .verdict = "wrong",
                        .check = "configuration",
                        .found = "the node's label names 'large', in force is 'none by name'"},
                {.object = "{}", .page = "{\"version\": 1, \"gpus\": []}", .check = "configuration"},
                {.object = labelled, .check = "configuration"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check(&table[i]);
}

#define EVENT(time, source)                                                                                            \
        "[{\"type\": \"Warning\", \"reason\": \"GPUUnhealthy\", \"message\": \"Xid 79\", \"lastTimestamp\": \"" time   \
        "\", \"source\": {\"component\": \"" source "\"}}]"

static void test_warnings_of_the_last_hour_are_shown_from_where_they_are(void **state UNUSED)
{
        static const struct case_of_node table[] = {
                {.events = EVENT("2026-11-26T09:30:00Z", "warpshare"),
                        .verdict = "note",
                        .check = "events",
                        .found = "30 min ago, GPUUnhealthy: Xid 79"},
                {.events = EVENT("2026-11-26T08:30:00Z", "warpshare"), .check = "events"},
                {.events = EVENT("2026-11-26T09:30:00Z", "kubelet"), .check = "events"},
                {.page = "{\"version\": 1, \"gpus\": [], \"events\": [{\"time\": 1795685400, \"kind\": \"Warning\", \"reason\": \"X\", \"text\": \"y\"}]}",
                        .verdict = "note",
                        .check = "events",
                        .found = "30 min ago, X: y"},
                {.page = "{\"version\": 1, \"gpus\": [], \"events\": [{\"time\": 1795685400, \"kind\": \"Normal\", \"reason\": \"X\", \"text\": \"y\"}]}",
                        .check = "events"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                check(&table[i]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_thing_that_can_be_wrong_is_a_finding),
                cmocka_unit_test(test_what_the_agent_offers_is_compared_with_what_kubelet_counts),
                cmocka_unit_test(test_the_configuration_in_force_is_compared_with_the_label),
                cmocka_unit_test(test_warnings_of_the_last_hour_are_shown_from_where_they_are),
        };

        return cmocka_run_group_tests_name("checkup", tests, NULL, NULL);
}
