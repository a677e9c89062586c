// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

static void test_an_empty_file_means_the_defaults(void **state UNUSED)
{
        static const char *const texts[] = {"", "# nothing\n", "{}", "version: v1\n", "version: ''\n",
                "flags:\nsharing:\n",
                "resources:\nimex: {channelIDs: null}\nhealth: {xids: {}}\nflags: {plugin: null, gfd: {}}\n",
                "resources: {gpus: [], mig: null}\nimex: {channelIDs: []}\nsharing: {timeSlicing: null, mps: null}\n"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, texts[i], NULL), &fixture.err);
                assert_string_equal(fixture.config->path, fixture.path);
                assert_true(fixture.config->fail_on_init_error);
                assert_int_equal(fixture.config->mig_strategy, MIG_STRATEGY_NONE);
                assert_string_equal(fixture.config->driver.root, "/");
                assert_string_equal(fixture.config->driver.mounted_root, "/driver-root");
                assert_string_equal(fixture.config->mps.root, "");
                assert_string_equal(fixture.config->kubelet.socket, "/var/lib/kubelet/device-plugins/kubelet.sock");
                assert_string_equal(fixture.config->driver.nvml_library, "");
                assert_string_equal(fixture.config->log.level, "info");
                assert_string_equal(fixture.config->log.format, "text");
                assert_int_equal(fixture.config->devices.id_strategy, ID_STRATEGY_UUID);
                assert_int_equal(fixture.config->placement, PLACEMENT_DISTRIBUTED);
                assert_null(fixture.config->sharing.mps);
                assert_null(fixture.config->sharing.time_slicing);
                assert_string_equal(fixture.config->driver.dev_root, "/");
                assert_int_equal(fixture.config->discovery, DISCOVERY_AUTO);
                assert_int_equal(fixture.config->devices.lists, DEVICE_LIST_ENVVAR);
                assert_false(fixture.config->devices.pass_specs);
                assert_int_equal(fixture.config->devices.extras, 0);
                assert_false(fixture.config->devices.has_imex_channel);
                assert_false(fixture.config->devices.imex_required);
                assert_string_equal(fixture.config->cdi.annotation_prefix, "cdi.k8s.io/");
                assert_string_equal(fixture.config->cdi.hook_path, "/usr/bin/nvidia-ctk");
                assert_null(fixture.config->cdi.feature_flags[0]);
                assert_null(fixture.config->cdi.disable_hooks[0]);
                assert_string_equal(fixture.config->cdi.root, "/var/run/cdi");
                assert_string_equal(fixture.config->system_root, "");
                assert_int_equal(fixture.config->patterns.n_gpu, 0);
                assert_int_equal(fixture.config->patterns.n_mig, 0);
                assert_int_equal(fixture.config->health.n_xid_rules, 0);
                assert_true(fixture.config->health.recover);
                assert_null(fixture.config->discovery_flags.use_node_feature_api);
                assert_string_equal(fixture.warnings.data, "");
        }
}

static void test_flags_in_the_file_match_in_any_case(void **state UNUSED)
{
        static const char text[] = "Version: v1\n"
                                   "FLAGS:\n"
                                   "  MigStrategy: mixed\n"
                                   "  failoniniterror: no\n"
                                   "  mpsRoot: 5\n"
                                   "  nvidiaDriverRoot: /run/nvidia/driver\n"
                                   "  nvidiaDevRoot: /dev-root\n"
                                   "  gdrcopyEnabled: on\n"
                                   "  gdsEnabled: off\n"
                                   "  MOFEDEnabled: true\n"
                                   "  useNodeFeatureApi: false\n"
                                   "  deviceDiscoveryStrategy: tegra\n"
                                   "  gfd: {oneshot: true, sleepInterval: 5}\n"
                                   "  plugin:\n"
                                   "    passDeviceSpecs: y\n"
                                   "    cdiAnnotationPrefix: custom.cdi.k8s.io/\n"
                                   "    nvidiaCTKPath: /usr/local/bin/hook\n"
                                   "    deviceListStrategy: [cdi-cri, envvar, cdi-cri]\n"
                                   "    deviceidstrategy: index\n"
                                   "    containerDriverRoot: /host\n"
                                   "    sharedDevicesAllocationPolicy: packed\n"
                                   "IMEX: {channelids: [0], REQUIRED: true}\n"
                                   "Health: {Recover: false, xids: {79: ignore, '43': unhealthy, 31: null}}\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, text, NULL), &fixture.err);
        assert_false(fixture.config->fail_on_init_error);
        assert_string_equal(fixture.config->mps.root, "5"); /* a number where text is wanted becomes text */
        assert_string_equal(fixture.config->driver.root, "/run/nvidia/driver");
        assert_string_equal(fixture.config->driver.mounted_root, "/host");
        assert_int_equal(fixture.config->devices.id_strategy, ID_STRATEGY_INDEX);
        assert_int_equal(fixture.config->placement, PLACEMENT_PACKED);
        assert_int_equal(fixture.config->mig_strategy, MIG_STRATEGY_MIXED);
        assert_int_equal(fixture.config->discovery, DISCOVERY_TEGRA);
        assert_string_equal(fixture.config->driver.dev_root, "/dev-root");
        assert_int_equal(fixture.config->devices.extras, EXTRA_GDRCOPY | EXTRA_MOFED);
        assert_false(*fixture.config->discovery_flags.use_node_feature_api);
        assert_true(*fixture.config->discovery_flags.oneshot);
        assert_int_equal(*fixture.config->discovery_flags.sleep_ns, 5);
        assert_null(fixture.config->discovery_flags.no_timestamp);
        assert_null(fixture.config->discovery_flags.output_file);
        assert_true(fixture.config->devices.pass_specs);
        assert_string_equal(fixture.config->cdi.annotation_prefix, "custom.cdi.k8s.io/");
        assert_string_equal(fixture.config->cdi.hook_path, "/usr/local/bin/hook");
        assert_int_equal(fixture.config->devices.lists, DEVICE_LIST_ENVVAR | DEVICE_LIST_CDI_CRI);
        assert_true(fixture.config->devices.has_imex_channel);
        assert_true(fixture.config->devices.imex_required);
        assert_false(fixture.config->health.recover);
        assert_int_equal(fixture.config->health.n_xid_rules, 2);
        assert_int_equal(fixture.config->health.xid_rules[0].xid, 79);
        assert_false(fixture.config->health.xid_rules[0].unhealthy);
        assert_int_equal(fixture.config->health.xid_rules[1].xid, 43);
        assert_true(fixture.config->health.xid_rules[1].unhealthy);
        assert_int_equal(fixture.config->health.xid_rules[1].line, 23);
        assert_string_equal(fixture.warnings.data, "");
}

