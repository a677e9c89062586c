// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "gpu/health.h"

/* ---- the policy ---- */

static void test_which_xids_count_follows_the_two_lists(void **state UNUSED)
{
        static const struct {
                const char *disable;
                const char *enable;
                unsigned int xid;
                bool counts;
        } table[] = {
                {NULL, NULL, 79, true},
                {"", "", 79, true},
                {NULL, NULL, 13, false},
                {NULL, NULL, 31, false},
                {NULL, NULL, 43, false},
                {NULL, NULL, 45, false},
                {NULL, NULL, 68, false},
                {NULL, NULL, 109, false},
                {"79", NULL, 79, false},
                {"79", NULL, 80, true},
                {"80,79", NULL, 79, false},
                {" 79 ,", NULL, 79, false},
                {",79", NULL, 79, false},
                {"-79", NULL, 79, true},
                {"79x", NULL, 79, true},
                {"all", NULL, 79, false},
                {"ALL", NULL, 555, false},
                {"xids", NULL, 555, false},
                {"48, Xids", NULL, 555, false},
                {NULL, "all", 13, true},
                {NULL, "xids", 109, true},
                {NULL, "13", 13, true},
                {NULL, "13", 31, false},
                {"11", "11", 11, true},
                {"11", "11", 555, true},
                {"all", "all", 13, true},
                /* What NVIDIA's manual promises and its plugin 0.20 does not do. */
                {"all", "79", 79, true},
                {"all", "79", 48, false},
                {"all", "79, 13", 13, true},
                {"79", "all", 79, true},
                /* What counts for nothing by the table, and what asks for a look only. */
                {NULL, NULL, 14, false},
                {NULL, NULL, 154, false},
                {NULL, "154", 154, true},
                /* Beyond the table of bits, neither list can name it. */
                {NULL, NULL, 100000, true},
                {"all", NULL, 100000, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct strbuf ignored = STRBUF_INIT;
                struct health_policy policy;

                health_policy_parse(&policy, table[i].disable, table[i].enable, &ignored);
                if ((health_policy_effect(&policy, table[i].xid) == XID_UNHEALTHY) != table[i].counts)
                        fail_msg("row %zu: Xid %u", i, table[i].xid);
                strbuf_done(&ignored);
        }
}

static void test_what_is_no_xid_is_named_for_a_warning(void **state UNUSED)
{
        struct strbuf ignored = STRBUF_INIT;
        struct health_policy policy;

        /* The second number is longer by one than any word that is read. */
        health_policy_parse(
                &policy, "68,not-an-int, 67,0000000000000069", "-1,1024,1023,99999999999999999999", &ignored);
        assert_string_equal(ignored.data, "'not-an-int', '0000000000000069', '-1', '1024', '99999999999999999999'");
        assert_int_equal(health_policy_effect(&policy, 67), XID_IGNORED);
        assert_int_equal(health_policy_effect(&policy, 68), XID_IGNORED);
        assert_int_equal(health_policy_effect(&policy, 1023), XID_UNHEALTHY);
        strbuf_done(&ignored);
}

/* The words of k8s-device-plugin's own tests: which numbers a list names. */
static void test_a_list_is_read_as_nvidias_plugin_reads_it(void **state UNUSED)
{
        static const struct {
                const char *list;
                unsigned int named[3];
        } table[] = {
                {"", {0}},
                {",", {0}},
                {"not-an-int", {0}},
                {"68", {68}},
                {"-68", {0}},
                {"68  ", {68}},
                {"68,", {68}},
                {",68", {68}},
                {"68,67", {67, 68}},
                {"68,not-an-int,67", {67, 68}},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct strbuf ignored = STRBUF_INIT;
                struct health_policy disabled;
                struct health_policy enabled;
                size_t next = 0;

                health_policy_parse(&disabled, table[i].list, "", &ignored);
                health_policy_parse(&enabled, "all", table[i].list, &ignored);
                strbuf_done(&ignored);
                for (unsigned int xid = 1; xid < 100; xid++) {
                        bool is_named = xid == table[i].named[next];

                        next += is_named;
                        assert_int_equal(health_policy_effect(&enabled, xid), is_named ? XID_UNHEALTHY : XID_IGNORED);
                        assert_int_equal(
                                health_policy_effect(&disabled, xid), is_named ? XID_IGNORED : xid_default_effect(xid));
                }
        }
}

static void test_a_number_beats_a_word_and_the_environment_beats_the_file(void **state UNUSED)
{
        static const struct {
                const char *disable;
                const char *enable;
                enum { NO_RULE, HEALTHY, UNHEALTHY } rule; /* for Xid 79, or 31 */
                unsigned int xid;
                enum xid_effect effect;
        } table[] = {
                {NULL, NULL, HEALTHY, 79, XID_IGNORED},
                {NULL, NULL, UNHEALTHY, 31, XID_UNHEALTHY},
                {"31", NULL, UNHEALTHY, 31, XID_IGNORED},
                {NULL, "79", HEALTHY, 79, XID_UNHEALTHY},
                {"all", NULL, UNHEALTHY, 79, XID_UNHEALTHY},
                {"all", NULL, NO_RULE, 79, XID_IGNORED},
                {NULL, "all", HEALTHY, 31, XID_IGNORED},
                {"79", "all", HEALTHY, 79, XID_IGNORED},
                {"79", "all", NO_RULE, 79, XID_UNHEALTHY},
                {NULL, NULL, NO_RULE, 109, XID_CHECK},
                {NULL, NULL, HEALTHY, 109, XID_IGNORED},
                {NULL, NULL, UNHEALTHY, 109, XID_UNHEALTHY},
                {"all", NULL, NO_RULE, 109, XID_IGNORED},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct health_policy policy;

                health_policy_parse(&policy, table[i].disable, table[i].enable, NULL);
                assert_true(policy.recover);
                if (table[i].rule != NO_RULE)
                        assert_true(health_policy_add_rule(&policy, table[i].xid, table[i].rule == UNHEALTHY));
                if (health_policy_effect(&policy, table[i].xid) != table[i].effect)
                        fail_msg("row %zu", i);
        }
}

static void test_the_later_rule_holds_and_none_is_out_of_range(void **state UNUSED)
{
        struct health_policy policy;

        health_policy_parse(&policy, NULL, NULL, NULL);
        assert_true(health_policy_add_rule(&policy, 48, false));
        assert_true(health_policy_add_rule(&policy, 48, true));
        assert_int_equal(health_policy_effect(&policy, 48), XID_UNHEALTHY);
        assert_true(health_policy_add_rule(&policy, 48, false));
        assert_int_equal(health_policy_effect(&policy, 48), XID_IGNORED);
        assert_true(health_policy_add_rule(&policy, XID_MAX - 1, false));
        assert_false(health_policy_add_rule(&policy, XID_MAX, false));
}

/* ---- the state machine ---- */

/* One thing that happens, and what must be true after it. */
struct step {
        uint64_t at;
        enum { XID, FAIL, GOOD, CLEARED, BAD, GONE } what;
        unsigned int xid;
        bool is_news;
        bool unhealthy;
        uint64_t probe_at;
};

static void play(struct health *health, const struct step *steps, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                const struct step *step = &steps[i];
                bool is_news = false;

                switch (step->what) {
                case XID:
                        is_news = health_xid(health, step->xid, step->at);
                        break;
                case FAIL:
                        is_news = health_fail(health, "cannot be read", step->at);
                        break;
                case GOOD:
                        is_news = health_probe(health, HEALTH_GOOD, NULL, step->at);
                        break;
                case CLEARED:
                        is_news = health_probe(health, HEALTH_CLEARED, NULL, step->at);
                        break;
                case GONE:
                        is_news = health_probe(health, HEALTH_GONE, "still lost", step->at);
                        break;
                case BAD:
                        is_news = health_probe(health, HEALTH_BAD, "still lost", step->at);
                        break;
                }
                if (is_news != step->is_news || health->unhealthy != step->unhealthy ||
                        health->probe_at_ms != step->probe_at)
                        fail_msg("step %zu: news %d, suspect %d, probe at %llu", i, is_news, health->unhealthy,
                                (unsigned long long)health->probe_at_ms);
        }
}
#define PLAY(health, ...)                                                                                              \
        play((health), (const struct step[]){__VA_ARGS__},                                                             \
                sizeof((const struct step[]){__VA_ARGS__}) / sizeof(struct step))

