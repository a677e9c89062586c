// SPDX-License-Identifier: Apache-2.0
/*
 * The service between a client of ours and functions in place of node/dra/prepare.h that answer when the test says, on
 * a real socket; and a real kubelet's connection, fed whole and cut at every byte.
 */
#include "socket.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <dra.pb-c.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/lock.h"
#include "base/io/loop.h"
#include "node/dra/prepare.h"
#include "net/rpc/message.h"

#define V1 "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define V1BETA1 "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"
#define PATIENCE_MS 60000

struct work {
        char uid[64];
        dra_prepare_done_fn *done;
        void *data;
};

struct rig {
        char folder[64];
        struct dra_socket socket;
        bool answers_at_once;
        char log[1024]; /* "prepare UID\n", … */
        struct work works[64];
        size_t n_works;
        struct lock *other; /* dra_prepare_settle() tries it; NULL: it does not */
        unsigned int n_idle;
        char abandoned[64]; /* UID of the last one */
};

struct reply {
        bool ended;
        enum rpc_status status;
        char text[256];
        char log[1024]; /* "UID=error devices share\n", … */
};

static struct rig *rig_of(struct dra_prepare *prepare)
{
        return (struct rig *)prepare;
}

static void begin_work(
        struct rig *rig, const char *kind, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        size_t length = strlen(rig->log);

        snprintf(rig->log + length, sizeof(rig->log) - length, "%s %s\n", kind, claim->uid);
        if (rig->answers_at_once) {
                done(NULL, NULL, data);
        } else {
                struct work *work = &rig->works[rig->n_works++];

                *work = (struct work){.done = done, .data = data};
                snprintf(work->uid, sizeof(work->uid), "%s", claim->uid);
        }
}

void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        begin_work(rig_of(prepare), "prepare", claim, done, data);
}

void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        begin_work(rig_of(prepare), "unprepare", claim, done, data);
}

void dra_prepare_abandon(struct dra_prepare *prepare, const struct dra_claim *claim)
{
        struct rig *rig = rig_of(prepare);

        snprintf(rig->abandoned, sizeof(rig->abandoned), "%s", claim->uid);
}

void dra_prepare_settle(struct dra_prepare *prepare)
{
        struct rig *rig = rig_of(prepare);
        struct error err;

        rig->n_idle++;
        if (rig->other)
                assert_int_equal(lock_take(rig->other, rig->folder, &err), LOCK_BUSY);
}

static void rig_init(struct rig *rig, uint64_t timeout_ms, bool has_lock)
{
        *rig = (struct rig){0};
        strcpy(rig->folder, "/tmp/dra-service-XXXXXX");
        assert_non_null(mkdtemp(rig->folder));
        dra_socket_open(&rig->socket, rig->folder,
                (struct dra_service_options){.prepare = (struct dra_prepare *)rig,
                        .lock_directory = has_lock ? rig->folder : NULL,
                        .timeout_ms = timeout_ms,
                        .resend_ms = 20});
}

static void rig_done(struct rig *rig)
{
        dra_socket_close(&rig->socket);
        assert_int_equal(rmdir(rig->folder), 0);
}

static void note_answer(struct reply *reply, const char *uid, const char *error, size_t n_devices, const char *share_id)
{
        size_t length = strlen(reply->log);

        snprintf(reply->log + length, sizeof(reply->log) - length, "%s=%s %zu %s\n", uid, error, n_devices, share_id);
}

static void on_prepared(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        Dra__PrepareResponse *response = dra__prepare_response__unpack(NULL, size, message);

        assert_non_null(response);
        for (size_t i = 0; i < response->n_claims; i++) {
                const Dra__PrepareResult *result = response->claims[i]->value;

                note_answer(data, response->claims[i]->key, result->error, result->n_devices,
                        result->n_devices > 0 ? result->devices[0]->share_id : "");
        }
        dra__prepare_response__free_unpacked(response, NULL);
}

static void on_unprepared(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        Dra__UnprepareResponse *response = dra__unprepare_response__unpack(NULL, size, message);

        assert_non_null(response);
        for (size_t i = 0; i < response->n_claims; i++)
                note_answer(data, response->claims[i]->key, response->claims[i]->value->error, 0, "");
        dra__unprepare_response__free_unpacked(response, NULL);
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct reply *reply = data;

        reply->ended = true;
        reply->status = status;
        snprintf(reply->text, sizeof(reply->text), "%s", text);
}

/* |uids|: one a word. */
static struct rpc_call *ask(struct rig *rig, const char *method, const char *uids, struct reply *reply)
{
        const struct rpc_handlers handlers = {strstr(method, "NodeUnprepare") ? on_unprepared : on_prepared, on_ended};
        Dra__ClaimsRequest request = DRA__CLAIMS_REQUEST__INIT;
        Dra__Claim claims[8];
        Dra__Claim *pointers[8];
        char namespace[] = "default", name[] = "mine";
        char *copy = xstrdup(uids);
        char *rest = copy;
        struct rpc_message *message;
        struct rpc_call *call;

