// SPDX-License-Identifier: Apache-2.0
/* The messages of scheduler and kubelet are those of Kubernetes 1.36. */
#include "unit.h"

#include <string.h>

#include "cluster/why.h"

static json_t *parse(const char *text)
{
        json_error_t problem;
        json_t *object = json_loads(text, 0, &problem);

        if (!object)
                fail_msg("%s: line %d column %d: %s", problem.text, problem.line, problem.column, text);
        return object;
}

/* ---- a cluster, from texts ---- */

struct world_node {
        const char *name;
        const char *object; /* NULL: none */
        const char *page;   /* NULL: the agent is silent */
};

#define MOST_NODES 4

struct world {
        struct arena arena;
        struct cluster_node nodes[MOST_NODES];
        const struct cluster_node *list[MOST_NODES];
        struct node_page pages[MOST_NODES];
        struct cluster_view view;
};

static void add_node(struct world *world, const struct world_node *from)
{
        struct cluster_node *node = &world->nodes[world->view.n_nodes];
        struct node_page *page = &world->pages[world->view.n_nodes];
        json_t *object = from->object ? parse(from->object) : NULL;
        struct error err;

        node->name = from->name;
        node->state = from->page ? CLUSTER_AGENT_ANSWERS : CLUSTER_AGENT_SILENT;
        if (object)
                node->object = cluster_node_read(object, &world->arena);
        json_decref(object);
        if (from->page) {
                assert_ok(node_page_read(page, &world->arena, from->page, strlen(from->page), &err), &err);
                node->page = page;
        }
        world->list[world->view.n_nodes++] = node;
        world->view.nodes = world->list;
}

#define READY "\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]"
#define OBJECT(spec, capacity, allocatable)                                                                            \
        "{\"metadata\": {\"labels\": {\"zone\": \"a\"}}, \"spec\": {" spec                                             \
        "}, \"status\": {\"capacity\": {\"nvidia.com/gpu.shared\": \"" capacity                                        \
        "\"}, \"allocatable\": {\"nvidia.com/gpu.shared\": \"" allocatable "\"}, " READY "}}"
#define UNIT(sharing, replicas, reserved, more, shares)                                                                \
        "{\"uuid\": \"GPU-1\", \"index\": \"0\", \"resource\": \"nvidia.com/gpu.shared\", \"sharing\": \"" sharing     \
        "\", \"by\": \"device-plugin\", \"replicas\": " replicas ", \"reserved\": " reserved more                      \
        ", \"shares\": [" shares "]}"
#define PAGE(units)                                                                                                            \
        "{\"version\": 1, \"node\": \"n\", \"time\": 1, \"gpus\": [{\"uuid\": \"GPU-1\", \"index\": \"0\", \"units\": [" units \
        "]}]}"
#define SHARE(name, replicas)                                                                                          \
        "{\"namespace\": \"team-b\", \"pod\": \"" name "\", \"container\": \"main\", \"replicas\": " replicas          \
        ", \"memoryLimit\": 25769803776, \"threadPercent\": 30}"
#define HEALTHY ", \"granted\": 0, \"healthy\": true"

/* One GPU with 10 replicas under MPS, nobody has any. */
#define FREE_NODE OBJECT("", "10", "10"), PAGE(UNIT("mps", "10", "0", HEALTHY, ""))

#define POD(spec, status)                                                                                              \
        "{\"metadata\": {\"namespace\": \"team-a\", \"name\": \"train-0\"}, \"spec\": {" spec                          \
        "}, \"status\": {" status "}}"
#define ASKS(n)                                                                                                        \
        "\"containers\": [{\"name\": \"main\", \"resources\": {\"limits\": {\"nvidia.com/gpu.shared\": \"" n "\"}}}]"
#define UNSCHEDULABLE(message)                                                                                                                                \
        "\"phase\": \"Pending\", \"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", \"reason\": \"Unschedulable\", \"message\": \"" message \
        "\"}]"
#define INSUFFICIENT                                                                                                   \
        UNSCHEDULABLE("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.shared. no new claims to deallocate, "   \
                      "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.")

