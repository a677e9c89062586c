// SPDX-License-Identifier: Apache-2.0
/*
 * What DRA claims hold of GPU-1, beside GPU-0, which the device plugin serves.
 */
#include "rig.h"

#include "node/ledger/claims.h"

/* The outcome of ledger_claim(), once it is there. */
struct outcome {
        unsigned int n_answers;
        struct error err; /* kind ERROR_NONE: it went well */
        struct ledger_claimed claimed[2];
};

static void on_claimed(const struct error *err, const struct ledger_claimed *claimed, void *data)
{
        struct outcome *outcome = data;

        outcome->n_answers++;
        outcome->err = err ? *err : (struct error){.kind = ERROR_NONE};
        if (claimed)
                outcome->claimed[0] = claimed[0];
}

static struct ledger_claim_device share(const char *id, uint64_t mib, unsigned int permille)
{
        return (struct ledger_claim_device){
                .id = id, .unit = "GPU-1", .is_shared = true, .limit_mib = mib, .threads_permille = permille};
}

static struct ledger_claim_device whole(const char *id)
{
        return (struct ledger_claim_device){.id = id, .unit = "GPU-1", .is_alone = true, .threads_permille = 1000};
}

static void claim(const char *uid, struct ledger_claim_device device, struct outcome *outcome)
{
        const struct ledger_claim_pod pod = {.uid = "uid-train", .name = "train"};
        const struct ledger_claim asked = {
                .uid = uid, .name = "team/claim", .devices = &device, .n_devices = 1, .pods = &pod, .n_pods = 1};

        memset(outcome, 0, sizeof(*outcome));
        ledger_claim(rig.ledger, &asked, on_claimed, outcome);
}

/* Its daemon is there at once. */
static void hold(const char *uid, struct ledger_claim_device device)
{
        struct outcome outcome;

        claim(uid, device, &outcome);
        fake_supervisor_report();
        rig_settle();
        assert_int_equal(outcome.n_answers, 1);
        if (outcome.err.kind != ERROR_NONE)
                fail_msg("%s: %s", uid, outcome.err.text);
}

static void keep(const char *uid, struct ledger_claim_device device)
{
        const struct ledger_claim kept = {.uid = uid, .name = "team/claim", .devices = &device, .n_devices = 1};

        ledger_keep_claims(rig.ledger, &kept, 1);
}

/* "u1 held, u2": from the oldest to the newest. */
static const char *claims(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(rig.ledger, &rig.arena, &states);

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s%s%s", i ? ", " : "", states[i].claim->uid, states[i].is_held ? " held" : "");
        return arena_strdup(&rig.arena, text.data);
}

static void assert_refused(const struct outcome *outcome, enum error_kind kind, const char *text)
{
        assert_int_equal(outcome->n_answers, 1);
        assert_int_equal(outcome->err.kind, kind);
        if (!strstr(outcome->err.text, text))
                fail_msg("'%s' is not in: %s", text, outcome->err.text);
}

static void test_a_unit_has_a_daemon_as_long_as_claims_have_shares_of_it(void **state UNUSED)
{
        assert_string_equal(fake_supervisor_wanted(), "GPU-0");
        hold("u1", share("c1", 1024, 300));
        hold("u2", share("c2", 2048, 200));
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 GPU-1");
        ledger_unclaim(rig.ledger, "u1");
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 GPU-1");
        ledger_unclaim(rig.ledger, "u2");
        assert_string_equal(fake_supervisor_wanted(), "GPU-0");
        assert_string_equal(claims(), "");
}

static void test_a_share_is_given_when_its_daemon_is_ready(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.unit_at_fault = "GPU-1";
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        rig_pass(LEDGER_CLAIM_WAIT_MS - 1);
        assert_int_equal(outcome.n_answers, 0);
        assert_string_equal(claims(), "u1");
        supervisor.unit_at_fault = NULL;
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.err.kind, ERROR_NONE);
        assert_string_equal(outcome.claimed[0].daemon, "GPU-1");
        assert_string_equal(outcome.claimed[0].pipe, "GPU-1/pipe");
        assert_string_equal(outcome.claimed[0].shm, "shm");
        assert_int_equal(outcome.claimed[0].tier, MPS_TIER_VERIFIED);
        assert_string_equal(claims(), "u1 held");
}

