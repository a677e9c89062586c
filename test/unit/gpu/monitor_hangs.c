// SPDX-License-Identifier: Apache-2.0
/* Calls into NVML that do not return: who is told what, and what goes on without them. */
#include "unit.h"

#include "monitor_fixture.h"

#define C "GPU-00000000-0000-4000-8000-00000000000c"
#define THREE(a, b, c)                                                                                                 \
        REPORTS "gpus:\n- {model: T4, uuid: " A a "}\n- {model: T4, uuid: " B b "}\n- {model: T4, uuid: " C c "}\n"
#define MEMORY_HANGS ", delays: {nvmlDeviceGetMemoryInfo: 600s}"
#define HANG_REASON " nvmlDeviceGetMemoryInfo does not return"
#define HANG_MS 300

static void on_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        struct fixture *fixture = data;
        char text[200];

        hang_print(&hang->call, text, sizeof(text));
        snprintf(next_line(fixture), sizeof(fixture->reported[0]), "%s %s%s", has_returned ? "returned" : "hangs", text,
                hang->is_waited_for ? " and is waited for" : "");
}

static struct gpu_monitor_options watchful(struct fixture *fixture)
{
        struct gpu_monitor_options options = quick(fixture);

        options.hang_ms = HANG_MS;
        options.refresh_ms = 100;
        options.hang_pause_ms = 200;
        options.on_hang = on_hang;
        return options;
}

static void begin(struct fixture *fixture, const char *scenario)
{
        struct gpu_monitor_options options = watchful(fixture);

        start_with(fixture, scenario, &options);
}

/* Who asks gets nothing of what was left behind: no process of ours is, once its kernel has ended it. */
static int teardown_hangs(void **state)
{
        scenario_write(TWO_GPUS);
        return teardown(state);
}

static size_t expect_not(struct fixture *fixture, size_t from, const char *text)
{
        for (size_t i = from; i < fixture->n_reported; i++)
                if (strncmp(fixture->reported[i], text, strlen(text)) == 0)
                        fail_msg("told: %s", fixture->reported[i]);
        return fixture->n_reported;
}

static size_t count_hangs(struct fixture *fixture)
{
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];

        return gpu_monitor_hangs(fixture->monitor, hangs);
}

static void test_a_gpu_that_hangs_is_unhealthy_until_its_call_has_returned(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE("", "", ""));
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE("", MEMORY_HANGS, ""));
        at = expect(fixture, 1, "hangs nvmlDeviceGetMemoryInfo of GPU 1 (" B ")");
        assert_null(strstr(fixture->reported[at], "waited for"));
        expect(fixture, 1, "- " B HANG_REASON);
        assert_int_equal(count_hangs(fixture), 1);
        /* The inventory that another process reads has it as it was, with this failure. */
        at = expect(fixture, at, "inventory 3");
        expect(fixture, at, "- " B HANG_REASON);
        assert_string_equal(fixture->inventory->gpus[1].name, "Tesla T4");
        run_for(fixture, 500);
        expect_not(fixture, 0, "+ ");
        scenario_write(THREE("", "", ""));
        at = expect(fixture, at, "returned nvmlDeviceGetMemoryInfo of GPU 1 (" B ")");
        expect(fixture, at, "+ " B);
        assert_int_equal(count_hangs(fixture), 0);
        expect_not(fixture, 0, "- " A);
        expect_not(fixture, 0, "- " C);
}

static void test_the_others_still_report_meanwhile_and_earlier_events_are_not_lost(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE("", "", ""));
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE("", MEMORY_HANGS, ""));
        run_for(fixture, HANG_MS / 2); /* the thread that hears is in the call now, or soon will be */
        scenario_write(THREE("", MEMORY_HANGS, "") "events: [{gpu: 2, xid: 95}]\n");
        at = expect(fixture, 1, "- " C " Xid 95");
        expect(fixture, 1, "hangs nvmlDeviceGetMemoryInfo of GPU 1");
        expect(fixture, at, "+ " C);
        scenario_write(THREE("", MEMORY_HANGS, "") "events: [{gpu: 2, xid: 95}, {gpu: 0, xid: 48}]\n");
        expect(fixture, at, "- " A " Xid 48");
}

static bool has_numa(struct fixture *fixture, size_t position, int node)
{
        return fixture->inventory->gpus[position].numa_node == node;
}

