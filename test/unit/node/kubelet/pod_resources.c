// SPDX-License-Identifier: Apache-2.0
/*
 * Who holds what: a real kubelet's answer as it was recorded, answers that no kubelet should give, and the questions.
 */
#include "until.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include <podresources.pb-c.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "node/kubelet/pod_resources.h"
#include "net/rpc/server.h"

/* ---- answers ---- */

/* "namespace/pod/container: resource=id resource=id\n" for each container. */
static char *describe(const struct pod_list *list)
{
        struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < list->n_containers; i++) {
                const struct pod_container *container = &list->containers[i];

                strbuf_printf(&text, "%s/%s/%s:", container->pod_namespace, container->pod, container->container);
                for (size_t j = 0; j < container->n_devices; j++)
                        strbuf_printf(&text, " %s=%s", container->devices[j].resource, container->devices[j].id);
                strbuf_printf(&text, "\n");
        }
        return strbuf_take(&text);
}

/* One container of a list that is being made: a device stands in an entry of its own, as kubelet has it. */
struct held {
        const char *pod;
        const char *container;
        const char *devices[4]; /* "resource=id" */
};

static V1__ContainerDevices *make_devices(struct arena *arena, const char *device)
{
        V1__ContainerDevices *devices = ARENA_NEW(arena, V1__ContainerDevices);
        const char *id = strchr(device, '=') + 1;

        v1__container_devices__init(devices);
        devices->resource_name = arena_strndup(arena, device, (size_t)(id - 1 - device));
        devices->n_device_ids = 1;
        devices->device_ids = ARENA_NEW(arena, char *);
        devices->device_ids[0] = arena_strdup(arena, id);
        return devices;
}

static V1__PodResources *make_pod(struct arena *arena, const struct held *held)
{
        V1__PodResources *pod = ARENA_NEW(arena, V1__PodResources);
        V1__ContainerResources *container = ARENA_NEW(arena, V1__ContainerResources);

        v1__pod_resources__init(pod);
        v1__container_resources__init(container);
        pod->name = arena_strdup(arena, held->pod);
        pod->namespace_ = arena_strdup(arena, "default");
        pod->n_containers = 1;
        pod->containers = ARENA_NEW(arena, V1__ContainerResources *);
        pod->containers[0] = container;
        container->name = arena_strdup(arena, held->container);
        container->devices = ARENA_ARRAY(arena, V1__ContainerDevices *, ARRAY_SIZE(held->devices));
        while (container->n_devices < ARRAY_SIZE(held->devices) && held->devices[container->n_devices]) {
                container->devices[container->n_devices] = make_devices(arena, held->devices[container->n_devices]);
                container->n_devices++;
        }
        return pod;
}

static struct rpc_message *make_answer(const struct held *held, size_t n_held)
{
        V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
        struct arena arena = ARENA_INIT;
        struct rpc_message *message;

        response.n_pod_resources = n_held;
        response.pod_resources = ARENA_ARRAY(&arena, V1__PodResources *, n_held);
        for (size_t i = 0; i < n_held; i++)
                response.pod_resources[i] = make_pod(&arena, &held[i]);
        message = rpc_message_new(v1__list_pod_resources_response__get_packed_size(&response));
        v1__list_pod_resources_response__pack(&response, rpc_message_payload(message));
        arena_done(&arena);
        return message;
}

static void assert_read(const struct held *held, size_t n_held, const char *prefix, const char *expected)
{
        struct rpc_message *message = make_answer(held, n_held);
        struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        struct pod_list list;
        struct error err;

        assert_ok(pod_list_read(
                          &list, &arena, prefix, rpc_message_payload(message), message->size - RPC_PREFIX_SIZE, &err),
                &err);
        text = describe(&list);
        assert_string_equal(text, expected);
        arena_done(&arena);
        rpc_message_unref(message);
}

