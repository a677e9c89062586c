// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "cmd/cli/command.h"

struct fixture {
        struct arena arena;
        struct option_set set;
        struct error err;
};

static void fixture_done(struct fixture *fixture)
{
        arena_done(&fixture->arena);
}

static const struct command agent = {.is_agent = true};

/* At most seven arguments and variables each; the lists end with NULL. */
static int parse(struct fixture *fixture, const char *const *arguments, const char *const *environment)
{
        char *argv[9] = {(char[]){"warpshare"}};
        char *environ_[8] = {NULL};
        int argc = 1;

        for (; arguments && *arguments; arguments++)
                argv[argc++] = arena_strdup(&fixture->arena, *arguments);
        for (size_t i = 0; environment && environment[i]; i++)
                environ_[i] = arena_strdup(&fixture->arena, environment[i]);
        return command_parse(&agent, &fixture->set, NULL, &fixture->arena, argc, argv, environ_, &fixture->err);
}

static const char *text_of(const char *text)
{
        return text ? text : "(unset)";
}

static void test_flags_follow_the_syntax_of_go(void **state UNUSED)
{
        static const struct {
                const char *arguments[4];
                const char *flag;
                const char *value;
        } table[] = {
                {{NULL}, "mps-root", "(unset)"},
                {{"--mps-root", "/run/mps"}, "mps-root", "/run/mps"},
                {{"-mps-root", "/run/mps"}, "mps-root", "/run/mps"},
                {{"--mps-root=/run/mps"}, "mps-root", "/run/mps"},
                {{"-mps-root=a=b"}, "mps-root", "a=b"},
                {{"--mps-root="}, "mps-root", ""},
                {{"--mps-root", "--help"}, "mps-root", "--help"},
                {{"--mps-root=a", "--mps-root=b"}, "mps-root", "b"},
                {{"--nvidia-driver-root=/d"}, "driver-root", "/d"},
                {{"--container-driver-root", "/d"}, "driver-root-ctr-path", "/d"},
                {{"--fail-on-init-error"}, "fail-on-init-error", "true"},
                {{"--fail-on-init-error=F"}, "fail-on-init-error", "false"},
                {{"--fail-on-init-error", "--mps-root=x"}, "fail-on-init-error", "true"},
                {{"--device-id-strategy=index"}, "device-id-strategy", "index"},
                {{"--device-list-strategy", " envvar , envvar"}, "device-list-strategy", "envvar"},
                {{"--nvidia-dev-root=/d"}, "dev-root", "/d"},
                {{"--nvidia-ctk-path=/c"}, "nvidia-cdi-hook-path", "/c"},
                {{"-mig-strategy=mixed"}, "mig-strategy", "mixed"},
                {{"--device-discovery-strategy=tegra"}, "device-discovery-strategy", "tegra"},
                {{"--pass-device-specs", "--gds-enabled=0"}, "pass-device-specs", "true"},
                {{"--log-format=klog"}, "log-format", "klog"},
                /* Lists: a flag that is repeated appends. */
                {{"--device-list-strategy=cdi-cri", "--device-list-strategy=envvar,cdi-cri"}, "device-list-strategy",
                        "cdi-cri,envvar"},
                {{"--cdi-disable-hooks= a b ,c,,c"}, "cdi-disable-hooks", "a b,c,c"},
                {{"--cdi-disable-hooks=", "--cdi-disable-hooks=all"}, "cdi-disable-hooks", "all"},
                {{"--cdi-feature-flags=x", "--cdi-feature-flags="}, "cdi-feature-flags", "x"},
                {{"--imex-channel-ids=0x0"}, "imex-channel-ids", "0"},
                {{"--imex-channel-ids", " 00 , 0b0"}, "imex-channel-ids", "0"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = {0};

                assert_ok(parse(&fixture, table[i].arguments, NULL), &fixture.err);
                assert_string_equal(text_of(option_set_get(&fixture.set, table[i].flag)), table[i].value);
                assert_false(fixture.set.help);
        }
}

static void test_check_and_schema_are_asked_for_by_flag(void **state UNUSED)
{
        static const char *const broken[] = {"MIG_STRATEGY=wrong", NULL};
        _cleanup_(fixture_done) struct fixture fixture = {0};

        assert_ok(parse(&fixture, (const char *const[]){"--check", "--mps-root=/m", NULL}, NULL), &fixture.err);
        assert_true(fixture.set.check);
        assert_false(fixture.set.print_schema);
        assert_string_equal(option_set_get(&fixture.set, "mps-root"), "/m");
        assert_true(parse(&fixture, (const char *const[]){"--check", NULL}, broken) < 0); /* just what it is for */
        assert_ok(parse(&fixture, (const char *const[]){"-print-schema", NULL}, broken), &fixture.err);
        assert_true(fixture.set.print_schema);
        assert_false(fixture.set.check);
}

static void test_help_and_version_are_answered_first(void **state UNUSED)
{
        static const char *const broken[] = {"MIG_STRATEGY=wrong", NULL};
        _cleanup_(fixture_done) struct fixture fixture = {0};

        assert_ok(parse(&fixture, (const char *const[]){"-h", NULL}, broken), &fixture.err);
        assert_true(fixture.set.help);
        assert_ok(parse(&fixture, (const char *const[]){"--version", NULL}, broken), &fixture.err);
        assert_true(fixture.set.version);
        assert_false(fixture.set.help);
}

static void test_wrong_arguments_are_named_with_a_way_out(void **state UNUSED)
{
        static const struct {
                const char *arguments[3];
                enum error_kind kind;
                const char *text;
        } table[] = {
                {{"--mps-rot=/x"}, ERROR_INVALID, "unknown flag '--mps-rot'; did you mean '--mps-root'?"},
                {{"-nvidia-drivr-root", "/"}, ERROR_INVALID,
                        "unknown flag '--nvidia-drivr-root'; did you mean '--nvidia-driver-root'?"},
                {{"--frobnicate"}, ERROR_INVALID, "unknown flag '--frobnicate'; --help lists all"},
                {{"--"}, ERROR_INVALID, "unexpected argument '--'; --help lists the flags"},
                {{"agent"}, ERROR_INVALID, "unexpected argument 'agent'; --help lists the flags"},
                {{"--mps-root"}, ERROR_INVALID, "--mps-root: needs a value"},
                {{"--fail-on-init-error=maybe"}, ERROR_INVALID,
                        "fail-on-init-error: 'maybe' is not a boolean, use true or false"},
                {{"--mig-strategy=singel"}, ERROR_INVALID,
                        "mig-strategy: 'singel' is not a known value, use none, single or mixed"},
                {{"--device-id-strategy", "bus"}, ERROR_INVALID,
                        "device-id-strategy: 'bus' is not a known value, use uuid or index"},
                {{"--device-list-strategy=envvar,cdi"}, ERROR_INVALID,
                        "device-list-strategy: 'cdi' is not a known value, use envvar, volume-mounts, cdi-annotations or cdi-cri"},
                {{"--device-list-strategy="}, ERROR_INVALID,
                        "device-list-strategy: '' is not a known value, use envvar, volume-mounts, cdi-annotations or cdi-cri"},
                {{"--imex-channel-ids=0,2"}, ERROR_INVALID, "imex-channel-ids: '2' is not a known value, use 0"},
                {{"--imex-channel-ids=0x10"}, ERROR_INVALID, "imex-channel-ids: '16' is not a known value, use 0"},
                {{"--imex-channel-ids="}, ERROR_INVALID, "imex-channel-ids: '' is not a known value, use 0"},
                {{"--device-discovery-strategy=vfio"}, ERROR_INVALID,
                        "device-discovery-strategy: 'vfio' is not a known value, use auto, nvml or tegra"},
                {{"--shared-devices-allocation-policy=distinct"}, ERROR_INVALID,
                        "shared-devices-allocation-policy: 'distinct' is not a known value, use distributed or packed"},
                {{"--check=maybe"}, ERROR_INVALID, "check: 'maybe' is not a boolean, use true or false"},
                {{"--prnt-schema"}, ERROR_INVALID, "unknown flag '--prnt-schema'; did you mean '--print-schema'?"},
                {{"--log-level=trace"}, ERROR_INVALID,
                        "log-level: 'trace' is not a known value, use debug, info, warn or error"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = {0};

                assert_fails(parse(&fixture, table[i].arguments, NULL), &fixture.err, table[i].kind, table[i].text);
        }
}

static void test_variables_count_as_set_when_present(void **state UNUSED)
{
        static const struct {
                const char *environment[4];
                const char *flag;
                const char *value;
        } table[] = {
                {{"MPS_ROOT=/run/mps"}, "mps-root", "/run/mps"},
                {{"MPS_ROOT="}, "mps-root", ""},
                {{"MPS_ROOTS=/x", "XMPS_ROOT=/y"}, "mps-root", "(unset)"},
                {{"FAIL_ON_INIT_ERROR="}, "fail-on-init-error", "false"},
                {{"FAIL_ON_INIT_ERROR=1"}, "fail-on-init-error", "true"},
                {{"DEVICE_LIST_STRATEGY="}, "device-list-strategy", "(unset)"},
                {{"MIG_STRATEGY="}, "mig-strategy", "(unset)"},
                {{"CONTAINER_DRIVER_ROOT=/b", "DRIVER_ROOT_CTR_PATH=/a"}, "driver-root-ctr-path", "/a"},
                {{"CONTAINER_DRIVER_ROOT=/b", "DRIVER_ROOT_CTR_PATH="}, "driver-root-ctr-path", ""},
                {{"CONTAINER_DRIVER_ROOT=/b"}, "driver-root-ctr-path", "/b"},
                {{"WARPSHARE_LOG_FORMAT=json"}, "log-format", "json"},
                {{"NVIDIA_CTK_PATH=/b", "NVIDIA_CDI_HOOK_PATH="}, "nvidia-cdi-hook-path", ""},
                {{"NVIDIA_CTK_PATH=/b"}, "nvidia-cdi-hook-path", "/b"},
                {{"NVIDIA_DEV_ROOT="}, "dev-root", ""},
                {{"GDS_ENABLED="}, "gds-enabled", "false"},
                {{"IMEX_REQUIRED=T"}, "imex-required", "true"},
                {{"IMEX_CHANNEL_IDS="}, "imex-channel-ids", "(unset)"},
                {{"IMEX_CHANNEL_IDS=0"}, "imex-channel-ids", "0"},
                {{"CDI_FEATURE_FLAGS="}, "cdi-feature-flags", ""},
                {{"CDI_DISABLE_HOOKS=a,b"}, "cdi-disable-hooks", "a,b"},
                {{"DEVICE_LIST_STRATEGY=volume-mounts, envvar"}, "device-list-strategy", "volume-mounts,envvar"},
                {{"WARPSHARE_CDI_ROOT=/run/cdi"}, "cdi-root", "/run/cdi"},
                {{"WARPSHARE_SYSTEM_ROOT=/host"}, "system-root", "/host"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = {0};

                assert_ok(parse(&fixture, NULL, table[i].environment), &fixture.err);
                assert_string_equal(text_of(option_set_get(&fixture.set, table[i].flag)), table[i].value);
        }
}

static void test_a_wrong_variable_is_named(void **state UNUSED)
{
        static const char *const environment[] = {"MIG_STRATEGY=multiple", NULL};
        static const char *const boolean[] = {"FAIL_ON_INIT_ERROR=yes", NULL};
        _cleanup_(fixture_done) struct fixture fixture = {0};

        assert_fails(parse(&fixture, NULL, environment), &fixture.err, ERROR_INVALID,
                "mig-strategy (environment variable MIG_STRATEGY): 'multiple' is not a known value, use none, single or mixed");
        assert_fails(parse(&fixture, NULL, boolean), &fixture.err, ERROR_INVALID,
                "fail-on-init-error (environment variable FAIL_ON_INIT_ERROR): 'yes' is not a boolean, use true or false");
}

static void test_the_command_line_beats_the_environment(void **state UNUSED)
{
        static const char *const environment[] = {
                "MPS_ROOT=/env", "MIG_STRATEGY=wrong", "KUBELET_SOCKET=/s", "DEVICE_LIST_STRATEGY=cdi-cri", NULL};
        static const char *const arguments[] = {
                "--mps-root=/flag", "--mig-strategy=none", "--device-list-strategy=envvar", NULL};
        _cleanup_(fixture_done) struct fixture fixture = {0};

        assert_ok(parse(&fixture, arguments, environment), &fixture.err);
        assert_string_equal(option_set_get(&fixture.set, "mps-root"), "/flag");
        assert_string_equal(option_set_get(&fixture.set, "mig-strategy"), "none");
        assert_string_equal(option_set_get(&fixture.set, "kubelet-socket"), "/s");
        /* A list is not appended to what the environment has. */
        assert_string_equal(option_set_get(&fixture.set, "device-list-strategy"), "envvar");
        assert_int_equal(fixture.set.sources[option_find("mps-root")], OPTION_FLAG);
        assert_int_equal(fixture.set.sources[option_find("kubelet-socket")], OPTION_ENVIRONMENT);
        assert_int_equal(fixture.set.sources[option_find("config-file")], OPTION_DEFAULT);
}

static void test_every_default_is_a_legal_value(void **state UNUSED)
{
        for (size_t i = 0; i < option_count; i++) {
                _cleanup_(fixture_done) struct fixture fixture = {0};
                const char *value;

                assert_int_equal(option_find(option_table[i].flag), i);
                if (option_is_list(&option_table[i]) && !*option_table[i].fallback)
                        continue; /* the empty list */
                assert_ok(
                        option_check(&option_table[i], option_table[i].fallback, &fixture.arena, &value, &fixture.err),
                        &fixture.err);
                assert_string_equal(value, option_table[i].fallback);
        }
}

static void test_help_names_everything_within_100_columns(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf help = STRBUF_INIT;

        for (size_t i = 0; i < option_count; i++)
                option_print_one(&help, &option_table[i]);
        for (size_t i = 0; i < OPTION_SWITCHES; i++)
                option_print_one(&help, &option_switches[i]);
        for (size_t i = 0; i < option_count; i++) {
                assert_non_null(strstr(help.data, option_table[i].flag));
                assert_non_null(strstr(help.data, option_table[i].environment[0]));
                if (option_table[i].key)
                        assert_non_null(strstr(help.data, option_table[i].key));
        }
        assert_non_null(strstr(help.data, "  --check  "));
        assert_non_null(strstr(help.data, "  --print-schema  "));
        assert_non_null(strstr(help.data,
                "  --driver-root PATH            root of the driver installation, on the host (default /; env\n"
                "                                NVIDIA_DRIVER_ROOT; key flags.nvidiaDriverRoot; also\n"
                "                                --nvidia-driver-root)\n"));
        assert_non_null(strstr(help.data, "  -h, --help                    show this text\n"));
        for (const char *line = help.data; *line; line = strchr(line, '\n') + 1)
                assert_in_range(strcspn(line, "\n"), 1, 100);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_flags_follow_the_syntax_of_go),
                cmocka_unit_test(test_check_and_schema_are_asked_for_by_flag),
                cmocka_unit_test(test_help_and_version_are_answered_first),
                cmocka_unit_test(test_wrong_arguments_are_named_with_a_way_out),
                cmocka_unit_test(test_variables_count_as_set_when_present),
                cmocka_unit_test(test_a_wrong_variable_is_named),
                cmocka_unit_test(test_the_command_line_beats_the_environment),
                cmocka_unit_test(test_every_default_is_a_legal_value),
                cmocka_unit_test(test_help_names_everything_within_100_columns),
        };

        return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