static void test_a_claim_that_waits_too_long_fails_with_what_it_waits_for(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.unit_at_fault = "GPU-1";
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        rig_pass(LEDGER_CLAIM_WAIT_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE, "GPU-1: its MPS daemon is in state fault");
        fake_supervisor_vanish();
        claim("u1", share("c1", 1024, 300), &outcome);
        rig_pass(LEDGER_CLAIM_ALONE_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE, "the MPS supervisor (warpshare mps) does not answer");
}

static void test_a_daemon_that_the_supervisor_does_not_know_yet_is_not_ready(void **state UNUSED)
{
        struct outcome outcome;

        hold("u1", share("c1", 1024, 300));
        ledger_unclaim(rig.ledger, "u1");
        supervisor.is_behind = supervisor.hides_settings = true;
        claim("u2", share("c2", 1024, 300), &outcome);
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 0);
        supervisor.is_behind = false;
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.err.kind, ERROR_NONE);
}

static void test_a_whole_unit_is_given_when_its_daemon_has_ended(void **state UNUSED)
{
        struct outcome outcome;

        hold("u1", share("c1", 1024, 300));
        ledger_unclaim(rig.ledger, "u1");
        supervisor.unit_that_drains = "GPU-1";
        claim("u2", whole("c2"), &outcome);
        fake_supervisor_report();
        rig_pass(1000);
        assert_int_equal(outcome.n_answers, 0);
        supervisor.unit_that_drains = NULL;
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.err.kind, ERROR_NONE);
        assert_null(outcome.claimed[0].daemon);
        assert_string_equal(fake_supervisor_wanted(), "GPU-0");
}

static void test_a_daemon_that_does_not_end_keeps_the_whole_unit_from_being_given(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.unit_that_drains = "GPU-1";
        fake_supervisor_report();
        claim("u1", whole("c1"), &outcome);
        rig_pass(LEDGER_CLAIM_WAIT_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE, "GPU-1: its MPS daemon has not ended yet");
        fake_supervisor_vanish();
        claim("u1", whole("c1"), &outcome);
        rig_pass(LEDGER_CLAIM_ALONE_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE, "whether an MPS daemon serves it is not known");
}

static void test_a_whole_unit_needs_no_supervisor_where_there_is_none(void **state UNUSED)
{
        struct outcome outcome;

        fake_supervisor_vanish();
        claim("u1", whole("c1"), &outcome);
        assert_int_equal(outcome.n_answers, 0);
        supervisor.is_absent = true;
        fake_supervisor_vanish();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.err.kind, ERROR_NONE);
        claim("u2", share("c2", 1024, 300), &outcome);
        rig_pass(LEDGER_CLAIM_ALONE_MS);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: claim team/claim has");
}

/* The scheduler sees to that; a pod with a node's name is not its own. */
static void test_the_supervisor_hears_which_claims_have_shares(void **state UNUSED)
{
        struct outcome outcome;

        hold("u1", share("c1", 1024, 100));
        assert_string_equal(supervisor.holders, "GPU-1 claim team/claim");
        ledger_unclaim(rig.ledger, "u1");
        assert_string_equal(supervisor.holders, "");
        claim("u2", whole("c2"), &outcome);
        assert_string_equal(supervisor.holders, "");
}

