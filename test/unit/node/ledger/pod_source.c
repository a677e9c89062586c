// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's answer about a pod, and what it becomes, also of a real kubelet (test/fixtures/kubelet-1.36). Who is asked,
 * and when, is tested with a kubelet (e2e/declared).
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <pods.pb-c.h>

#include "base/file.h"
#include "base/macro.h"
#include "net/kube/object.h"
#include "net/rpc/session.h"
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

/* ---- a real kubelet's connection ---- */

struct heard {
        json_t *pods[4];
        size_t count;
};

static void on_recorded_pod(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct heard *heard = data;
        struct error err;

        assert_in_range(heard->count, 0, ARRAY_SIZE(heard->pods) - 1);
        heard->pods[heard->count] = pod_answer_read(message, size, &err);
        assert_non_null(heard->pods[heard->count]);
        heard->count++;
}

static void on_recorded_end(
        struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text UNUSED, void *data UNUSED)
{
}

static void hear(struct rpc_session *session, const char *bytes, size_t size)
{
        const uint8_t *out;
        struct error err;

        assert_ok(rpc_session_receive(session, (const uint8_t *)bytes, size, 0, &err), &err);
        while (rpc_session_pending(session, &out) > 0)
                ;
}

/* The answers of a connection on which four pods were asked for, of which kubelet had three. */
static void hear_recording(struct heard *heard)
{
        static const struct rpc_handlers handlers = {.message = on_recorded_pod, .ended = on_recorded_end};
        const struct rpc_session_client_options options = {0};
        struct rpc_session *session = rpc_session_new_client(&options);
        struct rpc_message *empty = rpc_message_new(0);
        struct strbuf recording = STRBUF_INIT;
        struct error err;

        *heard = (struct heard){0};
        assert_ok(file_read(KUBELET_FIXTURES "/pods-kubelet-to-client.bin", 1 << 20, &recording, &err), &err);
        for (size_t i = 0; i < 4; i++)
                assert_non_null(rpc_session_call(
                        session, "/v1alpha1.Pods/GetPod", empty, 0, RPC_NO_DEADLINE, &handlers, heard));
        rpc_message_unref(empty);
        hear(session, "", 0);
        hear(session, recording.data, recording.size);
        rpc_session_free(session);
        strbuf_done(&recording);
        assert_int_equal(heard->count, 3);
}

static void heard_done(struct heard *heard)
{
        for (size_t i = 0; i < heard->count; i++)
                json_decref(heard->pods[i]);
}

static void test_what_a_recorded_pod_declares_is_read(void **state UNUSED)
{
        struct arena arena = ARENA_INIT;
        struct declared declared;
        struct heard heard;

        hear_recording(&heard);
        assert_string_equal(object_text(heard.pods[1], "metadata", "name", NULL), "declared");
        declared = declared_read(&arena, heard.pods[1], "main");
        assert_int_equal(declared.threads_permille, 600);
        assert_string_equal(declared.own_memory, "0=2G");
        assert_true(declared.is_unclear); /* it has an envFrom */
        assert_string_equal(
                object_text(
                        json_array_get(
                                object_find(json_array_get(object_find(heard.pods[1], "spec", "containers", NULL), 0),
                                        "volumeMounts", NULL),
                                0),
                        "mountPath", NULL),
                "/dev/shm");
        heard_done(&heard);
        arena_done(&arena);
}

/* The API server had "resourceClaimStatuses" of the first and "extendedResourceClaimStatus" of the third at that time. */
static void test_a_recorded_pod_names_no_claim_that_a_template_or_the_scheduler_made(void **state UNUSED)
{
        struct heard heard;
        const json_t *entry;

        hear_recording(&heard);
        entry = json_array_get(object_find(heard.pods[0], "spec", "resourceClaims", NULL), 0);
        assert_string_equal(object_text(heard.pods[0], "metadata", "name", NULL), "parts");
        assert_string_equal(object_text(entry, "resourceClaimTemplateName", NULL), "two");
        assert_null(object_text(entry, "resourceClaimName", NULL));
        assert_int_equal(json_array_size(object_find(heard.pods[0], "status", "resourceClaimStatuses", NULL)), 0);
        assert_string_equal(object_text(heard.pods[2], "metadata", "name", NULL), "extended");
        assert_null(object_find(heard.pods[2], "status", "extendedResourceClaimStatus", NULL));
        entry = json_array_get(object_find(heard.pods[2], "spec", "containers", NULL), 0);
        assert_non_null(object_find(entry, "resources", "limits", "nvidia.com/gpu.shared", NULL));
        heard_done(&heard);
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
                cmocka_unit_test(test_what_a_recorded_pod_declares_is_read),
                cmocka_unit_test(test_a_recorded_pod_names_no_claim_that_a_template_or_the_scheduler_made),
                cmocka_unit_test(test_a_path_that_no_socket_can_have_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
