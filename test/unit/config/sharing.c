// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include "config/word.h"

#define UUID "4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
#define OTHER_UUID "8ed9db5c-0f3a-4a3c-9a4b-0123456789ab"
#define NAME_OF_50 "gpu-with-a-long-name-that-leaves-no-room-for-more-"

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
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 50000}]}, mps: null}", SHARING_TIME_SLICING,
                        false, PROVISIONING_UNIFORM, NULL, 50000, 1},
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

static void test_devices_are_all_a_number_or_a_list(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *expected; /* "all", "3", or "<uuid or indices>@<line> …" */
        } table[] = {
                {"all", "all"}, {"null", "all"}, {"3", "count 3"}, {"512", "count 512"}, {"[0]", "0@1"},
                {"['0', 2, \"0:1\", '511']", "0@1 2@1 0:1@1 511@1"},
                {"[GPU-" UUID ", MIG-" OTHER_UUID "]", "GPU-" UUID "@1 MIG-" OTHER_UUID "@1"},
                {"[\"MIG-GPU-" UUID "/10/0\"]", "MIG-GPU-" UUID "/10/0@1"},
                {"[GPU-4CF8DB2D-06C0-7D70-1A51-E59B25B2C16C]", "GPU-" UUID "@1"},
                {"['GPU-{4cf8db2d-06c0-7d70-1a51-e59b25b2c16c}']", "GPU-" UUID "@1"},
                {"[GPU-4cf8db2d06c07d701a51e59b25b2c16c]", "GPU-" UUID "@1"},
                {"['MIG-urn:uuid:4cf8db2d-06c0-7d70-1a51-e59b25b2c16c']", "MIG-" UUID "@1"},
                {"[\n1,\n0:0]", "1@2 0:0@3"}, /* no sexagesimal number of YAML 1.1, as with go-yaml */
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                _cleanup_(strbuf_done) struct strbuf found = STRBUF_INIT;
                const struct device_selector *devices;
                const char *text = arena_printf(&fixture.arena,
                        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: %s}]}}\n",
                        table[i].text);

                assert_ok(build(&fixture, text, NULL), &fixture.err);
                devices = &fixture.config->sharing.time_slicing->resources[0].devices;
                if (devices->kind == SELECT_ALL)
                        strbuf_puts(&found, "all");
                else if (devices->kind == SELECT_COUNT)
                        strbuf_printf(&found, "count %u", devices->count);
                for (size_t j = 0; j < devices->n_refs; j++) {
                        const struct device_ref *ref = &devices->refs[j];

                        strbuf_puts(&found, j == 0 ? "" : " ");
                        if (ref->uuid)
                                strbuf_puts(&found, ref->uuid);
                        else if (ref->mig < 0)
                                strbuf_printf(&found, "%u", ref->gpu);
                        else
                                strbuf_printf(&found, "%u:%d", ref->gpu, ref->mig);
                        strbuf_printf(&found, "@%d", ref->line);
                }
                assert_string_equal(found.data, table[i].expected);
                assert_string_equal(fixture.warnings.data, "");
        }
}

