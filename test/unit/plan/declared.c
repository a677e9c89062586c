// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node.h"
#include "plan/declared.h"

/* One line a thing said: "threads 600 own, memory 2048, …". */
static const char *say(struct arena *arena, const char *annotations, const char *container)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *pod = xasprintf(
                "{'metadata': {'annotations': {%s}}, 'spec': {'initContainers': [{'name': 'init'}], 'containers': "
                "[{'name': 'side'}, {'name': 'main', %s}]}}",
                annotations, container);
        struct declared said;
        json_t *json;

        for (char *at = pod; *at; at++)
                if (*at == '\'')
                        *at = '"';
        json = json_loads(pod, 0, NULL);
        assert_non_null(json);
        said = declared_read(arena, json, "main");
        assert_true(said.is_known);
        json_decref(json);
        if (said.threads_permille || said.has_own_threads)
                strbuf_printf(&text, "threads %u%s; ", said.threads_permille, said.has_own_threads ? " own" : "");
        if (said.memory_mib || said.has_own_memory)
                strbuf_printf(&text, "memory %llu%s%s; ", (unsigned long long)said.memory_mib,
                        said.has_own_memory ? " own " : "", said.own_memory ? said.own_memory : "");
        if (said.priority)
                strbuf_printf(&text, "%s; ", said.priority);
        strbuf_printf(&text, "%s%s", said.is_unclear ? "unclear; " : "", said.fault ? said.fault : "");
        return arena_strdup(arena, text.data);
}

#define NONE "'image': 'x'"
#define ENV(items) "'env': [{'name': 'A', 'value': 'b'}, " items "]"
#define THREADS(rest) "{'name': 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE', " rest "}"
#define MEMORY(rest) "{'name': 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT', " rest "}"