struct case_of_pod {
        const char *pod;
        struct world_node nodes[MOST_NODES];
        const char *sentence;
        const char *todo;
        const char *reason; /* of the first node; NULL: not looked at */
        enum why_state state;
        const char *events;
        const char *claims;
        const char *said; /* NULL: not looked at */
};

static void check(const struct case_of_pod *expected)
{
        struct world world = {0};
        struct why_input input = {.view = &world.view};
        json_t *pod = parse(expected->pod);
        json_t *events = expected->events ? parse(expected->events) : NULL;
        json_t *claims = expected->claims ? parse(expected->claims) : NULL;
        struct why why;

        for (size_t i = 0; i < MOST_NODES && expected->nodes[i].name; i++)
                add_node(&world, &expected->nodes[i]);
        input.pod = pod;
        input.events = events;
        input.claims = claims;
        why_explain(&why, &world.arena, &input);
        assert_string_equal(why.sentence, expected->sentence);
        assert_string_equal(why_state_name(why.state), why_state_name(expected->state));
        if (expected->todo)
                assert_string_equal(why.todo, expected->todo);
        else
                assert_null(why.todo);
        if (expected->reason) {
                assert_true(why.n_nodes > 0);
                assert_string_equal(why.nodes[0].reason, expected->reason);
        }
        if (expected->said)
                assert_string_equal(why.said, expected->said);
        json_decref(pod);
        json_decref(events);
        json_decref(claims);
        arena_done(&world.arena);
}

static void check_all(const struct case_of_pod *table, size_t count)
{
        for (size_t i = 0; i < count; i++)
                check(&table[i]);
}

