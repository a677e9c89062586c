// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

static void test_dra_is_off_and_offers_whole_gpus_and_shares_unless_said(void **state UNUSED)
{
        static const char *const texts[] = {"", "version: v1\n", "dra: {}\n", "dra: {defaults: {}}\n"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const struct config_dra *dra;

                assert_ok(build(&fixture, texts[i], NULL), &fixture.err);
                dra = &fixture.config->dra;
                assert_false(dra->enabled);
                assert_string_equal(dra->driver_name, "gpu.warpshare.dev");
                assert_int_equal(dra->devices.kind, SELECT_ALL);
                assert_true(dra->whole && dra->mps && !dra->time_slicing && !dra->dynamic_mig);
                assert_int_equal(dra->slots, 4);
                assert_int_equal(dra->default_memory_mib, 0);
                assert_int_equal(dra->default_thread_percentage, 10);
                assert_int_equal(dra->default_clients, 1);
                assert_int_equal(dra->memory_mib, 0);
                assert_false(dra->has_memory_reserve);
                assert_int_equal(dra->daemon_scope, DAEMON_SCOPE_GPU);
                assert_int_equal(dra->fallback, DRA_FALLBACK_WHOLE);
                assert_int_equal(dra->one_form, DRA_ONE_FORM_SHARED);
                assert_int_equal(dra->shares, 4);
                assert_int_equal(dra->unenforced, DRA_UNENFORCED_REFUSE);
                assert_int_equal(dra->unhealthy, DRA_UNHEALTHY_NO_SCHEDULE);
                assert_string_equal(dra->registry, "/var/lib/kubelet/plugins_registry");
                assert_string_equal(dra->plugins, "/var/lib/kubelet/plugins");
                assert_null(dra->instance);
        }
}

static void test_paths_of_kubelet_are_below_its_root_unless_they_are_named(void **state UNUSED)
{
        static const char *const roots[] = {"/var/lib/k0s/kubelet", "/var/lib/k0s/kubelet//"};
        static const char *const wrong[] = {"", "/", "var/lib/kubelet"};
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
                const char *const environment[] = {arena_printf(&fixture.arena, "WARPSHARE_KUBELET_ROOT=%s", roots[i]),
                        "WARPSHARE_KUBELET_PLUGINS=/plugins", NULL};

                assert_ok(build(&fixture, "", environment), &fixture.err);
                assert_string_equal(
                        fixture.config->kubelet.pod_resources, "/var/lib/k0s/kubelet/pod-resources/kubelet.sock");
                assert_string_equal(fixture.config->dra.registry, "/var/lib/k0s/kubelet/plugins_registry");
                assert_string_equal(fixture.config->dra.plugins, "/plugins");
                assert_string_equal(fixture.config->kubelet.socket, "/var/lib/kubelet/device-plugins/kubelet.sock");
        }
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                const char *const environment[] = {
                        arena_printf(&fixture.arena, "WARPSHARE_KUBELET_ROOT=%s", wrong[i]), NULL};

                assert_fails(build(&fixture, "", environment), &fixture.err, ERROR_INVALID,
                        arena_printf(&fixture.arena,
                                "kubelet-root: '%s' is not the absolute path of a folder, such as /var/lib/kubelet",
                                wrong[i]));
        }
}