static void test_what_is_no_device_is_refused(void **state UNUSED)
{
#define NO_DEVICE                                                                                                      \
        " is not a device, use the index of a GPU (0), of a MIG device (\"0:1\"), or a UUID as nvidia-smi -L shows it"
        static const char *const table[][2] = {
                {"some", ": \"some\", must be all, a number of devices, or a list of them"},
                {"ALL", ": \"ALL\", must be all, a number of devices, or a list of them"},
                {"true", ": true, must be all, a number of devices, or a list of them"},
                {"2.5", ": 2.5, must be all, a number of devices, or a list of them"},
                {"{}", ": {}, must be all, a number of devices, or a list of them"},
                {"0", ": 0, must be from 1 to 512"},
                {"-1", ": -1, must be from 1 to 512"},
                {"513", ": 513, must be from 1 to 512"},
                {"[]", ": [], must have at least one device; leave the key out for all"},
                {"[-1]", "[0]: -1, must be from 0 to 511"},
                {"[512]", "[0]: 512, must be from 0 to 511"},
                {"[0, 1.5]", "[1]: 1.5" NO_DEVICE},
                {"[all]", "[0]: \"all\"" NO_DEVICE},
                {"['']", "[0]: \"\"" NO_DEVICE},
                {"['-1']", "[0]: \"-1\"" NO_DEVICE},
                {"['512']", "[0]: \"512\"" NO_DEVICE},
                {"['0:']", "[0]: \"0:\"" NO_DEVICE},
                {"[':1']", "[0]: \":1\"" NO_DEVICE},
                {"['0:1:2']", "[0]: \"0:1:2\"" NO_DEVICE},
                {"[invalid-UUID]", "[0]: \"invalid-UUID\"" NO_DEVICE},
                {"[GPU-UUID]", "[0]: \"GPU-UUID\"" NO_DEVICE},
                {"[MIG-UUID]", "[0]: \"MIG-UUID\"" NO_DEVICE},
                {"[" UUID "]", "[0]: \"" UUID "\"" NO_DEVICE},
                {"[GPU-" UUID "0]", "[0]: \"GPU-" UUID "0\"" NO_DEVICE},
                {"[MIG-GPU-" UUID "]", "[0]: \"MIG-GPU-" UUID "\"" NO_DEVICE},
                {"[MIG-GPU-" UUID "/1]", "[0]: \"MIG-GPU-" UUID "/1\"" NO_DEVICE},
                {"[MIG-GPU-" UUID "/1/x]", "[0]: \"MIG-GPU-" UUID "/1/x\"" NO_DEVICE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const char *text = arena_printf(&fixture.arena,
                        "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: %s}]}}\n", table[i][0]);
                const char *expected = arena_printf(&fixture.arena,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].devices%s", table[i][1]);

                assert_fails(build(&fixture, text, NULL), &fixture.err, ERROR_INVALID, expected);
        }
}

static void test_placement_is_that_of_the_entry_or_of_the_section(void **state UNUSED)
{
        static const char text[] = "sharing:\n"
                                   "  timeSlicing:\n"
                                   "    placement: packed\n"
                                   "    resources:\n"
                                   "    - {name: gpu, replicas: 2}\n"
                                   "    - {name: mig-1g.10gb, replicas: 2, placement: same-gpu}\n"
                                   "    - {name: mig-2g.20gb, replicas: 2, placement: distributed}\n"
                                   "  mps:\n"
                                   "    resources:\n"
                                   "    - {name: mig-3g.40gb, replicas: 2}\n"
                                   "    - {name: mig-4g.40gb, replicas: 2, placement: distinct}\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct shared_resource *slicing;
        const struct shared_resource *mps;

        assert_ok(build(&fixture, text, mps_root), &fixture.err);
        slicing = fixture.config->sharing.time_slicing->resources;
        mps = fixture.config->sharing.mps->resources;
        assert_true(slicing[0].has_placement);
        assert_int_equal(slicing[0].placement, PLACEMENT_PACKED);
        assert_int_equal(slicing[1].placement, PLACEMENT_SAME_GPU);
        assert_true(slicing[2].has_placement);
        assert_int_equal(slicing[2].placement, PLACEMENT_DISTRIBUTED);
        assert_false(mps[0].has_placement);
        assert_int_equal(mps[1].placement, PLACEMENT_DISTINCT);
        assert_string_equal(fixture.warnings.data, "");
}

static void test_a_section_of_mps_says_how_its_daemons_are(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *expected; /* scope, daemon scope, guard, tier, reserve, largest request, SMs */
        } table[] = {
                {"", "aggregate gpu report namespace auto 0 0"},
                {"    scope: individual\n    guard: off\n    tier: auto\n    memoryReserve: auto\n",
                        "individual node off namespace auto 0 0"},
                {"    daemonScope: resource\n    guard: terminate\n    tier: namespace\n",
                        "aggregate resource terminate namespace auto 0 0"},
                {"    tier: default\n    guard: 'off'\n", "aggregate gpu off default auto 0 0"},
                {"    provisioning: half\n    tier: verified\n    memoryReserve: 0\n",
                        "aggregate gpu report verified 0 0 0"},
                {"    provisioning: weighted\n    memoryReserve: 300\n    maxPerRequest: 1\n",
                        "aggregate gpu report namespace 300 1 0"},
                {"    provisioning: weighted\n    memoryReserve: '300'\n    maxPerRequest: 4\n",
                        "aggregate gpu report namespace 300 4 0"},
                {"    provisioning: weighted\n    memoryReserve: 512MiB\n", "aggregate gpu report namespace 512 0 0"},
                {"    provisioning: weighted\n    memoryReserve: 512Mi\n", "aggregate gpu report namespace 512 0 0"},
                {"    provisioning: weighted\n    memoryReserve: 2GiB\n", "aggregate gpu report namespace 2048 0 0"},
                {"    provisioning: weighted\n    memoryReserve: 1024Gi\n",
                        "aggregate gpu report namespace 1048576 0 0"},
                {"      sms: 16\n    provisioning: sm\n    tier: partition\n",
                        "aggregate gpu report partition auto 0 16"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const struct sharing_section *mps;
                const char *reserve;

                assert_ok(build(&fixture, arena_printf(&fixture.arena, MPS("%s"), table[i].text), mps_root),
                        &fixture.err);
                assert_string_equal(fixture.warnings.data, "");
                mps = fixture.config->sharing.mps;
                reserve = mps->has_memory_reserve
                                  ? arena_printf(&fixture.arena, "%llu", (unsigned long long)mps->memory_reserve_mib)
                                  : "auto";
                assert_string_equal(
                        arena_printf(&fixture.arena, "%s %s %s %s %s %u %u", sharing_scope_words[mps->scope],
                                daemon_scope_name(mps->daemon_scope), guard_mode_words[mps->guard],
                                mps_tier_name(mps->tier_limit), reserve, mps->max_per_request, mps->resources[0].sms),
                        table[i].expected);
        }
}

/* ---- what a daemon for each unit means ---- */

/* As build(), under the name of a program of NVIDIA's. */
static int build_drop_in(struct fixture *fixture, const char *text)
{
        const char *const arguments[] = {arena_printf(&fixture->arena, "--config-file=%s", fixture->path), NULL};
        struct option_set set;

        assert_ok(file_write(fixture->path, text, strlen(text), &fixture->err), &fixture->err);
        options_take(&set, &fixture->arena, arguments, mps_root);
        set.drop_in = true;
        return config_build(&set, &fixture->arena, &fixture->config, collect, fixture, &fixture->err);
}

static void test_under_a_name_of_nvidias_a_daemon_serves_a_resource(void **state UNUSED)
{
        static const struct {
                const char *text;
                enum daemon_scope scope;
        } table[] = {
                {MPS(""), DAEMON_SCOPE_RESOURCE},
                {MPS("    provisioning: weighted\n    placement: packed\n"), DAEMON_SCOPE_RESOURCE},
                {MPS("    daemonScope: gpu\n"), DAEMON_SCOPE_GPU},
                {MPS("    provisioning: sm\n"), DAEMON_SCOPE_GPU},
                {MPS("    scope: individual\n"), DAEMON_SCOPE_RESOURCE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build_drop_in(&fixture, table[i].text), &fixture.err);
                assert_int_equal(fixture.config->sharing.mps->daemon_scope, table[i].scope);
                assert_ok(build(&fixture, MPS(""), mps_root), &fixture.err);
                assert_int_equal(fixture.config->sharing.mps->daemon_scope, DAEMON_SCOPE_GPU);
        }
}

static void test_with_a_resource_for_each_unit_one_daemon_serves_the_node(void **state UNUSED)
{
        static const struct {
                const char *text;
                enum daemon_scope scope;
        } table[] = {
                {MPS("    scope: individual\n"), DAEMON_SCOPE_NODE},
                {MPS("    scope: individual\n    provisioning: weighted\n    maxPerRequest: 2\n"), DAEMON_SCOPE_NODE},
                {MPS("    scope: individual\n    daemonScope: gpu\n"), DAEMON_SCOPE_GPU},
                {MPS("    scope: individual\n    provisioning: sm\n"), DAEMON_SCOPE_GPU},
                {MPS("    daemonScope: node\n"), DAEMON_SCOPE_NODE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, table[i].text, mps_root), &fixture.err);
                assert_int_equal(fixture.config->sharing.mps->daemon_scope, table[i].scope);
        }
}