/* It is the nearest thing to a hang that is none: 1.5 seconds, where a call counts as hanging after ten. */
static void test_a_slow_gpu_holds_up_no_other_and_is_read_all_the_same(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);
        size_t at;

        options.hang_ms = 10000;
        options.refresh_ms = 600000;
        start_with(fixture, THREE("", "", ""), &options);
        at = expect(fixture, 0, "inventory 3") + 1;
        scenario_write(THREE("", ", numa: 1, delays: {nvmlDeviceGetMemoryInfo: 1500ms}", ", numa: 1"));
        gpu_monitor_rescan(fixture->monitor);
        while (!has_numa(fixture, 2, 1))
                at = expect(fixture, at, "inventory 3") + 1;
        assert_true(has_numa(fixture, 1, -1));
        assert_null(fixture->inventory->gpus[1].failure);
        while (!has_numa(fixture, 1, 1))
                at = expect(fixture, at, "inventory 3") + 1;
        expect_not(fixture, 0, "- ");
        expect_not(fixture, 0, "hangs ");
}

/* An event that asks for a look comes with one that says all: the look must not hold that up. */
static void test_a_look_that_hangs_holds_up_no_xid(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);
        size_t at;

        options.refresh_ms = 0;
        options.hang_ms = 60000;
        start_with(fixture, THREE("", "", ""), &options);
        expect(fixture, 0, "inventory 3");
        run_for(fixture, 100);
        scenario_write(THREE("", MEMORY_HANGS, "") "events: [{gpu: 1, xid: 154}, {gpu: 2, xid: 95}]\n");
        at = expect(fixture, 1, "- " C " Xid 95");
        expect_not(fixture, 0, "hangs");
        scenario_write(THREE("", "", "") "events: [{gpu: 1, xid: 154}, {gpu: 2, xid: 95}]\n");
        expect(fixture, at, "+ " C);
}

static void test_a_gpu_that_hangs_at_start_joins_when_it_answers(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE(", delays: {nvmlDeviceGetUUID: 600s}", "", ""));
        at = expect(fixture, 0, "hangs nvmlDeviceGetUUID of GPU 0");
        assert_int_equal(at, 0);
        expect(fixture, 1, "inventory 2");
        assert_string_equal(fixture->inventory->gpus[0].uuid, B);
        assert_int_equal(fixture->inventory->n_unnamed_failures, 1);
        scenario_write(THREE("", "", ""));
        at = expect(fixture, 1, "returned nvmlDeviceGetUUID of GPU 0");
        expect(fixture, at, "inventory 3");
}

/* Long before the call counts as hanging: events and readings of the others do not wait for that. */
static void test_a_gpu_that_hangs_while_it_is_registered_costs_the_others_no_event(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);

        options.hang_ms = 3 * PATIENCE_MS;
        options.refresh_ms = 0;
        start_with(fixture, THREE("", ", delays: {nvmlDeviceRegisterEvents: 600s}", ""), &options);
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE("", ", delays: {nvmlDeviceRegisterEvents: 600s}", "") "events: [{gpu: 2, xid: 95}]\n");
        expect(fixture, 1, "- " C " Xid 95");
        expect_not(fixture, 0, "hangs");
        expect_not(fixture, 0, "- " B);
}

static void test_a_gpu_that_is_slow_to_be_registered_reports_its_events(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);

        options.hang_ms = 3 * PATIENCE_MS;
        options.refresh_ms = 0;
        start_with(fixture, THREE("", ", delays: {nvmlDeviceRegisterEvents: 1500ms}", ""), &options);
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE("", ", delays: {nvmlDeviceRegisterEvents: 1500ms}", "") "events: [{gpu: 2, xid: 95}]\n");
        expect(fixture, 1, "- " C " Xid 95");
        run_for(fixture, 2000);
        scenario_write(THREE("", ", delays: {nvmlDeviceRegisterEvents: 1500ms}",
                "") "events: [{gpu: 2, xid: 95}, {gpu: 1, xid: 48}]\n");
        expect(fixture, 1, "- " B " Xid 48");
        expect_not(fixture, 0, "hangs");
}

/* The process that hears it stays, since nothing else would hear it. */
static void test_a_gpu_that_hangs_while_it_is_registered_again_is_heard(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);

        options.hang_ms = 3 * PATIENCE_MS;
        options.refresh_ms = 0;
        start_with(fixture, THREE("", "", ""), &options);
        expect(fixture, 0, "inventory 3");
        run_for(fixture, 500);
        scenario_write(THREE("", ", delays: {nvmlDeviceRegisterEvents: 600s}", ", numa: 1"));
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, 1, "inventory 3");
        run_for(fixture, 2000);
        scenario_write(THREE("", ", delays: {nvmlDeviceRegisterEvents: 600s}",
                ", numa: 1") "events: [{gpu: 1, xid: 48}, {gpu: 2, xid: 95}]\n");
        expect(fixture, 1, "- " B " Xid 48");
        expect(fixture, 1, "- " C " Xid 95");
}