static void test_a_pod_that_waits_for_a_node_is_explained_by_the_nodes_that_have_what_it_asks_for(void **state UNUSED)
{
        static const struct case_of_pod table[] = {
                {.pod = POD(ASKS("12"), INSUFFICIENT),
                        .nodes = {{"n1", FREE_NODE}, {"n2", FREE_NODE}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 12 nvidia.com/gpu.shared in one container, and the "
                                "largest share of one GPU is 10",
                        .todo = "ask for at most 10, or for whole GPUs; or configure fewer, larger replicas",
                        .reason = "the largest share of one GPU is 10",
                        .state = WHY_WAITS,
                        .said = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.shared. no new claims to deallocate, "
                                "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."},
                /* Turns have no size, so a request may span GPUs; here the node has too few in all. */
                {.pod = POD(ASKS("12"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("", "10", "10"), PAGE(UNIT("time-slicing", "10", "0", HEALTHY, ""))}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 12 nvidia.com/gpu.shared, and the most that a node "
                                "offers is 10",
                        .todo = "ask for fewer, or part it over several pods",
                        .reason = "has 10",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("7"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("", "10", "6"), PAGE(UNIT("mps", "10", "4", HEALTHY, ""))}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 7 nvidia.com/gpu.shared, and the most that a node "
                                "offers is 6; up to 4 more are reserved so that each request finds its replicas on one GPU",
                        .todo = "set maxPerRequest to the largest request of your pods, or 'reserve: none'",
                        .reason = "has 6, and 4 more are reserved",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("3"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("", "10", "10"),
                                          PAGE(UNIT("mps", "10", "0", ", \"granted\": 9, \"healthy\": true",
                                                  SHARE("x", "2") ", " SHARE("y", "5") ", " SHARE("x", "2")))},
                                {"n2", OBJECT("", "10", "10"),
                                        PAGE(UNIT("mps", "10", "0", ", \"granted\": 10, \"healthy\": true",
                                                SHARE("a", "1") ", " SHARE("b", "6") ", " SHARE("c", "1") ", " SHARE(
                                                        "d", "2")))}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 3 nvidia.com/gpu.shared; 2 nodes have it: on 2 too few "
                                "replicas are free",
                        .todo = "wait until a pod ends, or end one of those that have them",
                        .reason = "1 of 10 is free; taken by team-b/y (5) and team-b/x (4)",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("3"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("\"unschedulable\": true", "10", "10"), NULL},
                                {"n2",
                                        OBJECT("\"taints\": [{\"key\": \"gpu\", \"value\": \"yes\", \"effect\": \"NoSchedule\"}]",
                                                "10", "10"),
                                        NULL},
                                {"n3", OBJECT("", "10", "0"), NULL}, {"cpu", "{}", NULL}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 3 nvidia.com/gpu.shared; 3 nodes have it: on 1 kubelet "
                                "has none of it now, 1 has a taint that it does not tolerate, 1 is cordoned",
                        .todo = "'kubectl warpshare doctor NODE' says why",
                        .reason = "is cordoned (kubectl uncordon)",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("1") ", \"nodeSelector\": {\"zone\": \"b\"}", INSUFFICIENT),
                        .nodes = {{"n1", FREE_NODE}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 1 nvidia.com/gpu.shared; 1 node has it: 1 is not "
                                "selected by it",
                        .todo = "correct its node selector or affinity",
                        .reason = "is not selected by the pod's node selector or affinity",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("1"), INSUFFICIENT),
                        .nodes = {{"n1",
                                "{\"status\": {\"capacity\": {\"nvidia.com/gpu.shared\": \"10\"}, \"conditions\": [{\"type\": \"Ready\", "
                                "\"status\": \"Unknown\", \"message\": \"Kubelet stopped posting node status.\"}]}}",
                                NULL}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 1 nvidia.com/gpu.shared; 1 node has it: 1 is not ready",
                        .todo = "see why the nodes are not ready",
                        .reason = "is not ready: Kubelet stopped posting node status.",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("1"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("", "10", "0"),
                                PAGE(UNIT("mps", "10", "0",
                                        ", \"granted\": 0, \"healthy\": false, \"reason\": \"Xid 79\"", ""))}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 1 nvidia.com/gpu.shared; 1 node has it: on 1 kubelet has "
                                "none of it now",
                        .todo = "'kubectl warpshare doctor NODE' says why",
                        .reason =
                                "kubelet has none of it now, its agent has 1 unit of it; 1 of 1 are unhealthy: Xid 79",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("3"), UNSCHEDULABLE("0/1 nodes are available: 1 Insufficient cpu.")),
                        .nodes = {{"n1", FREE_NODE}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 3 nvidia.com/gpu.shared, and n1 has room for it; the "
                                "scheduler has another reason",
                        .reason = "has room for it",
                        .state = WHY_WAITS,
                        .said = "0/1 nodes are available: 1 Insufficient cpu."},
                {.pod = POD(ASKS("3"), "\"phase\": \"Pending\""),
                        .nodes = {{"n1", FREE_NODE}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 3 nvidia.com/gpu.shared, and n1 has room for it, the "
                                "scheduler has not said anything yet",
                        .state = WHY_WAITS},
                {.pod = POD(
                         "\"containers\": [{\"resources\": {\"limits\": {\"nvidia.com/gpu\": \"1\"}}}]", INSUFFICIENT),
                        .nodes = {{"n1", FREE_NODE}},
                        .sentence = "team-a/train-0 waits: it asks for 1 nvidia.com/gpu, which no node has; there is "
                                    "nvidia.com/gpu.shared",
                        .todo = "correct the resource's name, or the configuration of the nodes; 'kubectl warpshare nodes' "
                                "shows what they offer",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("1"), INSUFFICIENT),
                        .nodes = {{"n1", "{\"status\": {" READY "}}", NULL}},
                        .sentence = "team-a/train-0 waits: it asks for 1 nvidia.com/gpu.shared, which no node has",
                        .todo = "1 node has an agent that does not answer: 'kubectl warpshare nodes' names it",
                        .state = WHY_WAITS},
                {.pod = POD(ASKS("1") ", \"schedulingGates\": [{\"name\": \"quota\"}]", "\"phase\": \"Pending\""),
                        .sentence =
                                "team-a/train-0 waits: it has scheduling gates, so the scheduler does not look at it",
                        .todo = "who set spec.schedulingGates has to remove them",
                        .state = WHY_GATED},
        };

        check_all(table, ARRAY_SIZE(table));
}

#define CLAIMS "\"containers\": [{}], \"resourceClaims\": [{\"name\": \"gpu\", \"resourceClaimName\": \"mine\"}]"
#define CANNOT                                                                                                         \
        UNSCHEDULABLE(                                                                                                 \
                "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes " \
                "are available: 1 Preemption is not helpful for scheduling.")

/* What is not known of the replicas that pods have is what their shares add up to. */
static void test_replicas_that_pods_have_count_also_where_the_agent_gives_no_sum(void **state UNUSED)
{
        static const struct case_of_pod table[] = {
                {.pod = POD(ASKS("3"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("", "4", "4"),
                                PAGE(UNIT("time-slicing", "4", "0", ", \"healthy\": true",
                                        SHARE("x", "1") ", " SHARE("y", "2")))}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 3 nvidia.com/gpu.shared; 1 node has it: on 1 too few "
                                "replicas are free",
                        .todo = "wait until a pod ends, or end one of those that have them",
                        .reason = "1 of 4 is free; taken by team-b/y (2) and team-b/x (1)",
                        .state = WHY_WAITS},
        };

        check_all(table, ARRAY_SIZE(table));
}

static void test_replicas_that_wait_for_a_change_are_not_free(void **state UNUSED)
{
        static const struct case_of_pod table[] = {
                {.pod = POD(ASKS("3"), INSUFFICIENT),
                        .nodes = {{"n1", OBJECT("", "10", "5"),
                                PAGE(UNIT("mps", "10", "0", ", \"granted\": 1, \"draining\": true, \"healthy\": true",
                                        SHARE("x", "1")) ", " UNIT("mps", "4", "0",
                                        ", \"granted\": 2, \"healthy\": true", SHARE("y", "2")))}},
                        .sentence =
                                "team-a/train-0 waits: it asks for 3 nvidia.com/gpu.shared; 1 node has it: on 1 too few "
                                "replicas are free",
                        .todo = "wait until a pod ends, or end one of those that have them",
                        .reason = "2 of 5 are free; taken by team-b/y (2) and team-b/x (1)",
                        .state = WHY_WAITS},
        };

        check_all(table, ARRAY_SIZE(table));
}

static void test_a_pod_that_waits_for_a_claim_is_explained_by_the_claim(void **state UNUSED)
{
        static const struct case_of_pod table[] = {
                {.pod = POD(CLAIMS, CANNOT),
                        .claims = "[{\"metadata\": {\"name\": \"mine\"}}]",
                        .sentence =
                                "team-a/train-0 waits: it asks for the claim mine, and no node has devices for that now",
                        .todo = "wait until a pod ends, or ask for less; 'kubectl warpshare top' shows who has what",
                        .state = WHY_WAITS},
                {.pod = POD(CLAIMS, UNSCHEDULABLE("resourceclaim \\\"mine\\\" not found")),
                        .claims = "[]",
                        .sentence = "team-a/train-0 waits: its ResourceClaim mine is not there",
                        .todo = "create the claim, or correct its name in the pod",
                        .state = WHY_WAITS},
                {.pod = POD(CLAIMS, CANNOT),
                        .claims = "[{\"metadata\": {\"name\": \"mine\"}, \"status\": {\"allocation\": {}}}]",
                        .sentence =
                                "team-a/train-0 waits: it asks for the claim mine, which is allocated, and its node does not "
                                "take the pod",
                        .todo = "wait until a pod ends, or ask for less; 'kubectl warpshare top' shows who has what",
                        .state = WHY_WAITS},
        };

        check_all(table, ARRAY_SIZE(table));
}

#define REFUSED(message)                                                                                                                    \
        "\"phase\": \"Failed\", \"reason\": \"UnexpectedAdmissionError\", \"message\": \"Pod was rejected: Allocate failed due to " message \
        ", which is unexpected\""

static void test_a_pod_that_kubelet_refused_is_explained_by_what_it_said(void **state UNUSED)
{
        static const struct case_of_pod table[] = {
                {.pod = POD(ASKS("3") ", \"nodeName\": \"n1\"",
                         REFUSED("rpc error: code = InvalidArgument desc = invalid request for resource 'nvidia.com/gpu.shared': "
                                 "maximum request size for shared resources is 1; found 3; to allow more, set …")),
                        .sentence =
                                "team-a/train-0 was refused by kubelet on n1: it asks for several replicas of one that is "
                                "shared, and more are worth no more than one there (failRequestsGreaterThanOne)",
                        .todo = "ask for 1; or let more replicas mean a larger share: MPS with 'provisioning: weighted'",
                        .said = "invalid request for resource 'nvidia.com/gpu.shared': maximum request size for shared resources is "
                                "1; found 3; to allow more, set …",
                        .state = WHY_REFUSED},
                {.pod = POD(ASKS("6") ", \"nodeName\": \"n1\"",
                         REFUSED("rpc error: code = InvalidArgument desc = invalid request for resource 'nvidia.com/gpu.shared': 6 "
                                 "replicas are asked for, but maxPerRequest is 5: ask for at most 5")),
                        .sentence =
                                "team-a/train-0 was refused by kubelet on n1: it asks for more in one container than the "
                                "configuration allows (maxPerRequest)",
                        .todo = "ask for as many as the message says, or raise maxPerRequest",
                        .state = WHY_REFUSED},
                {.pod = "{\"metadata\": {\"namespace\": \"team-a\", \"name\": \"train-0\", \"ownerReferences\": [{\"kind\": \"Job\", "
                        "\"name\": \"train\", \"controller\": true}]}, \"spec\": {" ASKS("3") ", \"nodeName\": \"n1\"}, \"status\": {" REFUSED(
                                "requested number of devices unavailable for nvidia.com/gpu.shared. Requested: 3, Available: 0") "}}",
                        .sentence =
                                "team-a/train-0 was refused by kubelet on n1: kubelet had fewer free devices than the "
                                "scheduler had counted",
                        .todo = "nothing: Job/train makes another one; this one may be deleted",
                        .said = "requested number of devices unavailable for nvidia.com/gpu.shared. Requested: 3, Available: 0",
                        .state = WHY_REFUSED},
                {.pod = POD(ASKS("3") ", \"nodeName\": \"n1\"",
                         "\"phase\": \"Failed\", \"reason\": \"OutOfnvidia.com/gpu.shared\", \"message\": \"Pod was rejected: Node "
                         "didn't have enough resource: nvidia.com/gpu.shared, requested: 3, used: 8, capacity: 10\""),
                        .sentence =
                                "team-a/train-0 was refused by kubelet on n1: the node had less than the scheduler had counted",
                        .todo = "delete it, its controller makes another one",
                        .said = "Node didn't have enough resource: nvidia.com/gpu.shared, requested: 3, used: 8, capacity: 10",
                        .state = WHY_REFUSED},
                {.pod = POD(ASKS("3"), REFUSED("something new")),
                        .sentence =
                                "team-a/train-0 was refused by kubelet on a node: kubelet's reason is UnexpectedAdmissionError",
                        .todo = "delete it, its controller makes another one",
                        .said = "something new",
                        .state = WHY_REFUSED},
        };

        check_all(table, ARRAY_SIZE(table));
}

static void test_a_pod_that_is_on_a_node_is_explained_by_what_it_has_or_waits_for_there(void **state UNUSED)
{
        static const struct case_of_pod table[] = {
                {.pod = POD(ASKS("1") ", \"nodeName\": \"n1\"",
                         "\"phase\": \"Pending\", \"containerStatuses\": [{\"name\": \"main\", \"state\": {\"waiting\": {\"reason\": "
                         "\"ImagePullBackOff\", \"message\": \"Back-off pulling image\"}}}]"),
                        .sentence = "team-a/train-0 is on n1, and its container main waits: ImagePullBackOff",
                        .said = "Back-off pulling image",
                        .state = WHY_STARTS},
                {.pod = POD(CLAIMS ", \"nodeName\": \"n1\"", "\"phase\": \"Pending\""),
                        .events =
                                "[{\"type\": \"Warning\", \"reason\": \"FailedScheduling\", \"message\": \"earlier\"},"
                                " {\"type\": \"Warning\", \"reason\": \"FailedPrepareDynamicResources\", \"message\": \"Failed to prepare "
                                "dynamic resources: NodePrepareResources failed\"}, {\"type\": \"Normal\", \"message\": \"x\"}]",
                        .sentence = "team-a/train-0 is on n1, and its containers do not run yet",
                        .todo = "kubectl warpshare doctor n1",
                        .said = "Failed to prepare dynamic resources: NodePrepareResources failed",
                        .state = WHY_STARTS},
                {.pod = "{\"metadata\": {\"namespace\": \"team-b\", \"name\": \"x\"}, \"spec\": {" ASKS(
                         "3") ", \"nodeName\": \"n1\"}, "
                              "\"status\": {\"phase\": \"Running\"}}",
                        .nodes = {{"n1", OBJECT("", "10", "10"),
                                PAGE(UNIT("mps", "10", "0", HEALTHY, SHARE("x", "3") ", " SHARE("y", "1")))}},
                        .sentence = "team-b/x runs on n1 with 3 of 10 replicas of GPU 0, 24.0 GiB, 30 % of its threads",
                        .state = WHY_RUNS},
                {.pod = POD(ASKS("3") ", \"nodeName\": \"n1\"", "\"phase\": \"Running\""),
                        .nodes = {{"n1", FREE_NODE}},
                        .sentence = "team-a/train-0 runs on n1, and its agent knows of no share of it",
                        .state = WHY_RUNS},
                {.pod = POD(ASKS("3") ", \"nodeName\": \"n1\"", "\"phase\": \"Running\""),
                        .nodes = {{"n1", OBJECT("", "10", "10"), NULL}},
                        .sentence = "team-a/train-0 runs on n1, whose agent does not say what it has",
                        .state = WHY_RUNS},
                {.pod = POD(ASKS("3") ", \"nodeName\": \"n1\"", "\"phase\": \"Failed\", \"reason\": \"Evicted\""),
                        .sentence = "team-a/train-0 has ended: Failed, Evicted",
                        .state = WHY_ENDED},
                {.pod = POD("\"containers\": [{}]", "\"phase\": \"Pending\""),
                        .sentence = "team-a/train-0 asks for no device",
                        .state = WHY_RUNS},
        };

        check_all(table, ARRAY_SIZE(table));
}

/* ---- nodes that are alike ---- */

static void test_nodes_with_the_same_reason_are_one_group_and_the_largest_comes_first(void **state UNUSED)
{
        static const struct why_finding nodes[] = {{.name = "a", .reason = "cordoned"},
                {.name = "b", .reason = "taken"}, {.name = "c", .reason = "taken"}, {.name = "d", .reason = "taken"},
                {.name = "e", .reason = "taken"}, {.name = "f", .reason = "taken"},
                {.name = "g", .reason = "not ready"}, {.name = "h", .reason = "taken"}};
        static const struct why_group expected[] = {
                {"taken", "b, c, d, e and 2 more", 6}, {"cordoned", "a", 1}, {"not ready", "g", 1}};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct why all = {.nodes = nodes, .n_nodes = ARRAY_SIZE(nodes)};
        const struct why_group *groups;

        assert_int_equal(why_groups(&all, &arena, &groups), ARRAY_SIZE(expected));
        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                assert_string_equal(groups[i].reason, expected[i].reason);
                assert_string_equal(groups[i].names, expected[i].names);
                assert_int_equal(groups[i].count, expected[i].count);
        }
        assert_int_equal(why_groups(&(struct why){0}, &arena, &groups), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_pod_that_waits_for_a_node_is_explained_by_the_nodes_that_have_what_it_asks_for),
                cmocka_unit_test(test_replicas_that_pods_have_count_also_where_the_agent_gives_no_sum),
                cmocka_unit_test(test_replicas_that_wait_for_a_change_are_not_free),
                cmocka_unit_test(test_a_pod_that_waits_for_a_claim_is_explained_by_the_claim),
                cmocka_unit_test(test_a_pod_that_kubelet_refused_is_explained_by_what_it_said),
                cmocka_unit_test(test_a_pod_that_is_on_a_node_is_explained_by_what_it_has_or_waits_for_there),
                cmocka_unit_test(test_nodes_with_the_same_reason_are_one_group_and_the_largest_comes_first),
        };

        return cmocka_run_group_tests_name("why", tests, NULL, NULL);
}
