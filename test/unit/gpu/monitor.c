// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include "monitor_fixture.h"

static void test_the_inventory_comes_first_and_all_are_healthy(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, TWO_GPUS);
        assert_int_equal(expect(fixture, 0, "inventory 2"), 0);
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, 1);
        assert_string_equal(fixture->inventory->gpus[1].uuid, B);
}

static void test_an_xid_is_reported_at_once_and_ends_with_its_cause(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, TWO_GPUS);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B ", recoveryAction: reset}]\n"
                               "events: [{gpu: 1, xid: 79}]\n");
        at = expect(fixture, 1, "- " B " Xid 79 (GPU has fallen off the bus)");
        /* The probes find out why it stays away. */
        at = expect(fixture, at, "- " B " the driver asks for a reset of the GPU");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, at + 1);
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 79}]\n");
        expect(fixture, at, "+ " B);
}

/* As with a driver that is slow when a GPU is ill: by then a probe is due, and finds another reason. */
static void test_an_xid_is_reported_even_if_a_probe_has_a_newer_result_before_the_loop_turns(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, TWO_GPUS);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B ", recoveryAction: reset}]\n"
                               "events: [{gpu: 1, xid: 79}]\ndelays: {nvmlEventSetWait: 100ms}\n");
        usleep(500000);
        assert_int_equal(expect(fixture, 1, "- " B " Xid 79 (GPU has fallen off the bus)"), 1);
        assert_int_equal(expect(fixture, 2, "- " B " the driver asks for a reset of the GPU"), 2);
}

/* It may be long until the driver says that there is no other one: here longer than anybody waits. */
static void test_an_xid_is_reported_before_the_next_is_asked_for(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.wait_ms = 300000;
        options.refresh_ms = 0;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 500);
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 79}]\ndelays: {nvmlEventSetWait: 600s}\n");
        assert_int_equal(expect(fixture, 1, "- " B " Xid 79 (GPU has fallen off the bus)"), 1);
}

static void after_health(const char *uuid, bool healthy, const char *reason UNUSED, uint64_t xid, void *data)
{
        struct fixture *fixture = data;

        snprintf(next_line(fixture), sizeof(fixture->reported[0]), healthy ? "after: + %s" : "after: - %s Xid %llu",
                uuid, (unsigned long long)xid);
}

static void test_what_may_wait_is_told_after_all_units_that_fell_together(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.after_health = after_health;
        start_with(fixture, MIG_GPU, &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(MIG_GPU "events: [{gpu: 0, xid: 79}]\n");
        assert_int_equal(expect(fixture, 1, "- " A " Xid 79"), 1);
        assert_int_equal(expect(fixture, 1, "- " MIG_1 " Xid 79"), 2);
        assert_int_equal(expect(fixture, 1, "- " MIG_2 " Xid 79"), 3);
        assert_int_equal(expect(fixture, 1, "after: - " A " Xid 79"), 4);
        assert_int_equal(expect(fixture, 1, "after: - " MIG_1 " Xid 79"), 5);
        assert_int_equal(expect(fixture, 1, "after: - " MIG_2 " Xid 79"), 6);
}

static void test_application_faults_and_disabled_xids_change_nothing(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct strbuf ignored = STRBUF_INIT;
        struct health_policy policy;

        health_policy_parse(&policy, "48", "", &ignored);
        options.policy = &policy;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(TWO_GPUS "events: [{gpu: 0, xid: 31}, {gpu: 0, xid: 48}, {gpu: 1, xid: 74}]\n");
        /* Events keep their order: what comes before the last one has been judged when that is told. */
        assert_int_equal(expect(fixture, 1, "- " B " Xid 74"), 1);
}

static void test_an_xid_of_one_mig_device_spares_the_other(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, MIG_GPU);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(MIG_GPU "events: [{gpu: 0, xid: 94, gi: 2, ci: 0}]\n");
        at = expect(fixture, 1, "- " MIG_2 " Xid 94 (contained ECC error)");
        expect(fixture, at, "+ " MIG_2);
        for (size_t i = 1; i < fixture->n_reported; i++)
                assert_non_null(strstr(fixture->reported[i], MIG_2));
        at = fixture->n_reported;
        /* One of the GPU as a whole hits them all. */
        scenario_write(MIG_GPU "events: [{gpu: 0, xid: 94, gi: 2, ci: 0}, {gpu: 0, xid: 79}]\n");
        expect(fixture, at, "- " A " Xid 79");
        expect(fixture, at, "- " MIG_1 " Xid 79");
        expect(fixture, at, "- " MIG_2 " Xid 79");
        expect(fixture, at, "+ " A);
        expect(fixture, at, "+ " MIG_1);
        expect(fixture, at, "+ " MIG_2);
}

