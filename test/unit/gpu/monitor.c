#include "unit.h"

#include <sys/resource.h>
#include <uv.h>

#include "gpu/monitor.h"
#include "scenario.h"

#define A "GPU-00000000-0000-4000-8000-00000000000a"
#define B "GPU-00000000-0000-4000-8000-00000000000b"
#define MIG_1 "MIG-00000000-0000-4000-8000-000000000001"
#define MIG_2 "MIG-00000000-0000-4000-8000-000000000002"

/* ThreadSanitizer has a thread of its own that wakes ten times a second, and slows the others down. */
#if defined(__SANITIZE_THREAD__)
#define SANITIZER_WAKES 10
#define SANITIZER_SLOWER 20
#else
#define SANITIZER_WAKES 0
#define SANITIZER_SLOWER 1
#endif

#define TWO_GPUS "gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B "}]\n"

/* What the monitor told, as text: "inventory 2", "unavailable …", "- <uuid> <reason>", "+ <uuid>". */
struct fixture {
        uv_loop_t loop;
        uv_timer_t deadline;
        struct gpu_monitor *monitor;
        struct inventory *inventory;
        char told[200][320];
        size_t n_told;
        bool is_late;
        bool is_closed;
        bool close_on_inventory;
};

static char *next_line(struct fixture *fixture)
{
        assert_true(fixture->n_told < ARRAY_SIZE(fixture->told));
        return fixture->told[fixture->n_told++];
}

static void on_closed(void *data)
{
        ((struct fixture *)data)->is_closed = true;
}

static void on_inventory(struct inventory *inventory, void *data)
{
        struct fixture *fixture = data;

        inventory_free(fixture->inventory);
        fixture->inventory = inventory;
        snprintf(next_line(fixture), sizeof(fixture->told[0]), "inventory %zu", inventory->n_gpus);
        if (fixture->close_on_inventory)
                gpu_monitor_close(fixture->monitor, on_closed, fixture);
}

static void on_unavailable(const char *reason, void *data)
{
        struct fixture *fixture = data;

        snprintf(next_line(fixture), sizeof(fixture->told[0]), "unavailable %s", reason);
}

static void on_health(const char *uuid, bool healthy, const char *reason, void *data)
{
        struct fixture *fixture = data;

        snprintf(next_line(fixture), sizeof(fixture->told[0]), healthy ? "+ %s" : "- %s %s", uuid, reason);
}

static void on_deadline(uv_timer_t *timer)
{
        ((struct fixture *)timer->data)->is_late = true;
}

/* Runs the loop until a line that begins with |text| was told after the first |from| lines; returns its position. */
static size_t expect_within(struct fixture *fixture, size_t from, const char *text, uint64_t ms)
{
        fixture->is_late = false;
        uv_timer_start(&fixture->deadline, on_deadline, ms, 0);
        for (size_t i = from;;) {
                for (; i < fixture->n_told; i++) {
                        if (strncmp(fixture->told[i], text, strlen(text)) == 0) {
                                uv_timer_stop(&fixture->deadline);
                                return i;
                        }
                }
                if (fixture->is_late)
                        break;
                uv_run(&fixture->loop, UV_RUN_ONCE);
        }
        for (size_t i = 0; i < fixture->n_told; i++)
                print_message("# told: %s\n", fixture->told[i]);
        fail_msg("not told within %u ms: %s", (unsigned int)ms, text);
        return 0;
}

static size_t expect(struct fixture *fixture, size_t from, const char *text)
{
        return expect_within(fixture, from, text, 10000);
}

static void run_for(struct fixture *fixture, uint64_t ms)
{
        fixture->is_late = false;
        uv_timer_start(&fixture->deadline, on_deadline, ms, 0);
        while (!fixture->is_late)
                uv_run(&fixture->loop, UV_RUN_ONCE);
}

static struct gpu_monitor_options quick(struct fixture *fixture)
{
        return (struct gpu_monitor_options){
                .library = scenario_library(),
                .paths = {.system_root = "", .driver_root = ""},
                .retry_ms = 20,
                .probe_ms = 20,
                .on_inventory = on_inventory,
                .on_unavailable = on_unavailable,
                .on_health = on_health,
                .data = fixture,
        };
}