static void test_every_key_of_the_file_counts(void **state UNUSED)
{
        static const char text[] =
                "dra:\n"
                "  enabled: true\n"
                "  driverName: gpu.example.com\n"
                "  devices: [3, GPU-4CF8DB2D-06c0-7d70-1a51-e59b25b2c16c]\n"
                "  whole: false\n"
                "  mps: true\n"
                "  timeSlicing: true\n"
                "  dynamicMig: true\n"
                "  slots: 8\n"
                "  defaults: {memory: 4Gi, threadPercentage: 20, clients: 2}\n"
                "  memory: 64Gi\n"
                "  memoryReserve: 512\n"
                "  hostOverhead:\n"
                "    gpu: {memoryPerPod: 1Gi}\n"
                "    mig: {milliCpuPerPod: 50}\n"
                "    shared: {memoryPerPod: 300Mi, memoryPerContainer: 100, milliCpuPerContainer: 250}\n"
                "  fallback: shares\n"
                "  oneForm: whole\n"
                "  shares: 7\n"
                "  unenforced: condition\n"
                "  unhealthy: NoExecute\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct config_dra *dra;

        assert_ok(build(&fixture, text, mps_root), &fixture.err);
        assert_string_equal(fixture.warnings.data, "");
        dra = &fixture.config->dra;
        assert_true(dra->enabled);
        assert_string_equal(dra->driver_name, "gpu.example.com");
        assert_true(config_dra_selects(dra, 3, "GPU-x"));
        assert_true(config_dra_selects(dra, 0, "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"));
        assert_false(config_dra_selects(dra, 0, "GPU-x"));
        assert_true(!dra->whole && dra->mps && dra->time_slicing && dra->dynamic_mig);
        assert_int_equal(dra->slots, 8);
        assert_int_equal(dra->default_memory_mib, 4096);
        assert_int_equal(dra->default_thread_percentage, 20);
        assert_int_equal(dra->default_clients, 2);
        assert_int_equal(dra->memory_mib, 65536);
        assert_true(dra->has_memory_reserve);
        assert_int_equal(dra->memory_reserve_mib, 512);
        assert_int_equal(dra->gpu_overhead.pod_mib, 1024);
        assert_int_equal(dra->mig_overhead.pod_milli, 50);
        assert_int_equal(dra->shared_overhead.pod_mib, 300);
        assert_int_equal(dra->shared_overhead.container_mib, 100);
        assert_int_equal(dra->shared_overhead.container_milli, 250);
        assert_int_equal(dra->gpu_overhead.container_mib + dra->mig_overhead.pod_mib, 0);
        assert_int_equal(dra->fallback, DRA_FALLBACK_SHARES);
        assert_int_equal(dra->one_form, DRA_ONE_FORM_WHOLE);
        assert_int_equal(dra->shares, 7);
        assert_int_equal(dra->unenforced, DRA_UNENFORCED_CONDITION);
        assert_int_equal(dra->unhealthy, DRA_UNHEALTHY_NO_EXECUTE);
}

static void test_variables_beat_the_file_and_say_what_it_cannot(void **state UNUSED)
{
        static const char *const environment[] = {"WARPSHARE_DRA=true", "WARPSHARE_DRA_DRIVER_NAME=a.b",
                "WARPSHARE_KUBELET_PLUGINS_REGISTRY=/r", "WARPSHARE_KUBELET_PLUGINS=/p", "POD_UID=6f1a",
                "MPS_ROOT=/run/nvidia/mps", NULL};
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct config_dra *dra;

        assert_ok(build(&fixture, "dra: {enabled: false, driverName: x, slots: 2}\n", environment), &fixture.err);
        dra = &fixture.config->dra;
        assert_true(dra->enabled);
        assert_string_equal(dra->driver_name, "a.b");
        assert_string_equal(dra->registry, "/r");
        assert_string_equal(dra->plugins, "/p");
        assert_string_equal(dra->instance, "6f1a");
        assert_int_equal(dra->slots, 2);
}

#define LONG_NAME "a23456789.b23456789.c23456789.d23456789.e23456789.f23456789.g23"
#define NO_NAME                                                                                                        \
        "' is not the name of a DRA driver: a DNS subdomain in lower case of at most 63 characters, such as "          \
        "gpu.example.com"

#define NO_ONE_DAEMON                                                                                                  \
        "dra.daemonScope: resource, but then the MPS daemon has all GPUs as long as any is shared, and none can be "   \
        "given as a whole or by time-slicing: set whole: false and timeSlicing: false"

static void test_one_daemon_may_serve_all_gpus_that_are_only_shared(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, "dra: {whole: false, daemonScope: resource}\n", mps_root), &fixture.err);
        assert_int_equal(fixture.config->dra.daemon_scope, DAEMON_SCOPE_RESOURCE);
}