static void test_what_is_not_text_becomes_text_as_go_prints_it(void **state UNUSED)
{
        static const char *const table[][2] = {{"5", "5"}, {"0x10", "16"}, {"-1.50", "-1.5"}, {"0.1", "0.1"},
                {"5.0", "5"}, {"1e6", "1e+06"}, {"3.141592653589793", "3.141592653589793"}, {"yes", "true"},
                {"'yes'", "yes"}, {"2026-01-02", "2026-01-02"}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, arena_printf(&fixture.arena, "flags: {mpsRoot: %s}\n", table[i][0]), NULL),
                        &fixture.err);
                assert_string_equal(fixture.config->mps.root, table[i][1]);
        }
}

static void test_device_lists_are_words_and_may_be_none(void **state UNUSED)
{
        static const struct {
                const char *text;
                unsigned int set;
        } table[] = {
                {"volume-mounts", DEVICE_LIST_VOLUME_MOUNTS},
                {"[volume-mounts, cdi-annotations]", DEVICE_LIST_VOLUME_MOUNTS | DEVICE_LIST_CDI_ANNOTATIONS},
                {"[cdi-cri, envvar]", DEVICE_LIST_CDI_CRI | DEVICE_LIST_ENVVAR},
                {"null", DEVICE_LIST_ENVVAR},
                {"[]", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const char *text =
                        arena_printf(&fixture.arena, "flags: {plugin: {deviceListStrategy: %s}}\n", table[i].text);

                assert_ok(build(&fixture, text, NULL), &fixture.err);
                assert_int_equal(fixture.config->devices.lists, table[i].set);
                assert_string_equal(fixture.warnings.data, "");
        }
}

static const char *const roots_keys[][4] = {
        {"{nvidiaDriverRoot: /tmp/x}", "flags.nvidiaDriverRoot: '/tmp/x'", "--driver-root", "NVIDIA_DRIVER_ROOT"},
        {"{nvidiaDevRoot: /tmp/x}", "flags.nvidiaDevRoot: '/tmp/x'", "--dev-root", "NVIDIA_DEV_ROOT"},
        {"{plugin: {nvidiaCTKPath: /tmp/x}}", "flags.plugin.nvidiaCTKPath: '/tmp/x'", "--nvidia-cdi-hook-path",
                "NVIDIA_CDI_HOOK_PATH"},
        {"{plugin: {containerDriverRoot: /tmp/x}}", "flags.plugin.containerDriverRoot: '/tmp/x'",
                "--driver-root-ctr-path", "DRIVER_ROOT_CTR_PATH"},
        {"{mpsRoot: /etc}", "flags.mpsRoot: '/etc'", "--mps-root", "MPS_ROOT"},
        {"{mpsPipesWritable: true}", "flags.mpsPipesWritable: 'true'", "--mps-pipes-writable",
                "WARPSHARE_MPS_PIPES_WRITABLE"},
};

/* Who edits a ConfigMap is not root on the nodes by it, where that is wanted. */
static void test_keys_that_make_root_can_be_kept_to_flags_and_variables(void **state UNUSED)
{
        static const char *const only[] = {"WARPSHARE_CONFIG_KEYS_FROM_FLAGS_ONLY=true", NULL};

        for (size_t i = 0; i < ARRAY_SIZE(roots_keys); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const char *text = arena_printf(&fixture.arena, "flags: %s\n", roots_keys[i][0]);
                const char *given = arena_printf(&fixture.arena, "%s=true", roots_keys[i][3]);
                const char *const reported[] = {only[0], given, NULL};

                assert_ok(build(&fixture, text, NULL), &fixture.err);
                assert_fails(build(&fixture, text, only), &fixture.err, ERROR_INVALID,
                        arena_printf(&fixture.arena,
                                "config 'FILE' line 1: %s decides what runs or is mounted as root on the node, and "
                                "configKeysFromFlagsOnly is on: remove the key, set %s or %s, or start with "
                                "--config-keys-from-flags-only=false",
                                roots_keys[i][1], roots_keys[i][2], roots_keys[i][3]));
                assert_ok(build(&fixture, text, reported), &fixture.err);
        }
}

static void test_a_key_that_says_the_default_is_no_key_that_makes_root(void **state UNUSED)
{
        static const char *const only[] = {"WARPSHARE_CONFIG_KEYS_FROM_FLAGS_ONLY=true", NULL};
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(
                build(&fixture,
                        "flags: {nvidiaDriverRoot: /, migStrategy: mixed, plugin: {nvidiaCTKPath: /usr/bin/nvidia-ctk}}\n",
                        only),
                &fixture.err);
        assert_string_equal(fixture.config->driver.root, "/");
}

static void test_flags_and_variables_alone_fill_what_the_file_cannot(void **state UNUSED)
{
        static const char *const environment[] = {"CDI_FEATURE_FLAGS= a , b", "CDI_DISABLE_HOOKS=all",
                "WARPSHARE_CDI_ROOT=/run/cdi", "WARPSHARE_SYSTEM_ROOT=/host", "NVIDIA_DRIVER_ROOT=/run/nvidia/driver",
                "NVIDIA_DEV_ROOT=", "IMEX_CHANNEL_IDS=0x0", NULL};
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(
                build(&fixture, "flags: {nvidiaDevRoot: /file}\nimex: {channelIDs: []}\n", environment), &fixture.err);
        assert_string_equal(fixture.config->cdi.feature_flags[0], "a");
        assert_string_equal(fixture.config->cdi.feature_flags[1], "b");
        assert_null(fixture.config->cdi.feature_flags[2]);
        assert_string_equal(fixture.config->cdi.disable_hooks[0], "all");
        assert_null(fixture.config->cdi.disable_hooks[1]);
        assert_string_equal(fixture.config->cdi.root, "/run/cdi");
        assert_string_equal(fixture.config->system_root, "/host");
        /* Empty counts as set, and an empty root of devices is that of the driver. */
        assert_string_equal(fixture.config->driver.dev_root, "/run/nvidia/driver");
        assert_true(fixture.config->devices.has_imex_channel);
}

static void test_patterns_are_kept_in_their_order(void **state UNUSED)
{
        static const char text[] = "resources:\n"
                                   "  gpus:\n"
                                   "  - pattern: 'NVIDIA A100*'\n"
                                   "    name: a100\n"
                                   "  - {pattern: '*', name: nvidia.com/gpu}\n"
                                   "  mig: [{pattern: 1g.10gb, name: mig-small}]\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, text, NULL), &fixture.err);
        assert_int_equal(fixture.config->patterns.n_gpu, 2);
        assert_string_equal(fixture.config->patterns.gpu[0].pattern, "NVIDIA A100*");
        assert_string_equal(fixture.config->patterns.gpu[0].name, "nvidia.com/a100");
        assert_int_equal(fixture.config->patterns.gpu[0].line, 3);
        assert_string_equal(fixture.config->patterns.gpu[1].pattern, "*");
        assert_int_equal(fixture.config->patterns.n_mig, 1);
        assert_string_equal(fixture.config->patterns.mig[0].pattern, "1g.10gb");
        assert_string_equal(fixture.config->patterns.mig[0].name, "nvidia.com/mig-small");
        assert_string_equal(fixture.warnings.data, "");
}

static void test_the_environment_beats_the_file(void **state UNUSED)
{
        static const char *const environment[] = {
                "NVIDIA_DRIVER_ROOT=", "DEVICE_ID_STRATEGY=uuid", "MIG_STRATEGY=none", "DEVICE_LIST_STRATEGY=", NULL};
        static const char text[] = "flags:\n"
                                   "  migStrategy: multiple\n" /* wrong, but does not count */
                                   "  nvidiaDriverRoot: /run/nvidia/driver\n"
                                   "  plugin: {deviceIDStrategy: index, deviceListStrategy: envvar}\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, text, environment), &fixture.err);
        assert_string_equal(fixture.config->driver.root, "");
        assert_int_equal(fixture.config->devices.id_strategy, ID_STRATEGY_UUID);
}

static void test_wrong_values_are_named_with_place_bound_and_way_out(void **state UNUSED)
{
        static const struct {
                const char *text;
                enum error_kind kind;
                const char *expected;
        } table[] = {
                {"- 1\n", ERROR_INVALID, "config 'FILE' line 1: [1], must be a mapping"},
                {"a: [\n", ERROR_INVALID,
                        "config 'FILE' line 2: while parsing a flow node: did not find expected node content"},
                {"version: v2\n", ERROR_INVALID, "config 'FILE' line 1: version: 'v2' is not a known version, use v1"},
                {"version: [v1]\n", ERROR_INVALID, "config 'FILE' line 1: version: [\"v1\"], must be text"},
                {"flags: 5\n", ERROR_INVALID, "config 'FILE' line 1: flags: 5, must be a mapping"},
                {"flags:\n  plugin: x\n", ERROR_INVALID,
                        "config 'FILE' line 2: flags.plugin: \"x\", must be a mapping"},
                {"flags:\n  failOnInitError: maybe\n", ERROR_INVALID,
                        "config 'FILE' line 2: flags.failOnInitError: \"maybe\", must be true or false"},
                {"flags:\n  migStrategy: multiple\n", ERROR_INVALID,
                        "config 'FILE' line 2: flags.migStrategy: 'multiple' is not a known value, use none, single or mixed"},
                {"flags:\n  plugin:\n    deviceListStrategy:\n    - envvar\n    - cdi\n", ERROR_INVALID,
                        "config 'FILE' line 5: flags.plugin.deviceListStrategy[1]: 'cdi' is not a known value, use envvar, "
                        "volume-mounts, cdi-annotations or cdi-cri"},
                {"flags: {plugin: {deviceListStrategy: 'envvar,cdi-cri'}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.plugin.deviceListStrategy: 'envvar,cdi-cri', must be one word, or a list: "
                        "[envvar]"},
                {"flags: {gfd: {sleepInterval: 5 minutes}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.gfd.sleepInterval: \"5 minutes\" is not a duration, use numbers with units "
                        "(60s, 1m30s, 500ms), infinite, or a number of nanoseconds"},
                {"flags: {gfd: {oneshot: 1}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.gfd.oneshot: 1, must be true or false"},
                {"flags:\n  useNodeFeatureAPI: maybe\n", ERROR_INVALID,
                        "config 'FILE' line 2: flags.useNodeFeatureAPI: \"maybe\", must be true or false"},
                {"imex: {channelIDs: [2]}\n", ERROR_INVALID,
                        "config 'FILE' line 1: imex.channelIDs[0]: '2' is not a known value, use 0"},
                {"imex: {channelIDs: ['0']}\n", ERROR_INVALID,
                        "config 'FILE' line 1: imex.channelIDs[0]: \"0\", must be a whole number"},
                {"imex: {channelIDs: 0}\n", ERROR_INVALID, "config 'FILE' line 1: imex.channelIDs: 0, must be a list"},
                {"resources:\n  gpus:\n  - name: gpu\n", ERROR_INVALID,
                        "config 'FILE' line 3: resources.gpus[0]: pattern is missing, for example '*' or 'NVIDIA A100*'"},
                {"resources:\n  mig:\n  - pattern: 1g.5gb\n", ERROR_INVALID,
                        "config 'FILE' line 3: resources.mig[0]: name is missing, for example nvidia.com/gpu"},
                {"resources: {gpus: [{pattern: x, name: example.com/gpu}]}\n", ERROR_INVALID,
                        "config 'FILE' line 1: resources.gpus[0].name: 'example.com/gpu' is not a resource name: the only domain "
                        "possible is nvidia.com/"},
                {"resources: {gpus: '*'}\n", ERROR_INVALID,
                        "config 'FILE' line 1: resources.gpus: \"*\", must be a list"},
                {"health: {xids: [79]}\n", ERROR_INVALID, "config 'FILE' line 1: health.xids: [79], must be a mapping"},
                {"health:\n  xids:\n    79: fatal\n", ERROR_INVALID,
                        "config 'FILE' line 3: health.xids.79: 'fatal' is not a known value, use ignore or unhealthy"},
                {"health: {xids: {all: ignore}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: health.xids.all: 'all' is not an Xid, use a number from 1 to 1023"},
                {"health: {xids: {079: ignore}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: health.xids.079: '079' is not an Xid, use a number from 1 to 1023"},
                {"health: {xids: {1024: ignore}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: health.xids.1024: '1024' is not an Xid, use a number from 1 to 1023"},
                {"health: {pendingRowRemap: unhealty}\n", ERROR_INVALID,
                        "config 'FILE' line 1: health.pendingRowRemap: 'unhealty' is not a known value, use ignore or "
                        "unhealthy"},
                {"flags: {plugin: {sharedDevicesAllocationPolicy: pakced}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.plugin.sharedDevicesAllocationPolicy: 'pakced' is not a known value, use "
                        "distributed or packed"},
                {"resources: 1\n", ERROR_INVALID, "config 'FILE' line 1: resources: 1, must be a mapping"},
                {"imex: 1\n", ERROR_INVALID, "config 'FILE' line 1: imex: 1, must be a mapping"},
                {"sharing: 1\n", ERROR_INVALID, "config 'FILE' line 1: sharing: 1, must be a mapping"},
                {"sharing:\n  mps: yes\n", ERROR_INVALID, "config 'FILE' line 2: sharing.mps: true, must be a mapping"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_fails(build(&fixture, table[i].text, mps_root), &fixture.err, table[i].kind, table[i].expected);
        }
}

static void test_what_is_ignored_is_warned_about(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"version: v1\nflag: {}\n",
                        "config 'FILE' line 2: flag: unknown key, ignored; did you mean 'flags'?\n"},
                {"version: v1\nsomething: 1\n", "config 'FILE' line 2: something: unknown key, ignored\n"},
                {"flags:\n  plugin:\n    deviceIdStrategies: uuid\n",
                        "config 'FILE' line 3: flags.plugin.deviceIdStrategies: unknown key, ignored; did you mean "
                        "'deviceIDStrategy'?\n"},
                {"flags: {gfd: {sleepinterval: 1m, sleep: 1}}\n",
                        "config 'FILE' line 1: flags.gfd.sleep: unknown key, ignored\n"},
                {"flags: {plugin: {migStrategy: none}}\n",
                        "config 'FILE' line 1: flags.plugin.migStrategy: unknown key, ignored\n"},
                {"resources: {gpus: [{Pattern: a, pattern: b, name: x}]}\n",
                        "config 'FILE' line 1: resources.gpus[0].Pattern: unknown key, ignored; did you mean 'pattern'?\n"},
                {"imex: {channels: [0]}\n",
                        "config 'FILE' line 1: imex.channels: unknown key, ignored; did you mean 'channelIDs'?\n"},
                {"health: {xid: {79: ignore}}\n",
                        "config 'FILE' line 1: health.xid: unknown key, ignored; did you mean 'xids'?\n"},
                {"a: 1\na: 2\nsharing: {}\n",
                        "config 'FILE' line 2: key 'a' is there already (line 1); the last one counts\n"
                        "config 'FILE' line 2: a: unknown key, ignored\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, table[i][0], mps_root), &fixture.err);
                assert_string_equal(fixture.warnings.data, table[i][1]);
        }
}

static void test_marks_of_the_node_are_checked_at_the_start(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        static const char *const good[] = {
                "WARPSHARE_NODE_TAINT=a/b:NoSchedule", "WARPSHARE_NODE_CONDITION=Shares", NULL};
        static const char *const bad_taint[] = {"WARPSHARE_NODE_TAINT=a/b", NULL};
        static const char *const bad_condition[] = {"WARPSHARE_NODE_CONDITION=Ready", NULL};

        assert_ok(build(&fixture, "version: v1\n", good), &fixture.err);
        assert_string_equal(fixture.config->node.taint, "a/b:NoSchedule");
        assert_string_equal(fixture.config->node.condition, "Shares");
        assert_fails(build(&fixture, "version: v1\n", bad_taint), &fixture.err, ERROR_INVALID,
                "--node-taint: 'a/b' is not a taint: write key=value:effect or key:effect, for example "
                "nvidia.com/gpu-sharing=unavailable:NoSchedule");
        assert_fails(build(&fixture, "version: v1\n", bad_condition), &fixture.err, ERROR_INVALID,
                "--node-condition: 'Ready' is a condition that kubelet sets: use another type, for example "
                "GPUSharingReady");
}

static void test_a_file_that_is_not_there_or_too_large_is_an_error(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        _free_ char *large = xcalloc(1, CONFIG_FILE_LIMIT + 2);
        const char *const arguments[] = {"--config-file=/nonexistent/c.yaml", NULL};
        const char *const environment[] = {NULL};
        struct option_set set;

        options_take(&set, &fixture.arena, arguments, environment);
        assert_fails(config_build(&set, &fixture.arena, &fixture.config, NULL, NULL, &fixture.err), &fixture.err,
                ERROR_NOT_FOUND, "config: open '/nonexistent/c.yaml': No such file or directory");
        memset(large, '#', CONFIG_FILE_LIMIT + 1);
        assert_fails(build(&fixture, large, NULL), &fixture.err, ERROR_INVALID,
                "config: 'FILE' is larger than the limit of 1048576 bytes");
}

/* NVIDIA's plugin takes these as errors. */
static void test_what_means_nothing_is_no_error(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"sharing: {timeSlicing: null}", ""},
                {"sharing: {timeSlicing: {resources: [{name: 1, replicas: 2}]}}", ""},
                {"{~: 1, version: v1}", "~: unknown key, ignored\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, table[i][0], NULL), &fixture.err);
                assert_true(strlen(fixture.warnings.data) >= strlen(table[i][1]));
                assert_string_equal(
                        fixture.warnings.data + strlen(fixture.warnings.data) - strlen(table[i][1]), table[i][1]);
        }
}

