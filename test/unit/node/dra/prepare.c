// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "fake_node.h"

#define BOOT "boot-1"
#define ID_OF(i) FAKE_DRIVER "/claim=c0000000-0000-4000-8000-00000000000" #i

struct reply {
        unsigned int count;
        char text[512]; /* "ok", then a line for each device; or the error */
};

static void on_done(const struct dra_claim *claim, const struct error *err, void *data)
{
        struct reply *reply = data;
        int length = snprintf(reply->text, sizeof(reply->text), "%s", err ? err->text : "ok");

        reply->count++;
        for (size_t i = 0; claim && i < claim->n_results; i++) {
                const struct dra_result *result = &claim->results[i];

                assert_null(result->unit_cdi_id);
                length += snprintf(reply->text + length, sizeof(reply->text) - (size_t)length, "\n%s %s %s %s %s",
                        result->request, result->pool, result->device, result->cdi_id,
                        result->share_id ? result->share_id : "-");
        }
}

static void prepare(struct fake_node *node, size_t i, struct reply *reply)
{
        const struct dra_claim claim = fake_claim(i);

        *reply = (struct reply){0};
        dra_prepare_claim(node->prepare, &claim, on_done, reply);
}

static void unprepare(struct fake_node *node, size_t i, struct reply *reply)
{
        const struct dra_claim claim = fake_claim(i);

        *reply = (struct reply){0};
        dra_unprepare_claim(node->prepare, &claim, on_done, reply);
}

#define PREPARED(i)                                                                                                    \
        "ok\nmain n1 gpu-0-shared " ID_OF(i) "-gpu-0-shared-50000000-0000-4000-8000-00000000000" #i                    \
                                             " 50000000-0000-4000-8000-00000000000" #i

static void begin(struct fake_node *node)
{
        fake_init(node);
        node->answers_at_once = true;
        fake_start(node, BOOT);
}

/* Ledger, CDI files and record agree on exactly these claims. */
static void expect_prepared(const struct fake_node *node, unsigned int mask)
{
        assert_int_equal(fake_mask_held(node), mask);
        assert_int_equal(fake_mask_cdi(node), mask);
        assert_int_equal(fake_mask_record(node, DRA_CLAIM_PREPARED), mask);
        assert_int_equal(fake_mask_record(node, DRA_CLAIM_STARTED), 0);
        assert_int_equal(node->n_asked, 0);
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(fake_held_number(node, i), fake_cdi_number(node, i));
}

static void test_a_claim_is_prepared_and_unprepared(void **state UNUSED)
{
        const struct dra_result *result;
        struct fake_node node;
        struct reply reply;

        begin(&node);
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, PREPARED(0));
        expect_prepared(&node, 1);
        result = dra_record_find(node.record, fake_uid(0))->results;
        assert_string_equal(result->unit, "GPU-0");
        assert_int_equal(result->memory_bytes, UINT64_C(10) << 30);
        assert_int_equal(result->thread_percentage, 30);
        assert_string_equal(result->tier, "verified");
        assert_string_equal(result->daemon, "GPU-0");
        unprepare(&node, 0, &reply);
        assert_string_equal(reply.text, "ok");
        expect_prepared(&node, 0);
        fake_done(&node);
}

static void expect_shown(const struct fake_node *node, size_t n_prepared, size_t n_unprepared)
{
        assert_int_equal(node->n_prepared, n_prepared);
        assert_int_equal(node->n_unprepared, n_unprepared);
}

static void test_users_see_what_is_prepared_now_and_what_is_gone(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        unprepare(&node, 0, &reply); /* which never was */
        expect_shown(&node, 0, 0);
        node.refuses_allocations = true;
        prepare(&node, 0, &reply);
        expect_shown(&node, 0, 0);
        node.refuses_allocations = false;
        prepare(&node, 0, &reply);
        expect_shown(&node, 1, 0);
        prepare(&node, 0, &reply); /* as after a restart of kubelet */
        expect_shown(&node, 1, 0);
        unprepare(&node, 0, &reply);
        expect_shown(&node, 1, 1);
        fake_done(&node);
}

