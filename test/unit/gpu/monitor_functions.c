// SPDX-License-Identifier: Apache-2.0
/*
 * Each function of NVML, of one GPU or of the driver, that does not return: what others report is heard meanwhile, and
 * what changes of them is told.
 */
#include "unit.h"

#include "gpu/nvml.h"
#include "monitor_fixture.h"

#define C "GPU-00000000-0000-4000-8000-00000000000c"
#define GPUS_WITH(b, c)                                                                                                \
        "driverVersion: 580.105.08\ngpus:\n- {model: T4, uuid: " A "}\n- {model: A100-40GB, uuid: " B                  \
        ", mig: {devices: [{profile: 3g.20gb, gi: 1, ci: 0, uuid: " MIG_1 "}]}" b "}\n- {model: T4, uuid: " C c "}\n"
#define GPUS(b) GPUS_WITH(b, "")

#define FIRST_OF(first, ...) first
#define NAME(member, arguments, ...) FIRST_OF(__VA_ARGS__, ""),
static const char *const names[] = {NVML_FUNCTIONS(NAME, NAME)};

/* A name without a version means all versions; _v1 is there only where no name is without. */
static void plain_name(const char *name, char *plain, size_t size)
{
        char *version;

        snprintf(plain, size, "%s", name);
        version = strstr(plain, "_v");
        if (version && strcmp(version, "_v1") != 0)
                *version = '\0';
}

static bool is_of_a_gpu(const char *name)
{
        return strstr(name, "Instance") || (strstr(name, "Device") && strcmp(name, "nvmlDeviceGetCount") != 0 &&
                                                   strcmp(name, "nvmlDeviceGetHandleByIndex") != 0);
}

static void on_samples(struct gpu_samples *samples, void *data UNUSED)
{
        gpu_samples_free(samples);
}

static void hang_and_hear(struct fixture *fixture, const char *name)
{
        struct gpu_monitor_options options = quick(fixture);
        char scenario[2000];
        size_t at;

        /* Nothing is given up before the end of this test, and everything is asked again and again. */
        options.hang_ms = 600000;
        options.refresh_ms = options.sample_ms = 50;
        options.on_samples = on_samples;
        fixture->n_reported = 0;
        fixture->is_closed = false;
        start_with(fixture, GPUS(""), &options);
        expect(fixture, 0, "inventory 3");
        if (is_of_a_gpu(name))
                snprintf(scenario, sizeof(scenario), GPUS(", delays: {%s: 600s}"), name);
        else
                snprintf(scenario, sizeof(scenario), GPUS("") "delays: {%s: 600s}\n", name);
        scenario_write(scenario);
        run_for(fixture, 150); /* it hangs, if it is called at all */
        snprintf(scenario + strlen(scenario), sizeof(scenario) - strlen(scenario), "events: [{gpu: 2, xid: 95}]\n");
        scenario_write(scenario);
        at = expect(fixture, 1, "- " C " Xid 95");
        expect(fixture, at, "+ " C);
        if (is_of_a_gpu(name)) {
                at = fixture->n_reported;
                snprintf(scenario, sizeof(scenario), GPUS_WITH(", delays: {%s: 600s}", ", numa: 1"), name);
                scenario_write(scenario);
                expect(fixture, at, "inventory 3");
                assert_int_equal(fixture->inventory->gpus[2].numa_node, 1);
                assert_null(fixture->inventory->gpus[1].failure);
        }
        gpu_monitor_close(fixture->monitor, on_closed, fixture);
        wait_closed(fixture);
}

static void test_while_any_function_hangs_an_xid_of_another_gpu_is_told_and_what_changes_of_it(void **state)
{
        struct fixture *fixture = *state;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                char name[100];

                plain_name(names[i], name, sizeof(name));
                if (strcmp(name, "nvmlEventSetWait") == 0 || strcmp(name, "nvmlErrorString") == 0)
                        continue; /* the wait itself; and what is a table in the library */
                print_message("# %s\n", name);
                hang_and_hear(fixture, name);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_while_any_function_hangs_an_xid_of_another_gpu_is_told_and_what_changes_of_it),
        };

        return cmocka_run_group_tests(tests, scenario_setup, scenario_teardown);
}
