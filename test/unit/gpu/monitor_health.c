// SPDX-License-Identifier: Apache-2.0
/* What makes a unit unhealthy beside an Xid that counts, and what the policy says to it. */
#include "unit.h"

#include "monitor_fixture.h"

#define V100(more) "gpus: [{model: V100-32GB, uuid: " A more "}]\n"
#define A100(more) "gpus: [{model: A100-40GB, uuid: " A more "}]\n"
#define T4(more) REPORTS "gpus: [{model: T4, uuid: " A more "}]\n"

static void test_a_restart_heals_no_memory_that_waits_for_a_reset(void **state)
{
        static const struct {
                const char *scenario;
                const char *reason; /* NULL: healthy */
        } table[] = {
                {V100(", retiredPagesPending: true"), "a memory page is to be retired: the GPU needs a reset"},
                {V100(", ecc: {uncorrected: {volatile: 1}}"),
                        "memory errors that could not be corrected: the GPU needs a reset"},
                {V100(", ecc: {uncorrected: {aggregate: 9}, corrected: {volatile: 9}}"), NULL},
                {V100(", ecc: {enabled: false}"), NULL},
                {A100(", remappedRows: {pending: true}"), NULL},
                /* Where NVML does not speak of remapped rows, it is not an older board. */
                {A100(", mig: {enabled: true}, ecc: {uncorrected: {volatile: 1}}"), NULL},
                {A100(", remappedRows: {failure: true}"),
                        "a memory row could not be remapped: the board needs service"},
                /* Newer boards contain them. */
                {A100(", ecc: {uncorrected: {volatile: 1}}"), NULL},
        };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                start(fixture, table[i].scenario);
                fixture->n_reported = 0;
                expect(fixture, 0, "inventory 1");
                run_for(fixture, 50);
                assert_int_equal(fixture->n_reported, table[i].reason ? 2 : 1);
                if (table[i].reason)
                        assert_string_equal(fixture->reported[1] + strlen("- " A " "), table[i].reason);
                gpu_monitor_close(fixture->monitor, on_closed, fixture);
                wait_closed(fixture);
                fixture->is_closed = i + 1 == ARRAY_SIZE(table);
        }
}

static void test_a_row_to_be_remapped_counts_where_the_policy_says_so(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct health_policy policy;

        health_policy_parse(&policy, NULL, NULL, NULL);
        policy.counts_remaps = true;
        options.policy = &policy;
        start_with(fixture, A100(", remappedRows: {pending: true}"), &options);
        expect(fixture, 0, "- " A " a memory row is to be remapped: the GPU needs a reset");
        scenario_write(A100(""));
        expect(fixture, 2, "+ " A);
}

#define OLD_T4(more) "gpus: [{model: T4, uuid: " A more "}]\n"

static void test_an_older_driver_that_says_nothing_heals_no_gpu_that_needs_a_reset(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, OLD_T4(""));
        expect(fixture, 0, "inventory");
        run_for(fixture, 30);
        scenario_write(OLD_T4("") "events: [{gpu: 0, xid: 95}]\n");
        at = expect(fixture, 1, "- " A " Xid 95");
        run_for(fixture, 500);
        /* A new count of the GPUs opens NVML again, where the kernel does not show its own: that is no reset. */
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, at, "inventory");
        run_for(fixture, 500);
        assert_int_equal(fixture->n_reported, at + 2);
        /* The GPU was gone, and is found. */
        scenario_write(OLD_T4(", lost: true") "events: [{gpu: 0, xid: 95}]\n");
        at = expect(fixture, at + 2, "- " A);
        scenario_write(OLD_T4("") "events: [{gpu: 0, xid: 95}]\n");
        at = expect(fixture, at, "+ " A);
        /* What only a program has to be restarted for is back by itself. */
        scenario_write(OLD_T4("") "events: [{gpu: 0, xid: 95}, {gpu: 0, xid: 94}]\n");
        at = expect(fixture, at, "- " A " Xid 94");
        at = expect(fixture, at, "+ " A);
        /* Another driver knows nothing of what the one before knew. */
        scenario_write(OLD_T4("") "events: [{gpu: 0, xid: 95}, {gpu: 0, xid: 94}, {gpu: 0, xid: 79}]\n");
        at = expect(fixture, at, "- " A " Xid 79");
        scenario_write(OLD_T4("") "init: {error: DRIVER_NOT_LOADED}\n"
                                  "errors: {nvmlEventSetWait: UNINITIALIZED}\n");
        at = expect(fixture, at, "unavailable");
        scenario_write(OLD_T4(""));
        expect(fixture, at, "+ " A);
}