static void test_a_good_probe_of_a_healthy_unit_changes_nothing(void **state UNUSED)
{
        struct health health;

        health_init(&health, 0);
        PLAY(&health, {1001, GOOD, 0, false, false, HEALTH_NEVER});
        assert_string_equal(health.reason, "");
        assert_int_equal(health.xid, 0);
        /* Nor is it the reason of what follows it. */
        PLAY(&health, {9000, XID, 79, true, true, 10000}, {10000, BAD, 0, true, true, 12000});
        assert_int_equal(health.xid, 0);
}

static void test_three_good_probes_lead_back(void **state UNUSED)
{
        struct health health;

        health_init(&health, 0);
        PLAY(&health, {5000, XID, 94, true, true, 6000}, {6000, GOOD, 0, false, true, 7000},
                {7000, GOOD, 0, false, true, 8000});
        assert_string_equal(health.reason, "Xid 94 (contained ECC error): restart the programs on the GPU");
        assert_int_equal(health.xid, 94);
        PLAY(&health, {8000, GOOD, 0, true, false, HEALTH_NEVER});
        assert_string_equal(health.reason, "");
}

static void test_a_bad_probe_or_another_xid_starts_from_zero(void **state UNUSED)
{
        struct health health;

        health_init(&health, 100);
        PLAY(&health, {0, FAIL, 0, true, true, 100}, {100, GOOD, 0, false, true, 200}, {200, GOOD, 0, false, true, 300},
                {300, BAD, 0, true, true, 500}, {500, GOOD, 0, false, true, 600}, {600, GOOD, 0, false, true, 700},
                {650, XID, 94, true, true, 750}, {750, GOOD, 0, false, true, 850}, {850, GOOD, 0, false, true, 950},
                {950, GOOD, 0, true, false, HEALTH_NEVER});
}