static void test_a_gpu_that_hangs_while_it_is_registered_is_reported(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE("", ", delays: {nvmlDeviceRegisterEvents: 600s}", ""));
        at = expect(fixture, 0, "hangs nvmlDeviceRegisterEvents of GPU 1 (" B ")");
        run_for(fixture, 1500); /* the others are registered after a second at the latest */
        scenario_write(THREE("", ", delays: {nvmlDeviceRegisterEvents: 600s}", "") "events: [{gpu: 2, xid: 95}]\n");
        expect(fixture, at, "- " C " Xid 95");
}

static void test_two_gpus_that_hang_leave_the_third(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE("", "", ""));
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE(MEMORY_HANGS, MEMORY_HANGS, ""));
        expect(fixture, 1, "- " A HANG_REASON);
        at = expect(fixture, 1, "- " B HANG_REASON);
        expect_not(fixture, 0, "- " C);
        assert_int_equal(count_hangs(fixture), 2);
        scenario_write(THREE(MEMORY_HANGS, "", "") "events: [{gpu: 2, xid: 95}]\n");
        expect(fixture, at, "+ " B);
        expect(fixture, at, "- " C " Xid 95");
        expect_not(fixture, at, "+ " A);
        assert_int_equal(count_hangs(fixture), 1);
}

static void test_an_xid_of_the_gpu_that_hangs_counts_when_it_is_back(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        /* Driver 535: no sign that it was dealt with. */
        begin(fixture, TWO_T4S);
        expect(fixture, 0, "inventory 2");
        scenario_write("gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B MEMORY_HANGS "}]\n");
        expect(fixture, 1, "- " B HANG_REASON);
        expect(fixture, 1, "inventory 2");
        run_for(fixture, 300);
        at = fixture->n_reported;
        scenario_write("gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B MEMORY_HANGS "}]\n"
                       "events: [{gpu: 1, xid: 119}]\n");
        at = expect(fixture, at, "- " B " Xid 119");
        scenario_write(TWO_T4S "events: [{gpu: 1, xid: 119}]\n");
        expect(fixture, at, "returned ");
        run_for(fixture, 500);
        expect_not(fixture, 0, "+ " B);
}

/* As with a GPU whose firmware is dead: one call answers, and then the next hangs. */
static void test_a_gpu_of_which_another_call_hangs_stays_away(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE("", "", ""));
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE("", MEMORY_HANGS, ""));
        at = expect(fixture, 1, "hangs nvmlDeviceGetMemoryInfo of GPU 1");
        scenario_write(THREE("", ", delays: {nvmlDeviceGetName: 600s}", ""));
        run_for(fixture, 4 * HANG_MS);
        expect_not(fixture, at, "returned");
        expect_not(fixture, 0, "+ ");
        assert_int_equal(count_hangs(fixture), 1);
        scenario_write(THREE("", "", ""));
        at = expect(fixture, at, "returned nvmlDeviceGetMemoryInfo of GPU 1");
        assert_int_equal(count_hangs(fixture), 0);
        expect(fixture, at, "+ " B);
}

static void test_a_call_about_no_gpu_costs_no_event(void **state)
{
        struct fixture *fixture = *state;

        begin(fixture, THREE("", "", ""));
        expect(fixture, 0, "inventory 3");
        scenario_write(THREE("", "", "") "delays: {nvmlSystemGetNVMLVersion: 600s}\n");
        run_for(fixture, HANG_MS / 2); /* the thread that hears is in the call now, or soon will be */
        scenario_write(THREE("", "", "") "delays: {nvmlSystemGetNVMLVersion: 600s}\nevents: [{gpu: 2, xid: 95}]\n");
        expect(fixture, 1, "hangs nvmlSystemGetNVMLVersion");
        expect(fixture, 1, "- " C " Xid 95");
}

/* Either of two may be the one that does not answer. */
static void test_links_that_hang_make_no_gpu_unhealthy_and_stay_as_they_were(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, THREE("", "", ""));
        expect(fixture, 0, "inventory 3");
        assert_true(fixture->inventory->gpus[0].links[2].p2p);
        scenario_write(THREE("", "", "") "delays: {nvmlDeviceGetP2PStatus: 600s}\n");
        at = expect(fixture, 1, "hangs nvmlDeviceGetP2PStatus");
        assert_null(strstr(fixture->reported[at], "waited for"));
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, at, "inventory 3");
        assert_true(fixture->inventory->gpus[0].links[2].p2p);
        run_for(fixture, 2 * HANG_MS);
        assert_int_equal(count_hangs(fixture), 1);
        expect_not(fixture, 0, "- ");
}