static void test_a_fault_without_an_event_is_found_by_reading(void **state)
{
        static const char *const faults[] = {REPORTS A100(", remappedRows: {failure: true}"),
                REPORTS A100(", recoveryAction: reset"), REPORTS A100(", lost: true")};
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at = 0;

        options.refresh_ms = 50;
        start_with(fixture, REPORTS A100(""), &options);
        at = expect(fixture, 0, "inventory");
        for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
                run_for(fixture, 100);
                scenario_write(faults[i]);
                at = expect(fixture, at, "- " A);
                scenario_write(REPORTS A100(""));
                at = expect(fixture, at, "+ " A);
        }
}

static void test_events_that_only_ask_for_a_look_are_judged_by_what_the_driver_says(void **state)
{
        static const char *const events[] = {"type: dbe", "xid: 154", "xid: 109", "xid: 145", "xid: 149"};
        struct fixture *fixture = *state;
        struct strbuf list = STRBUF_INIT;
        size_t at = 0;

        for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
                char scenario[1024];

                strbuf_printf(&list, "%s{gpu: 0, %s}", list.size ? ", " : "", events[i]);
                if (i == 0) {
                        start(fixture, T4(""));
                        at = expect(fixture, 0, "inventory") + 1;
                        run_for(fixture, 30);
                }
                /* In vain, and then not. */
                snprintf(scenario, sizeof(scenario), T4("") "events: [%s]\n", list.data);
                scenario_write(scenario);
                run_for(fixture, 100);
                assert_int_equal(fixture->n_reported, at);
                strbuf_printf(&list, ", {gpu: 0, %s}", events[i]);
                snprintf(scenario, sizeof(scenario), T4(", recoveryAction: reset") "events: [%s]\n", list.data);
                scenario_write(scenario);
                assert_int_equal(expect(fixture, at, "- " A " the driver asks for a reset of the GPU"), at);
                snprintf(scenario, sizeof(scenario), T4("") "events: [%s]\n", list.data);
                scenario_write(scenario);
                at = expect(fixture, at, "+ " A) + 1;
        }
        strbuf_done(&list);
}

static void test_a_gpu_that_cannot_report_events_is_not_healthy(void **state)
{
        static const char *const calls[] = {"nvmlEventSetCreate", "nvmlDeviceRegisterEvents"};
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                char scenario[512];
                size_t at;

                options.refresh_ms = 50;
                snprintf(scenario, sizeof(scenario), TWO_GPUS "errors: {%s: UNKNOWN}\n", calls[i]);
                start_with(fixture, scenario, &options);
                at = fixture->n_reported;
                expect(fixture, at, "inventory 2");
                expect(fixture, at, "- " A);
                assert_non_null(strstr(fixture->reported[expect(fixture, at, "- " B)], calls[i]));
                run_for(fixture, 300);
                assert_int_equal(fixture->n_reported, at + 3);
                scenario_write(TWO_GPUS);
                expect(fixture, at, "+ " A);
                expect(fixture, at, "+ " B);
                /* And then it is heard. */
                scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\n");
                expect(fixture, at, "- " B " Xid 48");
                gpu_monitor_close(fixture->monitor, on_closed, fixture);
                wait_closed(fixture);
                fixture->is_closed = i == 1;
        }
}

static void test_waits_that_keep_failing_are_reported_and_leave_no_gpu_healthy(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.unheard_ms = 300;
        start_with(fixture, TWO_GPUS, &options);
        at = expect(fixture, 0, "inventory 2");
        scenario_write(TWO_GPUS "errors: {nvmlEventSetWait: UNKNOWN}\n");
        expect(fixture, at, "unheard no health events arrive: nvmlEventSetWait: ");
        expect(fixture, at, "- " A " no health events arrive: nvmlEventSetWait: ");
        expect(fixture, at, "- " B " no health events arrive: nvmlEventSetWait: ");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, at + 4); /* not again and again, and their probes do not heal them */
        assert_true(gpu_monitor_failed_waits(fixture->monitor) > 2);
        scenario_write(TWO_GPUS);
        expect(fixture, at, "unheard no more");
        expect(fixture, at, "+ " A);
        expect(fixture, at, "+ " B);
}

static void test_a_driver_or_a_board_without_events_is_no_failure(void **state)
{
        static const char *const errors[] = {
                "nvmlEventSetCreate: NOT_SUPPORTED",
                "nvmlEventSetCreate: FUNCTION_NOT_FOUND",
                "nvmlDeviceRegisterEvents: NOT_SUPPORTED",
        };
        struct fixture *fixture = *state;

        for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
                char scenario[512];

                snprintf(scenario, sizeof(scenario), TWO_GPUS "errors: {%s}\n", errors[i]);
                start(fixture, scenario);
                fixture->n_reported = 0;
                expect(fixture, 0, "inventory 2");
                run_for(fixture, 100);
                assert_int_equal(fixture->n_reported, 1);
                gpu_monitor_close(fixture->monitor, on_closed, fixture);
                wait_closed(fixture);
                fixture->is_closed = i + 1 == ARRAY_SIZE(errors);
        }
}