/* NVIDIA's plugin reads these: it takes null for 0, ignores `devices`, and all that follows the first document. */
static void test_what_is_doubtful_is_refused_where_nvidias_program_reads_it(void **state UNUSED)
{
#define DEVICES(list) "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: " list "}]}}"
        static const char *const table[][2] = {
                {"imex: {channelIDs: [null]}", "imex.channelIDs[0]: null, must be a whole number"},
                {DEVICES("[null]"), "devices[0]: null is not a device"},
                {DEVICES("[600]"), "devices[0]: 600, must be from 0 to 511"},
                {DEVICES("[0]}, {name: gpu, replicas: 4, devices: [0]"),
                        "device 0 of 'nvidia.com/gpu' is listed at line 1 already"},
                {"flags: {mpsRoot: !!binary L3g=}", "'L3g=' cannot be read as 'tag:yaml.org,2002:binary'"},
                {"{version: v1}\n{version: v1}", "line 2: did not find expected <document start>"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_int_equal(build(&fixture, table[i][0], NULL), -1);
                assert_non_null(strstr(fixture.err.text, table[i][1]));
        }
}

/*
 * As Go reads the keys of an object in their order: that of the struct comes after those with capitals. NVIDIA's plugin
 * refuses the last one, since there a number is no text.
 */
static void test_of_two_spellings_of_a_flag_that_of_the_schema_counts(void **state UNUSED)
{
        static const char *const table[] = {"flags: {MIGSTRATEGY: mixed, migStrategy: single}",
                "flags: {migStrategy: single, MigStrategy: mixed}", "flags: {migStrategy: single, MIGSTRATEGY: 5}"};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, table[i], NULL), &fixture.err);
                assert_int_equal(fixture.config->mig_strategy, MIG_STRATEGY_SINGLE);
        }
}