static void test_what_cannot_be_is_named_with_the_way_out(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"dra: {driverName: GPU.example.com}\n", "dra-driver-name: 'GPU.example.com" NO_NAME},
                {"dra: {driverName: gpu.example.com.}\n", "dra-driver-name: 'gpu.example.com." NO_NAME},
                {"dra: {driverName: ''}\n", "dra-driver-name: '" NO_NAME},
                {"dra: {driverName: " LONG_NAME "4}\n", "dra-driver-name: '" LONG_NAME "4" NO_NAME},
                {"dra:\n  devices: 2\n",
                        "config 'FILE' line 2: dra.devices: a number, must be all, or a list of indices and UUIDs of GPUs"},
                {"dra:\n  devices: [0, '0:1']\n",
                        "config 'FILE' line 2: dra.devices: has a MIG device, must be all, or a list of indices and UUIDs "
                        "of GPUs, to which their MIG devices belong"},
                {"dra:\n  devices: [MIG-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c]\n",
                        "config 'FILE' line 2: dra.devices: has a MIG device, must be all, or a list of indices and UUIDs "
                        "of GPUs, to which their MIG devices belong"},
                {"dra: {whole: false, mps: false}\n",
                        "config 'FILE' line 1: dra: whole, mps and timeSlicing are all false: at least one must be true"},
                {"dra:\n  defaults:\n    memory: 0\n",
                        "config 'FILE' line 3: dra.defaults.memory: 0, at least 1 MiB, or auto"},
                {"dra: {slots: 0}\n", "config 'FILE' line 1: dra.slots: 0, must be from 1 to 50000"},
                {"dra: {shares: 61}\n", "config 'FILE' line 1: dra.shares: 61, must be from 1 to 60"},
                {"dra: {hostOverhead: {shared: {memoryPerPod: 300m}}}\n",
                        "config 'FILE' line 1: dra.hostOverhead.shared.memoryPerPod: \"300m\", must be auto, or an amount of "
                        "memory from 0 to 1048576 MiB: a number of MiB, or one with its unit (512Mi, 1Gi)"},
                {"dra: {oneForm: both}\n",
                        "config 'FILE' line 1: dra.oneForm: 'both' is not a known value, use shared or whole"},
                {"dra: {fallback: none}\n",
                        "config 'FILE' line 1: dra.fallback: 'none' is not a known value, use whole or shares"},
                {"dra: {daemonScope: node}\n",
                        "config 'FILE' line 1: dra.daemonScope: 'node' is not a known value, use gpu or resource"},
                {"dra:\n  whole: false\n  timeSlicing: true\n  daemonScope: resource\n",
                        "config 'FILE' line 4: " NO_ONE_DAEMON},
                {"dra: {daemonScope: resource}\n", "config 'FILE' line 1: " NO_ONE_DAEMON},
                {"dra: {unenforced: allow}\n",
                        "config 'FILE' line 1: dra.unenforced: 'allow' is not a known value, use refuse or condition"},
                {"dra: {enabled: 1}\n", "config 'FILE' line 1: dra.enabled: 1, must be true or false"},
                {"dra: {enabled: true}\n",
                        "dra.mps: needs the directory of MPS on the host, and none is set: use --mps-root, MPS_ROOT or "
                        "flags.mpsRoot, for example /run/nvidia/mps; or dra.mps: false offers no shares"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_fails(build(&fixture, table[i][0], NULL), &fixture.err, ERROR_INVALID, table[i][1]);
        }
}

static void test_a_driver_name_may_have_63_characters(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, "dra: {driverName: " LONG_NAME "}\n", NULL), &fixture.err);
        assert_string_equal(fixture.config->dra.driver_name, LONG_NAME);
}

static void test_the_directory_of_mps_is_needed_for_shares_only(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, "dra: {enabled: true, mps: false}\n", NULL), &fixture.err);
        assert_ok(build(&fixture, "dra: {mps: true}\n", NULL), &fixture.err);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_dra_is_off_and_offers_whole_gpus_and_shares_unless_said),
                cmocka_unit_test(test_paths_of_kubelet_are_below_its_root_unless_they_are_named),
                cmocka_unit_test(test_every_key_of_the_file_counts),
                cmocka_unit_test(test_variables_beat_the_file_and_say_what_it_cannot),
                cmocka_unit_test(test_one_daemon_may_serve_all_gpus_that_are_only_shared),
                cmocka_unit_test(test_what_cannot_be_is_named_with_the_way_out),
                cmocka_unit_test(test_a_driver_name_may_have_63_characters),
                cmocka_unit_test(test_the_directory_of_mps_is_needed_for_shares_only),
        };

        return cmocka_run_group_tests_name("dra", tests, NULL, NULL);
}
