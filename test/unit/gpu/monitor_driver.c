// SPDX-License-Identifier: Apache-2.0
/* A driver that goes, comes back and is another one; GPUs that come and go; machines without NVML. */
#include "unit.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "monitor_fixture.h"

/* A copy of the simulated library, and /sys and /proc of the driver, in the scenario's folder. */
static const char *in_folder(const char *path)
{
        static char text[4][160];
        static unsigned int next;
        char *own = text[next++ % ARRAY_SIZE(text)];

        snprintf(own, sizeof(text[0]), "%s/machine%s", scenario_folder, path);
        return own;
}

static void put(const char *path, const char *content, size_t size)
{
        char folder[160];
        struct error err;

        snprintf(folder, sizeof(folder), "%s", in_folder(path));
        for (char *c = folder + strlen(scenario_folder) + 1; (c = strchr(c, '/')); *c++ = '/') {
                *c = '\0';
                mkdir(folder, 0755);
        }
        assert_ok(file_write(in_folder(path), content, size, &err), &err);
}

static void put_text(const char *path, const char *content)
{
        put(path, content, strlen(content));
}

static void put_library(void)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(scenario_library(), (size_t)64 << 20, &content, &err), &err);
        put("/libnvidia-ml.so.1", content.data, content.size);
        strbuf_done(&content);
}

#define BOUND "/sys/bus/pci/drivers/nvidia/"

static int setup_machine(void **state)
{
        put_library();
        put_text("/sys/module/nvidia/version", "550.163.01\n");
        put_text(BOUND "0000:3b:00.0", "");
        put_text(BOUND "0000:af:00.0", "");
        return setup(state);
}

static int teardown_machine(void **state)
{
        char command[120];
        int result = teardown(state);

        snprintf(command, sizeof(command), "rm -rf %s/machine", scenario_folder);
        return system(command) == 0 ? result : -1;
}

static struct gpu_monitor_options on_machine(struct fixture *fixture)
{
        struct gpu_monitor_options options = quick(fixture);

        options.library = in_folder("/libnvidia-ml.so.1");
        options.paths.system_root = in_folder("");
        options.refresh_ms = 50;
        return options;
}

static void start_on_machine(struct fixture *fixture, const char *scenario)
{
        struct gpu_monitor_options options = on_machine(fixture);

        start_with(fixture, scenario, &options);
        expect(fixture, 0, "inventory");
        assert_int_equal(fixture->n_reported, 1);
}

/* What stands for "NVML was opened again": only then does it see this. */
#define CANNOT_OPEN "init: {error: DRIVER_NOT_LOADED}\n"

/* ---- NVML as a whole ---- */

static void test_without_a_driver_all_units_are_unhealthy_and_return_with_it(void **state)
{
        static const char *const codes[] = {"UNINITIALIZED", "DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH"};
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at = 0;

        options.refresh_ms = 50;
        start_with(fixture, MIG_GPU, &options);
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
                char scenario[1024];
                size_t from = expect(fixture, at, "inventory") + 1;

                snprintf(scenario, sizeof(scenario), CANNOT_OPEN MIG_GPU "errors: {nvmlSystemGetDriverVersion: %s}\n",
                        codes[i]);
                scenario_write(scenario);
                at = expect(fixture, from, "unavailable nvmlSystemGetDriverVersion: ");
                /* Each unit with the reason, before that; and not again for the next reason. */
                assert_int_equal(at, from + 3);
                assert_string_equal(
                        fixture->reported[from] + strlen("- " A " "), fixture->reported[at] + strlen("unavailable "));
                expect(fixture, from, "- " A " nvmlSystemGetDriverVersion");
                expect(fixture, from, "- " MIG_1 " nvmlSystemGetDriverVersion");
                expect(fixture, from, "- " MIG_2 " nvmlSystemGetDriverVersion");
                assert_non_null(strstr(fixture->reported[at], codes[i]));
                at = expect(fixture, at, "unavailable the NVIDIA driver is not loaded");
                assert_int_equal(at, from + 4);
                scenario_write(MIG_GPU);
        }
        at = expect(fixture, at, "inventory 1");
        run_for(fixture, 100);
        /* Who is not heard of after an inventory is healthy. */
        assert_int_equal(fixture->n_reported, at + 1);
}

