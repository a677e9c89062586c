/*
 * kubelet's answer about a pod, and what it becomes. Who is asked, and when, is tested with a kubelet (e2e/declared).
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <pods.pb-c.h>

#include "node/ledger/pod_source.h"
#include "plan/declared.h"

static json_t *read_pod(V1alpha1__Pod *pod, struct error *err)
{
        V1alpha1__GetPodResponse response = V1ALPHA1__GET_POD_RESPONSE__INIT;
        uint8_t *bytes;
        size_t size;
        json_t *ret;

        response.pod = pod;
        size = v1alpha1__get_pod_response__get_packed_size(&response);
        bytes = malloc(size + 1);
        v1alpha1__get_pod_response__pack(&response, bytes);
        ret = pod_answer_read(bytes, size, err);
        free(bytes);
        return ret;
}

/* A pod with one container, one annotation and one variable, whose parts a test replaces. */
struct parts {
        struct arena arena;
        V1alpha1__Pod pod;
        V1alpha1__ObjectMeta metadata;
        V1alpha1__ObjectMeta__AnnotationsEntry annotation;
        V1alpha1__ObjectMeta__AnnotationsEntry *annotations[1];
        V1alpha1__PodSpec spec;
        V1alpha1__Container container;
        V1alpha1__Container *containers[1];
        V1alpha1__EnvVar variable;
        V1alpha1__EnvVar *env[1];
};

static void make_parts(struct parts *parts)
{
        parts->arena = (struct arena)ARENA_INIT;
        v1alpha1__pod__init(&parts->pod);
        v1alpha1__object_meta__init(&parts->metadata);
        v1alpha1__object_meta__annotations_entry__init(&parts->annotation);
        v1alpha1__pod_spec__init(&parts->spec);
        v1alpha1__container__init(&parts->container);
        v1alpha1__env_var__init(&parts->variable);
        parts->pod.metadata = &parts->metadata;
        parts->pod.spec = &parts->spec;
        parts->metadata.name = arena_strdup(&parts->arena, "train");
        parts->metadata.namespace_ = arena_strdup(&parts->arena, "team");
        parts->metadata.uid = arena_strdup(&parts->arena, "0b5a");
        parts->annotation.key = arena_strdup(&parts->arena, "warpshare.dev/threads");
        parts->annotation.value = arena_strdup(&parts->arena, "60");
        parts->annotations[0] = &parts->annotation;
        parts->metadata.annotations = parts->annotations;
        parts->metadata.n_annotations = 1;
        parts->container.name = arena_strdup(&parts->arena, "main");
        parts->containers[0] = &parts->container;
        parts->spec.containers = parts->containers;
        parts->spec.n_containers = 1;
        parts->variable.name = arena_strdup(&parts->arena, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        parts->variable.value = arena_strdup(&parts->arena, "0=2G");
        parts->env[0] = &parts->variable;
        parts->container.env = parts->env;
        parts->container.n_env = 1;
}

static void test_what_a_pod_declares_is_read_as_from_the_api_server(void **state UNUSED)
{
        V1alpha1__EnvVarSource source = V1ALPHA1__ENV_VAR_SOURCE__INIT;
        struct arena arena = ARENA_INIT;
        struct declared declared;
        struct parts parts;
        struct error err;
        json_t *pod;

        make_parts(&parts);
        pod = read_pod(&parts.pod, &err);
        assert_non_null(pod);
        declared = declared_read(&arena, pod, "main");
        assert_int_equal(declared.threads_permille, 600);
        assert_string_equal(declared.own_memory, "0=2G");
        assert_false(declared.is_unclear);
        json_decref(pod);

        *parts.variable.value = '\0';
        parts.variable.valuefrom = &source;
        pod = read_pod(&parts.pod, &err);
        assert_non_null(pod);
        declared = declared_read(&arena, pod, "main");
        assert_true(declared.has_own_memory);
        assert_true(declared.is_unclear);
        json_decref(pod);
        arena_done(&parts.arena);
        arena_done(&arena);
}

static void test_a_text_that_is_not_utf_8_makes_the_answer_invalid(void **state UNUSED)
{
        static char wrong[] = "\xff";

        for (unsigned int i = 0; i < 6; i++) {
                struct parts parts;
                struct error err;

                make_parts(&parts);
                *(char **[]){&parts.metadata.name, &parts.metadata.uid, &parts.annotation.key, &parts.annotation.value,
                        &parts.container.name, &parts.variable.value}[i] = wrong;
                assert_null(read_pod(&parts.pod, &err));
                assert_int_equal(err.kind, ERROR_INVALID);
                assert_string_equal(err.text, "a text of the pod is not UTF-8");
                arena_done(&parts.arena);
        }
}

static void test_an_answer_without_a_pod_is_invalid(void **state UNUSED)
{
        struct parts parts;
        struct error err;

        assert_null(read_pod(NULL, &err));
        assert_string_equal(err.text, "the answer has no pod with metadata and a specification");
        make_parts(&parts);
        parts.pod.spec = NULL;
        assert_null(read_pod(&parts.pod, &err));
        assert_int_equal(err.kind, ERROR_INVALID);
        arena_done(&parts.arena);
        assert_null(pod_answer_read((const uint8_t *)"\xff\xff", 2, &err));
        assert_int_equal(err.kind, ERROR_INVALID);
}

/* An empty container takes two bytes of an answer, and many times as much in memory. */
static void test_an_answer_made_to_use_much_memory_is_invalid(void **state UNUSED)
{
        const size_t n_containers = 500000;
        struct parts parts;
        struct error err;

        make_parts(&parts);
        parts.container = (V1alpha1__Container)V1ALPHA1__CONTAINER__INIT;
        parts.spec.n_containers = n_containers;
        parts.spec.containers = calloc(n_containers, sizeof(*parts.spec.containers));
        for (size_t i = 0; i < n_containers; i++)
                parts.spec.containers[i] = &parts.container;
        assert_null(read_pod(&parts.pod, &err));
        assert_int_equal(err.kind, ERROR_INVALID);
        free(parts.spec.containers);
        arena_done(&parts.arena);
}

static void test_a_path_that_no_socket_can_have_is_refused(void **state UNUSED)
{
        char path[200] = "";
        struct pod_source source;
        struct error err;

        memset(path, 'x', 108);
        assert_int_equal(pod_source_init(&source, NULL, path, NULL, &err), -1);
        assert_non_null(strstr(err.text, "the path has 108 bytes, at most 107 are possible"));
        path[107] = '\0';
        assert_ok(pod_source_init(&source, NULL, path, NULL, &err), &err);
        assert_true(pod_source_can_ask(&source, "0b5a"));
        assert_false(pod_source_can_ask(&source, NULL));
        pod_source_done(&source);
        assert_ok(pod_source_init(&source, NULL, "", NULL, &err), &err);
        assert_false(pod_source_can_ask(&source, "0b5a"));
        pod_source_done(&source);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_a_pod_declares_is_read_as_from_the_api_server),
                cmocka_unit_test(test_a_text_that_is_not_utf_8_makes_the_answer_invalid),
                cmocka_unit_test(test_an_answer_without_a_pod_is_invalid),
                cmocka_unit_test(test_an_answer_made_to_use_much_memory_is_invalid),
                cmocka_unit_test(test_a_path_that_no_socket_can_have_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
