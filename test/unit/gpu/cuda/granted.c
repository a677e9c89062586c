// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "gpu/cuda/granted.h"

#define UUID "5c89852c-d268-4c3f-9b07-0022ad3fdd14"
#define MIB (UINT64_C(1) << 20)

/* "NAME=value" in a list that NULL ends. */
static const char *find(const char *name, void *data)
{
        size_t length = strlen(name);

        for (const char *const *variable = data; *variable; variable++)
                if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=')
                        return *variable + length + 1;
        return NULL;
}

#define READ(ret, err, ...) granted_read((ret), find, (const char *[]){__VA_ARGS__, NULL}, 0, UUID, (err))

static void test_an_empty_environment_promises_nothing(void **state UNUSED)
{
        struct granted granted;
        struct error err;

        assert_ok(READ(&granted, &err, "PATH=/bin", "WARPSHARE_SMS=", "CUDA_MPS_PIPE_DIRECTORY="), &err);
        assert_false(granted.mps);
        assert_int_equal(granted.threads_permille, 0);
        assert_int_equal(granted.memory_mib, 0);
        assert_int_equal(granted_memory_ceiling(&granted), 0);
}

static void test_everything_that_the_agent_says_is_read(void **state UNUSED)
{
        struct granted granted;
        struct error err;

        assert_ok(READ(&granted, &err, "WARPSHARE_THREAD_PERCENTAGE=33.3", "WARPSHARE_MEMORY_LIMIT_MIB=11411",
                          "WARPSHARE_SMS=46", "WARPSHARE_TIER=partition", "WARPSHARE_REPLICAS=7/20",
                          "WARPSHARE_FRACTION=0.35", "CUDA_MPS_PIPE_DIRECTORY=/mps/x/pipe"),
                &err);
        assert_true(granted.mps);
        assert_int_equal(granted.threads_permille, 333);
        assert_int_equal(granted.memory_mib, 11411);
        assert_int_equal(granted.sms, 46);
        assert_string_equal(granted.tier, "partition");
        assert_string_equal(granted.replicas, "7/20");
        assert_string_equal(granted.fraction, "0.35");
        assert_string_equal(granted.pipe, "/mps/x/pipe");
        assert_int_equal(granted_memory_ceiling(&granted), (11411 + 64) * MIB);
}

#define DEVICE(uuid, attributes)                                                                                       \
        "{\"driver\":\"d\",\"pool\":\"p\",\"name\":\"n\",\"attributes\":{\"uuid\":{\"string\":\"" uuid                 \
        "\"}" attributes "}}"
#define OBJECT(version, devices)                                                                                       \
        "{\"kind\":\"DeviceMetadata\",\"apiVersion\":\"metadata.resource.k8s.io/" version "\",\"requests\":"           \
        "[{\"name\":\"r\",\"devices\":[" devices "]}]}\n"
#define SHARE ",\"memoryMiB\":{\"int\":10240},\"threadPercentage\":{\"int\":30},\"tier\":{\"string\":\"verified\"}"