static void test_with_checks_disabled_neither_events_nor_their_absence_matter(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct health_policy policy;

        health_policy_parse(&policy, "all", NULL, NULL);
        options.policy = &policy;
        start_with(fixture,
                T4(", recoveryAction: reset, errors: {nvmlDeviceRegisterEvents: {error: UNKNOWN, times: 1}}"),
                &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(
                T4(", recoveryAction: reset") "events: [{gpu: 0, type: dbe}, {gpu: 0, xid: 79}, {gpu: 0, xid: 154}]\n");
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, 1);
}

#define TWO_MIG_GPUS(more)                                                                                             \
        "gpus:\n"                                                                                                      \
        "- {model: A100-40GB, uuid: " B ", mig: {devices: [{profile: 7g.40gb, uuid: MIG-of-b}]}}\n"                    \
        "- model: A100-40GB\n"                                                                                         \
        "  uuid: " A "\n" more "  mig:\n"                                                                              \
        "    devices:\n"                                                                                               \
        "    - {profile: 3g.20gb, gi: 1, ci: 0, uuid: " MIG_1 "}\n"                                                    \
        "    - {profile: 3g.20gb, gi: 2, ci: 0, uuid: " MIG_2 "}\n"

static void test_a_lost_gpu_takes_all_its_mig_devices_and_no_others(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.refresh_ms = 50;
        start_with(fixture, TWO_MIG_GPUS(""), &options);
        expect(fixture, 0, "inventory 2");
        scenario_write(TWO_MIG_GPUS("  lost: true\n"));
        expect(fixture, 1, "- " A);
        expect(fixture, 1, "- " MIG_1);
        at = expect(fixture, 1, "- " MIG_2);
        /* They are still known, by the memory of what they were. */
        assert_int_equal(fixture->inventory->n_gpus, 2);
        assert_int_equal(fixture->inventory->gpus[1].n_mig_devices, 2);
        assert_string_equal(fixture->inventory->gpus[1].mig_devices[1].uuid, MIG_2);
        scenario_write(TWO_MIG_GPUS(""));
        expect(fixture, at, "+ " A);
        expect(fixture, at, "+ " MIG_1);
        expect(fixture, at, "+ " MIG_2);
        for (size_t i = 0; i < fixture->n_reported; i++)
                assert_true(!strstr(fixture->reported[i], B) && !strstr(fixture->reported[i], "MIG-of-b"));
}

/* A GPU whose second MIG device is made and destroyed; each probe takes a while to find its unit. */
#define SLOW_MIG_GPU(second)                                                                                           \
        REPORTS "delays: {nvmlDeviceGetHandleByUUID: 100ms}\n"                                                         \
                "gpus:\n"                                                                                              \
                "- model: A100-40GB\n"                                                                                 \
                "  uuid: " A "\n"                                                                                      \
                "  mig:\n"                                                                                             \
                "    devices:\n"                                                                                       \
                "    - {profile: 3g.20gb, gi: 1, ci: 0, uuid: " MIG_1 "}\n" second

static void test_a_mig_device_that_is_destroyed_during_a_reading_is_not_unhealthy(void **state)
{
        static const char two[] = SLOW_MIG_GPU("    - {profile: 3g.20gb, gi: 2, ci: 0, uuid: " MIG_2 "}\n");
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.refresh_ms = 20;
        start_with(fixture, two, &options);
        for (size_t i = 0, at = 0; i < 4; i++) {
                const size_t n_wanted = i % 2 ? 1 : 2;

                do
                        at = expect(fixture, at, "inventory") + 1;
                while (fixture->inventory->gpus[0].n_mig_devices != n_wanted);
                run_for(fixture, 60);
                scenario_write(n_wanted == 2 ? SLOW_MIG_GPU("") : two);
        }
        run_for(fixture, 500);
        for (size_t i = 0; i < fixture->n_reported; i++)
                assert_memory_equal(fixture->reported[i], "inventory", strlen("inventory"));
}

static void test_a_mig_device_that_is_listed_and_not_found_is_unhealthy_at_its_second_reading(void **state)
{
        static const char not_found_once[] =
                MIG_GPU "  errors: {nvmlDeviceGetHandleByUUID: {error: NOT_FOUND, after: 1, times: 1}}\n";
        static const char once_more[] =
                MIG_GPU "  errors: {nvmlDeviceGetHandleByUUID: {times: 1, error: NOT_FOUND, after: 1}}\n";
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.refresh_ms = 200;
        start_with(fixture, MIG_GPU, &options);
        at = expect(fixture, 0, "inventory");
        scenario_write(not_found_once);
        run_for(fixture, 600);
        assert_int_equal(fixture->n_reported, at + 1);
        /* Each change of the file lets the next reading miss the device once. */
        for (size_t i = 0; i < PATIENCE_MS / 150 && fixture->n_reported == at + 1; i++) {
                scenario_write(i % 2 ? not_found_once : once_more);
                run_for(fixture, 150);
        }
        assert_non_null(strstr(fixture->reported[at + 1], "- " MIG_1 " nvmlDeviceGetHandleByUUID: "));
}