        *reply = (struct reply){0};
        for (char *uid; (uid = strsep(&rest, " ")); request.n_claims++) {
                dra__claim__init(&claims[request.n_claims]);
                claims[request.n_claims].namespace_ = namespace;
                claims[request.n_claims].uid = uid;
                claims[request.n_claims].name = name;
                pointers[request.n_claims] = &claims[request.n_claims];
        }
        request.claims = pointers;
        message = protobuf_pack(&request.base);
        rpc_client_call(rig->socket.client, &call, method, message, PATIENCE_MS, &handlers, reply);
        rpc_message_unref(message);
        free(copy);
        return call;
}

static bool has_ended(void *data)
{
        return ((struct reply *)data)->ended;
}

static void await_reply(struct rig *rig, struct reply *reply)
{
        assert_true(loop_run_until(&rig->socket.loop, has_ended, reply, PATIENCE_MS));
}

struct expected_requests {
        const struct rig *rig;
        size_t count;
};

static bool has_requests(void *data)
{
        const struct expected_requests *expected = data;

        return dra_service_requests(expected->rig->socket.service) == expected->count;
}

static void await_requests(struct rig *rig, size_t count)
{
        assert_true(
                loop_run_until(&rig->socket.loop, has_requests, &(struct expected_requests){rig, count}, PATIENCE_MS));
}

static void succeed(struct work work)
{
        struct dra_result result = {.request = "gpu",
                .pool = "node",
                .device = "gpu-0-shared",
                .cdi_id = "warpshare.dev/claim=u-gpu",
                .share_id = "share-1"};
        const struct dra_claim claim = {.uid = work.uid, .results = &result, .n_results = 1};

        work.done(&claim, NULL, work.data);
}

/* ---- answers ---- */

static void test_every_claim_has_its_own_answer_and_v1_has_the_share_id(void **state UNUSED)
{
        struct rig rig;
        struct reply reply;
        struct error err;

        rig_init(&rig, 0, false);
        ask(&rig, V1 "NodePrepareResources", "a b", &reply);
        await_requests(&rig, 1);
        assert_string_equal(rig.log, "prepare a\nprepare b\n");
        error_raise(&err, ERROR_EXHAUSTED, "no memory left");
        rig.works[1].done(NULL, &err, rig.works[1].data);
        succeed(rig.works[0]);
        await_reply(&rig, &reply);
        assert_int_equal(reply.status, RPC_OK);
        assert_string_equal(reply.log, "a= 1 share-1\nb=no memory left 0 \n");
        rig_done(&rig);
}

static void test_v1beta1_has_no_share_id(void **state UNUSED)
{
        struct rig rig;
        struct reply reply;

        rig_init(&rig, 0, false);
        ask(&rig, V1BETA1 "NodePrepareResources", "a", &reply);
        await_requests(&rig, 1);
        succeed(rig.works[0]);
        await_reply(&rig, &reply);
        assert_string_equal(reply.log, "a= 1 \n");
        rig_done(&rig);
}

static void test_a_request_that_is_not_kubelets_is_refused(void **state UNUSED)
{
        static const struct {
                const char *uids;
                const char *text;
        } rows[] = {
                {"../etc", "claim UID '../etc': must be 1 to 63 letters, digits and '-'"},
                {"a a", "claim a: twice in one request"},
                {"", "claim UID '': must be 1 to 63 letters, digits and '-'"},
        };
        struct rig rig;
        struct reply reply;

        rig_init(&rig, 0, false);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                ask(&rig, V1 "NodePrepareResources", rows[i].uids, &reply);
                await_reply(&rig, &reply);
                assert_int_equal(reply.status, RPC_INVALID_ARGUMENT);
                assert_string_equal(reply.text, rows[i].text);
        }
        assert_string_equal(rig.log, "");
        rig_done(&rig);
}

/* ---- one claim, several requests ---- */

static void test_two_requests_for_one_claim_share_the_work_and_its_opposite_waits(void **state UNUSED)
{
        struct rig rig;
        struct reply first, second, third;

        rig_init(&rig, 0, false);
        ask(&rig, V1 "NodePrepareResources", "a", &first);
        ask(&rig, V1 "NodePrepareResources", "a", &second);
        ask(&rig, V1 "NodeUnprepareResources", "a", &third);
        await_requests(&rig, 3);
        assert_string_equal(rig.log, "prepare a\n");
        succeed(rig.works[0]);
        await_reply(&rig, &first);
        await_reply(&rig, &second);
        assert_string_equal(second.log, "a= 1 share-1\n");
        assert_string_equal(rig.log, "prepare a\nunprepare a\n");
        assert_false(third.ended);
        rig.works[1].done(NULL, NULL, rig.works[1].data);
        await_reply(&rig, &third);
        assert_string_equal(third.log, "a= 0 \n");
        assert_int_equal(dra_service_works(rig.socket.service), 0);
        rig_done(&rig);
}

