#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "config/option.h"

/* The file is written anew by each build; its path, which is random, reads FILE in texts. */
struct fixture {
        char path[32];
        struct arena arena;
        struct strbuf warnings;
        struct error err;
        const struct config *config;
};

static struct fixture fixture_new(void)
{
        struct fixture fixture = {.path = "/tmp/warpshare-config-XXXXXX", .warnings = STRBUF_INIT};
        int fd = mkstemp(fixture.path);

        assert_true(fd >= 0);
        close(fd);
        return fixture;
}

static void fixture_done(struct fixture *fixture)
{
        unlink(fixture->path);
        arena_done(&fixture->arena);
        strbuf_done(&fixture->warnings);
}

static void replace_path(const struct fixture *fixture, char *text)
{
        char *at;

        while ((at = strstr(text, fixture->path))) {
                memcpy(at, "FILE", 4);
                memmove(at + 4, at + strlen(fixture->path), strlen(at + strlen(fixture->path)) + 1);
        }
}

static void collect(const char *text, void *data)
{
        struct fixture *fixture = data;
        _free_ char *line = xstrdup(text);

        replace_path(fixture, line);
        strbuf_printf(&fixture->warnings, "%s\n", line);
}

/* |environment| ends with NULL, or is NULL. */
static int build(struct fixture *fixture, const char *text, const char *const *environment)
{
        char *argv[] = {arena_strdup(&fixture->arena, "warpshare"),
                arena_printf(&fixture->arena, "--config-file=%s", fixture->path), NULL};
        char *variables[8] = {NULL};
        struct option_set set;
        int r;

        assert_ok(file_write(fixture->path, text, strlen(text), &fixture->err), &fixture->err);
        for (size_t i = 0; environment && environment[i]; i++)
                variables[i] = arena_strdup(&fixture->arena, environment[i]);
        assert_ok(option_set_parse(&set, &fixture->arena, 2, argv, variables, &fixture->err), &fixture->err);
        strbuf_clear(&fixture->warnings);
        r = config_build(&set, &fixture->arena, &fixture->config, collect, fixture, &fixture->err);
        if (r < 0)
                replace_path(fixture, fixture->err.text);
        return r;
}

static const char *const mps_root[] = {"MPS_ROOT=/run/nvidia/mps", NULL};

#define MPS(rest) "sharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n" rest

static void test_an_empty_file_means_the_defaults(void **state UNUSED)
{
        static const char *const texts[] = {
                "", "# nothing\n", "{}", "version: v1\n", "version: ''\n", "flags:\nsharing:\n"};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, texts[i], NULL), &fixture.err);
                assert_string_equal(fixture.config->path, fixture.path);
                assert_true(fixture.config->fail_on_init_error);
                assert_int_equal(fixture.config->mig_strategy, MIG_STRATEGY_NONE);
                assert_string_equal(fixture.config->driver_root, "/");
                assert_string_equal(fixture.config->driver_root_ctr, "/driver-root");
                assert_string_equal(fixture.config->mps_root, "");
                assert_string_equal(fixture.config->kubelet_socket, "/var/lib/kubelet/device-plugins/kubelet.sock");
                assert_string_equal(fixture.config->nvml_library, "");
                assert_string_equal(fixture.config->log_level, "info");
                assert_string_equal(fixture.config->log_format, "text");
                assert_int_equal(fixture.config->id_strategy, ID_STRATEGY_UUID);
                assert_int_equal(fixture.config->placement, PLACEMENT_DISTRIBUTED);
                assert_null(fixture.config->sharing.mps);
                assert_null(fixture.config->sharing.time_slicing);
                assert_string_equal(fixture.warnings.data, "");
        }
}

static void test_flags_in_the_file_match_in_any_case(void **state UNUSED)
{
        static const char text[] = "Version: v1\n"
                                   "FLAGS:\n"
                                   "  MigStrategy: none\n"
                                   "  failoniniterror: no\n"
                                   "  mpsRoot: 5\n"
                                   "  nvidiaDriverRoot: /run/nvidia/driver\n"
                                   "  plugin:\n"
                                   "    deviceListStrategy: [envvar, envvar]\n"
                                   "    deviceidstrategy: index\n"
                                   "    containerDriverRoot: /host\n"
                                   "    sharedDevicesAllocationPolicy: packed\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, text, NULL), &fixture.err);
        assert_false(fixture.config->fail_on_init_error);
        assert_string_equal(fixture.config->mps_root, "5"); /* a number where text is wanted becomes text */
        assert_string_equal(fixture.config->driver_root, "/run/nvidia/driver");
        assert_string_equal(fixture.config->driver_root_ctr, "/host");
        assert_int_equal(fixture.config->id_strategy, ID_STRATEGY_INDEX);
        assert_int_equal(fixture.config->placement, PLACEMENT_PACKED);
        assert_string_equal(fixture.warnings.data, "");
}