static void test_what_waits_for_a_reset_still_does_after_a_hang(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        /* Driver 535: no sign that the reset was made. */
        begin(fixture, TWO_T4S);
        expect(fixture, 0, "inventory 2");
        scenario_write(TWO_T4S "events: [{gpu: 0, xid: 79}]\n");
        expect(fixture, 1, "- " A " Xid 79");
        scenario_write("gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B MEMORY_HANGS "}]\n"
                       "events: [{gpu: 0, xid: 79}]\n");
        at = expect(fixture, 1, "- " B HANG_REASON);
        scenario_write(TWO_T4S "events: [{gpu: 0, xid: 79}]\n");
        expect(fixture, at, "+ " B);
        run_for(fixture, 300);
        expect_not(fixture, 0, "+ " A);
}

/*
 * Who asks gets the last inventory; those not heard of after it are healthy, so what is known has to be told with it.
 */
static void test_while_all_hangs_a_rescan_is_answered_with_what_is_known(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, TWO_T4S);
        expect(fixture, 0, "inventory 2");
        scenario_write(TWO_T4S "events: [{gpu: 1, xid: 79}]\n");
        expect(fixture, 1, "- " B " Xid 79");
        scenario_write(TWO_T4S "events: [{gpu: 1, xid: 79}]\n"
                               "delays: {nvmlSystemGetDriverVersion: {time: 600s, blocks: true}}\n");
        at = expect(fixture, 1, "hangs nvmlSystemGetDriverVersion");
        at = expect(fixture, at, "hangs ");
        while (!strstr(fixture->reported[at], "is waited for"))
                at = expect(fixture, at + 1, "hangs ");
        at = fixture->n_reported;
        gpu_monitor_rescan(fixture->monitor);
        assert_int_equal(fixture->n_reported, at); /* not from inside the question */
        at = expect(fixture, at, "inventory 2");
        at = expect(fixture, at, "- " B " Xid 79");
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, at, "inventory 2");
        expect(fixture, at, "- " B " Xid 79");
        expect_not(fixture, 0, "unavailable");
        expect_not(fixture, 0, "+ ");
        expect_not(fixture, 0, "- " A);
        scenario_write(TWO_T4S "events: [{gpu: 1, xid: 79}]\n");
        expect(fixture, at, "returned ");
}

static void test_a_rescan_that_hangs_itself_is_answered(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);
        size_t at;

        options.refresh_ms = 0;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory 2");
        scenario_write(REPORTS "gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B MEMORY_HANGS "}]\n");
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, 1, "hangs ");
        at = expect(fixture, at, "inventory 2");
        expect(fixture, at, "- " B HANG_REASON);
}

static void test_a_start_that_hangs_says_so_and_pretends_nothing(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        begin(fixture, "init: {delay: 600s}\n" TWO_GPUS);
        at = expect(fixture, 0, "hangs nvmlInit_v2 and is waited for");
        assert_int_equal(at, 0);
        gpu_monitor_rescan(fixture->monitor);
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
        scenario_write(TWO_GPUS);
        expect(fixture, 1, "returned nvmlInit_v2");
        expect(fixture, 1, "inventory 2");
}

static void test_a_wait_for_events_has_its_own_time(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);

        options.wait_ms = 2 * HANG_MS;
        options.refresh_ms = 0;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory 2");
        run_for(fixture, 4 * HANG_MS);
        expect_not(fixture, 0, "hangs");
        scenario_write(TWO_GPUS "delays: {nvmlEventSetWait: 600s}\n");
        expect(fixture, 1, "hangs nvmlEventSetWait_v2");
        run_for(fixture, 2 * HANG_MS);
        expect_not(fixture, 0, "returned");
        expect_not(fixture, 0, "- ");
        scenario_write(TWO_GPUS);
        expect(fixture, 1, "returned nvmlEventSetWait_v2");
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 79}]\n");
        expect(fixture, 1, "- " B " Xid 79");
}

static bool is_well(struct fixture *fixture)
{
        for (size_t i = 0; i < fixture->inventory->n_gpus; i++)
                if (fixture->inventory->gpus[i].failure)
                        return false;
        return count_hangs(fixture) == 0;
}

#define JUST ", delays: {nvmlDeviceGetMemoryInfo: 20ms}"