static void test_the_same_reason_again_is_no_news(void **state UNUSED)
{
        struct health health;

        health_init(&health, 100);
        PLAY(&health, {0, XID, 79, true, true, 100}, {10, XID, 79, false, true, 110}, {20, XID, 48, true, true, 120},
                {120, BAD, 0, true, true, 320}, {320, BAD, 0, false, true, 720});
        assert_string_equal(health.reason, "still lost");
}

static void test_bad_probes_get_rarer_but_never_end(void **state UNUSED)
{
        struct health health;
        uint64_t now = 1000;

        health_init(&health, 1000);
        PLAY(&health, {now, FAIL, 0, true, true, now + 1000});
        for (unsigned int i = 0; i < 20; i++) {
                now = health.probe_at_ms;
                (void)health_probe(&health, HEALTH_BAD, "still lost", now);
        }
        assert_int_equal(health.probe_at_ms - now, 32000);
        /* The first good one sets the pace back. */
        now = health.probe_at_ms;
        assert_false(health_probe(&health, HEALTH_GOOD, NULL, now));
        assert_int_equal(health.probe_at_ms - now, 1000);
}

/* Falls at |now| and counts the good probes of the way back, one every 1,000 ms; |now| is then the time of return. */
static unsigned int probes_to_return(struct health *health, uint64_t *now)
{
        unsigned int count = 0;

        assert_true(health_fail(health, "gone", *now));
        while (health->unhealthy) {
                *now = health->probe_at_ms;
                (void)health_probe(health, HEALTH_GOOD, NULL, *now);
                count++;
        }
        return count;
}