static void test_a_lost_gpu_affects_no_other_and_returns(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.refresh_ms = 100;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A ", lost: true}, {model: T4, uuid: " B "}]\n");
        at = expect(fixture, 1, "- " A);
        assert_non_null(strstr(fixture->reported[at], "GPU_IS_LOST"));
        run_for(fixture, 1500);
        for (size_t i = 0; i < fixture->n_reported; i++)
                assert_null(strstr(fixture->reported[i], B));
        assert_int_equal(fixture->inventory->n_gpus, 2);
        assert_string_equal(fixture->inventory->gpus[0].uuid, A);
        assert_string_equal(fixture->inventory->gpus[0].name, "Tesla T4");
        at = fixture->n_reported;
        /* The others are heard without it. */
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A ", lost: true}, {model: T4, uuid: " B "}]\n"
                               "events: [{gpu: 1, xid: 48}]\n");
        expect(fixture, at, "- " B " Xid 48 (double-bit ECC error)");
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\n");
        expect(fixture, at, "+ " A);
        /* And so is it, once it is back. */
        at = fixture->n_reported;
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}, {gpu: 0, xid: 95}]\n");
        expect(fixture, at, "- " A " Xid 95 (uncontained ECC error)");
        assert_null(fixture->inventory->gpus[0].failure);
}

static void test_a_rescan_is_answered_though_nothing_changed(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, TWO_GPUS);
        expect(fixture, 0, "inventory");
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, 1, "inventory 2");
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, at + 1, "inventory 2");
}

static void test_an_inventory_is_followed_by_the_unhealthy_units(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        /* From the start: a restart of ours heals nothing. */
        start(fixture, REPORTS "gpus: [{model: T4, uuid: " A ", recoveryAction: reboot}, {model: T4, uuid: " B "}]\n");
        expect(fixture, 0, "- " A " the driver asks for a reboot of the node");
        assert_int_equal(fixture->n_reported, 2);
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, 2, "inventory 2");
        assert_int_equal(fixture->n_reported, at + 2);
        assert_non_null(strstr(fixture->reported[at + 1], "- " A));
        scenario_write(TWO_GPUS);
        expect(fixture, at, "+ " A);
}

static void test_with_checks_disabled_a_waiting_reset_is_no_matter(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct health_policy policy;

        health_policy_parse(&policy, "all", NULL, NULL);
        options.policy = &policy;
        start_with(fixture, REPORTS "gpus: [{model: T4, uuid: " A ", recoveryAction: reboot}]\n", &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
}

static void test_a_changed_mig_layout_is_a_new_inventory(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.refresh_ms = 50;
        start_with(fixture, "gpus: [{model: A100-40GB, uuid: " A ", mig: {enabled: true}}]\n", &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
        scenario_write(MIG_GPU);
        /* One that was being read while the file changed may come before. */
        for (size_t at = 1; fixture->inventory->gpus[0].n_mig_devices != 2; at++)
                at = expect(fixture, at, "inventory");
}

static void test_a_mig_event_makes_the_inventory_be_read(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, "gpus: [{model: A100-40GB, uuid: " A ", mig: {enabled: true}}]\n");
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(MIG_GPU "events: [{gpu: 0, type: mig}]\n");
        for (size_t at = 1; fixture->inventory->gpus[0].n_mig_devices != 2; at++)
                at = expect(fixture, at, "inventory");
}

static void test_a_gpu_that_failed_at_start_joins_later(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, "gpus:\n- {model: T4, uuid: " A "}\n"
                       "- {model: T4, uuid: " B ", errors: {nvmlDeviceGetName: UNKNOWN}}\n");
        assert_int_equal(expect(fixture, 0, "inventory 2"), 0);
        at = expect(fixture, 0, "- " B " nvmlDeviceGetName: ");
        assert_non_null(fixture->inventory->gpus[1].failure);
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, 2);
        scenario_write(TWO_GPUS);
        expect(fixture, at, "inventory 2");
        assert_null(fixture->inventory->gpus[1].failure);
        assert_string_equal(fixture->inventory->gpus[1].name, "Tesla T4");
        expect(fixture, at + 1, "+ " B);
}