static void test_device_metadata_counts_beside_the_environment(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *variables[3];
                unsigned int permille;
                uint64_t memory;
                const char *tier;
                bool mps, differs;
        } table[] = {
                {OBJECT("v1alpha1", DEVICE("GPU-" UUID, SHARE)), {NULL}, 300, 10240, "verified", true, false},
                {OBJECT("v9", DEVICE("GPU-" UUID, "")) OBJECT("v1beta1", DEVICE("MIG-" UUID, SHARE)), {NULL}, 300,
                        10240, "verified", true, false},
                {OBJECT("v1beta1", DEVICE("GPU-other", SHARE)), {NULL}, 0, 0, "", false, false},
                {OBJECT("v1beta1", DEVICE("GPU-" UUID, "")), {NULL}, 0, 0, "", false, false},
                {OBJECT("v1beta1", DEVICE("GPU-other", SHARE) "," DEVICE("GPU-" UUID, SHARE)),
                        {"WARPSHARE_THREAD_PERCENTAGE=30.5", "WARPSHARE_MEMORY_LIMIT_MIB=10240"}, 305, 10240,
                        "verified", true, false},
                {OBJECT("v1beta1", DEVICE("GPU-" UUID, SHARE)),
                        {"WARPSHARE_THREAD_PERCENTAGE=20", "WARPSHARE_MEMORY_LIMIT_MIB=10240"}, 200, 10240, "verified",
                        true, true},
                {OBJECT("v1beta1", DEVICE("GPU-" UUID, SHARE)), {"WARPSHARE_MEMORY_LIMIT_MIB=20480"}, 300, 10240,
                        "verified", true, true},
                {OBJECT("v1beta1", DEVICE("GPU-" UUID, ",\"memoryMiB\":{\"int\":-1},\"threadPercentage\":7")), {NULL},
                        0, 0, "", false, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct granted granted;
                struct error err;

                assert_ok(granted_read(&granted, find, (void *)(uintptr_t)table[i].variables, 0, UUID, &err), &err);
                assert_ok(granted_read_metadata(&granted, table[i].text, strlen(table[i].text), UUID, &err), &err);
                assert_int_equal(granted.threads_permille, table[i].permille);
                assert_int_equal(granted.memory_mib, table[i].memory);
                assert_string_equal(granted.tier, table[i].tier);
                assert_int_equal(granted.mps, table[i].mps);
                assert_int_equal(granted.differs, table[i].differs);
        }
}

static void test_device_metadata_that_cannot_be_read_is_an_error(void **state UNUSED)
{
        static const char *const table[] = {"", "{", "[1, 2", "{}\n", OBJECT("v9", "") "\n{\"kind\": oh"};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct granted granted = {0};
                struct error err;

                assert_int_equal(granted_read_metadata(&granted, table[i], strlen(table[i]), UUID, &err), -1);
                assert_int_equal(err.kind, ERROR_INVALID);
        }
}

static void test_of_two_limits_the_lower_one_is_the_promise(void **state UNUSED)
{
        struct granted granted;
        struct error err;

        assert_ok(READ(&granted, &err, "WARPSHARE_THREAD_PERCENTAGE=35", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20",
                          "WARPSHARE_MEMORY_LIMIT_MIB=4000", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8G"),
                &err);
        assert_int_equal(granted.threads_permille, 200);
        assert_int_equal(granted.memory_mib, 4000);
}

static void test_a_memory_limit_is_that_of_our_gpu(void **state UNUSED)
{
        static const struct {
                const char *variable;
                uint64_t mib;
        } table[] = {
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1630M", 1630},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1630MB", 1630},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1630", 1630},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2g", 2048},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2097152K", 2048},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=9G,0=3G", 3072},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=9G", 0},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=3G", 3072},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=GPU-" UUID "=3G", 3072},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=MIG-" UUID "=3G", 3072},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=GPU-00000000-d268-4c3f-9b07-0022ad3fdd14=3G", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct granted granted;
                struct error err;

                assert_ok(READ(&granted, &err, table[i].variable), &err);
                if (granted.memory_mib != table[i].mib)
                        fail_msg("%s: %llu", table[i].variable, (unsigned long long)granted.memory_mib);
        }
}