static void test_a_late_claim_gets_an_error_and_the_next_request_gets_its_result(void **state UNUSED)
{
        struct rig rig;
        struct reply first, second;

        rig_init(&rig, 300, false);
        ask(&rig, V1 "NodePrepareResources", "a b", &first);
        await_requests(&rig, 1);
        succeed(rig.works[1]);
        await_reply(&rig, &first);
        assert_string_equal(first.log,
                "a=prepare of claim default/mine takes longer than 300 ms; it goes on, and is asked "
                "for again 0 \nb= 1 share-1\n");
        ask(&rig, V1 "NodePrepareResources", "a", &second);
        await_requests(&rig, 1);
        succeed(rig.works[0]);
        await_reply(&rig, &second);
        assert_string_equal(second.log, "a= 1 share-1\n");
        assert_string_equal(rig.log, "prepare a\nprepare b\n");
        rig_done(&rig);
}

static void test_work_without_a_waiting_request_does_not_begin(void **state UNUSED)
{
        struct rig rig;
        struct reply first, second;
        struct rpc_call *call;

        rig_init(&rig, 0, false);
        ask(&rig, V1 "NodePrepareResources", "a", &first);
        await_requests(&rig, 1);
        call = ask(&rig, V1 "NodeUnprepareResources", "a", &second);
        await_requests(&rig, 2);
        rpc_call_cancel(call);
        await_requests(&rig, 1);
        assert_int_equal(dra_service_works(rig.socket.service), 1);
        succeed(rig.works[0]);
        await_reply(&rig, &first);
        assert_string_equal(rig.log, "prepare a\n");
        rig_done(&rig);
}

static void test_a_prepare_is_abandoned_when_its_last_stream_has_ended(void **state UNUSED)
{
        struct rig rig;
        struct reply replies[2];
        struct rpc_call *calls[2];

        rig_init(&rig, 0, false);
        for (size_t i = 0; i < 2; i++) {
                calls[i] = ask(&rig, V1 "NodePrepareResources", "a", &replies[i]);
                await_requests(&rig, i + 1);
        }
        rpc_call_cancel(calls[0]);
        await_requests(&rig, 1);
        assert_string_equal(rig.abandoned, "");
        rpc_call_cancel(calls[1]);
        await_requests(&rig, 0);
        assert_string_equal(rig.abandoned, "a");
        succeed(rig.works[0]);
        rig_done(&rig);
}

static void test_a_result_that_comes_after_the_service_is_closed_is_dropped(void **state UNUSED)
{
        struct rig rig;
        struct reply reply;
        struct work work;

        rig_init(&rig, 0, true);
        ask(&rig, V1 "NodePrepareResources", "a", &reply);
        await_requests(&rig, 1);
        work = rig.works[0];
        rig_done(&rig);
        assert_int_not_equal(reply.status, RPC_OK);
        succeed(work);
}

/* ---- two instances ---- */

static void test_what_is_held_is_neither_begun_nor_answered(void **state UNUSED)
{
        struct rig rig;
        struct reply running;
        struct reply waiting;
        struct reply late;

        rig_init(&rig, 2000, true);
        ask(&rig, V1 "NodePrepareResources", "a", &running);
        ask(&rig, V1 "NodeUnprepareResources", "a", &waiting);
        await_requests(&rig, 2);
        assert_string_equal(rig.log, "prepare a\n");
        dra_service_hold(rig.socket.service);
        ask(&rig, V1 "NodePrepareResources", "b", &late);
        await_requests(&rig, 3);
        succeed(rig.works[0]);
        assert_false(loop_run_until(&rig.socket.loop, has_ended, &running, 2200)); /* beyond its deadline */
        assert_string_equal(rig.log, "prepare a\n");
        assert_false(waiting.ended || late.ended);
        rig_done(&rig);
        assert_int_not_equal(running.status, RPC_OK);
        assert_int_not_equal(waiting.status, RPC_OK);
        assert_int_not_equal(late.status, RPC_OK);
}

