/* Lines are those of NVIDIA's manual for r615 where it has some. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "mps/control/dialogue_v3.h"

static void is(const char *const *arguments, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (; *arguments; arguments++)
                strbuf_printf(&text, "%s%s", text.size ? "|" : "", *arguments);
        assert_string_equal(text.data, expected);
}

static void test_arguments_are_spelled_as_the_manual_has_them(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        is(dialogue_v3_server_create(&arena, "training", 1000, "GPU-1,GPU-2"),
                "server|create|training|--uid=1000|--allowed-devices=GPU-1,GPU-2");
        is(dialogue_v3_server_list(&arena), "server|list|--format=csv,noheader");
        is(dialogue_v3_namespace_create(&arena, "training", "g1"), "namespace|create|g1|--server=training");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 333, 1630),
                "namespace|set|g1|--server=training|--active-thread-percentage=33|--pinned-memory-limit=1630M");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 0, 1630),
                "namespace|set|g1|--server=training|--pinned-memory-limit=1630M");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 1, 0),
                "namespace|set|g1|--server=training|--active-thread-percentage=1");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 1000, 0),
                "namespace|set|g1|--server=training|--active-thread-percentage=100");
        is(dialogue_v3_namespace_delete(&arena, "training", "g1", true),
                "namespace|delete|g1|--server=training|--force");
        is(dialogue_v3_namespace_delete(&arena, "training", "g1", false), "namespace|delete|g1|--server=training");
        is(dialogue_v3_namespace_list(&arena, "training"), "namespace|list|--server=training|--format=csv,noheader");
        is(dialogue_v3_namespace_get(&arena, "training", "g1", DIALOGUE_V3_LIMIT),
                "namespace|get|g1|training|pinned-memory-limit");
        is(dialogue_v3_server_set(&arena, "training", 505, 8192),
                "server|set|training|--active-thread-percentage=50|--pinned-memory-limit=8192M");
        is(dialogue_v3_client_list(&arena), "client|list|--all|--format=csv,noheader");
        is(dialogue_v3_client_get(&arena, 51023, DIALOGUE_V3_SERVER), "client|get|51023|server");
        is(dialogue_v3_client_get(&arena, 51023, DIALOGUE_V3_NAMESPACE), "client|get|51023|maws-ns");
        is(dialogue_v3_quit(&arena), "-q");
        assert_string_equal(dialogue_v3_own_server(&arena, 0), "uid_0");
        is(dialogue_v3_client_terminate(&arena, 51023), "client|terminate|51023");
}

static void test_names_are_lower_case_and_short(void **state UNUSED)
{
        static const char *const good[] = {
                "a", "g1a2b", "_", "0", "0123456789012345678901234567890123456789012345678901234567890123"};
        static const char *const bad[] = {"", "A", "a-b", "a.b", "../x", "a b", "ä", "--all",
                "01234567890123456789012345678901234567890123456789012345678901234"};

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                assert_true(dialogue_v3_is_name(good[i]));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(dialogue_v3_is_name(bad[i]));
}

static void test_servers_are_read(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_v3_server *servers = NULL;
        size_t count = 9;
        struct error err;

        assert_ok(dialogue_v3_read_servers("training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-\n"
                                           "uid_0,0,-,Stopped,/run/nvidia-mps/uid_0,GPU-1,GPU-2,-",
                          &arena, &servers, &count, &err),
                &err);
        assert_int_equal(count, 2);
        assert_string_equal(servers[0].name, "training");
        assert_int_equal(servers[0].uid, 1000);
        assert_int_equal(servers[0].pid, 48201);
        assert_string_equal(servers[0].status, "Ready");
        assert_string_equal(servers[0].pipe_directory, "/run/nvidia-mps/training");
        assert_string_equal(servers[0].devices, "GPU-abcd-1234");
        assert_int_equal(servers[1].pid, 0);
        assert_string_equal(servers[1].devices, "GPU-1,GPU-2");
        assert_ok(dialogue_v3_read_servers("", &arena, &servers, &count, &err), &err);
        assert_int_equal(count, 0);
}

static void test_namespaces_are_read_with_their_limits(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_v3_namespace *namespaces = NULL;
        size_t count = 9;
        struct error err;

        assert_ok(dialogue_v3_read_namespaces(
                          "high_priority,training,Ready,4G,33,0,/run/nvidia-mps/training/high_priority\n"
                          "default,training,Ready,-,100.0,-,/run/nvidia-mps/training/default\n",
                          &arena, &namespaces, &count, &err),
                &err);
        assert_int_equal(count, 2);
        assert_string_equal(namespaces[0].name, "high_priority");
        assert_string_equal(namespaces[0].server, "training");
        assert_string_equal(namespaces[0].server_status, "Ready");
        assert_true(namespaces[0].limit_mib == 4096);
        assert_int_equal(namespaces[0].permille, 330);
        assert_string_equal(namespaces[0].pipe_directory, "/run/nvidia-mps/training/high_priority");
        assert_true(namespaces[1].limit_mib == 0);
        assert_int_equal(namespaces[1].permille, 1000);
}

static void test_clients_are_read_and_lines_that_a_tenant_wrote_hide_none(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_v3_client *clients = NULL;
        size_t count = 9;
        struct error err;

        assert_ok(dialogue_v3_read_clients("51023,training,0,default,python train.py\n"
                                           "and more, of, the, same, command\n"
                                           "51087,training,0,high_priority,python -c 'a, b'\n",
                          &arena, &clients, &count, &err),
                &err);
        assert_int_equal(count, 2);
        assert_int_equal(clients[0].pid, 51023);
        assert_string_equal(clients[0].server, "training");
        assert_string_equal(clients[0].device, "0");
        assert_string_equal(clients[0].name_space, "default");
        assert_string_equal(clients[0].command, "python train.py");
        assert_string_equal(clients[1].command, "python -c 'a, b'");
}

static void test_a_field_is_what_was_set_or_an_error_with_both(void **state UNUSED)
{
        struct error err;

        assert_ok(dialogue_v3_check_limit("4G", 4096, &err), &err);
        assert_ok(dialogue_v3_check_limit("1630M", 1630, &err), &err);
        assert_ok(dialogue_v3_check_limit("1G", 1630, &err), &err);
        assert_fails(dialogue_v3_check_limit("2G", 1630, &err), &err, ERROR_INVALID,
                "memory limit: 1630 MiB were set, its control daemon reports 2048 MiB");
        assert_int_equal(dialogue_v3_check_limit("Error", 1630, &err), -1);
        assert_ok(dialogue_v3_check_threads("33", 333, &err), &err);
        assert_ok(dialogue_v3_check_threads("33.0", 333, &err), &err);
        assert_ok(dialogue_v3_check_threads("1", 3, &err), &err);
        assert_fails(dialogue_v3_check_threads("34.5", 333, &err), &err, ERROR_INVALID,
                "active thread percentage: 33 was set, its control daemon reports 34.5");
        assert_int_equal(dialogue_v3_check_threads("", 333, &err), -1);
}

static void test_lists_that_are_none_are_shown(void **state UNUSED)
{
        static const char *const servers[] = {"No servers", "training,1000,48201,Ready,/run",
                "training,x,48201,Ready,/run,GPU-1,-", "training,1000,-1,Ready,/run,GPU-1,-",
                "Training,1000,1,Ready,/run,GPU-1,-", "training,1000,2147483648,Ready,/run,GPU-1,-"};
        static const char *const namespaces[] = {"g1,training,Ready,4G,33,0", "g1,training,Ready,4T,33,0,/run",
                "g1,training,Ready,4G,101,0,/run", "g/1,training,Ready,4G,33,0,/run", "g1,,Ready,4G,33,0,/run"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct error err;
        size_t count;

        for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
                _free_ char *expected = xasprintf("MPS control daemon: '%s' is no MPS server", servers[i]);
                struct dialogue_v3_server *ret;

                assert_fails(dialogue_v3_read_servers(servers[i], &arena, &ret, &count, &err), &err, ERROR_INVALID,
                        expected);
        }
        for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
                _free_ char *expected = xasprintf("MPS control daemon: '%s' is no MPS namespace", namespaces[i]);
                struct dialogue_v3_namespace *ret;

                assert_fails(dialogue_v3_read_namespaces(namespaces[i], &arena, &ret, &count, &err), &err,
                        ERROR_INVALID, expected);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_arguments_are_spelled_as_the_manual_has_them),
                cmocka_unit_test(test_names_are_lower_case_and_short),
                cmocka_unit_test(test_servers_are_read),
                cmocka_unit_test(test_namespaces_are_read_with_their_limits),
                cmocka_unit_test(test_clients_are_read_and_lines_that_a_tenant_wrote_hide_none),
                cmocka_unit_test(test_a_field_is_what_was_set_or_an_error_with_both),
                cmocka_unit_test(test_lists_that_are_none_are_shown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