static void test_containers_without_devices_are_left_out(void **state UNUSED)
{
        static const struct held held[] = {
                {"web", "nginx", {NULL}},
                {"train", "main", {"nvidia.com/gpu=GPU-0::1", "nvidia.com/gpu=GPU-0::0"}},
        };

        assert_read(
                held, ARRAY_SIZE(held), "", "default/train/main: nvidia.com/gpu=GPU-0::0 nvidia.com/gpu=GPU-0::1\n");
        assert_read(held, 1, "", "");
        assert_read(held, 0, "", "");
}

static void test_resources_of_others_are_left_out_where_that_is_wanted(void **state UNUSED)
{
        static const struct held held[] = {
                {"net", "main", {"example.com/nic=0"}},
                {"both", "main", {"nvidia.com/gpu=GPU-1", "example.com/nic=1", "nvidia.com/gpu.small=GPU-2::0"}},
        };

        assert_read(held, ARRAY_SIZE(held), "nvidia.com/",
                "default/both/main: nvidia.com/gpu=GPU-1 nvidia.com/gpu.small=GPU-2::0\n");
        assert_read(held, ARRAY_SIZE(held), "",
                "default/net/main: example.com/nic=0\n"
                "default/both/main: example.com/nic=1 nvidia.com/gpu=GPU-1 nvidia.com/gpu.small=GPU-2::0\n");
}

/* A device of two NUMA nodes has two entries. */
static void test_a_device_that_is_listed_twice_is_held_once(void **state UNUSED)
{
        static const struct held held[] = {
                {"pod", "main", {"nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1"}},
        };

        assert_read(held, ARRAY_SIZE(held), "", "default/pod/main: nvidia.com/gpu=GPU-0 nvidia.com/gpu=GPU-1\n");
}

static void test_a_device_in_two_containers_of_a_pod_is_with_the_later_and_two_pods_both_have_it(void **state UNUSED)
{
        static const struct held held[] = {
                {"one", "first", {"nvidia.com/gpu=GPU-0"}},
                {"one", "main", {"nvidia.com/gpu=GPU-0"}},
                {"other", "main", {"nvidia.com/gpu.small=GPU-0", "nvidia.com/gpu=GPU-1"}},
                {"two", "main", {"nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-2"}},
                {"one", "main", {"nvidia.com/gpu=GPU-2"}},
                {"two", "last", {"nvidia.com/gpu=GPU-2"}},
        };

        assert_read(held, ARRAY_SIZE(held), "",
                "default/one/main: nvidia.com/gpu=GPU-0\n"
                "default/other/main: nvidia.com/gpu=GPU-1 nvidia.com/gpu.small=GPU-0\n"
                "default/two/main: nvidia.com/gpu=GPU-0\n"
                "default/one/main: nvidia.com/gpu=GPU-2\n"
                "default/two/last: nvidia.com/gpu=GPU-2\n");
}

static void test_an_answer_that_is_cut_is_refused_or_read_but_never_beyond(void **state UNUSED)
{
        static const struct held held[] = {{"pod", "main", {"nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1"}}};
        struct rpc_message *message = make_answer(held, 1);
        size_t size = message->size - RPC_PREFIX_SIZE;

        for (size_t cut = 1; cut < size; cut++) {
                uint8_t *exactly = malloc(cut); /* so that the address sanitizer knows its end */
                struct arena arena = ARENA_INIT;
                struct pod_list list;
                struct error err;

                memcpy(exactly, rpc_message_payload(message), cut);
                assert_int_equal(pod_list_read(&list, &arena, "", exactly, cut, &err), -1);
                assert_int_equal(err.kind, ERROR_INVALID);
                arena_done(&arena);
                free(exactly);
        }
        rpc_message_unref(message);
}