static void test_the_effective_config_is_printed_as_json(void **state UNUSED)
{
        static const char expected[] =
                "{\n"
                "  \"version\": \"v1\",\n"
                "  \"flags\": {\n"
                "    \"migStrategy\": \"none\",\n"
                "    \"failOnInitError\": true,\n"
                "    \"mpsRoot\": \"/run/nvidia/mps\",\n"
                "    \"nvidiaDriverRoot\": \"/\",\n"
                "    \"nvidiaDevRoot\": \"/\",\n"
                "    \"gdrcopyEnabled\": false,\n"
                "    \"gdsEnabled\": false,\n"
                "    \"mofedEnabled\": false,\n"
                "    \"useNodeFeatureAPI\": null,\n"
                "    \"deviceDiscoveryStrategy\": \"auto\",\n"
                "    \"plugin\": {\n"
                "      \"passDeviceSpecs\": false,\n"
                "      \"deviceListStrategy\": [\n"
                "        \"envvar\"\n"
                "      ],\n"
                "      \"deviceIDStrategy\": \"uuid\",\n"
                "      \"cdiAnnotationPrefix\": \"cdi.k8s.io/\",\n"
                "      \"nvidiaCTKPath\": \"/usr/bin/nvidia-ctk\",\n"
                "      \"containerDriverRoot\": \"/driver-root\",\n"
                "      \"sharedDevicesAllocationPolicy\": \"distributed\"\n"
                "    }\n"
                "  },\n"
                "  \"resources\": {\n"
                "    \"gpus\": [\n"
                "      {\n"
                "        \"pattern\": \"*\",\n"
                "        \"name\": \"nvidia.com/gpu\"\n"
                "      }\n"
                "    ]\n"
                "  },\n"
                "  \"sharing\": {\n"
                "    \"timeSlicing\": {},\n"
                "    \"mps\": {\n"
                "      \"failRequestsGreaterThanOne\": true,\n"
                "      \"scope\": \"aggregate\",\n"
                "      \"provisioning\": \"uniform\",\n"
                "      \"daemonScope\": \"gpu\",\n"
                "      \"memoryReserve\": \"auto\",\n"
                "      \"guard\": \"report\",\n"
                "      \"tier\": \"auto\",\n"
                "      \"resources\": [\n"
                "        {\n"
                "          \"name\": \"nvidia.com/gpu\",\n"
                "          \"rename\": \"nvidia.com/gpu.small\",\n"
                "          \"devices\": \"all\",\n"
                "          \"replicas\": 4\n"
                "        }\n"
                "      ]\n"
                "    }\n"
                "  },\n"
                "  \"imex\": {},\n"
                "  \"health\": {\n"
                "    \"xids\": {},\n"
                "    \"recover\": true,\n"
                "    \"pendingRowRemap\": \"ignore\"\n"
                "  },\n"
                "  \"dra\": {\n"
                "    \"enabled\": false,\n"
                "    \"driverName\": \"gpu.warpshare.dev\",\n"
                "    \"devices\": \"all\",\n"
                "    \"whole\": true,\n"
                "    \"mps\": true,\n"
                "    \"timeSlicing\": false,\n"
                "    \"dynamicMig\": false,\n"
                "    \"slots\": 4,\n"
                "    \"defaults\": {\n"
                "      \"memory\": \"auto\",\n"
                "      \"threadPercentage\": 10,\n"
                "      \"clients\": 1\n"
                "    },\n"
                "    \"memoryReserve\": \"auto\",\n"
                "    \"hostOverhead\": {\n"
                "      \"gpu\": {},\n"
                "      \"mig\": {},\n"
                "      \"shared\": {}\n"
                "    },\n"
                "    \"daemonScope\": \"gpu\",\n"
                "    \"fallback\": \"whole\",\n"
                "    \"oneForm\": \"shared\",\n"
                "    \"shares\": 4,\n"
                "    \"unenforced\": \"refuse\",\n"
                "    \"unhealthy\": \"NoSchedule\"\n"
                "  },\n"
                "  \"mig\": {\n"
                "    \"manager\": false,\n"
                "    \"configFile\": \"\",\n"
                "    \"default\": \"\"\n"
                "  },\n"
                "  \"process\": {\n"
                "    \"configFile\": \"FILE\",\n"
                "    \"kubeletSocket\": \"/var/lib/kubelet/device-plugins/kubelet.sock\",\n"
                "    \"kubeletPluginsRegistry\": \"/var/lib/kubelet/plugins_registry\",\n"
                "    \"kubeletPlugins\": \"/var/lib/kubelet/plugins\",\n"
                "    \"draInstance\": \"\",\n"
                "    \"migStateDirectory\": \"/var/lib/warpshare/mig\",\n"
                "    \"migProgram\": \"\",\n"
                "    \"nvmlLibrary\": \"\",\n"
                "    \"systemRoot\": \"\",\n"
                "    \"cdiRoot\": \"/var/run/cdi\",\n"
                "    \"cdiFeatureFlags\": [],\n"
                "    \"cdiDisableHooks\": [],\n"
                "    \"metricsAddress\": \"\",\n"
                "    \"metricsDcgm\": false,\n"
                "    \"metricsTls\": false,\n"
                "    \"metricsTlsCertificate\": \"\",\n"
                "    \"metricsTlsKey\": \"\",\n"
                "    \"metricsAuthorization\": \"off\",\n"
                "    \"metricsNodePage\": \"local\",\n"
                "    \"metricsPodLabels\": [],\n"
                "    \"usageSeconds\": 5,\n"
                "    \"nodeName\": \"\",\n"
                "    \"kubeconfig\": \"\",\n"
                "    \"nodeCondition\": \"\",\n"
                "    \"nodeTaint\": \"\",\n"
                "    \"podName\": \"\",\n"
                "    \"configAnnotations\": true,\n"
                "    \"events\": \"pods\",\n"
                "    \"labelsOutput\": \"none\",\n"
                "    \"labelsFile\": \"/etc/kubernetes/node-feature-discovery/features.d/gfd\",\n"
                "    \"logLevel\": \"info\",\n"
                "    \"logFormat\": \"text\"\n"
                "  }\n"
                "}";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        _free_ char *text = NULL;

        assert_ok(build(&fixture, MPS("      rename: gpu.small\n"), mps_root), &fixture.err);
        text = config_print(fixture.config);
        replace_path(&fixture, text);
        assert_string_equal(text, expected);
}