static void test_work_waits_for_the_lock_of_the_other_instance_and_gives_it_back(void **state UNUSED)
{
        struct lock other = LOCK_INIT;
        struct rig rig;
        struct reply reply;
        struct error err;

        rig_init(&rig, 0, true);
        assert_int_equal(lock_take(&other, rig.folder, &err), 0);
        ask(&rig, V1 "NodePrepareResources", "a", &reply);
        await_requests(&rig, 1);
        uv_run(&rig.socket.loop, UV_RUN_ONCE);
        assert_string_equal(rig.log, "");
        lock_release(&other);
        assert_int_equal(rig.n_idle, 0);
        rig.answers_at_once = true;
        rig.other = &other;
        await_reply(&rig, &reply);
        assert_string_equal(rig.log, "prepare a\n");
        assert_int_equal(rig.n_idle, 1);
        assert_int_equal(lock_take(&other, rig.folder, &err), 0);
        lock_release(&other);
        rig_done(&rig);
}

static void test_the_lock_of_the_other_instance_is_not_waited_for_without_end(void **state UNUSED)
{
        struct lock other = LOCK_INIT;
        struct rig rig;
        struct reply reply;
        struct error err;
        char expected[512];

        rig_init(&rig, 200, true);
        assert_int_equal(lock_take(&other, rig.folder, &err), 0);
        ask(&rig, V1 "NodePrepareResources", "a", &reply);
        await_reply(&rig, &reply);
        snprintf(expected, sizeof(expected),
                "a=prepare of claim default/mine could not begin within 200 ms: another instance of this driver holds the "
                "lock on '%s' 0 \n",
                rig.folder);
        assert_string_equal(reply.log, expected);
        assert_int_equal(dra_service_works(rig.socket.service), 0);
        assert_string_equal(rig.log, "");
        lock_release(&other);
        rig_done(&rig);
}

/* ---- recorded from Kubernetes 1.36 ---- */

static bool is_served(void *data)
{
        struct rig *rig = data;
        const char *last = rig->log;
        unsigned int lines = 0;

        for (; (last = strchr(last, '\n')); last++)
                lines++;
        return lines == 8;
}

static const char asked[] = "prepare 3c013d61-0790-4a3c-abe0-848069c95dd5\n"
                            "prepare 24b394ab-412e-41a4-8306-c41b045e0c08\n"
                            "prepare c389078c-4dff-46cf-a8a1-afac17074765\n"
                            "unprepare 24b394ab-412e-41a4-8306-c41b045e0c08\n"
                            "unprepare 3c013d61-0790-4a3c-abe0-848069c95dd5\n"
                            "unprepare c389078c-4dff-46cf-a8a1-afac17074765\n"
                            "prepare 4b1eebbc-72a4-4636-8eff-c3fa3da6fe32\n"
                            "unprepare 4b1eebbc-72a4-4636-8eff-c3fa3da6fe32\n";

static void test_a_recorded_connection_of_kubelet_is_served_however_it_is_cut(void **state UNUSED)
{
        static const char file[] = DRA_FIXTURES "/nodeprepare-kubelet-to-plugin.bin";
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct strbuf bytes = STRBUF_INIT;
        struct rig rig;
        struct error err;

        rig_init(&rig, 0, false);
        rig.answers_at_once = true;
        assert_ok(file_read(file, 1 << 20, &bytes, &err), &err);
        strcpy(address.sun_path, rig.socket.path);
        for (size_t cut = 0; cut < bytes.size; cut++) {
                int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

                rig.log[0] = '\0';
                assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
                if (cut > 0)
                        assert_int_equal(write(fd, bytes.data, cut), cut);
                for (unsigned int i = 0; i < 3; i++)
                        uv_run(&rig.socket.loop, UV_RUN_NOWAIT);
                assert_int_equal(write(fd, bytes.data + cut, bytes.size - cut), bytes.size - cut);
                assert_true(loop_run_until(&rig.socket.loop, is_served, &rig, PATIENCE_MS));
                assert_string_equal(rig.log, asked);
                close(fd);
        }
        strbuf_done(&bytes);
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_claim_has_its_own_answer_and_v1_has_the_share_id),
                cmocka_unit_test(test_v1beta1_has_no_share_id),
                cmocka_unit_test(test_a_request_that_is_not_kubelets_is_refused),
                cmocka_unit_test(test_two_requests_for_one_claim_share_the_work_and_its_opposite_waits),
                cmocka_unit_test(test_a_late_claim_gets_an_error_and_the_next_request_gets_its_result),
                cmocka_unit_test(test_work_without_a_waiting_request_does_not_begin),
                cmocka_unit_test(test_a_prepare_is_abandoned_when_its_last_stream_has_ended),
                cmocka_unit_test(test_a_result_that_comes_after_the_service_is_closed_is_dropped),
                cmocka_unit_test(test_what_is_held_is_neither_begun_nor_answered),
                cmocka_unit_test(test_work_waits_for_the_lock_of_the_other_instance_and_gives_it_back),
                cmocka_unit_test(test_the_lock_of_the_other_instance_is_not_waited_for_without_end),
                cmocka_unit_test(test_a_recorded_connection_of_kubelet_is_served_however_it_is_cut),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