/* Empty pods of two bytes each, which cost fifty times as much when they are decoded. */
static void test_an_answer_made_to_cost_memory_is_refused(void **state UNUSED)
{
        size_t size = (size_t)8 << 20;
        uint8_t *bytes = malloc(size);
        struct arena arena = ARENA_INIT;
        struct pod_list list;
        struct error err;

        for (size_t i = 0; i < size; i += 2) {
                bytes[i] = 0x0a;
                bytes[i + 1] = 0;
        }
        assert_fails(pod_list_read(&list, &arena, "", bytes, size, &err), &err, ERROR_INVALID,
                "ListPodResourcesResponse of 8388608 bytes: cannot be decoded within 67108864 bytes of memory");
        assert_in_range(arena_footprint(&arena), 0, (size_t)80 << 20);
        arena_done(&arena);
        free(bytes);
}

/* ---- a real kubelet's connection ---- */

struct heard {
        unsigned int messages;
        char *first; /* the first message, described */
};

static void on_recorded_message(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct heard *heard = data;
        struct arena arena = ARENA_INIT;
        struct pod_list list;
        struct error err;

        if (heard->messages++ > 0)
                return;
        assert_ok(pod_list_read(&list, &arena, "nvidia.com/", message, size, &err), &err);
        heard->first = describe(&list);
        arena_done(&arena);
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

/* The four calls of the recording, and its bytes in two reads. */
static char *replay(const struct strbuf *recording, size_t cut)
{
        static const char *const methods[] = {"List", "GetAllocatableResources", "Get", "Get"};
        static const struct rpc_handlers handlers = {.message = on_recorded_message, .ended = on_recorded_end};
        const struct rpc_session_client_options options = {0};
        struct rpc_session *session = rpc_session_new_client(&options);
        struct rpc_message *empty = rpc_message_new(0);
        struct heard heard = {0};
        struct heard ignored = {.messages = 1};

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                _free_ char *path = xasprintf("/v1.PodResourcesLister/%s", methods[i]);

                assert_non_null(rpc_session_call(
                        session, path, empty, 0, RPC_NO_DEADLINE, &handlers, i == 0 ? &heard : &ignored));
        }
        rpc_message_unref(empty);
        hear(session, "", 0);
        hear(session, recording->data, cut);
        hear(session, recording->data + cut, recording->size - cut);
        rpc_session_free(session);
        assert_int_equal(heard.messages, 1);
        return heard.first;
}

static void test_a_recorded_list_is_read_wherever_it_is_cut(void **state UNUSED)
{
        struct strbuf recording = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(KUBELET_FIXTURES "/podresources-kubelet-to-client.bin", 1 << 20, &recording, &err), &err);
        for (size_t cut = 0; cut <= recording.size; cut++) {
                _free_ char *text = replay(&recording, cut);

                assert_string_equal(text, "default/t2/c:"
                                          " nvidia.com/rec=GPU-12345678-1234-1234-1234-123456780001::5"
                                          " nvidia.com/rec=GPU-12345678-1234-1234-1234-123456780006::8"
                                          " nvidia.com/rec=GPU-12345678-1234-1234-1234-123456780007::6\n"
                                          "default/t2/d:"
                                          " nvidia.com/rec=GPU-12345678-1234-1234-1234-123456780003::9\n");
        }
        strbuf_done(&recording);
}

/* ---- questions ---- */

/* A kubelet that answers as the test wants, in a folder of its own, and somebody who asks it. */
struct fixture {
        uv_loop_t loop;
        char folder[64];
        char socket[96];
        struct rpc_server *server;
        unsigned int disconnects;
        struct pod_resources *pods;
        unsigned int calls;    /* that kubelet had */
        struct rpc_call *held; /* the last one, where it does not answer */
        bool holds;
        enum rpc_status status; /* of its answers */
        size_t n_devices;       /* in them */
        int digits;             /* of the number in a device's id, at least */
        unsigned int answers;   /* that the asker had */
        enum error_kind kind;   /* of the last */
        char text[512];         /* what is wrong with it, or the list */
        size_t n_listed;
        unsigned int closes_at; /* the answer in which the asker does this; 0: in none */
        unsigned int asks_at;   /* and this */
};