static void test_a_search_reports_each_reason_once_and_finds_what_appears(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, "init: {error: DRIVER_NOT_LOADED}\n" TWO_GPUS);
        expect(fixture, 0, "unavailable the NVIDIA driver is not loaded");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, 1);
        scenario_write("init: {error: LIB_RM_VERSION_MISMATCH}\n" TWO_GPUS);
        at = expect(fixture, 1, "unavailable the NVIDIA library and the loaded kernel driver have different versions");
        assert_int_equal(at, 1);
        scenario_write(TWO_GPUS);
        assert_int_equal(expect(fixture, at, "inventory 2"), 2);
}

static void test_a_missing_library_is_searched_for(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.library = "/nowhere/libnvidia-ml.so.1";
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "unavailable /nowhere/libnvidia-ml.so.1 not found: is the NVIDIA driver installed");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
}

static void test_a_node_without_gpus_is_an_inventory_and_gpus_may_come(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, "gpus: []\n");
        expect(fixture, 0, "inventory 0");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, 1);
        scenario_write(TWO_GPUS);
        assert_int_equal(expect(fixture, 1, "inventory 2"), 1);
}

static void test_a_library_that_fails_for_good_is_opened_again(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, TWO_GPUS);
        expect(fixture, 0, "inventory");
        scenario_write(TWO_GPUS "errors: {nvmlEventSetWait: LIB_RM_VERSION_MISMATCH}\n");
        at = expect(fixture, 1, "unavailable nvmlEventSetWait: ");
        scenario_write(TWO_GPUS);
        expect(fixture, at, "inventory 2");
}

/* At least once: what else the machine does, and a page that it has to read, may be a switch of this process, too. */
static void expect_switches(struct fixture *fixture, uint64_t ms, long most)
{
        for (unsigned int i = 0; i < 5; i++) {
                struct rusage before;
                struct rusage after;

                getrusage(RUSAGE_SELF, &before);
                loop_run_until(&fixture->loop, never, NULL, ms);
                getrusage(RUSAGE_SELF, &after);
                print_message("# switches in %u ms: %ld\n", (unsigned int)ms, after.ru_nvcsw - before.ru_nvcsw);
                if (after.ru_nvcsw - before.ru_nvcsw <= most)
                        return;
        }
        fail_msg("more than %ld switches each time", most);
}

static void test_a_wait_that_always_fails_neither_spins_nor_condemns(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, TWO_GPUS "errors: {nvmlEventSetWait: UNKNOWN}\n");
        expect(fixture, 0, "inventory");
        expect_switches(fixture, 2000, 40);
        assert_int_equal(fixture->n_reported, 1);
}

static void test_an_idle_monitor_hardly_wakes(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.wait_ms = 0;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 100);
        /* One a second, and the test's own timer. */
        expect_switches(fixture, 3000, 5);
}

static void test_a_search_is_closed_at_once(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.retry_ms = 60000;
        start_with(fixture, "init: {error: DRIVER_NOT_LOADED}\n", &options);
        expect(fixture, 0, "unavailable");
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
}

static void test_a_rescan_ends_the_wait_of_a_search(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.retry_ms = 60000;
        start_with(fixture, "init: {error: DRIVER_NOT_LOADED}\n", &options);
        expect(fixture, 0, "unavailable");
        scenario_write(TWO_GPUS);
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, 1, "inventory 2");
}

static void test_it_may_be_closed_from_its_own_callback(void **state)
{
        struct fixture *fixture = *state;

        fixture->close_on_inventory = true;
        start(fixture, "gpus: [{model: T4, uuid: " A ", errors: {nvmlDeviceGetName: UNKNOWN}}]\n");
        wait_closed(fixture);
        assert_int_equal(fixture->n_reported, 1);
}

static void test_it_may_be_closed_before_it_said_anything(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, TWO_GPUS);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
        assert_int_equal(fixture->n_reported, 0);
}

static void test_a_call_that_hangs_does_not_hold_the_loop(void **state)
{
        struct fixture *fixture = *state;
        uint64_t began;

        start(fixture, "gpus: [{model: T4, delays: {nvmlDeviceGetName: 3s}}]\n");
        run_for(fixture, 100);
        began = uv_hrtime();
        gpu_monitor_rescan(fixture->monitor);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        run_for(fixture, 20);
        assert_true(uv_hrtime() - began < UINT64_C(2000000000));
        wait_closed(fixture);
        assert_int_equal(fixture->n_reported, 0);
}

