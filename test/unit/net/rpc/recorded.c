// SPDX-License-Identifier: Apache-2.0
/*
 * Connections of a real kubelet, fed to our engine: whole, and cut at every byte. test/fixtures/kubelet-1.36/README.md
 * says what they hold.
 */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

struct arrived {
        char log[1024]; /* "path size, path size, …" */
};

static void note(struct arrived *arrived, const char *path, size_t size)
{
        size_t length = strlen(arrived->log);

        snprintf(arrived->log + length, sizeof(arrived->log) - length, "%s %zu\n", path, size);
}

static void answer_empty(struct rpc_call *call)
{
        struct rpc_message *message = rpc_message_new(0);

        rpc_call_send(call, message);
        rpc_call_finish(call, RPC_OK, NULL);
        rpc_message_unref(message);
}

#define NOTING_HANDLER(name)                                                                                           \
        static void handle_##name(struct rpc_call *call, const uint8_t *message UNUSED, size_t size, void *context)    \
        {                                                                                                              \
                note(context, #name, size);                                                                            \
                answer_empty(call);                                                                                    \
        }

NOTING_HANDLER(GetDevicePluginOptions)
NOTING_HANDLER(GetPreferredAllocation)
NOTING_HANDLER(Allocate)
NOTING_HANDLER(Register)
NOTING_HANDLER(List)
NOTING_HANDLER(GetAllocatableResources)
NOTING_HANDLER(Get)
NOTING_HANDLER(GetPod)

static void handle_ListAndWatch(struct rpc_call *call, const uint8_t *message UNUSED, size_t size, void *context)
{
        struct rpc_message *list = rpc_message_new(1000);

        note(context, "ListAndWatch", size);
        memset(rpc_message_payload(list), 0, 1000);
        rpc_call_send(call, list);
        rpc_message_unref(list);
}

static const struct rpc_method methods[] = {
        {"/v1beta1.DevicePlugin/GetDevicePluginOptions", handle_GetDevicePluginOptions},
        {"/v1beta1.DevicePlugin/ListAndWatch", handle_ListAndWatch},
        {"/v1beta1.DevicePlugin/GetPreferredAllocation", handle_GetPreferredAllocation},
        {"/v1beta1.DevicePlugin/Allocate", handle_Allocate},
        {"/v1beta1.Registration/Register", handle_Register},
        {"/v1.PodResourcesLister/List", handle_List},
        {"/v1.PodResourcesLister/GetAllocatableResources", handle_GetAllocatableResources},
        {"/v1.PodResourcesLister/Get", handle_Get},
        {"/v1alpha1.Pods/GetPod", handle_GetPod},
};

static void read_fixture(const char *name, struct strbuf *bytes)
{
        char path[512];
        struct error err;

        snprintf(path, sizeof(path), "%s/%s", KUBELET_FIXTURES, name);
        assert_ok(file_read(path, 1 << 20, bytes, &err), &err);
}

static void deliver(struct rpc_session *session, const char *bytes, size_t size)
{
        const uint8_t *out;
        struct error err;

        assert_ok(rpc_session_receive(session, (const uint8_t *)bytes, size, 0, &err), &err);
        while (rpc_session_pending(session, &out) > 0)
                ;
}

/* |cut|: in two reads, the first of that many bytes; 0: in reads of one byte. */
static void serve_recording(const struct strbuf *recording, size_t cut, const char *expected, const char *why)
{
        struct arrived arrived = {0};
        const struct rpc_service service = {methods, ARRAY_SIZE(methods), &arrived, {0}};
        struct rpc_session *session = rpc_session_new_server(&service);
        struct error err;

        if (cut > 0) {
                deliver(session, recording->data, cut);
                deliver(session, recording->data + cut, recording->size - cut);
        }
        for (size_t i = 0; cut == 0 && i < recording->size; i++)
                deliver(session, recording->data + i, 1);
        assert_string_equal(arrived.log, expected);
        if (why)
                assert_true(rpc_session_why(session, &err));
        else
                assert_false(rpc_session_why(session, &err));
        if (why)
                assert_string_equal(err.text, why);
        rpc_session_free(session);
}

/*
 * grpc-go says goodbye with a GOAWAY that names a stream of its own, where RFC 9113 6.8 wants one of the peer's.
 * nghttp2 takes that for a violation. It closes the connection anyway, so nothing is lost.
 */
static const char goodbye[] = "connection ended with PROTOCOL_ERROR: GOAWAY: invalid last_stream_id";

static void serve_however_cut(const char *name, const char *expected, const char *why)
{
        struct strbuf recording = STRBUF_INIT;

        read_fixture(name, &recording);
        for (size_t cut = 0; cut <= recording.size; cut++)
                serve_recording(&recording, cut, expected, why);
        strbuf_done(&recording);
}

static void test_kubelets_calls_to_a_plugin_arrive(void **state UNUSED)
{
        serve_however_cut("deviceplugin-kubelet-to-plugin.bin",
                "GetDevicePluginOptions 0\n"
                "ListAndWatch 0\n"
                "GetPreferredAllocation 3605\n"
                "Allocate 138\n"
                "GetPreferredAllocation 3470\n"
                "Allocate 47\n",
                NULL);
}

static void test_a_plugins_registration_arrives(void **state UNUSED)
{
        serve_however_cut("register-plugin-to-kubelet.bin", "Register 39\n", goodbye);
}

static void test_a_clients_podresources_calls_arrive(void **state UNUSED)
{
        serve_however_cut("podresources-client-to-kubelet.bin",
                "List 0\n"
                "GetAllocatableResources 0\n"
                "Get 13\n"
                "Get 15\n",
                goodbye);
}

static void test_a_clients_calls_about_pods_arrive(void **state UNUSED)
{
        serve_however_cut("pods-client-to-kubelet.bin",
                "GetPod 38\n"
                "GetPod 38\n"
                "GetPod 38\n"
                "GetPod 38\n",
                NULL);
}

/* ---- the other direction: answers to calls that we make in the same order ---- */

struct expected_answer {
        const char *path;
        unsigned int messages;
        size_t bytes;
        enum rpc_status status;
        const char *text;
        bool is_open; /* never ended by the recording */
};

static void check_answers(const struct strbuf *recording, size_t cut, const struct expected_answer *answers, size_t n)
{
        const struct rpc_session_client_options options = {0};
        struct rpc_session *session = rpc_session_new_client(&options);
        struct outcome outcomes[8] = {0};
        const uint8_t *bytes;

        assert_true(n <= ARRAY_SIZE(outcomes));
        for (size_t i = 0; i < n; i++) {
                struct rpc_message *request = rpc_message_new(0);
                struct rpc_call *call = rpc_session_call(
                        session, answers[i].path, request, 0, RPC_NO_DEADLINE, &outcome_handlers, &outcomes[i]);

                assert_non_null(call);
                rpc_message_unref(request);
        }
        while (rpc_session_pending(session, &bytes) > 0)
                ;
        if (cut > 0) {
                deliver(session, recording->data, cut);
                deliver(session, recording->data + cut, recording->size - cut);
        }
        for (size_t i = 0; cut == 0 && i < recording->size; i++)
                deliver(session, recording->data + i, 1);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(outcomes[i].messages, answers[i].messages);
                assert_int_equal(outcomes[i].bytes, answers[i].bytes);
                assert_int_equal(outcomes[i].ended, !answers[i].is_open);
                assert_int_equal(outcomes[i].status, answers[i].status);
                assert_string_equal(outcomes[i].text, answers[i].text);
        }
        rpc_session_free(session);
}