static void answer(struct fixture *f, struct rpc_call *call)
{
        V1__ListPodResourcesResponse response = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
        struct held one = {"pod", "main", {"nvidia.com/gpu=GPU-0"}};
        struct arena arena = ARENA_INIT;
        V1__PodResources *pod = make_pod(&arena, &one);
        V1__ContainerResources *container = pod->containers[0];
        struct rpc_message *message;

        container->devices = ARENA_ARRAY(&arena, V1__ContainerDevices *, f->n_devices);
        for (container->n_devices = 0; container->n_devices < f->n_devices; container->n_devices++)
                container->devices[container->n_devices] = make_devices(
                        &arena, arena_printf(&arena, "nvidia.com/gpu=GPU-12345678-1234-1234-1234-123456780001::%0*zu",
                                        f->digits, container->n_devices));
        response.n_pod_resources = 1;
        response.pod_resources = &pod;
        message = rpc_message_new(v1__list_pod_resources_response__get_packed_size(&response));
        v1__list_pod_resources_response__pack(&response, rpc_message_payload(message));
        if (f->status == RPC_OK)
                rpc_call_send(call, message);
        rpc_call_finish(call, f->status, f->status == RPC_OK ? NULL : "rejected by rate limit, please retry later.");
        rpc_message_unref(message);
        arena_done(&arena);
}

static void on_call_ended(struct rpc_call *call, void *data)
{
        struct fixture *f = data;

        if (f->held == call)
                f->held = NULL;
}

static void handle_list(struct rpc_call *call, const uint8_t *message UNUSED, size_t size, void *context)
{
        struct fixture *f = context;

        assert_int_equal(size, 0);
        f->calls++;
        if (f->holds) {
                f->held = call;
                rpc_call_on_ended(call, on_call_ended, f);
        } else {
                answer(f, call);
        }
}

static void on_disconnect(void *context)
{
        ((struct fixture *)context)->disconnects++;
}

/* It has one connection at a time: a second one would end the first. */
static void start_kubelet(struct fixture *f)
{
        static const struct rpc_method methods[] = {{"/v1.PodResourcesLister/List", handle_list}};
        const struct rpc_server_options options = {.service = {.methods = methods, .n_methods = 1, .context = f},
                .connections = 1,
                .on_disconnect = on_disconnect};
        struct error err;

        assert_ok(rpc_server_new(&f->server, &f->loop, f->socket, &options, &err), &err);
}

static void on_kubelet_closed(void *data)
{
        ((struct fixture *)data)->server = NULL;
}

static void stop_kubelet(struct fixture *f)
{
        rpc_server_close(f->server, 0, on_kubelet_closed, f);
        UNTIL(&f->loop, !f->server);
}

static void on_list(const struct error *err, const struct pod_list *list, void *data)
{
        struct fixture *f = data;

        f->answers++;
        f->kind = err ? err->kind : ERROR_NONE;
        snprintf(f->text, sizeof(f->text), "%s", err ? err->text : "");
        f->n_listed = list && list->n_containers ? list->containers[0].n_devices : 0;
        if (f->answers == f->asks_at)
                pod_resources_list(f->pods, on_list, f);
        if (f->answers == f->closes_at) {
                pod_resources_close(f->pods);
                f->pods = NULL;
        }
}

static void ask(struct fixture *f)
{
        pod_resources_list(f->pods, on_list, f);
}

/* The program's own time limit is the deadline. */
static void wait_answers(struct fixture *f, unsigned int answers)
{
        UNTIL(&f->loop, f->answers >= answers);
        assert_int_equal(f->answers, answers);
}