static bool is_library_gone(void *data UNUSED)
{
        void *library = dlopen(scenario_library(), RTLD_LAZY | RTLD_NOLOAD);

        if (library)
                dlclose(library);
        return !library;
}

static bool is_paused(void *data)
{
        return gpu_monitor_is_paused(((struct fixture *)data)->monitor);
}

static void pause_now(struct fixture *fixture)
{
        gpu_monitor_pause(fixture->monitor);
        assert_true(loop_run_until(&fixture->loop, is_paused, fixture, PATIENCE_MS));
        assert_true(is_library_gone(NULL));
}

static void test_a_pause_closes_nvml_and_what_is_known_stays(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, TWO_GPUS);
        at = expect(fixture, 0, "inventory 2") + 1;
        assert_false(gpu_monitor_is_paused(fixture->monitor));
        pause_now(fixture);
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A "}]\n");
        gpu_monitor_rescan(fixture->monitor);
        gpu_monitor_pause(fixture->monitor);
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, at); /* neither an inventory nor a word of health */
        assert_true(gpu_monitor_is_paused(fixture->monitor) && is_library_gone(NULL));
        gpu_monitor_resume(fixture->monitor);
        assert_false(gpu_monitor_is_paused(fixture->monitor));
        expect(fixture, at, "inventory 1");
        /* And again. */
        pause_now(fixture);
        gpu_monitor_resume(fixture->monitor);
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, fixture->n_reported, "inventory 1");
}

static void test_a_search_pauses_too_and_a_paused_monitor_is_closed(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, "init: {error: DRIVER_NOT_LOADED}\n" TWO_T4S);
        expect(fixture, 0, "unavailable");
        pause_now(fixture);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
}

static void test_a_monitor_in_a_call_that_hangs_is_paused_when_its_process_has_ended(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, "gpus: [{model: T4, delays: {nvmlDeviceGetName: 600s}}]\n");
        run_for(fixture, 100);
        pause_now(fixture);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_the_inventory_comes_first_and_all_are_healthy),
                TEST(test_an_xid_is_reported_at_once_and_ends_with_its_cause),
                TEST(test_an_xid_is_reported_even_if_a_probe_has_a_newer_result_before_the_loop_turns),
                TEST(test_an_xid_is_reported_before_the_next_is_asked_for),
                TEST(test_what_may_wait_is_told_after_all_units_that_fell_together),
                TEST(test_application_faults_and_disabled_xids_change_nothing),
                TEST(test_an_xid_of_one_mig_device_spares_the_other),
                TEST(test_a_lost_gpu_affects_no_other_and_returns),
                TEST(test_a_rescan_is_answered_though_nothing_changed),
                TEST(test_an_inventory_is_followed_by_the_unhealthy_units),
                TEST(test_with_checks_disabled_a_waiting_reset_is_no_matter),
                TEST(test_a_changed_mig_layout_is_a_new_inventory),
                TEST(test_a_mig_event_makes_the_inventory_be_read),
                TEST(test_a_gpu_that_failed_at_start_joins_later),
                TEST(test_a_search_reports_each_reason_once_and_finds_what_appears),
                TEST(test_a_missing_library_is_searched_for),
                TEST(test_a_node_without_gpus_is_an_inventory_and_gpus_may_come),
                TEST(test_a_library_that_fails_for_good_is_opened_again),
                TEST(test_a_wait_that_always_fails_neither_spins_nor_condemns),
                TEST(test_an_idle_monitor_hardly_wakes),
                TEST(test_a_search_is_closed_at_once),
                TEST(test_a_rescan_ends_the_wait_of_a_search),
                TEST(test_it_may_be_closed_from_its_own_callback),
                TEST(test_it_may_be_closed_before_it_said_anything),
                TEST(test_a_call_that_hangs_does_not_hold_the_loop),
                TEST(test_a_pause_closes_nvml_and_what_is_known_stays),
                TEST(test_a_search_pauses_too_and_a_paused_monitor_is_closed),
                TEST(test_a_monitor_in_a_call_that_hangs_is_paused_when_its_process_has_ended),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