static void test_where_a_container_cannot_have_several_units_they_are_not_offered(void **state UNUSED)
{
        static const struct {
                const char *text;
                bool has_placement;
                enum placement placement;
        } table[] = {
                {MPS("    provisioning: weighted\n"), true, PLACEMENT_SAME_GPU},
                {MPS("    failRequestsGreaterThanOne: false\n"), true, PLACEMENT_SAME_GPU},
                {MPS("    provisioning: weighted\n    placement: same-gpu\n"), true, PLACEMENT_SAME_GPU},
                {MPS("    provisioning: half\n    scope: individual\n"), true, PLACEMENT_SAME_GPU},
                {MPS("    provisioning: half\n    scope: individual\n    placement: packed\n"), true, PLACEMENT_PACKED},
                /* A request is one replica. */
                {MPS(""), false, PLACEMENT_DISTRIBUTED},
                {MPS("      placement: distinct\n"), true, PLACEMENT_DISTINCT},
                {MPS("    provisioning: weighted\n    placement: packed\n    failRequestsGreaterThanOne: true\n"), true,
                        PLACEMENT_PACKED},
                /* A container may have several. */
                {MPS("    provisioning: weighted\n    daemonScope: resource\n"), false, PLACEMENT_DISTRIBUTED},
                {MPS("    provisioning: weighted\n    daemonScope: resource\n    placement: prefer-same-gpu\n"), true,
                        PLACEMENT_PREFER_SAME_GPU},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const struct shared_resource *resource;

                assert_ok(build(&fixture, table[i].text, mps_root), &fixture.err);
                resource = fixture.config->sharing.mps->resources;
                assert_int_equal(resource->has_placement, table[i].has_placement);
                assert_int_equal(resource->placement, table[i].placement);
                assert_string_equal(fixture.warnings.data, "");
        }
}