static void test_a_containers_variables_count_more_than_its_annotations_and_these_more_than_the_pods(
        void **state UNUSED)
{
        static const struct {
                const char *annotations;
                const char *container;
                const char *expected;
        } table[] = {
                {"", NONE, ""},
                {"'warpshare.dev/threads': '60'", NONE, "threads 600; "},
                {"'warpshare.dev/threads': '60%', 'warpshare.dev/memory': '20Gi'", NONE, "threads 600; memory 20480; "},
                {"'warpshare.dev/threads': '60', 'warpshare.dev/threads.main': '2.5'", NONE, "threads 25; "},
                {"'warpshare.dev/threads.side': '60'", NONE, ""},
                {"'warpshare.dev/memory': '512Mi', 'warpshare.dev/memory.main': '1G'", NONE, "memory 953; "},
                {"'warpshare.dev/memory': '1Ti'", NONE, "memory 1048576; "},
                {"'warpshare.dev/threads': '60', 'warpshare.dev/memory': '1Gi'",
                        ENV(THREADS("'value': '10'") ", " MEMORY("'value': '0=2G'")),
                        "threads 100 own; memory 0 own 0=2G; "},
                {"'warpshare.dev/threads': '60'", ENV(THREADS("'value': ''")), "threads 600; "},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_string_equal(say(&arena, table[i].annotations, table[i].container), table[i].expected);
}

#define NVIDIA(key, value) "'nvidia.com/container.main." key "': '" value "'"
#define VARIABLE(name, value) "{'name': 'NVIDIA_GPU_MEMORY_" name "', 'value': '" value "'}"
#define ANNOTATION "the annotation nvidia.com/container.main."

static void test_nvidias_dialect_counts_where_ours_is_silent(void **state UNUSED)
{
        static const struct {
                const char *annotations;
                const char *container;
                const char *expected;
        } table[] = {
                {NVIDIA("gpu-memory.limit", "8Gi"), NONE, "memory 8192; "},
                {NVIDIA("gpu-memory.request", "1000M"), NONE, "memory 954; "},
                {NVIDIA("gpu-memory.request", "8Gi") ", " NVIDIA("gpu-memory.limit", "8Gi"), NONE, "memory 8192; "},
                {NVIDIA("gpu-memory.limit", "1.5Gi") ", " NVIDIA("gpu-compute.mode", "sm-sharing"), NONE,
                        "memory 1536; "},
                {"'nvidia.com/container.side.gpu-memory.limit': '8Gi'", NONE, ""},
                {"", ENV(VARIABLE("LIMIT", "4096")), "memory 4096; "},
                {"", ENV(VARIABLE("REQUEST", "4096")), "memory 4096; "},
                {NVIDIA("gpu-memory.limit", "8Gi"), ENV(VARIABLE("LIMIT", "4096")), "memory 8192; "},
                {NVIDIA("gpu-memory.limit", "8Gi") ", 'warpshare.dev/memory': '8Gi'", NONE, "memory 8192; "},
                {NVIDIA("gpu-memory.limit", "8Gi"), ENV(MEMORY("'value': '0=2G'")), "memory 0 own 0=2G; "},
                {NVIDIA("gpu-memory.request", "2Gi") ", " NVIDIA("gpu-memory.limit", "8Gi"), NONE,
                        "memory 8192; " ANNOTATION "gpu-memory.request: 2048 MiB is below the limit and has no effect: "
                        "the container gets its limit, 8192 MiB by " ANNOTATION
                        "gpu-memory.limit, and is accounted with that"},
                {NVIDIA("gpu-memory.request", "9Gi"), ENV(VARIABLE("LIMIT", "4096")),
                        ANNOTATION "gpu-memory.request: 9216 MiB is above the limit, which is 4096 MiB by the variable "
                                   "NVIDIA_GPU_MEMORY_LIMIT, so both are ignored"},
                {NVIDIA("gpu-memory.limit", "8Gi") ", 'warpshare.dev/memory': '4Gi'", NONE,
                        "memory 4096; " ANNOTATION
                        "gpu-memory.limit: 8192 MiB is ignored, since warpshare.dev/memory says 4096 MiB"},
                {NVIDIA("gpu-memory.limit", "8"), NONE,
                        ANNOTATION "gpu-memory.limit: '8' is not an amount of memory from 1Mi to 1Ti, for example "
                                   "512Mi or 20Gi, so it is ignored"},
                {NVIDIA("gpu-memory.limit", "2Ti"), NONE,
                        ANNOTATION "gpu-memory.limit: '2Ti' is not an amount of memory from 1Mi to 1Ti, for example "
                                   "512Mi or 20Gi, so it is ignored"},
                {"", ENV(VARIABLE("LIMIT", "4Gi")),
                        "the variable NVIDIA_GPU_MEMORY_LIMIT: '4Gi' is not a number of MiB from 1 to 1048576 in the "
                        "pod's own text, so it is ignored"},
                {NVIDIA("gpu-compute.mode", "time-slicing"), NONE,
                        ANNOTATION "gpu-compute.mode: 'time-slicing' is not sm-sharing, and containers of this "
                                   "resource share by MPS, so it is ignored"},
                {NVIDIA("gpu-compute.portion", "0.5"), NONE,
                        ANNOTATION "gpu-compute.portion: '0.5' is not known here: say warpshare.dev/threads in "
                                   "percent, so it is ignored"},
                {NVIDIA("gpus.devices", "GPU-1"), NONE,
                        ANNOTATION "gpus.devices: 'GPU-1' is not known here: kubelet and Warpshare choose the GPU, so "
                                   "it is ignored"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_string_equal(say(&arena, table[i].annotations, table[i].container), table[i].expected);
}

static void test_an_annotation_sets_the_priority_unless_the_container_does(void **state UNUSED)
{
        static const char own[] = ENV("{'name': 'CUDA_MPS_CLIENT_PRIORITY', 'value': '0'}");
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(say(&arena, "'warpshare.dev/priority': '1'", NONE), "CUDA_MPS_CLIENT_PRIORITY=1; ");
        assert_string_equal(say(&arena, "'warpshare.dev/priority': '1', 'warpshare.dev/priority.main': '0'", NONE),
                "CUDA_MPS_CLIENT_PRIORITY=0; ");
        assert_string_equal(say(&arena, "'warpshare.dev/priority': '1'", own), "");
        assert_string_equal(say(&arena, "'warpshare.dev/priority': 'high'", NONE),
                "the annotation warpshare.dev/priority: 'high' is not 0 (normal) or 1 (below normal), so it is ignored");
}

static void test_a_variable_with_its_value_elsewhere_is_unclear(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(say(&arena, "'warpshare.dev/threads': '60'",
                                    ENV(THREADS("'valueFrom': {'fieldRef': {'fieldPath': 'metadata.labels'}}"))),
                "threads 0 own; unclear; ");
        assert_string_equal(say(&arena, "", ENV(MEMORY("'value': '0=$(A)'"))), "memory 0 own ; unclear; ");
        assert_string_equal(
                say(&arena, "'warpshare.dev/threads': '60'", "'envFrom': [{'configMapRef': {'name': 'x'}}]"),
                "threads 600; unclear; ");
}

static void test_what_cannot_be_used_is_named_with_its_place(void **state UNUSED)
{
        static const struct {
                const char *annotations;
                const char *container;
                const char *expected;
        } table[] = {
                {"'warpshare.dev/threads': '0'", NONE,
                        "the annotation warpshare.dev/threads: '0' is not a percentage above 0 and at most 100, for "
                        "example 60 or 2.5, so it is ignored"},
                {"'warpshare.dev/threads.main': ''", NONE,
                        "the annotation warpshare.dev/threads.main: '' is not a percentage above 0 and at most 100, for example 60 or "
                        "2.5, so it is ignored"},
                {"'warpshare.dev/memory': '5'", NONE,
                        "the annotation warpshare.dev/memory: '5' is not an amount of memory from 1Mi to 1Ti, for example 512Mi or "
                        "20Gi, so it is ignored"},
                {"'warpshare.dev/memory': '99999999Gi'", NONE,
                        "the annotation warpshare.dev/memory: '99999999Gi' is not an amount of memory from 1Mi to 1Ti, for example "
                        "512Mi or 20Gi, so it is ignored"},
                {"'warpshare.dev/memory': '00000001Gi'", NONE,
                        "the annotation warpshare.dev/memory: '00000001Gi' is not an amount of memory from 1Mi to 1Ti, for example "
                        "512Mi or 20Gi, so it is ignored"},
                {"'warpshare.dev/memory': '2Ti'", NONE,
                        "the annotation warpshare.dev/memory: '2Ti' is not an amount of memory from 1Mi to 1Ti, for example 512Mi or "
                        "20Gi, so it is ignored"},
                {"'warpshare.dev/memory': '1025Gi'", NONE,
                        "the annotation warpshare.dev/memory: '1025Gi' is not an amount of memory from 1Mi to 1Ti, for example 512Mi or "
                        "20Gi, so it is ignored"},
                {"", ENV(THREADS("'value': 'half'")),
                        "threads 0 own; unclear; the variable CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: 'half' is not a percentage above 0 and "
                        "at most 100, so it is ignored"},
                {"", ENV(MEMORY("'value': '8G'")),
                        "memory 0 own ; unclear; the variable CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '8G' is not a list "
                        "like 0=8G,1=512M, so it is ignored"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_string_equal(say(&arena, table[i].annotations, table[i].container), table[i].expected);
}

static void test_a_pod_of_any_shape_says_nothing_rather_than_harm(void **state UNUSED)
{
        static const char *const pods[] = {"{}", "[]", "{\"spec\": 1}", "{\"spec\": {\"containers\": {}}}",
                "{\"spec\": {\"containers\": [1, {\"name\": 2}, {\"name\": \"main\", \"env\": [1, {\"name\": 3}]}]}}",
                "{\"metadata\": {\"annotations\": {\"warpshare.dev/threads\": 60}}}"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
                json_t *json = json_loads(pods[i], 0, NULL);
                struct declared said;

                assert_non_null(json);
                said = declared_read(&arena, json, "main");
                json_decref(json);
                assert_true(said.is_known);
                assert_int_equal(said.threads_permille, 0);
                assert_false(said.has_own_threads || said.has_own_memory || said.memory_mib || said.fault);
        }
}

/* ---- what it is worth ---- */

static void test_what_is_declared_counts_up_to_the_ceilings_and_the_replicas_for_the_rest(void **state UNUSED)
{
        static const struct {
                struct declared said;
                unsigned int max_threads;
                uint64_t max_memory;
                size_t ordinal;
                uint64_t memory;
                unsigned int threads;
        } table[] = {
                {{0}, 0, 0, 0, 7372, 300},
                {{.is_known = true}, 0, 0, 0, 7372, 300},
                {{.is_known = true, .threads_permille = 600}, 0, 0, 0, 7372, 600},
                {{.is_known = true, .memory_mib = 20480}, 0, 0, 0, 20480, 300},
                {{.is_known = true, .memory_mib = 20480, .threads_permille = 900}, 50, 10000, 0, 10000, 500},
                {{0}, 20, 4096, 0, 4096, 200},
                {{.is_known = true, .own_memory = "0=1G,1=2G"}, 0, 0, 1, 2048, 300},
                {{.is_known = true, .own_memory = "1=2G"}, 0, 0, 0, 7372, 300},
                {{.is_known = true, .own_memory = "GPU-0=3G"}, 0, 0, 5, 3072, 300},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(node_done) struct node node = node_new(1);
                struct mps_part part;
                struct share share;

                node_share(&node, SHARING_MPS, 10);
                node.section.provisioning = PROVISIONING_DECLARED;
                node.section.has_memory_reserve = true;
                node.section.max_threads = table[i].max_threads;
                node.section.max_memory_mib = table[i].max_memory;
                assert_ok(node_plan(&node), &node.err);
                part = (struct mps_part){
                        .resource = &node.plan->resources[0], .unit = &node.plan->resources[0].units[0], .replicas = 3};
                share = declared_share(&table[i].said, &part, table[i].ordinal);
                assert_int_equal(share.memory_mib, table[i].memory);
                assert_int_equal(share.threads_permille, table[i].threads);
        }
}

static void test_the_start_sets_only_what_allocate_did_not_set(void **state UNUSED)
{
        static const struct {
                struct declared said;
                size_t n_parts;
                unsigned int omits;
        } table[] = {
                {{0}, 1, MPS_LIMITS_NO_THREADS | MPS_LIMITS_NO_MEMORY},
                {{0}, 2, 0},
                {{.threads_permille = 600}, 1, MPS_LIMITS_NO_MEMORY},
                {{.memory_mib = 600}, 1, MPS_LIMITS_NO_THREADS},
                {{.threads_permille = 600, .has_own_threads = true}, 2, MPS_LIMITS_NO_THREADS},
                {{.has_own_memory = true}, 2, MPS_LIMITS_NO_MEMORY},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_int_equal(declared_omits(&table[i].said, table[i].n_parts), table[i].omits);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(
                        test_a_containers_variables_count_more_than_its_annotations_and_these_more_than_the_pods),
                cmocka_unit_test(test_nvidias_dialect_counts_where_ours_is_silent),
                cmocka_unit_test(test_an_annotation_sets_the_priority_unless_the_container_does),
                cmocka_unit_test(test_a_variable_with_its_value_elsewhere_is_unclear),
                cmocka_unit_test(test_what_cannot_be_used_is_named_with_its_place),
                cmocka_unit_test(test_a_pod_of_any_shape_says_nothing_rather_than_harm),
                cmocka_unit_test(test_what_is_declared_counts_up_to_the_ceilings_and_the_replicas_for_the_rest),
                cmocka_unit_test(test_the_start_sets_only_what_allocate_did_not_set),
        };

        return cmocka_run_group_tests_name("plan/declared", tests, NULL, NULL);
}