/* NVIDIA's JSON has it first, and only where it is true. */
static void test_rename_by_default_is_printed_where_it_is_set(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"true", "\"timeSlicing\": {\n      \"renameByDefault\": true,\n      \"scope\""},
                {"false", "\"timeSlicing\": {\n      \"scope\""},
                {"false, failRequestsGreaterThanOne: false",
                        "\"timeSlicing\": {\n      \"failRequestsGreaterThanOne\": false,"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                _free_ char *text = xasprintf(
                        "sharing: {timeSlicing: {renameByDefault: %s, resources: [{name: gpu, replicas: 2}]}}",
                        table[i][0]);
                _free_ char *printed = NULL;

                assert_ok(build(&fixture, text, NULL), &fixture.err);
                printed = config_print(fixture.config);
                assert_non_null(strstr(printed, table[i][1]));
        }
}

static void test_the_config_is_printed_in_the_words_of_nvidias_program(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"flags: {migStrategy: single}",
                        "    \"mig\": [\n      {\n        \"pattern\": \"*\",\n        \"name\": \"nvidia.com/gpu\"\n"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: [0]}]}}",
                        "\"devices\": [\n            \"0\"\n"},
                {"flags: {nvidiaDriverRoot: '/<a>&b'}", "\"nvidiaDriverRoot\": \"/\\u003ca\\u003e\\u0026b\""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                _free_ char *printed = NULL;

                assert_ok(build(&fixture, table[i][0], NULL), &fixture.err);
                printed = config_print(fixture.config);
                assert_non_null(strstr(printed, table[i][1]));
        }
}