static void start_with(struct fixture *fixture, const char *scenario, const struct gpu_monitor_options *options)
{
        struct error err;

        scenario_write(scenario);
        assert_ok(gpu_monitor_new(&fixture->monitor, &fixture->loop, options, &err), &err);
}

static void start(struct fixture *fixture, const char *scenario)
{
        struct gpu_monitor_options options = quick(fixture);

        start_with(fixture, scenario, &options);
}

static int setup(void **state)
{
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        uv_loop_init(&fixture->loop);
        uv_timer_init(&fixture->loop, &fixture->deadline);
        fixture->deadline.data = fixture;
        *state = fixture;
        return 0;
}

static void wait_closed(struct fixture *fixture, uint64_t ms)
{
        fixture->is_late = false;
        uv_timer_start(&fixture->deadline, on_deadline, ms, 0);
        while (!fixture->is_closed && !fixture->is_late)
                uv_run(&fixture->loop, UV_RUN_ONCE);
        uv_timer_stop(&fixture->deadline);
        assert_true(fixture->is_closed);
        fixture->monitor = NULL;
}

static int teardown(void **state)
{
        struct fixture *fixture = *state;

        if (fixture->monitor && !fixture->is_closed) {
                size_t told = fixture->n_told;

                gpu_monitor_close(fixture->monitor, on_closed, fixture);
                wait_closed(fixture, 5000);
                assert_int_equal(fixture->n_told, told);
        }
        uv_close((uv_handle_t *)&fixture->deadline, NULL);
        uv_run(&fixture->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&fixture->loop), 0);
        inventory_free(fixture->inventory);
        free(fixture);
        return 0;
}

static void test_the_inventory_comes_first_and_all_are_healthy(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, TWO_GPUS);
        assert_int_equal(expect(fixture, 0, "inventory 2"), 0);
        run_for(fixture, 100);
        assert_int_equal(fixture->n_told, 1);
        assert_string_equal(fixture->inventory->gpus[1].uuid, B);
}

static void test_an_xid_is_told_at_once_and_ends_when_the_cause_does(void **state)
{
        struct fixture *fixture = *state;
        uint64_t began;
        size_t at;

        start(fixture, TWO_GPUS);
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        began = uv_hrtime();
        scenario_write("gpus: [{model: T4, uuid: " A "}, {model: T4, uuid: " B ", recoveryAction: reset}]\n"
                       "events: [{gpu: 1, xid: 79}]\n");
        at = expect_within(fixture, 1, "- " B " Xid 79 (GPU has fallen off the bus)", 1000);
        print_message("# event to callback: %.2f ms\n", (double)(uv_hrtime() - began) / 1e6);
        assert_true(uv_hrtime() - began < UINT64_C(50000000) * SANITIZER_SLOWER);
        /* The probes find out why it stays away. */
        at = expect(fixture, at, "- " B " the driver asks for a reset of the GPU");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_told, at + 1);
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 79}]\n");
        expect(fixture, at, "+ " B);
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

#define MIG_GPU                                                                                                        \
        "gpus:\n"                                                                                                      \
        "- model: A100-40GB\n"                                                                                         \
        "  uuid: " A "\n"                                                                                              \
        "  mig:\n"                                                                                                     \
        "    devices:\n"                                                                                               \
        "    - {profile: 3g.20gb, gi: 1, ci: 0, uuid: " MIG_1 "}\n"                                                    \
        "    - {profile: 3g.20gb, gi: 2, ci: 0, uuid: " MIG_2 "}\n"

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
        for (size_t i = 1; i < fixture->n_told; i++)
                assert_non_null(strstr(fixture->told[i], MIG_2));
        at = fixture->n_told;
        /* One of the GPU as a whole hits them all. */
        scenario_write(MIG_GPU "events: [{gpu: 0, xid: 94, gi: 2, ci: 0}, {gpu: 0, xid: 79}]\n");
        expect(fixture, at, "- " A " Xid 79");
        expect(fixture, at, "- " MIG_1 " Xid 79");
        expect(fixture, at, "- " MIG_2 " Xid 79");
        expect(fixture, at, "+ " A);
        expect(fixture, at, "+ " MIG_1);
        expect(fixture, at, "+ " MIG_2);
}