static void test_what_was_unhealthy_before_the_driver_went_still_is_when_it_comes_back(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.probe_ms = 100;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        scenario_write(
                TWO_GPUS "events: [{gpu: 1, xid: 48}]\nerrors: {nvmlEventSetWait: {error: UNINITIALIZED, after: 1}}\n");
        expect(fixture, 1, "- " B " Xid 48");
        at = expect(fixture, 1, "unavailable");
        expect(fixture, 1, "- " A " nvmlEventSetWait");
        scenario_write(TWO_GPUS "events: [{gpu: 1, xid: 48}]\n");
        at = expect(fixture, at, "inventory 2");
        assert_true(fixture->n_reported > at + 1);
        assert_non_null(strstr(fixture->reported[at + 1], "- " B " Xid 48"));
        expect(fixture, at, "+ " B);
}

static void test_a_rescan_without_a_driver_reports_the_last_inventory_as_unhealthy(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        size_t at;

        options.retry_ms = 60000;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory");
        scenario_write(CANNOT_OPEN TWO_GPUS "errors: {nvmlEventSetWait: UNINITIALIZED}\n");
        at = expect(fixture, 1, "unavailable") + 1;
        gpu_monitor_rescan(fixture->monitor);
        at = expect(fixture, at, "inventory 2");
        expect(fixture, at, "- " A " the NVIDIA driver is not loaded");
        expect(fixture, at, "- " B " the NVIDIA driver is not loaded");
        /* That it is so is not lost, though this inventory is the newer message. */
        expect(fixture, at, "unavailable the NVIDIA driver is not loaded");
}

/* ---- another driver ---- */

static void test_a_replaced_library_is_loaded_without_a_change_of_devices(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start_on_machine(fixture, TWO_GPUS);
        put_library();
        run_for(fixture, 300);
        assert_int_equal(fixture->n_reported, 1);
        scenario_write("driverVersion: 580.95.05\n" TWO_T4S);
        put_library();
        at = expect(fixture, 1, "inventory 2");
        assert_string_equal(fixture->inventory->driver_version, "580.95.05");
        /* A file that is no library shows that it is the one on disk that is loaded. */
        put_text("/libnvidia-ml.so.1", "half of it");
        expect(fixture, at, "- " A " cannot load NVML: ");
        expect(fixture, at, "- " B " cannot load NVML: ");
        at = expect(fixture, at, "unavailable cannot load NVML: ");
        unlink(in_folder("/libnvidia-ml.so.1"));
        at = expect(fixture, at + 1, "unavailable ");
        assert_non_null(strstr(fixture->reported[at], "not found"));
        put_library();
        at = expect(fixture, at, "inventory 2");
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, at + 1);
}

static void test_another_kernel_driver_makes_nvml_open_again(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start_on_machine(fixture, TWO_GPUS);
        scenario_write(CANNOT_OPEN TWO_GPUS);
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
        put_text("/sys/module/nvidia/version", "580.95.05\n");
        at = expect(fixture, 1, "unavailable the NVIDIA driver is not loaded");
        assert_int_equal(at, 3);
        scenario_write(TWO_GPUS);
        expect(fixture, at, "inventory 2");
}

/* ---- hot-plug ---- */

static void test_another_set_of_gpus_in_the_kernel_makes_nvml_count_again(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start_on_machine(fixture, TWO_GPUS);
        scenario_write(CANNOT_OPEN TWO_GPUS);
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
        /* As many as before, but others. */
        unlink(in_folder(BOUND "0000:af:00.0"));
        put_text(BOUND "0000:d8:00.0", "");
        at = expect(fixture, 1, "unavailable");
        scenario_write(TWO_GPUS);
        expect(fixture, at, "inventory 2");
}

static void test_a_gpu_that_nvml_missed_makes_it_count_again_but_ever_more_rarely(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = on_machine(fixture);
        uint64_t began;

        put_text(BOUND "0000:d8:00.0", "");
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory 2");
        began = uv_hrtime();
        /*
         * After 50, 150, 350 and 750 ms it is opened again in vain, and that is told to nobody; the next time is after
         * 1,550, or later on a slow machine.
         */
        run_for(fixture, 1000);
        assert_int_equal(fixture->n_reported, 1);
        scenario_write(CANNOT_OPEN TWO_GPUS);
        expect(fixture, 1, "- ");
        print_message("# told after %.0f ms: %s\n", (double)(uv_hrtime() - began) / 1e6, fixture->reported[1]);
        assert_true(uv_hrtime() - began > UINT64_C(1400000000));
}