static void test_what_cannot_be_understood_is_named(void **state UNUSED)
{
        static const struct {
                const char *variable;
                const char *error;
        } table[] = {
                {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=many",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: 'many' is not a percentage above 0 and at most 100"},
                {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=101",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: '101' is not a percentage above 0 and at most 100"},
                {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100.5",
                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: '100.5' is not a percentage above 0 and at most 100"},
                {"WARPSHARE_THREAD_PERCENTAGE=-5",
                        "WARPSHARE_THREAD_PERCENTAGE: '-5' is not a percentage above 0 and at most 100"},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1X",
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '1X' is not a list like 0=1630M"},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=",
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '0=' is not a list like 0=1630M"},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=5X",
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '0=5X' is not a list like 0=1630M"},
                {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=99999999999999999999999G",
                        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: '0=99999999999999999999999G' is not a list like 0=1630M"},
                {"WARPSHARE_MEMORY_LIMIT_MIB=1G", "WARPSHARE_MEMORY_LIMIT_MIB: '1G' is not a number of MiB"},
                {"WARPSHARE_SMS=all", "WARPSHARE_SMS: 'all' is not a number of SMs"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct granted granted;
                struct error err;

                assert_fails(READ(&granted, &err, table[i].variable), &err, ERROR_INVALID, table[i].error);
        }
}

/* ---- the outcome ---- */

/* A share of 35 % on a GPU of 132 SMs and 11,411 MiB of it, and everything as it should be. */
struct scene {
        struct granted granted;
        struct measure_facts facts;
        struct measure_places places;
        struct measure_memory memory;
        struct granted_measured measured;
        struct granted_outcome outcome;
};

static void make(struct scene *scene)
{
        *scene = (struct scene){
                .granted = {.mps = true, .threads_permille = 350, .memory_mib = 11411, .pipe = "/mps/pipe"},
                .facts = {.mps = 1, .sms = 46, .affinity_sms = 46, .memory = 81559 * MIB, .memory_free = 80000 * MIB},
                .places = {.at_once = 46, .seen = 46},
                .memory = {.ceiling = 11475 * MIB, .granted = 11110 * MIB, .refused = true},
        };
        scene->measured = (struct granted_measured){.facts = &scene->facts,
                .places = &scene->places,
                .memory = &scene->memory,
                .unit_sms = 132,
                .socket = true};
}

static void judge(struct scene *scene)
{
        granted_check(&scene->outcome, &scene->granted, &scene->measured);
}

static void test_an_allocation_that_is_kept_holds_without_a_word(void **state UNUSED)
{
        struct scene scene;

        make(&scene);
        judge(&scene);
        assert_true(scene.outcome.holds);
        assert_int_equal(scene.outcome.n_findings, 0);
        assert_int_equal(scene.outcome.sms, 46);
}

static void no_mps(struct scene *scene)
{
        scene->facts.mps = 0;
}
static void no_mps_and_no_pipe(struct scene *scene)
{
        scene->facts.mps = 0;
        scene->granted.pipe[0] = '\0';
}
static void unknown_without_socket(struct scene *scene)
{
        scene->facts.mps = -1;
        scene->measured.socket = false;
}
static void too_much_memory(struct scene *scene)
{
        scene->memory.granted = 11474 * MIB;
        scene->memory.refused = false;
}
static void too_little_memory(struct scene *scene)
{
        scene->memory.granted = (11411 - 769) * MIB;
        scene->facts.memory_free = 10700 * MIB;
}
static void too_many_sms(struct scene *scene)
{
        scene->places.at_once = 49;
}
static void too_few_sms(struct scene *scene)
{
        scene->places.at_once = scene->facts.affinity_sms = scene->facts.sms = 43;
}
static void said_sms(struct scene *scene)
{
        scene->granted.sms = 40;
}

static void test_each_broken_promise_is_named(void **state UNUSED)
{
        static const struct {
                void (*change)(struct scene *scene);
                const char *text;
        } table[] = {
                {no_mps, "MPS: not in use, so no limit is in force (CUDA continues without it where no control daemon "
                         "answers in /mps/pipe)"},
                {no_mps_and_no_pipe,
                        "MPS: not in use, so no limit is in force (CUDA continues without it where no control daemon "
                        "answers: CUDA_MPS_PIPE_DIRECTORY is not set)"},
                {unknown_without_socket, "MPS: there is no control daemon's socket in '/mps/pipe'"},
                {too_much_memory, "memory: 11474 MiB could be allocated, the limit is 11411 MiB"},
                {too_little_memory,
                        "memory: only 10642 of 11411 MiB could be allocated (CUDA's context takes its part, but not "
                        "more than 768 MiB; of the GPU 10700 MiB were free)"},
                {too_many_sms, "SMs: 49 could be used at one time, 46 are allocated"},
                {too_few_sms, "SMs: only 43 could be used at one time and CUDA reports 43, 46 are allocated"},
                {said_sms, "SMs: 46 could be used at one time, 40 are allocated"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct scene scene;

                make(&scene);
                table[i].change(&scene);
                judge(&scene);
                assert_false(scene.outcome.holds);
                assert_int_equal(scene.outcome.n_findings, 1);
                assert_true(scene.outcome.findings[0].broken);
                assert_string_equal(scene.outcome.findings[0].text, table[i].text);
        }
}

static void sms_at_the_edges(struct scene *scene)
{
        scene->places.at_once = 48;
}
static void sms_at_the_lower_edge(struct scene *scene)
{
        scene->places.at_once = scene->facts.affinity_sms = scene->facts.sms = 44;
}
static void memory_at_the_lower_edge(struct scene *scene)
{
        scene->memory.granted = (11411 - 768) * MIB;
}
static void memory_at_the_limit(struct scene *scene)
{
        scene->memory.granted = 11411 * MIB;
}

static void test_the_tolerance_is_as_documented(void **state UNUSED)
{
        static void (*const table[])(struct scene *) = {
                sms_at_the_edges, sms_at_the_lower_edge, memory_at_the_lower_edge, memory_at_the_limit};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct scene scene;

                make(&scene);
                table[i](&scene);
                judge(&scene);
                assert_true(scene.outcome.holds);
                assert_int_equal(scene.outcome.n_findings, 0);
        }
}

static void neighbours_on_our_sms(struct scene *scene)
{
        scene->places.at_once = 20;
}
static void memory_not_tried(struct scene *scene)
{
        scene->measured.memory = NULL;
}
static void memory_tried_too_little(struct scene *scene)
{
        scene->memory.granted = 1024 * MIB;
        scene->memory.refused = false;
}
static void whole_unknown(struct scene *scene)
{
        scene->measured.unit_sms = 0;
}
static void unknown_with_socket(struct scene *scene)
{
        scene->facts.mps = -1;
}

static void test_what_could_not_be_judged_is_a_remark(void **state UNUSED)
{
        static const struct {
                void (*change)(struct scene *scene);
                const char *text;
        } table[] = {
                {neighbours_on_our_sms, "SMs: 20 of 46 were free at the time of measuring, neighbours had the others"},
                {memory_not_tried, "memory: the limit of 11411 MiB was not tried"},
                {memory_tried_too_little, "memory: tried up to 1024 MiB only, the limit is 11411 MiB"},
                {whole_unknown,
                        "SMs: how many SMs 35.0 % are is unknown, since NVML is not available to report how many the "
                        "GPU has"},
                {unknown_with_socket,
                        "MPS: this driver does not report whether it is in use; a control daemon's socket is there"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct scene scene;

                make(&scene);
                table[i].change(&scene);
                judge(&scene);
                assert_true(scene.outcome.holds);
                assert_int_equal(scene.outcome.n_findings, 1);
                assert_false(scene.outcome.findings[0].broken);
                assert_string_equal(scene.outcome.findings[0].text, table[i].text);
        }
}

static void test_every_broken_limit_is_reported(void **state UNUSED)
{
        struct scene scene;

        make(&scene);
        no_mps(&scene);
        too_much_memory(&scene);
        too_many_sms(&scene);
        judge(&scene);
        assert_false(scene.outcome.holds);
        assert_int_equal(scene.outcome.n_findings, 3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_empty_environment_promises_nothing),
                cmocka_unit_test(test_everything_that_the_agent_says_is_read),
                cmocka_unit_test(test_device_metadata_counts_beside_the_environment),
                cmocka_unit_test(test_device_metadata_that_cannot_be_read_is_an_error),
                cmocka_unit_test(test_of_two_limits_the_lower_one_is_the_promise),
                cmocka_unit_test(test_a_memory_limit_is_that_of_our_gpu),
                cmocka_unit_test(test_what_cannot_be_understood_is_named),
                cmocka_unit_test(test_an_allocation_that_is_kept_holds_without_a_word),
                cmocka_unit_test(test_each_broken_promise_is_named),
                cmocka_unit_test(test_the_tolerance_is_as_documented),
                cmocka_unit_test(test_what_could_not_be_judged_is_a_remark),
                cmocka_unit_test(test_every_broken_limit_is_reported),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