static void test_a_lost_gpu_takes_nobody_with_it_and_returns(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.refresh_ms = 100;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        scenario_write("gpus: [{model: T4, uuid: " A ", lost: true}, {model: T4, uuid: " B "}]\n");
        at = expect(fixture, 1, "- " A);
        assert_non_null(strstr(fixture->told[at], "GPU_IS_LOST"));
        run_for(fixture, 1500);
        for (size_t i = 0; i < fixture->n_told; i++)
                assert_null(strstr(fixture->told[i], B));
        assert_int_equal(fixture->inventory->n_gpus, 2);
        assert_string_equal(fixture->inventory->gpus[0].uuid, A);
        assert_string_equal(fixture->inventory->gpus[0].name, "Tesla T4");
        at = fixture->n_told;
        /* The others are heard without it. */
        scenario_write("gpus: [{model: T4, uuid: " A ", lost: true}, {model: T4, uuid: " B "}]\n"
                       "events: [{gpu: 1, xid: 48}]\n");
        expect(fixture, at, "- " B " Xid 48 (double-bit ECC error)");
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\n");
        expect(fixture, at, "+ " A);
        /* And so is it, once it is back. */
        at = fixture->n_told;
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
        at = expect_within(fixture, 1, "inventory 2", 2500);
        gpu_monitor_rescan(fixture->monitor);
        expect_within(fixture, at + 1, "inventory 2", 2500);
}

static void test_an_inventory_is_followed_by_who_is_unhealthy(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        /* From the start: a restart of ours heals nothing. */
        start(fixture, "gpus: [{model: T4, uuid: " A ", recoveryAction: reboot}, {model: T4, uuid: " B "}]\n");
        expect(fixture, 0, "- " A " the driver asks for a reboot of the node");
        assert_int_equal(fixture->n_told, 2);
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, 2, "inventory 2");
        assert_int_equal(fixture->n_told, at + 2);
        assert_non_null(strstr(fixture->told[at + 1], "- " A));
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
        start_with(fixture, "gpus: [{model: T4, uuid: " A ", recoveryAction: reboot}]\n", &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_told, 1);
}

static void test_a_changed_mig_layout_is_a_new_inventory(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.refresh_ms = 50;
        start_with(fixture, "gpus: [{model: A100-40GB, uuid: " A ", mig: {enabled: true}}]\n", &options);
        expect(fixture, 0, "inventory");
        run_for(fixture, 200);
        assert_int_equal(fixture->n_told, 1);
        scenario_write(MIG_GPU);
        expect(fixture, 1, "inventory");
        assert_int_equal(fixture->inventory->gpus[0].n_mig_devices, 2);
}

static void test_a_mig_event_makes_the_inventory_be_read(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, "gpus: [{model: A100-40GB, uuid: " A ", mig: {enabled: true}}]\n");
        expect(fixture, 0, "inventory");
        run_for(fixture, 50);
        scenario_write(MIG_GPU "events: [{gpu: 0, type: mig}]\n");
        expect_within(fixture, 1, "inventory", 3000);
        assert_int_equal(fixture->inventory->gpus[0].n_mig_devices, 2);
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
        assert_int_equal(fixture->n_told, 2);
        scenario_write(TWO_GPUS);
        expect(fixture, at, "inventory 2");
        assert_null(fixture->inventory->gpus[1].failure);
        assert_string_equal(fixture->inventory->gpus[1].name, "Tesla T4");
        expect(fixture, at + 1, "+ " B);
}

static void test_a_search_tells_each_reason_once_and_finds_what_appears(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start(fixture, "init: {error: DRIVER_NOT_LOADED}\n" TWO_GPUS);
        expect(fixture, 0, "unavailable the NVIDIA driver is not loaded");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_told, 1);
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
        assert_int_equal(fixture->n_told, 1);
}