static void test_a_relapse_makes_the_way_back_longer(void **state UNUSED)
{
        struct health health;
        uint64_t now = 0;

        health_init(&health, 1000);
        assert_int_equal(probes_to_return(&health, &now), 3);
        now += HEALTH_RELAPSE_MS - 1;
        assert_int_equal(probes_to_return(&health, &now), 6);
        assert_int_equal(probes_to_return(&health, &now), 12);
        assert_int_equal(probes_to_return(&health, &now), 24);
        assert_int_equal(probes_to_return(&health, &now), 48);
        assert_int_equal(probes_to_return(&health, &now), 48);
        now += HEALTH_RELAPSE_MS;
        assert_int_equal(probes_to_return(&health, &now), 3);
}

static void test_an_xid_that_asks_for_a_reset_is_not_forgotten_for_good_probes(void **state UNUSED)
{
        /* All that NVIDIA's catalogue resets or services, on a driver without recovery actions. */
        static const unsigned int xids[] = {46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 155, 158};

        for (size_t i = 0; i < ARRAY_SIZE(xids); i++) {
                struct health health;

                health_init(&health, 1000);
                assert_true(health_xid(&health, xids[i], 0));
                for (unsigned int n = 0; n < 100; n++)
                        assert_false(health_probe(&health, HEALTH_GOOD, NULL, health.probe_at_ms));
                assert_true(health.unhealthy);
                assert_int_equal(health.xid, xids[i]);
        }
}

static void test_a_held_unit_waits_for_a_sign(void **state UNUSED)
{
        struct health health;

        /* The driver says that nothing is needed. */
        health_init(&health, 100);
        PLAY(&health, {0, XID, 95, true, true, 100}, {100, GOOD, 0, false, true, 300}, {300, GOOD, 0, false, true, 700},
                {700, CLEARED, 0, false, true, 800}, {800, CLEARED, 0, false, true, 900},
                {900, CLEARED, 0, true, false, HEALTH_NEVER});
        /* The GPU is found anew. */
        health_init(&health, 100);
        PLAY(&health, {0, XID, 79, true, true, 100}, {100, GONE, 0, true, true, 300}, {300, GOOD, 0, false, true, 400},
                {400, GOOD, 0, false, true, 500}, {500, GOOD, 0, true, false, HEALTH_NEVER});
        /* The driver is another one; but not if the same happens again with that. */
        health_init(&health, 100);
        PLAY(&health, {0, XID, 79, true, true, 100}, {100, GOOD, 0, false, true, 300});
        health_release(&health);
        PLAY(&health, {300, GOOD, 0, false, true, 400}, {310, XID, 79, false, true, 410},
                {410, GOOD, 0, false, true, 610});
        /* A call that failed meanwhile is no sign, and not what it waits for. */
        PLAY(&health, {610, BAD, 0, true, true, 1010}, {1010, GOOD, 0, true, true, 1810});
        assert_int_equal(health.xid, 79);
}

static void test_a_healthy_unit_that_fails_a_probe_falls(void **state UNUSED)
{
        struct health health;

        health_init(&health, 1000);
        PLAY(&health, {50, BAD, 0, true, true, 1050});
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_which_xids_count_follows_the_two_lists),
                cmocka_unit_test(test_what_is_no_xid_is_named_for_a_warning),
                cmocka_unit_test(test_a_list_is_read_as_nvidias_plugin_reads_it),
                cmocka_unit_test(test_a_number_beats_a_word_and_the_environment_beats_the_file),
                cmocka_unit_test(test_the_later_rule_holds_and_none_is_out_of_range),
                cmocka_unit_test(test_a_good_probe_of_a_healthy_unit_changes_nothing),
                cmocka_unit_test(test_three_good_probes_lead_back),
                cmocka_unit_test(test_a_bad_probe_or_another_xid_starts_from_zero),
                cmocka_unit_test(test_the_same_reason_again_is_no_news),
                cmocka_unit_test(test_bad_probes_get_rarer_but_never_end),
                cmocka_unit_test(test_a_relapse_makes_the_way_back_longer),
                cmocka_unit_test(test_an_xid_that_asks_for_a_reset_is_not_forgotten_for_good_probes),
                cmocka_unit_test(test_a_held_unit_waits_for_a_sign),
                cmocka_unit_test(test_a_healthy_unit_that_fails_a_probe_falls),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