static void test_the_printed_config_is_a_config_again(void **state UNUSED)
{
        static const char everything[] =
                "flags:\n"
                "  migStrategy: mixed\n"
                "  failOnInitError: false\n"
                "  nvidiaDriverRoot: /d\n"
                "  gdsEnabled: true\n"
                "  useNodeFeatureAPI: true\n"
                "  deviceDiscoveryStrategy: nvml\n"
                "  plugin: {passDeviceSpecs: true, deviceListStrategy: [], deviceIDStrategy: index, nvidiaCTKPath: /h}\n"
                "resources: {gpus: [{pattern: A*, name: a}], mig: [{pattern: 1g.5gb, name: b}]}\n"
                "sharing:\n"
                "  timeSlicing:\n"
                "    renameByDefault: true\n"
                "    resources: [{name: gpu, devices: [1, '0:1', GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c], replicas: 2}]\n"
                "  mps:\n"
                "    provisioning: weighted\n"
                "    placement: packed\n"
                "    daemonScope: resource\n"
                "    memoryReserve: 1Gi\n"
                "    guard: terminate\n"
                "    tier: verified\n"
                "    resources:\n"
                "    - {name: gpu, devices: 1, replicas: 4}\n"
                "    - {name: a, rename: c, replicas: 1, placement: same-gpu}\n"
                "imex: {channelIDs: [0], required: true}\n"
                "health: {xids: {79: ignore, 43: unhealthy}, recover: false, pendingRowRemap: unhealthy}\n"
                "dra:\n"
                "  enabled: true\n"
                "  driverName: gpu.example.com\n"
                "  devices: [3, GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c]\n"
                "  whole: false\n"
                "  mps: false\n"
                "  timeSlicing: true\n"
                "  slots: 8\n"
                "  defaults: {memory: 4Gi, threadPercentage: 20, clients: 2}\n"
                "  memory: 64Gi\n"
                "  memoryReserve: 1Gi\n"
                "  fallback: shares\n"
                "  oneForm: whole\n"
                "  shares: 7\n"
                "  unenforced: condition\n";
        const char *const texts[] = {"", MPS("      rename: gpu.small\n    provisioning: weighted\n"),
                MPS("      sms: 8\n    provisioning: sm\n    scope: individual\n    maxPerRequest: 2\n"), everything};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                _free_ char *first = NULL;
                _free_ char *second = NULL;
                char *at;

                assert_ok(build(&fixture, texts[i], mps_root), &fixture.err);
                first = config_print(fixture.config);
                /* "timeSlicing": {} is how NVIDIA prints an absent section, and an error where it is read. */
                at = strstr(first, "\"timeSlicing\": {}");
                if (at)
                        memcpy(at, "\"timeSlicing\":~  ", strlen("\"timeSlicing\": {}"));
                assert_ok(build(&fixture, first, NULL), &fixture.err);
                if (at)
                        memcpy(at, "\"timeSlicing\": {}", strlen("\"timeSlicing\": {}"));
                second = config_print(fixture.config);
                assert_string_equal(second, first);
                at = strstr(fixture.warnings.data, "process: unknown key, ignored\n");
                assert_non_null(at);
                assert_string_equal(at, "process: unknown key, ignored\n"); /* the only one */
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_empty_file_means_the_defaults),
                cmocka_unit_test(test_flags_in_the_file_match_in_any_case),
                cmocka_unit_test(test_what_is_not_text_becomes_text_as_go_prints_it),
                cmocka_unit_test(test_device_lists_are_words_and_may_be_none),
                cmocka_unit_test(test_keys_that_make_root_can_be_kept_to_flags_and_variables),
                cmocka_unit_test(test_a_key_that_says_the_default_is_no_key_that_makes_root),
                cmocka_unit_test(test_flags_and_variables_alone_fill_what_the_file_cannot),
                cmocka_unit_test(test_patterns_are_kept_in_their_order),
                cmocka_unit_test(test_the_environment_beats_the_file),
                cmocka_unit_test(test_wrong_values_are_named_with_place_bound_and_way_out),
                cmocka_unit_test(test_what_is_ignored_is_warned_about),
                cmocka_unit_test(test_marks_of_the_node_are_checked_at_the_start),
                cmocka_unit_test(test_a_file_that_is_not_there_or_too_large_is_an_error),
                cmocka_unit_test(test_what_means_nothing_is_no_error),
                cmocka_unit_test(test_what_is_doubtful_is_refused_where_nvidias_program_reads_it),
                cmocka_unit_test(test_of_two_spellings_of_a_flag_that_of_the_schema_counts),
                cmocka_unit_test(test_the_effective_config_is_printed_as_json),
                cmocka_unit_test(test_rename_by_default_is_printed_where_it_is_set),
                cmocka_unit_test(test_the_config_is_printed_in_the_words_of_nvidias_program),
                cmocka_unit_test(test_the_printed_config_is_a_config_again),
        };

        return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