static void check_however_cut(const char *name, const struct expected_answer *answers, size_t n)
{
        struct strbuf recording = STRBUF_INIT;

        read_fixture(name, &recording);
        for (size_t cut = 0; cut <= recording.size; cut++)
                check_answers(&recording, cut, answers, n);
        strbuf_done(&recording);
}

static void test_kubelets_answers_to_podresources_arrive(void **state UNUSED)
{
        static const struct expected_answer answers[] = {
                {"/v1.PodResourcesLister/List", 1, 279, RPC_OK, "", false},
                {"/v1.PodResourcesLister/GetAllocatableResources", 1, 10080, RPC_OK, "", false},
                {"/v1.PodResourcesLister/Get", 1, 279, RPC_OK, "", false},
                {"/v1.PodResourcesLister/Get", 0, 0, RPC_UNKNOWN, "pod nope in namespace default not found", false},
        };

        check_however_cut("podresources-kubelet-to-client.bin", answers, ARRAY_SIZE(answers));
}

static void test_kubelets_answers_about_pods_arrive(void **state UNUSED)
{
        static const struct expected_answer answers[] = {
                {"/v1alpha1.Pods/GetPod", 1, 2845, RPC_OK, "", false},
                {"/v1alpha1.Pods/GetPod", 1, 2936, RPC_OK, "", false},
                {"/v1alpha1.Pods/GetPod", 1, 2041, RPC_OK, "", false},
                {"/v1alpha1.Pods/GetPod", 0, 0, RPC_NOT_FOUND,
                        "pod with UID 00000000-0000-0000-0000-000000000000 not found", false},
        };

        check_however_cut("pods-kubelet-to-client.bin", answers, ARRAY_SIZE(answers));
}

static void test_kubelets_answer_to_register_arrives(void **state UNUSED)
{
        static const struct expected_answer answers[] = {
                {"/v1beta1.Registration/Register", 1, 0, RPC_OK, "", false},
        };

        check_however_cut("register-kubelet-to-plugin.bin", answers, ARRAY_SIZE(answers));
}

static void test_a_plugins_answers_arrive(void **state UNUSED)
{
        static const struct expected_answer answers[] = {
                {"/v1beta1.DevicePlugin/GetDevicePluginOptions", 1, 2, RPC_OK, "", false},
                {"/v1beta1.DevicePlugin/ListAndWatch", 1, 4480, RPC_OK, "", true},
                {"/v1beta1.DevicePlugin/GetPreferredAllocation", 1, 138, RPC_OK, "", false},
                {"/v1beta1.DevicePlugin/Allocate", 1, 154, RPC_OK, "", false},
                {"/v1beta1.DevicePlugin/GetPreferredAllocation", 1, 47, RPC_OK, "", false},
                {"/v1beta1.DevicePlugin/Allocate", 1, 70, RPC_OK, "", false},
        };

        check_however_cut("deviceplugin-plugin-to-kubelet.bin", answers, ARRAY_SIZE(answers));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kubelets_calls_to_a_plugin_arrive),
                cmocka_unit_test(test_a_plugins_registration_arrives),
                cmocka_unit_test(test_a_clients_podresources_calls_arrive),
                cmocka_unit_test(test_a_clients_calls_about_pods_arrive),
                cmocka_unit_test(test_kubelets_answers_to_podresources_arrive),
                cmocka_unit_test(test_kubelets_answers_about_pods_arrive),
                cmocka_unit_test(test_kubelets_answer_to_register_arrives),
                cmocka_unit_test(test_a_plugins_answers_arrive),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