static void wait_calls(struct fixture *f, unsigned int calls)
{
        UNTIL(&f->loop, f->calls >= calls);
        assert_int_equal(f->calls, calls);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        struct error err;

        strcpy(f->folder, "/tmp/warpshare-pods-XXXXXX");
        if (!mkdtemp(f->folder))
                return -1;
        snprintf(f->socket, sizeof(f->socket), "%s/kubelet.sock", f->folder);
        uv_loop_init(&f->loop);
        f->n_devices = 2;
        assert_ok(pod_resources_new(&f->pods, &f->loop, f->socket, &err), &err);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        pod_resources_close(f->pods);
        if (f->server)
                stop_kubelet(f);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(rmdir(f->folder), 0);
        free(f);
        return 0;
}

static void test_a_question_is_answered_over_one_connection(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        for (unsigned int i = 1; i <= 3; i++) {
                ask(f);
                wait_answers(f, i);
                assert_string_equal(f->text, "");
                assert_int_equal(f->n_listed, 2);
                assert_int_equal(f->disconnects, 0);
        }
}

/* Beyond the 64 KiB of a window that nobody opens again. */
static void test_ten_thousand_devices_fit_into_an_answer(void **state)
{
        struct fixture *f = *state;

        f->n_devices = 10000;
        start_kubelet(f);
        ask(f);
        wait_answers(f, 1);
        assert_string_equal(f->text, "");
        assert_int_equal(f->n_listed, 10000);
}

static void test_an_answer_beyond_16_mib_is_an_error(void **state)
{
        struct fixture *f = *state;

        f->n_devices = 17;
        f->digits = 1024 * 1024;
        start_kubelet(f);
        ask(f);
        wait_answers(f, 1);
        assert_int_equal(f->kind, ERROR_UNAVAILABLE);
        assert_non_null(strstr(f->text, "ResourceExhausted"));
        f->n_devices = 1;
        ask(f);
        wait_answers(f, 2);
        assert_int_equal(f->n_listed, 1);
}

static void test_questions_that_come_while_one_is_on_its_way_share_the_next_answer(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        f->holds = true;
        ask(f);
        wait_calls(f, 1);
        f->holds = false;
        ask(f);
        ask(f);
        assert_int_equal(f->calls, 1);
        answer(f, f->held);
        rpc_call_flush(f->held);
        wait_answers(f, 3);
        assert_int_equal(f->calls, 2);
}

static void test_without_a_kubelet_a_request_fails_and_the_next_one_tries_again(void **state)
{
        struct fixture *f = *state;
        _free_ char *expected = xasprintf(
                "List on '%s': Unavailable: connect to '%s': No such file or directory", f->socket, f->socket);

        ask(f);
        assert_int_equal(f->answers, 0); /* never from within */
        wait_answers(f, 1);
        assert_int_equal(f->kind, ERROR_UNAVAILABLE);
        assert_string_equal(f->text, expected);
        start_kubelet(f);
        ask(f);
        wait_answers(f, 2);
        assert_string_equal(f->text, "");
}

static void test_a_restarted_kubelet_is_asked(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        ask(f);
        wait_answers(f, 1);
        stop_kubelet(f);
        start_kubelet(f);
        ask(f);
        wait_answers(f, 2);
        if (f->kind) { /* the question went out before the end of the old connection was seen */
                ask(f);
                wait_answers(f, 3);
        }
        assert_string_equal(f->text, "");
        assert_int_equal(f->calls, 2);
}

static void test_a_kubelet_that_dies_over_a_question_is_an_error(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        f->holds = true;
        ask(f);
        wait_calls(f, 1);
        stop_kubelet(f);
        wait_answers(f, 1);
        assert_int_equal(f->kind, ERROR_UNAVAILABLE);
}