static void test_a_claim_that_does_not_fit_beside_the_others_is_refused(void **state UNUSED)
{
        struct outcome outcome;

        hold("u1", share("c1", 20 * 1024, 600));
        claim("u2", share("c2", 4 * 1024, 100), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: its claims would have 24576 MiB of");
        ledger_unclaim(rig.ledger, "u2");
        claim("u3", share("c3", 1024, 401), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: its claims would have 100.1 % of its threads");
        ledger_unclaim(rig.ledger, "u3");
        claim("u4", whole("c4"), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: claim team/claim has a share of it");
        ledger_unclaim(rig.ledger, "u4");
        hold("u5", share("c5", 1024, 400));
        assert_string_equal(claims(), "u1 held, u5 held");
}

static bool is_u1(const char *uid, void *data UNUSED)
{
        return strcmp(uid, "u1") == 0;
}

static void test_whether_a_claim_fits_can_be_asked_without_claims_that_are_over(void **state UNUSED)
{
        struct ledger_claim_device device = whole("c3");
        const struct ledger_claim asked = {.uid = "u3", .name = "team/new", .devices = &device, .n_devices = 1};
        struct error err;

        hold("u1", share("c1", 20 * 1024, 600));
        assert_int_equal(ledger_claim_fits(rig.ledger, &asked, NULL, NULL, &err), -1);
        assert_int_equal(err.kind, ERROR_EXHAUSTED);
        assert_string_equal(err.text,
                "GPU-1: claim team/claim has a share of it; a claim has a unit alone, or all share it in the same way");
        assert_ok(ledger_claim_fits(rig.ledger, &asked, is_u1, NULL, &err), &err);
        hold("u2", share("c2", 1024, 100));
        assert_int_equal(ledger_claim_fits(rig.ledger, &asked, is_u1, NULL, &err), -1);
        device = share("c3", 4 * 1024, 100);
        assert_int_equal(ledger_claim_fits(rig.ledger, &asked, NULL, NULL, &err), -1);
        assert_non_null(strstr(err.text, "its claims would have 25600 MiB of"));
        assert_ok(ledger_claim_fits(rig.ledger, &asked, is_u1, NULL, &err), &err);
        assert_string_equal(claims(), "u1 held, u2 held");
}

static void test_no_daemon_is_started_on_a_whole_unit_for_a_claim_that_was_refused(void **state UNUSED)
{
        struct outcome outcome;

        hold("u1", whole("c1"));
        claim("u2", share("c2", 1024, 300), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: claim team/claim has all of it");
        claim("u3", share("c3", 1024, 300), &outcome);
        ledger_unclaim(rig.ledger, "u3");
        assert_string_equal(fake_supervisor_wanted(), "GPU-0");
        assert_string_equal(claims(), "u1 held, u2");
}

static void test_a_claim_that_was_refused_takes_nothing_from_others(void **state UNUSED)
{
        struct outcome outcome;

        hold("u1", share("c1", 1024, 600));
        claim("u2", share("c2", 1024, 500), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: its claims would have 110.0 % of its threads");
        hold("u3", share("c3", 1024, 400));
        hold("u1", share("c1", 1024, 600)); /* kubelet asks again */
        claim("u4", whole("c4"), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1: claim team/claim has a share of it");
        assert_string_equal(claims(), "u2, u3 held, u1 held, u4");
}

static void test_a_claim_that_failed_holds_its_part_until_it_is_given_back(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.unit_at_fault = "GPU-1";
        claim("u1", share("c1", 20 * 1024, 600), &outcome);
        rig_pass(LEDGER_CLAIM_WAIT_MS);
        assert_int_equal(outcome.n_answers, 1);
        claim("u2", share("c2", 20 * 1024, 100), &outcome);
        assert_refused(&outcome, ERROR_EXHAUSTED, "GPU-1");
        assert_string_equal(claims(), "u1, u2");
}

static void test_a_namespace_is_made_before_the_answer(void **state UNUSED)
{
        const struct fake_allocation *made;
        struct outcome outcome;

        supervisor.allocations = FAKE_ALLOCATIONS_LATE;
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 0);
        fake_supervisor_answer();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.claimed[0].tier, MPS_TIER_NAMESPACE);
        assert_string_equal(outcome.claimed[0].pipe, "c1");
        made = fake_allocations_find(&supervisor.made, "c1");
        assert_non_null(made);
        assert_string_equal(made->unit, "GPU-1");
        assert_int_equal(made->limit_mib, 1024);
        assert_int_equal(made->threads_permille, 300);
        ledger_unclaim(rig.ledger, "u1");
        fake_supervisor_answer();
        assert_null(fake_allocations_find(&supervisor.made, "c1"));
}

static void test_without_a_namespace_the_containers_own_variables_are_its_limits(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.allocations = FAKE_ALLOCATIONS_NOT;
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        fake_supervisor_answer();
        assert_int_equal(outcome.err.kind, ERROR_NONE);
        assert_int_equal(outcome.claimed[0].tier, MPS_TIER_VERIFIED);
        assert_string_equal(outcome.claimed[0].pipe, "GPU-1/pipe");
}

static void test_a_claim_that_loses_the_supervisor_fails_and_can_be_tried_again(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.allocations = FAKE_LOSES_IT;
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        fake_supervisor_answer();
        assert_refused(&outcome, ERROR_UNAVAILABLE, "the link to the MPS supervisor is broken");
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        hold("u1", share("c1", 1024, 300));
        assert_string_equal(claims(), "u1 held");
        assert_int_equal(supervisor.made.count, 1);
}

static void test_a_claim_that_is_released_before_the_answer_gets_none(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.allocations = FAKE_ALLOCATIONS_LATE;
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        ledger_unclaim(rig.ledger, "u1");
        fake_supervisor_answer();
        assert_int_equal(outcome.n_answers, 0);
        assert_int_equal(supervisor.made.count, 0);
        assert_string_equal(claims(), "");
}

static void test_what_was_prepared_before_a_restart_keeps_its_daemon_and_its_namespace(void **state UNUSED)
{
        struct ledger_claim_device device = share("c1", 1024, 300);

        hold("u1", device);
        device.tier = MPS_TIER_NAMESPACE;
        rig_kill();
        rig_open();
        keep("u1", device);
        rig_apply(rig.plan);
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 GPU-1");
        rig_pass(2 * GRACE_MS);
        assert_true(supervisor.is_reported);
        assert_non_null(fake_allocations_find(&supervisor.reported, "c1"));
        assert_string_equal(claims(), "u1 held");
        ledger_unclaim(rig.ledger, "u1");
        rig_settle();
        assert_null(fake_allocations_find(&supervisor.made, "c1"));
        assert_string_equal(fake_supervisor_wanted(), "GPU-0");
}

static void test_as_long_as_claims_are_unknown_nothing_made_is_taken_back(void **state UNUSED)
{
        rig_pass(2 * GRACE_MS);
        assert_false(supervisor.is_reported);
        ledger_keep_claims(rig.ledger, NULL, 0);
        rig_pass(2 * GRACE_MS);
        assert_true(supervisor.is_reported);
}

/* Its daemon drains meanwhile, with the client that it has. */
static void test_no_process_of_a_claim_is_a_stranger_while_its_gpu_is_away(void **state UNUSED)
{
        struct ledger_measures measures;

        hold("u1", share("c1", 1024, 300));
        fake_supervisor_show("GPU-1", "uid-train", 512);
        rig_pass(2 * GRACE_MS);
        supervisor.unit_that_drains = "GPU-1";
        rig_change_gpus(4, 1);
        rig_pass(2 * GRACE_MS);
        ledger_measure(rig.ledger, &measures);
        assert_int_equal(measures.n_standing, 0);
        assert_int_equal(supervisor.terminated, 0);
        ledger_unclaim(rig.ledger, "u1");
        rig_pass(2 * GRACE_MS);
        assert_int_equal(supervisor.terminated, 7);
}

/* ---- one daemon for all GPUs ---- */

static void test_one_daemon_for_all_gpus_serves_them_as_long_as_any_is_shared(void **state UNUSED)
{
        struct outcome outcome;

        claim("u1", share("c1", 1024, 300), &outcome);
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 gpu.warpshare.dev");
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.err.kind, ERROR_NONE);
        assert_string_equal(outcome.claimed[0].daemon, "gpu.warpshare.dev");
        assert_string_equal(outcome.claimed[0].pipe, "gpu.warpshare.dev/pipe");
        assert_int_equal(outcome.claimed[0].tier, MPS_TIER_VERIFIED);
        ledger_unclaim(rig.ledger, "u1");
        assert_string_equal(fake_supervisor_wanted(), "GPU-0");
}

static void test_a_claim_waits_for_a_gpu_that_its_daemon_was_started_without(void **state UNUSED)
{
        struct outcome outcome;

        supervisor.unit_left_out = "GPU-1";
        claim("u1", share("c1", 1024, 300), &outcome);
        fake_supervisor_report();
        rig_pass(LEDGER_CLAIM_WAIT_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE,
                "GPU-1: its MPS daemon was started while it could not be used, and takes it in when it has no clients");
        supervisor.unit_left_out = NULL;
        hold("u1", share("c1", 1024, 300));
}

/* Prepared by an agent that had it otherwise. */
static void keep_by(const char *daemon)
{
        struct ledger_claim_device device = share("c1", 1024, 300);

        device.tier = MPS_TIER_VERIFIED;
        device.daemon = daemon;
        keep("u1", device);
        fake_supervisor_report();
}

static void test_a_claim_keeps_the_daemon_that_it_was_prepared_with(void **state UNUSED)
{
        struct outcome outcome;

        keep_by("GPU-1");
        claim("u2", share("c2", 1024, 300), &outcome);
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 GPU-1");
        fake_supervisor_report();
        rig_pass(LEDGER_CLAIM_WAIT_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE,
                "GPU-1: claim team/claim has GPU-1 apart from the MPS daemon of all GPUs (dra.daemonScope: resource), which "
                "starts when that claim has ended");
        claim("u2", share("c2", 1024, 300), &outcome);
        ledger_unclaim(rig.ledger, "u1");
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 gpu.warpshare.dev");
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 1);
        assert_int_equal(outcome.err.kind, ERROR_NONE);
}

static void test_the_daemon_of_all_gpus_ends_before_a_gpu_gets_its_own(void **state UNUSED)
{
        struct outcome outcome;

        keep_by("gpu.warpshare.dev");
        claim("u2", share("c2", 1024, 300), &outcome);
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 gpu.warpshare.dev");
        fake_supervisor_report();
        rig_pass(LEDGER_CLAIM_WAIT_MS);
        assert_refused(&outcome, ERROR_UNAVAILABLE,
                "GPU-1: claim team/claim uses the MPS daemon of all GPUs; since dra.daemonScope is 'gpu' each gets its own when "
                "no claim uses that one any more");
        claim("u2", share("c2", 1024, 300), &outcome);
        ledger_unclaim(rig.ledger, "u1");
        assert_string_equal(fake_supervisor_wanted(), "GPU-0 GPU-1");
        fake_supervisor_report();
        assert_int_equal(outcome.n_answers, 1);
        assert_string_equal(outcome.claimed[0].daemon, "GPU-1");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(test_a_unit_has_a_daemon_as_long_as_claims_have_shares_of_it, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_share_is_given_when_its_daemon_is_ready, RIG_CLAIMS),
                RIG_TEST_WITH(test_one_daemon_for_all_gpus_serves_them_as_long_as_any_is_shared, RIG_CLAIMS_ONE_DAEMON),
                RIG_TEST_WITH(test_a_claim_waits_for_a_gpu_that_its_daemon_was_started_without, RIG_CLAIMS_ONE_DAEMON),
                RIG_TEST_WITH(test_a_claim_keeps_the_daemon_that_it_was_prepared_with, RIG_CLAIMS_ONE_DAEMON),
                RIG_TEST_WITH(test_the_daemon_of_all_gpus_ends_before_a_gpu_gets_its_own, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_claim_that_waits_too_long_fails_with_what_it_waits_for, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_daemon_that_the_supervisor_does_not_know_yet_is_not_ready, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_whole_unit_is_given_when_its_daemon_has_ended, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_daemon_that_does_not_end_keeps_the_whole_unit_from_being_given, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_whole_unit_needs_no_supervisor_where_there_is_none, RIG_CLAIMS),
                RIG_TEST_WITH(test_the_supervisor_hears_which_claims_have_shares, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_claim_that_does_not_fit_beside_the_others_is_refused, RIG_CLAIMS),
                RIG_TEST_WITH(test_whether_a_claim_fits_can_be_asked_without_claims_that_are_over, RIG_CLAIMS),
                RIG_TEST_WITH(test_no_daemon_is_started_on_a_whole_unit_for_a_claim_that_was_refused, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_claim_that_was_refused_takes_nothing_from_others, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_claim_that_failed_holds_its_part_until_it_is_given_back, RIG_CLAIMS),
                RIG_TEST_WITH(test_a_namespace_is_made_before_the_answer, RIG_CLAIM_NAMESPACES),
                RIG_TEST_WITH(
                        test_without_a_namespace_the_containers_own_variables_are_its_limits, RIG_CLAIM_NAMESPACES),
                RIG_TEST_WITH(
                        test_a_claim_that_loses_the_supervisor_fails_and_can_be_tried_again, RIG_CLAIM_NAMESPACES),
                RIG_TEST_WITH(test_a_claim_that_is_released_before_the_answer_gets_none, RIG_CLAIM_NAMESPACES),
                RIG_TEST_WITH(test_what_was_prepared_before_a_restart_keeps_its_daemon_and_its_namespace,
                        RIG_CLAIM_NAMESPACES),
                RIG_TEST_WITH(test_no_process_of_a_claim_is_a_stranger_while_its_gpu_is_away, RIG_CLAIMS),
                RIG_TEST_WITH(test_as_long_as_claims_are_unknown_nothing_made_is_taken_back, RIG_CLAIM_NAMESPACES),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