static void test_each_result_of_a_claim_has_its_own_device(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        node.devices = "gpu-0 gpu-0-shared";
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text,
                "ok\nmain n1 gpu-0 " ID_OF(0) "-gpu-0 -\nother n1 gpu-0-shared " ID_OF(
                        0) "-gpu-0-shared-50000001-0000-4000-8000-000000000000 50000001-0000-4000-8000-000000000000");
        expect_prepared(&node, 1);
        fake_done(&node);
}

static void test_a_prepared_claim_is_answered_from_the_record(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;
        char path[256];

        begin(&node);
        prepare(&node, 0, &reply);
        fake_stop(&node);
        fake_start(&node, BOOT);
        fake_path_of_cdi(&node, 0, path);
        assert_int_equal(unlink(path), 0);
        node.devices = "gpu-1-shared"; /* as nobody asks the API server, nobody sees */
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, PREPARED(0));
        assert_int_equal(node.n_reads, 1);
        assert_int_equal(fake_cdi_number(&node, 0), 1);
        expect_prepared(&node, 1);
        fake_done(&node);
}

static void test_other_content_in_the_cdi_file_of_a_prepared_claim_is_replaced(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;
        struct error err;
        char path[256];

        begin(&node);
        prepare(&node, 0, &reply);
        fake_path_of_cdi(&node, 0, path);
        assert_ok(file_write(path, "NUMBER=9", 8, &err), &err);
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, PREPARED(0));
        assert_int_equal(fake_cdi_number(&node, 0), 1);
        unprepare(&node, 0, &reply);
        assert_string_equal(reply.text, "ok");
        expect_prepared(&node, 0);
        fake_done(&node);
}

static void test_what_was_never_prepared_can_be_unprepared(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        unprepare(&node, 0, &reply);
        assert_string_equal(reply.text, "ok");
        expect_prepared(&node, 0);
        assert_int_equal(access(node.record_path, F_OK), -1);
        fake_done(&node);
}

static void test_a_claim_that_makes_no_sense_here_leaves_nothing(void **state UNUSED)
{
        static const struct {
                const char *devices;
                const char *text;
        } cases[] = {
                {"gpu-7", "ResourceClaim team/train: device 'gpu-7': this node does not offer it now"},
                {"gpu-0-shared gpu-1-shared",
                        "ResourceClaim team/train: devices 'gpu-0-shared' and 'gpu-1-shared' are shared by different MPS "
                        "daemons, and a process can use only one; use a claim for each, in different containers, or one "
                        "daemon for all GPUs of the node (dra.daemonScope: resource)"},
                {"GPU", "ResourceClaim team/train: status.allocation.devices: results[0]: device: 'GPU', must be a DNS "
                        "label of at most 63 characters"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct fake_node node;
                struct reply reply;

                begin(&node);
                node.devices = cases[i].devices;
                prepare(&node, 0, &reply);
                assert_string_equal(reply.text, cases[i].text);
                expect_prepared(&node, 0);
                fake_done(&node);
        }
}

static void test_an_api_server_that_fails_leaves_nothing(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;
        struct error err;

        begin(&node);
        node.answers_at_once = false;
        prepare(&node, 0, &reply);
        error_raise(&err, ERROR_UNAVAILABLE, "the API server is away");
        fake_refuse(&node, 0, &err);
        assert_string_equal(reply.text, "the API server is away");
        expect_prepared(&node, 0);
        fake_done(&node);
}

static void test_a_refused_allocation_is_taken_back(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        node.refuses_allocations = true;
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, "no memory left");
        assert_int_equal(reply.count, 1);
        expect_prepared(&node, 0);
        fake_done(&node);
}

static struct dra_result *recorded(const struct fake_node *node, size_t i)
{
        const struct dra_claim *claim = dra_record_find(node->record, fake_uid(i));