static void test_too_many_calls_for_kubelet_are_worth_trying_again(void **state)
{
        struct fixture *f = *state;
        _free_ char *expected =
                xasprintf("List on '%s': ResourceExhausted: rejected by rate limit, please retry later.", f->socket);

        start_kubelet(f);
        f->status = RPC_RESOURCE_EXHAUSTED;
        ask(f);
        wait_answers(f, 1);
        assert_int_equal(f->kind, ERROR_UNAVAILABLE);
        assert_string_equal(f->text, expected);
        f->status = RPC_OK;
        ask(f);
        wait_answers(f, 2);
        assert_int_equal(f->kind, ERROR_NONE);
}

static void test_a_kubelet_that_never_answers_costs_five_seconds(void **state)
{
        struct fixture *f = *state;
        uint64_t started;

        start_kubelet(f);
        f->holds = true;
        started = uv_hrtime();
        ask(f);
        wait_answers(f, 1);
        assert_in_range(uv_hrtime() - started, UINT64_C(4900000000), UINT64_C(60000000000));
        assert_int_equal(f->kind, ERROR_TIMEOUT);
}

static void test_nothing_is_called_back_after_the_end(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        f->holds = true;
        ask(f);
        wait_calls(f, 1);
        ask(f);
        pod_resources_close(f->pods);
        f->pods = NULL;
        stop_kubelet(f);
        assert_int_equal(f->answers, 0);
}

/* The second of two that share an answer is no more told, and the question from within is dropped. */
static void test_an_answer_may_end_it_all(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        f->holds = true;
        ask(f);
        wait_calls(f, 1);
        ask(f);
        ask(f);
        f->holds = false;
        answer(f, f->held);
        rpc_call_flush(f->held);
        f->asks_at = f->closes_at = 2;
        wait_answers(f, 2);
        stop_kubelet(f);
        assert_int_equal(f->answers, 2);
        assert_int_equal(f->calls, 2);
}

static void test_a_question_from_within_an_answer_is_a_new_one(void **state)
{
        struct fixture *f = *state;

        start_kubelet(f);
        f->asks_at = 1;
        ask(f);
        wait_answers(f, 2);
        assert_int_equal(f->calls, 2);
}

static void test_a_path_that_no_socket_can_have_is_refused(void **state)
{
        struct fixture *f = *state;
        struct pod_resources *pods;
        char path[200] = "";
        struct error err;

        assert_fails(pod_resources_new(&pods, &f->loop, path, &err), &err, ERROR_INVALID,
                "socket '': the path has 0 bytes, from 1 to 107 are possible");
        memset(path, 'x', 108);
        assert_int_equal(pod_resources_new(&pods, &f->loop, path, &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_containers_without_devices_are_left_out),
                cmocka_unit_test(test_resources_of_others_are_left_out_where_that_is_wanted),
                cmocka_unit_test(test_a_device_that_is_listed_twice_is_held_once),
                cmocka_unit_test(test_a_device_in_two_containers_of_a_pod_is_with_the_later_and_two_pods_both_have_it),
                cmocka_unit_test(test_an_answer_that_is_cut_is_refused_or_read_but_never_beyond),
                cmocka_unit_test(test_an_answer_made_to_cost_memory_is_refused),
                cmocka_unit_test(test_a_recorded_list_is_read_wherever_it_is_cut),
                cmocka_unit_test_setup_teardown(test_a_question_is_answered_over_one_connection, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_ten_thousand_devices_fit_into_an_answer, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_answer_beyond_16_mib_is_an_error, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_questions_that_come_while_one_is_on_its_way_share_the_next_answer, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_without_a_kubelet_a_request_fails_and_the_next_one_tries_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_restarted_kubelet_is_asked, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_kubelet_that_dies_over_a_question_is_an_error, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_too_many_calls_for_kubelet_are_worth_trying_again, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_kubelet_that_never_answers_costs_five_seconds, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_nothing_is_called_back_after_the_end, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_an_answer_may_end_it_all, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_question_from_within_an_answer_is_a_new_one, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_path_that_no_socket_can_have_is_refused, set_up, tear_down),
        };

        signal(SIGPIPE, SIG_IGN); /* as the agent does */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
