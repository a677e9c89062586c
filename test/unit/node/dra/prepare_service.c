// SPDX-License-Identifier: Apache-2.0
/*
 * From kubelet's call to the claim's devices and back, over a socket: node/dra/service.h with node/dra/prepare.h behind
 * it.
 */
#include "socket.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <dra.pb-c.h>

#include "fake_node.h"
#include "base/io/loop.h"
#include "net/rpc/message.h"

#define V1 "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define PATIENCE_MS 60000

struct rig {
        struct fake_node node;
        struct dra_socket socket;
};

struct reply {
        bool ended;
        enum rpc_status status;
        char log[1024]; /* a line for each claim: its error, or its devices */
};

static void rig_init(struct rig *rig)
{
        fake_init(&rig->node);
        fake_start(&rig->node, "boot-1");
        dra_socket_open(&rig->socket, rig->node.folder,
                (struct dra_service_options){.prepare = rig->node.prepare, .lock_directory = rig->node.folder});
}

static void rig_done(struct rig *rig)
{
        dra_socket_close(&rig->socket);
        fake_done(&rig->node);
}

static void on_prepared(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        Dra__PrepareResponse *response = dra__prepare_response__unpack(NULL, size, message);
        struct reply *reply = data;

        assert_non_null(response);
        for (size_t i = 0; i < response->n_claims; i++) {
                const Dra__PrepareResult *result = response->claims[i]->value;
                size_t length = strlen(reply->log);

                length += (size_t)snprintf(reply->log + length, sizeof(reply->log) - length, "%s", result->error);
                for (size_t j = 0; j < result->n_devices; j++)
                        length += (size_t)snprintf(reply->log + length, sizeof(reply->log) - length, "%s %s %s",
                                result->devices[j]->request_names[0], result->devices[j]->cdi_device_ids[0],
                                result->devices[j]->share_id);
                snprintf(reply->log + length, sizeof(reply->log) - length, "\n");
        }
        dra__prepare_response__free_unpacked(response, NULL);
}

static void on_unprepared(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        Dra__UnprepareResponse *response = dra__unprepare_response__unpack(NULL, size, message);
        struct reply *reply = data;

        assert_non_null(response);
        assert_int_equal(response->n_claims, 1);
        snprintf(reply->log, sizeof(reply->log), "%s\n", response->claims[0]->value->error);
        dra__unprepare_response__free_unpacked(response, NULL);
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text UNUSED, void *data)
{
        struct reply *reply = data;

        reply->ended = true;
        reply->status = status;
}

static struct rpc_call *ask(struct rig *rig, const char *method, size_t i, struct reply *reply)
{
        const struct rpc_handlers handlers = {strstr(method, "NodeUnprepare") ? on_unprepared : on_prepared, on_ended};
        const struct dra_claim asked = fake_claim(i);
        Dra__ClaimsRequest request = DRA__CLAIMS_REQUEST__INIT;
        Dra__Claim claim = DRA__CLAIM__INIT;
        Dra__Claim *claims[] = {&claim};
        struct rpc_message *message;
        struct rpc_call *call;
        char texts[3][64];

        *reply = (struct reply){0};
        snprintf(texts[0], sizeof(texts[0]), "%s", asked.namespace);
        snprintf(texts[1], sizeof(texts[1]), "%s", asked.uid);
        snprintf(texts[2], sizeof(texts[2]), "%s", asked.name);
        claim.namespace_ = texts[0];
        claim.uid = texts[1];
        claim.name = texts[2];
        request.claims = claims;
        request.n_claims = 1;
        message = protobuf_pack(&request.base);
        rpc_client_call(rig->socket.client, &call, method, message, PATIENCE_MS, &handlers, reply);
        rpc_message_unref(message);
        return call;
}

static bool has_ended(void *data)
{
        return ((struct reply *)data)->ended;
}