static void test_a_node_without_gpus_is_an_inventory_and_gpus_may_come(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, "gpus: []\n");
        expect(fixture, 0, "inventory 0");
        run_for(fixture, 300);
        assert_int_equal(fixture->n_told, 1);
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
        for (size_t i = 0; i < fixture->n_told; i++)
                assert_int_not_equal(fixture->told[i][0], '-');
}

static void test_a_wait_that_always_fails_neither_spins_nor_condemns(void **state)
{
        struct fixture *fixture = *state;
        struct rusage before;
        struct rusage after;

        start(fixture, TWO_GPUS "errors: {nvmlEventSetWait: UNKNOWN}\n");
        expect(fixture, 0, "inventory");
        getrusage(RUSAGE_SELF, &before);
        run_for(fixture, 2000);
        getrusage(RUSAGE_SELF, &after);
        assert_int_equal(fixture->n_told, 1);
        print_message("# switches in 2 s: %ld\n", after.ru_nvcsw - before.ru_nvcsw);
        assert_true(after.ru_nvcsw - before.ru_nvcsw < 40 + 2 * SANITIZER_WAKES);
}

static void test_an_idle_monitor_hardly_wakes(void **state)
{
        struct fixture *fixture = *state;
        struct rusage before;
        struct rusage after;

        start(fixture, TWO_GPUS);
        expect(fixture, 0, "inventory");
        run_for(fixture, 100);
        getrusage(RUSAGE_SELF, &before);
        run_for(fixture, 3000);
        getrusage(RUSAGE_SELF, &after);
        print_message("# switches in 3 s: %ld\n", after.ru_nvcsw - before.ru_nvcsw);
        /* One a second, and the test's own timer. */
        assert_true(after.ru_nvcsw - before.ru_nvcsw <= 5 + 4 * SANITIZER_WAKES);
}

static void test_a_search_is_closed_at_once(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.retry_ms = 60000;
        start_with(fixture, "init: {error: DRIVER_NOT_LOADED}\n", &options);
        expect(fixture, 0, "unavailable");
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture, 1000);
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
        wait_closed(fixture, 5000);
        assert_int_equal(fixture->n_told, 1);
}

static void test_it_may_be_closed_before_it_said_anything(void **state)
{
        struct fixture *fixture = *state;

        start(fixture, TWO_GPUS);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture, 5000);
        assert_int_equal(fixture->n_told, 0);
}

static void test_a_call_that_hangs_does_not_hold_the_loop(void **state)
{
        struct fixture *fixture = *state;
        uint64_t began;

        start(fixture, TWO_GPUS "delays: {nvmlDeviceGetName: 700ms}\n");
        run_for(fixture, 100);
        began = uv_hrtime();
        gpu_monitor_rescan(fixture->monitor);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        run_for(fixture, 20);
        assert_true(uv_hrtime() - began < UINT64_C(500000000));
        assert_false(fixture->is_closed);
        wait_closed(fixture, 10000);
        assert_int_equal(fixture->n_told, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_the_inventory_comes_first_and_all_are_healthy),
                TEST(test_an_xid_is_told_at_once_and_ends_when_the_cause_does),
                TEST(test_application_faults_and_disabled_xids_change_nothing),
                TEST(test_an_xid_of_one_mig_device_spares_the_other),
                TEST(test_a_lost_gpu_takes_nobody_with_it_and_returns),
                TEST(test_a_rescan_is_answered_though_nothing_changed),
                TEST(test_an_inventory_is_followed_by_who_is_unhealthy),
                TEST(test_with_checks_disabled_a_waiting_reset_is_no_matter),
                TEST(test_a_changed_mig_layout_is_a_new_inventory),
                TEST(test_a_mig_event_makes_the_inventory_be_read),
                TEST(test_a_gpu_that_failed_at_start_joins_later),
                TEST(test_a_search_tells_each_reason_once_and_finds_what_appears),
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
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