static void plug(bool in)
{
        if (in) {
                put_text(BOUND "0000:3b:00.0", "");
                put_text(BOUND "0000:af:00.0", "");
                scenario_write(TWO_GPUS);
        } else {
                scenario_write("gpus: []\n");
                unlink(in_folder(BOUND "0000:3b:00.0"));
                unlink(in_folder(BOUND "0000:af:00.0"));
        }
}

static void test_gpus_that_are_all_gone_stay_for_a_while(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = on_machine(fixture);
        size_t at;

        options.empty_ms = 400;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory 2");
        plug(false);
        at = expect(fixture, 1, "unavailable NVML no longer shows any of the 2 GPUs");
        plug(true);
        at = expect(fixture, at, "inventory 2");
        plug(false);
        at = expect(fixture, at, "unavailable NVML no longer shows any");
        assert_int_equal(expect(fixture, at + 1, "inventory 0"), at + 1);
        plug(true);
        expect(fixture, at, "inventory 2");
}

static void test_a_gpu_that_is_taken_out_leaves_and_one_that_is_put_in_joins(void **state)
{
        struct fixture *fixture = *state;
        size_t at;

        start_on_machine(fixture, TWO_GPUS);
        /* Lost, while NVML still counts it. */
        scenario_write("gpus: [{model: T4, uuid: " A "}]\n");
        at = expect(fixture, 1, "- " B " ");
        assert_non_null(strstr(fixture->reported[at], "GPU is lost"));
        assert_int_equal(fixture->inventory->n_gpus, 2);
        unlink(in_folder(BOUND "0000:af:00.0"));
        at = expect(fixture, at, "inventory 1");
        put_text(BOUND "0000:af:00.0", "");
        scenario_write(TWO_GPUS);
        at = expect(fixture, at, "inventory 2");
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, at + 1);
        for (size_t i = 0; i < fixture->n_reported; i++)
                assert_null(strstr(fixture->reported[i], A));
}

static void test_a_look_finds_what_changed_long_before_the_next_refresh(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = on_machine(fixture);
        size_t at;

        options.refresh_ms = 60000;
        unlink(in_folder(BOUND "0000:af:00.0"));
        start_with(fixture, "gpus: [{model: T4, uuid: " A "}]\n", &options);
        expect(fixture, 0, "inventory 1");
        plug(true);
        gpu_monitor_poll(fixture->monitor);
        at = expect(fixture, 1, "inventory 2");
        /* In vain: nothing is told. */
        gpu_monitor_poll(fixture->monitor);
        run_for(fixture, 500);
        assert_int_equal(fixture->n_reported, at + 1);
}

static void test_a_look_ends_the_wait_of_a_search(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.retry_ms = 60000;
        start_with(fixture, CANNOT_OPEN, &options);
        expect(fixture, 0, "unavailable");
        scenario_write(TWO_GPUS);
        gpu_monitor_poll(fixture->monitor);
        expect(fixture, 1, "inventory 2");
}

static void test_mig_devices_come_and_go_with_events_and_without(void **state)
{
        static const char *const devices[] = {
                "enabled: false",
                "enabled: true",
                "enabled: true, devices: [{profile: 1c.3g.20gb, gi: 2, ci: 0, uuid: " MIG_1 "}]",
                /* Two compute instances in one GPU instance. */
                "enabled: true, devices: [{profile: 1c.3g.20gb, gi: 2, ci: 0, uuid: " MIG_1 "}, "
                "{profile: 1c.3g.20gb, gi: 2, ci: 1, uuid: " MIG_2 "}]",
                "enabled: true, devices: [{profile: 1c.3g.20gb, gi: 2, ci: 1, uuid: " MIG_2 "}]",
                "enabled: false",
        };
        static const size_t counts[] = {0, 0, 1, 2, 1, 0};
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);
        struct strbuf events = STRBUF_INIT;
        size_t at = 0;

        for (unsigned int by_event = 0; by_event < 2; by_event++) {
                options.refresh_ms = by_event ? 60000 : 50;
                for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                        char scenario[1024];

                        strbuf_printf(&events, "%s{gpu: 0, type: mig}", events.size ? ", " : "");
                        snprintf(scenario, sizeof(scenario),
                                "gpus: [{model: A100-40GB, uuid: " A ", mig: {%s}}]\nevents: [%s]\n", devices[i],
                                by_event ? events.data : "");
                        if (i == 0)
                                start_with(fixture, scenario, &options);
                        else
                                scenario_write(scenario);
                        at = expect(fixture, at, "inventory 1") + 1;
                        assert_int_equal(fixture->inventory->gpus[0].n_mig_devices, counts[i]);
                        assert_int_equal(fixture->inventory->gpus[0].mig_enabled, i > 0 && i < 5);
                }
                gpu_monitor_close(fixture->monitor, on_closed, fixture);
                wait_closed(fixture);
                fixture->is_closed = by_event;
                strbuf_consume(&events, events.size);
        }
        strbuf_done(&events);
}