static void await_reply(struct rig *rig, struct reply *reply, const char *log)
{
        assert_true(loop_run_until(&rig->socket.loop, has_ended, reply, PATIENCE_MS));
        assert_int_equal(reply->status, RPC_OK);
        assert_string_equal(reply->log, log);
}

struct expected_questions {
        const struct rig *rig;
        size_t requests;
        size_t asked;
};

static bool has_questions(void *data)
{
        const struct expected_questions *expected = data;

        return dra_service_requests(expected->rig->socket.service) == expected->requests &&
               expected->rig->node.n_asked == expected->asked;
}

/* Until kubelet's requests are there and the node was asked for so much. */
static void await_questions(struct rig *rig, size_t requests, size_t asked)
{
        assert_true(loop_run_until(
                &rig->socket.loop, has_questions, &(struct expected_questions){rig, requests, asked}, PATIENCE_MS));
}

#define DEVICE                                                                                                         \
        "main " FAKE_DRIVER                                                                                            \
        "/claim=c0000000-0000-4000-8000-000000000000-gpu-0-shared-50000000-0000-4000-8000-000000000000 "               \
        "50000000-0000-4000-8000-000000000000\n"

static void test_kubelet_asks_twice_and_takes_it_back_meanwhile(void **state UNUSED)
{
        struct reply first, second, third;
        struct rig rig;

        rig_init(&rig);
        ask(&rig, V1 "NodePrepareResources", 0, &first);
        await_questions(&rig, 1, 1);
        ask(&rig, V1 "NodePrepareResources", 0, &second);
        ask(&rig, V1 "NodeUnprepareResources", 0, &third);
        await_questions(&rig, 3, 1);
        fake_answer(&rig.node, 0);
        fake_answer(&rig.node, 0);
        await_reply(&rig, &first, DEVICE);
        await_reply(&rig, &second, DEVICE);
        await_questions(&rig, 1, 1);
        assert_int_equal(fake_mask_held(&rig.node), 1);
        fake_answer(&rig.node, 0);
        await_reply(&rig, &third, "\n");
        assert_int_equal(fake_mask_held(&rig.node), 0);
        assert_int_equal(fake_mask_cdi(&rig.node), 0);
        assert_int_equal(rig.node.n_reads, 1);
        rig_done(&rig);
}

static void test_a_prepare_that_nobody_waits_for_ends_where_it_has_made_nothing_yet(void **state UNUSED)
{
        struct reply reply, next;
        struct rpc_call *call;
        struct rig rig;

        rig_init(&rig);
        call = ask(&rig, V1 "NodePrepareResources", 0, &reply);
        await_questions(&rig, 1, 1);
        rpc_call_cancel(call);
        await_questions(&rig, 0, 0);
        assert_int_equal(dra_service_works(rig.socket.service), 0);
        call = ask(&rig, V1 "NodePrepareResources", 0, &reply);
        await_questions(&rig, 1, 1);
        fake_answer(&rig.node, 0);
        rpc_call_cancel(call);
        await_questions(&rig, 0, 1);
        assert_int_equal(rig.node.asked[0].kind, FAKE_ALLOCATE);
        ask(&rig, V1 "NodePrepareResources", 0, &next);
        await_questions(&rig, 1, 1);
        fake_answer(&rig.node, 0);
        await_reply(&rig, &next, DEVICE);
        rig_done(&rig);
}

static void test_what_is_refused_is_kubelet_s_error(void **state UNUSED)
{
        struct reply reply;
        struct rig rig;

        rig_init(&rig);
        rig.node.answers_at_once = true;
        rig.node.refuses_allocations = true;
        ask(&rig, V1 "NodePrepareResources", 0, &reply);
        await_reply(&rig, &reply, "no memory left\n");
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kubelet_asks_twice_and_takes_it_back_meanwhile),
                cmocka_unit_test(test_a_prepare_that_nobody_waits_for_ends_where_it_has_made_nothing_yet),
                cmocka_unit_test(test_what_is_refused_is_kubelet_s_error),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