static void test_a_container_may_declare_up_to_the_ceilings(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct sharing_section *mps;

        assert_ok(
                build(&fixture,
                        MPS("    provisioning: declared\n    maxThreads: 50\n    maxMemory: 10Gi\n    declaredOvercommit: false\n"),
                        mps_root),
                &fixture.err);
        mps = fixture.config->sharing.mps;
        assert_int_equal(mps->provisioning, PROVISIONING_DECLARED);
        assert_int_equal(mps->max_threads, 50);
        assert_int_equal(mps->max_memory_mib, 10240);
        assert_true(mps->refuses_overcommit);
        assert_true(config_adds_cdi(fixture.config));
        assert_false(mps->fail_requests_greater_than_one);
}

static void test_without_ceilings_a_container_may_declare_all(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct sharing_section *mps;

        assert_ok(build(&fixture, MPS("    provisioning: declared\n    maxMemory: auto\n"), mps_root), &fixture.err);
        mps = fixture.config->sharing.mps;
        assert_int_equal(mps->max_threads, 0);
        assert_int_equal(mps->max_memory_mib, 0);
        assert_false(mps->refuses_overcommit);
}

#define WEIGHTED "    provisioning: weighted\n"
#define NOT_SEVERAL(way_out)                                                                                           \
        "but with daemonScope gpu a container cannot have replicas of several units: " way_out                         \
        ", or set daemonScope: resource, or failRequestsGreaterThanOne: true"