/* About as long as a call may last: some are taken for hanging, and some return while that is found out. */
static void test_calls_that_return_just_then_confuse_nobody(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = watchful(fixture);
        struct line xid = {fixture, "- " C " Xid 95", 0, 0};
        unsigned int waited_ms = 0;

        options.hang_ms = 20;
        options.hang_pause_ms = 1;
        options.refresh_ms = 10;
        options.on_hang = NULL; /* there are many */
        start_with(fixture, THREE("", "", ""), &options);
        expect(fixture, 0, "inventory 3");
        /* Each GPU in turn, since one that hangs often is asked seldom. */
        for (unsigned int i = 0; i < 9; i++) {
                scenario_write(i % 3 == 0   ? THREE(JUST, "", "")
                               : i % 3 == 1 ? THREE("", JUST, "")
                                            : THREE("", "", JUST));
                run_for(fixture, 50);
                scenario_write(THREE("", "", ""));
                do {
                        fixture->n_reported = 0;
                        run_for(fixture, 10);
                } while (!is_well(fixture) && (waited_ms += 10) < 10 * PATIENCE_MS);
                assert_true(is_well(fixture));
        }
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, 0, "inventory 3");
        /*
         * Again, and as another event, when nobody heard it: a wait for events that hangs by this measure takes along
         * what it has.
         */
        for (unsigned int i = 0; !is_reported(&xid); i++) {
                assert_true(i < PATIENCE_MS / 100);
                fixture->n_reported = 0;
                scenario_write(i % 2 ? THREE("", "", "") "events: [{gpu: 2, xid: 95}]\n"
                                     : THREE("", "", "") "events: [{gpu: 2, type: sbe}, {gpu: 2, xid: 95}]\n");
                run_for(fixture, 100);
        }
}

static void test_it_closes_at_once_though_calls_hang(void **state)
{
        struct fixture *fixture = *state;

        begin(fixture, THREE("", MEMORY_HANGS, ""));
        expect(fixture, 0, "- " B HANG_REASON);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
}

static void test_it_closes_at_once_though_all_hangs(void **state)
{
        struct fixture *fixture = *state;

        begin(fixture, "init: {delay: 600s}\n" TWO_GPUS);
        expect(fixture, 0, "hangs");
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
}

static void test_a_call_that_hangs_at_the_end_is_left_behind(void **state)
{
        struct fixture *fixture = *state;

        begin(fixture, "init: {delay: 600s}\n" TWO_GPUS);
        run_for(fixture, 50);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
        assert_int_equal(fixture->n_reported, 0);
}

#define HANG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown_hangs)

int main(void)
{
        const struct CMUnitTest tests[] = {
                HANG_TEST(test_a_gpu_that_hangs_is_unhealthy_until_its_call_has_returned),
                HANG_TEST(test_the_others_still_report_meanwhile_and_earlier_events_are_not_lost),
                HANG_TEST(test_a_slow_gpu_holds_up_no_other_and_is_read_all_the_same),
                HANG_TEST(test_a_look_that_hangs_holds_up_no_xid),
                HANG_TEST(test_a_gpu_that_hangs_at_start_joins_when_it_answers),
                HANG_TEST(test_a_gpu_that_hangs_while_it_is_registered_costs_the_others_no_event),
                HANG_TEST(test_a_gpu_that_is_slow_to_be_registered_reports_its_events),
                HANG_TEST(test_a_gpu_that_hangs_while_it_is_registered_again_is_heard),
                HANG_TEST(test_a_gpu_that_hangs_while_it_is_registered_is_reported),
                HANG_TEST(test_two_gpus_that_hang_leave_the_third),
                HANG_TEST(test_an_xid_of_the_gpu_that_hangs_counts_when_it_is_back),
                HANG_TEST(test_a_gpu_of_which_another_call_hangs_stays_away),
                HANG_TEST(test_a_call_about_no_gpu_costs_no_event),
                HANG_TEST(test_links_that_hang_make_no_gpu_unhealthy_and_stay_as_they_were),
                HANG_TEST(test_what_waits_for_a_reset_still_does_after_a_hang),
                HANG_TEST(test_while_all_hangs_a_rescan_is_answered_with_what_is_known),
                HANG_TEST(test_a_rescan_that_hangs_itself_is_answered),
                HANG_TEST(test_a_start_that_hangs_says_so_and_pretends_nothing),
                HANG_TEST(test_a_wait_for_events_has_its_own_time),
                HANG_TEST(test_calls_that_return_just_then_confuse_nobody),
                HANG_TEST(test_it_closes_at_once_though_calls_hang),
                HANG_TEST(test_it_closes_at_once_though_all_hangs),
                HANG_TEST(test_a_call_that_hangs_at_the_end_is_left_behind),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