static void test_without_recovery_a_unit_stays_away_until_the_policy_changes(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct health_policy policy;
        size_t at;

        health_policy_parse(&policy, NULL, NULL, NULL);
        policy.recover = false;
        options.policy = &policy;
        options.refresh_ms = 50;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 30);
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\n");
        at = expect(fixture, 1, "- " B " Xid 48");
        run_for(fixture, 500);
        assert_int_equal(fixture->n_reported, at + 1);
        /* Neither does an outage bring it back, though it does the other. */
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\nerrors: {nvmlSystemGetDriverVersion: UNINITIALIZED}\n");
        at = expect(fixture, at, "unavailable");
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\n");
        at = expect(fixture, at, "inventory");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, at + 2);
        assert_non_null(strstr(fixture->reported[at + 1], "- " B " Xid 48"));
        policy.recover = true;
        gpu_monitor_set_policy(fixture->monitor, &policy);
        expect(fixture, at, "+ " B);
}

static void test_the_policy_can_be_replaced_at_any_time(void **state)
{
        struct fixture *fixture = *state;
        struct health_policy policy;
        size_t at;

        start(fixture, T4(", recoveryAction: reset"));
        at = expect(fixture, 0, "- " A);
        scenario_write(T4(""));
        at = expect(fixture, at, "+ " A);
        /* Xid 48 counts no more, 31 does. */
        health_policy_parse(&policy, NULL, NULL, NULL);
        health_policy_add_rule(&policy, 48, false);
        health_policy_add_rule(&policy, 31, true);
        gpu_monitor_set_policy(fixture->monitor, &policy);
        run_for(fixture, 300);
        scenario_write(T4("") "events: [{gpu: 0, xid: 48}, {gpu: 0, xid: 31}]\n");
        assert_int_equal(expect(fixture, at + 1, "- " A " Xid 31"), at + 1);
        at = expect(fixture, at + 1, "+ " A);
        /* Nothing counts; then everything again, and what was overlooked is found. */
        health_policy_parse(&policy, "all", NULL, NULL);
        gpu_monitor_set_policy(fixture->monitor, &policy);
        run_for(fixture, 300);
        scenario_write(
                T4(", recoveryAction: reset") "events: [{gpu: 0, xid: 48}, {gpu: 0, xid: 31}, {gpu: 0, xid: 79}]\n");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, at + 1);
        health_policy_parse(&policy, NULL, NULL, NULL);
        gpu_monitor_set_policy(fixture->monitor, &policy);
        expect(fixture, at, "- " A " the driver asks for a reset of the GPU");
}

static void test_a_policy_that_comes_while_there_is_no_driver_holds_when_it_comes(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct health_policy policy;

        start_with(fixture, "init: {error: DRIVER_NOT_LOADED}\n", &options);
        expect(fixture, 0, "unavailable");
        health_policy_parse(&policy, "all", NULL, NULL);
        gpu_monitor_set_policy(fixture->monitor, &policy);
        run_for(fixture, 50);
        scenario_write(T4(", recoveryAction: reset"));
        expect(fixture, 0, "inventory 1");
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_restart_heals_no_memory_that_waits_for_a_reset),
                TEST(test_a_row_to_be_remapped_counts_where_the_policy_says_so),
                TEST(test_an_older_driver_that_says_nothing_heals_no_gpu_that_needs_a_reset),
                TEST(test_a_fault_without_an_event_is_found_by_reading),
                TEST(test_events_that_only_ask_for_a_look_are_judged_by_what_the_driver_says),
                TEST(test_a_gpu_that_cannot_report_events_is_not_healthy),
                TEST(test_waits_that_keep_failing_are_reported_and_leave_no_gpu_healthy),
                TEST(test_a_driver_or_a_board_without_events_is_no_failure),
                TEST(test_with_checks_disabled_neither_events_nor_their_absence_matter),
                TEST(test_a_lost_gpu_takes_all_its_mig_devices_and_no_others),
                TEST(test_a_mig_device_that_is_destroyed_during_a_reading_is_not_unhealthy),
                TEST(test_a_mig_device_that_is_listed_and_not_found_is_unhealthy_at_its_second_reading),
                TEST(test_without_recovery_a_unit_stays_away_until_the_policy_changes),
                TEST(test_the_policy_can_be_replaced_at_any_time),
                TEST(test_a_policy_that_comes_while_there_is_no_driver_holds_when_it_comes),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