        assert_non_null(claim);
        return claim->results;
}

/* Of the claim that is asked for an allocation: what is made of its only device. */
static void set_instance(const struct fake_node *node, enum dra_instance_state state, const char *uuid)
{
        struct dra_result *result;
        struct error err;

        assert_int_equal(node->asked[0].kind, FAKE_ALLOCATE);
        result = node->asked[0].claim->results;
        result->instance.state = state;
        result->instance.uuid = uuid;
        result->unit = uuid ? uuid : "GPU-0";
        assert_ok(dra_record_put(node->record, node->asked[0].claim, &err), &err);
}

static void test_what_is_made_of_a_candidate_is_recorded_before_and_after(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        node.devices = "gpu-0-at-4";
        node.answers_at_once = false;
        prepare(&node, 0, &reply);
        fake_answer(&node, 0);
        assert_true(recorded(&node, 0)->has_instance);
        assert_int_equal(recorded(&node, 0)->instance.state, DRA_INSTANCE_NONE);
        assert_int_equal(recorded(&node, 0)->instance.start, 4);
        set_instance(&node, DRA_INSTANCE_MAKING, NULL);
        assert_string_equal(recorded(&node, 0)->unit, "GPU-0");
        /* Who is killed now has a successor that knows of it, and so has that. */
        fake_stop(&node);
        fake_start(&node, BOOT);
        prepare(&node, 0, &reply);
        fake_answer(&node, 0);
        assert_int_equal(recorded(&node, 0)->instance.state, DRA_INSTANCE_MAKING);
        set_instance(&node, DRA_INSTANCE_MADE, "MIG-a");
        assert_string_equal(recorded(&node, 0)->unit, "MIG-a");
        fake_answer(&node, 0);
        assert_int_equal(strncmp(reply.text, "ok\nmain n1 gpu-0-at-4 ", 22), 0);
        assert_string_equal(recorded(&node, 0)->instance.uuid, "MIG-a");
        assert_int_equal(fake_mask_record(&node, DRA_CLAIM_PREPARED), 1);
        fake_done(&node);
}

static void test_what_was_made_for_an_earlier_allocation_is_taken_back_first(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        node.devices = "gpu-0-at-4";
        node.answers_at_once = false;
        prepare(&node, 0, &reply);
        fake_answer(&node, 0);
        set_instance(&node, DRA_INSTANCE_MADE, "MIG-a");
        fake_stop(&node);
        fake_start(&node, BOOT);
        node.devices = "gpu-0-at-5";
        prepare(&node, 0, &reply);
        fake_answer(&node, 0);
        assert_int_equal(node.asked[0].kind, FAKE_RELEASE);
        assert_string_equal(recorded(&node, 0)->instance.uuid, "MIG-a");
        fake_answer(&node, 0);
        assert_string_equal(reply.text,
                "the claim was allocated anew: the MIG devices that were made for it before are destroyed first");
        node.answers_at_once = true;
        prepare(&node, 0, &reply);
        assert_int_equal(strncmp(reply.text, "ok\nmain n1 gpu-0-at-5 ", 22), 0);
        fake_done(&node);
}

static void test_a_cdi_file_that_cannot_be_written_takes_the_allocation_back(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        node.fails_writes = true;
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, "no room for CDI files");
        expect_prepared(&node, 0);
        node.fails_writes = false;
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, PREPARED(0));
        node.fails_writes = true; /* now somebody may run with it */
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, "no room for CDI files");
        expect_prepared(&node, 1);
        fake_done(&node);
}