static void test_the_environment_beats_the_file(void **state UNUSED)
{
        static const char *const environment[] = {
                "NVIDIA_DRIVER_ROOT=", "DEVICE_ID_STRATEGY=uuid", "MIG_STRATEGY=none", "DEVICE_LIST_STRATEGY=", NULL};
        static const char text[] = "flags:\n"
                                   "  migStrategy: mixed\n" /* wrong, but does not count */
                                   "  nvidiaDriverRoot: /run/nvidia/driver\n"
                                   "  plugin: {deviceIDStrategy: index, deviceListStrategy: envvar}\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, text, environment), &fixture.err);
        assert_string_equal(fixture.config->driver_root, "");
        assert_int_equal(fixture.config->id_strategy, ID_STRATEGY_UUID);
}

static void test_sharing_is_decoded(void **state UNUSED)
{
        static const struct {
                const char *text;
                enum sharing_strategy strategy;
                bool fail;
                enum provisioning provisioning;
                const char *rename;
                unsigned int replicas;
                int line;
        } table[] = {
                {"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}", SHARING_TIME_SLICING,
                        false, PROVISIONING_UNIFORM, NULL, 10, 1},
                {"sharing:\n  timeslicing:\n    failRequestsGreaterThanOne: true\n    renameByDefault: true\n"
                 "    resources:\n    - name: gpu\n      replicas: 2\n",
                        SHARING_TIME_SLICING, true, PROVISIONING_UNIFORM, "nvidia.com/gpu.shared", 2, 7},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1000}]}, mps: null}", SHARING_TIME_SLICING,
                        false, PROVISIONING_UNIFORM, NULL, 1000, 1},
                {MPS(""), SHARING_MPS, true, PROVISIONING_UNIFORM, NULL, 4, 5},
                {MPS("    failRequestsGreaterThanOne: false\n"), SHARING_MPS, false, PROVISIONING_UNIFORM, NULL, 4, 5},
                {MPS("      rename: gpu.small\n"), SHARING_MPS, true, PROVISIONING_UNIFORM, "nvidia.com/gpu.small", 4,
                        5},
                {MPS("      rename: gpu.small\n    renameByDefault: yes\n"), SHARING_MPS, true, PROVISIONING_UNIFORM,
                        "nvidia.com/gpu.small", 4, 5},
                {MPS("    provisioning: uniform\n"), SHARING_MPS, true, PROVISIONING_UNIFORM, NULL, 4, 5},
                {MPS("    provisioning: half\n"), SHARING_MPS, false, PROVISIONING_HALF, NULL, 4, 5},
                {MPS("    provisioning: weighted\n"), SHARING_MPS, false, PROVISIONING_WEIGHTED, NULL, 4, 5},
                {MPS("    provisioning: weighted\n    failRequestsGreaterThanOne: true\n"), SHARING_MPS, true,
                        PROVISIONING_WEIGHTED, NULL, 4, 5},
                {"sharing: {mps: {resources: [{name: gpu, replicas: 1, devices: all}]}}", SHARING_MPS, true,
                        PROVISIONING_UNIFORM, NULL, 1, 1},
                {"sharing: {}", SHARING_NONE, false, PROVISIONING_UNIFORM, NULL, 0, 0},
                {"sharing: {timeSlicing: null}", SHARING_NONE, false, PROVISIONING_UNIFORM, NULL, 0, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const struct sharing_section *sharing;

                assert_ok(build(&fixture, table[i].text, mps_root), &fixture.err);
                assert_string_equal(fixture.warnings.data, "");
                sharing = fixture.config->sharing.mps ? fixture.config->sharing.mps
                                                      : fixture.config->sharing.time_slicing;
                if (table[i].strategy == SHARING_NONE) {
                        assert_null(sharing);
                        continue;
                }
                assert_non_null(sharing);
                assert_int_equal(sharing->strategy, table[i].strategy);
                assert_int_equal(sharing->fail_requests_greater_than_one, table[i].fail);
                assert_int_equal(sharing->provisioning, table[i].provisioning);
                assert_int_equal(sharing->n_resources, 1);
                assert_string_equal(sharing->resources[0].name, "nvidia.com/gpu");
                assert_int_equal(sharing->resources[0].replicas, table[i].replicas);
                assert_int_equal(sharing->resources[0].line, table[i].line);
                assert_string_equal(sharing->resources[0].rename ? sharing->resources[0].rename : "(none)",
                        table[i].rename ? table[i].rename : "(none)");
        }
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
                {"flags:\n  migStrategy: mixed\n", ERROR_UNSUPPORTED,
                        "config 'FILE' line 2: flags.migStrategy: 'mixed' is not supported by this version, use none"},
                {"flags:\n  plugin:\n    deviceListStrategy: cdi-cri\n", ERROR_UNSUPPORTED,
                        "config 'FILE' line 3: flags.plugin.deviceListStrategy: 'cdi-cri' is not supported by this version, use "
                        "envvar"},
                {"flags:\n  plugin:\n    deviceListStrategy:\n    - envvar\n    - volume-mounts\n", ERROR_UNSUPPORTED,
                        "config 'FILE' line 5: flags.plugin.deviceListStrategy[1]: 'volume-mounts' is not supported by this "
                        "version, use envvar"},
                {"flags: {plugin: {deviceListStrategy: 'envvar,cdi-cri'}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.plugin.deviceListStrategy: 'envvar,cdi-cri', must be one word, or a list: "
                        "[envvar]"},
                {"flags: {plugin: {deviceListStrategy: []}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.plugin.deviceListStrategy: [], must have at least one word, for example "
                        "[envvar]"},
                {"flags: {plugin: {sharedDevicesAllocationPolicy: pakced}}\n", ERROR_INVALID,
                        "config 'FILE' line 1: flags.plugin.sharedDevicesAllocationPolicy: 'pakced' is not a known value, use "
                        "distributed or packed"},
                {"resources: 1\n", ERROR_INVALID, "config 'FILE' line 1: resources: 1, must be a mapping"},
                {"imex: 1\n", ERROR_INVALID, "config 'FILE' line 1: imex: 1, must be a mapping"},
                {"sharing: 1\n", ERROR_INVALID, "config 'FILE' line 1: sharing: 1, must be a mapping"},
                {"sharing:\n  mps: yes\n", ERROR_INVALID, "config 'FILE' line 2: sharing.mps: true, must be a mapping"},
                {"sharing:\n  timeSlicing: {}\n", ERROR_INVALID,
                        "config 'FILE' line 2: sharing.timeSlicing: resources is missing; list what to share, for example {name: "
                        "nvidia.com/gpu, replicas: 4}, or remove the section"},
                {"sharing:\n  mps:\n    resources: []\n", ERROR_INVALID,
                        "config 'FILE' line 3: sharing.mps.resources: empty; list what to share, for example {name: "
                        "nvidia.com/gpu, replicas: 4}, or remove the section"},
                {"sharing:\n  mps:\n    resources: gpu\n", ERROR_INVALID,
                        "config 'FILE' line 3: sharing.mps.resources: \"gpu\", must be a list"},
                {"sharing:\n  mps:\n    resources:\n    - gpu\n", ERROR_INVALID,
                        "config 'FILE' line 4: sharing.mps.resources[0]: \"gpu\", must be a mapping"},
                {"sharing:\n  mps:\n    resources:\n    - replicas: 2\n", ERROR_INVALID,
                        "config 'FILE' line 4: sharing.mps.resources[0]: name is missing, for example nvidia.com/gpu"},
                {"sharing:\n  mps:\n    resources:\n    - name: gpu\n", ERROR_INVALID,
                        "config 'FILE' line 4: sharing.mps.resources[0]: replicas is missing: into how many parts to share each "
                        "GPU"},
                {"sharing:\n  mps:\n    resources:\n    - name: gpu\n      replicas: 0\n", ERROR_INVALID,
                        "config 'FILE' line 5: sharing.mps.resources[0].replicas: 0, must be from 1 to 1000"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1001}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: 1001, must be from 1 to 1000"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: -1}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: -1, must be from 1 to 1000"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: '4'}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: \"4\", must be a whole number"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4.0}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: 4.0, must be a whole number"},
                {MPS("    provisioning: sm\n"), ERROR_UNSUPPORTED,
                        "config 'FILE' line 6: sharing.mps.provisioning: 'sm' is not supported by this version, use uniform, half "
                        "or weighted"},
                {MPS("    provisioning: fair\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.provisioning: 'fair' is not a known value, use uniform, half or "
                        "weighted"},
                {MPS("    renameByDefault: 1\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.renameByDefault: 1, must be true or false"},
                {MPS("      rename: GPU\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.resources[0].rename: 'GPU' is not a resource name: use lower-case "
                        "letters, digits, '-' and '.', a letter or digit first and last"},
                {MPS("    - name: gpu\n      replicas: 2\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.resources[1]: 'nvidia.com/gpu' is shared already by the entry at line "
                        "5"},
                {MPS("    - name: mig-1g.10gb\n      rename: gpu\n      replicas: 2\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.resources[1]: 'nvidia.com/gpu' is advertised already by the entry at "
                        "line 5"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_fails(build(&fixture, table[i].text, mps_root), &fixture.err, table[i].kind, table[i].expected);
        }
}

static void test_what_is_ignored_is_warned_about(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"flag: {}\n", "config 'FILE' line 1: flag: unknown key, ignored; did you mean 'flags'?\n"},
                {"something: 1\n", "config 'FILE' line 1: something: unknown key, ignored\n"},
                {"flags:\n  plugin:\n    deviceIdStrategies: uuid\n",
                        "config 'FILE' line 3: flags.plugin.deviceIdStrategies: unknown key, ignored; did you mean "
                        "'deviceIDStrategy'?\n"},
                {"flags: {gdsEnabled: true, mofedEnabled: false, gfd: {oneshot: true}, deviceDiscoveryStrategy: tegra}\n",
                        "config 'FILE' line 1: flags.gdsEnabled: true is not supported by this version and ignored\n"
                        "config 'FILE' line 1: flags.deviceDiscoveryStrategy: \"tegra\" is not supported by this version and "
                        "ignored\n"},
                {"flags: {deviceDiscoveryStrategy: nvml, plugin: {passDeviceSpecs: false, nvidiaCTKPath: /x}}\n", ""},
                {"resources: {gpus: [{pattern: '*', name: x}], mig: []}\n",
                        "config 'FILE' line 1: resources.gpus: [{\"pattern\":\"*\",\"name\":\"x\"}] is not supported by this "
                        "version and ignored\n"},
                {"imex: {channelIDs: [0], required: false}\n",
                        "config 'FILE' line 1: imex.channelIDs: [0] is not supported by this version and ignored\n"},
                {"imex: {channelIDs: null}\n", ""},
                {MPS("    Provisioning: half\n"),
                        "config 'FILE' line 6: sharing.mps.Provisioning: unknown key, ignored; did you mean 'provisioning'?\n"},
                {MPS("      devices: [0, 'GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c']\n"),
                        "config 'FILE' line 6: sharing.mps.resources[0].devices: "
                        "[0,\"GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c\"] is ignored: this version shares all GPUs of the node "
                        "alike\n"},
                {MPS("      replica: 5\n"),
                        "config 'FILE' line 6: sharing.mps.resources[0].replica: unknown key, ignored; did you mean "
                        "'replicas'?\n"},
                {"sharing:\n  timeSlicing:\n    provisioning: half\n    resources: [{name: gpu, replicas: 2}]\n",
                        "config 'FILE' line 3: sharing.timeSlicing.provisioning: unknown key, ignored\n"},
                {MPS("  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n"),
                        "config 'FILE' line 6: sharing.timeSlicing: ignored, since sharing.mps (line 2) is there too\n"},
                {"a: 1\na: 2\n", "config 'FILE' line 2: key 'a' is there already (line 1); the last one counts\n"
                                 "config 'FILE' line 2: a: unknown key, ignored\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, table[i][0], mps_root), &fixture.err);
                assert_string_equal(fixture.warnings.data, table[i][1]);
        }
}

static void test_both_sections_mean_mps(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, MPS("  timeSlicing: {resources: [{name: gpu, replicas: 2}]}\n"), mps_root),
                &fixture.err);
        assert_non_null(fixture.config->sharing.mps);
        assert_int_equal(fixture.config->sharing.mps->resources[0].replicas, 4);
}

static void test_mps_needs_its_directory(void **state UNUSED)
{
        static const char *const empty[] = {"MPS_ROOT=", NULL};
        static const char text[] =
                "config 'FILE' line 2: sharing.mps: needs the directory of MPS on the host, and none is set: "
                "use --mps-root, MPS_ROOT or flags.mpsRoot, for example /run/nvidia/mps";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_fails(build(&fixture, MPS(""), NULL), &fixture.err, ERROR_INVALID, text);
        assert_fails(
                build(&fixture, MPS("flags: {mpsRoot: /run/nvidia/mps}\n"), empty), &fixture.err, ERROR_INVALID, text);
        assert_ok(build(&fixture, MPS("flags: {mpsRoot: /run/nvidia/mps}\n"), NULL), &fixture.err);
        assert_string_equal(fixture.config->mps_root, "/run/nvidia/mps");
}

static void test_a_file_that_is_not_there_or_too_large_is_an_error(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        _free_ char *large = xcalloc(1, CONFIG_FILE_LIMIT + 2);
        char *const argv[] = {large, arena_strdup(&fixture.arena, "--config-file=/nonexistent/c.yaml"), NULL};
        char *const environment[] = {NULL};
        struct option_set set;

        assert_ok(option_set_parse(&set, &fixture.arena, 2, argv, environment, &fixture.err), &fixture.err);
        assert_fails(config_build(&set, &fixture.arena, &fixture.config, NULL, NULL, &fixture.err), &fixture.err,
                ERROR_NOT_FOUND, "config: open '/nonexistent/c.yaml': No such file or directory");
        memset(large, '#', CONFIG_FILE_LIMIT + 1);
        assert_fails(build(&fixture, large, NULL), &fixture.err, ERROR_INVALID,
                "config: 'FILE' is larger than the limit of 1048576 bytes");
}

static void test_the_effective_config_is_printed_as_json(void **state UNUSED)
{
        static const char expected[] = "{\n"
                                       "  \"version\": \"v1\",\n"
                                       "  \"flags\": {\n"
                                       "    \"migStrategy\": \"none\",\n"
                                       "    \"failOnInitError\": true,\n"
                                       "    \"mpsRoot\": \"/run/nvidia/mps\",\n"
                                       "    \"nvidiaDriverRoot\": \"/\",\n"
                                       "    \"plugin\": {\n"
                                       "      \"deviceListStrategy\": [\n"
                                       "        \"envvar\"\n"
                                       "      ],\n"
                                       "      \"deviceIDStrategy\": \"uuid\",\n"
                                       "      \"containerDriverRoot\": \"/driver-root\",\n"
                                       "      \"sharedDevicesAllocationPolicy\": \"distributed\"\n"
                                       "    }\n"
                                       "  },\n"
                                       "  \"sharing\": {\n"
                                       "    \"timeSlicing\": {},\n"
                                       "    \"mps\": {\n"
                                       "      \"failRequestsGreaterThanOne\": true,\n"
                                       "      \"provisioning\": \"uniform\",\n"
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
                                       "  \"process\": {\n"
                                       "    \"configFile\": \"FILE\",\n"
                                       "    \"kubeletSocket\": \"/var/lib/kubelet/device-plugins/kubelet.sock\",\n"
                                       "    \"nvmlLibrary\": \"\",\n"
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

static void test_the_printed_config_is_a_config_again(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        _free_ char *first = NULL;
        _free_ char *second = NULL;
        char *at;

        assert_ok(
                build(&fixture, MPS("      rename: gpu.small\n    provisioning: weighted\n"), mps_root), &fixture.err);
        first = config_print(fixture.config);
        /* "timeSlicing": {} is how NVIDIA prints an absent section, and an error where it is read. */
        at = strstr(first, "\"timeSlicing\": {}");
        assert_non_null(at);
        memcpy(at, "\"timeSlicing\":~  ", strlen("\"timeSlicing\": {}"));
        assert_ok(build(&fixture, first, NULL), &fixture.err);
        memcpy(at, "\"timeSlicing\": {}", strlen("\"timeSlicing\": {}"));
        second = config_print(fixture.config);
        assert_string_equal(second, first);
        assert_string_equal(fixture.warnings.data, "config 'FILE' line 32: process: unknown key, ignored\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_empty_file_means_the_defaults),
                cmocka_unit_test(test_flags_in_the_file_match_in_any_case),
                cmocka_unit_test(test_the_environment_beats_the_file),
                cmocka_unit_test(test_sharing_is_decoded),
                cmocka_unit_test(test_wrong_values_are_named_with_place_bound_and_way_out),
                cmocka_unit_test(test_what_is_ignored_is_warned_about),
                cmocka_unit_test(test_both_sections_mean_mps),
                cmocka_unit_test(test_mps_needs_its_directory),
                cmocka_unit_test(test_a_file_that_is_not_there_or_too_large_is_an_error),
                cmocka_unit_test(test_the_effective_config_is_printed_as_json),
                cmocka_unit_test(test_the_printed_config_is_a_config_again),
        };

        return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