static void test_keys_of_a_section_that_exclude_each_other_are_named(void **state UNUSED)
{
        static const char *const table[][2] = {
                {MPS(WEIGHTED "    placement: distributed\n"),
                        "config 'FILE' line 7: sharing.mps.placement: distributed, " NOT_SEVERAL("use same-gpu")},
                {MPS("      placement: packed\n" WEIGHTED),
                        "config 'FILE' line 6: sharing.mps.resources[0].placement: packed, " NOT_SEVERAL(
                                "use same-gpu")},
                {MPS("    failRequestsGreaterThanOne: false\n    placement: distinct\n"),
                        "config 'FILE' line 7: sharing.mps.placement: distinct, " NOT_SEVERAL("use same-gpu")},
                {MPS(WEIGHTED "    placement: prefer-same-gpu\n"),
                        "config 'FILE' line 7: sharing.mps.placement: prefer-same-gpu, " NOT_SEVERAL("use same-gpu")},
                {MPS(WEIGHTED "flags: {plugin: {sharedDevicesAllocationPolicy: distributed}}\n"),
                        "config 'FILE' line 2: sharing.mps: sharedDevicesAllocationPolicy is distributed, " NOT_SEVERAL(
                                "set placement: same-gpu here")},
                {MPS(WEIGHTED "    maxThreads: 50\n"),
                        "config 'FILE' line 7: sharing.mps.maxThreads: only with provisioning declared: set "
                        "sharing.mps.provisioning: declared, or remove it"},
                {MPS("    declaredOvercommit: true\n"),
                        "config 'FILE' line 6: sharing.mps.declaredOvercommit: only with provisioning declared: set "
                        "sharing.mps.provisioning: declared, or remove it"},
                {MPS("    provisioning: declared\n    maxMemory: 0\n"),
                        "config 'FILE' line 7: sharing.mps.maxMemory: 0, at least 1 MiB: leave it out where there is to be no ceiling"},
                {MPS("    provisioning: declared\n    maxThreads: 101\n"),
                        "config 'FILE' line 7: sharing.mps.maxThreads: 101, must be from 1 to 100"},
                {MPS("    maxPerRequest: 2\n"),
                        "config 'FILE' line 6: sharing.mps.maxPerRequest: 2, but failRequestsGreaterThanOne is true, so a request "
                        "is one replica: set that to false, or remove this"},
                {MPS(WEIGHTED "    maxPerRequest: 5\n"),
                        "config 'FILE' line 7: sharing.mps.maxPerRequest: 5, at most 4, the replicas of one unit: a request has "
                        "to fit on one"},
                {MPS(WEIGHTED "    maxPerRequest: 0\n"),
                        "config 'FILE' line 7: sharing.mps.maxPerRequest: 0, must be from 1 to 50000"},
                {MPS(WEIGHTED "    maxPerRequest: 2\n    daemonScope: resource\n"),
                        "config 'FILE' line 7: sharing.mps.maxPerRequest: 2, only with placement same-gpu, which "
                        "sharing.mps.resources[0] (line 4) does not have: set it there or for the section, or remove this"},
                {"sharing:\n  timeSlicing:\n    maxPerRequest: 2\n    resources:\n    - {name: gpu, replicas: 2}\n",
                        "config 'FILE' line 3: sharing.timeSlicing.maxPerRequest: 2, only with placement same-gpu, which "
                        "sharing.timeSlicing.resources[0] (line 5) does not have: set it there or for the section, or remove "
                        "this"},
                {MPS("      sms: 8\n" WEIGHTED),
                        "config 'FILE' line 6: sharing.mps.resources[0].sms: 8, only with provisioning sm: set "
                        "sharing.mps.provisioning: sm, or remove it"},
                {"sharing:\n  timeSlicing:\n    resources:\n    - {name: gpu, replicas: 2, sms: 8}\n",
                        "config 'FILE' line 4: sharing.timeSlicing.resources[0].sms: 8, only with provisioning sm: set "
                        "sharing.mps.provisioning: sm, or remove it"},
                {MPS("      sms: 0\n    provisioning: sm\n"),
                        "config 'FILE' line 6: sharing.mps.resources[0].sms: 0, must be from 1 to 4096"},
                {MPS("    provisioning: sm\n    daemonScope: resource\n"),
                        "config 'FILE' line 7: sharing.mps.daemonScope: resource, but provisioning sm gives SMs of one GPU: use "
                        "gpu, or another provisioning"},
                {MPS("    provisioning: half\n    tier: default\n"),
                        "config 'FILE' line 7: sharing.mps.tier: default, which has the same limits for every container, but with "
                        "provisioning half they differ: use verified or better, or provisioning uniform"},
                {MPS("    tier: best\n"),
                        "config 'FILE' line 6: sharing.mps.tier: 'best' is not a known value, use auto, default, verified, "
                        "partition or namespace"},
                {MPS("    scope: gpu\n"),
                        "config 'FILE' line 6: sharing.mps.scope: 'gpu' is not a known value, use aggregate or individual"},
                {MPS("    daemonScope: host\n"),
                        "config 'FILE' line 6: sharing.mps.daemonScope: 'host' is not a known value, use gpu, resource or "
                        "node"},
                {MPS("    guard: kill\n"),
                        "config 'FILE' line 6: sharing.mps.guard: 'kill' is not a known value, use off, report or terminate"},
                {MPS("    guard: on\n"),
                        "config 'FILE' line 6: sharing.mps.guard: 'on' is not a known value, use off, report or terminate"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_fails(build(&fixture, table[i][0], mps_root), &fixture.err, ERROR_INVALID, table[i][1]);
        }
}

static void test_a_policy_of_the_environment_is_as_explicit_as_one_of_the_file(void **state UNUSED)
{
        static const char *const environment[] = {
                "MPS_ROOT=/run/nvidia/mps", "SHARED_DEVICES_ALLOCATION_POLICY=packed", NULL};
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_fails(build(&fixture, MPS(WEIGHTED), environment), &fixture.err, ERROR_INVALID,
                "config 'FILE' line 2: sharing.mps: sharedDevicesAllocationPolicy is packed, " NOT_SEVERAL(
                        "set placement: same-gpu here"));
        assert_ok(build(&fixture, MPS(WEIGHTED "    placement: same-gpu\n"), environment), &fixture.err);
        assert_ok(build(&fixture, MPS(""), environment), &fixture.err);
}

static void test_what_is_no_amount_of_memory_is_refused(void **state UNUSED)
{
        static const char *const table[][2] = {{"1.5Gi", "\"1.5Gi\""}, {"512MB", "\"512MB\""}, {"512 Mi", "\"512 Mi\""},
                {"Mi", "\"Mi\""}, {"-1Mi", "\"-1Mi\""}, {"1025Gi", "\"1025Gi\""}, {"1048577Mi", "\"1048577Mi\""},
                {"true", "true"}, {"[1]", "[1]"}, {"99999999999999999999", "1e20"},
                {"99999999999999999999Gi", "\"99999999999999999999Gi\""}, {"AUTO", "\"AUTO\""}, {"''", "\"\""}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const char *text = arena_printf(&fixture.arena, MPS(WEIGHTED "    memoryReserve: %s\n"), table[i][0]);
                const char *expected = arena_printf(&fixture.arena,
                        "config 'FILE' line 7: sharing.mps.memoryReserve: %s, must be auto, or an amount of memory from 0 to "
                        "1048576 MiB: a number of MiB, or one with its unit (512Mi, 1Gi)",
                        table[i][1]);

                assert_fails(build(&fixture, text, mps_root), &fixture.err, ERROR_INVALID, expected);
        }
}

static void test_time_slicing_has_scope_and_a_largest_request_too(void **state UNUSED)
{
        static const char text[] = "sharing:\n"
                                   "  timeSlicing:\n"
                                   "    scope: individual\n"
                                   "    placement: same-gpu\n"
                                   "    maxPerRequest: 3\n"
                                   "    resources: [{name: gpu, replicas: 4}]\n";
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct sharing_section *slicing;

        assert_ok(build(&fixture, text, NULL), &fixture.err);
        slicing = fixture.config->sharing.time_slicing;
        assert_int_equal(slicing->scope, SCOPE_INDIVIDUAL);
        assert_int_equal(slicing->max_per_request, 3);
        assert_string_equal(fixture.warnings.data, "");
}

static void test_wrong_values_of_sharing_are_named(void **state UNUSED)
{
        static const struct {
                const char *text;
                enum error_kind kind;
                const char *expected;
        } table[] = {
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
                        "config 'FILE' line 5: sharing.mps.resources[0].replicas: 0, must be from 1 to 50000"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 50001}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: 50001, must be from 1 to 50000"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: -1}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: -1, must be from 1 to 50000"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: '4'}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: \"4\", must be a whole number"},
                {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4.5}]}}", ERROR_INVALID,
                        "config 'FILE' line 1: sharing.timeSlicing.resources[0].replicas: 4.5, must be a whole number"},
                {MPS("    provisioning: fair\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.provisioning: 'fair' is not a known value, use uniform, half, "
                        "weighted, sm or declared"},
                {MPS("    renameByDefault: 1\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.renameByDefault: 1, must be true or false"},
                {MPS("      rename: GPU\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.resources[0].rename: 'GPU' is not a resource name: use lower-case "
                        "letters, digits, '-' and '.', a letter or digit first and last"},
                {MPS("    placement: random\n"), ERROR_INVALID,
                        "config 'FILE' line 6: sharing.mps.placement: 'random' is not a known value, use distributed, packed, "
                        "distinct, same-gpu or prefer-same-gpu"},
                {MPS("      name: " NAME_OF_50 "x\n    renameByDefault: true\n"), ERROR_INVALID,
                        "config 'FILE' line 4: sharing.mps.resources[0]: 'nvidia.com/" NAME_OF_50
                        "x.shared', the name that renameByDefault gives, has 69 characters, at most 63: set rename"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_fails(build(&fixture, table[i].text, mps_root), &fixture.err, table[i].kind, table[i].expected);
        }
}

static void test_unknown_keys_of_sharing_are_warned_about(void **state UNUSED)
{
        static const char *const table[][2] = {
                {MPS("    Provisioning: half\n"),
                        "config 'FILE' line 6: sharing.mps.Provisioning: unknown key, ignored; did you mean 'provisioning'?\n"},
                {MPS("      replica: 5\n"),
                        "config 'FILE' line 6: sharing.mps.resources[0].replica: unknown key, ignored; did you mean "
                        "'replicas'?\n"},
                {"sharing:\n  timeSlicing:\n    provisioning: half\n    resources: [{name: gpu, replicas: 2}]\n",
                        "config 'FILE' line 3: sharing.timeSlicing.provisioning: unknown key, ignored\n"},
                {"sharing:\n  timeSlicing:\n    resources: [{name: gpu, replicas: 2, Rename: x}]\n",
                        "config 'FILE' line 3: sharing.timeSlicing.resources[0].Rename: unknown key, ignored; did you mean "
                        "'rename'?\n"},
                {"sharing:\n  timeSlicing:\n    guard: report\n    resources: [{name: gpu, replicas: 2}]\n",
                        "config 'FILE' line 3: sharing.timeSlicing.guard: unknown key, ignored\n"},
                {MPS("    maxPerRequests: 2\n"),
                        "config 'FILE' line 6: sharing.mps.maxPerRequests: unknown key, ignored; did you mean "
                        "'maxPerRequest'?\n"},
                {MPS("    memoryReserve: 512Mi\n"),
                        "config 'FILE' line 6: sharing.mps.memoryReserve: ignored, since provisioning uniform shares out all of "
                        "the memory\n"},
                {MPS("      devices: [0, 1, '0']\n"),
                        "config 'FILE' line 6: sharing.mps.resources[0].devices[2]: listed already, counts once\n"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_ok(build(&fixture, table[i][0], mps_root), &fixture.err);
                assert_string_equal(fixture.warnings.data, table[i][1]);
        }
}

/* ---- entries beside each other ---- */

#define ENTRY(rest) "{name: gpu, replicas: 2" rest "}"
#define SLICING(entries) "sharing:\n  timeSlicing:\n    resources:\n" entries
#define ALSO_MPS(entries) "  mps:\n    resources:\n" entries

static void test_entries_for_different_devices_stand_beside_each_other(void **state UNUSED)
{
        static const struct {
                const char *text;
                size_t n_slicing;
                size_t n_mps;
        } table[] = {
                {SLICING("    - " ENTRY(", devices: [0]") "\n    - " ENTRY(", devices: [1, '0:1']") "\n"), 2, 0},
                {SLICING("    - " ENTRY(", devices: [0]") "\n    - " ENTRY(", devices: 2") "\n"), 2, 0},
                {SLICING("    - " ENTRY(", devices: 1") "\n    - " ENTRY(", devices: 2, placement: packed") "\n"), 2,
                        0},
                {SLICING("    - " ENTRY(", devices: 1") "\n    - " ENTRY(", devices: 2, rename: x") "\n"), 2, 0},
                {SLICING("    - " ENTRY("") "\n    - {name: mig-1g.10gb, rename: gpu, replicas: 4}\n"), 2, 0},
                /* The second takes the rest. */
                {SLICING("    - " ENTRY(", devices: [0]") "\n    - " ENTRY(", rename: x") "\n"), 2, 0},
                /* Index 0 of one resource is another device than index 0 of another. */
                {SLICING("    - " ENTRY(", devices: [0]") "\n    - {name: a100, replicas: 4, devices: [0]}\n"), 2, 0},
                {SLICING("    - " ENTRY(", devices: [0]") "\n")
                                ALSO_MPS("    - " ENTRY(", rename: x, devices: [1]") "\n"),
                        1, 1},
                {SLICING("    - " ENTRY("") "\n") ALSO_MPS("    - {name: mig-1g.10gb, replicas: 3}\n"), 1, 1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                const struct sharing *sharing;

                assert_ok(build(&fixture, table[i].text, mps_root), &fixture.err);
                sharing = &fixture.config->sharing;
                assert_int_equal(sharing->time_slicing ? sharing->time_slicing->n_resources : 0, table[i].n_slicing);
                assert_int_equal(sharing->mps ? sharing->mps->n_resources : 0, table[i].n_mps);
                assert_string_equal(fixture.warnings.data, "");
        }
}

static void test_whole_numbers_may_be_written_as_floats(void **state UNUSED)
{
        static const struct {
                const char *text;
                unsigned int replicas;
        } table[] = {{"4.0", 4}, {"4.", 4}, {"1e1", 10}, {".4e1", 4}, {"08", 8}, {"010", 8}, {"0x10", 16}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();
                _free_ char *text =
                        xasprintf("sharing: {timeSlicing: {resources: [{name: gpu, replicas: %s, devices: [2.0]}]}}",
                                table[i].text);
                const struct shared_resource *resource;

                assert_ok(build(&fixture, text, NULL), &fixture.err);
                resource = &fixture.config->sharing.time_slicing->resources[0];
                assert_int_equal(resource->replicas, table[i].replicas);
                assert_int_equal(resource->devices.refs[0].gpu, 2);
        }
}

static void test_of_entries_that_are_there_twice_the_larger_one_counts(void **state UNUSED)
{
        static const char text[] = SLICING("    - " ENTRY("") "\n"
                                                              "    - {name: nvidia.com/gpu, replicas: 8}\n"
                                                              "    - {name: a100, replicas: 3}\n"
                                                              "    - {name: gpu, replicas: 5, devices: all}\n");
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();
        const struct sharing_section *section;

        assert_ok(build(&fixture, text, NULL), &fixture.err);
        assert_string_equal(fixture.warnings.data,
                "config 'FILE' line 5: sharing.timeSlicing.resources[1]: 'nvidia.com/gpu' is shared by the entry at line 4, too; "
                "the one with more replicas counts: 8\n"
                "config 'FILE' line 7: sharing.timeSlicing.resources[3]: 'nvidia.com/gpu' is shared by the entry at line 5, too; "
                "the one with more replicas counts: 8\n");
        section = fixture.config->sharing.time_slicing;
        assert_int_equal(section->n_resources, 2);
        assert_int_equal(section->resources[0].replicas, 8);
        assert_int_equal(section->resources[0].line, 5);
        assert_string_equal(section->resources[1].name, "nvidia.com/a100");
}

static void test_mps_wins_where_both_sections_share_a_resource(void **state UNUSED)
{
        static const char text[] = SLICING("    - {name: mig-1g.10gb, replicas: 2}\n"
                                           "    - " ENTRY("") "\n"
                                                              "    - {name: mig-2g.20gb, replicas: 2}\n")
                ALSO_MPS("    - " ENTRY(", devices: [1], rename: x") "\n    - {name: mig-2g.20gb, replicas: 3}\n");
        static const char only[] = SLICING("    - " ENTRY(", devices: [0]") "\n") ALSO_MPS("    - " ENTRY("") "\n");
        _cleanup_(fixture_done) struct fixture fixture = fixture_new();

        assert_ok(build(&fixture, text, mps_root), &fixture.err);
        assert_string_equal(fixture.warnings.data,
                "config 'FILE' line 5: sharing.timeSlicing.resources[1]: ignored, since sharing.mps (line 9) shares "
                "'nvidia.com/gpu', too; to share different GPUs differently, list the devices of both\n"
                "config 'FILE' line 6: sharing.timeSlicing.resources[2]: ignored, since sharing.mps (line 10) shares "
                "'nvidia.com/mig-2g.20gb', too; to share different GPUs differently, list the devices of both\n");
        assert_int_equal(fixture.config->sharing.time_slicing->n_resources, 1);
        assert_string_equal(fixture.config->sharing.time_slicing->resources[0].name, "nvidia.com/mig-1g.10gb");
        assert_int_equal(fixture.config->sharing.mps->n_resources, 2);

        assert_ok(build(&fixture, only, mps_root), &fixture.err);
        assert_null(fixture.config->sharing.time_slicing);
        assert_int_equal(fixture.config->sharing.mps->n_resources, 1);
}

static void test_entries_that_cannot_both_be_served_are_named(void **state UNUSED)
{
#define DIFFERS(what)                                                                                                  \
        "'nvidia.com/gpu' is the name of the entry at line 4, too, which has another " what                            \
        ": give one of them another rename"
        static const char *const table[][2] = {
                {SLICING("    - " ENTRY("") "\n    - " ENTRY(", rename: x") "\n"),
                        "config 'FILE' line 5: sharing.timeSlicing.resources[1]: 'nvidia.com/gpu' is shared already by the entry "
                        "at line 4; to share different GPUs differently, list the devices of one of them"},
                {SLICING("    - " ENTRY(", devices: [1, 0]") "\n    - " ENTRY(", devices: [2, '0']") "\n"),
                        "config 'FILE' line 5: sharing.timeSlicing.resources[1]: device 0 of 'nvidia.com/gpu' is listed at line 4 "
                        "already"},
                {SLICING("    - " ENTRY(", devices: ['0:1']") "\n")
                                ALSO_MPS("    - " ENTRY(", rename: x, devices: ['0:1']") "\n"),
                        "config 'FILE' line 7: sharing.mps.resources[0]: device 0:1 of 'nvidia.com/gpu' is listed at line 4 "
                        "already"},
                {SLICING("    - " ENTRY(", devices: [GPU-" UUID "]") "\n    - " ENTRY(
                         ", devices: [GPU-" UUID "]") "\n"),
                        "config 'FILE' line 5: sharing.timeSlicing.resources[1]: device GPU-" UUID
                        " of 'nvidia.com/gpu' is listed at line 4 already"},
                {SLICING("    - " ENTRY(", devices: [0]") "\n") ALSO_MPS("    - " ENTRY(", devices: [1]") "\n"),
                        "config 'FILE' line 7: sharing.mps.resources[0]: " DIFFERS("strategy")},
                {SLICING("    - " ENTRY(", devices: [0], placement: distinct") "\n    - " ENTRY(
                         ", devices: [1], placement: packed") "\n"),
                        "config 'FILE' line 5: sharing.timeSlicing.resources[1]: " DIFFERS("placement")},
                {SLICING("    - " ENTRY(
                         ", placement: distributed") "\n    - {name: a, rename: gpu, replicas: 4, placement: packed}\n"),
                        "config 'FILE' line 5: sharing.timeSlicing.resources[1]: " DIFFERS("placement")},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_new();

                assert_fails(build(&fixture, table[i][0], mps_root), &fixture.err, ERROR_INVALID, table[i][1]);
        }
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
        assert_string_equal(fixture.config->mps.root, "/run/nvidia/mps");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sharing_is_decoded),
                cmocka_unit_test(test_devices_are_all_a_number_or_a_list),
                cmocka_unit_test(test_what_is_no_device_is_refused),
                cmocka_unit_test(test_placement_is_that_of_the_entry_or_of_the_section),
                cmocka_unit_test(test_a_section_of_mps_says_how_its_daemons_are),
                cmocka_unit_test(test_under_a_name_of_nvidias_a_daemon_serves_a_resource),
                cmocka_unit_test(test_with_a_resource_for_each_unit_one_daemon_serves_the_node),
                cmocka_unit_test(test_where_a_container_cannot_have_several_units_they_are_not_offered),
                cmocka_unit_test(test_a_container_may_declare_up_to_the_ceilings),
                cmocka_unit_test(test_without_ceilings_a_container_may_declare_all),
                cmocka_unit_test(test_keys_of_a_section_that_exclude_each_other_are_named),
                cmocka_unit_test(test_a_policy_of_the_environment_is_as_explicit_as_one_of_the_file),
                cmocka_unit_test(test_what_is_no_amount_of_memory_is_refused),
                cmocka_unit_test(test_time_slicing_has_scope_and_a_largest_request_too),
                cmocka_unit_test(test_wrong_values_of_sharing_are_named),
                cmocka_unit_test(test_unknown_keys_of_sharing_are_warned_about),
                cmocka_unit_test(test_entries_for_different_devices_stand_beside_each_other),
                cmocka_unit_test(test_whole_numbers_may_be_written_as_floats),
                cmocka_unit_test(test_of_entries_that_are_there_twice_the_larger_one_counts),
                cmocka_unit_test(test_mps_wins_where_both_sections_share_a_resource),
                cmocka_unit_test(test_entries_that_cannot_both_be_served_are_named),
                cmocka_unit_test(test_mps_needs_its_directory),
        };

        return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