static void test_an_unprepare_that_fails_is_finished_by_the_next(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;
        struct error err;

        begin(&node);
        prepare(&node, 0, &reply);
        node.fails_removals = true;
        unprepare(&node, 0, &reply);
        assert_string_equal(reply.text, "CDI files cannot be removed");
        assert_int_equal(fake_mask_record(&node, DRA_CLAIM_STARTED), 1);
        node.fails_removals = false;
        node.answers_at_once = false;
        unprepare(&node, 0, &reply);
        error_raise(&err, ERROR_TIMEOUT, "the supervisor does not answer");
        fake_refuse(&node, 0, &err);
        assert_string_equal(reply.text, "the supervisor does not answer");
        assert_int_equal(fake_mask_record(&node, DRA_CLAIM_STARTED), 1);
        node.answers_at_once = true;
        unprepare(&node, 0, &reply);
        assert_string_equal(reply.text, "ok");
        expect_prepared(&node, 0);
        fake_done(&node);
}

static void test_after_an_unprepare_that_failed_a_prepare_allocates_anew(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        prepare(&node, 0, &reply);
        node.fails_removals = true;
        unprepare(&node, 0, &reply);
        node.fails_removals = false;
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, PREPARED(0));
        assert_int_equal(fake_cdi_number(&node, 0), 2);
        expect_prepared(&node, 1);
        fake_done(&node);
}

static void test_claims_do_not_wait_for_each_other(void **state UNUSED)
{
        struct fake_node node;
        struct reply one, other;

        begin(&node);
        node.answers_at_once = false;
        prepare(&node, 0, &one);
        prepare(&node, 1, &other);
        fake_answer(&node, 1);
        fake_answer(&node, 1);
        assert_string_equal(other.text, PREPARED(1));
        assert_int_equal(one.count, 0);
        assert_int_equal(node.n_asked, 1);
        fake_answer(&node, 0);
        assert_int_equal(fake_mask_record(&node, DRA_CLAIM_STARTED), 1);
        assert_int_equal(fake_mask_held(&node), 2);
        fake_answer(&node, 0);
        assert_string_equal(one.text, PREPARED(0));
        expect_prepared(&node, 3);
        fake_done(&node);
}

static void test_what_another_instance_prepared_is_known(void **state UNUSED)
{
        struct fake_node node, other;
        struct reply reply;

        begin(&node);
        prepare(&node, 0, &reply);
        other = node;
        fake_start(&other, BOOT);
        prepare(&other, 1, &reply);
        fake_stop(&other);
        prepare(&node, 1, &reply);
        assert_string_equal(reply.text, PREPARED(1));
        assert_int_equal(node.n_reads, 1);
        expect_prepared(&node, 3);
        fake_done(&node);
}

static void test_a_record_that_makes_no_sense_is_made_anew_by_what_kubelet_asks(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;
        struct error err;

        begin(&node);
        prepare(&node, 0, &reply);
        prepare(&node, 1, &reply);
        assert_ok(file_write(node.record_path, "{", 1, &err), &err);
        prepare(&node, 0, &reply);
        assert_string_equal(reply.text, PREPARED(0));
        unprepare(&node, 1, &reply);
        assert_string_equal(reply.text, "ok");
        expect_prepared(&node, 1);
        fake_done(&node);
}

static void test_a_record_that_cannot_be_read_is_an_error(void **state UNUSED)
{
        struct fake_node node;
        struct reply reply;

        begin(&node);
        assert_int_equal(symlink(node.folder, node.record_path), 0);
        prepare(&node, 0, &reply);
        assert_memory_equal(reply.text, "record: ", 8);
        assert_int_equal(reply.count, 1);
        assert_int_equal(node.n_asked, 0);
        fake_done(&node);
}

/* ---- killed ---- */

enum deed { PREPARE, PREPARE_REFUSED, PREPARE_UNWRITTEN, UNPREPARE, PREPARE_AGAIN, N_DEEDS };