/* ---- machines without NVML ---- */

static bool has_dxcore(const char *library)
{
        return strcmp(library, "libdxcore.so") == 0;
}

static bool has_nothing(const char *library UNUSED)
{
        return false;
}

static void test_on_wsl_one_unit_is_reported_and_nothing_is_watched(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.can_load = has_dxcore;
        /* There is an NVML, but it is not opened. */
        start_with(fixture, CANNOT_OPEN TWO_GPUS, &options);
        assert_int_equal(expect(fixture, 0, "inventory 1"), 0);
        assert_string_equal(fixture->inventory->gpus[0].uuid, "all");
        assert_int_equal(fixture->inventory->platform, PLATFORM_WSL);
        run_for(fixture, 200);
        assert_int_equal(fixture->n_reported, 1);
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, 1, "inventory 1");
        gpu_monitor_poll(fixture->monitor);
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, 2);
}

static void test_tegra_is_recognised_by_its_file_or_chosen(void **state)
{
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = on_machine(fixture);

        options.discovery = PLATFORM_CHOICE_TEGRA;
        options.can_load = has_nothing;
        start_with(fixture, TWO_GPUS, &options);
        expect(fixture, 0, "inventory 1");
        assert_string_equal(fixture->inventory->gpus[0].uuid, "tegra");
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, 1);
}

static void test_an_nvml_of_integrated_gpus_is_tegra_unless_nvml_was_chosen(void **state)
{
        static const char scenario[] = "gpus: [{model: T4, uuid: " A ", name: NVIDIA Thor}]\n";
        struct fixture *fixture = *state;
        struct gpu_monitor_options options = quick(fixture);

        options.can_load = has_nothing;
        start_with(fixture, scenario, &options);
        expect(fixture, 0, "inventory 1");
        assert_string_equal(fixture->inventory->gpus[0].uuid, "tegra");
        gpu_monitor_rescan(fixture->monitor);
        expect(fixture, 1, "inventory 1");
        run_for(fixture, 100);
        assert_int_equal(fixture->n_reported, 2);
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);

        fixture->is_closed = false;
        options.discovery = PLATFORM_CHOICE_NVML;
        start_with(fixture, scenario, &options);
        expect(fixture, 2, "inventory 1");
        assert_string_equal(fixture->inventory->gpus[0].uuid, A);
}

#define TEST_ON_MACHINE(name) cmocka_unit_test_setup_teardown(name, setup_machine, teardown_machine)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_without_a_driver_all_units_are_unhealthy_and_return_with_it),
                TEST(test_what_was_unhealthy_before_the_driver_went_still_is_when_it_comes_back),
                TEST(test_a_rescan_without_a_driver_reports_the_last_inventory_as_unhealthy),
                TEST_ON_MACHINE(test_a_replaced_library_is_loaded_without_a_change_of_devices),
                TEST_ON_MACHINE(test_another_kernel_driver_makes_nvml_open_again),
                TEST_ON_MACHINE(test_another_set_of_gpus_in_the_kernel_makes_nvml_count_again),
                TEST_ON_MACHINE(test_a_gpu_that_nvml_missed_makes_it_count_again_but_ever_more_rarely),
                TEST_ON_MACHINE(test_gpus_that_are_all_gone_stay_for_a_while),
                TEST_ON_MACHINE(test_a_gpu_that_is_taken_out_leaves_and_one_that_is_put_in_joins),
                TEST_ON_MACHINE(test_a_look_finds_what_changed_long_before_the_next_refresh),
                TEST(test_a_look_ends_the_wait_of_a_search),
                TEST(test_mig_devices_come_and_go_with_events_and_without),
                TEST(test_on_wsl_one_unit_is_reported_and_nothing_is_watched),
                TEST_ON_MACHINE(test_tegra_is_recognised_by_its_file_or_chosen),
                TEST(test_an_nvml_of_integrated_gpus_is_tegra_unless_nvml_was_chosen),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