/* In a process of its own, which ends after |steps|; false: it came to the end. */
static bool killed_after(struct fake_node *node, enum deed deed, int steps)
{
        pid_t pid = fork();
        int status;

        assert_int_not_equal(pid, -1);
        if (pid == 0) {
                struct reply reply;

                node->steps_left = steps;
                node->refuses_allocations = deed == PREPARE_REFUSED;
                node->fails_writes = deed == PREPARE_UNWRITTEN;
                if (deed == UNPREPARE)
                        unprepare(node, 0, &reply);
                else
                        prepare(node, 0, &reply);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == FAKE_KILLED);
        return WEXITSTATUS(status) == FAKE_KILLED;
}

enum afterwards { THEN_PREPARE, THEN_UNPREPARE, THEN_REBOOT_AND_PREPARE, THEN_REBOOT_AND_UNPREPARE, N_AFTERWARDS };

static bool converges(enum deed deed, int steps, enum afterwards afterwards)
{
        bool is_reboot = afterwards >= THEN_REBOOT_AND_PREPARE;
        bool is_prepare = afterwards == THEN_PREPARE || afterwards == THEN_REBOOT_AND_PREPARE;
        struct fake_node node;
        struct reply reply;
        bool killed;

        begin(&node);
        prepare(&node, 1, &reply); /* a neighbour */
        if (deed >= UNPREPARE)
                prepare(&node, 0, &reply);
        killed = killed_after(&node, deed, steps);
        fake_stop(&node);
        if (is_reboot)
                fake_clear_held(&node);
        fake_start(&node, is_reboot ? "boot-2" : BOOT);
        if (is_prepare)
                prepare(&node, 0, &reply);
        else
                unprepare(&node, 0, &reply);
        assert_string_equal(reply.text, is_prepare ? PREPARED(0) : "ok");
        if (is_reboot)
                prepare(&node, 1, &reply);
        expect_prepared(&node, is_prepare ? 3 : 2);
        fake_done(&node);
        return killed;
}

static void test_who_is_killed_at_any_step_goes_on_or_leaves_nothing(void **state UNUSED)
{
        static const int least[N_DEEDS] = {8, 10, 8, 4, 2};

        for (enum deed deed = 0; deed < N_DEEDS; deed++)
                for (enum afterwards afterwards = 0; afterwards < N_AFTERWARDS; afterwards++) {
                        int steps = 0;

                        while (converges(deed, steps, afterwards))
                                steps++;
                        assert_in_range(steps, least[deed], 20);
                }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_claim_is_prepared_and_unprepared),
                cmocka_unit_test(test_users_see_what_is_prepared_now_and_what_is_gone),
                cmocka_unit_test(test_each_result_of_a_claim_has_its_own_device),
                cmocka_unit_test(test_a_prepared_claim_is_answered_from_the_record),
                cmocka_unit_test(test_other_content_in_the_cdi_file_of_a_prepared_claim_is_replaced),
                cmocka_unit_test(test_what_was_never_prepared_can_be_unprepared),
                cmocka_unit_test(test_a_claim_that_makes_no_sense_here_leaves_nothing),
                cmocka_unit_test(test_an_api_server_that_fails_leaves_nothing),
                cmocka_unit_test(test_a_refused_allocation_is_taken_back),
                cmocka_unit_test(test_what_is_made_of_a_candidate_is_recorded_before_and_after),
                cmocka_unit_test(test_what_was_made_for_an_earlier_allocation_is_taken_back_first),
                cmocka_unit_test(test_a_cdi_file_that_cannot_be_written_takes_the_allocation_back),
                cmocka_unit_test(test_an_unprepare_that_fails_is_finished_by_the_next),
                cmocka_unit_test(test_after_an_unprepare_that_failed_a_prepare_allocates_anew),
                cmocka_unit_test(test_claims_do_not_wait_for_each_other),
                cmocka_unit_test(test_what_another_instance_prepared_is_known),
                cmocka_unit_test(test_a_record_that_makes_no_sense_is_made_anew_by_what_kubelet_asks),
                cmocka_unit_test(test_a_record_that_cannot_be_read_is_an_error),
                cmocka_unit_test(test_who_is_killed_at_any_step_goes_on_or_leaves_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
